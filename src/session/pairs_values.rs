//! [`values`]: the values of an execution of [`PairsExec`](super::pairs::PairsExec) over all partitions, without states that are saved and merged.
//!
//! Each partition adds its rows in a task of its own, within the interrupt of the operator, so that they stop with it. The last one to end evaluates
//! the calls.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use datafusion::common::runtime::JoinSet;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::Accumulator;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::metrics::BaselineMetrics;

use super::pairs_execution::{Part, add_rows};
use super::pairs_state::size_of;
use crate::functions::interrupt::{Interrupt, check};
use crate::functions::value_size;

/// Adds the rows of all partitions, which `parts` are, and evaluates the calls: one row of `schema`.
pub(super) async fn values(
    parts: Vec<(Part, BaselineMetrics)>,
    schema: SchemaRef,
) -> Result<RecordBatch> {
    let interrupt = Interrupt::current();
    let mut tasks = JoinSet::new();
    for (partition, (part, metrics)) in parts.into_iter().enumerate() {
        let (interrupt, schema) = (interrupt.clone(), Arc::clone(&schema));
        tasks.spawn(interrupt.scope(async move {
            let execution = Arc::clone(part.execution());
            add_rows(partition, &execution, &metrics).await?;
            let row = part.end(|accumulators, memory| {
                let _timer = metrics.elapsed_compute().timer();
                let columns = evaluated(execution.calls(), accumulators, memory)?;
                Ok(RecordBatch::try_new(schema, columns)?)
            });
            let row = row.await?;
            metrics.record_output(row.as_ref().map_or(0, RecordBatch::num_rows));
            metrics.done();
            Ok::<_, DataFusionError>(row)
        }));
    }
    let mut rows = vec![];
    while let Some(ended) = tasks.join_next().await {
        match ended {
            Ok(row) => rows.extend(row?),
            Err(failed) if failed.is_panic() => std::panic::resume_unwind(failed.into_panic()),
            Err(failed) => return Err(DataFusionError::ExecutionJoin(Box::new(failed))),
        }
    }
    let found = rows.len();
    match rows.pop() {
        Some(row) if found == 1 => Ok(row),
        _ => internal_err!("an aggregate over pairs gave {found} rows, expected 1"),
    }
}

/// The values of all calls, for which there is memory.
fn evaluated(
    calls: &[Arc<AggregateFunctionExpr>],
    accumulators: &mut [Box<dyn Accumulator>],
    memory: &mut MemoryReservation,
) -> Result<Vec<ArrayRef>> {
    check()?;
    let sizes = calls.iter().map(|call| value_size(call));
    let bytes = sizes.sum::<Result<usize>>()?;
    memory.try_resize(size_of(accumulators).saturating_add(bytes))?;
    let columns = accumulators.iter_mut().map(|accumulator| {
        let value = accumulator.evaluate()?;
        value.to_array()
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    // Only now the accumulators have the counts of rows that were sent to GPUs. The sizes of some values depend on the rows.
    let found = columns.iter().map(|column| column.get_array_memory_size());
    let bytes = bytes.max(found.fold(0, usize::saturating_add));
    memory.try_resize(size_of(accumulators).saturating_add(bytes))?;
    Ok(columns)
}
