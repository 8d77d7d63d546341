//! The read-ahead window of an array: variant chunks are requested in ascending order, and those that will be requested next are
//! being read.
//!
//! A read is a task for one variant chunk, or for several small ones, because passing a chunk between threads takes longer than
//! reading a few kilobytes from the page cache. Tasks are aborted when the window is dropped, so a cancelled query stops reading.

use std::collections::VecDeque;
use std::iter::Peekable;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result, exec_err};
use futures::future::BoxFuture;

use super::absence::Absences;
use super::chunk::{Chunk, Part, chunk_index};
use crate::error::VczError;
use crate::scan::read::memory::{ReservedBytes, ScanMemory};
use crate::scan::read::metrics::ScanMetrics;

/// Variant chunks that will be requested, ascending.
pub type Upcoming = Peekable<Box<dyn Iterator<Item = u64> + Send>>;

/// The variant chunks of an array that overlap ascending row ranges. An iterator, because a list of them might not fit in memory.
pub fn chunks_of(ranges: &[Range<u64>], chunk_rows: u64) -> Upcoming {
    let ranges: Vec<Range<u64>> = ranges
        .iter()
        .filter(|range| !range.is_empty())
        .cloned()
        .collect();
    let mut next = 0;
    let chunks = ranges.into_iter().flat_map(move |range| {
        let first = (range.start / chunk_rows).max(next);
        let end = (range.end - 1) / chunk_rows + 1;
        next = next.max(end);
        first..end
    });
    let chunks: Box<dyn Iterator<Item = u64> + Send> = Box::new(chunks);
    chunks.peekable()
}

/// How far to read ahead.
#[derive(Debug, Clone, Copy)]
pub struct Ahead {
    /// `vcz.prefetch`: the maximum number of reads in flight ahead of the requested chunk; 0 for none.
    pub prefetch: usize,
    /// The initial number of variant chunks, if few may be needed.
    pub few: Option<usize>,
}

/// The parts of a variant chunk that was read.
pub enum Arriving {
    /// They have been read.
    Ready(Vec<Part>),
    /// A GPU is working on them.
    #[cfg_attr(
        not(feature = "gpu"),
        expect(dead_code, reason = "only a GPU is waited for")
    )]
    Waiting(BoxFuture<'static, Result<Vec<Part>, VczError>>),
}

/// The variant chunks of a read, ascending.
pub type Arrivals = VecDeque<(u64, Arriving)>;

/// Reads the parts of variant chunks that a scan requests of one array.
pub trait ChunkReader: Send + Sync {
    /// The number of variant chunks of the next read, at least one.
    fn group(&self) -> usize;

    /// The maximum number of variant chunks in flight now, beside that of the window.
    fn most_chunks(&self) -> usize {
        usize::MAX
    }

    /// Reads these variant chunks (ascending, at least one) or, if they turn out to be large, the first few of them.
    fn read(self: Arc<Self>, chunks: Vec<u64>) -> BoxFuture<'static, Result<Arrivals, VczError>>;
}

/// Limits on the variant chunks in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The maximum number of reads in flight; it increases if the window may grow.
    pub reads: usize,
    /// The initial maximum number of variant chunks in them; it doubles after each read that was waited for.
    pub chunks: usize,
    /// The maximum number of variant chunks in them.
    pub most_chunks: usize,
}

/// The initial number of reads in flight: reads of local files take microseconds, those of a server milliseconds.
const LOCAL_READS: usize = 4;
const REMOTE_READS: usize = 16;
/// The number of reads in flight increases after a read that was waited for this long. Local files that take so long are on a slow
/// disk or a file server.
const LOCAL_PATIENCE: Duration = Duration::from_millis(20);
const REMOTE_PATIENCE: Duration = Duration::from_millis(2);
/// The maximum encoded bytes in flight for an array once the number of reads has increased: what a link of 1 GB/s transfers in 64 ms.
/// If memory is limited, at most 1/`PART_OF_MEMORY` of it.
const MOST_BYTES_IN_FLIGHT: usize = 64 << 20;
const PART_OF_MEMORY: usize = 64;

