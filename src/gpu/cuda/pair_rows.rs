//! [`add_rows`]: adds rows of bit-planes to what one device counts. [`RowBuffer`]: the rows that are on the device and not counted.
//!
//! Threads fill page-locked memory, each by itself. It is copied once it is full, since calls of the driver take longer than copying the rows of a
//! batch. The lock is held only while copies and kernels are enqueued.

use std::thread;

use parking_lot::Mutex;

use super::device::CudaDevice;
use super::memory::{DeviceBuffer, Pinned};
use super::pair_layout::THREADS;
use super::pair_stream::{POLL, PairStream, STAGING_BYTES, of_device};
use super::resident_rows::ResidentSink;
use super::sorted_rows::{ClassRuns, SortedRows};
use crate::counts::pairs::SetRows;
use crate::counts::{CountError, Workers};
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

    /// Enqueues the counting of rows that need not wait for others, if many were added since that was done. The buffer keeps all.
    ///
    /// # Errors
    /// The error of the driver.
    fn flush_some(&mut self) -> Result<(), GpuError> {
        Ok(())
    }
}

/// Rows in page-locked memory.
#[derive(Debug)]
pub(super) struct StagedRows {
    memory: Pinned,
    rows: usize,
    /// The class of each, if they have classes.
    classes: Vec<u32>,
}

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
    /// The rows by class, if they have classes.
    sorted: Option<SortedRows>,
    /// Page-locked memory that is neither full nor being filled.
    staged: Vec<StagedRows>,
    /// Copies that a row has bits of.
    copies: usize,
    /// Device memory for addresses of rows.
    addresses: DeviceBuffer,
}

impl RowBuffer {
    /// Room for `capacity` rows of so many words and copies, in `memory` of `device`; `sorted` if they have classes.
    pub(super) fn new(
        device: &CudaDevice,
        memory: DeviceBuffer,
        capacity: usize,
        row_words: usize,
        copies: usize,
        sorted: Option<SortedRows>,
    ) -> Self {
        Self {
            memory,
            capacity,
            row_words,
            filled: 0,
            sorted,
            staged: vec![],
            copies,
            addresses: DeviceBuffer::new(device),
        }
    }

    /// Its address.
    pub(super) fn address(&self) -> u64 {
        self.memory.address()
    }

    /// Clears it; returns the number of rows.
    pub(super) fn take(&mut self) -> usize {
        std::mem::take(&mut self.filled)
    }

    /// Its rows by class, if they have classes. [`take`](Self::take) does not clear them.
    pub(super) fn sorted(&mut self) -> Option<&mut SortedRows> {
        self.sorted.as_mut()
    }

    /// Leaves the memory allocated, for a device that is lost.
    pub(super) fn forget(&mut self) {
        self.memory.forget();
        self.addresses.forget();
        let staged = std::mem::take(&mut self.staged);
        staged.into_iter().for_each(std::mem::forget);
    }

    fn row_bytes(&self) -> usize {
        self.row_words.max(1) * size_of::<u64>()
    }

    /// Room for some of so many rows, which are then in the buffer: its address, how many, and whether the buffer is full after them. `classes`
    /// has those of all rows, or none; `runs` are these sorted, if that was done.
    ///
    /// # Errors
    /// If there is no such class.
    fn place(
        &mut self,
        rows: usize,
        classes: Option<&[u32]>,
        runs: Option<&ClassRuns>,
    ) -> Result<(u64, usize, bool), GpuError> {
        let to = self.address() + (self.filled * self.row_bytes()) as u64;
        let some = rows.min(self.capacity.saturating_sub(self.filled).max(1));
        if let Some(sorted) = &mut self.sorted {
            match runs {
                Some(runs) if some == rows => sorted.add(runs)?,
                _ => {
                    let classes = classes.unwrap_or_default();
                    let of_rows = classes.get(..some.min(classes.len()));
                    sorted.add(&ClassRuns::new(of_rows.unwrap_or_default()))?;
                }
            }
        }
        self.filled += some;
        Ok((to, some, self.filled >= self.capacity))
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

impl<S: RowSink> ResidentSink for S {
    fn reading_stream(&mut self) -> &mut PairStream {
        self.stream()
    }

    fn make_room(&mut self) -> Result<(), GpuError> {
        match self.buffer().staged.pop() {
            Some(staged) => append(self, staged),
            None => Ok(()),
        }
    }

    fn addresses(&mut self) -> &mut DeviceBuffer {
        &mut self.buffer().addresses
    }

    /// Copies the rows to the buffer, and flushes it as it fills.
    fn read_rows(
        &mut self,
        from: u64,
        rows: usize,
        classes: &[u32],
        runs: &ClassRuns,
    ) -> Result<(), GpuError> {
        let mut begin = 0;
        while begin < rows {
            let buffer = self.buffer();
            let (width, copies) = (buffer.row_words, buffer.copies);
            let runs = (begin == 0).then_some(runs);
            let (to, n_rows, is_full) = buffer.place(rows - begin, classes.get(begin..), runs)?;
            // Casts of numbers that the layout has checked, or that are smaller.
            let job = abi::CopiedRows {
                from: from + (begin * size_of::<u64>()) as u64,
                to,
                n_rows: n_rows as u32,
                width: width as u32,
                copies: copies as u32,
                pad: 0,
            };
            let kernel = self.stream().device.pair_kernels()?.copy_rows;
            let blocks = job.n_rows.div_ceil(THREADS / 32);
            // SAFETY: the buffer has room for its capacity; the rows are in memory that is held until an event has passed, and were written
            // before their chunk was returned.
            unsafe { self.stream().launch(kernel, blocks, THREADS, 0, &job) }?;
            match is_full {
                true => self.flush()?,
                false => self.flush_some()?,
            }
            begin += n_rows;
        }
        Ok(())
    }
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

/// Copies rows to the buffer, and flushes it as it fills.
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
        let classes = staged.classes.get(from..);
        let (to, rows, is_full) = buffer.place(staged.rows - from, classes, None)?;
        let bytes = from * row_bytes..(from + rows) * row_bytes;
        // SAFETY: the buffer has room for its capacity.
        unsafe { sink.stream().enqueue_copy(to, &staged.memory, bytes) }?;
        match is_full {
            true => sink.flush()?,
            false => sink.flush_some()?,
        }
        from += rows;
    }
    Ok(())
}
