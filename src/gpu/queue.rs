//! The queue that all partitions of all queries share: producers submit chunks, devices take batches.
//!
//! A batch is closed when its staging memory or the device's share of memory is full, when it keeps an idle device busy, when
//! no registered [`Producer`] is left to add to it, or after some time without a new chunk, usually a millisecond: partitions
//! may be polled one after the other, be dropped midway, or want one chunk. [`super::queue_state`] has the state under the
//! lock. Invariants: every chunk gets exactly one outcome unless its consumer is gone; the queue never waits for consumers, so
//! a partition that is not polled blocks no other.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::batch::{Batch, BatchLimits, ChunkJob, Outcome, Reply, Ticket};
use super::cost;
use super::encoded::Encoded;
use super::plan::{ChunkPlan, Estimate};
use super::queue_state::{
    FreeMemory, KEPT_PARTS, KEPT_PLANS, LARGE_FRAMES_STAGED, MOST_FRAMES, Need, Placement,
    QueueState, Signals, large_frame_room,
};
use super::slab::Slab;
use super::unstaged::Unstaged;
use super::work::Work;
use crate::gpu::error::GpuError;
use crate::store::LocalFile;

/// Most slabs that are added to the initial ones, for batches that need several.
const MORE_SLABS: usize = 4;

/// The queue of a process.
#[derive(Debug)]
pub struct Queue {
    state: Mutex<QueueState>,
    signals: Arc<Signals>,
    unstaged: Unstaged,
    /// Slabs that were added to the initial ones.
    more_slabs: AtomicUsize,
}

/// A registration of a producer, which may still add chunks. While one is registered, a batch waits briefly for more chunks.
#[derive(Debug)]
pub struct Producer(Arc<Queue>);

impl Drop for Producer {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.producers -= 1;
        if state.producers == 0 {
            state.close(false);
            state.close(true);
        }
    }
}

/// Memory reserved for a chunk in a batch that is still being staged.
struct Reservation {
    batch: u64,
    range: Range<usize>,
    /// The address of that range in staging memory; null if the batch is gone.
    staging: *mut u8,
    need: Need,
    plan: ChunkPlan,
    job: Option<ChunkJob>,
}

impl Reservation {
    /// Reads and plans a chunk.
    fn stage(&mut self, chunk: &Encoded<'_>) -> Result<Ticket, GpuError> {
        if self.staging.is_null() {
            return Err("the batch is gone".into());
        }
        // SAFETY: `reserve` gives each range out once, and the batch stays in the queue with its staging memory, which does not
        // move, until the reservation is dropped.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.staging, self.range.len()) };
        let plan = std::mem::take(&mut self.plan);
        let (job, ticket) = chunk.job(self.range.start, bytes, plan)?;
        self.job = Some(job);
        Ok(ticket)
    }
}

/// Reservations that were made together, under one lock: with a lock for each chunk, many threads would contend for it.
/// Dropping them settles them together: chunks that were staged become jobs, and the others are taken back.
struct Reservations {
    queue: Arc<Queue>,
    places: Vec<Reservation>,
}

// SAFETY: each pointer is to bytes that only its reservation has, see `reserve`.
unsafe impl Send for Reservations {}

impl Drop for Reservations {
    fn drop(&mut self) {
        let mut state = self.queue.state.lock();
        for place in self.places.drain(..) {
            state.settle(place.batch, place.need, place.job);
        }
    }
}

impl Queue {
    /// A queue over these slabs, all of the same length.
    pub fn new(slabs: Vec<Slab>, limits: BatchLimits) -> Arc<Self> {
        let signals = Arc::new(Signals::default());
        Arc::new(Self {
            state: Mutex::new(QueueState::new(slabs, limits, &signals)),
            signals,
            unstaged: Unstaged::default(),
            more_slabs: AtomicUsize::new(0),
        })
    }

    /// Registers a producer.
    pub fn register_producer(self: &Arc<Self>) -> Producer {
        self.state.lock().producers += 1;
        Producer(Arc::clone(self))
    }

    /// The current limits of a batch.
    pub fn limits(&self) -> BatchLimits {
        self.state.lock().limits
    }