impl Ahead {
    /// The initial number of reads in flight: few for a local store or for reads of several chunks. Otherwise it follows from `bytes`, the
    /// decoded bytes of a read.
    pub fn first_reads(&self, are_few: bool, bytes: usize) -> usize {
        let few = match are_few {
            true => LOCAL_READS,
            false => (MOST_BYTES_IN_FLIGHT / bytes.max(1)).clamp(LOCAL_READS, REMOTE_READS),
        };
        self.prefetch.min(few)
    }
}

/// Increases the number of reads in flight until it matches the latency and the bandwidth of the store.
struct Growth {
    most: usize,
    growth_threshold: Duration,
    memory: ScanMemory,
    /// Memory reserved for the additional reads.
    taken: Vec<ReservedBytes>,
    /// Reads that have arrived, and their encoded bytes.
    reads: usize,
    bytes: usize,
}

impl Growth {
    /// The number of reads in flight after a read that was waited for: twice as many, as far as their bytes fit in memory.
    fn after(&mut self, arrived: &Arrivals, waited: Duration, reads: usize) -> usize {
        let parts = arrived.iter().flat_map(|(_, arriving)| match arriving {
            Arriving::Ready(parts) => parts.as_slice(),
            Arriving::Waiting(_) => &[],
        });
        let bytes: usize = parts.filter_map(|part| part.chunk.encoded_len()).sum();
        self.reads += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        let more = reads.min(self.most.saturating_sub(reads));
        if waited < self.growth_threshold || more == 0 {
            return reads;
        }
        let mean = self.bytes.div_ceil(self.reads);
        let most_bytes = MOST_BYTES_IN_FLIGHT.min(self.memory.limit() / PART_OF_MEMORY);
        if mean.saturating_mul(reads + more) > most_bytes {
            return reads;
        }
        match self.memory.take(mean.saturating_mul(more)) {
            Ok(taken) => {
                self.taken.push(taken);
                reads + more
            }
            Err(_) => reads,
        }
    }
}

/// A read in flight.
struct Read {
    chunks: Vec<u64>,
    task: SpawnedTask<Result<Arrivals, VczError>>,
}

/// Reads an array's variant chunks in ascending order, before they are requested.
pub struct Prefetch {
    reader: Arc<dyn ChunkReader>,
    /// Some of these may be skipped.
    upcoming: Upcoming,
    arrived: Arrivals,
    reads: VecDeque<Read>,
    window: Window,
    metrics: ScanMetrics,
    growth: Option<Growth>,
    /// Checks absent chunks of this column of the table.
    absences: Option<(Arc<Absences>, usize)>,
    /// Dropped once the first reads have been started.
    until_started: Option<Box<dyn Send>>,
    /// Memory of the results that the window may hold.
    _memory: Option<ReservedBytes>,
}

impl Prefetch {
    /// A window over `upcoming`; nothing is read yet.
    pub fn new(
        reader: Arc<dyn ChunkReader>,
        upcoming: Upcoming,
        window: Window,
        metrics: ScanMetrics,
    ) -> Self {
        Self {
            reader,
            upcoming,
            arrived: VecDeque::new(),
            reads: VecDeque::new(),
            window,
            metrics,
            growth: None,
            absences: None,
            until_started: None,
            _memory: None,
        }
    }

    /// Lets the number of reads in flight grow to `most` while reads have to be waited for, as far as `memory` allows.
    pub fn growing(self, most: usize, is_local: bool, memory: ScanMemory) -> Self {
        Self {
            growth: Some(Growth {
                most,
                growth_threshold: match is_local {
                    true => LOCAL_PATIENCE,
                    false => REMOTE_PATIENCE,
                },
                memory,
                taken: vec![],
                reads: 0,
                bytes: 0,
            }),
            ..self
        }
    }

    /// Checks absent chunks with `absences`; the array is `column` of the table.
    pub fn checking(self, absences: Arc<Absences>, column: usize) -> Self {
        Self {
            absences: Some((absences, column)),
            ..self
        }
    }

