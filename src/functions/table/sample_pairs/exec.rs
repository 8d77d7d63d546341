//! [`SamplePairsExec`]: counts pairs of samples, in as many passes over the table as memory needs, and gives them in batches.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, exec_err, internal_err};
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning,
    PhysicalExpr, PlanProperties, ReplaceChildrenOptions,
};
use futures::stream;

use super::call::Call;
use super::columns;
use super::running::Running;
use super::strip::{PAIR_BYTES, passes};
use crate::counts::pairs::pairs_of;
use crate::functions::pair_device::would_be_on_device;
use crate::scan::Backend;

/// Bytes of counts where memory has no limit.
const UNLIMITED: usize = 1 << 32;

/// The plan of a call.
#[derive(Debug)]
pub struct SamplePairsExec {
    call: Arc<Call>,
    /// The bit-planes of the samples.
    input: Arc<dyn ExecutionPlan>,
    /// Bytes that the counts of pairs may take.
    budget: usize,
    /// Where pairs are counted, as the session says.
    backend: Backend,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// Half of what `pool` has left.
fn budget_of(pool: &Arc<dyn MemoryPool>) -> usize {
    match pool.memory_limit() {
        MemoryLimit::Finite(limit) => limit.saturating_sub(pool.reserved()) / 2,
        _ => UNLIMITED,
    }
}

impl SamplePairsExec {
    /// `call` over `input`, in memory of `pool`, in a session with this backend.
    pub(super) fn try_new(
        call: Call,
        input: Arc<dyn ExecutionPlan>,
        pool: &Arc<dyn MemoryPool>,
        backend: Backend,
    ) -> Result<Self> {
        Self::within(Arc::new(call), input, budget_of(pool), backend)
    }

    /// The same with counts of at most so many bytes, if those of one sample's pairs are not more.
    #[cfg(test)]
    pub(crate) fn with_budget(&self, bytes: usize) -> Result<Self> {
        let (call, input) = (Arc::clone(&self.call), Arc::clone(&self.input));
        Self::within(call, input, bytes, self.backend)
    }

    fn within(
        call: Arc<Call>,
        input: Arc<dyn ExecutionPlan>,
        budget: usize,
        backend: Backend,
    ) -> Result<Self> {
        let schema: SchemaRef = Arc::new(columns::schema().project(&call.columns)?);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Self {
            call,
            input,
            budget,
            backend,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }
}

impl DisplayAs for SamplePairsExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let call = &self.call;
        let samples = call.shape.samples;
        // With missing calls, or more than two alleles, there may be more passes.
        let most = self.budget / PAIR_BYTES[0];
        let (pairs, passes) = (pairs_of(samples), passes(samples, most));
        let bytes = pairs.min(most.max(samples)).saturating_mul(PAIR_BYTES[0]);
        let memory = format!("{:.1} MB", bytes as f64 / 1e6);
        match format {
            DisplayFormatType::TreeRender => write!(
                f,
                "call={}\npairs={pairs}\npasses={passes}\nmemory={memory}",
                call.text
            ),
            _ => write!(
                f,
                "{}: {}, pairs={pairs}, passes={passes}, memory={memory}",
                self.name(),
                call.text
            ),
        }?;
        let on_gpu = passes == 1 && would_be_on_device(self.backend, bytes);
        match (on_gpu, format) {
            (false, _) => Ok(()),
            (true, DisplayFormatType::TreeRender) => f.write_str("\nbackend=gpu"),
            (true, _) => f.write_str(", backend=gpu"),
        }
    }
}

impl ExecutionPlan for SamplePairsExec {
    fn name(&self) -> &str {
        "SamplePairsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    /// The input's partitions are counted together.
    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (Some(input), true) = (children.pop(), children.is_empty()) else {
            return internal_err!("{} has one child", self.name());
        };
        let call = Arc::clone(&self.call);
        Ok(Arc::new(Self::within(
            call,
            input,
            self.budget,
            self.backend,
        )?))
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
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return exec_err!(
                "{}: partition {partition} of 1 was asked for",
                self.call.text
            );
        }
        let running = Running::new(
            Arc::clone(&self.call),
            Arc::clone(&self.input),
            self.schema(),
            self.budget,
            context,
            &self.metrics,
        );
        let batches = stream::try_unfold(running, |mut running| async move {
            let batch = running.next().await?;
            Ok(batch.map(|batch| (batch, running)))
        });
        Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(
            self.schema(),
            Box::pin(batches),
        ))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
