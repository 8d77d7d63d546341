//! The queue's state, which its lock guards: batches that are open, closed or ready, and free slabs.
//!
//! Ordinary batches hold chunks of small frames: one slab, and each worker's share of device memory. Large-frame batches hold
//! chunks of large frames. A device decodes each frame on one of its many units, so many large frames take about as long as
//! one. These batches therefore use several slabs and, where no limit is set, up to half of the device memory that is free when
//! they are opened, and wait longer for more chunks. A device runs one large-frame batch at a time. Invariant: a slab is
//! free, owned by one batch, or lost with a failed device.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Condvar;
use tokio::sync::Notify;

use super::batch::{Batch, BatchLimits, ChunkJob, GUARD, Outcome};
use super::decode_scratch::DecodeScratch;
use super::plan::ChunkPlan;
use super::slab::Slab;
use crate::gpu::error::GpuError;

/// A batch is closed after this long without a new chunk.
pub const IDLE: Duration = Duration::from_millis(1);
/// Frames that keep a device busy: it needs hardly longer for them than for a few.
pub const ENOUGH_FRAMES: usize = 2048;
/// Bytes read from files that keep a device busy.
const ENOUGH_READ: usize = 128 << 20;
/// Beyond this many frames, twice as many take twice as long.
pub const MOST_FRAMES: usize = 2 * ENOUGH_FRAMES;
/// Most encoded bytes of a large-frame batch.
pub const LARGE_FRAMES_STAGED: usize = 512 << 20;
/// A large-frame batch may have this many times the results of an ordinary one.
const LARGE_FRAMES_OUTPUT: usize = 4;
/// Most plans kept for reuse.
pub const KEPT_PLANS: usize = 4096;
/// Most frames, segments and blocks of a plan that is kept, so that the memory of unusually large plans is freed.
pub const KEPT_PARTS: usize = 1024;

/// Reports free device memory.
pub trait FreeMemory: Send + Sync + std::fmt::Debug {
    /// Scratch memory that decoding needs.
    fn decode_scratch(&self) -> DecodeScratch {
        DecodeScratch::default()
    }

    /// How many of these devices (bits) exist.
    fn count(&self, devices: u64) -> usize;

    /// The fewest free bytes of any of these devices. Calls the driver, which may wait for a device: never called with the
    /// queue's lock held.
    fn free(&self, devices: u64) -> u64;
}

/// Wakes those who wait for the queue.
#[derive(Debug, Default)]
pub struct Signals {
    /// Wakes devices: a batch may be ready.
    pub work: Condvar,
    /// Wakes producers: a slab may be free.
    pub slab_freed: Notify,
}

/// The room that a chunk needs in a batch.
#[derive(Debug, Clone, Copy)]
pub struct Need {
    /// Encoded bytes that are staged.
    pub len: usize,
    /// Most decoded bytes, or bytes that the device reads itself.
    pub decoded: usize,
    /// Decoded bytes to expect from earlier chunks.
    pub expected: usize,
    /// Bytes of results.
    pub output: usize,
    /// For chunks of large frames, how long a batch waits for more.
    pub large_frames: Option<Duration>,
}

/// Where to stage a chunk.
#[derive(Debug)]
pub enum Placement {
    /// In the batch with this number, in this range of its staging memory.
    At(u64, Range<usize>),
    /// Not yet: no staging memory is free, or enough large-frame batches exist.
    Later,
    /// In a large-frame batch that is opened once free memory has been measured.
    OnceMeasured,
}

/// Most decoded bytes of a large-frame batch that is opened now, within these limits.
pub fn large_frame_room(
    limits: BatchLimits,
    devices: u64,
    memory: Option<&dyn FreeMemory>,
) -> usize {
    let Some(memory) = memory else {
        return limits.decoded;
    };
    let half = (memory.free(devices) / 2).saturating_sub(limits.output as u64);
    let room = memory.decode_scratch().decoded(half);
    usize::try_from(room)
        .unwrap_or(usize::MAX)
        .max(limits.decoded)
}

