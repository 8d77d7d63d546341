//! Aggregation without GROUP BY of what GPUs count: pairs, whose partitions add their rows to one state, and individuals.
//!
//! [`PairsExec`] does what DataFusion's `AggregateExec` does. There, each partition has a state of its own, and that of an aggregate over pairs is
//! a matrix of all pairs once it has many rows: one matrix for each partition, and all are added at the end.
//! [`pairs_rule`](super::pairs_rule) decides where it is used; EXPLAIN shows the memory of the state.
//!
//! In the mode `Single` the one state of all partitions is evaluated where it is, since saving and merging a matrix takes as long as computing its
//! values. In the mode `Partial` states are saved: for other processes of a cluster, and where partitions have states of their own.
//!
//! Individuals (`sample_counts`) are counted by it where GPUs do; then each partition has a state of rows that these do not count, and the
//! last one also returns what they have counted.
//!
//! GPUs count pairs for large populations, as `vcz.backend` says; EXPLAIN shows `backend=gpu` where they would, or did.
//!
//! Invariant: executions do not share a state. In the mode `Partial` they have contexts of their own, and a second one with the same context is an error
//! while the first one runs.

use std::fmt;
use std::sync::{Arc, Weak};

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, PhysicalExpr, PlanProperties, ReplaceChildrenOptions,
};
use futures::future::ready;
use futures::{TryStreamExt, stream};
use parking_lot::Mutex;

use super::left_out;
use super::pairs_execution::{Execution, Part, has_one_state, states};
use super::pairs_values::values;
use super::runs::shown;
use crate::functions::{
    compares_pairs, device_bytes, is_on_device, pairs_size, would_be_on_device,
};
use crate::scan::Backend;

/// Aggregation without groups, into one state for pairs.
#[derive(Debug)]
pub struct PairsExec {
    /// The calls, filters and input, and the schema of the state.
    aggregate: Arc<AggregateExec>,
    /// In the mode `Single` the aggregate that would merge the states.
    merge: Option<Arc<AggregateExec>>,
    /// Where pairs are counted, as the session says.
    backend: Backend,
    /// Whether the last execution has counted them on a GPU; `None` before the first.
    on_gpu: Arc<Mutex<Option<bool>>>,
    /// In the mode `Partial` the last execution, while one of its partitions runs.
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
            merge: None,
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

    /// The operator that computes the values of `merge`, an aggregate of the mode `Final` that takes the states of a [`PairsExec`]. `None` if it is another
    /// operator, or partitions have states of their own.
    pub(super) fn in_one_step(merge: &AggregateExec) -> Option<Self> {
        let states = merge.input();
        let merged = states.downcast_ref::<CoalescePartitionsExec>();
        let merged = merged.filter(|merged| merged.fetch().is_none());
        let partial = merged.map_or(states, |merged| merged.input());
        let partial = partial.downcast_ref::<Self>()?;
        let is_merge = *merge.mode() == AggregateMode::Final && partial.merge.is_none();
        (is_merge && has_one_state(&partial.aggregate)).then(|| Self {
            aggregate: Arc::clone(&partial.aggregate),
            merge: Some(Arc::new(merge.clone())),
            backend: partial.backend,
            on_gpu: Arc::default(),
            execution: Mutex::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// The aggregate that merges the states of `partial` in this operator's place, in the mode `Single`.
    ///
    /// # Errors
    /// If it does not take them.
    fn merge_of(
        merge: &Arc<AggregateExec>,
        partial: Arc<dyn ExecutionPlan>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let states = match partial.output_partitioning().partition_count() {
            1 => partial,
            _ => Arc::new(CoalescePartitionsExec::new(partial)) as _,
        };
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        Arc::clone(merge).replace_children(vec![states], options)
    }

    /// The same in two steps, the first of which other processes can run; `None` in the mode `Partial`. `above` adds an operator above the first.
    ///
    /// # Errors
    /// If the second does not take its states.
    pub(super) fn in_two_steps(
        &self,
        above: impl FnOnce(Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan>,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(merge) = &self.merge else {
            return Ok(None);
        };
        let partial = Self::try_new(Arc::clone(&self.aggregate))?.with_backend(self.backend);
        Self::merge_of(merge, above(Arc::new(partial))).map(Some)
    }

    /// Whether it computes values, in the mode `Single`.
    pub(super) fn computes_values(&self) -> bool {
        self.merge.is_some()
    }

    fn mode(&self) -> &'static str {
        match self.merge {
            Some(_) => "Single",
            None => "Partial",
        }
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

    /// The aggregate that makes its states, also in the mode `Single`.
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
                write!(f, "mode={}\naggr={calls}\nmemory={memory}", self.mode())?;
            }
            _ => write!(
                f,
                "{}: mode={}, aggr=[{calls}], memory={memory}",
                self.name(),
                self.mode()
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
        self.merge.as_ref().unwrap_or(&self.aggregate).properties()
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
        let Some(aggregate) = replaced.downcast_ref::<AggregateExec>() else {
            return internal_err!("an aggregate with other children is {}", replaced.name());
        };
        let partial = Self::try_new(Arc::new(aggregate.clone()))?.with_backend(self.backend);
        let partial = Arc::new(partial);
        let Some(merge) = &self.merge else {
            return Ok(partial);
        };
        let merge = Self::merge_of(merge, partial)?;
        let merge = merge.downcast_ref::<AggregateExec>();
        match merge.and_then(Self::in_one_step) {
            Some(single) => Ok(Arc::new(single)),
            None => internal_err!("{} with other children has no values", self.name()),
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
        let (aggregate, on_gpu) = (&self.aggregate, &self.on_gpu);
        let metrics = |partition| BaselineMetrics::new(&self.metrics, partition);
        if self.merge.is_none() {
            let part = Part::begin(&self.execution, aggregate, on_gpu, &context, partition)?;
            let states = stream::once(states(partition, part, metrics(partition)));
            return Ok(Box::pin(RecordBatchStreamAdapter::new(
                self.schema(),
                states.try_filter_map(|states| ready(Ok(states))),
            )));
        }
        if partition != 0 {
            return internal_err!("{} computes values in one partition", self.name());
        }
        let partitions = aggregate.input().output_partitioning().partition_count();
        let parts = Part::all(aggregate, on_gpu, &context, partitions);
        let parts = parts.into_iter().zip((0..).map(metrics)).collect();
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
            stream::once(values(parts, self.schema())),
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let mut metrics = self.metrics.clone_inner();
        left_out::add_to(&mut metrics, self.aggregate.aggr_expr());
        Some(metrics)
    }
}
