//! [`UnnestListsExec`]: UNNEST of the lists that aggregates over pairs return, without a copy of their rows. The physical rule [`UnnestLists`] puts it in
//! the place of DataFusion's `UnnestExec` above such aggregates without GROUP BY.
//!
//! The list of all pairs of samples has millions of rows of several columns, next to each other. `UnnestExec` takes each by its number, then cuts
//! what it has made into batches; this operator emits slices of the list. Slices keep the whole list in memory, which batches cut from one copy do, too.
//! It is not used for lists that are many and short.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, RecordBatch, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{NullHandling, Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::unnest::{ListUnnest, UnnestExec};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan,
    InputDistributionRequirements, PhysicalExpr, PlanProperties, ReplaceChildrenOptions,
};
use futures::{StreamExt, TryStreamExt, stream};

use super::pairs::PairsExec;
use crate::functions::keeps_matrix;

/// The rule.
#[derive(Debug)]
pub struct UnnestLists;

impl PhysicalOptimizerRule for UnnestLists {
    fn name(&self) -> &str {
        "vcz_unnest_lists"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let unnest = node.downcast_ref::<UnnestExec>();
            let unnest = unnest.filter(|unnest| is_of_pairs(unnest.input()));
            let lists = unnest.and_then(|unnest| UnnestListsExec::try_new(unnest.clone()));
            Ok(match lists {
                Some(lists) => Transformed::yes(Arc::new(lists) as _),
                None => Transformed::no(node),
            })
        })
        .map(|transformed| transformed.data)
    }
}

/// Whether the rows of a plan are those of an aggregate over pairs without groups.
fn is_of_pairs(plan: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some(pairs) = plan.downcast_ref::<PairsExec>() {
        return pairs.computes_values();
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let mut calls = aggregate.aggr_expr().iter();
        return aggregate.group_expr().is_true_no_grouping()
            && calls.any(|call| keeps_matrix(call.fun()));
    }
    let passes_rows_on = plan.is::<ProjectionExec>()
        || plan.is::<RepartitionExec>()
        || plan.is::<CoalescePartitionsExec>();
    passes_rows_on && plan.children().into_iter().all(is_of_pairs)
}

/// UNNEST of one column of lists.
#[derive(Debug)]
pub struct UnnestListsExec {
    unnest: Arc<UnnestExec>,
    /// The column of lists.
    column: usize,
    metrics: ExecutionPlanMetricsSet,
}

