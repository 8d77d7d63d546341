//! The queue that all partitions of all queries share: chunks come in, batches go out to whichever device is free.
//!
//! A batch is closed when its slab or the device's share of memory is full, when it keeps an idle device busy, when nobody who is registered ([`Active`])
//! can add to it, or after a millisecond without a new chunk: partitions may be polled one after the other, dropped midway,
//! or want one chunk. Invariants: every chunk gets exactly one outcome unless nobody waits for it any more; consumers are
//! never waited for, so a partition that nobody polls holds up no other; a slab is in one place: free, with a batch, or
//! lost with a failed device.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::{Notify, Semaphore, SemaphorePermit, oneshot};

use super::batch::{Batch, GUARD, Job, Outcome};
use super::plan::ChunkPlan;
use super::slab::Slab;
use super::work::Work;

/// A batch that got no chunk for this long goes as it is.
const IDLE: Duration = Duration::from_millis(1);
/// Encoded chunks that may be in memory before they are staged, all queries together: this many units of [`UNIT`] bytes.
const UNITS: u32 = 256;
const UNIT: usize = 1 << 20;
/// Frames that keep a device busy: it takes hardly longer for them than for a few.
const ENOUGH_FRAMES: usize = 2048;
/// Plans kept for reuse.
const KEPT_PLANS: usize = 4096;
/// Frames, segments and blocks of the largest of them, so that a strange store does not leave its memory behind.
const KEPT_PARTS: usize = 1024;

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
    work: Condvar,
    slab_freed: Notify,
    unstaged: Semaphore,
}

#[derive(Debug)]
struct State {
    open: Option<Batch>,
    /// Closed, with chunks still being staged.
    closing: Vec<Batch>,
    ready: VecDeque<Batch>,
    slabs: Vec<Slab>,
    slab_len: usize,
    limits: Limits,
    active: usize,
    /// Workers that wait for a batch.
    idle: usize,
    next_id: u64,
    plans: Vec<ChunkPlan>,
    /// Bit `i`: device `i` may take batches.
    devices: u64,
    failed: Option<String>,
}

/// Somebody who may still add chunks; as long as there is one, a batch waits for more (but not long).
#[derive(Debug)]
pub struct Active(Arc<Queue>);

impl Drop for Active {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.active -= 1;
        if state.active == 0 {
            self.0.close_open(&mut state);
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
    /// Bytes promised to it.
    decoded: usize,
    output: usize,
    job: Option<Job>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let queue = Arc::clone(&self.queue);
        queue.settle(&mut queue.state.lock(), self);
    }
}