    /// Changes the limits of batches from now on. With `free`, large-frame batches may hold more: half of the memory that is
    /// free when they are opened.
    pub fn set_limits(&self, limits: BatchLimits, free: Option<Arc<dyn FreeMemory>>) {
        let mut state = self.state.lock();
        (state.limits, state.free) = (limits, free);
    }

    /// Most decoded bytes of a batch of such chunks, if it were opened now.
    pub fn room(&self, estimate: &Estimate) -> usize {
        let state = self.state.lock();
        if cost::max_wait(estimate).is_none() {
            return state.limits.decoded;
        }
        drop(state);
        let frame = estimate.decoded_bytes / estimate.frames.max(1);
        let staged = LARGE_FRAMES_STAGED.saturating_mul(cost::COMPRESSED as usize);
        let room = self.large_frame_room();
        room.min(frame.saturating_mul(MOST_FRAMES)).min(staged)
    }

    /// Most decoded bytes of a large-frame batch, if it were opened now. Calls the driver, so not with the lock held.
    fn large_frame_room(&self) -> usize {
        let state = self.state.lock();
        let (limits, devices, memory) = (state.limits, state.devices, state.free.clone());
        drop(state);
        large_frame_room(limits, devices, memory.as_deref())
    }

    /// Sets which devices take batches from now on, as bits.
    pub fn set_devices(&self, devices: u64) {
        let mut state = self.state.lock();
        if state.devices != devices {
            state.devices = devices;
            self.signals.work.notify_all();
        }
    }

    /// Sets how many batches a device runs at the same time at most, from now on.
    pub fn set_most_running(&self, batches: usize) {
        let mut state = self.state.lock();
        if state.most_running != batches {
            state.most_running = batches;
            self.signals.work.notify_all();
        }
    }

    /// Why the queue has failed, if it has.
    pub fn failure(&self) -> Option<GpuError> {
        self.state.lock().failed.clone()
    }

    /// Limits encoded chunks before they are staged.
    pub fn unstaged(&self) -> &Unstaged {
        &self.unstaged
    }

