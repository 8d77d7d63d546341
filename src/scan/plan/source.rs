//! [`VczSource`]: the scan of a VCZ table as a DataFusion `DataSource`. It absorbs projections, and with them the calls on
//! genotypes, so that counts leave the scan and genotypes do not; takes filters; declares order and statistics.
//!
//! ```text
//! table columns ──► inputs (arrays and calls, each once) ──► projection ──► output
//! ```
//! Invariant: `projection` is over `inputs`, in their order; filters are over the table's columns.

use std::any::Any;
use std::fmt::{self, Formatter};
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, Statistics, plan_err};
use datafusion::datasource::source::{DataSource, OpenArgs};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::{Column, DynamicFilterTracking};
use datafusion::physical_expr::projection::{ProjectionExpr, ProjectionExprs};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr, ScalarFunctionExpr,
};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::DisplayFormatType;
use datafusion::physical_plan::filter_pushdown::{FilterPushdownPropagation, PushedDown};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;

use super::choice::LatestChoice;
use super::ranges::{rows_in, split};
use super::zones::Zones;
use crate::scan::calls::bound::BoundCall;
use crate::scan::calls::call::{DisplayCall, GenotypeCall};
use crate::scan::calls::context::GenotypeContext;
use crate::scan::calls::genotype_udf::GenotypeUdf;
use crate::scan::dataset::Dataset;
use crate::scan::options::VczSettings;
use crate::scan::schema::ColumnKind;

/// What a scan computes for one of its inputs.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A column of the table.
    Array(usize),
    /// A call on `call_genotype`.
    Call(GenotypeCall),
}

/// The table side of a scan: shared by every plan over it.
#[derive(Debug)]
pub struct ScanTable {
    /// The opened store.
    pub dataset: Arc<Dataset>,
    /// Its samples and populations.
    pub context: Arc<GenotypeContext>,
    /// The table's schema.
    pub schema: SchemaRef,
}

/// A scan of a VCZ table.
#[derive(Debug, Clone)]
pub struct VczSource {
    pub(in crate::scan) table: Arc<ScanTable>,
    pub(in crate::scan) zones: Option<Arc<Zones>>,
    /// Exact predicates over the table's columns.
    pub(in crate::scan) filters: Vec<Arc<dyn PhysicalExpr>>,
    /// Dynamic predicates over the table's columns; they only skip work.
    pub(in crate::scan) dynamic: Vec<Arc<dyn PhysicalExpr>>,
    /// Rows kept after pruning, ascending and disjoint.
    pub(in crate::scan) kept: Arc<Vec<Range<u64>>>,
    pub(in crate::scan) partitions: Vec<Vec<Range<u64>>>,
    pub(in crate::scan) inputs: Vec<Input>,
    pub(in crate::scan) input_schema: SchemaRef,
    pub(in crate::scan) projection: ProjectionExprs,
    pub(in crate::scan) schema: SchemaRef,
    pub(in crate::scan) limit: Option<usize>,
    pub(in crate::scan) settings: VczSettings,
    pub(in crate::scan) latest_choice: LatestChoice,
    pub(in crate::scan) metrics: ExecutionPlanMetricsSet,
}

/// How much one scan partition should have to do, in decoded bytes, and how many there may be.
#[derive(Debug, Clone, Copy)]
pub struct PartitionGoal {
    /// At most this many partitions.
    pub partitions: usize,
    /// A partition with less than this many bytes of work is not worth having.
    pub min_bytes: usize,
}

