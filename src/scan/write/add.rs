//! [`add`]: writes the rows of a query as new arrays of a store that is there, such as masks beside the data.

use std::fs::File;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Int64Type, SchemaRef};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use futures::{StreamExt, TryStreamExt};
use url::Url;

use super::added_samples::{SAMPLE_ID, sample_arrays, sample_columns};
use super::added_sites::SiteDigests;
use super::chunk_tasks::ChunkTasks;
use super::columns::{ColumnPlan, Layout, SAMPLES_CHUNK, VARIANTS_CHUNK, n_samples, plan_columns};
use super::names::{NameIndex, WrittenNames};
use super::options::WriteOptions;
use super::plan_tables::PlanTables;
use super::rows::{write_rows, write_whole};
use super::values::contig_codes;
use crate::scan::blocking::blocking;
use crate::scan::dataset::Dataset;
use crate::scan::schema::ColumnKind;
use crate::scan::table_options::RegionIndexMode;
use crate::store::Store;
use crate::store::write::{Documents, Place, Target};

/// New arrays that a query fills.
#[derive(Debug, Clone)]
pub struct Addition {
    place: Place,
    options: WriteOptions,
    tables: PlanTables,
    schema: SchemaRef,
    /// Whether the rows are those of the store because the query is a projection of its table.
    is_projection: bool,
}

/// The columns that say where a variant is. They are compared with the store's, and not written.
const SITE: [&str; 2] = ["variant_contig", "variant_position"];

impl Addition {
    /// Plans new arrays. `is_plain` says that the query has a row for each row of its only table, in the same order.
    ///
    /// # Errors
    /// If it is not known that the rows are those of the store.
    pub async fn try_new(
        place: Place,
        options: WriteOptions,
        tables: PlanTables,
        schema: SchemaRef,
        is_plain: bool,
    ) -> Result<Self> {
        let path = place.local.clone();
        let is_missing = move || path.is_some_and(|path| !path.exists());
        if blocking(is_missing).await? {
            return plan_err!(
                "there is no store '{}' that could get new arrays; without the option 'vcz.mode' COPY writes a new store",
                place.location
            );
        }
        let of_samples = schema.index_of(SAMPLE_ID).is_ok();
        let mut names = schema.fields().iter().map(|field| field.name());
        if let Some(name) = names.find(|name| !of_samples && name.starts_with("sample_")) {
            return plan_err!(
                "'{name}' is named like an array over the samples: select {SAMPLE_ID}, too, which says whose the values are; name an array \
                 over the variants 'variant_…'"
            );
        }
        let sites = SITE.map(|name| schema.index_of(name).is_ok());
        if sites[0] != sites[1] {
            return plan_err!(
                "select both variant_contig and variant_position, which are compared with the store's, or neither"
            );
        }
        let has_sites = sites[0];
        let store = tables.only_store();
        let is_same = match store {
            Some(store) => is_same_place(store.location(), &place).await?,
            None => false,
        };
        if !(of_samples || has_sites || (is_plain && is_same)) {
            return plan_err!(
                "it is not known whether the rows of the query are the variants of '{}' in its order: select variant_contig and \
                 variant_position, too, which are compared with the store's and not written, and order the rows by them as the store has \
                 them; or select columns of the store's own table without WHERE, ORDER BY and LIMIT",
                place.location
            );
        }
        Ok(Self {
            place,
            options,
            tables,
            schema,
            is_projection: is_plain && is_same,
        })
    }
}

/// Whether a table's location is that of `place`.
async fn is_same_place(location: &str, place: &Place) -> Result<bool> {
    let Some(path) = place.local.clone() else {
        return Ok(location.trim_end_matches('/') == place.location.trim_end_matches('/'));
    };
    let url = Url::parse(location)
        .ok()
        .filter(|url| url.scheme() == "file");
    let local = url.and_then(|url| url.to_file_path().ok());
    let local = local.unwrap_or_else(|| location.into());
    let is_same = move || {
        let paths = (std::fs::canonicalize(local), std::fs::canonicalize(path));
        matches!(paths, (Ok(one), Ok(other)) if one == other)
    };
    blocking(is_same).await
}

