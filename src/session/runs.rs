//! Aggregates over windows by runs: sites come sorted by position, so neighbours are mostly of the same window, and a group is
//! looked up once for each run of rows instead of once for each row.
//!
//! Takes the place of DataFusion's `AggregateExec` where its groups are merged later: in the first step of overlapping windows
//! ([`windows`](super::windows)), and where rows are grouped by what is made of their contig and position, as `genome_bin` does. A
//! group may be given out more than once: the table of groups is small, and is given out whenever it is full or memory is short.

use std::fmt;
use std::ops::{BitOr, BitXor, Range};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, MAX_INLINE_VIEW_LEN, RecordBatch, UInt32Array,
};
use arrow::compute::kernels::cmp::distinct;
use arrow::compute::take;
use arrow::datatypes::{Int64Type, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Constraints, Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, Partitioning, PhysicalExpr, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::{StreamExt, stream};

use crate::functions::is_state;
use crate::functions::scalar::GenomeBin;

/// A table of this size and of several groups is given out, so that what is above can finish the groups that are complete, and let
/// them go.
const ENOUGH_BYTES: usize = 1 << 17;
const CONTIG: &str = "variant_contig";
const POSITION: &str = "variant_position";

/// The rule that puts [`AggregateRunsExec`] in the place of `AggregateExec`.
#[derive(Debug)]
pub struct AggregateByRuns;

impl PhysicalOptimizerRule for AggregateByRuns {
    fn name(&self) -> &str {
        "vcz_aggregate_by_runs"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            let by_runs = match plan.downcast_ref::<AggregateExec>() {
                Some(aggregate) if is_first_step(aggregate) => Some(by_runs(aggregate.clone())?),
                Some(aggregate) if is_by_windows(aggregate) => in_two_steps(aggregate)?,
                _ => None,
            };
            Ok(match by_runs {
                Some(by_runs) => Transformed::yes(by_runs),
                None => Transformed::no(plan),
            })
        })
        .map(|transformed| transformed.data)
    }
}

fn by_runs(aggregate: AggregateExec) -> Result<Arc<dyn ExecutionPlan>> {
    let mut aggregate = Arc::new(aggregate);
    if *aggregate.mode() == AggregateMode::Partial
        && let Some(input) = before_shuffling(aggregate.input())?
    {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        let replaced = aggregate.replace_children(vec![input], options)?;
        aggregate = match replaced.downcast_ref::<AggregateExec>() {
            Some(aggregate) => Arc::new(aggregate.clone()),
            None => {
                return internal_err!("an aggregate with other children is {}", replaced.name());
            }
        };
    }
    Ok(Arc::new(AggregateRunsExec::new(aggregate)))
}

/// What is dealt out to more partitions and sorted again, though it came in that order. Rows are cheaper to aggregate by runs than
/// to deal out and sort.
fn before_shuffling(input: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(sort) = input.downcast_ref::<SortExec>() else {
        return Ok(None);
    };
    let Some(dealt) = sort.input().downcast_ref::<RepartitionExec>() else {
        return Ok(None);
    };
    let plain = sort.fetch().is_none()
        && sort.preserve_partitioning()
        && matches!(dealt.partitioning(), Partitioning::RoundRobinBatch(_));
    let ordering = sort.expr().iter().cloned();
    let came_so = dealt
        .input()
        .equivalence_properties()
        .ordering_satisfy(ordering)?;
    Ok((plain && came_so).then(|| Arc::clone(dealt.input())))
}

/// Whether rows go into groups here, one by one, in a way that [`AggregateRunsExec`] can take over.
fn takes_rows(aggregate: &AggregateExec) -> bool {
    let raw = matches!(
        aggregate.mode(),
        AggregateMode::Partial | AggregateMode::Single | AggregateMode::SinglePartitioned
    );
    let group_by = aggregate.group_expr();
    // Groups without aggregates (DISTINCT) are not merged by anyone.
    raw && !aggregate.aggr_expr().is_empty()
        && group_by.is_single()
        && !group_by.is_empty()
        && aggregate.limit_options().is_none()
        && aggregate
            .aggr_expr()
            .iter()
            .all(|call| call.groups_accumulator_supported())
}

/// Whether all that is computed are states that are merged later.
fn is_first_step(aggregate: &AggregateExec) -> bool {
    takes_rows(aggregate)
        && aggregate
            .aggr_expr()
            .iter()
            .all(|call| is_state(call.fun()))
}

