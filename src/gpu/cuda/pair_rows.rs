//! [`add_rows`]: adds rows of bit-planes to what one device counts; [`add_resident`]: rows that are on it. [`RowBuffer`]: the rows that are on
//! the device and not counted.
//!
//! Threads fill page-locked memory, each by itself. It is copied once it is full, since calls of the driver take longer than copying the rows of a
//! batch. The lock is held only while copies and kernels are enqueued.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;

use super::device::CudaDevice;
use super::memory::{DeviceBuffer, Pinned};
use super::pair_layout::THREADS;
use super::pair_stream::{POLL, PairStream, STAGING_BYTES, of_device};
use super::resident::ChunkOnDevice;
use crate::counts::pairs::SetRows;
use crate::counts::{CountError, ResidentPart, ResidentRows, Workers};
use crate::gpu::abi;
use crate::gpu::error::GpuError;

/// What rows are added to.
pub(super) trait RowSink {
    /// The stream on which rows are copied.
    fn stream(&mut self) -> &mut PairStream;

    /// Where rows are copied to.
    fn buffer(&mut self) -> &mut RowBuffer;

    /// Enqueues the counting of all rows of the buffer, and clears it.
    ///
    /// # Errors
    /// The error of the driver.
    fn flush(&mut self) -> Result<(), GpuError>;
}

/// Rows in page-locked memory.
#[derive(Debug)]
pub(super) struct StagedRows {
    memory: Pinned,
    rows: usize,
    /// The class of each, if they have classes.
    classes: Vec<u32>,
}

/// Addresses of rows that are on the device, in page-locked memory.
#[derive(Debug)]
pub(super) struct StagedAddresses {
    memory: Pinned,
    /// The addresses of rows that were not copied.
    rows: Range<usize>,
    /// The class of each of these, if they have classes.
    classes: Vec<u32>,
    /// The chunks that they are in, and bytes of these.
    chunks: Vec<Arc<dyn ResidentRows>>,
    held: usize,
}

/// Bytes of chunks of which rows are copied before there are [`COPIED_ROWS`], since the memory of chunks is wanted for others.
const HELD_BYTES: usize = 8 << 20;

/// Addresses in page-locked memory.
const ADDRESSES: usize = STAGING_BYTES / size_of::<u64>();
/// Rows that are copied at a time.
const COPIED_ROWS: usize = 1 << 13;

/// Rows in device memory.
#[derive(Debug)]
pub(super) struct RowBuffer {
    memory: DeviceBuffer,
    /// Rows that it has room for.
    capacity: usize,
    /// Words of a row.
    row_words: usize,
    /// Rows in it.
    filled: usize,
    /// The class of each, if they have classes.
    classes: Vec<u32>,
    /// Page-locked memory that is neither full nor being filled.
    staged: Vec<StagedRows>,
    staged_addresses: Vec<StagedAddresses>,
    /// Copies that a row has bits of, and device memory for addresses.
    copies: usize,
    addresses: DeviceBuffer,
}

impl RowBuffer {
    /// Room for `capacity` rows of so many words and copies, in `memory` of `device`.
    pub(super) fn new(
        device: &CudaDevice,
        memory: DeviceBuffer,
        capacity: usize,
        row_words: usize,
        copies: usize,
    ) -> Self {
        Self {
            memory,
            capacity,
            row_words,
            filled: 0,
            classes: vec![],
            staged: vec![],
            staged_addresses: vec![],
            copies,
            addresses: DeviceBuffer::new(device),
        }
    }

    /// Its address.
    pub(super) fn address(&self) -> u64 {
        self.memory.address()
    }

    /// Clears it; returns the number of rows and their classes.
    pub(super) fn take(&mut self) -> (usize, Vec<u32>) {
        let classes = std::mem::take(&mut self.classes);
        (std::mem::take(&mut self.filled), classes)
    }

