//! [`create`]: writes the rows of a query as a new store.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, plan_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use serde_json::{Map, Value, json};

use super::chunk_tasks::ChunkTasks;
use super::columns::{
    ColumnPlan, Layout, SAMPLES_CHUNK, VARIANTS_CHUNK, n_samples, plan_columns, site_columns,
};
use super::names::{NameIndex, WrittenNames};
use super::options::WriteOptions;
use super::other_arrays::{WholeArray, contig_lengths, copied_arrays, names_array};
use super::plan_tables::PlanTables;
use super::regions::Regions;
use super::rows::{write_rows, write_whole};
use super::sites::{Sites, region_index};
use crate::error::VczError;
use crate::scan::calls::context::SAMPLES_KEY;
use crate::scan::stores::Stores;
use crate::store::ZarrFormat;
use crate::store::write::{Documents, Place, Target};

/// A new store that a query fills.
#[derive(Debug, Clone)]
pub struct Creation {
    /// Where it is written.
    pub place: Place,
    /// The options of the statement.
    pub options: WriteOptions,
    /// The VCZ tables of the query.
    pub tables: PlanTables,
    /// The query's columns.
    pub schema: SchemaRef,
    /// Whether the rows are in the order of a table or of ORDER BY, so that variants out of order are no error.
    pub keeps_order: bool,
    /// The stores that the header and the other arrays come from.
    base: Option<Arc<Stores>>,
    layout: Layout,
    columns: Vec<ColumnPlan>,
    names: Names,
}

/// Names of a new store.
#[derive(Debug, Clone, Default)]
struct Names {
    contigs: Vec<String>,
    filters: Vec<String>,
    samples: Vec<String>,
}

impl Creation {
    /// Plans a new store.
    ///
    /// # Errors
    /// If a column has no place in a store, or names of samples, contigs or filters are not known.
    pub fn try_new(
        place: Place,
        options: WriteOptions,
        tables: PlanTables,
        schema: SchemaRef,
        keeps_order: bool,
    ) -> Result<Self> {
        site_columns(&schema)?;
        let stores = match (&options.contigs, &options.filters) {
            // The statement says what tables may disagree about.
            (Some(_), Some(_)) => tables.stores().ok().flatten(),
            _ => tables.stores()?,
        };
        let contigs = match (&options.contigs, stores) {
            (Some(contigs), _) => contigs.clone(),
            (None, Some(stores)) => stores.contigs().to_vec(),
            (None, None) => {
                return plan_err!(
                    "the query reads no VCZ table (or none of its rows can match, so that planning left it out), so the contigs are not known; name them in the order of the new store: OPTIONS \
                     ('vcz.contigs' 'chr1,chr2')"
                );
            }
        };
        let has_filters = schema.index_of("variant_filter").is_ok();
        let filters = match (&options.filters, stores) {
            (Some(filters), _) => filters.clone(),
            (None, Some(stores)) => stores.filters().to_vec(),
            (None, None) if has_filters => {
                return plan_err!(
                    "the query reads no VCZ table, so the filters are not known; name them: OPTIONS ('vcz.filters' 'PASS,q10')"
                );
            }
            (None, None) => vec![],
        };
        let layout = Layout {
            format: options.format.unwrap_or(ZarrFormat::V2),
            variants_chunk: options.variants_chunk_size.unwrap_or(VARIANTS_CHUNK),
            samples_chunk: options.samples_chunk_size.unwrap_or(SAMPLES_CHUNK),
            compression: options.compression,
            n_contigs: contigs.len(),
            n_filters: filters.len(),
        };
        let columns = plan_columns(&schema, layout, &tables)?;
        let samples = sample_ids(&options, &tables, &schema, &columns)?;
        let base = tables.stores_with(&samples).cloned();
        Ok(Self {
            place,
            options,
            tables,
            schema,
            keeps_order,
            base,
            layout,
            columns,
            names: Names {
                contigs,
                filters,
                samples,
            },
        })
    }

