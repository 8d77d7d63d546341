//! Reads the rows of a partition by several tasks, and gives their batches in the order of the rows, as a writer needs them.
//!
//! Each task reads some chunks and keeps its batches until those before it have been taken, so tasks are small, and only as many run as
//! [`MAX_BYTES`] allows. Where the chunks of a few rows have more bytes, one task reads all, keeps nothing, and decodes only some rows of
//! large chunks at a time ([`BLOCK_BYTES`]), again and again. The tasks run on threads of their own ([`OwnThreads`] says why).

use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::{DataFusionError, Result};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};

use super::memory::ReservedBytes;
use super::stream::Reading;
use crate::scan::chunks::absence::PartitionAbsences;
use crate::scan::own_threads::OwnThreads;
use crate::scan::plan::ranges::{rows_in, split};
use crate::scan::plan::source::VczSource;
use crate::scan::progress::{ProgressTracker, ScanProgress};

/// Bytes that all tasks may decode and keep.
const MAX_BYTES: usize = 48 << 20;
/// If memory is limited, at most 1/`PART_OF_MEMORY` of it.
const PART_OF_MEMORY: usize = 4;
/// A task reads about as many bytes at least, if chunks are small.
const TASK_BYTES: usize = 4 << 20;

/// The most bytes that are decoded at a time where one task reads all.
const BLOCK_BYTES: usize = 48 << 20;

/// The rows of each task, and how many tasks run at once.
#[derive(Debug, PartialEq)]
struct Division {
    tasks: Vec<Vec<Range<u64>>>,
    at_once: usize,
    /// Bytes of the batches that a task keeps.
    kept: usize,
}

impl VczSource {
    /// How many rows of arrays over samples are decoded at a time, in a scan whose memory is bounded: at least one.
    pub(super) fn block_rows(&self) -> Option<u64> {
        let rows = (BLOCK_BYTES / self.read_row_bytes().max(1)).max(1);
        self.by_tasks.then_some(rows as u64)
    }

    /// Divides `ranges` among tasks of which at most `most` run at once, with `bytes` of memory. `None` if one task reads all.
    fn divided(&self, ranges: &[Range<u64>], most: usize, bytes: usize) -> Option<Division> {
        if self.limit.is_some() || !self.dynamic.is_empty() {
            return None;
        }
        let chunk_rows = (0..self.table.stores.members().len())
            .map(|store| self.heavy_chunk_rows(store))
            .max()?;
        let row_bytes = self.read_row_bytes().max(1);
        let sized = (TASK_BYTES / row_bytes) as u64;
        // Longer chunks would be decoded by several tasks.
        let rows = sized.max(chunk_rows).max(self.longest_chunk_rows());
        let rows = rows.div_ceil(chunk_rows.max(1)).checked_mul(chunk_rows)?;
        let of_rows =
            |bytes: usize| bytes.saturating_mul(usize::try_from(rows).unwrap_or(usize::MAX));
        let (decoded, kept) = (of_rows(row_bytes), of_rows(self.output_row_bytes()));
        let at_once = (bytes / decoded.saturating_add(kept).max(1)).min(most);
        let n = rows_in(ranges).div_ceil(rows.max(1));
        if at_once < 2 || n < 2 {
            return None;
        }
        let tasks = split(ranges, usize::try_from(n).ok()?, self.chunk_boundary());
        Some(Division {
            tasks,
            at_once,
            kept,
        })
    }
}

impl Reading {
    /// The batches of `ranges`, which at most `most` tasks read at once. `None` if one task should read them: a GPU decodes, or there is not
    /// enough memory, or there are too few rows.
    ///
    /// # Errors
    /// If no backend can be used.
    pub async fn in_order(
        &self,
        ranges: &[Range<u64>],
        most: usize,
        tracker: Option<Arc<ProgressTracker>>,
    ) -> Result<Option<BoxStream<'static, Result<RecordBatch>>>> {
        let source = &self.source;
        if self.execution.backend.device(source).await?.is_some() {
            return Ok(None);
        }
        let bytes = MAX_BYTES.min(self.memory.limit() / PART_OF_MEMORY);
        let Some(division) = source.divided(ranges, most, bytes) else {
            return Ok(None);
        };
        let Division { tasks, kept, .. } = division;
        let at_once = division.at_once.min(tasks.len());
        // Batches that wait; what tasks decode they reserve themselves.
        let Ok(memory) = self.memory.take(kept.saturating_mul(at_once)) else {
            return Ok(None);
        };
        // One task reads all if the system starts no threads.
        let Ok(threads) = OwnThreads::try_new("vcz-read", at_once) else {
            return Ok(None);
        };
        for absences in &self.execution.absences {
            absences.expect_more(tasks.len() - 1);
        }
        let held = Held {
            progress: ScanProgress::start(tracker, rows_in(ranges)),
            _memory: memory,
        };
        let reading = self.clone();
        let batches = stream::iter(tasks)
            .map(move |ranges| {
                let reading = reading.clone();
                // Queued now, and not when its turn comes.
                let read = threads.wait_for(async move {
                    let batches = reading.read_all(&ranges).await?;
                    Ok::<_, DataFusionError>((rows_in(&ranges), batches))
                });
                async move { read.await? }
            })
            .buffered(at_once);
        let in_turn = stream::try_unfold((batches, held), |(mut batches, mut held)| async move {
            Ok::<_, DataFusionError>(match batches.try_next().await? {
                Some((rows, read)) => {
                    held.progress.advance(rows);
                    Some((stream::iter(read.into_iter().map(Ok)), (batches, held)))
                }
                None => None,
            })
        });
        Ok(Some(in_turn.try_flatten().boxed()))
    }

    /// All batches of these rows.
    async fn read_all(&self, ranges: &[Range<u64>]) -> Result<Vec<RecordBatch>> {
        let absences = PartitionAbsences::of(&self.execution.absences);
        let mut batches = self.batches(ranges, None, absences)?;
        let mut all = vec![];
        while let Some(batch) = batches.next().await? {
            all.push(batch);
        }
        Ok(all)
    }
}

/// What is held until all batches have been taken.
struct Held {
    progress: ScanProgress,
    _memory: ReservedBytes,
}
