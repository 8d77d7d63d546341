//! Fetches the encoded chunks of one array ahead of their decoding. Tasks are aborted when the fetcher is dropped, so a
//! cancelled query stops reading.
//!
//! A read in flight is one variant chunk, or, in local files, as many small ones as come to [`GROUP_BYTES`]: handing a chunk
//! from thread to thread costs more than reading a few kilobytes that are in the page cache.

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result};
use futures::{StreamExt, TryStreamExt, stream};

use crate::error::VczError;
use crate::scan::dataset::Dataset;
use crate::scan::read::columns::Ahead;
use crate::scan::read::dense::{EncodedPart, chunk_index};
use crate::scan::read::metrics::ScanMetrics;
use crate::store::ArrayMeta;

/// Requests in flight for one variant chunk.
const CONCURRENT_PARTS: usize = 8;
/// A read of several variant chunks ends with the one that brings it to this many encoded bytes.
const GROUP_BYTES: usize = 1 << 20;
/// Most variant chunks in one read.
const GROUP_CHUNKS: usize = 64;

/// Variant chunks that will be asked for, ascending.
pub type Upcoming = std::iter::Peekable<Box<dyn Iterator<Item = u64> + Send>>;

/// The parts of one variant chunk.
type Parts = Vec<EncodedPart>;

/// A read in flight: of these variant chunks, ascending, or of the first few of them.
struct Group {
    chunks: Vec<u64>,
    task: SpawnedTask<Result<VecDeque<(u64, Parts)>, VczError>>,
}

/// What reading needs to know.
#[derive(Clone)]
struct Reader {
    dataset: Arc<Dataset>,
    array: Arc<ArrayMeta>,
    parts: Arc<Vec<Vec<u64>>>,
}

/// Reads the wanted parts of an array's variant chunks, in ascending order, a few reads ahead.
pub struct ChunkFetcher {
    reader: Reader,
    /// Variant chunks that will be asked for, ascending; some may be skipped.
    upcoming: Upcoming,
    ready: VecDeque<(u64, Parts)>,
    pending: VecDeque<Group>,
    depth: usize,
    /// Variant chunks in the next read.
    group: usize,
    metrics: ScanMetrics,
}

impl ChunkFetcher {
    /// A fetcher of `parts` (chunk indices after the variant axis) of the variant chunks `upcoming`, with `ahead.prefetch` reads ahead.
    pub fn new(
        dataset: Arc<Dataset>,
        array: Arc<ArrayMeta>,
        parts: Vec<Vec<u64>>,
        upcoming: Upcoming,
        ahead: Ahead,
        metrics: ScanMetrics,
    ) -> Self {
        // Thin arrays are read many chunks at a time from the first on, unless it may be that few are needed.
        let decoded = array
            .chunk_elements()
            .unwrap_or(usize::MAX)
            .saturating_mul(array.element.size().unwrap_or(GROUP_BYTES));
        let at_once = dataset.store().is_local() && ahead.few.is_none();
        let group = match at_once {
            true => (GROUP_BYTES / decoded.max(1)).clamp(1, GROUP_CHUNKS),
            false => 1,
        };
        Self {
            reader: Reader {
                dataset,
                array,
                parts: Arc::new(parts),
            },
            upcoming,
            ready: VecDeque::new(),
            pending: VecDeque::new(),
            depth: ahead.prefetch,
            group,
            metrics,
        }
    }

    /// The encoded parts of one variant chunk. Chunks before it are forgotten.
    pub async fn fetch(&mut self, chunk: u64) -> Result<Vec<EncodedPart>> {
        let fetch_time = self.metrics.fetch_time.clone();
        let _timer = fetch_time.timer();
        while self.upcoming.next_if(|at| *at <= chunk).is_some() {}
        let parts = match self.take_ready(chunk) {
            Some(parts) => parts,
            None => match self.take_pending(chunk).await? {
                Some(parts) => parts,
                None => {
                    self.fill();
                    self.reader.read(chunk).await?
                }
            },
        };
        let bytes = encoded_bytes(&parts);
        self.metrics.bytes_fetched.add(bytes);
        self.metrics
            .chunks_read
            .add(parts.iter().filter(|(_, bytes)| bytes.is_some()).count());
        Ok(parts)
    }

    fn take_ready(&mut self, chunk: u64) -> Option<Parts> {
        while self.ready.front().is_some_and(|(at, _)| *at < chunk) {
            self.ready.pop_front();
        }
        let (_, parts) = self.ready.pop_front_if(|(at, _)| *at == chunk)?;
        Some(parts)
    }

    /// Waits for the read that this chunk is in, if one is in flight and gets as far.
    async fn take_pending(&mut self, chunk: u64) -> Result<Option<Parts>> {
        let is_before = |group: &mut Group| group.chunks.last().is_none_or(|last| *last < chunk);
        while self.pending.pop_front_if(is_before).is_some() {}
        let holds = |group: &mut Group| group.chunks.binary_search(&chunk).is_ok();
        let Some(group) = self.pending.pop_front_if(holds) else {
            return Ok(None);
        };
        self.fill();
        let read = group.task.join_unwind().await;
        self.ready = read.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??;
        if self.reader.dataset.store().is_local() {
            // As many as would have made a full read, but no sudden leaps.
            let bytes: usize = self
                .ready
                .iter()
                .map(|(_, parts)| encoded_bytes(parts))
                .sum();
            let full = GROUP_BYTES * self.ready.len() / bytes.max(1);
            self.group = full.clamp(1, self.group * 2).min(GROUP_CHUNKS);
        }
        Ok(self.take_ready(chunk))
    }

    /// Reads the first chunks, before any is asked for.
    pub fn start(&mut self) {
        self.fill();
    }

    /// Starts reads until as many are in flight as are wanted.
    fn fill(&mut self) {
        while self.pending.len() < self.depth {
            let chunks: Vec<u64> = self.upcoming.by_ref().take(self.group).collect();
            if chunks.is_empty() {
                return;
            }
            let task = self.reader.clone().read_group(chunks.clone());
            let task = SpawnedTask::spawn(task);
            self.pending.push_back(Group { chunks, task });
        }
    }
}

impl Reader {
    /// Reads chunks one after the other until they come to [`GROUP_BYTES`].
    async fn read_group(self, chunks: Vec<u64>) -> Result<VecDeque<(u64, Parts)>, VczError> {
        let mut all = VecDeque::with_capacity(chunks.len());
        let mut bytes = 0;
        for chunk in chunks {
            let parts = self.read(chunk).await?;
            bytes += encoded_bytes(&parts);
            all.push_back((chunk, parts));
            if bytes >= GROUP_BYTES {
                break;
            }
        }
        Ok(all)
    }

    async fn read(&self, chunk: u64) -> Result<Parts, VczError> {
        let store = self.dataset.store();
        if let [trailing] = self.parts.as_slice() {
            // Most arrays have no more, and are read often.
            let index = chunk_index(chunk, trailing);
            return Ok(vec![(
                trailing.clone(),
                store.chunk(&self.array, &index).await?,
            )]);
        }
        stream::iter(self.parts.iter().cloned())
            .map(|trailing| async move {
                let index = chunk_index(chunk, &trailing);
                Ok((trailing, store.chunk(&self.array, &index).await?))
            })
            .buffered(CONCURRENT_PARTS)
            .try_collect()
            .await
    }
}

fn encoded_bytes(parts: &[EncodedPart]) -> usize {
    parts
        .iter()
        .flat_map(|(_, bytes)| bytes)
        .map(|bytes| bytes.len())
        .sum()
}
