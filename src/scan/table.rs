//! [`VczTable`]: a VCZ store as a DataFusion table. Planning happens here: filters to zones, zones to rows, rows to
//! partitions.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, Result, Statistics};
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::utils::{collect_columns, conjunction};
use datafusion::physical_plan::ExecutionPlan;

use super::calls::context::GenotypeContext;
use super::dataset::Dataset;
use super::options::{RegionIndexMode, VczSettings};
use super::plan::contig_names::unknown_contigs;
use super::plan::ranges::merge;
use super::plan::source::{PartitionGoal, ScanTable, VczSource};
use super::schema::ColumnKind;
use crate::counts::{Populations, PopulationsFile};
use crate::error;
use crate::store::Store;

/// A VCZ store as a table: one row per variant.
#[derive(Debug)]
pub struct VczTable {
    scan: Arc<ScanTable>,
}

impl VczTable {
    /// The table of an opened store.
    pub async fn open(
        store: Store,
        populations: Option<PopulationsFile<'_>>,
        region_index: RegionIndexMode,
    ) -> error::Result<Self> {
        let dataset = Arc::new(Dataset::open(store, region_index).await?);
        let populations = match populations {
            Some(file) => Populations::parse(file, dataset.sample_ids())?,
            None => Populations::default(),
        };
        let find = |name: &str| {
            dataset
                .columns()
                .iter()
                .find(|column| column.array.name == name)
        };
        let n_alleles = find("variant_allele")
            .and_then(|column| column.array.shape.get(1))
            .map(|&k| k as usize);
        let ploidy = find("call_genotype")
            .and_then(|column| column.array.shape.get(2))
            .map_or(0, |&p| p as usize);
        let n_samples = find("call_genotype")
            .and_then(|column| column.array.shape.get(1))
            .map_or(dataset.sample_ids().len(), |&n| n as usize);
        let context = GenotypeContext::new(
            dataset.store().location().to_string(),
            dataset.sample_ids().to_vec(),
            n_samples,
            populations,
            n_alleles,
            ploidy,
        );
        let schema = dataset.schema(|column, field| match column.kind {
            ColumnKind::Genotype => context.mark(field),
            _ if column.samples() == Some(n_samples) => context.mark_calls(field),
            _ => field,
        });
        Ok(Self {
            scan: Arc::new(ScanTable {
                dataset,
                context,
                schema,
            }),
        })
    }

    /// The opened store.
    pub fn dataset(&self) -> &Arc<Dataset> {
        &self.scan.dataset
    }

    /// Samples and populations.
    pub fn context(&self) -> &Arc<GenotypeContext> {
        &self.scan.context
    }

    /// The contigs that are known to have variants, or all contigs where that would have to be read first.
    pub fn contigs_with_variants(&self) -> Vec<String> {
        let names = &self.scan.dataset.names().contigs;
        let Some(zones) = self.scan.dataset.known_zones() else {
            return names.clone();
        };
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

    /// Whether a filter can be answered exactly inside the scan: it reads per-variant columns only and always gives the same.
    fn answers(&self, filter: &Expr) -> bool {
        let columns = filter.column_refs();
        let site_level = |name: &str| {
            let at = self.scan.dataset.column_index(name);
            at.is_some_and(|at| self.scan.dataset.columns()[at].is_site_level())
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

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = state.config_options();
        let settings = VczSettings::of(options);
        let dataset = &self.scan.dataset;
        let contigs = &dataset.names().contigs;
        for notice in unknown_contigs(filters, contigs, dataset.store().location())? {
            settings.notices.say(notice);
        }
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
                dataset.columns()[column.index()].kind,
                ColumnKind::Contig | ColumnKind::Position
            )
        });
        let zones = if prunable {
            dataset.zones().await?
        } else {
            dataset.known_zones()
        };
        let kept = match zones {
            Some(zones) if !filters.is_empty() => {
                let keep = zones.prune(
                    &conjunction(filters.clone()),
                    &self.scan.schema,
                    &dataset.names().contigs,
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
            _ => merge(std::iter::once(0..dataset.n_variants())),
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
        Ok(DataSourceExec::from_data_source(source))
    }

    fn statistics(&self) -> Option<Statistics> {
        None
    }
}