    /// Holds `guard` until the first reads have been started, and `memory` as long as the window exists.
    #[cfg_attr(
        not(feature = "gpu"),
        allow(dead_code, reason = "the host's window holds neither")
    )]
    pub fn holding(self, guard: impl Send + 'static, memory: Option<ReservedBytes>) -> Self {
        Self {
            until_started: Some(Box::new(guard)),
            _memory: memory,
            ..self
        }
    }

    /// Starts to read before any chunk is requested.
    pub fn start(&mut self) {
        self.fill();
        self.until_started = None;
    }

    /// The parts of one variant chunk. Earlier chunks are dropped.
    ///
    /// # Errors
    /// If it cannot be read, or if it is absent and the store has changed since it was opened.
    pub async fn fetch(&mut self, chunk: u64) -> Result<Vec<Part>> {
        let fetch_time = self.metrics.fetch_time.clone();
        let _timer = fetch_time.timer();
        let parts = self.next(chunk).await?;
        let mut absent = parts.iter().filter(|part| part.chunk == Chunk::Absent);
        if let Some(first) = absent.next() {
            self.metrics.chunks_absent.add(1 + absent.count());
            if let Some((absences, column)) = &self.absences {
                let index = chunk_index(chunk, &first.trailing);
                absences.check_first(*column, index).await?;
            }
        }
        Ok(parts)
    }

    async fn next(&mut self, chunk: u64) -> Result<Vec<Part>> {
        while self.upcoming.next_if(|at| *at <= chunk).is_some() {}
        loop {
            while self.arrived.pop_front_if(|(at, _)| *at < chunk).is_some() {}
            match self.arrived.pop_front_if(|(at, _)| *at == chunk) {
                Some((_, Arriving::Ready(parts))) => {
                    self.count(&parts);
                    return Ok(parts);
                }
                Some((_, Arriving::Waiting(parts))) => return Ok(parts.await?),
                None => self.wait(chunk).await?,
            }
        }
    }

    /// Waits for the read of variant chunk `chunk`, which is started if it is not in flight.
    async fn wait(&mut self, chunk: u64) -> Result<()> {
        let is_before = |read: &mut Read| read.chunks.last().is_none_or(|last| *last < chunk);
        while self.reads.pop_front_if(is_before).is_some() {}
        let has = |read: &mut Read| read.chunks.binary_search(&chunk).is_ok();
        let read = match self.reads.pop_front_if(has) {
            Some(read) => read,
            None => self.spawn(vec![chunk]),
        };
        self.start();
        self.window.chunks = (self.window.chunks.saturating_mul(2)).min(self.window.most_chunks);
        let Read { mut chunks, task } = read;
        let started = Instant::now();
        let arrived = task.join_unwind().await;
        self.arrived =
            arrived.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??;
        if let Some(growth) = &mut self.growth {
            self.window.reads = growth.after(&self.arrived, started.elapsed(), self.window.reads);
        }
        let Some((last, _)) = self.arrived.back() else {
            return exec_err!("reading variant chunk {chunk} gave nothing");
        };
        chunks.retain(|at| at > last);
        if !chunks.is_empty() {
            let rest = self.spawn(chunks);
            self.reads.push_front(rest);
        }
        Ok(())
    }

    /// Starts reads until as many are in flight as the window holds.
    fn fill(&mut self) {
        let in_flight: usize = self.reads.iter().map(|read| read.chunks.len()).sum();
        let most = self.window.chunks.min(self.reader.most_chunks().max(1));
        let mut room = most.saturating_sub(in_flight);
        while room > 0 && self.reads.len() < self.window.reads {
            let group = self.reader.group().clamp(1, room);
            let chunks: Vec<u64> = self.upcoming.by_ref().take(group).collect();
            if chunks.is_empty() {
                return;
            }
            room -= chunks.len();
            let read = self.spawn(chunks);
            self.reads.push_back(read);
        }
    }

    fn spawn(&self, chunks: Vec<u64>) -> Read {
        let task = SpawnedTask::spawn(Arc::clone(&self.reader).read(chunks.clone()));
        Read { chunks, task }
    }

    /// Adds what was read to the metrics. Chunks for a GPU are counted when they are submitted.
    fn count(&self, parts: &[Part]) {
        let read = parts.iter().filter_map(|part| part.chunk.encoded_len());
        let (chunks, bytes) = read.fold((0, 0), |(n, sum), len| (n + 1, sum + len));
        self.metrics.chunks_read.add(chunks);
        self.metrics.bytes_fetched.add(bytes);
    }
}

#[cfg(test)]
#[path = "prefetch_tests.rs"]
mod tests;