/// The queue's state.
#[derive(Debug)]
pub struct QueueState {
    pub open: Option<Batch>,
    /// The open large-frame batch.
    pub open_large: Option<Batch>,
    /// Closed, with chunks still being staged.
    pub closing: Vec<Batch>,
    pub ready: VecDeque<Batch>,
    pub slabs: Vec<Slab>,
    pub slab_len: usize,
    pub limits: BatchLimits,
    /// Registered producers.
    pub producers: usize,
    /// Workers that wait for a batch.
    pub idle: usize,
    pub next_id: u64,
    pub plans: Vec<ChunkPlan>,
    /// Bit `i`: device `i` may take batches.
    pub devices: u64,
    /// Most batches that a device runs at the same time.
    pub most_running: usize,
    /// Batches that each device runs.
    running: [usize; 64],
    pub failed: Option<GpuError>,
    /// Where large-frame batches may exceed the limits.
    pub free: Option<Arc<dyn FreeMemory>>,
    /// Large-frame batches that are open, closed, ready or running.
    large_batches: usize,
    /// Bit `i`: device `i` runs a large-frame batch.
    large_running: u64,
    signals: Arc<Signals>,
}

impl QueueState {
    pub fn new(slabs: Vec<Slab>, limits: BatchLimits, signals: &Arc<Signals>) -> Self {
        Self {
            open: None,
            open_large: None,
            closing: Vec::new(),
            ready: VecDeque::new(),
            slab_len: slabs.iter().map(Slab::len).min().unwrap_or(0),
            slabs,
            limits,
            producers: 0,
            idle: 0,
            next_id: 0,
            plans: Vec::new(),
            devices: u64::MAX,
            most_running: usize::MAX,
            running: [0; 64],
            failed: None,
            free: None,
            large_batches: 0,
            large_running: 0,
            signals: Arc::clone(signals),
        }
    }

    /// Most large-frame batches at a time.
    fn most_large_batches(&self) -> usize {
        let devices = self.free.as_ref().map(|free| free.count(self.devices));
        devices.unwrap_or(1).max(1)
    }

    /// Reserves room for a chunk in an open batch. A large-frame batch is opened with `large_frame_room`, from the function of that name.
    ///
    /// # Errors
    /// The reason why no batch can hold it.
    pub fn place(
        &mut self,
        chunk: Need,
        large_frame_room: Option<usize>,
    ) -> Result<Placement, GpuError> {
        let Need {
            len,
            decoded,
            expected,
            output,
            ..
        } = chunk;
        let (limits, slab_len) = (self.limits, self.slab_len);
        let need = len
            .checked_next_multiple_of(GUARD)
            .and_then(|n| n.checked_add(GUARD));
        let Some(need) = need.filter(|need| *need <= slab_len) else {
            return Err(format!(
                "a chunk of {len} encoded bytes is larger than the staging memory ({slab_len} bytes)"
            )
            .into());
        };
        if decoded > limits.decoded {
            return Err(format!(
                "a chunk of {decoded} decoded bytes is more than a batch may hold ({} bytes; see vcz.gpu_memory_limit)",
                limits.decoded
            )
            .into());
        }
        if output > limits.output {
            return Err(format!(
                "results of {output} bytes are more than a batch may hold ({} bytes)",
                limits.output
            )
            .into());
        }
        loop {
            if let Some(reason) = &self.failed {
                return Err(reason.clone());
            }
            let large = chunk.large_frames.is_some();
            let open = if large {
                &mut self.open_large
            } else {
                &mut self.open
            };
            let Some(open) = open else {
                let room = match (large, large_frame_room) {
                    (false, _) => limits.decoded,
                    (true, _)
                        if self.slabs.is_empty()
                            || self.large_batches >= self.most_large_batches() =>
                    {
                        return Ok(Placement::Later);
                    }
                    (true, Some(room)) => room,
                    (true, None) => return Ok(Placement::OnceMeasured),
                };
                if !self.begin(chunk.large_frames, room) {
                    return Ok(Placement::Later);
                }
                continue;
            };
            // Limits may have been lowered since; the room of a large-frame batch was measured when it was opened.
            let (room, results) = match large {
                false => (limits.decoded, limits.output),
                true => (open.room, limits.output.saturating_mul(LARGE_FRAMES_OUTPUT)),
            };
            let fits = open.decoded + open.read + open.reserved + expected <= room
                && open.output + open.reserved_output + output <= results;
            let start = if fits || open.is_empty() {
                staging(open, need, &mut self.slabs)
            } else {
                None
            };
            let Some(start) = start else {
                self.close(large);
                continue;
            };
            open.used = start + need;
            open.reserved += expected;
            open.reserved_output += output;
            open.writers += 1;
            return Ok(Placement::At(open.id, start..start + len));
        }
    }