/// Writes the rows of `data`. Returns their number.
///
/// # Errors
/// If the rows are not those of the store, an array is there already, or writing fails. Then the store is as before, unless an object store
/// fails while arrays are put in the place of others; the error says so.
pub async fn add(
    addition: &Addition,
    data: SendableRecordBatchStream,
    context: &Arc<TaskContext>,
) -> Result<u64> {
    let place = &addition.place;
    let store = open(place).await?;
    if store.is_archive() {
        return exec_err!(
            "'{}' is a zip archive, which cannot get new arrays: write a copy with them, COPY (SELECT *, … FROM t) TO 'copy.vcz.zip', or add \
             them to the folder that the archive was made of",
            place.location
        );
    }
    let dataset = Dataset::open(store, RegionIndexMode::Ignore).await?;
    let rows = match addition.schema.index_of(SAMPLE_ID) {
        Ok(_) => add_samples(addition, &dataset, data, context).await,
        Err(_) => add_variants(addition, &dataset, data, context).await,
    }?;
    // Readers of consolidated metadata would not see the arrays. Of statements that add arrays at once, the last one lists all of them.
    let lock = locked(place).await;
    let store = open(place).await?;
    if store.has_consolidated().await? {
        store.consolidate().await?;
    }
    drop(lock);
    Ok(rows)
}

/// The lock of the store's folder; `None` where it cannot be locked.
async fn locked(place: &Place) -> Option<File> {
    let path = place.local.clone()?;
    let lock = tokio::task::spawn_blocking(move || {
        let folder = File::open(path)?;
        folder.lock().map(|()| folder)
    });
    lock.await.ok()?.ok()
}

async fn open(place: &Place) -> Result<Store> {
    let store = Store::open(
        Arc::clone(&place.objects),
        place.path.clone(),
        place.location.clone(),
        place.local.clone(),
    );
    Ok(store.await?)
}

fn layout(addition: &Addition, dataset: &Dataset) -> Layout {
    let options = &addition.options;
    let mut columns = dataset.columns().iter();
    let positions = columns.find(|column| column.kind == ColumnKind::Position);
    // Chunks that line up with the store's are read without waste.
    let variants = positions.map_or(VARIANTS_CHUNK, |column| column.array.chunks[0]);
    Layout {
        format: dataset.store().format(),
        variants_chunk: options.variants_chunk_size.unwrap_or(variants),
        samples_chunk: options.samples_chunk_size.unwrap_or(SAMPLES_CHUNK),
        compression: options.compression,
        n_contigs: dataset.names().contigs.len(),
        n_filters: dataset.names().filters.len(),
    }
}

async fn target(addition: &Addition, plans: &[ColumnPlan]) -> Result<Arc<Target>> {
    let arrays = plans.iter().map(|plan| plan.array.name.clone()).collect();
    let overwrite = addition.options.overwrite;
    let target = Target::add(addition.place.clone(), arrays, overwrite).await?;
    Ok(Arc::new(target))
}

/// Makes the arrays visible. Those that they replace are not in the consolidated metadata meanwhile.
async fn publish(
    addition: &Addition,
    dataset: &Dataset,
    target: &Target,
    documents: Documents,
) -> Result<()> {
    let (store, documents) = (dataset.store(), documents.of_arrays());
    // In an object store the chunks are replaced one after the other.
    let one_by_one = addition.place.local.is_none();
    let is_unlisted = addition.options.overwrite && store.unlist(&documents, one_by_one).await?;
    let published = target.publish(documents).await;
    if published.is_err()
        && is_unlisted
        && let Err(error) = store.consolidate().await
    {
        log::warn!(
            "store '{}': arrays that were to be replaced are not in its consolidated metadata: {error}",
            addition.place.location
        );
    }
    Ok(published?)
}

async fn add_variants(
    addition: &Addition,
    dataset: &Dataset,
    data: SendableRecordBatchStream,
    context: &Arc<TaskContext>,
) -> Result<u64> {
    let schema = &addition.schema;
    let layout = layout(addition, dataset);
    let mut plans = plan_columns(schema, layout, &addition.tables)?;
    plans.retain(|plan| !SITE.contains(&plan.array.name.as_str()));
    if plans.is_empty() {
        return plan_err!("the query has no column that could be a new array");
    }
    let stored = dataset.sample_ids().len() as u64;
    if let Some(n) = n_samples(&plans)?
        && n != stored
    {
        return plan_err!(
            "the query's calls are of {n} samples, and store '{}' has {stored}",
            addition.place.location
        );
    }
    check_samples(addition, dataset, &plans)?;
    check_names(dataset, &plans)?;
    let names = Arc::new(WrittenNames {
        contigs: NameIndex::new(&dataset.names().contigs),
        filters: NameIndex::new(&dataset.names().filters),
    });
    let sites = match SITE.map(|name| schema.index_of(name)) {
        [Ok(contig), Ok(position)] => Some((contig, position)),
        _ => None,
    };
    let target = target(addition, &plans).await?;
    let mut tasks = ChunkTasks::try_new(Arc::clone(&target), context)?;
    let written = async {
        let mut digests = SiteDigests::default();
        let mut documents = Documents::new(layout.format);
        let follow = |batch: &RecordBatch| {
            let Some((contig, position)) = sites else {
                return Ok(());
            };
            let contigs = contig_codes(SITE[0], batch.column(contig), &names)?;
            let positions = cast(batch.column(position), &DataType::Int64)?;
            let positions = positions.as_primitive::<Int64Type>().values();
            for (&contig, &position) in contigs.iter().zip(positions) {
                digests.push(contig as i64, position);
            }
            Ok(())
        };
        let rows = write_rows(
            &plans,
            schema,
            &names,
            &mut tasks,
            data,
            &mut documents,
            follow,
        );
        let rows = rows.await?;
        let (location, n_variants) = (&addition.place.location, dataset.n_variants());
        if rows != n_variants {
            return exec_err!(
                "the query has {rows} rows, and store '{location}' has {n_variants} variants; new arrays have one value for each variant, in \
                 the store's order"
            );
        }
        if sites.is_some() {
            let (stored, has_repeats) = stored_sites(dataset).await?;
            digests.check(stored, location)?;
            if has_repeats && !addition.is_projection {
                return exec_err!(
                    "store '{location}' has several variants at one position, whose order the query may have changed; select columns of the \
                     store's own table, without joins and ORDER BY"
                );
            }
        }
        publish(addition, dataset, &target, documents).await?;
        Ok(rows)
    };
    let written: Result<u64> = written.await;
    if written.is_err() {
        tasks.stop().await;
        target.abort().await;
    }
    written
}

