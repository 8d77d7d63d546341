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
use tokio::sync::{Semaphore, SemaphorePermit};

use super::batch::{Batch, BatchLimits, GUARD, Job, Outcome, Reply, Ticket, align_up};
use super::cost;
use super::plan::{ChunkPlan, Estimate};
use super::slab::Slab;
use super::state::{
    FreeMemory, KEPT_PARTS, KEPT_PLANS, MOST_FRAMES, Need, Placed, Signals, State, WIDE_STAGED,
    wide_room,
};
use super::work::Work;
use crate::store::{LocalFile, OpenChunk};

/// Encoded chunks that may be in memory before they are staged, all queries together: this many units of [`UNIT`] bytes. Or open
/// files, of which a process may not have many: each takes one.
const UNITS: u32 = 256;
const UNIT: usize = 1 << 20;
/// How many slabs may come to those that the queue began with, for batches that need several.
const MORE_SLABS: usize = 4;

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

/// An encoded chunk for a device.
#[derive(Debug, Clone, Copy)]
pub struct Encoded<'a> {
    /// What is wanted of it.
    pub work: &'a Arc<Work>,
    /// Which chunk along the sample axis it is.
    pub sample_chunk: usize,
    /// Rows that exist.
    pub rows: usize,
    /// Its bytes, to be read.
    pub chunk: &'a OpenChunk,
}

impl Encoded<'_> {
    /// Decoded bytes as those before it had, and a little more, so that few batches come to more than they may hold.
    fn expected(&self, estimate: &Estimate) -> usize {
        let most = estimate.decoded_bytes;
        if cost::patience(estimate).is_some() {
            // Large frames are not cut, and batches of them take what memory there is.
            return most;
        }
        let mean = self.work.seen.decoded(most);
        // And what is between it and the next.
        align_up(
            mean.saturating_add(mean / 16)
                .min(most)
                .saturating_add(GUARD),
        )
    }

    fn need(&self) -> Result<Need, String> {
        let estimate = self.work.planner.estimate();
        Ok(Need {
            len: self.chunk.len(),
            decoded: estimate.decoded_bytes,
            expected: self.expected(&estimate),
            output: self.work.output_bytes(self.sample_chunk, self.rows)?,
            wide: cost::patience(&estimate),
        })
    }
}

/// A chunk's place in a batch that is still being staged.
struct Place {
    batch: u64,
    range: Range<usize>,
    /// Where that is.
    staging: *mut u8,
    need: Need,
    plan: ChunkPlan,
    job: Option<Job>,
}

impl Place {
    /// Reads and plans a chunk.
    fn stage(&mut self, chunk: &Encoded<'_>) -> Result<Ticket, String> {
        if self.staging.is_null() {
            return Err("the batch is gone".to_string());
        }
        // SAFETY: `reserve` gave this range to nobody else, and its batch stays in the queue, with its staging memory, which
        // does not move, until the place is given up.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.staging, self.range.len()) };
        chunk.chunk.read(bytes).map_err(|error| error.to_string())?;
        let mut plan = std::mem::take(&mut self.plan);
        chunk.work.planner.plan(bytes, &mut plan)?;
        chunk.work.seen.add(bytes.len(), plan.decoded_len);
        let (reply, ticket) = Reply::new();
        self.job = Some(Job {
            work: Arc::clone(chunk.work),
            sample_chunk: chunk.sample_chunk,
            rows: chunk.rows,
            src: self.range.clone(),
            file: None,
            plan,
            dst: 0,
            out: 0..0,
            reply,
        });
        Ok(ticket)
    }
}

/// Places that were taken together, under one lock: a lock for each chunk is what many threads end up waiting for. Given up
/// together (with the promises to their batches taken back) when dropped.
struct Places {
    queue: Arc<Queue>,
    places: Vec<Place>,
}

// SAFETY: the pointers are to bytes that nobody else was given, see `reserve`.
unsafe impl Send for Places {}

impl Drop for Places {
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
    pub fn limits(&self) -> BatchLimits {
        self.state.lock().limits
    }

    /// Changes what batches may hold from now on. With `free`, batches of large frames may hold more: as much as half of the
    /// memory that is free when they are opened.
    pub fn set_limits(&self, limits: BatchLimits, free: Option<Arc<dyn FreeMemory>>) {
        let mut state = self.state.lock();
        (state.limits, state.free) = (limits, free);
    }

    /// Decoded bytes that a batch of such chunks would hold at most, if it were opened now.
    pub fn room(&self, estimate: &Estimate) -> usize {
        let state = self.state.lock();
        if cost::patience(estimate).is_none() {
            return state.limits.decoded;
        }
        drop(state);
        let frame = estimate.decoded_bytes / estimate.frames.max(1);
        let staged = WIDE_STAGED.saturating_mul(cost::COMPRESSED as usize);
        let room = self.wide_room();
        room.min(frame.saturating_mul(MOST_FRAMES)).min(staged)
    }

