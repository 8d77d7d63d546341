//! The queue that all partitions of all queries share: chunks come in, batches go out to whichever device is free.
//!
//! A batch is closed when its staging memory or the device's share of memory is full, when it keeps an idle device busy, when
//! nobody who is registered ([`Active`]) can add to it, or after a while without a new chunk, usually a millisecond:
//! partitions may be polled one after the other, dropped midway, or want one chunk. What it holds is in [`super::state`].
//! Invariants: every chunk gets exactly one outcome unless nobody waits for it any more; consumers are never waited for, so
//! a partition that nobody polls holds up no other.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};

use super::batch::{Batch, Job, Outcome};
use super::cost;
use super::plan::{ChunkPlan, Estimate};
use super::slab::Slab;
use super::state::{
    FreeMemory, KEPT_PARTS, KEPT_PLANS, MOST_FRAMES, Need, Signals, State, WIDE_STAGED,
};
use super::work::Work;
use crate::store::LocalFile;

/// Encoded chunks that may be in memory before they are staged, all queries together: this many units of [`UNIT`] bytes.
const UNITS: u32 = 256;
const UNIT: usize = 1 << 20;
/// How many slabs may come to those that the queue began with, for batches that need several.
const MORE_SLABS: usize = 4;

/// How much a batch may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the decoded area.
    pub decoded: usize,
    /// Bytes of results.
    pub output: usize,
}

/// The queue of a process.
#[derive(Debug)]
pub struct Queue {
    state: Mutex<State>,
    signals: Arc<Signals>,
    unstaged: Semaphore,
    /// Slabs that have come to those it began with.
    more_slabs: AtomicUsize,
}

/// Somebody who may still add chunks; as long as there is one, a batch waits for more (but not long).
#[derive(Debug)]
pub struct Active(Arc<Queue>);

impl Drop for Active {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.active -= 1;
        if state.active == 0 {
            state.close(false);
            state.close(true);
        }
    }
}

/// Where the outcome of a chunk arrives.
pub type Ticket = oneshot::Receiver<Outcome>;

/// A chunk's place in a batch that is still being staged. Given up (with a promise to the batch taken back) when dropped.
struct Place {
    queue: Arc<Queue>,
    batch: u64,
    range: Range<usize>,
    need: Need,
    job: Option<Job>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.queue.state.lock();
        let Need {
            decoded, output, ..
        } = self.need;
        state.settle(self.batch, decoded, output, self.job.take());
    }
}

impl Queue {
    /// A queue over these slabs, all of the same length.
    pub fn new(slabs: Vec<Slab>, limits: Limits) -> Arc<Self> {
        let signals = Arc::new(Signals::default());
        Arc::new(Self {
            state: Mutex::new(State::new(slabs, limits, &signals)),
            signals,
            unstaged: Semaphore::new(UNITS as usize),
            more_slabs: AtomicUsize::new(0),
        })
    }

    /// Registers somebody who will add chunks.
    pub fn activate(self: &Arc<Self>) -> Active {
        self.state.lock().active += 1;
        Active(Arc::clone(self))
    }

    /// What a batch may hold.
    pub fn limits(&self) -> Limits {
        self.state.lock().limits
    }

    /// Changes what batches may hold from now on. With `free`, batches of large frames may hold more: as much as half of the
    /// memory that is free when they are opened.
    pub fn set_limits(&self, limits: Limits, free: Option<Arc<dyn FreeMemory>>) {
        let mut state = self.state.lock();
        (state.limits, state.free) = (limits, free);
    }

    /// Decoded bytes that a batch of such chunks would hold at most, if it were opened now.
    pub fn room(&self, estimate: &Estimate) -> usize {
        let state = self.state.lock();
        if cost::patience(estimate).is_none() {
            return state.limits.decoded;
        }
        let frame = estimate.decoded_bytes / estimate.frames.max(1);
        let staged = WIDE_STAGED.saturating_mul(cost::COMPRESSED as usize);
        let (room, _) = state.wide_room();
        room.min(frame.saturating_mul(MOST_FRAMES)).min(staged)
    }

    /// Which devices take batches from now on, as bits.
    pub fn set_devices(&self, devices: u64) {
        let mut state = self.state.lock();
        if state.devices != devices {
            state.devices = devices;
            self.signals.work.notify_all();
        }
    }

    /// Why nothing runs any more, if so.
    pub fn failure(&self) -> Option<String> {
        self.state.lock().failed.clone()
    }