    /// Leaves the memory allocated, for a device that is lost.
    pub(super) fn forget(&mut self) {
        self.memory.forget();
        self.addresses.forget();
        let staged = std::mem::take(&mut self.staged);
        staged.into_iter().for_each(std::mem::forget);
        let staged = std::mem::take(&mut self.staged_addresses);
        staged.into_iter().for_each(std::mem::forget);
    }

    fn row_bytes(&self) -> usize {
        self.row_words.max(1) * size_of::<u64>()
    }

    /// Rows of a [`StagedRows`].
    fn staged_rows(&self) -> usize {
        (STAGING_BYTES / self.row_bytes()).max(1)
    }
}

/// Adds rows, of which `set` gives the words; `classes` has those of all rows, or none.
///
/// # Errors
/// Those of `set` and of the device, and [`CountError::Stopped`].
pub(super) fn add_rows<S: RowSink>(
    sink: &Mutex<S>,
    rows: usize,
    classes: &[u32],
    set: &mut SetRows<'_>,
    workers: &Workers<'_>,
) -> Result<(), CountError> {
    let (row_bytes, most) = {
        let mut sink = sink.lock();
        (sink.buffer().row_bytes(), sink.buffer().staged_rows())
    };
    let mut begin = 0;
    while begin < rows {
        let mut staged = loop {
            let staged = staging(&mut *sink.lock(), most * row_bytes);
            match staged.map_err(of_device)? {
                Some(staged) => break staged,
                None => {
                    workers.check()?;
                    thread::sleep(POLL);
                }
            }
        };
        let range = begin..rows.min(begin + most.saturating_sub(staged.rows).max(1));
        let (from, to) = (staged.rows, staged.rows + range.len());
        let bytes = staged.memory.bytes_mut(to * row_bytes);
        let bytes = bytes.get_mut(from * row_bytes..).unwrap_or_default();
        // Page-locked memory begins with a page, and rows are words.
        set(range.clone(), bytemuck::cast_slice_mut(bytes))?;
        staged.rows = to;
        let classes = classes.get(range.clone()).unwrap_or_default();
        staged.classes.extend_from_slice(classes);
        begin = range.end;
        let mut sink = sink.lock();
        match staged.rows >= most {
            true => append(&mut *sink, staged).map_err(of_device)?,
            false => sink.buffer().staged.push(staged),
        }
    }
    Ok(())
}

/// Adds rows that are on the device; `classes` has those of all rows, or none.
///
/// # Errors
/// Those of the device, and [`CountError::Stopped`].
pub(super) fn add_resident<S: RowSink>(
    sink: &Mutex<S>,
    parts: &[ResidentPart],
    mut classes: &[u32],
    workers: &Workers<'_>,
) -> Result<(), CountError> {
    let (row_bytes, device) = {
        let mut sink = sink.lock();
        (sink.buffer().row_bytes(), sink.stream().device.ordinal)
    };
    for part in parts {
        let mut left = part.rows.as_slice();
        let chunk = chunk_of(part, device).map_err(of_device)?;
        let first = first_row(chunk, part, row_bytes).map_err(of_device)?;
        while !left.is_empty() {
            let mut staged = staging_addresses(sink, workers)?;
            let room = (COPIED_ROWS - staged.rows.len()).min(ADDRESSES - staged.rows.end);
            let (some, rest) = left.split_at(left.len().min(room));
            let bytes = staged.memory.bytes_mut(STAGING_BYTES);
            // Page-locked memory begins with a page.
            let addresses: &mut [u64] = bytemuck::cast_slice_mut(bytes);
            let addresses = addresses.get_mut(staged.rows.end..).unwrap_or_default();
            for (to, row) in addresses.iter_mut().zip(some) {
                let at = first + u64::from(row.row) * row_bytes as u64;
                *to = at | u64::from(row.is_inverted);
            }
            staged.rows.end += some.len();
            let (of_some, of_rest) = classes.split_at(some.len().min(classes.len()));
            staged.classes.extend_from_slice(of_some);
            let is_held = staged
                .chunks
                .last()
                .is_some_and(|last| Arc::ptr_eq(last, &part.chunk));
            if !is_held {
                staged.chunks.push(Arc::clone(&part.chunk));
                staged.held = staged.held.saturating_add(chunk.size());
            }
            (left, classes) = (rest, of_rest);
            let mut sink = sink.lock();
            let is_full = staged.rows.len() >= COPIED_ROWS || staged.rows.end >= ADDRESSES;
            if is_full || staged.held >= HELD_BYTES {
                staged = append_resident(&mut *sink, staged).map_err(of_device)?;
            }
            match staged.rows.end >= ADDRESSES {
                true => sink.stream().give_back(staged.memory).map_err(of_device)?,
                false => sink.buffer().staged_addresses.push(staged),
            }
        }
    }
    Ok(())
}

