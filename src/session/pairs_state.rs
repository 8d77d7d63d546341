//! The accumulators of [`PairsExec`](super::pairs::PairsExec): how rows are added to them, and what they are saved as.

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::filter_record_batch;
use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::logical_expr::Accumulator;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;

use super::runs_table::{passing_rows, values};

/// The operator's name.
pub(super) const NAME: &str = "PairsExec";

/// Bytes of the accumulators of all calls.
pub(super) fn size_of(accumulators: &[Box<dyn Accumulator>]) -> usize {
    let sizes = accumulators.iter().map(|of_call| of_call.size());
    sizes.fold(0, usize::saturating_add)
}

/// Adds rows to the accumulators of all calls.
pub(super) fn update(
    accumulators: &mut [Box<dyn Accumulator>],
    arguments: &[Vec<ArrayRef>],
    memory: &mut MemoryReservation,
) -> Result<()> {
    for (accumulator, arguments) in accumulators.iter_mut().zip(arguments) {
        accumulator.update_batch(arguments)?;
    }
    memory.try_resize(size_of(accumulators))
}

/// The state of the rows of one partition.
#[derive(Debug)]
pub(super) struct OwnState {
    pub(super) accumulators: Vec<Box<dyn Accumulator>>,
    memory: MemoryReservation,
}

impl OwnState {
    /// Of no rows yet.
    pub(super) fn new(accumulators: Vec<Box<dyn Accumulator>>, context: &TaskContext) -> Self {
        let memory = MemoryConsumer::new(NAME);
        Self {
            accumulators,
            memory: memory.register(context.memory_pool()),
        }
    }

    pub(super) fn add(&mut self, arguments: &[Vec<ArrayRef>]) -> Result<()> {
        update(&mut self.accumulators, arguments, &mut self.memory)
    }
}

/// The states of accumulators as columns of one row.
pub(super) fn saved(
    accumulators: &mut [Box<dyn Accumulator>],
    aggregate: &AggregateExec,
) -> Result<RecordBatch> {
    let mut columns = vec![];
    for accumulator in accumulators {
        for value in accumulator.state()? {
            columns.push(value.to_array()?);
        }
    }
    Ok(RecordBatch::try_new(aggregate.schema(), columns)?)
}

/// The arguments of each call for the rows of `batch` that pass its FILTER.
pub(super) fn arguments(
    aggregate: &AggregateExec,
    batch: &RecordBatch,
) -> Result<Vec<Vec<ArrayRef>>> {
    let calls = aggregate.aggr_expr().iter().zip(aggregate.filter_expr());
    calls
        .map(|(call, condition)| match condition {
            None => values(&call.expressions(), batch),
            Some(condition) => {
                let passing = passing_rows(condition, batch)?;
                values(&call.expressions(), &filter_record_batch(batch, &passing)?)
            }
        })
        .collect()
}
