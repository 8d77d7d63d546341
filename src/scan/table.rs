//! [`VczTable`]: a VCZ store, or several with the same samples, as a DataFusion table. Planning happens here: filters to zones, zones to
//! rows, rows to partitions.

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, Result, Statistics, not_impl_err};
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::utils::{collect_columns, conjunction};
use datafusion::physical_plan::ExecutionPlan;
use futures::future::BoxFuture;

use super::calls::context::GenotypeContext;
use super::dataset::Dataset;
use super::merge::merge as merge_stores;
use super::options::VczSettings;
use super::origin::TableOrigin;
use super::plan::contig_names::{TableContigs, contigs_without_rows};
use super::plan::ranges::merge;
use super::plan::site_planes::{scan_planes, scan_site_planes};
use super::plan::source::{PartitionGoal, ScanTable, VczSource};
use super::plan::zones::Zones;
use super::schema::ColumnKind;
use super::stores::Stores;
use super::table_options::RegionIndexMode;
use crate::counts::{Populations, PopulationsFile, SampleSet};
use crate::error::{self, VczError};
use crate::store::Store;

/// A VCZ store, or several, as a table: one row per variant.
#[derive(Debug, Clone)]
pub struct VczTable {
    scan: Arc<ScanTable>,
}

impl VczTable {
    /// The table of an opened store.
    ///
    /// # Errors
    /// If the store's metadata or the populations file are invalid.
    pub async fn open(
        store: Store,
        populations: Option<PopulationsFile<'_>>,
        region_index: RegionIndexMode,
    ) -> error::Result<Self> {
        let dataset = Arc::new(Dataset::open(store, region_index).await?);
        Self::merge(String::new(), vec![dataset], populations).await
    }

    /// The table of opened stores, which have the same samples in the same order: their rows in the order of contigs and positions,
    /// and the arrays of all as columns.
    ///
    /// `location` is what the user gave for all of them, if there are several. The positions of stores without a region index are read,
    /// unless there is only one store.
    ///
    /// # Errors
    /// If two stores do not fit together (the error names them), or the populations file is invalid.
    pub async fn merge(
        location: String,
        stores: Vec<Arc<Dataset>>,
        populations: Option<PopulationsFile<'_>>,
    ) -> error::Result<Self> {
        let stores = merge_stores(location, stores).await?;
        let populations = match populations {
            Some(file) => Populations::parse(file, stores.sample_ids())
                .map_err(|error| of_store(error, stores.location()))?,
            None => Populations::default(),
        };
        Ok(Self::of(stores, populations))
    }

    /// One table of the stores of several tables, which have the same samples and populations.
    ///
    /// # Errors
    /// As [`Self::merge`]; if the tables have different populations.
    pub async fn of_tables(name: &str, tables: &[&Self]) -> error::Result<Self> {
        let mut stores: Vec<Arc<Dataset>> = Vec::new();
        for member in tables.iter().flat_map(|table| table.stores().members()) {
            if !stores
                .iter()
                .any(|known| Arc::ptr_eq(known, &member.dataset))
            {
                stores.push(Arc::clone(&member.dataset));
            }
        }
        let mut populations = tables.iter().map(|table| table.context().populations());
        let first = populations.next().cloned().unwrap_or_default();
        if populations.any(|other| *other != first) {
            return Err(VczError::Invalid(format!(
                "the tables of '{name}' have different populations; name one of its tables instead"
            )));
        }
        let stores = merge_stores(name.to_string(), stores).await?;
        Ok(Self::of(stores, Populations::clone(&first)))
    }

    fn of(stores: Stores, populations: Populations) -> Self {
        let find = |name: &str| {
            stores
                .columns()
                .iter()
                .find(|column| column.array.name == name)
        };
        let n_alleles = find("variant_allele")
            .and_then(|column| column.array.shape.get(1))
            .map(|&k| k as usize)
            .or_else(|| {
                let stores = stores.members().iter();
                stores
                    .filter_map(|member| member.dataset.store().assumed_alleles())
                    .max()
            });
        let ploidy = find("call_genotype")
            .and_then(|column| column.array.shape.get(2))
            .map_or(0, |&p| p as usize);
        let n_samples = find("call_genotype")
            .and_then(|column| column.array.shape.get(1))
            .map_or(stores.sample_ids().len(), |&n| n as usize);
        let context = GenotypeContext::new(
            stores.location().to_string(),
            stores.sample_ids().to_vec(),
            n_samples,
            populations,
            n_alleles,
            ploidy,
        );
        let fields: Vec<Field> = (stores.columns().iter())
            .map(|column| match column.kind {
                ColumnKind::Genotype => context.mark(column.field()),
                _ if column.samples() == Some(n_samples) => context.mark_calls(column.field()),
                _ => column.field(),
            })
            .collect();
        Self {
            scan: Arc::new(ScanTable {
                stores: Arc::new(stores),
                context,
                schema: Arc::new(Schema::new(fields)),
                origin: None,
            }),
        }
    }