    /// Waits until another chunk of about `bytes` encoded bytes may be read for staging; held until it is staged.
    pub async fn room_to_stage(&self, bytes: usize) -> Option<SemaphorePermit<'_>> {
        let units = u32::try_from(bytes / UNIT).unwrap_or(UNITS).clamp(1, UNITS);
        // Never closed.
        self.unstaged.acquire_many(units).await.ok()
    }

    /// Stages and plans one encoded chunk. Waits only for staging memory.
    ///
    /// # Errors
    /// The reason why the chunk is the host's.
    pub async fn submit(
        self: &Arc<Self>,
        work: &Arc<Work>,
        sample_chunk: usize,
        rows: usize,
        encoded: &[u8],
    ) -> Result<Ticket, String> {
        let estimate = work.planner.estimate();
        let need = Need {
            len: encoded.len(),
            decoded: estimate.decoded_bytes,
            output: work.output_bytes(sample_chunk, rows)?,
            wide: cost::patience(&estimate),
        };
        let mut place = self.wait_for_place(need).await?;
        let mut plan = self.state.lock().plans.pop().unwrap_or_default();
        {
            let mut state = self.state.lock();
            let batch = state.batch_mut(place.batch);
            // SAFETY: `reserve` gave this range to nobody else, and the batch stays in the queue until it is settled, so
            // the pointer stays valid without the lock.
            let bytes = batch.and_then(|batch| unsafe { batch.staging(place.range.clone()) });
            let Some(bytes) = bytes else {
                return Err(state
                    .failed
                    .clone()
                    .unwrap_or_else(|| "the batch is gone".to_string()));
            };
            let (pointer, len) = (bytes.as_mut_ptr(), bytes.len());
            drop(state);
            // SAFETY: as above; slabs own memory that does not move with them.
            let bytes = unsafe { std::slice::from_raw_parts_mut(pointer, len) };
            bytes.copy_from_slice(encoded);
            work.planner.plan(bytes, &mut plan)?;
        }
        let (reply, ticket) = oneshot::channel();
        let job = Job {
            work: Arc::clone(work),
            sample_chunk,
            rows,
            src: place.range.clone(),
            file: None,
            plan,
            dst: 0,
            out: 0..0,
            reply,
        };
        place.job = Some(job);
        Ok(ticket)
    }

    /// Plans one chunk that is not staged: the device reads it from `file`.
    ///
    /// # Errors
    /// The reason why the chunk is the host's.
    pub async fn submit_file(
        self: &Arc<Self>,
        work: &Arc<Work>,
        sample_chunk: usize,
        rows: usize,
        file: LocalFile,
    ) -> Result<Ticket, String> {
        let mut plan = self.state.lock().plans.pop().unwrap_or_default();
        work.planner.plan_unread(file.len(), &mut plan)?;
        let need = Need {
            len: 0,
            decoded: file.len(),
            output: work.output_bytes(sample_chunk, rows)?,
            wide: None,
        };
        let mut place = self.wait_for_place(need).await?;
        let (reply, ticket) = oneshot::channel();
        place.job = Some(Job {
            work: Arc::clone(work),
            sample_chunk,
            rows,
            src: 0..0,
            file: Some(file),
            plan,
            dst: 0,
            out: 0..0,
            reply,
        });
        Ok(ticket)
    }

    async fn wait_for_place(self: &Arc<Self>, need: Need) -> Result<Place, String> {
        loop {
            // Registered before looking, so that no wake-up is missed.
            let freed = self.signals.slab_freed.notified();
            match self.reserve(need)? {
                Some(place) => return Ok(place),
                None => freed.await,
            }
        }
    }

    /// A place for a chunk; `None` if it has to wait for staging memory.
    fn reserve(self: &Arc<Self>, need: Need) -> Result<Option<Place>, String> {
        let place = self.state.lock().place(need)?;
        Ok(place.map(|(batch, range)| Place {
            queue: Arc::clone(self),
            batch,
            range,
            need,
            job: None,
        }))
    }

    /// The next batch for a device; waits for one. `None` when the queue has failed.
    pub fn next(&self, device: usize) -> Option<Batch> {
        let mut state = self.state.lock();
        loop {
            if state.failed.is_some() {
                return None;
            }
            if state.devices >> (device % 64) & 1 == 0 {
                self.signals.work.wait(&mut state);
                continue;
            }
            if let Some(batch) = state.take(device) {
                return Some(batch);
            }
            match state.close_overdue() {
                Some(wait) if wait.is_zero() => continue,
                Some(wait) => {
                    state.idle += 1;
                    self.signals.work.wait_for(&mut state, wait);
                    state.idle -= 1;
                }
                None => {
                    state.idle += 1;
                    self.signals.work.wait(&mut state);
                    state.idle -= 1;
                }
            }
        }
    }

    /// Whether one more slab may come to those there are; it counts as one from then on.
    pub fn may_keep_slab(&self) -> bool {
        let more = |kept| (kept < MORE_SLABS).then_some(kept + 1);
        self.more_slabs
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    /// Takes back the slabs and the plans of a batch that has run, and whose memory has been given back.
    pub fn recycle(&self, batch: Batch, plans: impl Iterator<Item = ChunkPlan>) {
        let mut state = self.state.lock();
        let lent = state.take_back(batch);
        let room = KEPT_PLANS.saturating_sub(state.plans.len());
        let plans = plans.filter(|plan| plan.parts() <= KEPT_PARTS);
        state.plans.extend(plans.take(room));
        drop(state);
        drop(lent);
    }

    /// Ends everything: every chunk that waits or comes later is the host's, for this reason.
    pub fn fail(&self, reason: &str) {
        let mut state = self.state.lock();
        if state.failed.is_some() {
            return;
        }
        state.failed = Some(reason.to_string());
        let waiting: Vec<Job> = state.ready.drain(..).flat_map(|batch| batch.jobs).collect();
        let staged: Vec<Job> = state
            .unclosed()
            .flat_map(|batch| std::mem::take(&mut batch.jobs))
            .collect();
        drop(state);
        for job in waiting.into_iter().chain(staged) {
            // Whoever asked may be gone.
            let _ = job.reply.send(Outcome::Host(reason.to_string()));
        }
        self.signals.work.notify_all();
        self.signals.slab_freed.notify_waiters();
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
