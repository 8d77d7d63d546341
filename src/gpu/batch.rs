//! A batch: chunks of any arrays, queries and partitions that are copied, decoded and counted together.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::buffer::Buffer;
use tokio::sync::oneshot;

use super::plan::ChunkPlan;
use super::slab::Slab;
use super::work::Work;

/// Alignment of everything in slabs and decoded areas.
pub const ALIGN: usize = 16;
/// Bytes behind each chunk in a slab that kernels may read.
pub const GUARD: usize = 16;

/// What became of a chunk.
#[derive(Debug)]
pub enum Outcome {
    /// What was wanted of it.
    Done(Done),
    /// It is the host's: the reason why the device could not do it. The host either can or finds out what is wrong.
    Host(String),
}

/// What a device gave back for a chunk.
#[derive(Debug)]
pub struct Done {
    /// Counts or elements, as the work lays them out.
    pub bytes: Buffer,
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
    /// Where its encoded bytes are in the slab.
    pub src: Range<usize>,
    /// How it is decoded.
    pub plan: ChunkPlan,
    /// Where its decoded area starts in the batch's.
    pub dst: usize,
    /// Where its results are in the batch's.
    pub out: Range<usize>,
    /// Where the outcome goes; nobody may be waiting any more.
    pub reply: oneshot::Sender<Outcome>,
}

/// Chunks that are run together.
#[derive(Debug)]
pub struct Batch {
    /// Number of the batch.
    pub id: u64,
    /// Their encoded bytes.
    pub slab: Slab,
    /// Bytes of the slab that are taken.
    pub used: usize,
    /// The chunks.
    pub jobs: Vec<Job>,
    /// Frames to decode.
    pub frames: usize,
    /// Bytes of the decoded area.
    pub decoded: usize,
    /// Bytes of results.
    pub output: usize,
    /// Decoded bytes promised to chunks that are still being staged.
    pub promised: usize,
    /// Bytes of results promised to them.
    pub promised_output: usize,
    /// Chunks that are still being staged.
    pub writers: usize,
    /// When the last chunk came.
    pub last: Instant,
}

impl Batch {
    /// An empty batch over `slab`.
    pub fn new(id: u64, slab: Slab) -> Self {
        Self {
            id,
            slab,
            used: 0,
            jobs: Vec::new(),
            frames: 0,
            decoded: 0,
            output: 0,
            promised: 0,
            promised_output: 0,
            writers: 0,
            last: Instant::now(),
        }
    }

    /// Adds a staged chunk; `job.dst` and `job.out` are set here.
    pub fn push(&mut self, mut job: Job, output: usize) {
        job.dst = self.decoded;
        self.frames += job.plan.frames.len();
        self.decoded = align_up(self.decoded + job.plan.decoded_len + GUARD);
        job.out = self.output..self.output + output;
        self.output = align_up(self.output + output);
        self.jobs.push(job);
        self.last = Instant::now();
    }
}

/// The next multiple of [`ALIGN`].
pub fn align_up(n: usize) -> usize {
    n.next_multiple_of(ALIGN)
}