impl Queue {
    /// A queue over these slabs, all of the same length.
    pub fn new(slabs: Vec<Slab>, limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                open: None,
                closing: Vec::new(),
                ready: VecDeque::new(),
                slab_len: slabs.iter().map(Slab::len).min().unwrap_or(0),
                slabs,
                limits,
                active: 0,
                idle: 0,
                next_id: 0,
                plans: Vec::new(),
                devices: u64::MAX,
                failed: None,
            }),
            work: Condvar::new(),
            slab_freed: Notify::new(),
            unstaged: Semaphore::new(UNITS as usize),
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

    /// Changes what batches may hold from now on.
    pub fn set_limits(&self, limits: Limits) {
        self.state.lock().limits = limits;
    }

    /// Which devices take batches from now on, as bits.
    pub fn set_devices(&self, devices: u64) {
        let mut state = self.state.lock();
        if state.devices != devices {
            state.devices = devices;
            self.work.notify_all();
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
        let decoded = work.planner.estimate().decoded_bytes;
        let output = work.output_bytes(sample_chunk, rows)?;
        let mut place = loop {
            // Registered before looking, so that no wake-up is missed.
            let freed = self.slab_freed.notified();
            match self.reserve(encoded.len(), decoded, output)? {
                Some(place) => break place,
                None => freed.await,
            }
        };
        let mut plan = self.state.lock().plans.pop().unwrap_or_default();
        {
            let mut state = self.state.lock();
            let batch = state.batch_mut(place.batch);
            let slab = batch.map(|batch| &batch.slab);
            // SAFETY: `reserve` gave this range to nobody else, and the batch stays in the queue until it is settled, so
            // the pointer stays valid without the lock.
            let bytes = slab.and_then(|slab| unsafe { slab.bytes_mut(place.range.clone()) });
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
            plan,
            dst: 0,
            out: 0..0,
            reply,
        };
        place.job = Some(job);
        Ok(ticket)
    }

    /// A place for a chunk; `None` if it has to wait for staging memory.
    fn reserve(
        self: &Arc<Self>,
        len: usize,
        decoded: usize,
        output: usize,
    ) -> Result<Option<Place>, String> {
        let mut state = self.state.lock();
        let limits = state.limits;
        let slab_len = state.slab_len;
        let need = len
            .checked_next_multiple_of(GUARD)
            .and_then(|n| n.checked_add(GUARD));
        let Some(need) = need.filter(|need| *need <= slab_len) else {
            return Err(format!(
                "a chunk of {len} encoded bytes is larger than the staging memory ({slab_len} bytes)"
            ));
        };
        if decoded > limits.decoded {
            return Err(format!(
                "a chunk of {decoded} decoded bytes is more than a batch may hold ({} bytes; see vcz.gpu_memory_limit)",
                limits.decoded
            ));
        }
        if output > limits.output {
            return Err(format!(
                "results of {output} bytes are more than a batch may hold ({} bytes)",
                limits.output
            ));
        }
        loop {
            if let Some(reason) = &state.failed {
                return Err(reason.clone());
            }
            let Some(open) = &mut state.open else {
                let Some(slab) = state.slabs.pop() else {
                    return Ok(None);
                };
                let id = state.next_id;
                state.next_id += 1;
                state.open = Some(Batch::new(id, slab));
                continue;
            };
            let fits = open.used + need <= slab_len
                && open.decoded + open.promised + decoded <= limits.decoded
                && open.output + open.promised_output + output <= limits.output;
            if !fits && (open.writers > 0 || !open.jobs.is_empty()) {
                self.close_open(&mut state);
                continue;
            }
            let range = open.used..open.used + len;
            open.used += need;
            open.promised += decoded;
            open.promised_output += output;
            open.writers += 1;
            return Ok(Some(Place {
                queue: Arc::clone(self),
                batch: open.id,
                range,
                decoded,
                output,
                job: None,
            }));
        }
    }

    /// Ends the staging of a chunk, with or without a job.
    fn settle(&self, state: &mut MutexGuard<'_, State>, place: &mut Place) {
        let limits = state.limits;
        let failed = state.failed.clone();
        let id = place.batch;
        let Some(batch) = state.batch_mut(id) else {
            return;
        };
        batch.writers -= 1;
        batch.promised -= place.decoded;
        batch.promised_output -= place.output;
        if let Some(job) = place.job.take() {
            match failed {
                Some(reason) => {
                    // Whoever asked may be gone.
                    let _ = job.reply.send(Outcome::Host(reason));
                }
                None => {
                    if batch.jobs.is_empty() {
                        // Devices may be waiting without a time limit; all of them, since one may take no batches now.
                        self.work.notify_all();
                    }
                    batch.push(job, place.output);
                }
            }
        }
        if batch.writers == 0 && batch.jobs.is_empty() {
            // Nothing that was staged is wanted.
            batch.used = 0;
        }
        let full = batch.decoded >= limits.decoded / 8 * 7;
        let enough = batch.frames >= ENOUGH_FRAMES;
        let full = full || enough && state.idle > 0 && state.ready.is_empty();
        if state.open.as_ref().is_some_and(|open| open.id == id) {
            if full {
                self.close_open(state);
            }
        } else if let Some(at) = state
            .closing
            .iter()
            .position(|batch| batch.id == id && batch.writers == 0)
        {
            let batch = state.closing.swap_remove(at);
            self.hand_out(state, batch);
        }
    }

    /// Closes the open batch, if there is one with anything in it.
    fn close_open(&self, state: &mut MutexGuard<'_, State>) {
        let Some(batch) = state
            .open
            .take_if(|open| open.writers > 0 || !open.jobs.is_empty())
        else {
            return;
        };
        if batch.writers > 0 {
            state.closing.push(batch);
        } else {
            self.hand_out(state, batch);
        }
    }

    fn hand_out(&self, state: &mut MutexGuard<'_, State>, batch: Batch) {
        if batch.jobs.is_empty() {
            state.slabs.push(batch.slab);
            self.slab_freed.notify_waiters();
            return;
        }
        state.ready.push_back(batch);
        // Not only one: it may take no batches now.
        self.work.notify_all();
    }

    /// The next batch for a device; waits for one. `None` when the queue has failed.
    pub fn next(&self, device: usize) -> Option<Batch> {
        let mut state = self.state.lock();
        loop {
            if state.failed.is_some() {
                return None;
            }
            if state.devices >> (device % 64) & 1 == 0 {
                self.work.wait(&mut state);
                continue;
            }
            if let Some(batch) = state.ready.pop_front() {
                return Some(batch);
            }
            match &state.open {
                Some(open) if !open.jobs.is_empty() => {
                    let idle = open.last.elapsed();
                    if open.writers == 0 && (state.active == 0 || idle >= IDLE) {
                        self.close_open(&mut state);
                        continue;
                    }
                    let wait = IDLE.saturating_sub(idle).max(IDLE / 10);
                    state.idle += 1;
                    self.work.wait_for(&mut state, wait);
                    state.idle -= 1;
                }
                _ => {
                    state.idle += 1;
                    self.work.wait(&mut state);
                    state.idle -= 1;
                }
            }
        }
    }

    /// Takes back the slab and the plans of a batch that has run.
    pub fn recycle(&self, slab: Slab, plans: impl Iterator<Item = ChunkPlan>) {
        let mut state = self.state.lock();
        state.slabs.push(slab);
        let room = KEPT_PLANS.saturating_sub(state.plans.len());
        let plans = plans.filter(|plan| plan.parts() <= KEPT_PARTS);
        state.plans.extend(plans.take(room));
        drop(state);
        self.slab_freed.notify_waiters();
    }

    /// Ends everything: every chunk that waits or comes later is the host's, for this reason.
    pub fn fail(&self, reason: &str) {
        let mut state = self.state.lock();
        if state.failed.is_some() {
            return;
        }
        state.failed = Some(reason.to_string());
        let waiting: Vec<Job> = state.ready.drain(..).flat_map(|batch| batch.jobs).collect();
        let staged: Vec<Job> = {
            let state = &mut *state;
            state
                .open
                .iter_mut()
                .chain(&mut state.closing)
                .flat_map(|batch| std::mem::take(&mut batch.jobs))
                .collect()
        };
        drop(state);
        for job in waiting.into_iter().chain(staged) {
            // Whoever asked may be gone.
            let _ = job.reply.send(Outcome::Host(reason.to_string()));
        }
        self.work.notify_all();
        self.slab_freed.notify_waiters();
    }
}

impl State {
    /// The batch with this number, while chunks can still be staged in it.
    fn batch_mut(&mut self, id: u64) -> Option<&mut Batch> {
        self.open
            .iter_mut()
            .chain(&mut self.closing)
            .find(|batch| batch.id == id)
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