impl VczSource {
    /// A scan of the table columns `columns`, keeping the rows in `kept`.
    #[expect(
        clippy::too_many_arguments,
        reason = "these are the parts of a scan; a struct would only rename them"
    )]
    pub fn try_new(
        table: Arc<ScanTable>,
        zones: Option<Arc<Zones>>,
        columns: &[usize],
        filters: Vec<Arc<dyn PhysicalExpr>>,
        kept: Vec<Range<u64>>,
        limit: Option<usize>,
        settings: VczSettings,
        goal: PartitionGoal,
    ) -> Result<Self> {
        let inputs: Vec<Input> = columns.iter().map(|&column| Input::Array(column)).collect();
        let input_schema = Arc::new(table.schema.project(columns)?);
        let all: Vec<usize> = (0..columns.len()).collect();
        let mut source = Self {
            projection: ProjectionExprs::from_indices(&all, &input_schema),
            schema: Arc::clone(&input_schema),
            table,
            zones,
            filters,
            dynamic: vec![],
            partitions: vec![],
            kept: Arc::new(kept),
            inputs,
            input_schema,
            limit,
            settings,
            latest_choice: LatestChoice::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        };
        source.partitions = source.divide(goal);
        Ok(source)
    }

    /// The table that is scanned.
    pub fn table(&self) -> &Arc<ScanTable> {
        &self.table
    }

    fn divide(&self, goal: PartitionGoal) -> Vec<Vec<Range<u64>>> {
        let rows = rows_in(&self.kept);
        let columns = self.table.dataset.columns();
        let read = self.read_columns();
        let row_bytes: u64 = read
            .iter()
            .map(|&column| columns[column].row_bytes() as u64)
            .sum();
        let work = rows.saturating_mul(row_bytes);
        let most = work / (goal.min_bytes as u64).max(1) + 1;
        // A small LIMIT ends in the first chunks; more partitions would only read chunks that nobody wants.
        let limited =
            self.filters.is_empty() && self.limit.is_some_and(|limit| (limit as u64) < rows / 2);
        let parts = if limited {
            1
        } else {
            most.min(goal.partitions as u64) as usize
        };
        split(&self.kept, parts, self.heavy_chunk_rows())
    }

    /// Table columns that are read: those of the inputs and of the filters.
    fn read_columns(&self) -> Vec<usize> {
        let genotype = self.table.dataset.column_index("call_genotype");
        let mut read: Vec<usize> = self
            .inputs
            .iter()
            .filter_map(|input| match input {
                Input::Array(column) => Some(*column),
                Input::Call(_) => genotype,
            })
            .chain(
                self.filters
                    .iter()
                    .flat_map(collect_columns)
                    .map(|column| column.index()),
            )
            .collect();
        read.sort_unstable();
        read.dedup();
        read
    }

    /// Rows of one chunk of the column that is heaviest to decode.
    pub(in crate::scan) fn heavy_chunk_rows(&self) -> u64 {
        let columns = self.table.dataset.columns();
        let heaviest = self
            .read_columns()
            .into_iter()
            .max_by_key(|&column| columns[column].row_bytes());
        heaviest.map_or(1, |column| columns[column].array.chunks[0])
    }

    /// Bytes of one output row, for batches bounded by bytes.
    pub(in crate::scan) fn output_row_bytes(&self) -> usize {
        let columns = self.table.dataset.columns();
        let context = &self.table.context;
        let n_alleles = context.n_alleles().unwrap_or(1);
        let bytes = |input: &Input| match input {
            Input::Array(column) => columns[*column].row_bytes(),
            Input::Call(GenotypeCall::AlleleCounts(_)) => n_alleles * size_of::<i32>(),
            Input::Call(GenotypeCall::PopulationCounts(populations)) => {
                populations.len() * (n_alleles * size_of::<i32>() + 32)
            }
            Input::Call(GenotypeCall::GenotypeCounts(_)) => 5 * size_of::<i32>(),
            Input::Call(GenotypeCall::SelectSamples(samples)) => {
                samples.len() * context.ploidy() * size_of::<i8>()
            }
        };
        self.inputs.iter().map(bytes).sum::<usize>().max(1)
    }

    /// The input of a pushed call, if `expr` is one: a bound genotype function of an input column.
    ///
    /// # Errors
    /// Where the call is bound to other samples than this table's.
    fn pushed_call(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Option<Input>> {
        let Some(function) = expr.downcast_ref::<ScalarFunctionExpr>() else {
            return Ok(None);
        };
        let udf = function.fun().inner().downcast_ref::<GenotypeUdf>();
        let (Some(bound), Some(genotypes)) =
            (udf.and_then(|udf| udf.bound()), function.args().first())
        else {
            return Ok(None);
        };
        if let Some(column) = genotypes.downcast_ref::<Column>() {
            let Some(Input::Array(at)) = self.inputs.get(column.index()) else {
                return Ok(None);
            };
            if self.table.dataset.columns()[*at].kind != ColumnKind::Genotype {
                return Ok(None);
            }
            self.check_samples(function.name(), bound)?;
            return Ok(Some(Input::Call(bound.call().clone())));
        }
        // Counts of selected samples are counts of those samples: `select_samples` itself need not be computed.
        let Some(Input::Call(GenotypeCall::SelectSamples(selected))) =
            self.pushed_call(genotypes)?
        else {
            return Ok(None);
        };
        Ok(Some(Input::Call(bound.call().of_selected(&selected))))
    }

    /// Refuses a call that was bound to the samples of another store.
    fn check_samples(&self, function: &str, bound: &BoundCall) -> Result<()> {
        let context = &self.table.context;
        if bound.genotypes().has_samples_like(context) {
            return Ok(());
        }
        plan_err!(
            "{function} was planned for {} samples of store '{}', but would be computed on {} samples of store '{}'",
            bound.genotypes().n_samples(),
            bound.genotypes().store_name(),
            context.n_samples(),
            context.store_name()
        )
    }

    /// `projection` over the current output as inputs and a projection over them: each array and call once, nothing unused.
    fn absorb(&self, projection: &ProjectionExprs) -> Result<Self> {
        let merged = self.projection.try_merge(projection)?;
        let mut inputs: Vec<Input> = Vec::new();
        let mut fields: Vec<Field> = Vec::new();
        let mut exprs: Vec<ProjectionExpr> = Vec::new();
        for ProjectionExpr { expr, alias } in merged.iter() {
            let rewritten = Arc::clone(expr).transform_down(|expr| {
                let call = self.pushed_call(&expr)?;
                let input = match (&call, expr.downcast_ref::<Column>()) {
                    (Some(call), _) => call,
                    (None, Some(column)) => &self.inputs[column.index()],
                    (None, None) => return Ok(Transformed::no(expr)),
                };
                let at = match inputs.iter().position(|known| known == input) {
                    Some(at) => at,
                    None => {
                        fields.push(match input {
                            Input::Array(column) => self.table.schema.field(*column).clone(),
                            Input::Call(call) => self.call_field(call)?,
                        });
                        inputs.push(input.clone());
                        inputs.len() - 1
                    }
                };
                let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(fields[at].name(), at));
                Ok(Transformed::new(column, true, TreeNodeRecursion::Jump))
            })?;
            exprs.push(ProjectionExpr::new(rewritten.data, alias.clone()));
        }
        let schema = Arc::new(projection.project_schema(&self.schema)?);
        Ok(Self {
            inputs,
            input_schema: Arc::new(Schema::new(fields)),
            projection: ProjectionExprs::new(exprs),
            schema,
            ..self.clone()
        })
    }

    fn call_field(&self, call: &GenotypeCall) -> Result<Field> {
        let context = &self.table.context;
        let name = DisplayCall(call, context).to_string();
        let genotypes = self.table.schema.field_with_name("call_genotype")?;
        call.field(&name, genotypes, context)
    }

    /// An expression over the output as one over the table's per-variant columns, if it can be.
    fn over_sites(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<Arc<dyn PhysicalExpr>> {
        let over_inputs = self.projection.unproject_expr(expr).ok()?;
        let mut site_level = true;
        let rewritten = over_inputs.transform_down(|expr| {
            let Some(column) = expr.downcast_ref::<Column>() else {
                return Ok(Transformed::no(expr));
            };
            match self.inputs.get(column.index()) {
                Some(Input::Array(at)) if self.table.dataset.columns()[*at].is_site_level() => {
                    let column = Column::new(self.table.schema.field(*at).name(), *at);
                    Ok(Transformed::new(
                        Arc::new(column) as _,
                        true,
                        TreeNodeRecursion::Jump,
                    ))
                }
                _ => {
                    site_level = false;
                    Ok(Transformed::no(expr))
                }
            }
        });
        rewritten
            .ok()
            .filter(|_| site_level)
            .map(|rewritten| rewritten.data)
    }
}

