//! [`write_rows`]: writes the columns of a query's batches, those of lists after the others. [`write_whole`]: writes an array that is there
//! as a whole.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;

use super::batch_column::BatchColumn;
use super::chunk_rows::{ChunkWriter, PIECE};
use super::chunk_tasks::ChunkTasks;
use super::columns::{ColumnPlan, Role};
use super::list_spool::ListSpool;
use super::names::WrittenNames;
use super::other_arrays::WholeArray;
use crate::store::write::Documents;

/// Writes the columns of the batches, and their metadata. Each batch is shown to `follow` first.
///
/// # Errors
/// If a value has no place in its array, or writing fails.
pub async fn write_rows(
    columns: &[ColumnPlan],
    schema: &SchemaRef,
    names: &Arc<WrittenNames>,
    tasks: &mut ChunkTasks,
    mut data: SendableRecordBatchStream,
    documents: &mut Documents,
    mut follow: impl FnMut(&RecordBatch) -> Result<()>,
) -> Result<u64> {
    let (lists, direct): (Vec<_>, Vec<_>) = columns
        .iter()
        .cloned()
        .partition(|plan| plan.role == Role::List);
    let places: Vec<usize> = lists.iter().map(|plan| plan.at).collect();
    let mut spool = match places.is_empty() {
        true => None,
        false => Some(ListSpool::try_new(tasks.runtime(), schema, places)?),
    };
    let mut writer = ArrayWriter::try_new(&direct, tasks)?;
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
        writer.push(&batch, |plan| plan.at, names).await?;
    }
    writer.finish(documents).await?;
    if let Some(spool) = spool {
        let (mut batches, longest) = spool.finish()?;
        let plans = lists
            .iter()
            .zip(longest)
            .map(|(plan, longest)| plan.with_width(longest));
        let plans: Vec<ColumnPlan> = plans.collect::<Result<_>>()?;
        let mut writer = ArrayWriter::try_new(&plans, tasks)?;
        while let Some(batch) = batches.next().await? {
            // The file has these columns alone, in this order.
            let mut at = 0..;
            writer
                .push(&batch, |_| at.next().unwrap_or_default(), names)
                .await?;
        }
        writer.finish(documents).await?;
    }
    Ok(rows)
}

/// Writes an array with all its elements, and its metadata.
///
/// # Errors
/// If writing fails.
pub async fn write_whole(
    array: WholeArray,
    tasks: &mut ChunkTasks,
    documents: &mut Documents,
) -> Result<()> {
    let mut writer = ChunkWriter::try_new(vec![array.array], tasks)?;
    let column = Arc::new(BatchColumn::of_elements(array.elements));
    writer.push(&[column], array.rows).await?;
    writer.finish().await?;
    let (arrays, rows) = writer.arrays();
    arrays.for_each(|array| documents.add(array, rows));
    Ok(())
}

/// Writes columns of batches as arrays.
struct ArrayWriter<'a> {
    plans: Vec<Arc<ColumnPlan>>,
    writer: ChunkWriter<'a>,
}

impl<'a> ArrayWriter<'a> {
    fn try_new(plans: &[ColumnPlan], tasks: &'a mut ChunkTasks) -> Result<Self> {
        let arrays = plans.iter().map(|plan| plan.array.clone()).collect();
        let writer = ChunkWriter::try_new(arrays, tasks)?;
        let plans = plans.iter().cloned().map(Arc::new).collect();
        Ok(Self { plans, writer })
    }

    /// Adds the columns of `batch`, which are at the places `at`, some rows at once, as lists that are padded may become much longer.
    async fn push(
        &mut self,
        batch: &RecordBatch,
        mut at: impl FnMut(&ColumnPlan) -> usize,
        names: &Arc<WrittenNames>,
    ) -> Result<()> {
        let plans = &self.plans;
        let row_bytes: usize = plans.iter().map(|plan| plan.array.row_bytes()).sum();
        let at_once = (PIECE / row_bytes.max(1)).max(1);
        let columns: Vec<usize> = plans.iter().map(|plan| at(plan)).collect();
        for from in (0..batch.num_rows()).step_by(at_once) {
            let rows = at_once.min(batch.num_rows() - from);
            let values = self.plans.iter().zip(&columns).map(|(plan, &at)| {
                let column = batch.column(at).slice(from, rows);
                let names = Arc::clone(names);
                Arc::new(BatchColumn::of_values(Arc::clone(plan), column, names))
            });
            let values: Vec<Arc<BatchColumn>> = values.collect();
            self.writer.push(&values, rows).await?;
        }
        Ok(())
    }

    async fn finish(mut self, documents: &mut Documents) -> Result<()> {
        self.writer.finish().await?;
        let (arrays, rows) = self.writer.arrays();
        arrays.for_each(|array| documents.add(array, rows));
        Ok(())
    }
}