    /// Whether the store is an archive.
    fn is_archive(&self) -> bool {
        let path = self.place.path.as_ref().to_ascii_lowercase();
        let by_name = path.ends_with(".zip");
        self.options.zip.unwrap_or(by_name)
    }
}

/// The ids of the samples of the new store.
fn sample_ids(
    options: &WriteOptions,
    tables: &PlanTables,
    schema: &SchemaRef,
    columns: &[ColumnPlan],
) -> Result<Vec<String>> {
    let n = n_samples(columns)?;
    PlanTables::samples_key(schema)?;
    let of_calls = |plan: &&ColumnPlan| plan.array.name.starts_with("call_");
    let fields = || {
        let calls = columns.iter().filter(of_calls);
        calls.map(|plan| schema.field(plan.at))
    };
    let known = fields().find_map(|field| tables.sample_ids_of(field));
    if let Some(samples) = &options.samples {
        return match (n, known) {
            (Some(n), _) if n != samples.len() as u64 => plan_err!(
                "option 'vcz.samples' names {} samples, but the query's calls are of {n}",
                samples.len()
            ),
            (Some(_), Some(known)) if known != samples => plan_err!(
                "option 'vcz.samples' names other samples than those of the query's calls, which are known; leave it out"
            ),
            _ => Ok(samples.clone()),
        };
    }
    let Some(n) = n else {
        // Without calls the store has the samples of its table.
        return match tables.sample_sets()[..] {
            [] => Ok(vec![]),
            [samples] => Ok(samples.to_vec()),
            _ => plan_err!(
                "the tables of the query have different samples, so it is not known which the new store has; name them with 'vcz.samples'"
            ),
        };
    };
    let mut unmarked = fields().filter(|field| !field.metadata().contains_key(SAMPLES_KEY));
    if let Some(field) = unmarked.next()
        && (known.is_none() || tables.sample_sets_of_calls() > 1)
    {
        return plan_err!(
            "the ids of the {n} samples of column '{}' are not known, as it is computed from calls; name them: OPTIONS ('vcz.samples' \
             'id1,id2')",
            field.name()
        );
    }
    match known {
        Some(ids) if ids.len() as u64 == n => Ok(ids.to_vec()),
        _ => plan_err!(
            "the ids of the {n} samples of the query's calls are not known, as no VCZ table of the query has these samples; name them: \
             OPTIONS ('vcz.samples' 'id1,id2')"
        ),
    }
}

/// Writes the rows of `data`. Returns their number.
///
/// # Errors
/// If a value has no place in its array, variants are out of order, or writing fails. Then nothing is left of the store.
pub async fn create(
    creation: &Creation,
    data: SendableRecordBatchStream,
    context: &Arc<TaskContext>,
) -> Result<u64> {
    // An archive that is uploaded is a temporary file before.
    let is_uploaded = creation.is_archive() && creation.place.local.is_none();
    let disk = &context.runtime_env().disk_manager;
    let scratch = match is_uploaded {
        true => Some(disk.create_tmp_file("VCZ archive that is written")?),
        false => None,
    };
    let path = scratch.as_ref().and_then(|file| file.path());
    let path = path.map(Path::to_path_buf);
    let target = Target::create(
        creation.place.clone(),
        creation.is_archive(),
        creation.options.overwrite,
        path,
    );
    let target = Arc::new(target.await?);
    let mut tasks = ChunkTasks::try_new(Arc::clone(&target), context)?;
    let written = write(creation, &target, &mut tasks, data).await;
    if written.is_err() {
        tasks.stop().await;
        target.abort().await;
    }
    written
}

