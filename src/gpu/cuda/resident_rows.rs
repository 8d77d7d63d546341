//! [`ResidentQueue`]: rows of bit-planes that are on a device, on their way to what the device counts.
//!
//! Threads add addresses of rows, which takes little time; once there are many, they are passed to the device. Calls of the driver take long, so
//! one thread makes them while the others go on with an empty queue as long as little waits for it, see [`Handover`]. Invariant: chunks are held until the kernels that read them
//! have ended.

use std::any::Any;
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;

use super::memory::{DeviceBuffer, Pinned};
use super::pair_stream::{POLL, PairStream, STAGING_BYTES, of_device};
use super::resident::ChunkOnDevice;
use super::sorted_rows::ClassRuns;
use crate::counts::{CountError, ResidentPart, ResidentRow, ResidentRows, Workers};
use crate::gpu::error::GpuError;
use crate::gpu::handover::Handover;

/// Rows that are passed to the device at a time.
const QUEUED_ROWS: usize = 1 << 15;
/// Addresses of rows that fit in page-locked memory.
const PASSED_ROWS: usize = STAGING_BYTES / size_of::<u64>();
/// Bytes of chunks whose rows are passed on before they are so many, since the memory of chunks is wanted for others.
const HELD_BYTES: usize = 16 << 20;
/// See [`address_of`].
const MOST_ONES: u32 = 3;

/// What rows are passed to.
pub(super) trait ResidentSink {
    /// The stream on which they are read.
    fn reading_stream(&mut self) -> &mut PairStream;

    /// Enqueues copies of page-locked memory that is neither full nor being filled, which makes it free soon.
    ///
    /// # Errors
    /// The error of the driver.
    fn make_room(&mut self) -> Result<(), GpuError> {
        Ok(())
    }

    /// Device memory for addresses.
    fn addresses(&mut self) -> &mut DeviceBuffer;

    /// Enqueues the reading of so many rows, whose addresses (see [`address_of`]) are at `from`; `classes` has the class of each, or none, and `runs`
    /// are these sorted.
    ///
    /// # Errors
    /// The error of the driver.
    fn read_rows(
        &mut self,
        from: u64,
        rows: usize,
        classes: &[u32],
        runs: &ClassRuns,
    ) -> Result<(), GpuError>;
}

/// The address of a row as kernels take it. Rows are words of eight bytes: bit 0 says that the other copies are counted instead, and the next two
/// the number of copies that have a bit, at most [`MOST_ONES`].
fn address_of(first: u64, row: ResidentRow, row_bytes: usize) -> u64 {
    let at = first + u64::from(row.row) * row_bytes as u64;
    at | u64::from(row.is_inverted) | u64::from(row.ones.min(MOST_ONES)) << 1
}

/// Rows that were added together.
#[derive(Debug)]
struct Added {
    addresses: Vec<u64>,
    /// The class of each, if they have classes.
    classes: Vec<u32>,
    /// The chunks that they are in.
    chunks: Vec<Arc<dyn ResidentRows>>,
}

/// Rows that were added and are too few to be passed on. Many threads add, so nothing is copied while one of them has the lock.
#[derive(Debug, Default)]
struct Queued {
    added: Vec<Added>,
    /// Number of rows.
    rows: usize,
    /// Bytes of the chunks that they are in.
    held: usize,
}

impl Queued {
    /// The same in parts of at most [`PASSED_ROWS`].
    fn into_parts(self) -> Vec<Passed> {
        let mut parts = vec![];
        let mut part = Passed::default();
        for added in self.added {
            let mut begin = 0;
            while begin < added.addresses.len() {
                let left = PASSED_ROWS - part.addresses.len();
                let end = added.addresses.len().min(begin + left);
                part.addresses
                    .extend_from_slice(added.addresses.get(begin..end).unwrap_or_default());
                let classes = added.classes.get(begin..end);
                part.classes.extend_from_slice(classes.unwrap_or_default());
                part.chunks.extend(added.chunks.iter().cloned());
                begin = end;
                if part.addresses.len() == PASSED_ROWS {
                    parts.push(std::mem::take(&mut part));
                }
            }
        }
        if !part.addresses.is_empty() {
            parts.push(part);
        }
        for part in &mut parts {
            part.runs = ClassRuns::new(&part.classes);
        }
        parts
    }
}

/// Rows that are passed on together.
#[derive(Debug, Default)]
struct Passed {
    addresses: Vec<u64>,
    classes: Vec<u32>,
    /// These sorted.
    runs: ClassRuns,
    chunks: Vec<Arc<dyn ResidentRows>>,
}

/// A queue of rows.
#[derive(Debug)]
pub(super) struct ResidentQueue {
    queued: Mutex<Queued>,
    /// Rows that are to be passed on.
    ready: Handover<Passed>,
    /// The number of the device.
    device: usize,
    /// 64-bit words of a row.
    row_words: usize,
}

impl ResidentQueue {
    /// No rows yet, of so many 64-bit words each, on this device.
    pub(super) fn new(device: usize, row_words: usize) -> Self {
        Self {
            queued: Mutex::default(),
            ready: Handover::default(),
            device,
            row_words,
        }
    }