impl UnnestListsExec {
    /// Runs `unnest`; `None` unless that is of one column of lists, once, and drops NULL.
    fn try_new(unnest: UnnestExec) -> Option<Self> {
        let &[
            ListUnnest {
                index_in_input_schema: column,
                depth: 1,
            },
        ] = unnest.list_column_indices()
        else {
            return None;
        };
        let input = unnest.input().schema();
        let is_list = matches!(input.fields().get(column)?.data_type(), DataType::List(_));
        let drops_null = matches!(unnest.options().null_handling, NullHandling::Drop);
        (is_list && drops_null && unnest.struct_column_indices().is_empty()).then(|| Self {
            unnest: Arc::new(unnest),
            column,
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// DataFusion's operator with the same rows, for other processes.
    pub fn unnest(&self) -> &Arc<UnnestExec> {
        &self.unnest
    }
}

impl DisplayAs for UnnestListsExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        match format {
            DisplayFormatType::TreeRender => Ok(()),
            _ => write!(f, "{}", self.name()),
        }
    }
}

impl ExecutionPlan for UnnestListsExec {
    fn name(&self) -> &str {
        Self::static_name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.unnest.properties()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.unnest.input_distribution_requirements()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.unnest.children()
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let replaced = Arc::clone(&self.unnest).replace_children(children, options)?;
        let unnest = replaced.downcast_ref::<UnnestExec>().cloned();
        Ok(match unnest.and_then(Self::try_new) {
            Some(lists) => Arc::new(lists),
            None => replaced,
        })
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
        self.unnest.apply_expressions(f)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let most = context.session_config().batch_size();
        let input = self.unnest.input().execute(partition, context)?;
        let (schema, column) = (self.schema(), self.column);
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let of_rows = Arc::clone(&schema);
        let timed = metrics.clone();
        let batches = input.and_then(move |batch| {
            let rows = UnnestedRows::try_new(batch, column, Arc::clone(&of_rows), most);
            let timed = timed.clone();
            let rows = rows.map(|mut rows| {
                stream::iter(std::iter::from_fn(move || {
                    let _timer = timed.elapsed_compute().timer();
                    rows.next()
                }))
            });
            std::future::ready(rows)
        });
        let batches = batches.try_flatten().inspect_ok(move |batch| {
            // Without bytes: each batch has all those of the list.
            batch.num_rows().record_output(&metrics);
            metrics.output_batches().add(1);
        });
        let batches = RecordBatchStreamAdapter::new(schema, batches.boxed());
        // A list has many batches, between which the input is not polled.
        Ok(Box::pin(cooperative(batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// The rows of a batch, unnested.
struct UnnestedRows {
    batch: RecordBatch,
    column: usize,
    lists: ListArray,
    schema: SchemaRef,
    /// The most rows at a time.
    most: usize,
    /// The row of the batch whose list is next, and how many of its values were emitted.
    next: (usize, usize),
}

impl UnnestedRows {
    fn try_new(batch: RecordBatch, column: usize, schema: SchemaRef, most: usize) -> Result<Self> {
        let Some(lists) = batch.column(column).as_list_opt::<i32>().cloned() else {
            return internal_err!("column {column} of {} has no lists", batch.schema());
        };
        Ok(Self {
            batch,
            column,
            lists,
            schema,
            most: most.max(1),
            next: (0, 0),
        })
    }

    /// Some of the values of row `row`, with the other columns.
    fn rows(&self, row: usize, values: ArrayRef) -> Result<RecordBatch> {
        let columns = self.batch.columns().iter().enumerate();
        let columns = columns.map(|(at, column)| match at == self.column {
            true => Ok(Arc::clone(&values)),
            false => {
                let rows = UInt64Array::from_value(row as u64, values.len());
                Ok(take(column, &rows, None)?)
            }
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}

impl Iterator for UnnestedRows {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (row, begin) = self.next;
            if row >= self.lists.len() {
                return None;
            }
            let len = match self.lists.is_null(row) {
                true => 0,
                false => self.lists.value_length(row) as usize,
            };
            if begin >= len {
                self.next = (row + 1, 0);
                continue;
            }
            let some = self.most.min(len - begin);
            self.next = (row, begin + some);
            return Some(self.rows(row, self.lists.value(row).slice(begin, some)));
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringArray};
    use arrow::datatypes::{Field, Int64Type, Schema};

    use super::*;

    #[test]
    fn rows_are_slices_with_the_other_columns() {
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>([
            Some(vec![]),
            Some((0..7).map(Some).collect()),
            None,
            Some(vec![None, Some(9)]),
        ]);
        let names = StringArray::from(vec!["a", "b", "c", "d"]);
        let item = Field::new("l", DataType::Int64, true);
        let schema = Arc::new(Schema::new(vec![
            Field::new("n", DataType::Utf8, false),
            item.clone(),
        ]));
        let list = Field::new("l", lists.data_type().clone(), true);
        let of_lists = Schema::new(vec![Field::new("n", DataType::Utf8, false), list]);
        let columns: Vec<ArrayRef> = vec![Arc::new(names), Arc::new(lists)];
        let batch = RecordBatch::try_new(Arc::new(of_lists), columns).unwrap();
        for (slice, most, lens) in [
            (0..4, 3, vec![3, 3, 1, 2]),
            (0..4, 100, vec![7, 2]),
            (2..4, 1, vec![1, 1]),
            (0..1, 5, vec![]),
        ] {
            let expected: Vec<_> = [
                (1, "b", (0..7).map(Some).collect()),
                (3, "d", vec![None, Some(9)]),
            ]
            .into_iter()
            .filter(|(row, _, _)| slice.contains(row))
            .flat_map(|(_, name, values)| {
                let values: Vec<Option<i64>> = values;
                values.into_iter().map(move |value| (name, value))
            })
            .collect();
            let rows = batch.slice(slice.start, slice.len());
            let rows = UnnestedRows::try_new(rows, 1, Arc::clone(&schema), most).unwrap();
            let rows = rows.collect::<Result<Vec<_>>>().unwrap();
            let found_lens: Vec<_> = rows.iter().map(RecordBatch::num_rows).collect();
            assert_eq!(found_lens, lens);
            let found = rows.iter().flat_map(|rows| {
                let names = rows.column(0).as_string::<i32>().iter().map(Option::unwrap);
                names.zip(rows.column(1).as_primitive::<Int64Type>())
            });
            assert_eq!(found.collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn values_are_not_copied() {
        let numbers = Int64Array::from_iter_values(0..10);
        let at = numbers.values().as_ptr();
        let item = Arc::new(Field::new("item", DataType::Int64, true));
        let offsets = arrow::buffer::OffsetBuffer::from_lengths([10]);
        let lists = ListArray::new(Arc::clone(&item), offsets, Arc::new(numbers), None);
        let schema = |data_type: &DataType| {
            Arc::new(Schema::new(vec![Field::new("l", data_type.clone(), true)]))
        };
        let of_lists = schema(lists.data_type());
        let batch = RecordBatch::try_new(of_lists, vec![Arc::new(lists)]).unwrap();
        let rows = UnnestedRows::try_new(batch, 0, schema(item.data_type()), 4).unwrap();
        let rows = rows.collect::<Result<Vec<_>>>().unwrap();
        let of_slices = rows.iter().map(|rows| {
            let values = rows.column(0).as_primitive::<Int64Type>().values();
            values.as_ptr()
        });
        let places: Vec<_> = of_slices.collect();
        assert_eq!(places, [at, at.wrapping_add(4), at.wrapping_add(8)]);
    }
}