    /// Stages and plans encoded chunks. Waits only for staging memory.
    ///
    /// Returns for each chunk the ticket of its outcome, or the reason why the host decodes it.
    pub async fn submit_all(
        self: &Arc<Self>,
        chunks: &[Encoded<'_>],
    ) -> Vec<Result<Ticket, GpuError>> {
        // Computed before the lock is taken.
        let needs: Vec<_> = chunks.iter().map(Encoded::need).collect();
        let mut tickets = Vec::with_capacity(chunks.len());
        while let Some(need) = needs.get(tickets.len()) {
            let left = needs[tickets.len()..].iter();
            let places = match need {
                Ok(_) => {
                    let left = left.map_while(|need| need.as_ref().ok().copied());
                    self.wait_for_places(left).await
                }
                Err(reason) => Err(reason.clone()),
            };
            let mut places = match places {
                Ok(places) => places,
                Err(reason) => {
                    tickets.push(Err(reason));
                    continue;
                }
            };
            for place in &mut places.places {
                // There are at most as many reservations as chunks left.
                let chunk = &chunks[tickets.len()];
                tickets.push(place.stage(chunk));
            }
        }
        tickets
    }

    /// Plans one chunk that is not staged: the device reads it from `file`.
    ///
    /// # Errors
    /// The reason why the host decodes the chunk.
    pub async fn submit_file(
        self: &Arc<Self>,
        work: &Arc<Work>,
        sample_chunk: usize,
        rows: usize,
        file: LocalFile,
    ) -> Result<Ticket, GpuError> {
        let need = Need {
            len: 0,
            decoded: file.len(),
            expected: file.len(),
            output: work.output_bytes(sample_chunk, rows)?,
            large_frames: None,
        };
        let mut places = self.wait_for_places(std::iter::once(need)).await?;
        let Some(place) = places.places.first_mut() else {
            return Err("no room in a batch".into());
        };
        let mut plan = std::mem::take(&mut place.plan);
        work.planner.plan_unread(file.len(), &mut plan)?;
        let (reply, ticket) = Reply::new();
        place.job = Some(ChunkJob {
            work: Arc::clone(work),
            sample_chunk,
            rows,
            src: 0..0,
            file: Some(file),
            plan,
            fields: Vec::new(),
            masked: None,
            dst: 0,
            out: 0..0,
            resident: None,
            reply,
        });
        Ok(ticket)
    }

    /// Waits for a reservation for the first of these chunks; reserves for the next ones too, as far as there is room now.
    async fn wait_for_places(
        self: &Arc<Self>,
        needs: impl Iterator<Item = Need> + Clone,
    ) -> Result<Reservations, GpuError> {
        let mut room = None;
        loop {
            // Registered before the check, so that no wake-up is missed.
            let freed = self.signals.slab_freed.notified();
            let (places, is_to_measure) = self.reserve(needs.clone(), room)?;
            if !places.places.is_empty() {
                return Ok(places);
            }
            room = match is_to_measure {
                true => Some(self.large_frame_room()),
                false => {
                    freed.await;
                    None
                }
            };
        }
    }

    /// Reserves for as many of these chunks as need not wait for staging memory. Also returns whether the next chunk needs
    /// `large_frame_room` to be measured.
    fn reserve(
        self: &Arc<Self>,
        needs: impl Iterator<Item = Need>,
        large_frame_room: Option<usize>,
    ) -> Result<(Reservations, bool), GpuError> {
        let mut taken = Reservations {
            queue: Arc::clone(self),
            places: Vec::with_capacity(needs.size_hint().1.unwrap_or(0)),
        };
        let mut is_to_measure = false;
        let mut state = self.state.lock();
        for need in needs {
            let (batch, range) = match state.place(need, large_frame_room) {
                Ok(Placement::At(batch, range)) => (batch, range),
                Ok(Placement::Later) => break,
                Ok(Placement::OnceMeasured) => {
                    is_to_measure = true;
                    break;
                }
                // The next call returns this error for this chunk.
                Err(_) if !taken.places.is_empty() => break,
                Err(reason) => {
                    drop(state);
                    return Err(reason);
                }
            };
            // SAFETY: `place` gives each range out once.
            let staging = state
                .batch_mut(batch)
                .and_then(|batch| unsafe { batch.staging(range.clone()) })
                .map_or(std::ptr::null_mut(), <[u8]>::as_mut_ptr);
            let plan = state.plans.pop().unwrap_or_default();
            taken.places.push(Reservation {
                batch,
                range,
                staging,
                need,
                plan,
                job: None,
            });
        }
        drop(state);
        Ok((taken, is_to_measure))
    }

    /// Waits for the next batch for a device. `None` when the queue has failed.
    pub fn next(&self, device: usize) -> Option<Batch> {
        let mut state = self.state.lock();
        loop {
            if state.failed.is_some() {
                return None;
            }
            if !state.may_take(device) {
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

    /// Whether one more slab may be added; if so, it is counted.
    pub fn may_keep_slab(&self) -> bool {
        let more = |kept| (kept < MORE_SLABS).then_some(kept + 1);
        self.more_slabs
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    /// Takes back the slabs and plans of a batch that has run.
    pub fn recycle(&self, batch: Batch, plans: impl Iterator<Item = ChunkPlan>) {
        let mut state = self.state.lock();
        let scratch = state.take_back(batch);
        let room = KEPT_PLANS.saturating_sub(state.plans.len());
        let plans = plans.filter(|plan| plan.parts() <= KEPT_PARTS);
        state.plans.extend(plans.take(room));
        drop(state);
        drop(scratch);
    }

    /// Fails the queue: the host decodes every chunk that waits or is submitted later, for this reason.
    pub fn fail(&self, reason: &str) {
        let mut state = self.state.lock();
        if state.failed.is_some() {
            return;
        }
        state.failed = Some(reason.into());
        let mut jobs = Vec::new();
        let mut scratch = Vec::new();
        while let Some(mut batch) = state.ready.pop_front() {
            jobs.append(&mut batch.jobs);
            // Page-locked memory is kept: freeing it may wait for a device that does not respond.
            scratch.extend(state.take_back(batch));
        }
        for batch in state.unclosed() {
            jobs.append(&mut batch.jobs);
        }
        drop(state);
        drop(scratch);
        for job in jobs {
            job.reply.send(Outcome::Host(reason.into()));
        }
        self.signals.work.notify_all();
        self.signals.slab_freed.notify_waiters();
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