    /// This table, whose stores another process opens as `origin` says.
    pub(super) fn with_origin(self, origin: Option<TableOrigin>) -> Self {
        Self {
            scan: Arc::new(ScanTable {
                stores: Arc::clone(&self.scan.stores),
                context: Arc::clone(&self.scan.context),
                schema: Arc::clone(&self.scan.schema),
                origin,
            }),
        }
    }

    /// How another process opens the stores; `None` if it cannot.
    pub fn origin(&self) -> Option<&TableOrigin> {
        self.scan.origin.as_ref()
    }

    /// The opened stores.
    pub fn stores(&self) -> &Arc<Stores> {
        &self.scan.stores
    }

    /// What scans share.
    pub(super) fn scan_table(&self) -> &Arc<ScanTable> {
        &self.scan
    }

    /// Samples and populations.
    pub fn context(&self) -> &Arc<GenotypeContext> {
        &self.scan.context
    }

    /// A scan of contig, position and the bit-planes of `samples` for each variant. Partition i gives exactly the rows `partitions[i]`, in
    /// their order.
    ///
    /// # Errors
    /// If a store lacks one of these arrays.
    pub fn scan_site_planes(
        &self,
        state: &dyn Session,
        samples: Arc<SampleSet>,
        partitions: &[Range<u64>],
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let settings = VczSettings::of(state.config_options());
        scan_site_planes(&self.scan, samples, partitions, settings)
    }

    /// A scan of the bit-planes of `samples` for each variant, in about as many partitions as `state` wants.
    ///
    /// # Errors
    /// If the table has no genotypes.
    pub fn scan_planes(
        &self,
        state: &dyn Session,
        samples: Arc<SampleSet>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let settings = VczSettings::of(state.config_options());
        let partitions = state.config().target_partitions();
        scan_planes(&self.scan, samples, partitions, settings)
    }

    /// The contigs that have variants, or all contigs if positions would have to be read first.
    pub fn contigs_with_variants(&self) -> Vec<String> {
        match self.scan.stores.known_zones() {
            Some(zones) => self.contigs_of(zones),
            None => self.scan.stores.contigs().to_vec(),
        }
    }

    /// The contigs that `zones` are on.
    fn contigs_of(&self, zones: &Zones) -> Vec<String> {
        let names = self.scan.stores.contigs();
        let mut seen = vec![false; names.len()];
        zones.zones.iter().for_each(|zone| {
            if let Some(seen) = seen.get_mut(zone.contig) {
                *seen = true;
            }
        });
        names
            .iter()
            .zip(seen)
            .filter(|(_, seen)| *seen)
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Whether a filter can be evaluated exactly inside the scan: it uses per-variant columns only and is not volatile.
    fn answers(&self, filter: &Expr) -> bool {
        let columns = filter.column_refs();
        let site_level = |name: &str| {
            let at = self.scan.stores.column_index(name);
            at.is_some_and(|at| self.scan.stores.columns()[at].is_site_level())
        };
        !columns.is_empty()
            && columns.iter().all(|column| site_level(&column.name))
            && !filter.is_volatile()
            && !filter.exists(|expr| Ok(is_subquery(expr))).unwrap_or(true)
    }
}

fn is_subquery(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::ScalarSubquery(_)
            | Expr::InSubquery(_)
            | Expr::Exists(_)
            | Expr::OuterReferenceColumn(..)
            | Expr::Placeholder(_)
    )
}