impl DataSource for VczSource {
    fn open(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.open_with_args(OpenArgs::new(partition, context))
    }

    fn create_sibling_state(&self, _config: &ConfigOptions) -> Option<Arc<dyn Any + Send + Sync>> {
        Some(self.new_execution())
    }

    fn open_with_args(&self, args: OpenArgs) -> Result<SendableRecordBatchStream> {
        self.open_partition(args)
    }

    fn fmt_as(&self, t: DisplayFormatType, f: &mut Formatter) -> fmt::Result {
        self.display(t, f)
    }

    fn repartitioned(
        &self,
        target_partitions: usize,
        min_size: usize,
        _output_ordering: Option<LexOrdering>,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        let goal = PartitionGoal {
            partitions: target_partitions,
            min_bytes: min_size,
        };
        let partitions = self.divide(goal);
        if partitions.len() <= self.partitions.len() {
            return Ok(None);
        }
        Ok(Some(Arc::new(Self {
            partitions,
            ..self.clone()
        })))
    }

    fn output_partitioning(&self) -> Partitioning {
        Partitioning::UnknownPartitioning(self.partitions.len())
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        self.properties()
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        let statistics = self
            .projection
            .project_statistics(self.input_statistics(partition), &self.schema)?;
        Ok(Arc::new(match self.limit {
            Some(_) => statistics.with_fetch(self.limit, 0, 1)?,
            None => statistics,
        }))
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn DataSource>> {
        Some(Arc::new(Self {
            limit,
            ..self.clone()
        }))
    }

    fn fetch(&self) -> Option<usize> {
        self.limit
    }

    fn metrics(&self) -> ExecutionPlanMetricsSet {
        self.metrics.clone()
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        if projection
            .iter()
            .any(|projected| is_volatile(&projected.expr))
        {
            return Ok(None);
        }
        Ok(Some(Arc::new(self.absorb(projection)?)))
    }

    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn DataSource>>> {
        let mut source = self.clone();
        let mut answers = Vec::with_capacity(filters.len());
        for filter in &filters {
            let answer = match self.over_sites(filter) {
                // Dropping rows below a LIMIT would change which rows are limited.
                Some(_) if self.limit.is_some() => PushedDown::No,
                Some(over_sites) if is_volatile(&over_sites) => PushedDown::No,
                Some(over_sites)
                    if DynamicFilterTracking::classify(&over_sites).contains_dynamic_filter() =>
                {
                    source.dynamic.push(over_sites);
                    PushedDown::No
                }
                Some(over_sites) => {
                    source.filters.push(over_sites);
                    PushedDown::Yes
                }
                _ => PushedDown::No,
            };
            answers.push(answer);
        }
        let changed =
            source.dynamic.len() + source.filters.len() > self.dynamic.len() + self.filters.len();
        let propagation = FilterPushdownPropagation::with_parent_pushdown_result(answers);
        Ok(if changed {
            propagation.with_updated_node(Arc::new(source) as _)
        } else {
            propagation
        })
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let projected = self.projection.iter().map(|projected| &projected.expr);
        for expr in self.filters.iter().chain(&self.dynamic).chain(projected) {
            if f(expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }
}

impl VczSource {
    /// Whether the output is more than the inputs in their order.
    pub(in crate::scan) fn projects(&self) -> bool {
        let plain = |(at, projected): (usize, &ProjectionExpr)| {
            projected
                .expr
                .downcast_ref::<Column>()
                .is_some_and(|column| column.index() == at)
        };
        self.projection.iter().count() != self.inputs.len()
            || !self.projection.iter().enumerate().all(plain)
    }
}
