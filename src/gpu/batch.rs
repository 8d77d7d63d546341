//! A batch: chunks of any arrays, queries and partitions that are copied, decoded and counted together.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::buffer::Buffer;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::call_filter::MaskedChunk;
use super::plan::ChunkPlan;
use super::slab::Slab;
use super::work::{Work, WorkOutput};
use crate::counts::ResidentChunk;
use crate::gpu::error::GpuError;
use crate::store::LocalFile;

/// Alignment of everything in slabs and decoded areas.
pub const ALIGN: usize = 16;
/// Bytes behind each chunk in a slab that kernels may read.
pub const GUARD: usize = 16;

/// Limits of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchLimits {
    /// Most bytes of the decoded area.
    pub decoded: usize,
    /// Most bytes of results.
    pub output: usize,
}

/// The outcome of a chunk.
#[derive(Debug)]
pub enum Outcome {
    /// Its counts or elements.
    Done(Done),
    /// The host decodes it, for this reason. The host returns the same answer, or the error.
    Host(GpuError),
}

/// Receives the outcome of a chunk.
pub type Ticket = oneshot::Receiver<Outcome>;

/// Sends the outcome of a chunk, once.
#[derive(Debug, Clone)]
pub struct Reply(Arc<Mutex<Option<oneshot::Sender<Outcome>>>>);

impl Reply {
    /// A reply and its ticket.
    pub fn new() -> (Self, Ticket) {
        let (sender, ticket) = oneshot::channel();
        (Self(Arc::new(Mutex::new(Some(sender)))), ticket)
    }

    /// Sends the outcome, unless one was sent before. The receiver may be gone.
    pub fn send(&self, outcome: Outcome) {
        let sender = self.0.lock().take();
        if let Some(sender) = sender {
            let _ = sender.send(outcome);
        }
    }

    /// Whether the receiver is gone or an outcome was sent.
    pub fn is_closed(&self) -> bool {
        self.0
            .lock()
            .as_ref()
            .is_none_or(oneshot::Sender::is_closed)
    }
}

/// What a device returned for a chunk.
#[derive(Debug)]
pub struct Done {
    /// Counts or elements, as the work lays them out.
    pub bytes: Buffer,
    /// Its rows that have stayed on the device.
    pub resident: Option<ResidentChunk>,
    /// Bytes that the device read from the chunk's file.
    pub read: usize,
    /// The chunk's share of its batch's time.
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
    /// These times multiplied by `part / whole`.
    pub fn share(self, part: usize, whole: usize) -> Self {
        let share = |time: Duration| time.mul_f64(part as f64 / whole.max(1) as f64);
        Self {
            copy: share(self.copy),
            decode: share(self.decode),
            count: share(self.count),
        }
    }
}

/// The values of a field for the calls of a chunk.
#[derive(Debug)]
pub struct FieldPiece {
    /// Its encoded bytes in the batch's staging memory.
    pub src: Range<usize>,
    /// How it is decoded.
    pub plan: ChunkPlan,
    /// Start of its decoded bytes in the job's decoded area.
    pub dst: usize,
}

/// Something that is decoded for a job.
#[derive(Debug)]
pub struct Piece<'a> {
    /// Its encoded bytes, where [`ChunkJob::src`] is.
    pub src: Range<usize>,
    /// How it is decoded.
    pub plan: &'a ChunkPlan,
    /// Start of its decoded bytes in the batch's decoded area.
    pub dst: usize,
}

/// One chunk of a batch.
#[derive(Debug)]
pub struct ChunkJob {
    /// What to do with it.
    pub work: Arc<Work>,
    /// Which chunk along the sample axis it is.
    pub sample_chunk: usize,
    /// Rows that exist.
    pub rows: usize,
    /// Its encoded bytes in the batch's staging memory or, if it has a file, in the memory for files.
    pub src: Range<usize>,
    /// The file that the device reads, if the chunk is not staged.
    pub file: Option<LocalFile>,
    /// How it is decoded.
    pub plan: ChunkPlan,
    /// The fields of its work's filter.
    pub fields: Vec<FieldPiece>,
    /// Where filtered genotypes go; `None` without a filter.
    pub masked: Option<MaskedChunk>,
    /// Start of its decoded area in the batch's.
    pub dst: usize,
    /// Its results in the batch's; before it has run, as many bytes as there can be.
    pub out: Range<usize>,
    /// Once it has run, its rows that have stayed on the device.
    pub resident: Option<ResidentChunk>,
    /// Sends the outcome.
    pub reply: Reply,
}

