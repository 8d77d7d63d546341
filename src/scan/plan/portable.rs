//! [`PortableScan`]: a scan without its table, which another process opens by itself. `cluster` sends it to workers.
//!
//! Invariant: over a table of the same stores, opened with the same options, the scan that is made of it gives the same rows.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, plan_err};
use datafusion::datasource::source::DataSource;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;

use super::choice::LatestChoice;
use super::ranges::{rows_in, split};
use super::source::{ScanInput, VczSource};
use crate::scan::calls::call::FilteredCall;
use crate::scan::options::VczSettings;
use crate::scan::table::VczTable;

/// Decoded bytes of genotypes that a thread of the host decodes and counts in a second, by order of magnitude.
const THREAD_BYTES_PER_SECOND: f64 = 2e9;
/// Decoded bytes of genotypes that a GPU decodes and counts in a second, by order of magnitude.
const GPU_BYTES_PER_SECOND: f64 = 5e11;

/// An input of a scan.
#[derive(Debug, Clone, PartialEq)]
pub enum PortableInput {
    /// The array of this name.
    Array(String),
    /// A call on `call_genotype`.
    Call(FilteredCall),
}

/// A scan without its table.
#[derive(Debug, Clone)]
pub struct PortableScan {
    /// What is read and counted.
    pub inputs: Vec<PortableInput>,
    /// The fields of the inputs.
    pub input_schema: SchemaRef,
    /// What is returned, over the inputs.
    pub projection: ProjectionExprs,
    /// The fields that are returned.
    pub schema: SchemaRef,
    /// Exact predicates over `filter_schema`.
    pub filters: Vec<Arc<dyn PhysicalExpr>>,
    /// The columns of the table that the filters use.
    pub filter_schema: SchemaRef,
    /// The most rows of each partition.
    pub limit: Option<usize>,
    /// The rows of each partition: ranges of the table's rows.
    pub partitions: Vec<Vec<Range<u64>>>,
}

impl VczSource {
    /// This scan without its table.
    ///
    /// # Errors
    /// If an input has no name, which is a bug.
    pub fn portable(&self) -> Result<PortableScan> {
        let columns = self.table.stores.columns();
        let inputs = self.inputs.iter().map(|input| match input {
            ScanInput::Array(column) => match columns.get(*column) {
                Some(column) => Ok(PortableInput::Array(column.array.name.clone())),
                None => plan_err!("a scan of column {column}, which its table does not have"),
            },
            ScanInput::Call(call) => Ok(PortableInput::Call(call.clone())),
        });
        let mut used: Vec<usize> = self
            .filters
            .iter()
            .flat_map(collect_columns)
            .map(|column| column.index())
            .collect();
        used.sort_unstable();
        used.dedup();
        let filter_schema = Arc::new(self.table.schema.project(&used)?);
        Ok(PortableScan {
            inputs: inputs.collect::<Result<_>>()?,
            input_schema: Arc::clone(&self.input_schema),
            projection: self.projection.clone(),
            schema: Arc::clone(&self.schema),
            filters: over(&self.filters, &filter_schema)?,
            filter_schema,
            limit: self.limit,
            partitions: self.partitions.clone(),
        })
    }

