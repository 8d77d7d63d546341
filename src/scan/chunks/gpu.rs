//! Fetches chunks of an array over samples and has the GPU decode them: like [`prefetch`](super::prefetch), but what arrives is
//! counts or elements. Many chunks are on their way at the same time, because a device is fast only with thousands of frames.
//!
//! Tasks are aborted when the fetcher is dropped; chunks of theirs that a device is working on are thrown away when done.

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result};

use super::gpu_request::{Parts, Piece, Request, Submitted};
use super::prefetch::Upcoming;
use crate::error::VczError;
use crate::gpu::{GpuEngine, Producer, Work};
use crate::scan::read::memory::{ScanMemory, Taken};
use crate::scan::read::metrics::ScanMetrics;

/// Results that a partition may have waiting for it, in bytes.
const WINDOW_BYTES: usize = 32 << 20;
/// Variant chunks that a partition may have on their way.
const WINDOW_CHUNKS: usize = 4096;

/// Variant chunks, ascending, that one task hands to the device.
struct Group {
    chunks: Vec<u64>,
    task: SpawnedTask<Result<Vec<Submitted>, VczError>>,
}

/// Has the wanted parts of an array's variant chunks decoded, in ascending order.
pub struct GpuFetcher {
    request: Arc<Request>,
    engine: Arc<GpuEngine>,
    /// Variant chunks that will be asked for, ascending; some may be skipped.
    upcoming: Upcoming,
    ready: VecDeque<(u64, Parts)>,
    pending: VecDeque<Group>,
    /// Variant chunks on their way, at most.
    depth: usize,
    most: usize,
    /// Whether several variant chunks are handed over together: chunks of local files, unless it may be that few are needed.
    in_groups: bool,
    metrics: ScanMetrics,
    /// Announces this fetcher's chunks until the first of them are under way.
    announced: Option<Producer>,
    _window: Option<Taken>,
}

impl GpuFetcher {
    /// A fetcher of what `request` wants of the variant chunks `upcoming`. Where `few`, it starts with that many variant chunks
    /// and takes more as they are asked for.
    pub fn new(
        request: Request,
        engine: Arc<GpuEngine>,
        upcoming: Upcoming,
        few: Option<usize>,
        memory: &ScanMemory,
        metrics: ScanMetrics,
    ) -> Self {
        let rows = request.array.chunks[0] as usize;
        let bytes: usize = request
            .wishes
            .iter()
            .flat_map(|wish| {
                let part = wish.trailing.first().map_or(0, |at| *at as usize);
                let of = |work: &Option<Arc<Work>>| {
                    work.as_ref()
                        .and_then(|work| work.output_bytes(part, rows).ok())
                };
                [
                    of(&request.counts).filter(|_| wish.count),
                    of(&request.elements).filter(|_| wish.elements),
                ]
            })
            .flatten()
            .fold(1, usize::saturating_add);
        let mut most = (WINDOW_BYTES / bytes).clamp(2, WINDOW_CHUNKS);
        // Take what the memory pool gives; with nothing left, one chunk at a time is taken when it arrives.
        let window = loop {
            match memory.take(bytes.saturating_mul(most)) {
                Ok(taken) => break Some(taken),
                Err(_) if most > 1 => most /= 2,
                Err(_) => break None,
            }
        };
        let in_groups = request.dataset.store().is_local() && few.is_none();
        Self {
            announced: Some(engine.queue().register_producer()),
            request: Arc::new(request),
            engine,
            upcoming,
            ready: VecDeque::new(),
            pending: VecDeque::new(),
            depth: few.unwrap_or(most).clamp(1, most),
            most,
            in_groups,
            metrics,
            _window: window,
        }
    }

    /// The parts of one variant chunk. Chunks before it are forgotten.
    pub async fn fetch(&mut self, chunk: u64) -> Result<Parts> {
        let fetch_time = self.metrics.fetch_time.clone();
        let _timer = fetch_time.timer();
        let mut arrived = self.arrived(chunk).await?;
        // Only now, so that what a device refuses does not pile up in memory.
        for part in &mut arrived {
            for piece in [&mut part.counts, &mut part.elements].into_iter().flatten() {
                if matches!(piece, Piece::Refused) {
                    *piece = self.request.read_again(chunk, &part.trailing).await?;
                }
            }
        }
        Ok(arrived)
    }

    /// Waits for the parts of one variant chunk.
    async fn arrived(&mut self, chunk: u64) -> Result<Parts> {
        if let Some(parts) = self.take_ready(chunk) {
            return Ok(parts);
        }
        let is_before = |group: &mut Group| group.chunks.last().is_none_or(|last| *last < chunk);
        while self.pending.pop_front_if(is_before).is_some() {}
        let holds = |group: &mut Group| group.chunks.binary_search(&chunk).is_ok();
        let group = match self.pending.pop_front_if(holds) {
            Some(group) => group,
            None => {
                while self.upcoming.next_if(|at| *at <= chunk).is_some() {}
                self.spawn(vec![chunk])
            }
        };
        self.start();
        self.depth = self.depth.saturating_mul(2).min(self.most);
        let submitted = group.task.join_unwind().await;
        let submitted = submitted.map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)))??;
        let arrived = self
            .request
            .wait_for_group(group.chunks, submitted, &self.metrics);
        self.ready = arrived.await?;
        Ok(self.take_ready(chunk).unwrap_or_default())
    }

    fn take_ready(&mut self, chunk: u64) -> Option<Parts> {
        while self.ready.pop_front_if(|(at, _)| *at < chunk).is_some() {}
        let (_, parts) = self.ready.pop_front_if(|(at, _)| *at == chunk)?;
        Some(parts)
    }

    /// Has the first chunks decoded, before any is asked for.
    pub fn start(&mut self) {
        self.fill();
        self.announced = None;
    }

    fn fill(&mut self) {
        let pending = self.pending.iter().map(|group| group.chunks.len());
        let mut room = self.depth.saturating_sub(pending.sum());
        while room > 0 {
            let some = match self.in_groups {
                true => self.request.group().min(room),
                false => 1,
            };
            let chunks: Vec<u64> = self.upcoming.by_ref().take(some).collect();
            if chunks.is_empty() {
                return;
            }
            room -= chunks.len();
            let group = self.spawn(chunks);
            self.pending.push_back(group);
        }
    }

    fn spawn(&self, chunks: Vec<u64>) -> Group {
        let request = Arc::clone(&self.request);
        let engine = Arc::clone(&self.engine);
        let metrics = self.metrics.clone();
        // Counted from here on, not from when the task first runs.
        let active = engine.queue().register_producer();
        let wanted = chunks.clone();
        let task = SpawnedTask::spawn(async move {
            let submitted = request.submit_group(&engine, &wanted, &metrics).await;
            drop(active);
            submitted
        });
        Group { chunks, task }
    }
}
