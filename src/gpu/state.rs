//! What the queue holds, without its lock: batches that are being filled, closed or ready, and free slabs.
//!
//! Ordinary batches hold chunks of small frames: one slab, and as much device memory as the limit gives each worker. Wide
//! batches hold chunks of large frames, each of which a device decodes on one of its many units in about the time that it
//! takes for all of them together: so they take several slabs and, where no limit was set, up to half of the device memory that is
//! free when they are opened, and wait longer for more to come. A device runs one wide batch at a time. Invariant: a slab
//! is in one place: free, with a batch, or lost with a failed device.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Condvar;
use tokio::sync::Notify;

use super::batch::{Batch, BatchLimits, GUARD, Job, Outcome};
use super::plan::ChunkPlan;
use super::slab::Slab;
use super::temporary::Temporary;

/// A batch that got no chunk for this long goes as it is.
pub const IDLE: Duration = Duration::from_millis(1);
/// Frames that keep a device busy: it takes hardly longer for them than for a few.
pub const ENOUGH_FRAMES: usize = 2048;
/// Bytes that keep a device busy which reads them from files.
const ENOUGH_READ: usize = 128 << 20;
/// Frames from which on twice as many take twice as long.
pub const MOST_FRAMES: usize = 2 * ENOUGH_FRAMES;
/// Encoded bytes that a wide batch may hold.
pub const WIDE_STAGED: usize = 512 << 20;
/// A wide batch may have so many times the results of an ordinary one.
const WIDE_OUTPUT: usize = 4;
/// Plans kept for reuse.
pub const KEPT_PLANS: usize = 4096;
/// Frames, segments and blocks of the largest of them, so that a strange store does not leave its memory behind.
pub const KEPT_PARTS: usize = 1024;

/// Tells how much device memory nobody uses, this process or another.
pub trait FreeMemory: Send + Sync + std::fmt::Debug {
    /// What decoding takes of it.
    fn temporary(&self) -> Temporary {
        Temporary::default()
    }

    /// How many of these devices (bits) there are.
    fn count(&self, devices: u64) -> usize;

    /// The bytes that are free on the one of these devices that has the fewest. Asks the driver, which may wait for a device: never
    /// with the queue's lock.
    fn free(&self, devices: u64) -> u64;
}

/// Whom the queue wakes.
#[derive(Debug, Default)]
pub struct Signals {
    /// Devices: there may be a batch.
    pub work: Condvar,
    /// Those who stage: there may be a slab.
    pub slab_freed: Notify,
}

/// What a chunk needs of a batch.
#[derive(Debug, Clone, Copy)]
pub struct Need {
    /// Encoded bytes that are staged.
    pub len: usize,
    /// Decoded bytes at most, or those that the device reads itself.
    pub decoded: usize,
    /// Decoded bytes that it will have if it is like those before it.
    pub expected: usize,
    /// Bytes of results.
    pub output: usize,
    /// For chunks of large frames, how long a batch waits for more of them.
    pub wide: Option<Duration>,
}

/// Where a chunk is staged.
#[derive(Debug)]
pub enum Placed {
    /// In the batch of this number, there in its staging memory.
    At(u64, Range<usize>),
    /// Nowhere yet: there is no staging memory, or enough is decoded at the same time.
    Later,
    /// In a batch of large frames that is to be opened, once it is known how much memory is free.
    OnceMeasured,
}

/// Decoded bytes that a batch of large frames may hold if it is opened now, within these limits.
pub fn wide_room(limits: BatchLimits, devices: u64, memory: Option<&dyn FreeMemory>) -> usize {
    let Some(memory) = memory else {
        return limits.decoded;
    };
    let half = (memory.free(devices) / 2).saturating_sub(limits.output as u64);
    let room = memory.temporary().decoded(half);
    usize::try_from(room)
        .unwrap_or(usize::MAX)
        .max(limits.decoded)
}

