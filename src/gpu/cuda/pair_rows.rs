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
use super::pair_counter::THREADS;
use super::pair_stream::{POLL, PairStream, STAGING_BYTES, of_device};
use super::resident::ChunkOnDevice;
use crate::counts::pairs::SetRows;
use crate::counts::{CountError, ResidentRow, ResidentRows, Workers};
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

/// A row that is on the device, and whether the copies that have the reference are counted instead of the others.
pub(super) type ResidentPlane<'a> = (&'a ResidentRow, bool);

/// The addresses of rows that are on the device, in page-locked memory.
#[derive(Debug)]
pub(super) struct StagedAddresses {
    memory: Pinned,
    rows: usize,
    /// The class of each, if they have classes.
    classes: Vec<u32>,
    /// The chunks that they are in.
    chunks: Vec<Arc<dyn ResidentRows>>,
}

/// Rows of a [`StagedAddresses`].
const ADDRESSES: usize = 1 << 13;

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
    rows: &[ResidentPlane<'_>],
    classes: &[u32],
    workers: &Workers<'_>,
) -> Result<(), CountError> {
    let width = sink.lock().buffer().row_words;
    let mut begin = 0;
    while begin < rows.len() {
        let mut staged = loop {
            let staged = staging_addresses(&mut *sink.lock()).map_err(of_device)?;
            match staged {
                Some(staged) => break staged,
                None => {
                    workers.check()?;
                    thread::sleep(POLL);
                }
            }
        };
        let range = begin
            ..rows
                .len()
                .min(begin + ADDRESSES.saturating_sub(staged.rows).max(1));
        let bytes = staged.memory.bytes_mut(ADDRESSES * size_of::<u64>());
        // Page-locked memory begins with a page.
        let addresses: &mut [u64] = bytemuck::cast_slice_mut(bytes);
        let addresses = addresses.get_mut(staged.rows..).unwrap_or_default();
        for (to, (row, inverted)) in addresses.iter_mut().zip(&rows[range.clone()]) {
            *to = address(row, width).map_err(of_device)? | u64::from(*inverted);
            if !staged
                .chunks
                .last()
                .is_some_and(|last| Arc::ptr_eq(last, &row.rows))
            {
                staged.chunks.push(Arc::clone(&row.rows));
            }
        }
        staged.rows += range.len();
        let classes = classes.get(range.clone()).unwrap_or_default();
        staged.classes.extend_from_slice(classes);
        begin = range.end;
        let mut sink = sink.lock();
        match staged.rows >= ADDRESSES {
            true => append_resident(&mut *sink, staged).map_err(of_device)?,
            false => sink.buffer().staged_addresses.push(staged),
        }
    }
    Ok(())
}

/// Where the words of a row are.
fn address(row: &ResidentRow, width: usize) -> Result<u64, GpuError> {
    let chunk: &dyn Any = &*row.rows;
    match chunk.downcast_ref::<ChunkOnDevice>() {
        Some(chunk) => chunk.address(row.set as usize, row.row as usize, width),
        None => Err("a row is not on a GPU".into()),
    }
}

/// Page-locked memory with room for an address; `None` while all of it is in use.
fn staging_addresses<S: RowSink>(sink: &mut S) -> Result<Option<StagedAddresses>, GpuError> {
    if let Some(staged) = sink.buffer().staged_addresses.pop() {
        return Ok(Some(staged));
    }
    let memory = sink.stream().staging(ADDRESSES * size_of::<u64>())?;
    Ok(memory.map(|memory| StagedAddresses {
        memory,
        rows: 0,
        classes: vec![],
        chunks: vec![],
    }))
}

/// Copies rows that are on the device to the buffer, and flushes it whenever it is full.
fn append_resident<S: RowSink>(sink: &mut S, staged: StagedAddresses) -> Result<(), GpuError> {
    sink.stream().device.bind()?;
    let appended = copy_resident(sink, &staged);
    let given_back = sink.stream().give_back_with(staged.memory, staged.chunks);
    appended.and(given_back)
}

fn copy_resident<S: RowSink>(sink: &mut S, staged: &StagedAddresses) -> Result<(), GpuError> {
    let bytes = ADDRESSES * size_of::<u64>();
    let addresses = sink.buffer().addresses.ensure("addresses of rows", bytes)?;
    let filled = 0..staged.rows * size_of::<u64>();
    // SAFETY: the buffer has room; kernels that read what was in it are before this on the stream.
    unsafe {
        sink.stream()
            .enqueue_copy(addresses, &staged.memory, filled)
    }?;
    let mut from = 0;
    while from < staged.rows {
        let buffer = sink.buffer();
        let room = buffer.capacity.saturating_sub(buffer.filled).max(1);
        let rows: Range<usize> = from..staged.rows.min(from + room);
        // Casts of numbers that the layout has checked, or that are smaller.
        let job = abi::CopiedRows {
            from: addresses + (rows.start * size_of::<u64>()) as u64,
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
        // SAFETY: the buffer has room for its capacity; the rows are in memory that is held until an event has passed, see `give_back_with`,
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
        append_resident(sink, staged)?;
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