impl VczTable {
    /// The plan of a scan.
    fn scanned<'a>(
        &'a self,
        state: &'a dyn Session,
        projection: Option<&'a Vec<usize>>,
        filters: &'a [Expr],
        limit: Option<usize>,
    ) -> BoxFuture<'a, Result<Arc<dyn ExecutionPlan>>> {
        Box::pin(async move {
            let options = state.config_options();
            let settings = VczSettings::of(options);
            let stores = &self.scan.stores;
            let asked = filters;
            let schema = DFSchema::try_from(Arc::clone(&self.scan.schema))?;
            let filters = filters
                .iter()
                .map(|filter| state.create_physical_expr(filter.clone(), &schema))
                .collect::<Result<Vec<_>>>()?;
            let everything: Vec<usize> = (0..self.scan.schema.fields().len()).collect();
            let columns = projection.unwrap_or(&everything);
            // Positions are read while planning only if a filter could be pruned with them, and only once per table.
            let prunable = filters.iter().flat_map(collect_columns).any(|column| {
                matches!(
                    stores.columns()[column.index()].kind,
                    ColumnKind::Contig | ColumnKind::Position
                )
            });
            let zones = if prunable {
                stores.zones().await?
            } else {
                stores.known_zones()
            };
            let with_variants = zones.map(|zones| self.contigs_of(zones));
            let contigs = TableContigs {
                store: stores.location(),
                all: stores.contigs(),
                with_variants: with_variants.as_deref(),
            };
            for notice in contigs_without_rows(asked, contigs)? {
                settings.notices.add(notice);
            }
            let kept = match zones {
                Some(zones) if !filters.is_empty() => {
                    let keep = zones.prune(
                        &conjunction(filters.clone()),
                        &self.scan.schema,
                        stores.contigs(),
                    )?;
                    merge(
                        zones
                            .zones
                            .iter()
                            .zip(keep)
                            .filter(|(_, keep)| *keep)
                            .map(|(zone, _)| zone.rows.clone()),
                    )
                }
                _ => merge(std::iter::once(0..stores.n_variants())),
            };
            let goal = PartitionGoal {
                partitions: state.config().target_partitions(),
                min_bytes: options.optimizer.repartition_file_min_size,
            };
            let source = VczSource::try_new(
                Arc::clone(&self.scan),
                zones.cloned(),
                columns,
                filters,
                kept,
                limit,
                settings,
                goal,
            )?;
            Ok(DataSourceExec::from_data_source(source) as Arc<dyn ExecutionPlan>)
        })
    }

    fn no_delete<'a>(
        &'a self,
        _state: &'a dyn Session,
        _filters: Vec<Expr>,
    ) -> BoxFuture<'a, Result<Arc<dyn ExecutionPlan>>> {
        Box::pin(std::future::ready(read_only("DELETE")))
    }

    fn no_update<'a>(
        &'a self,
        _state: &'a dyn Session,
        _assignments: Vec<(String, Expr)>,
        _filters: Vec<Expr>,
    ) -> BoxFuture<'a, Result<Arc<dyn ExecutionPlan>>> {
        Box::pin(std::future::ready(read_only("UPDATE")))
    }
}

#[async_trait]
impl TableProvider for VczTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.scan.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let answer = |filter: &&Expr| {
            if self.answers(filter) {
                TableProviderFilterPushDown::Exact
            } else {
                TableProviderFilterPushDown::Unsupported
            }
        };
        Ok(filters.iter().map(answer).collect())
    }

    boxed_methods! {
        fn scan<'a, 's, 'p, 'f>(
            &'a self,
            state: &'s dyn Session,
            projection: Option<&'p Vec<usize>>,
            filters: &'f [Expr],
            limit: Option<usize>,
        ) -> Result<Arc<dyn ExecutionPlan>> = Self::scanned;

        fn delete_from<'a, 's>(
            &'a self,
            state: &'s dyn Session,
            filters: Vec<Expr>,
        ) -> Result<Arc<dyn ExecutionPlan>> = Self::no_delete;

        fn update<'a, 's>(
            &'a self,
            state: &'s dyn Session,
            assignments: Vec<(String, Expr)>,
            filters: Vec<Expr>,
        ) -> Result<Arc<dyn ExecutionPlan>> = Self::no_update;
    }

    fn statistics(&self) -> Option<Statistics> {
        None
    }

    async fn insert_into(
        &self,
        _state: &dyn Session,
        _input: Arc<dyn ExecutionPlan>,
        _insert_op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        read_only("INSERT")
    }

    async fn truncate(&self, _state: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        read_only("TRUNCATE")
    }
}

fn read_only(statement: &str) -> Result<Arc<dyn ExecutionPlan>> {
    not_impl_err!(
        "{statement} is not possible: tables of VCZ stores are read-only. COPY (SELECT …) TO 'x.vcz' writes a new store, and CREATE TABLE x AS SELECT … \
         makes a table that can be changed"
    )
}

/// An error of a line of a populations file, which may be of several tables, with the store that it was read for.
fn of_store(error: VczError, store: &str) -> VczError {
    match error {
        VczError::Line { file, line, reason } => VczError::Line {
            file,
            line,
            reason: format!("store '{store}': {reason}"),
        },
        other => other,
    }
}
