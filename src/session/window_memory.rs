//! Memory of spectra and of genotypes in OVER. A window operator of DataFusion reserves no memory for the rows that it holds, each with a
//! result, which for a spectrum is one list of up to N + 1 numbers, and with arguments, which may be all genotypes of a site. The two nodes
//! here reserve it, one on either side of the operator (only the upper one where nothing has one size):
//!
//! ```text
//! ReserveWindowMemoryExec       releases memory for rows that the operator has returned; runs it with a pool for its frames
//!   BoundedWindowAggExec
//!     WindowMemoryInputExec     reserves memory for every row that the operator takes, in small batches
//! ```
//!
//! The memory of one full batch for each partition of the session is not released, because filters and repartitioning above may
//! collect that many rows, which DataFusion does not account either. Values that grow with their frames (`array_agg`) are reserved when
//! they are evaluated and released with their rows.
//!
//! [`memory_rule`](super::memory_rule) adds them. The upper node creates the reservation and passes it to the lower one in the
//! [`TaskContext`], so that plans hold no state and can be run more than once.

use std::fmt;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures::{StreamExt, TryStreamExt, future, stream};

use super::pass_through::passes_rows_on;
use super::window_calls::{aggregate_of, window_calls};
use crate::functions::{COPIES_OF_VALUES, grows, value_bytes, with_frame_memory};
use crate::scan::VczSettings;

/// While a column of results is built or copied, its rows are in memory twice.
const COPIES_OF_RESULTS: usize = 2;

/// Memory reserved for the rows that one partition of a window operator has taken and not yet returned.
struct WindowMemory(MemoryReservation);

/// Reserves the memory that a window operator's results take, until they are returned.
#[derive(Debug)]
pub struct ReserveWindowMemoryExec {
    input: Arc<dyn ExecutionPlan>,
    row_bytes: usize,
}

impl ReserveWindowMemoryExec {
    /// Bytes of the results of a row.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Above the window operator `input`, whose results take `row_bytes` bytes per row.
    pub fn new(input: Arc<dyn ExecutionPlan>, row_bytes: usize) -> Self {
        Self { input, row_bytes }
    }
}

/// Reserves the memory of results for each row that a window operator takes.
#[derive(Debug)]
pub struct WindowMemoryInputExec {
    input: Arc<dyn ExecutionPlan>,
    row_bytes: usize,
}

impl WindowMemoryInputExec {
    /// Bytes of the results of a row.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Below a window operator whose results take `row_bytes` bytes per row.
    pub fn new(input: Arc<dyn ExecutionPlan>, row_bytes: usize) -> Self {
        Self { input, row_bytes }
    }
}

impl DisplayAs for ReserveWindowMemoryExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        fmt_as(self.name(), self.row_bytes, format, f)
    }
}

impl DisplayAs for WindowMemoryInputExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        fmt_as(self.name(), self.row_bytes, format, f)
    }
}

fn fmt_as(
    name: &str,
    row_bytes: usize,
    format: DisplayFormatType,
    f: &mut fmt::Formatter,
) -> fmt::Result {
    match format {
        DisplayFormatType::TreeRender => write!(f, "row_bytes={row_bytes}"),
        _ => write!(f, "{name}: row_bytes={row_bytes}"),
    }
}