impl ChunkJob {
    /// What is decoded: the chunk, then the fields of its filter.
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        let chunk = Piece {
            src: self.src.clone(),
            plan: &self.plan,
            dst: self.dst,
        };
        let fields = self.fields.iter().map(|field| Piece {
            src: field.src.clone(),
            plan: &field.plan,
            dst: self.dst + field.dst,
        });
        std::iter::once(chunk).chain(fields)
    }

    /// Bytes of its decoded area.
    pub fn decoded_len(&self) -> usize {
        let masked = self.masked.as_ref();
        masked.map_or(self.plan.decoded_len, |masked| masked.end)
    }

    /// Bytes of its results where it has used `used` 64-bit words of planes.
    pub fn results_len(&self, used: u32) -> usize {
        match &self.work.wanted {
            WorkOutput::Counts(counts)
                if !counts.request().planes.is_empty() && !self.plan.shared_rows =>
            {
                let layout = counts.layout(self.sample_chunk, self.rows);
                let data = layout.map_or(self.out.len(), |layout| layout.data);
                data.saturating_add(used as usize * size_of::<u64>())
                    .min(self.out.len())
            }
            _ => self.out.len(),
        }
    }
}

/// Chunks that run together.
#[derive(Debug)]
pub struct Batch {
    /// Number of the batch.
    pub id: u64,
    /// Whether it is a large-frame batch, see [`super::queue_state`].
    pub large_frames: bool,
    /// Most decoded bytes.
    pub room: usize,
    /// It is closed after this long without a new chunk.
    pub max_wait: Duration,
    /// Staging memory for encoded bytes: the first `slab_len` bytes of each slab, one slab after the other.
    pub slabs: Vec<Slab>,
    /// Bytes of each slab that are used.
    pub slab_len: usize,
    /// Bytes of the staging memory that are used.
    pub used: usize,
    /// The chunks.
    pub jobs: Vec<ChunkJob>,
    /// Frames to decode.
    pub frames: usize,
    /// Bytes of the decoded area.
    pub decoded: usize,
    /// Bytes of results.
    pub output: usize,
    /// Bytes of device memory for chunks read from files.
    pub read: usize,
    /// Decoded bytes reserved for chunks that are still being staged.
    pub reserved: usize,
    /// Bytes of results reserved for them.
    pub reserved_output: usize,
    /// Chunks that are still being staged.
    pub writers: usize,
    /// When the last chunk came.
    pub last: Instant,
    /// The device that runs it.
    pub device: Option<usize>,
}

impl Batch {
    /// An empty batch over `slab`, of which `slab_len` bytes are used.
    pub fn new(id: u64, slab: Slab, slab_len: usize, room: usize, max_wait: Duration) -> Self {
        Self {
            id,
            large_frames: false,
            room,
            max_wait,
            slabs: vec![slab],
            slab_len,
            used: 0,
            jobs: Vec::new(),
            frames: 0,
            decoded: 0,
            output: 0,
            read: 0,
            reserved: 0,
            reserved_output: 0,
            writers: 0,
            last: Instant::now(),
            device: None,
        }
    }

    /// Adds a chunk. Sets `job.dst` and `job.out`, and `job.src` for a chunk that is read from its file.
    pub fn push(&mut self, mut job: ChunkJob, output: usize) {
        if let Some(file) = &job.file {
            job.src = self.read..self.read + file.len();
            self.read = align_up(job.src.end + GUARD);
        }
        job.dst = self.decoded;
        self.frames += job
            .pieces()
            .map(|piece| piece.plan.frames.len())
            .sum::<usize>();
        self.decoded = align_up(self.decoded + job.decoded_len() + GUARD);
        job.out = self.output..self.output + output;
        self.output = align_up(self.output + output);
        self.jobs.push(job);
        self.last = Instant::now();
    }

    /// Takes its chunks out and resets its counters; the staged bytes stay where they are.
    pub fn take_jobs(&mut self) -> Vec<ChunkJob> {
        (self.frames, self.decoded, self.output, self.read) = (0, 0, 0, 0);
        std::mem::take(&mut self.jobs)
    }

    /// Whether it has no chunk, not even one that is being staged.
    pub fn is_empty(&self) -> bool {
        self.writers == 0 && self.jobs.is_empty()
    }

    /// The staging memory of `range`, which must be in one slab.
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

    /// The staged bytes of each slab, with their offset in the staging memory.
    ///
    /// # Safety
    /// All chunks are staged: no thread writes any more.
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
