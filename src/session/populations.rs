//! Partial aggregation by population of unnested `population_counts`, without building the lists or unnesting them.
//!
//! ```text
//! Aggregate: p['population']; diversity(p['ac'])         AggregatePopulationsExec: population; diversity(ac)
//!   Unnest: p                                     ->       scan: allele_counts(first), allele_counts(second), …
//!     scan: population_counts(call_genotype) AS p
//! ```
//! [`AggregatePopulationsExec`] does what DataFusion's `AggregateExec` does in the mode `Partial`, over the rows that the unnesting would
//! give, one population after the other. A group is looked up once for each population and run of rows.
//! `populations_rule` decides where it is used; the groups are those of `runs_table`.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Constraints, Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, Partitioning};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, PhysicalExpr, PlanProperties, ReplaceChildrenOptions,
};
use futures::{StreamExt, TryStreamExt, stream};

use super::left_out;
use super::runs::shown;
use super::runs_table::{GroupTable, passing_rows, runs};

/// A key of the groups.
#[derive(Debug, Clone)]
pub enum Key {
    /// A function of the variant, the same in every population.
    Variant(Arc<dyn PhysicalExpr>),
    /// A value of each population, the same in every variant.
    Population(ArrayRef),
}

/// An expression over the rows of one population.
#[derive(Debug, Clone)]
pub enum Value {
    /// A function of the variant, the same in every population.
    Variant(Arc<dyn PhysicalExpr>),
    /// A function of the counts, the population's name or its number of copies: the expression of each population.
    Populations(Vec<Arc<dyn PhysicalExpr>>),
}

impl Value {
    fn expressions(&self) -> &[Arc<dyn PhysicalExpr>] {
        match self {
            Self::Variant(expr) => std::slice::from_ref(expr),
            Self::Populations(exprs) => exprs,
        }
    }

    /// The expression, if it is the same in every population.
    fn shared(&self) -> Option<&Arc<dyn PhysicalExpr>> {
        match self {
            Self::Variant(expr) => Some(expr),
            Self::Populations(_) => None,
        }
    }

    /// The expression of a population.
    fn of(&self, population: usize) -> Result<&Arc<dyn PhysicalExpr>> {
        let expr = match self {
            Self::Variant(expr) => Some(expr),
            Self::Populations(exprs) => exprs.get(population),
        };
        match expr {
            Some(expr) => Ok(expr),
            None => internal_err!("an expression without population {population}"),
        }
    }
}

/// The arguments of an aggregate's call, and its FILTER.
#[derive(Debug, Clone)]
pub struct Call {
    /// The arguments.
    pub arguments: Vec<Value>,
    /// Which rows it takes.
    pub filter: Option<Value>,
}

/// What is aggregated: the aggregate's expressions over the columns of the scan.
#[derive(Debug)]
pub struct Populations {
    /// Number of populations, at least 1.
    pub len: usize,
    /// The rows of one population: the scan's columns up to the counts of the second population.
    pub schema: SchemaRef,
    /// Which of these columns has the counts.
    pub counts: usize,
    /// The keys, in the aggregate's order.
    pub keys: Vec<Key>,
    /// The calls, in the aggregate's order.
    pub calls: Vec<Call>,
}

