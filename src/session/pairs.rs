//! Partial aggregation without GROUP BY of what GPUs count: pairs, whose partitions add their rows to one state, and individuals.
//!
//! [`PairsExec`] does what DataFusion's `AggregateExec` does in the mode `Partial`. There, each partition has a state of its own, and that
//! of an aggregate over pairs is a matrix of all pairs once it has many rows: one matrix for each partition, and all are added at the end.
//! [`pairs_rule`](super::pairs_rule) decides where it is used; EXPLAIN shows the memory of the state.
//!
//! Individuals (`sample_counts`) are counted by it where GPUs do; then each partition has a state of rows that these do not count, and the
//! last one also returns what they have counted.
//!
//! GPUs count pairs for large populations, as `vcz.backend` says; EXPLAIN shows `backend=gpu` where they would, or did.
//!
//! Invariant: executions do not share a state: they have contexts of their own, and a second one with the same context is an error while the
//! first one runs.

use std::fmt;
use std::sync::{Arc, Weak};

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan,
    InputDistributionRequirements, PhysicalExpr, PlanProperties, ReplaceChildrenOptions,
};
use futures::future::ready;
use futures::{TryStreamExt, stream};
use parking_lot::Mutex;

use super::left_out;
use super::pairs_execution::{Execution, Part, sum};
use super::runs::shown;
use crate::functions::{
    compares_pairs, device_bytes, is_on_device, pairs_size, would_be_on_device,
};
use crate::scan::Backend;

/// Partial aggregation without groups, into one state for pairs.
#[derive(Debug)]
pub struct PairsExec {
    /// The calls, filters and input, and the schema of the state.
    aggregate: Arc<AggregateExec>,
    /// Where pairs are counted, as the session says.
    backend: Backend,
    /// Whether the last execution has counted them on a GPU; `None` before the first.
    on_gpu: Arc<Mutex<Option<bool>>>,
    /// The last execution, while one of its partitions runs.
    execution: Mutex<Weak<Execution>>,
    metrics: ExecutionPlanMetricsSet,
}

impl PairsExec {
    /// Computes what `aggregate` does, an aggregation of the mode `Partial` without groups.
    ///
    /// # Errors
    /// If it is of another mode or has groups.
    pub fn try_new(aggregate: Arc<AggregateExec>) -> Result<Self> {
        let is_partial = *aggregate.mode() == AggregateMode::Partial;
        if !is_partial || !aggregate.group_expr().is_true_no_grouping() {
            return internal_err!(
                "{} is for partial aggregation without groups, not {:?}",
                Self::static_name(),
                aggregate.mode()
            );
        }
        Ok(Self {
            aggregate,
            backend: Backend::default(),
            on_gpu: Arc::default(),
            execution: Mutex::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// The same in a session with this backend, for EXPLAIN.
    pub(super) fn with_backend(self, backend: Backend) -> Self {
        Self { backend, ..self }
    }

    /// Whether GPUs count pairs, or would now.
    fn is_on_gpu(&self) -> bool {
        let would = || {
            let mut calls = self.aggregate.aggr_expr().iter();
            calls.any(|call| {
                is_on_device(call.fun()) && would_be_on_device(self.backend, device_bytes(call))
            })
        };
        self.on_gpu.lock().unwrap_or_else(would)
    }

    /// The aggregate that it computes.
    pub(super) fn aggregate(&self) -> &AggregateExec {
        &self.aggregate
    }

    /// Bytes of the counts over pairs, whatever rows there are.
    pub(super) fn pairs_bytes(&self) -> usize {
        let calls = self.aggregate.aggr_expr().iter();
        let bytes = calls
            .filter(|call| compares_pairs(call.fun()))
            .map(|call| pairs_size(call));
        bytes.fold(0, usize::saturating_add)
    }
}

impl DisplayAs for PairsExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let (_, calls) = shown(&self.aggregate);
        let memory = format!("{:.1} MB", self.pairs_bytes() as f64 / 1e6);
        match format {
            DisplayFormatType::TreeRender => {
                write!(f, "mode=Partial\naggr={calls}\nmemory={memory}")?;
            }
            _ => write!(
                f,
                "{}: mode=Partial, aggr=[{calls}], memory={memory}",
                self.name()
            )?,
        }
        match (self.is_on_gpu(), format) {
            (false, _) => Ok(()),
            (true, DisplayFormatType::TreeRender) => f.write_str("\nbackend=gpu"),
            (true, _) => f.write_str(", backend=gpu"),
        }
    }
}

impl ExecutionPlan for PairsExec {
    fn name(&self) -> &str {
        Self::static_name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.aggregate.properties()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.aggregate.input_distribution_requirements()
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
            Some(aggregate) => {
                let replaced = Self::try_new(Arc::new(aggregate.clone()))?;
                Ok(Arc::new(replaced.with_backend(self.backend)))
            }
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
        let part = Part::begin(
            &self.execution,
            &self.aggregate,
            &self.on_gpu,
            &context,
            partition,
        )?;
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let state = stream::once(sum(partition, part, metrics));
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
            state.try_filter_map(|state| ready(Ok(state))),
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let mut metrics = self.metrics.clone_inner();
        left_out::add_to(&mut metrics, self.aggregate.aggr_expr());
        Some(metrics)
    }
}