/// The chunk of a part.
///
/// # Errors
/// If it is not on the device of this number.
fn chunk_of(part: &ResidentPart, device: usize) -> Result<&ChunkOnDevice, GpuError> {
    let chunk: &dyn Any = &*part.chunk;
    let chunk = chunk.downcast_ref::<ChunkOnDevice>();
    let chunk = chunk.filter(|chunk| chunk.device() == device);
    chunk.ok_or_else(|| format!("GPU {device}: rows of a chunk are not on this GPU").into())
}

/// The address of the first row of the chunk of a part.
///
/// # Errors
/// If the chunk does not have all rows of the part, of so many bytes.
fn first_row(
    chunk: &ChunkOnDevice,
    part: &ResidentPart,
    row_bytes: usize,
) -> Result<u64, GpuError> {
    let rows = chunk.rows(part.set as usize, row_bytes / size_of::<u64>());
    let has_all = |rows: usize| part.rows.iter().all(|row| (row.row as usize) < rows);
    match rows {
        Some((at, rows)) if has_all(rows) => Ok(at),
        _ => Err(format!("set {} of a chunk on a GPU has no such rows", part.set).into()),
    }
}

/// Page-locked memory with room for addresses, once there is some.
fn staging_addresses<S: RowSink>(
    sink: &Mutex<S>,
    workers: &Workers<'_>,
) -> Result<StagedAddresses, CountError> {
    loop {
        {
            let mut sink = sink.lock();
            if let Some(staged) = sink.buffer().staged_addresses.pop() {
                return Ok(staged);
            }
            let memory = sink.stream().staging(STAGING_BYTES).map_err(of_device)?;
            if let Some(memory) = memory {
                return Ok(StagedAddresses {
                    memory,
                    rows: 0..0,
                    classes: vec![],
                    chunks: vec![],
                    held: 0,
                });
            }
        }
        workers.check()?;
        thread::sleep(POLL);
    }
}

/// Copies the rows of addresses to the buffer, and flushes it whenever it is full.
fn append_resident<S: RowSink>(
    sink: &mut S,
    mut staged: StagedAddresses,
) -> Result<StagedAddresses, GpuError> {
    sink.stream().device.bind()?;
    let appended = copy_resident(sink, &staged);
    let held = sink.stream().hold(std::mem::take(&mut staged.chunks));
    if let Err(error) = appended.and(held) {
        // The device may still read it.
        std::mem::forget(staged);
        return Err(error);
    }
    staged.rows.start = staged.rows.end;
    staged.classes.clear();
    staged.held = 0;
    Ok(staged)
}