async fn write(
    creation: &Creation,
    target: &Arc<Target>,
    tasks: &mut ChunkTasks,
    data: SendableRecordBatchStream,
) -> Result<u64> {
    let names = Arc::new(WrittenNames {
        contigs: NameIndex::new(&creation.names.contigs),
        filters: NameIndex::new(&creation.names.filters),
    });
    let mut documents = Documents::new(creation.layout.format);
    let mut regions = Regions::new(creation.layout.variants_chunk, !creation.keeps_order);
    let sites = Sites::of(&creation.schema)?;
    let rows = write_rows(
        &creation.columns,
        &creation.schema,
        &names,
        tasks,
        data,
        &mut documents,
        |batch| sites.follow(batch, &names, &mut regions),
    )
    .await?;
    let mut whole = other_arrays(creation).await?;
    if let Some(index) = regions.index().filter(|_| sites.has_ends()) {
        whole.push(region_index(index, creation.layout));
    }
    for array in whole {
        write_whole(array, tasks, &mut documents).await?;
    }
    let documents = documents.of_store(attributes(creation));
    let documents = documents.map_err(|reason| VczError::Metadata {
        store: creation.place.location.clone(),
        what: "consolidated metadata".to_string(),
        reason: reason.into(),
    })?;
    target.publish(documents).await?;
    Ok(rows)
}

/// The arrays that are not over variants.
async fn other_arrays(creation: &Creation) -> Result<Vec<WholeArray>> {
    let (names, layout) = (&creation.names, creation.layout);
    let stores = creation.base.as_ref();
    let known = |name: &str| {
        let member = stores.and_then(|stores| stores.members().first())?;
        member.dataset.store().array(name)
    };
    let mut whole = vec![names_array(
        "contig_id",
        "contigs",
        &names.contigs,
        layout,
        known("contig_id"),
    )?];
    if !names.filters.is_empty() {
        whole.push(names_array(
            "filter_id",
            "filters",
            &names.filters,
            layout,
            known("filter_id"),
        )?);
    }
    whole.push(names_array(
        "sample_id",
        "samples",
        &names.samples,
        layout,
        known("sample_id"),
    )?);
    let Some(stores) = stores else {
        return Ok(whole);
    };
    // Names that the statement gives stand for others than the store's.
    let is_of_store = names.contigs == stores.contigs() && names.filters == stores.filters();
    if stores.members().len() > 1
        && let Some(lengths) = stores.contig_lengths()
        && is_of_store
    {
        whole.push(contig_lengths(lengths, layout));
    }
    let all = stores.sample_ids();
    let places: HashMap<&String, usize> = all.iter().enumerate().map(|(at, id)| (id, at)).collect();
    let kept: Option<Vec<usize>> = match names.samples == all {
        true => None,
        false => Some(
            names
                .samples
                .iter()
                .filter_map(|id| places.get(id).copied())
                .collect(),
        ),
    };
    let has_others = kept
        .as_ref()
        .is_some_and(|kept| kept.len() != names.samples.len());
    if is_of_store && !has_others {
        whole.extend(copied_arrays(stores, kept.as_deref(), layout).await?);
    }
    Ok(whole)
}

/// The attributes of the group: those of the table's store, which has the header of the VCF file, or those of any store.
fn attributes(creation: &Creation) -> Map<String, Value> {
    let store = creation.base.as_ref();
    let store = store.and_then(|stores| stores.members().first());
    let known = store.map(|member| member.dataset.store().attributes().clone());
    let mut attributes = known.unwrap_or_default();
    // The first version of VCF Zarr had these instead of arrays.
    let stale = ["contigs", "filters", "samples"].map(|name| attributes.remove(name));
    if stale.iter().any(Option::is_some) {
        attributes.insert("vcf_zarr_version".to_string(), json!("0.4"));
    }
    attributes
        .entry("vcf_zarr_version")
        .or_insert_with(|| json!("0.4"));
    attributes
        .entry("source")
        .or_insert_with(|| json!(concat!("datafusion-vcz-", env!("CARGO_PKG_VERSION"))));
    attributes
}