/// Returns an error if calls are not of the samples of the store.
fn check_samples(addition: &Addition, dataset: &Dataset, plans: &[ColumnPlan]) -> Result<()> {
    let location = &addition.place.location;
    PlanTables::samples_key(&addition.schema)?;
    for plan in plans
        .iter()
        .filter(|plan| plan.array.name.starts_with("call_"))
    {
        let field = addition.schema.field(plan.at);
        let column = field.name();
        match addition.tables.sample_ids_of(field) {
            Some(ids) if ids == dataset.sample_ids() => {}
            None if addition.is_projection => {}
            Some(_) => {
                return plan_err!(
                    "column '{column}' has calls of other samples, or in another order, than store '{location}'"
                );
            }
            None => {
                return plan_err!(
                    "the samples of column '{column}' are not known, so it cannot be an array of store '{location}'; select it from the \
                     store's own table"
                );
            }
        }
    }
    Ok(())
}

/// Returns an error if an array would make the store's region index wrong.
fn check_names(dataset: &Dataset, plans: &[ColumnPlan]) -> Result<()> {
    const INDEXED: [&str; 2] = ["variant_length", "variant_allele"];
    let mut names = plans.iter().map(|plan| plan.array.name.as_str());
    match names.find(|name| INDEXED.contains(name)) {
        Some(name) if dataset.store().array("region_index").is_some() => plan_err!(
            "'{name}' cannot be replaced: the store's region_index says where variants end; write a copy of the store"
        ),
        _ => Ok(()),
    }
}

/// Digests of the store's variants, and whether two neighbours are at the same position.
async fn stored_sites(dataset: &Dataset) -> Result<(SiteDigests, bool)> {
    let (mut stored, mut has_repeats, mut last) = (SiteDigests::default(), false, None);
    let visit = dataset.visit_sites(|_, contigs, positions| {
        for (&contig, &position) in contigs.iter().zip(positions) {
            stored.push(contig, position);
            has_repeats |= last == Some((contig, position));
            last = Some((contig, position));
        }
        ControlFlow::Continue(())
    });
    visit.await?;
    Ok((stored, has_repeats))
}

async fn add_samples(
    addition: &Addition,
    dataset: &Dataset,
    data: SendableRecordBatchStream,
    context: &Arc<TaskContext>,
) -> Result<u64> {
    let schema = &addition.schema;
    let samples = dataset.sample_ids();
    let plans = sample_columns(schema, samples.len() as u64, layout(addition, dataset))?;
    let batches: Vec<RecordBatch> = data.boxed().try_collect().await?;
    let rows = concat_batches(schema, &batches)?;
    let arrays = sample_arrays(&plans, &rows, samples, &addition.place.location)?;
    let target = target(addition, &plans).await?;
    let mut tasks = ChunkTasks::try_new(Arc::clone(&target), context)?;
    let written = async {
        let mut documents = Documents::new(dataset.store().format());
        for array in arrays {
            write_whole(array, &mut tasks, &mut documents).await?;
        }
        publish(addition, dataset, &target, documents).await?;
        Ok(rows.num_rows() as u64)
    };
    let written: Result<u64> = written.await;
    if written.is_err() {
        tasks.stop().await;
        target.abort().await;
    }
    written
}