/// What the queue holds.
#[derive(Debug)]
pub struct State {
    pub open: Option<Batch>,
    /// The open batch of large frames.
    pub wide: Option<Batch>,
    /// Closed, with chunks still being staged.
    pub closing: Vec<Batch>,
    pub ready: VecDeque<Batch>,
    pub slabs: Vec<Slab>,
    pub slab_len: usize,
    pub limits: BatchLimits,
    /// Those who may still add chunks.
    pub active: usize,
    /// Workers that wait for a batch.
    pub idle: usize,
    pub next_id: u64,
    pub plans: Vec<ChunkPlan>,
    /// Bit `i`: device `i` may take batches.
    pub devices: u64,
    pub failed: Option<String>,
    /// Where wide batches may go beyond the limits.
    pub free: Option<Arc<dyn FreeMemory>>,
    /// Wide batches that are open, closed, ready or running.
    wide_batches: usize,
    /// Bit `i`: device `i` runs a wide batch.
    wide_running: u64,
    signals: Arc<Signals>,
}

impl State {
    pub fn new(slabs: Vec<Slab>, limits: BatchLimits, signals: &Arc<Signals>) -> Self {
        Self {
            open: None,
            wide: None,
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
            free: None,
            wide_batches: 0,
            wide_running: 0,
            signals: Arc::clone(signals),
        }
    }

    /// How many wide batches there may be.
    fn most_wide(&self) -> usize {
        let devices = self.free.as_ref().map(|free| free.count(self.devices));
        devices.unwrap_or(1).max(1)
    }

