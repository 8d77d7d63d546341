//! A batch: chunks of any arrays, queries and partitions that are copied, decoded and counted together.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::buffer::Buffer;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::plan::ChunkPlan;
use super::slab::Slab;
use super::work::Work;
use crate::store::LocalFile;

/// Alignment of everything in slabs and decoded areas.
pub const ALIGN: usize = 16;
/// Bytes behind each chunk in a slab that kernels may read.
pub const GUARD: usize = 16;

/// How much a batch may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchLimits {
    /// Bytes of the decoded area.
    pub decoded: usize,
    /// Bytes of results.
    pub output: usize,
}

/// What became of a chunk.
#[derive(Debug)]
pub enum Outcome {
    /// What was wanted of it.
    Done(Done),
    /// It is the host's: the reason why the device could not do it. The host either can or finds out what is wrong.
    Host(String),
}

/// Where the outcome of a chunk arrives.
pub type Ticket = oneshot::Receiver<Outcome>;

/// Where the outcome of a chunk goes: the first that is sent.
#[derive(Debug, Clone)]
pub struct Reply(Arc<Mutex<Option<oneshot::Sender<Outcome>>>>);

impl Reply {
    /// A reply, and where it arrives.
    pub fn new() -> (Self, Ticket) {
        let (sender, ticket) = oneshot::channel();
        (Self(Arc::new(Mutex::new(Some(sender)))), ticket)
    }

    /// Sends the outcome, if none was sent; whoever asked may be gone.
    pub fn send(&self, outcome: Outcome) {
        let sender = self.0.lock().take();
        if let Some(sender) = sender {
            let _ = sender.send(outcome);
        }
    }

    /// Whether nobody waits for it any more.
    pub fn is_closed(&self) -> bool {
        self.0
            .lock()
            .as_ref()
            .is_none_or(oneshot::Sender::is_closed)
    }
}

/// What a device gave back for a chunk.
#[derive(Debug)]
pub struct Done {
    /// Counts or elements, as the work lays them out.
    pub bytes: Buffer,
    /// Bytes that the device read from the chunk's file.
    pub read: usize,
    /// The chunk's part of the time that its batch took.
    pub times: Times,
}

/// Time on a device.
#[derive(Debug, Clone, Copy, Default)]
pub struct Times {
    /// Copying to and from the device.
    pub copy: Duration,
    /// Decompression.
    pub decode: Duration,
    /// Counting or gathering.
    pub count: Duration,
}

impl Times {
    /// The part `part / whole` of these.
    pub fn share(self, part: usize, whole: usize) -> Self {
        let share = |time: Duration| time.mul_f64(part as f64 / whole.max(1) as f64);
        Self {
            copy: share(self.copy),
            decode: share(self.decode),
            count: share(self.count),
        }
    }
}

/// One chunk of a batch.
#[derive(Debug)]
pub struct Job {
    /// What is wanted.
    pub work: Arc<Work>,
    /// Which chunk along the sample axis it is.
    pub sample_chunk: usize,
    /// Rows that exist.
    pub rows: usize,
    /// Where its encoded bytes are in the batch's staging memory; among those that are read from files, if it has one.
    pub src: Range<usize>,
    /// The file that the device reads it from, if it is not staged.
    pub file: Option<LocalFile>,
    /// How it is decoded.
    pub plan: ChunkPlan,
    /// Where its decoded area starts in the batch's.
    pub dst: usize,
    /// Where its results are in the batch's.
    pub out: Range<usize>,
    /// Where the outcome goes; nobody may be waiting any more.
    pub reply: Reply,
}

