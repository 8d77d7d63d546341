//! [`ResidentPartitions`]: how the operator above a scan asks it to leave rows of bit-planes on the GPU that decodes them, and finds them.
//!
//! It is an extension of the configuration of the context in which that operator executes the scan, and of no other. The operator must use all columns
//! of planes itself, and take [marks](crate::counts::RowMark) for rows in them.

use std::sync::Arc;

use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;

use super::source::VczSource;
use crate::counts::ResidentPlanes;
use crate::counts::pairs::KeepsRows;
use crate::scan::options::Backend;

/// The least rows of a scan for which a GPU is prepared before any is read.
const FEWEST_ROWS: u64 = 1 << 13;

/// The chunks with such rows, for each partition.
#[derive(Debug)]
pub struct ResidentPartitions(Vec<Arc<ResidentPlanes>>);

/// Whether rows of a scan may stay on GPUs: the scan is `plan`, which computes nothing from the columns that it reads, and has many rows unless a GPU
/// is demanded.
pub fn may_keep_rows(plan: &Arc<dyn ExecutionPlan>, backend: Backend) -> bool {
    source_of(plan).is_some_and(|source| {
        let rows = source.partitions.iter().flatten();
        let rows = rows.fold(0, |sum: u64, rows| {
            sum.saturating_add(rows.end - rows.start)
        });
        let mut projected = source.projection.iter();
        (backend == Backend::Gpu || rows >= FEWEST_ROWS)
            && projected.all(|of| of.expr.is::<Column>())
    })
}

fn source_of(plan: &Arc<dyn ExecutionPlan>) -> Option<&VczSource> {
    let scan = plan.downcast_ref::<DataSourceExec>()?.data_source();
    scan.downcast_ref::<VczSource>()
}

impl ResidentPartitions {
    /// Those of a scan, without chunks, of which rows may stay in this memory; `None` if `plan` is no scan.
    pub(crate) fn of_scan(
        plan: &Arc<dyn ExecutionPlan>,
        memory: &dyn KeepsRows,
    ) -> Option<Arc<Self>> {
        let partitions = &source_of(plan)?.partitions;
        let bytes = memory.bytes() / partitions.len().max(1);
        let of_partition = || Arc::new(ResidentPlanes::new(memory.devices(), bytes));
        let all = partitions.iter().map(|_| of_partition());
        Some(Arc::new(Self(all.collect())))
    }

    /// The context in which to execute the scan.
    pub fn within(self: &Arc<Self>, context: &TaskContext) -> Arc<TaskContext> {
        let config = context
            .session_config()
            .clone()
            .with_extension(Arc::clone(self));
        Arc::new(TaskContext::new(
            context.task_id(),
            context.session_id(),
            config,
            context.scalar_functions().clone(),
            context.higher_order_functions().clone(),
            context.aggregate_functions().clone(),
            context.window_functions().clone(),
            context.runtime_env(),
        ))
    }

    /// The chunks of a partition.
    pub fn partition(&self, partition: usize) -> Option<&Arc<ResidentPlanes>> {
        self.0.get(partition)
    }

    /// The same of the operator in whose context a scan is executed; `None` if rows may not stay.
    pub(in crate::scan) fn of(
        context: &TaskContext,
        partition: usize,
    ) -> Option<Arc<ResidentPlanes>> {
        let of_all = context.session_config().get_extension::<Self>()?;
        of_all.partition(partition).cloned()
    }
}