    /// Adds rows; `classes` has those of all rows, or none.
    ///
    /// # Errors
    /// Those of the device, and [`CountError::Stopped`].
    pub(super) fn add<S: ResidentSink>(
        &self,
        sink: &Mutex<S>,
        parts: &[ResidentPart],
        classes: &[u32],
        workers: &Workers<'_>,
    ) -> Result<(), CountError> {
        let row_bytes = self.row_words * size_of::<u64>();
        let rows = parts.iter().map(|part| part.rows.len()).sum();
        if rows == 0 {
            return Ok(());
        }
        let mut added = Added {
            addresses: Vec::with_capacity(rows),
            classes: classes.to_vec(),
            chunks: Vec::with_capacity(parts.len()),
        };
        let mut held = 0usize;
        for part in parts {
            let chunk = self.chunk_of(part).map_err(of_device)?;
            let first = self.first_row(chunk, part).map_err(of_device)?;
            let addresses = part.rows.iter();
            let addresses = addresses.map(|row| address_of(first, *row, row_bytes));
            added.addresses.extend(addresses);
            added.chunks.push(Arc::clone(&part.chunk));
            held = held.saturating_add(chunk.size());
        }
        let ready = {
            let mut queued = self.queued.lock();
            queued.added.push(added);
            queued.rows = queued.rows.saturating_add(rows);
            queued.held = queued.held.saturating_add(held);
            let is_ready = queued.rows >= QUEUED_ROWS || queued.held >= HELD_BYTES;
            is_ready.then(|| std::mem::take(&mut *queued))
        };
        let Some(ready) = ready else {
            return Ok(());
        };
        self.ready.add(ready.into_parts());
        self.ready.work_off(|part| pass(sink, part, workers))
    }

    /// Passes all rows that are left to the device.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub(super) fn finish<S: ResidentSink>(&mut self, sink: &Mutex<S>) -> Result<(), CountError> {
        let mut ready = self.ready.take();
        ready.extend(std::mem::take(self.queued.get_mut()).into_parts());
        let workers = Workers::new(1, &|| false);
        let mut parts = ready.into_iter();
        parts.try_for_each(|part| pass(sink, part, &workers))
    }

    /// The chunk of a part.
    ///
    /// # Errors
    /// If it is not on the device.
    fn chunk_of<'a>(&self, part: &'a ResidentPart) -> Result<&'a ChunkOnDevice, GpuError> {
        let (chunk, device): (&dyn Any, usize) = (&*part.chunk, self.device);
        let chunk = chunk.downcast_ref::<ChunkOnDevice>();
        let chunk = chunk.filter(|chunk| chunk.device() == device);
        chunk.ok_or_else(|| format!("GPU {device}: rows of a chunk are not on this GPU").into())
    }

    /// The address of the first row of the chunk of a part.
    ///
    /// # Errors
    /// If the chunk does not have all rows of the part.
    fn first_row(&self, chunk: &ChunkOnDevice, part: &ResidentPart) -> Result<u64, GpuError> {
        let rows = chunk.rows(part.set as usize, self.row_words);
        let has_all = |rows: usize| part.rows.iter().all(|row| (row.row as usize) < rows);
        match rows {
            Some((at, rows)) if has_all(rows) => Ok(at),
            _ => Err(format!("set {} of a chunk on a GPU has no such rows", part.set).into()),
        }
    }
}

/// Passes rows to the device.
fn pass<S: ResidentSink>(
    sink: &Mutex<S>,
    rows: Passed,
    workers: &Workers<'_>,
) -> Result<(), CountError> {
    let mut memory = staging(sink, workers)?;
    let addresses: &[u8] = bytemuck::cast_slice(&rows.addresses);
    memory.bytes_mut(addresses.len()).copy_from_slice(addresses);
    let mut sink = sink.lock();
    enqueue(&mut *sink, memory, rows).map_err(of_device)
}

/// Page-locked memory, once there is some.
fn staging<S: ResidentSink>(sink: &Mutex<S>, workers: &Workers<'_>) -> Result<Pinned, CountError> {
    loop {
        let memory = {
            let mut sink = sink.lock();
            match sink.reading_stream().staging(STAGING_BYTES) {
                Ok(None) => sink.make_room().map(|()| None),
                memory => memory,
            }
        };
        if let Some(memory) = memory.map_err(of_device)? {
            return Ok(memory);
        }
        workers.check()?;
        thread::sleep(POLL);
    }
}

/// Enqueues the reading of rows whose addresses are in `memory`. After an error nothing is freed that the device may still read.
fn enqueue<S: ResidentSink>(sink: &mut S, memory: Pinned, rows: Passed) -> Result<(), GpuError> {
    let mut read = || {
        sink.reading_stream().device.bind()?;
        let n_rows = rows.addresses.len();
        let bytes = n_rows * size_of::<u64>();
        let from = sink
            .addresses()
            .ensure("addresses of rows", STAGING_BYTES)?;
        // SAFETY: the buffer has room; kernels that read what was in it are before this on the stream.
        unsafe { sink.reading_stream().enqueue_copy(from, &memory, 0..bytes) }?;
        sink.read_rows(from, n_rows, &rows.classes, &rows.runs)
    };
    let done = read();
    let held = sink.reading_stream().hold(rows.chunks);
    let given_back = sink.reading_stream().give_back(memory);
    done.and(held).and(given_back)
}