/// Whether the groups are windows: bins, or other functions of the contig and the position, but not the position itself. By their
/// names, since no more than speed depends on it.
fn is_by_windows(aggregate: &AggregateExec) -> bool {
    let keys = aggregate.group_expr().expr();
    takes_rows(aggregate)
        && keys.iter().all(|(key, _)| is_bin(key) || is_of_place(key))
        && keys
            .iter()
            .any(|(key, _)| is_bin(key) || uses(key, POSITION))
        && aggregate
            .aggr_expr()
            .iter()
            .all(|call| call.order_sensitivity() == AggregateOrderSensitivity::Insensitive)
}

fn is_bin(key: &Arc<dyn PhysicalExpr>) -> bool {
    key.downcast_ref::<ScalarFunctionExpr>()
        .is_some_and(|call| call.fun().inner().is::<GenomeBin>())
}

fn uses(key: &Arc<dyn PhysicalExpr>, name: &str) -> bool {
    collect_columns(key)
        .iter()
        .any(|column| column.name() == name)
}

fn is_of_place(key: &Arc<dyn PhysicalExpr>) -> bool {
    let bare = key.downcast_ref::<Column>().is_some();
    collect_columns(key)
        .iter()
        .all(|column| column.name() == CONTIG || column.name() == POSITION && !bare)
}

/// The aggregate with its rows taken by runs, and what these give merged, unless that is done above already. `None` where the
/// result would not come in the same order or partitions.
fn in_two_steps(aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    match aggregate.mode() {
        AggregateMode::Partial => return by_runs(aggregate.clone()).map(Some),
        AggregateMode::Single => {}
        _ => return Ok(None),
    }
    let calls = aggregate.aggr_expr().to_vec();
    let group_by = aggregate.group_expr();
    let first = AggregateExec::try_new(
        AggregateMode::Partial,
        group_by.clone(),
        calls.clone(),
        aggregate.filter_expr().to_vec(),
        Arc::clone(aggregate.input()),
        aggregate.input_schema(),
    )?;
    let filters = vec![None; calls.len()];
    let merged = AggregateExec::try_new(
        AggregateMode::Final,
        group_by.as_final(),
        calls,
        filters,
        by_runs(first)?,
        aggregate.input_schema(),
    )?;
    let same_order = match aggregate.properties().output_ordering() {
        Some(ordering) => merged
            .properties()
            .equivalence_properties()
            .ordering_satisfy(ordering.iter().cloned())?,
        None => true,
    };
    Ok((same_order && merged.schema() == aggregate.schema())
        .then(|| Arc::new(merged) as Arc<dyn ExecutionPlan>))
}

/// An aggregation of rows that come in runs.
#[derive(Debug)]
pub struct AggregateRunsExec {
    /// What is computed.
    aggregate: Arc<AggregateExec>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl AggregateRunsExec {
    fn new(aggregate: Arc<AggregateExec>) -> Self {
        let mut properties = PlanProperties::clone(aggregate.properties());
        // Groups come in the order of their first rows, as before, but maybe more than once.
        properties.eq_properties = properties
            .eq_properties
            .with_constraints(Constraints::default());
        Self {
            aggregate,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for AggregateRunsExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        struct Inner<'a>(&'a AggregateExec, DisplayFormatType);
        impl fmt::Display for Inner<'_> {
            fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
                self.0.fmt_as(self.1, f)
            }
        }
        let inner = Inner(&self.aggregate, t).to_string();
        match inner.strip_prefix("AggregateExec") {
            Some(rest) => write!(f, "{}{rest}", self.name()),
            None => f.write_str(&inner),
        }
    }
}

