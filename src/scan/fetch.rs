//! Fetches the encoded chunks of one array ahead of their decoding. Tasks are aborted when the fetcher is dropped, so a
//! cancelled query stops reading.

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::runtime::SpawnedTask;
use futures::{StreamExt, TryStreamExt, stream};

use super::dataset::Dataset;
use super::dense::{EncodedPart, chunk_index};
use super::metrics::ScanMetrics;
use crate::error::VczError;
use crate::store::ArrayMeta;

/// Requests in flight for one variant chunk.
const CONCURRENT_PARTS: usize = 8;

/// Variant chunks that will be asked for, ascending.
pub type Upcoming = std::iter::Peekable<Box<dyn Iterator<Item = u64> + Send>>;

/// The reading of one variant chunk.
type ReadTask = SpawnedTask<Result<Vec<EncodedPart>, VczError>>;

/// Reads the wanted parts of an array's variant chunks, in ascending order, a few ahead.
pub struct ChunkFetcher {
    dataset: Arc<Dataset>,
    array: Arc<ArrayMeta>,
    parts: Arc<Vec<Vec<u64>>>,
    /// Variant chunks that will be asked for, ascending; some may be skipped.
    upcoming: Upcoming,
    pending: VecDeque<(u64, ReadTask)>,
    depth: usize,
    metrics: ScanMetrics,
}

impl ChunkFetcher {
    /// A fetcher of `parts` (chunk indices after the variant axis) of the variant chunks `upcoming`.
    pub fn new(
        dataset: Arc<Dataset>,
        array: Arc<ArrayMeta>,
        parts: Vec<Vec<u64>>,
        upcoming: Upcoming,
        depth: usize,
        metrics: ScanMetrics,
    ) -> Self {
        Self {
            dataset,
            array,
            parts: Arc::new(parts),
            upcoming,
            pending: VecDeque::new(),
            depth,
            metrics,
        }
    }

    /// The encoded parts of one variant chunk. Chunks before it are forgotten.
    pub async fn fetch(&mut self, chunk: u64) -> Result<Vec<EncodedPart>> {
        let fetch_time = self.metrics.fetch_time.clone();
        let _timer = fetch_time.timer();
        while self.pending.front().is_some_and(|(at, _)| *at < chunk) {
            self.pending.pop_front();
        }
        while self.upcoming.next_if(|at| *at <= chunk).is_some() {}
        let parts = match self.pending.pop_front() {
            Some((at, task)) if at == chunk => {
                self.fill();
                task.join_unwind()
                    .await
                    .map_err(|e| datafusion::common::DataFusionError::ExecutionJoin(Box::new(e)))?
            }
            other => {
                self.pending.extend(other);
                self.fill();
                read(
                    Arc::clone(&self.dataset),
                    Arc::clone(&self.array),
                    Arc::clone(&self.parts),
                    chunk,
                )
                .await
            }
        }?;
        let bytes: usize = parts
            .iter()
            .filter_map(|(_, bytes)| bytes.as_ref())
            .map(|bytes| bytes.len())
            .sum();
        self.metrics.bytes_fetched.add(bytes);
        self.metrics
            .chunks_read
            .add(parts.iter().filter(|(_, bytes)| bytes.is_some()).count());
        Ok(parts)
    }

    fn fill(&mut self) {
        while self.pending.len() < self.depth
            && let Some(chunk) = self.upcoming.next()
        {
            let task = read(
                Arc::clone(&self.dataset),
                Arc::clone(&self.array),
                Arc::clone(&self.parts),
                chunk,
            );
            self.pending.push_back((chunk, SpawnedTask::spawn(task)));
        }
    }
}

async fn read(
    dataset: Arc<Dataset>,
    array: Arc<ArrayMeta>,
    parts: Arc<Vec<Vec<u64>>>,
    chunk: u64,
) -> Result<Vec<EncodedPart>, VczError> {
    let (dataset, array) = (&dataset, &array);
    stream::iter(parts.iter().cloned())
        .map(|trailing| async move {
            let bytes = dataset
                .store()
                .chunk(array, &chunk_index(chunk, &trailing))
                .await?;
            Ok((trailing, bytes))
        })
        .buffered(CONCURRENT_PARTS)
        .try_collect()
        .await
}
