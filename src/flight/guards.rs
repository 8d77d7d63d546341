//! Operators that a server adds to physical plans, so that its limits apply to every operator.
//!
//! * Window functions over whole partitions buffer all their input, for which DataFusion does not reserve memory. An operator below each
//!   of them reserves memory for its rows until the window function is done.
//! * Joins and UNNEST may produce many batches from one without yielding. An operator above each of them yields, so that a cancelled query
//!   stops soon.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::windows::WindowAggExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures::StreamExt;

use crate::session::passes_rows_on;

/// A window function holds its input batches, their concatenation, and its output.
const COPIES_HELD: usize = 3;

/// The optimizer rule that adds these operators.
#[derive(Debug)]
pub struct Guards;

impl PhysicalOptimizerRule for Guards {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let multiplies = node.is::<HashJoinExec>()
                || node.is::<NestedLoopJoinExec>()
                || node.is::<SortMergeJoinExec>()
                || node.is::<CrossJoinExec>()
                || node.is::<UnnestExec>();
            if multiplies {
                return Ok(Transformed::yes(Arc::new(CooperativeExec::new(node)) as _));
            }
            if !node.is::<WindowAggExec>() {
                return Ok(Transformed::no(node));
            }
            let children = node
                .children()
                .into_iter()
                .map(|child| {
                    Arc::new(HeldInputExec::new(Arc::clone(child))) as Arc<dyn ExecutionPlan>
                })
                .collect();
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
            node.replace_children(children, options)
                .map(Transformed::yes)
        })
        .map(|transformed| transformed.data)
    }

    fn name(&self) -> &str {
        "vcz_guards"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Passes batches on and reserves memory for them until its stream is dropped.
#[derive(Debug)]
pub struct HeldInputExec {
    input: Arc<dyn ExecutionPlan>,
}

impl HeldInputExec {
    /// Holds the batches of `input`.
    pub fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        Self { input }
    }
}

impl DisplayAs for HeldInputExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for HeldInputExec {
    passes_rows_on!(|_held, input| Self::new(input));

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let held = MemoryConsumer::new(format!("window functions[{partition}]"))
            .register(context.memory_pool());
        let input = self.input.execute(partition, context)?;
        let schema = input.schema();
        let rows = input.map(move |batch| {
            let batch = batch?;
            // Counts the column of results, too: the input may have no columns.
            let bytes = batch.get_array_memory_size() + batch.num_rows() * size_of::<i64>();
            held.try_grow(bytes.saturating_mul(COPIES_HELD))?;
            Ok(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

#[cfg(test)]
mod tests {
    use datafusion::execution::SessionStateBuilder;
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::prelude::SessionContext;

    use super::*;

    async fn run(sql: &str, limit: usize) -> Result<usize> {
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_limit(limit, 1.0)
            .build_arc()?;
        let state = SessionStateBuilder::new_with_default_features()
            .with_runtime_env(Arc::clone(&runtime))
            .with_physical_optimizer_rule(Arc::new(Guards))
            .build();
        let ctx = SessionContext::new_with_state(state);
        let rows = ctx.sql(sql).await?.collect().await;
        // After an error, tasks of other partitions may hold memory a little longer.
        for _ in 0..500 {
            if runtime.memory_pool.reserved() == 0 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        assert_eq!(runtime.memory_pool.reserved(), 0);
        rows.map(|batches| batches.iter().map(|batch| batch.num_rows()).sum())
    }

    #[tokio::test]
    async fn whole_partitions_are_accounted() {
        for sql in [
            "SELECT count(*) OVER () FROM generate_series(1, 1000000)",
            "SELECT 1 + sum(value) OVER (PARTITION BY value % 2) FROM generate_series(1, 1000000)",
        ] {
            assert_eq!(run(sql, 1 << 30).await.unwrap(), 1_000_000, "{sql}");
            let error = run(sql, 1 << 20).await.unwrap_err();
            assert!(
                matches!(
                    error.find_root(),
                    datafusion::common::DataFusionError::ResourcesExhausted(_)
                ),
                "{error}"
            );
        }
    }

    #[tokio::test]
    async fn a_join_gives_its_thread_back() {
        let state = SessionStateBuilder::new_with_default_features()
            .with_physical_optimizer_rule(Arc::new(Guards))
            .build();
        let ctx = SessionContext::new_with_state(state);
        // Each batch of one side is joined with 100,000 rows of the other.
        let sql = "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b WHERE a.value % 1 = b.value % 1";
        let query = async { ctx.sql(sql).await.unwrap().collect().await };
        let started = std::time::Instant::now();
        let stopped = tokio::time::timeout(std::time::Duration::from_millis(200), query).await;
        assert!(stopped.is_err() && started.elapsed().as_secs() < 5);
    }
}