fn copy_resident<S: RowSink>(sink: &mut S, staged: &StagedAddresses) -> Result<(), GpuError> {
    let bytes = COPIED_ROWS * size_of::<u64>();
    let addresses = sink.buffer().addresses.ensure("addresses of rows", bytes)?;
    let at = |row: usize| row * size_of::<u64>();
    let filled = at(staged.rows.start)..at(staged.rows.end);
    // SAFETY: the buffer has room; kernels that read what was in it are before this on the stream.
    unsafe {
        sink.stream()
            .enqueue_copy(addresses, &staged.memory, filled)
    }?;
    let mut from = 0;
    while from < staged.rows.len() {
        let buffer = sink.buffer();
        let room = buffer.capacity.saturating_sub(buffer.filled).max(1);
        let rows: Range<usize> = from..staged.rows.len().min(from + room);
        // Casts of numbers that the layout has checked, or that are smaller.
        let job = abi::CopiedRows {
            from: addresses + at(rows.start) as u64,
            to: buffer.address() + (buffer.filled * buffer.row_bytes()) as u64,
            n_rows: rows.len() as u32,
            width: buffer.row_words as u32,
            copies: buffer.copies as u32,
            pad: 0,
        };
        let classes = staged.classes.get(rows.clone()).unwrap_or_default();
        buffer.classes.extend_from_slice(classes);
        buffer.filled += rows.len();
        let is_full = buffer.filled >= buffer.capacity;
        let kernel = sink.stream().device.pair_kernels()?.copy_rows;
        let warps = THREADS / 32;
        let blocks = job.n_rows.div_ceil(warps);
        // SAFETY: the buffer has room for its capacity; the rows are in memory that is held until an event has passed, see `hold`,
        // and were written before their chunk was returned.
        unsafe { sink.stream().launch(kernel, blocks, THREADS, 0, &job) }?;
        if is_full {
            sink.flush()?;
        }
        from = rows.end;
    }
    Ok(())
}

/// Enqueues the counting of all rows that were added.
///
/// # Errors
/// The error of the driver.
pub(super) fn finish<S: RowSink>(sink: &mut S) -> Result<(), GpuError> {
    sink.stream().device.bind()?;
    while let Some(staged) = sink.buffer().staged.pop() {
        append(sink, staged)?;
    }
    while let Some(staged) = sink.buffer().staged_addresses.pop() {
        let staged = append_resident(sink, staged)?;
        sink.stream().give_back(staged.memory)?;
    }
    sink.flush()
}

/// Page-locked memory with room for a row; `None` while all of it is in use.
fn staging<S: RowSink>(sink: &mut S, bytes: usize) -> Result<Option<StagedRows>, GpuError> {
    if let Some(staged) = sink.buffer().staged.pop() {
        return Ok(Some(staged));
    }
    let memory = sink.stream().staging(bytes)?;
    Ok(memory.map(|memory| StagedRows {
        memory,
        rows: 0,
        classes: vec![],
    }))
}

/// Copies rows to the buffer, and flushes it whenever it is full.
fn append<S: RowSink>(sink: &mut S, staged: StagedRows) -> Result<(), GpuError> {
    sink.stream().device.bind()?;
    let appended = copy(sink, &staged);
    appended.and(sink.stream().give_back(staged.memory))
}

fn copy<S: RowSink>(sink: &mut S, staged: &StagedRows) -> Result<(), GpuError> {
    let mut from = 0;
    while from < staged.rows {
        let buffer = sink.buffer();
        let row_bytes = buffer.row_bytes();
        let room = buffer.capacity.saturating_sub(buffer.filled).max(1);
        let rows: Range<usize> = from..staged.rows.min(from + room);
        let to = buffer.address() + (buffer.filled * row_bytes) as u64;
        let classes = staged.classes.get(rows.clone()).unwrap_or_default();
        buffer.classes.extend_from_slice(classes);
        buffer.filled += rows.len();
        let is_full = buffer.filled >= buffer.capacity;
        let bytes = rows.start * row_bytes..rows.end * row_bytes;
        // SAFETY: the buffer has room for its capacity.
        unsafe { sink.stream().enqueue_copy(to, &staged.memory, bytes) }?;
        if is_full {
            sink.flush()?;
        }
        from = rows.end;
    }
    Ok(())
}