impl Populations {
    /// The rows of population `population`.
    fn rows(&self, batch: &RecordBatch, population: usize) -> Result<RecordBatch> {
        let width = self.schema.fields().len();
        let mut columns: Vec<ArrayRef> = batch.columns().iter().take(width).cloned().collect();
        if let Some(others) = population.checked_sub(1) {
            columns[self.counts] = Arc::clone(batch.column(width + others));
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }

    /// Every expression.
    fn expressions(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        let keys = self.keys.iter().filter_map(|key| match key {
            Key::Variant(expr) => Some(expr),
            Key::Population(_) => None,
        });
        let calls = self.calls.iter();
        let values = calls.flat_map(|call| call.arguments.iter().chain(&call.filter));
        keys.chain(values.flat_map(Value::expressions))
    }
}

/// Partial aggregation by population.
#[derive(Debug)]
pub struct AggregatePopulationsExec {
    /// The calls and the schema of the states; its input, the unnesting, is not run.
    aggregate: Arc<AggregateExec>,
    populations: Arc<Populations>,
    scan: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl AggregatePopulationsExec {
    /// Computes what `aggregate` does, an aggregation of the mode `Partial`, over `scan`.
    ///
    /// # Errors
    /// If it is of another mode, in which a group may be returned only once.
    pub fn try_new(
        aggregate: Arc<AggregateExec>,
        populations: Arc<Populations>,
        scan: Arc<dyn ExecutionPlan>,
    ) -> Result<Self> {
        if *aggregate.mode() != AggregateMode::Partial {
            return internal_err!(
                "{} is for partial aggregation, not {:?}",
                Self::static_name(),
                aggregate.mode()
            );
        }
        let partitions = scan.output_partitioning().partition_count();
        let mut properties = PlanProperties::clone(aggregate.properties())
            .with_emission_type(EmissionType::Incremental)
            .with_partitioning(Partitioning::UnknownPartitioning(partitions));
        // Groups keep the order of their first variants, but need not be unique.
        properties.eq_properties = properties
            .eq_properties
            .with_constraints(Constraints::default());
        Ok(Self {
            aggregate,
            populations,
            scan,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }
}

impl AggregatePopulationsExec {
    /// The aggregate and the populations that it is computed for.
    pub fn parts(&self) -> (&Arc<AggregateExec>, &Arc<Populations>) {
        (&self.aggregate, &self.populations)
    }
}

impl DisplayAs for AggregatePopulationsExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let ((group_by, calls), populations) = (shown(&self.aggregate), self.populations.len);
        match format {
            DisplayFormatType::TreeRender => write!(
                f,
                "mode=Partial\npopulations={populations}\ngroup_by={group_by}\naggr={calls}"
            ),
            _ => write!(
                f,
                "{}: mode=Partial, populations={populations}, gby=[{group_by}], aggr=[{calls}]",
                self.name()
            ),
        }
    }
}

impl ExecutionPlan for AggregatePopulationsExec {
    fn name(&self) -> &str {
        "AggregatePopulationsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::UnspecifiedDistribution])
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.aggregate.maintains_input_order()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.scan]
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (Some(scan), true) = (children.pop(), children.is_empty()) else {
            return internal_err!("{} has one child", self.name());
        };
        let (aggregate, populations) = (Arc::clone(&self.aggregate), Arc::clone(&self.populations));
        Ok(Arc::new(Self::try_new(aggregate, populations, scan)?))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(
            children,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for expr in self.populations.expressions() {
            if f(expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = self.scan.execute(partition, Arc::clone(&context))?;
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let table = GroupTable::new(Arc::clone(&self.aggregate), partition, &context)?;
        let table = PopulationTable {
            table,
            populations: Arc::clone(&self.populations),
        };
        let batches = stream::try_unfold(
            (table, Some(input), metrics),
            |(mut table, mut input, metrics)| async move {
                let Some(rows) = &mut input else {
                    return Ok(None);
                };
                let batch = rows.next().await.transpose()?;
                let timer = metrics.elapsed_compute().timer();
                let emitted = match batch {
                    Some(batch) => table.add(&batch)?,
                    None => {
                        input = None;
                        table.table.emit()?.into_iter().collect()
                    }
                };
                let groups = emitted.iter().map(RecordBatch::num_rows).sum();
                metrics.record_output(groups);
                timer.done();
                Ok::<_, datafusion::common::DataFusionError>(Some((
                    stream::iter(emitted.into_iter().map(Ok)),
                    (table, input, metrics),
                )))
            },
        );
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
            batches.try_flatten(),
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let mut metrics = self.metrics.clone_inner();
        left_out::add_to(&mut metrics, self.aggregate.aggr_expr());
        Some(metrics)
    }
}

/// The groups since the table was last emitted.
struct PopulationTable {
    table: GroupTable,
    populations: Arc<Populations>,
}

impl PopulationTable {
    /// Adds the variants of a batch in every population; returns the groups whenever the table is full.
    fn add(&mut self, batch: &RecordBatch) -> Result<Vec<RecordBatch>> {
        let mut emitted = vec![];
        let rows = batch.num_rows();
        if rows == 0 {
            return Ok(emitted);
        }
        let populations = Arc::clone(&self.populations);
        let first = populations.rows(batch, 0)?;
        let keys = populations
            .keys
            .iter()
            .map(|key| match key {
                Key::Variant(expr) => expr.evaluate(&first)?.into_array(rows).map(Some),
                Key::Population(_) => Ok(None),
            })
            .collect::<Result<Vec<_>>>()?;
        let of_variants: Vec<ArrayRef> = keys.iter().flatten().cloned().collect();
        let all: Range<usize> = 0..rows;
        let runs = match of_variants.is_empty() {
            true => vec![all],
            false => runs(&of_variants, rows)?,
        };
        // Only so many runs at a time that their groups fit the table.
        let at_once = (self.table.capacity() / populations.len).max(1);
        for runs in runs.chunks(at_once) {
            let groups = self.groups(&keys, runs)?;
            self.update(batch, runs, &groups)?;
            emitted.extend(self.table.emit_if_full()?);
        }
        Ok(emitted)
    }

    /// The groups of these runs of variants, for each run those of every population. `keys` are those of variants.
    fn groups(&mut self, keys: &[Option<ArrayRef>], runs: &[Range<usize>]) -> Result<Vec<usize>> {
        let len = self.populations.len;
        let variants = runs
            .iter()
            .flat_map(|run| std::iter::repeat_n(run.start as u32, len));
        let variants = UInt32Array::from_iter_values(variants);
        let each = (0..len as u32).cycle().take(runs.len() * len);
        let each = UInt32Array::from_iter_values(each);
        let keys = keys
            .iter()
            .zip(&self.populations.keys)
            .map(|(of_variants, key)| match (of_variants, key) {
                (Some(key), _) => Ok(take(key, &variants, None)?),
                (None, Key::Population(names)) => Ok(take(names, &each, None)?),
                (None, Key::Variant(_)) => internal_err!("a key of variants without values"),
            })
            .collect::<Result<Vec<_>>>()?;
        self.table.intern(&keys)
    }

    /// Adds the variants of these runs, which follow one another, to `groups`.
    fn update(
        &mut self,
        batch: &RecordBatch,
        runs: &[Range<usize>],
        groups: &[usize],
    ) -> Result<()> {
        let (Some(first), Some(last)) = (runs.first(), runs.last()) else {
            return Ok(());
        };
        let start = first.start;
        let batch = batch.slice(start, last.end - start);
        let populations = Arc::clone(&self.populations);
        // Arguments that are the same in every population are computed once.
        let shared = populations.rows(&batch, 0)?;
        let shared = populations
            .calls
            .iter()
            .map(|call| Arguments::shared(call, &shared))
            .collect::<Result<Vec<_>>>()?;
        let mut of_rows = Vec::with_capacity(batch.num_rows());
        for population in 0..populations.len {
            let rows = populations.rows(&batch, population)?;
            of_rows.clear();
            let its = groups.iter().skip(population).step_by(populations.len);
            for (run, group) in runs.iter().zip(its) {
                of_rows.resize(run.end - start, *group);
            }
            for (at, (call, shared)) in populations.calls.iter().zip(&shared).enumerate() {
                let Arguments { arguments, filter } = shared.of(call, population, &rows)?;
                self.table
                    .update(at, &arguments, &of_rows, filter.as_ref())?;
            }
        }
        Ok(())
    }
}

/// The values of a call's arguments and FILTER.
struct Arguments<T> {
    arguments: Vec<T>,
    filter: Option<BooleanArray>,
}

impl Arguments<Option<ArrayRef>> {
    /// The values of the arguments that are the same in every population.
    fn shared(call: &Call, rows: &RecordBatch) -> Result<Self> {
        let arguments = call.arguments.iter().map(|argument| {
            let shared = argument.shared();
            shared.map(|expr| values(expr, rows)).transpose()
        });
        let filter = call.filter.as_ref().and_then(Value::shared);
        let filter = filter.map(|filter| passing_rows(filter, rows));
        Ok(Self {
            arguments: arguments.collect::<Result<_>>()?,
            filter: filter.transpose()?,
        })
    }

    /// All of them, for the rows of one population.
    fn of(
        &self,
        call: &Call,
        population: usize,
        rows: &RecordBatch,
    ) -> Result<Arguments<ArrayRef>> {
        let arguments = call.arguments.iter().zip(&self.arguments);
        let arguments = arguments.map(|(argument, shared)| match shared {
            Some(values) => Ok(Arc::clone(values)),
            None => values(argument.of(population)?, rows),
        });
        let filter = match (&call.filter, &self.filter) {
            (Some(filter), None) => Some(passing_rows(filter.of(population)?, rows)?),
            (_, shared) => shared.clone(),
        };
        Ok(Arguments {
            arguments: arguments.collect::<Result<_>>()?,
            filter,
        })
    }
}

fn values(expr: &Arc<dyn PhysicalExpr>, rows: &RecordBatch) -> Result<ArrayRef> {
    expr.evaluate(rows)?.into_array(rows.num_rows())
}