    /// Opens a batch with this room; false if no staging memory is free.
    fn begin(&mut self, large_frames: Option<Duration>, room: usize) -> bool {
        let Some(slab) = self.slabs.pop() else {
            return false;
        };
        let id = self.next_id;
        self.next_id += 1;
        let mut batch = Batch::new(id, slab, self.slab_len, room, IDLE);
        match large_frames {
            None => self.open = Some(batch),
            Some(max_wait) => {
                (batch.large_frames, batch.max_wait) = (true, max_wait.max(IDLE));
                self.large_batches += 1;
                self.open_large = Some(batch);
            }
        }
        true
    }

    /// Ends the staging of a chunk that `place` reserved room for: with a job, or without if it was given up.
    pub fn settle(&mut self, id: u64, need: Need, job: Option<ChunkJob>) {
        let (limits, failed) = (self.limits, self.failed.clone());
        let Some(batch) = self.batch_mut(id) else {
            return;
        };
        batch.writers -= 1;
        batch.reserved -= need.expected;
        batch.reserved_output -= need.output;
        let mut first = false;
        if let Some(job) = job {
            match failed {
                Some(reason) => {
                    job.reply.send(Outcome::Host(reason));
                }
                None => {
                    first = batch.jobs.is_empty();
                    batch.push(job, need.output);
                }
            }
        }
        let (large, is_empty) = (batch.large_frames, batch.is_empty());
        let room = if large { batch.room } else { limits.decoded };
        let full =
            batch.decoded + batch.read >= room / 8 * 7 || large && batch.frames >= MOST_FRAMES;
        let enough = batch.frames >= ENOUGH_FRAMES || batch.read >= ENOUGH_READ;
        if first {
            // Devices may wait without a time limit. All are woken, since some may not take batches now.
            self.signals.work.notify_all();
        }
        let full = full || enough && self.idle > 0 && self.ready.is_empty();
        let open = if large {
            &mut self.open_large
        } else {
            &mut self.open
        };
        if let Some(open) = open.take_if(|open| open.id == id && is_empty) {
            // No chunk was staged, so the slab is freed for others.
            drop(self.take_back(open));
        } else if open.as_ref().is_some_and(|open| open.id == id) {
            if full {
                self.close(large);
            }
        } else if let Some(at) = self
            .closing
            .iter()
            .position(|batch| batch.id == id && batch.writers == 0)
        {
            let batch = self.closing.swap_remove(at);
            self.make_ready(batch);
        }
    }

    /// Closes the open ordinary or large-frame batch, if there is one and it is not empty.
    pub fn close(&mut self, large: bool) {
        let open = if large {
            &mut self.open_large
        } else {
            &mut self.open
        };
        let Some(batch) = open.take_if(|open| !open.is_empty()) else {
            return;
        };
        if batch.writers > 0 {
            self.closing.push(batch);
        } else {
            self.make_ready(batch);
        }
    }

