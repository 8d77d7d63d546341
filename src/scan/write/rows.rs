//! [`write_rows`]: writes the columns of a query's batches, those of lists after the others.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use futures::StreamExt;

use super::chunk_rows::ChunkWriter;
use super::columns::{ColumnPlan, Role};
use super::list_spool::ListSpool;
use super::names::WrittenNames;
use super::values::elements;
use crate::codec::ChunkData;
use crate::store::write::{Documents, Target};

/// Writes the columns of the batches, and their metadata. Each batch is shown to `follow` first.
///
/// # Errors
/// If a value has no place in its array, or writing fails.
#[expect(
    clippy::too_many_arguments,
    reason = "the parts of a statement, which differ between a new store and new arrays"
)]
pub async fn write_rows(
    columns: &[ColumnPlan],
    schema: &SchemaRef,
    names: &WrittenNames,
    target: &Arc<Target>,
    context: &Arc<TaskContext>,
    mut data: SendableRecordBatchStream,
    documents: &mut Documents,
    mut follow: impl FnMut(&RecordBatch) -> Result<()>,
) -> Result<u64> {
    let pool = &context.runtime_env().memory_pool;
    let (lists, direct): (Vec<_>, Vec<_>) = columns
        .iter()
        .cloned()
        .partition(|plan| plan.role == Role::List);
    let arrays = direct.iter().map(|plan| plan.array.clone()).collect();
    let mut writer = ChunkWriter::try_new(arrays, Arc::clone(target), pool)?;
    let places: Vec<usize> = lists.iter().map(|plan| plan.at).collect();
    let mut spool = match places.is_empty() {
        true => None,
        false => Some(ListSpool::try_new(&context.runtime_env(), schema, places)?),
    };
    let mut rows = 0u64;
    while let Some(batch) = data.next().await {
        let batch = batch?;
        if batch.num_rows() == 0 {
            continue;
        }
        rows += batch.num_rows() as u64;
        follow(&batch)?;
        if let Some(spool) = &mut spool {
            spool.push(&batch)?;
        }
        let values = direct
            .iter()
            .map(|plan| elements(plan, batch.column(plan.at), names));
        let values: Vec<ChunkData> = values.collect::<Result<_>>()?;
        writer.push(&values, batch.num_rows()).await?;
    }
    writer.finish().await?;
    let (arrays, _) = writer.arrays();
    arrays.for_each(|array| documents.add(array, rows));
    if let Some(spool) = spool {
        let (mut batches, longest) = spool.finish()?;
        let plans = lists
            .iter()
            .zip(longest)
            .map(|(plan, longest)| plan.with_width(longest));
        let plans: Vec<ColumnPlan> = plans.collect::<Result<_>>()?;
        let arrays = plans.iter().map(|plan| plan.array.clone()).collect();
        let mut writer = ChunkWriter::try_new(arrays, Arc::clone(target), pool)?;
        while let Some(batch) = batches.next().await? {
            let values = plans
                .iter()
                .zip(batch.columns())
                .map(|(plan, column)| elements(plan, column, names));
            let values: Vec<ChunkData> = values.collect::<Result<_>>()?;
            writer.push(&values, batch.num_rows()).await?;
        }
        writer.finish().await?;
        let (arrays, _) = writer.arrays();
        arrays.for_each(|array| documents.add(array, rows));
    }
    Ok(rows)
}
