//! [`ClusterExec`]: runs a distributed plan. If a worker is lost before the first rows were returned, the query runs again without it.
//!
//! Invariant: rows are those of one run, all of it, or an error.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::execution::context::SessionState;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use datafusion_distributed::{
    DistributedExec, DistributedExt, DistributedMetricsFormat,
    rewrite_distributed_plan_with_metrics,
};
use futures::{StreamExt, TryStreamExt, stream};

use super::cut::cut;
use super::shown::shown;
use super::workers::Workers;
use super::{notices, settings};
use crate::scan::VczSettings;

/// How often a query runs again because a worker was lost.
const AGAIN: usize = 2;
/// Time that the notices of workers have to come in after the last row.
const NOTICES: Duration = Duration::from_secs(2);

/// Runs a distributed plan.
#[derive(Debug)]
pub struct ClusterExec {
    run: Arc<Run>,
    /// The plan in stages.
    stages: Arc<dyn ExecutionPlan>,
}

/// What is needed to run a query again.
struct Run {
    portable: Arc<dyn ExecutionPlan>,
    logical: LogicalPlan,
    state: SessionState,
    workers: Arc<Workers>,
    /// Whether it may run again: it only reads, and its rows are those of the query.
    is_repeatable: bool,
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").finish_non_exhaustive()
    }
}

impl ClusterExec {
    /// Runs `stages`, which are those of `portable`, the plan of `logical`.
    ///
    /// # Errors
    /// If the plan cannot be walked.
    pub fn new(
        stages: Arc<dyn ExecutionPlan>,
        portable: Arc<dyn ExecutionPlan>,
        logical: LogicalPlan,
        state: SessionState,
        workers: Arc<Workers>,
    ) -> Result<Self> {
        let writes = portable.exists(|node| Ok(node.is::<DataSinkExec>()))?;
        let is_repeatable = !writes && stages.is::<DistributedExec>();
        Ok(Self {
            run: Arc::new(Run {
                portable,
                logical,
                state,
                workers,
                is_repeatable,
            }),
            stages,
        })
    }

    /// The plan in stages.
    pub fn stages(&self) -> &Arc<dyn ExecutionPlan> {
        &self.stages
    }
}

impl DisplayAs for ClusterExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for ClusterExec {
    fn name(&self) -> &str {
        Self::static_name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.stages.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.stages]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(stages), true) if Arc::ptr_eq(&stages, &self.stages) => Ok(self),
            (Some(_), true) => internal_err!("{} keeps its stages", self.name()),
            _ => internal_err!("{} has one input", self.name()),
        }
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition > 0 {
            return internal_err!("{} has one partition", self.name());
        }
        let context = Arc::new(with_headers(&context, &self.run.workers)?);
        let (run, stages) = (Arc::clone(&self.run), Arc::clone(&self.stages));
        let rows = async move { run.rows(stages, context).await };
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
            stream::once(rows).try_flatten(),
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.stages.metrics()
    }
}

/// The context of a task whose requests tell workers the settings of its session.
fn with_headers(context: &TaskContext, workers: &Workers) -> Result<TaskContext> {
    let config = context.session_config().clone();
    let mut headers = settings::headers(config.options())?;
    settings::add_names(&mut headers, workers.channels())?;
    Ok(TaskContext::new(
        context.task_id(),
        context.session_id(),
        config.with_distributed_passthrough_headers(headers)?,
        context.scalar_functions().clone(),
        context.higher_order_functions().clone(),
        context.aggregate_functions().clone(),
        context.window_functions().clone(),
        context.runtime_env(),
    ))
}

impl Run {
    /// The rows of a query whose first run is that of `stages`.
    async fn rows(
        self: Arc<Self>,
        mut stages: Arc<dyn ExecutionPlan>,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let mut again = 0;
        loop {
            let used = self.workers.usable();
            if used.is_empty() {
                log::warn!("a query runs on this machine alone: no worker is left");
                stages = self.here();
            }
            let mut rows = stages.execute(0, Arc::clone(&context))?;
            let first = rows.next().await;
            let Some(Err(error)) = first else {
                return Ok(self.collecting(stages, context, first.transpose()?, rows));
            };
            drop(rows);
            if again == AGAIN || !self.is_repeatable {
                return Err(error);
            }
            let lost = self.workers.lost(&used).await;
            if lost.is_empty() {
                return Err(error);
            }
            again += 1;
            let names: Vec<String> = lost.iter().map(shown).collect();
            log::warn!(
                "a query runs again without the workers {}: {error}",
                names.join(", ")
            );
            let portable = Arc::clone(&self.portable);
            stages = match cut(portable, &self.logical, &self.state).await {
                Ok(stages) => stages,
                // No worker is left that it could be divided among.
                Err(reason) => {
                    log::warn!("a query runs on this machine alone: {reason}");
                    self.here()
                }
            };
        }
    }

    /// The plan on this machine, as one partition.
    fn here(&self) -> Arc<dyn ExecutionPlan> {
        Arc::new(CoalescePartitionsExec::new(Arc::clone(&self.portable)))
    }

    /// The rows, of which `first` was read already; notices of workers are collected after the last.
    fn collecting(
        &self,
        stages: Arc<dyn ExecutionPlan>,
        context: Arc<TaskContext>,
        first: Option<RecordBatch>,
        rows: SendableRecordBatchStream,
    ) -> SendableRecordBatchStream {
        let schema = rows.schema();
        let done = async move {
            let sink = VczSettings::of(context.session_config().options()).notices;
            let Some(collected) = sink.0.filter(|_| stages.is::<DistributedExec>()) else {
                return Ok(None);
            };
            let format = DistributedMetricsFormat::Aggregated;
            let metrics = rewrite_distributed_plan_with_metrics(stages, format);
            match tokio::time::timeout(NOTICES, metrics).await {
                Ok(plan) => notices::collect(&plan?, &collected)?,
                Err(_) => {
                    collected.add("the notices of some workers did not come in time".to_string())
                }
            }
            Ok(None)
        };
        let done =
            stream::once(done).filter_map(|end: Result<Option<_>>| async { end.transpose() });
        let all = stream::iter(first.map(Ok)).chain(rows).chain(done);
        Box::pin(RecordBatchStreamAdapter::new(schema, all))
    }
}