    fn make_ready(&mut self, batch: Batch) {
        if batch.jobs.is_empty() {
            // At most a large-frame batch's few slabs, hardly used.
            drop(self.take_back(batch));
            return;
        }
        self.ready.push_back(batch);
        // All are woken, since some may not take batches now.
        self.signals.work.notify_all();
    }

    /// Whether a device may take a batch now.
    pub fn may_take(&self, device: usize) -> bool {
        let device = device % 64;
        self.devices >> device & 1 != 0 && self.running[device] < self.most_running
    }

    /// Takes the first batch that is ready for a device.
    pub fn take(&mut self, device: usize) -> Option<Batch> {
        let bit = 1 << (device % 64);
        let busy = self.large_running & bit != 0;
        let at = self
            .ready
            .iter()
            .position(|batch| !(batch.large_frames && busy))?;
        let mut batch = self.ready.remove(at)?;
        batch.device = Some(device);
        self.running[device % 64] += 1;
        if batch.large_frames {
            self.large_running |= bit;
        }
        Some(batch)
    }

    /// Closes a batch that has waited long enough. Returns the time until the next one is due: `None` if none waits.
    pub fn close_overdue(&mut self) -> Option<Duration> {
        let mut wait: Option<Duration> = None;
        for large in [false, true] {
            let open = if large { &self.open_large } else { &self.open };
            let Some(open) = open.as_ref().filter(|open| !open.jobs.is_empty()) else {
                continue;
            };
            let (idle, max_wait) = (open.last.elapsed(), open.max_wait);
            if open.writers == 0 && (self.producers == 0 || idle >= max_wait) {
                self.close(large);
                return Some(Duration::ZERO);
            }
            let left = max_wait.saturating_sub(idle).max(IDLE / 10);
            wait = Some(wait.map_or(left, |wait| wait.min(left)));
        }
        wait
    }

    /// Takes back the slabs of a batch. Returns the scratch slabs, which must be dropped without the lock held.
    pub fn take_back(&mut self, batch: Batch) -> Vec<Slab> {
        let (scratch, own): (Vec<_>, Vec<_>) = batch.slabs.into_iter().partition(Slab::is_scratch);
        self.slabs.extend(own);
        if let Some(device) = batch.device {
            self.running[device % 64] -= 1;
            if self.most_running != usize::MAX {
                // Another worker of the device may wait for that.
                self.signals.work.notify_all();
            }
        }
        if batch.large_frames {
            self.large_batches -= 1;
            if let Some(device) = batch.device {
                self.large_running &= !(1 << (device % 64));
                // Another large-frame batch may be ready.
                self.signals.work.notify_all();
            }
        }
        self.signals.slab_freed.notify_waiters();
        scratch
    }

    /// The batch with this number, while chunks can still be staged in it.
    pub fn batch_mut(&mut self, id: u64) -> Option<&mut Batch> {
        self.unclosed().find(|batch| batch.id == id)
    }

    /// Batches that are open, or closed with chunks still being staged.
    pub fn unclosed(&mut self) -> impl Iterator<Item = &mut Batch> {
        self.open
            .iter_mut()
            .chain(&mut self.open_large)
            .chain(&mut self.closing)
    }
}

/// The offset of `need` free bytes in a batch's staging memory. A large-frame batch takes another slab if the current one is full.
fn staging(open: &mut Batch, need: usize, slabs: &mut Vec<Slab>) -> Option<usize> {
    let end = open.slabs.len() * open.slab_len;
    if open.used + need <= end {
        return Some(open.used);
    }
    if !open.large_frames || end + open.slab_len > LARGE_FRAMES_STAGED.max(open.slab_len) {
        return None;
    }
    // The last slab is reserved for ordinary batches.
    let slab = match slabs.len() {
        0 | 1 => None,
        _ => slabs.pop(),
    };
    let slab = slab.unwrap_or_else(|| Slab::pageable(open.slab_len));
    open.slabs.push(slab);
    // The waiting time starts when there is room.
    open.last = Instant::now();
    Some(end)
}