    /// The scan of `table` that `scan` describes, which counts into `metrics`.
    ///
    /// # Errors
    /// If the table lacks one of its columns or rows.
    pub fn of_portable(
        table: &VczTable,
        scan: &PortableScan,
        settings: VczSettings,
        metrics: ExecutionPlanMetricsSet,
    ) -> Result<Self> {
        let (stores, schema) = (table.stores(), &table.scan_table().schema);
        let location = stores.location();
        let inputs = scan.inputs.iter().map(|input| match input {
            PortableInput::Array(name) => match stores.column_index(name) {
                Some(column) => Ok(ScanInput::Array(column)),
                None => plan_err!("store '{location}' has no array '{name}'"),
            },
            PortableInput::Call(call) if call.call.samples_end() > table.context().n_samples() => {
                plan_err!(
                    "store '{location}' has {} samples, fewer than a call of the query counts",
                    table.context().n_samples()
                )
            }
            PortableInput::Call(call) => Ok(ScanInput::Call(call.clone())),
        });
        let inputs: Vec<ScanInput> = inputs.collect::<Result<_>>()?;
        let kept: Vec<Range<u64>> = scan.partitions.iter().flatten().cloned().collect();
        let rows = stores.n_variants();
        if let Some(range) = kept.iter().find(|range| range.end > rows) {
            return plan_err!(
                "store '{location}' has {rows} variants, and the query reads up to variant {}",
                range.end
            );
        }
        Ok(Self {
            table: Arc::clone(table.scan_table()),
            zones: stores.known_zones().cloned(),
            filters: over(&scan.filters, schema)?,
            dynamic: vec![],
            kept: Arc::new(kept),
            partitions: scan.partitions.clone(),
            fixed: true,
            by_tasks: false,
            inputs,
            input_schema: Arc::clone(&scan.input_schema),
            projection: scan.projection.clone(),
            schema: Arc::clone(&scan.schema),
            limit: scan.limit,
            declared: None,
            settings,
            latest_choice: LatestChoice::default(),
            metrics,
        })
    }

    /// Whether other partitions of the same rows would do.
    pub fn is_divisible(&self) -> bool {
        // Operators above a single partition may rely on there being only one.
        !self.fixed && self.partitions.len() > 1
    }

    /// Decoded bytes of the arrays that are read.
    pub fn decoded_bytes(&self) -> u64 {
        let columns = self.table.stores.columns();
        let read = self.read_columns();
        let row_bytes = read
            .iter()
            .filter_map(|&column| columns.get(column))
            .fold(0u64, |sum, column| {
                sum.saturating_add(column.row_bytes() as u64)
            });
        let rows = rows_in(&self.kept);
        // A scan with a LIMIT stops early.
        let most = self.limit.map_or(rows, |limit| {
            (limit as u64).saturating_mul(self.partitions.len() as u64)
        });
        rows.min(most).saturating_mul(row_bytes)
    }

    /// A rough estimate of the time that decoding takes on this machine, on the backend that would be chosen.
    pub fn expected_time(&self) -> Duration {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let rate = match self.choice().is_gpu {
            true => GPU_BYTES_PER_SECOND,
            false => THREAD_BYTES_PER_SECOND * self.partitions.len().min(cores) as f64,
        };
        Duration::from_secs_f64(self.decoded_bytes() as f64 / rate)
    }

    /// Scans of consecutive parts of the rows, `tasks` of them, each with `partitions` partitions, of which some may be empty.
    /// Together they read the rows of this scan, each once.
    pub fn shares(&self, tasks: usize, partitions: usize) -> Vec<Self> {
        let boundary = self.chunk_boundary();
        let mut of_tasks = split(&self.kept, tasks.max(1), &boundary);
        of_tasks.resize(tasks.max(1), vec![]);
        let declared = self.eq_properties();
        let shares = of_tasks.into_iter().map(|kept| {
            let mut own = split(&kept, partitions.max(1), &boundary);
            own.resize(own.len().max(partitions), vec![]);
            Self {
                kept: Arc::new(kept),
                partitions: own,
                fixed: true,
                // Part of the rows may be on one contig, which is no constant of all tasks.
                declared: Some(declared.clone()),
                metrics: ExecutionPlanMetricsSet::new(),
                latest_choice: LatestChoice::default(),
                ..self.clone()
            }
        });
        shares.collect()
    }
}

/// Expressions with their columns at the places that they have in `schema`, by their names.
fn over(exprs: &[Arc<dyn PhysicalExpr>], schema: &Schema) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
    let moved = exprs.iter().map(|expr| {
        let moved = Arc::clone(expr).transform_down(|expr| {
            let Some(column) = expr.downcast_ref::<Column>() else {
                return Ok(Transformed::no(expr));
            };
            let column = Column::new(column.name(), schema.index_of(column.name())?);
            Ok(Transformed::new(
                Arc::new(column) as _,
                true,
                TreeNodeRecursion::Jump,
            ))
        });
        moved.map(|moved| moved.data)
    });
    moved.collect()
}