impl ExecutionPlan for ReserveWindowMemoryExec {
    passes_rows_on!(|node, input| Self::new(input, node.row_bytes));

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let memory = MemoryConsumer::new(format!("WindowSpectra[{partition}]"))
            .register(context.memory_pool());
        let memory = Arc::new(WindowMemory(memory));
        let config = context.session_config().clone();
        let context = TaskContext::new(
            context.task_id(),
            context.session_id(),
            config.with_extension(Arc::clone(&memory)),
            context.scalar_functions().clone(),
            context.higher_order_functions().clone(),
            context.aggregate_functions().clone(),
            context.window_functions().clone(),
            context.runtime_env(),
        );
        let values = MemoryConsumer::new(format!("WindowValues[{partition}]"))
            .register(context.memory_pool());
        let values = Arc::new(values);
        let growing = columns_that_grow(&self.input);
        let config = context.session_config();
        let mut kept_rows = config.batch_size() * config.target_partitions();
        let row_bytes = self.row_bytes.saturating_mul(COPIES_OF_RESULTS);
        let pool = Arc::clone(context.memory_pool());
        let mut batches = self.input.execute(partition, Arc::new(context))?;
        // The operator makes and fills its frames while it is polled.
        let scope = Arc::clone(&values);
        let batches = stream::poll_fn(move |cx| {
            with_frame_memory(&pool, &scope, || batches.poll_next_unpin(cx))
        });
        let batches = batches.inspect_ok(move |batch| {
            let WindowMemory(reservation) = memory.as_ref();
            let released = batch.num_rows().saturating_sub(kept_rows);
            kept_rows -= batch.num_rows() - released;
            reservation.shrink(row_bytes.saturating_mul(released).min(reservation.size()));
            let columns = growing.iter().map(|column| batch.column(*column));
            let bytes: usize = columns.map(|column| value_bytes(column.as_ref())).sum();
            values.shrink(bytes.saturating_mul(COPIES_OF_VALUES).min(values.size()));
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
            batches,
        )))
    }
}

impl ExecutionPlan for WindowMemoryInputExec {
    passes_rows_on!(|node, input| Self::new(input, node.row_bytes));

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let Some(memory) = context.session_config().get_extension::<WindowMemory>() else {
            return internal_err!(
                "{} needs {} above it",
                self.name(),
                ReserveWindowMemoryExec::static_name()
            );
        };
        let result_bytes = self.row_bytes;
        let row_bytes = result_bytes.saturating_mul(COPIES_OF_RESULTS);
        // Small batches, so that an operator that returns rows as it takes them needs little memory, whatever the size of a spectrum.
        let settings = VczSettings::of(context.session_config().options());
        let most = (settings.batch_bytes / row_bytes.max(1)).max(1);
        let batches = self.input.execute(partition, context)?;
        let batches = batches
            .map_ok(move |batch| {
                let starts = (0..batch.num_rows()).step_by(most);
                let slices = starts
                    .map(move |start| Ok(batch.slice(start, most.min(batch.num_rows() - start))));
                stream::iter(slices)
            })
            .try_flatten()
            .and_then(move |batch| {
                let WindowMemory(reservation) = memory.as_ref();
                let reserved = reservation
                    .try_grow(row_bytes.saturating_mul(batch.num_rows()))
                    .map(|()| batch)
                    .map_err(|error| too_large(result_bytes, error));
                future::ready(reserved)
            });
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
            batches,
        )))
    }
}

/// The columns of a window operator whose values grow with their frames.
fn columns_that_grow(window: &Arc<dyn ExecutionPlan>) -> Vec<usize> {
    let calls = window_calls(window);
    // The results are behind the columns of the input.
    let first = window.schema().fields().len().saturating_sub(calls.len());
    let grow = |at: &usize| aggregate_of(calls[*at].as_ref()).is_some_and(|call| grows(call.fun()));
    let found = (0..calls.len()).filter(grow);
    found.map(|at| first + at).collect()
}

/// The pool's error, with what can be done about it.
fn too_large(row_bytes: usize, error: DataFusionError) -> DataFusionError {
    match error {
        DataFusionError::ResourcesExhausted(reason) => {
            DataFusionError::ResourcesExhausted(format!(
                "spectra and genotypes in OVER take {row_bytes} bytes for each row: project to fewer copies (project_sfs), compute \
                 windows with GROUP BY, use smaller frames, lower datafusion.execution.batch_size, or raise the memory limit. {reason}"
            ))
        }
        other => other,
    }
}