/// Chunks that are run together.
#[derive(Debug)]
pub struct Batch {
    /// Number of the batch.
    pub id: u64,
    /// Whether it is of large frames, of which many have to be in flight: see [`super::state`].
    pub wide: bool,
    /// Decoded bytes that it may hold.
    pub room: usize,
    /// It goes as it is when no chunk came for this long.
    pub patience: Duration,
    /// Their encoded bytes: staging memory, one slab after the other, of each as many bytes as `slab_len`.
    pub slabs: Vec<Slab>,
    /// Bytes of each slab that are used.
    pub slab_len: usize,
    /// Bytes of the staging memory that are taken.
    pub used: usize,
    /// The chunks.
    pub jobs: Vec<Job>,
    /// Frames to decode.
    pub frames: usize,
    /// Bytes of the decoded area.
    pub decoded: usize,
    /// Bytes of results.
    pub output: usize,
    /// Bytes of device memory for what is read from files.
    pub read: usize,
    /// Decoded bytes promised to chunks that are still being staged.
    pub promised: usize,
    /// Bytes of results promised to them.
    pub promised_output: usize,
    /// Chunks that are still being staged.
    pub writers: usize,
    /// When the last chunk came.
    pub last: Instant,
    /// The device that runs it.
    pub device: Option<usize>,
}

impl Batch {
    /// An empty batch over `slab`, of which `slab_len` bytes are used.
    pub fn new(id: u64, slab: Slab, slab_len: usize, room: usize, patience: Duration) -> Self {
        Self {
            id,
            wide: false,
            room,
            patience,
            slabs: vec![slab],
            slab_len,
            used: 0,
            jobs: Vec::new(),
            frames: 0,
            decoded: 0,
            output: 0,
            read: 0,
            promised: 0,
            promised_output: 0,
            writers: 0,
            last: Instant::now(),
            device: None,
        }
    }

    /// Adds a staged chunk, or one that is not; `job.dst` and `job.out`, and of the latter `job.src`, are set here.
    pub fn push(&mut self, mut job: Job, output: usize) {
        if let Some(file) = &job.file {
            job.src = self.read..self.read + file.len();
            self.read = align_up(job.src.end + GUARD);
        }
        job.dst = self.decoded;
        self.frames += job.plan.frames.len();
        self.decoded = align_up(self.decoded + job.plan.decoded_len + GUARD);
        job.out = self.output..self.output + output;
        self.output = align_up(self.output + output);
        self.jobs.push(job);
        self.last = Instant::now();
    }

    /// Takes its chunks out, as if none had come; their encoded bytes stay where they are.
    pub fn take_jobs(&mut self) -> Vec<Job> {
        (self.frames, self.decoded, self.output, self.read) = (0, 0, 0, 0);
        std::mem::take(&mut self.jobs)
    }

    /// Whether nobody has put anything in it.
    pub fn is_empty(&self) -> bool {
        self.writers == 0 && self.jobs.is_empty()
    }

    /// The staging memory of `range`, which lies in one slab.
    ///
    /// # Safety
    /// No other thread reads or writes it while the result lives.
    #[expect(
        clippy::mut_from_ref,
        reason = "ranges are disjoint, see the module `slab`"
    )]
    pub unsafe fn staging(&self, range: Range<usize>) -> Option<&mut [u8]> {
        let at = range.start.checked_div(self.slab_len)?;
        let first = at * self.slab_len;
        let slab = self.slabs.get(at)?;
        // SAFETY: the caller's promise.
        unsafe { slab.bytes_mut(range.start - first..range.end.checked_sub(first)?) }
    }

    /// The staged bytes, slab by slab, each with where it starts.
    ///
    /// # Safety
    /// All chunks are staged: nobody writes any more.
    pub unsafe fn staged(&self) -> impl Iterator<Item = (usize, &[u8])> {
        self.slabs.iter().enumerate().filter_map(|(at, slab)| {
            let start = at * self.slab_len;
            let len = self.used.checked_sub(start)?.min(self.slab_len);
            // SAFETY: the caller's promise.
            Some((start, unsafe { slab.bytes(len) }))
        })
    }
}

/// The next multiple of [`ALIGN`].
pub fn align_up(n: usize) -> usize {
    n.next_multiple_of(ALIGN)
}