    /// Decoded bytes that a batch of large frames may hold if it is opened now. Asks the driver, so without the lock.
    fn wide_room(&self) -> usize {
        let state = self.state.lock();
        let (limits, devices, memory) = (state.limits, state.devices, state.free.clone());
        drop(state);
        wide_room(limits, devices, memory.as_deref())
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

    /// Waits until some more chunks of about `bytes` encoded bytes together may be opened or read for staging; held until they are
    /// staged.
    pub async fn room_to_stage(&self, chunks: usize, bytes: usize) -> Option<SemaphorePermit<'_>> {
        let units = (bytes / UNIT).max(chunks);
        let units = u32::try_from(units).unwrap_or(UNITS).clamp(1, UNITS);
        // Never closed.
        self.unstaged.acquire_many(units).await.ok()
    }

    /// Stages and plans encoded chunks. Waits only for staging memory.
    ///
    /// For each chunk, where its outcome will arrive, or the reason why it is the host's.
    pub async fn submit_all(
        self: &Arc<Self>,
        chunks: &[Encoded<'_>],
    ) -> Vec<Result<Ticket, String>> {
        // Before the lock is taken.
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
                // As many places as there were chunks left, at most.
                let chunk = &chunks[tickets.len()];
                tickets.push(place.stage(chunk));
            }
        }
        tickets
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
        let need = Need {
            len: 0,
            decoded: file.len(),
            expected: file.len(),
            output: work.output_bytes(sample_chunk, rows)?,
            wide: None,
        };
        let mut places = self.wait_for_places(std::iter::once(need)).await?;
        let Some(place) = places.places.first_mut() else {
            return Err("no place in a batch".to_string());
        };
        let mut plan = std::mem::take(&mut place.plan);
        work.planner.plan_unread(file.len(), &mut plan)?;
        let (reply, ticket) = Reply::new();
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

    /// Places for the first of these chunks, or for more of them, as far as there is room now.
    async fn wait_for_places(
        self: &Arc<Self>,
        needs: impl Iterator<Item = Need> + Clone,
    ) -> Result<Places, String> {
        let mut room = None;
        loop {
            // Registered before looking, so that no wake-up is missed.
            let freed = self.signals.slab_freed.notified();
            let (places, is_to_measure) = self.reserve(needs.clone(), room)?;
            if !places.places.is_empty() {
                return Ok(places);
            }
            room = match is_to_measure {
                true => Some(self.wide_room()),
                false => {
                    freed.await;
                    None
                }
            };
        }
    }

    /// Places for as many of these chunks as do not have to wait for staging memory. Whether the next of them wants to know how much room
    /// there is for large frames.
    fn reserve(
        self: &Arc<Self>,
        needs: impl Iterator<Item = Need>,
        wide_room: Option<usize>,
    ) -> Result<(Places, bool), String> {
        let mut taken = Places {
            queue: Arc::clone(self),
            places: Vec::with_capacity(needs.size_hint().1.unwrap_or(0)),
        };
        let mut is_to_measure = false;
        let mut state = self.state.lock();
        for need in needs {
            let (batch, range) = match state.place(need, wide_room) {
                Ok(Placed::At(batch, range)) => (batch, range),
                Ok(Placed::Later) => break,
                Ok(Placed::OnceMeasured) => {
                    is_to_measure = true;
                    break;
                }
                // The next round says so of this chunk.
                Err(_) if !taken.places.is_empty() => break,
                Err(reason) => {
                    drop(state);
                    return Err(reason);
                }
            };
            // SAFETY: `place` gave this range to nobody else.
            let staging = state
                .batch_mut(batch)
                .and_then(|batch| unsafe { batch.staging(range.clone()) })
                .map_or(std::ptr::null_mut(), <[u8]>::as_mut_ptr);
            let plan = state.plans.pop().unwrap_or_default();
            taken.places.push(Place {
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
        let mut jobs = Vec::new();
        let mut lent = Vec::new();
        while let Some(mut batch) = state.ready.pop_front() {
            jobs.append(&mut batch.jobs);
            // Page-locked memory stays: to give it back may mean to wait for a device that does not answer.
            lent.extend(state.take_back(batch));
        }
        for batch in state.unclosed() {
            jobs.append(&mut batch.jobs);
        }
        drop(state);
        drop(lent);
        for job in jobs {
            job.reply.send(Outcome::Host(reason.to_string()));
        }
        self.signals.work.notify_all();
        self.signals.slab_freed.notify_waiters();
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