impl ExecutionPlan for AggregateRunsExec {
    fn name(&self) -> &str {
        "AggregateRunsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.aggregate.input_distribution_requirements()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.aggregate.maintains_input_order()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![self.aggregate.input()]
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let replaced = Arc::clone(&self.aggregate).replace_children(children, options)?;
        match replaced.downcast_ref::<AggregateExec>() {
            Some(aggregate) => Ok(Arc::new(Self::new(Arc::new(aggregate.clone())))),
            None => internal_err!("an aggregate with other children is {}", replaced.name()),
        }
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
        self.aggregate.apply_expressions(f)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = self
            .aggregate
            .input()
            .execute(partition, Arc::clone(&context))?;
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let table = Table::new(Arc::clone(&self.aggregate), partition, &context)?;
        let batches = stream::try_unfold(
            (table, Some(input), metrics),
            |(mut table, mut input, metrics)| async move {
                while let Some(rows) = &mut input {
                    let batch = rows.next().await.transpose()?;
                    let _timer = metrics.elapsed_compute().timer();
                    let given_out = match batch {
                        Some(batch) => table.add(&batch)?,
                        None => {
                            input = None;
                            table.give_out()?
                        }
                    };
                    if let Some(groups) = given_out {
                        metrics.record_output(groups.num_rows());
                        drop(_timer);
                        return Ok(Some((groups, (table, input, metrics))));
                    }
                }
                Ok(None)
            },
        );
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
            batches,
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// The groups seen since they were last given out.
struct Table {
    aggregate: Arc<AggregateExec>,
    schema: SchemaRef,
    keys_schema: SchemaRef,
    keys: Box<dyn GroupValues>,
    accumulators: Vec<Box<dyn GroupsAccumulator>>,
    memory: MemoryReservation,
    /// Groups that the table may hold.
    capacity: usize,
}

impl Table {
    fn new(aggregate: Arc<AggregateExec>, partition: usize, context: &TaskContext) -> Result<Self> {
        let keys_schema = aggregate
            .group_expr()
            .group_schema(&aggregate.input().schema())?;
        Ok(Self {
            schema: aggregate.schema(),
            keys: new_group_values(Arc::clone(&keys_schema), &GroupOrdering::None)?,
            accumulators: aggregate
                .aggr_expr()
                .iter()
                .map(|call| call.create_groups_accumulator())
                .collect::<Result<_>>()?,
            memory: MemoryConsumer::new(format!("AggregateRuns[{partition}]"))
                .register(context.memory_pool()),
            capacity: context.session_config().batch_size(),
            keys_schema,
            aggregate,
        })
    }

    /// Adds rows; gives the groups out where they have become too many.
    fn add(&mut self, batch: &RecordBatch) -> Result<Option<RecordBatch>> {
        let keys = self
            .aggregate
            .group_expr()
            .expr()
            .iter()
            .map(|(key, _)| key.evaluate(batch)?.into_array(batch.num_rows()))
            .collect::<Result<Vec<_>>>()?;
        let groups = self.groups(&keys, batch.num_rows())?;
        let calls = self.aggregate.aggr_expr().iter();
        for ((call, filter), accumulator) in calls
            .zip(self.aggregate.filter_expr())
            .zip(&mut self.accumulators)
        {
            let filter = filter.as_ref().map(|filter| truth(filter, batch));
            accumulator.update_batch(
                &arguments(call, batch)?,
                &groups,
                filter.transpose()?.as_ref(),
                self.keys.len(),
            )?;
        }
        let bytes = self.keys.size()
            + self
                .accumulators
                .iter()
                .map(|accumulator| accumulator.size())
                .sum::<usize>();
        let full = self.keys.len() >= self.capacity
            || bytes >= ENOUGH_BYTES && self.keys.len() > 1
            || self.memory.try_resize(bytes).is_err();
        if full { self.give_out() } else { Ok(None) }
    }

    /// The group of each row.
    fn groups(&mut self, keys: &[ArrayRef], rows: usize) -> Result<Vec<usize>> {
        let runs = runs(keys, rows)?;
        let mut of_runs = Vec::with_capacity(runs.len());
        if runs.len() == rows {
            self.keys.intern(keys, &mut of_runs)?;
            return Ok(of_runs);
        }
        let first: UInt32Array = runs.iter().map(|run| run.start as u32).collect();
        let firsts = keys
            .iter()
            .map(|key| take(key, &first, None))
            .collect::<Result<Vec<_>, _>>()?;
        self.keys.intern(&firsts, &mut of_runs)?;
        let mut groups = Vec::with_capacity(rows);
        for (run, group) in runs.into_iter().zip(of_runs) {
            groups.resize(run.end, group);
        }
        Ok(groups)
    }

    /// Gives the groups out, and forgets them.
    fn give_out(&mut self) -> Result<Option<RecordBatch>> {
        if self.keys.is_empty() {
            return Ok(None);
        }
        let mut columns = self.keys.emit(EmitTo::All)?;
        for accumulator in &mut self.accumulators {
            match self.aggregate.mode() {
                AggregateMode::Partial => columns.extend(accumulator.state(EmitTo::All)?),
                _ => columns.push(accumulator.evaluate(EmitTo::All)?),
            }
        }
        self.keys = new_group_values(Arc::clone(&self.keys_schema), &GroupOrdering::None)?;
        self.memory.free();
        Ok(Some(RecordBatch::try_new(
            Arc::clone(&self.schema),
            columns,
        )?))
    }
}

fn arguments(call: &AggregateFunctionExpr, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
    call.expressions()
        .iter()
        .map(|argument| argument.evaluate(batch)?.into_array(batch.num_rows()))
        .collect()
}

/// The rows that pass `filter`.
fn truth(filter: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<BooleanArray> {
    let passes = filter.evaluate(batch)?.into_array(batch.num_rows())?;
    match passes.as_boolean_opt() {
        Some(passes) => Ok(passes.clone()),
        None => internal_err!("a filter gives {}", passes.data_type()),
    }
}

/// The runs of rows that agree in all keys; rows that cannot be compared at once are runs of their own.
fn runs(keys: &[ArrayRef], rows: usize) -> Result<Vec<Range<usize>>> {
    if rows == 0 {
        return Ok(vec![]);
    }
    if keys.is_empty() {
        return internal_err!("groups without keys");
    }
    // The rows that differ from the one before, of all keys.
    let mut starts = Vec::new();
    for key in keys {
        if key.data_type().is_nested() || key.data_type().is_floating() {
            return Ok((0..rows).map(|row| row..row + 1).collect());
        }
        let nulls = key.null_count() > 0;
        match (
            key.as_primitive_opt::<Int64Type>(),
            key.as_string_view_opt(),
        ) {
            (Some(numbers), _) if !nulls => changes(numbers.values(), &mut starts, |_| true),
            // Texts of the same view are the same. Long ones of others, too, may be, if length and first bytes are.
            (_, Some(texts)) if !nulls => changes(texts.views(), &mut starts, |row| {
                let (before, view) = (texts.views()[row - 1], texts.views()[row]);
                before as u64 != view as u64
                    || view as u32 <= MAX_INLINE_VIEW_LEN
                    || texts.value(row - 1) != texts.value(row)
            }),
            _ => {
                let others = distinct(&key.slice(0, rows - 1), &key.slice(1, rows - 1))?;
                starts.extend(others.values().set_indices().map(|row| row + 1));
            }
        }
    }
    if keys.len() > 1 {
        starts.sort_unstable();
        starts.dedup();
    }
    let mut start = 0;
    let ends = starts.into_iter().chain([rows]);
    Ok(ends
        .map(|end| std::mem::replace(&mut start, end)..end)
        .collect())
}

/// Rows that are looked at together for a change.
const SOME_ROWS: usize = 32;

/// Adds the rows whose value is not the one before, and of which `differs` agrees, to `starts`.
fn changes<T: Copy + Default + PartialEq + BitXor<Output = T> + BitOr<Output = T>>(
    values: &[T],
    starts: &mut Vec<usize>,
    differs: impl Fn(usize) -> bool,
) {
    let mut row = 1;
    let these = values.get(1..).unwrap_or_default().chunks(SOME_ROWS);
    for (before, these) in values.chunks(SOME_ROWS).zip(these) {
        // Runs are long: most rows are passed over many at a time.
        let any = before
            .iter()
            .zip(these)
            .fold(T::default(), |any, (&a, &b)| any | (a ^ b));
        if any != T::default() {
            let pairs = before.iter().zip(these).enumerate();
            let changed = pairs.filter(|(at, (a, b))| a != b && differs(row + at));
            starts.extend(changed.map(|(at, _)| row + at));
        }
        row += these.len();
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, Int64Array, StringViewArray};

    use super::*;

    #[test]
    fn runs_agree_in_all_keys() {
        let contigs: ArrayRef = Arc::new(StringViewArray::from(vec![
            "1", "1", "1", "2", "2", "2", "2",
        ]));
        let bins: ArrayRef = Arc::new(Int64Array::from(vec![
            Some(1),
            Some(1),
            Some(5),
            Some(5),
            None,
            None,
            Some(1),
        ]));
        let found = |keys: &[ArrayRef]| runs(keys, keys[0].len()).unwrap();
        assert_eq!(
            found(&[Arc::clone(&contigs), Arc::clone(&bins)]),
            [0..2, 2..3, 3..4, 4..6, 6..7]
        );
        assert_eq!(found(&[Arc::clone(&bins)]), [0..2, 2..4, 4..6, 6..7]);
        assert_eq!(found(&[bins.slice(0, 1)]), vec![0..1; 1]);
        assert!(found(&[bins.slice(0, 0)]).is_empty());
        // Without NULLs, and more rows than are looked at together.
        let bins: ArrayRef = Arc::new(Int64Array::from_iter_values(
            (0..100).map(|row| row / 33 * 10),
        ));
        assert_eq!(
            found(&[Arc::clone(&bins)]),
            [0..33, 33..66, 66..99, 99..100]
        );
        let names = ["a name that is not inlined", "another that is not", "short"];
        let contigs = (0..100).map(|row| names[row / 40]);
        let contigs: ArrayRef = Arc::new(StringViewArray::from_iter_values(contigs));
        assert_eq!(
            found(&[bins, contigs]),
            [0..33, 33..40, 40..66, 66..80, 80..99, 99..100]
        );
        // Numbers that compare as equal, or not even to themselves, are left to the table of groups.
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN]));
        assert_eq!(found(&[floats]), [0..1, 1..2, 2..3]);
    }
}