    /// A place for a chunk in an open batch. One of large frames is opened with `wide_room`, as [`wide_room`] says.
    ///
    /// # Errors
    /// The reason why no batch can hold it.
    pub fn place(&mut self, chunk: Need, wide_room: Option<usize>) -> Result<Placed, String> {
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
            if let Some(reason) = &self.failed {
                return Err(reason.clone());
            }
            let wide = chunk.wide.is_some();
            let open = if wide { &mut self.wide } else { &mut self.open };
            let Some(open) = open else {
                let room = match (wide, wide_room) {
                    (false, _) => limits.decoded,
                    (true, _) if self.slabs.is_empty() || self.wide_batches >= self.most_wide() => {
                        return Ok(Placed::Later);
                    }
                    (true, Some(room)) => room,
                    (true, None) => return Ok(Placed::OnceMeasured),
                };
                if !self.begin(chunk.wide, room) {
                    return Ok(Placed::Later);
                }
                continue;
            };
            // BatchLimits may have been lowered since; what a wide batch may hold was looked up when it was opened.
            let (room, results) = match wide {
                false => (limits.decoded, limits.output),
                true => (open.room, limits.output.saturating_mul(WIDE_OUTPUT)),
            };
            let fits = open.decoded + open.read + open.promised + expected <= room
                && open.output + open.promised_output + output <= results;
            let start = if fits || open.is_empty() {
                staging(open, need, &mut self.slabs)
            } else {
                None
            };
            let Some(start) = start else {
                self.close(wide);
                continue;
            };
            open.used = start + need;
            open.promised += expected;
            open.promised_output += output;
            open.writers += 1;
            return Ok(Placed::At(open.id, start..start + len));
        }
    }

    /// Opens a batch of so much room; false if there is no staging memory.
    fn begin(&mut self, wide: Option<Duration>, room: usize) -> bool {
        let Some(slab) = self.slabs.pop() else {
            return false;
        };
        let id = self.next_id;
        self.next_id += 1;
        let mut batch = Batch::new(id, slab, self.slab_len, room, IDLE);
        match wide {
            None => self.open = Some(batch),
            Some(patience) => {
                (batch.wide, batch.patience) = (true, patience.max(IDLE));
                self.wide_batches += 1;
                self.wide = Some(batch);
            }
        }
        true
    }

    /// Ends the staging of a chunk that `place` gave a place, with or without a job.
    pub fn settle(&mut self, id: u64, need: Need, job: Option<Job>) {
        let (limits, failed) = (self.limits, self.failed.clone());
        let Some(batch) = self.batch_mut(id) else {
            return;
        };
        batch.writers -= 1;
        batch.promised -= need.expected;
        batch.promised_output -= need.output;
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
        let (wide, is_empty) = (batch.wide, batch.is_empty());
        let room = if wide { batch.room } else { limits.decoded };
        let full =
            batch.decoded + batch.read >= room / 8 * 7 || wide && batch.frames >= MOST_FRAMES;
        let enough = batch.frames >= ENOUGH_FRAMES || batch.read >= ENOUGH_READ;
        if first {
            // Devices may be waiting without a time limit; all of them, since one may take no batches now.
            self.signals.work.notify_all();
        }
        let full = full || enough && self.idle > 0 && self.ready.is_empty();
        let open = if wide { &mut self.wide } else { &mut self.open };
        if let Some(open) = open.take_if(|open| open.id == id && is_empty) {
            // Nothing that was staged is wanted, and others may want the slab.
            drop(self.take_back(open));
        } else if open.as_ref().is_some_and(|open| open.id == id) {
            if full {
                self.close(wide);
            }
        } else if let Some(at) = self
            .closing
            .iter()
            .position(|batch| batch.id == id && batch.writers == 0)
        {
            let batch = self.closing.swap_remove(at);
            self.hand_out(batch);
        }
    }

    /// Closes one of the open batches, if it is there with anything in it.
    pub fn close(&mut self, wide: bool) {
        let open = if wide { &mut self.wide } else { &mut self.open };
        let Some(batch) = open.take_if(|open| !open.is_empty()) else {
            return;
        };
        if batch.writers > 0 {
            self.closing.push(batch);
        } else {
            self.hand_out(batch);
        }
    }

    fn hand_out(&mut self, batch: Batch) {
        if batch.jobs.is_empty() {
            // At most a wide batch's few slabs, of which none was touched much.
            drop(self.take_back(batch));
            return;
        }
        self.ready.push_back(batch);
        // Not only one: it may take no batches now.
        self.signals.work.notify_all();
    }

    /// The first batch that is ready for a device.
    pub fn take(&mut self, device: usize) -> Option<Batch> {
        let bit = 1 << (device % 64);
        let busy = self.wide_running & bit != 0;
        let at = self.ready.iter().position(|batch| !(batch.wide && busy))?;
        let mut batch = self.ready.remove(at)?;
        batch.device = Some(device);
        if batch.wide {
            self.wide_running |= bit;
        }
        Some(batch)
    }

    /// Closes what has waited long enough for more. How long until there is more to close: `None` if nothing waits.
    pub fn close_overdue(&mut self) -> Option<Duration> {
        let mut wait: Option<Duration> = None;
        for wide in [false, true] {
            let open = if wide { &self.wide } else { &self.open };
            let Some(open) = open.as_ref().filter(|open| !open.jobs.is_empty()) else {
                continue;
            };
            let (idle, patience) = (open.last.elapsed(), open.patience);
            if open.writers == 0 && (self.active == 0 || idle >= patience) {
                self.close(wide);
                return Some(Duration::ZERO);
            }
            let left = patience.saturating_sub(idle).max(IDLE / 10);
            wait = Some(wait.map_or(left, |wait| wait.min(left)));
        }
        wait
    }

    /// Takes back the slabs of a batch; what is returned is to be dropped without the lock.
    pub fn take_back(&mut self, batch: Batch) -> Vec<Slab> {
        let (lent, own): (Vec<_>, Vec<_>) = batch.slabs.into_iter().partition(Slab::is_lent);
        self.slabs.extend(own);
        if batch.wide {
            self.wide_batches -= 1;
            if let Some(device) = batch.device {
                self.wide_running &= !(1 << (device % 64));
                // Another wide batch may be ready.
                self.signals.work.notify_all();
            }
        }
        self.signals.slab_freed.notify_waiters();
        lent
    }

    /// The batch with this number, while chunks can still be staged in it.
    pub fn batch_mut(&mut self, id: u64) -> Option<&mut Batch> {
        self.unclosed().find(|batch| batch.id == id)
    }

    /// Batches that are open, or closed with chunks still being staged.
    pub fn unclosed(&mut self) -> impl Iterator<Item = &mut Batch> {
        self.open
            .iter_mut()
            .chain(&mut self.wide)
            .chain(&mut self.closing)
    }
}

/// Where `need` bytes of a batch's staging memory are free; a wide batch takes another slab where they are not in this one.
fn staging(open: &mut Batch, need: usize, slabs: &mut Vec<Slab>) -> Option<usize> {
    let end = open.slabs.len() * open.slab_len;
    if open.used + need <= end {
        return Some(open.used);
    }
    if !open.wide || end + open.slab_len > WIDE_STAGED.max(open.slab_len) {
        return None;
    }
    // The last slab is left to ordinary batches.
    let slab = match slabs.len() {
        0 | 1 => None,
        _ => slabs.pop(),
    };
    let slab = slab.unwrap_or_else(|| Slab::pageable(open.slab_len));
    open.slabs.push(slab);
    // Patience begins when there is room.
    open.last = Instant::now();
    Some(end)
}
