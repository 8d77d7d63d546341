//! [`PairCounter`]: counts pairs of units on one device, with the kernels `units` and `gram`.
//!
//! Rows are collected in page-locked memory, copied to the device once that is full, and become units there; pairs are counted once there
//! are many units, or the counts are taken. Everything is enqueued on one stream. Invariants: memory that is copied from is written again
//! only after an event has passed; units past the last are zero; after an error nothing is freed that the device may still use.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use cudarc::driver::{DriverError, result, sys};
use parking_lot::Mutex;

use super::device::CudaDevice;
use super::memory::{DeviceBuffer, Pinned};
use super::pair_layout::{Layout, STAGING_BYTES, splits, tiles};
use crate::counts::CountError;
use crate::counts::gathered::plane_words;
use crate::counts::pairs::{SetRows, Units};
use crate::gpu::abi;
use crate::gpu::error::GpuError;

/// A device that needs longer for what is enqueued does not respond.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How long a thread sleeps before it asks again.
const POLL: Duration = Duration::from_micros(50);
/// Threads of a thread block, where the kernel needs no other number.
const THREADS: u32 = 256;
/// Page-locked memory that counters have given back.
pub type Staging = Mutex<Vec<Pinned>>;
/// The most that is kept of it.
const MOST_KEPT: usize = 8;

/// Counts pairs on a device.
#[derive(Debug)]
pub struct PairCounter {
    device: Arc<CudaDevice>,
    layout: Layout,
    stream: sys::CUstream,
    /// Passed when the page-locked memory of that number has been copied, and when all is done.
    events: [sys::CUevent; 3],
    staging: [Option<Pinned>; 2],
    /// Where page-locked memory goes.
    free: Arc<Staging>,
    rows: DeviceBuffer,
    units: DeviceBuffer,
    counts: DeviceBuffer,
    tiles: DeviceBuffer,
    /// What `tiles` was copied from.
    tile_table: Vec<abi::PairTile>,
    /// Which page-locked memory is being filled.
    turn: usize,
    /// Rows in it.
    filled: usize,
    /// Steps that have units which are not counted.
    steps: usize,
    kernel_times: KernelTimes,
    /// Whether the device failed or did not respond.
    is_lost: Cell<bool>,
}

/// The time that kernels take, as events before and after each; only measured for the log. Errors are left to the calls that follow.
#[derive(Debug, Default)]
struct KernelTimes {
    events: Vec<sys::CUevent>,
    /// Events that were recorded since the last sum.
    recorded: usize,
}

impl KernelTimes {
    /// Records the next event, if the times are logged.
    fn record(&mut self, stream: sys::CUstream) {
        if !log::log_enabled!(log::Level::Debug) {
            return;
        }
        if self.recorded == self.events.len() {
            match result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT) {
                Ok(event) => self.events.push(event),
                Err(_) => return,
            }
        }
        if let Some(event) = self.events.get(self.recorded) {
            // SAFETY: the event is a live one, and so is the stream.
            let recorded = unsafe { result::event::record(*event, stream) };
            self.recorded += usize::from(recorded.is_ok());
        }
    }

    /// Logs the milliseconds between all pairs of events, which have passed.
    fn log(&mut self, ordinal: usize, units: Units) {
        let recorded = self.events.get(..std::mem::take(&mut self.recorded));
        let pairs = recorded.unwrap_or_default().chunks_exact(2);
        let milliseconds = pairs.map(|pair| match pair {
            // SAFETY: the events are live ones.
            [start, end] => unsafe { result::event::elapsed(*start, *end) }.unwrap_or(0.0),
            _ => 0.0,
        });
        let milliseconds: f32 = milliseconds.sum();
        log::debug!("GPU {ordinal}: the kernels of pairs of {units:?} took {milliseconds} ms");
    }
}

// SAFETY: the handles may be used from one thread at a time, which ownership of the counter ensures.
unsafe impl Send for PairCounter {}

impl PairCounter {
    /// Counts of no rows on `device`, with page-locked memory from `free` if there is some.
    ///
    /// # Errors
    /// What could not be created.
    pub fn try_new(
        device: &Arc<CudaDevice>,
        layout: Layout,
        free: &Arc<Staging>,
    ) -> Result<Self, GpuError> {
        let kernels = device.pair_kernels()?;
        let tile = match kernels.gram_hopper {
            Some(_) => abi::HOPPER_TILE,
            None => abi::GRAM_TILE,
        };
        let tiles = tiles(layout.units.number(layout.copies), tile);
        let failed = |error: DriverError| format!("GPU {}: {error}", device.ordinal);
        let mut counter = Self {
            stream: result::stream::create(result::stream::StreamKind::NonBlocking)
                .map_err(failed)?,
            device: Arc::clone(device),
            layout,
            events: [std::ptr::null_mut(); 3],
            staging: [None, None],
            free: Arc::clone(free),
            rows: DeviceBuffer::new(device),
            units: DeviceBuffer::new(device),
            counts: DeviceBuffer::new(device),
            tiles: DeviceBuffer::new(device),
            tile_table: tiles,
            turn: 0,
            filled: 0,
            steps: 0,
            kernel_times: KernelTimes::default(),
            is_lost: Cell::new(false),
        };
        for event in &mut counter.events {
            *event = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)
                .map_err(failed)?;
        }
        let sizes = (
            layout.rows_bytes(),
            layout.units_bytes(),
            layout.counts_bytes(),
        );
        let (Some(rows), Some(units), Some(counts)) = sizes else {
            return Err("counts of pairs that do not fit in memory".into());
        };
        for staging in &mut counter.staging {
            let given_back = free.lock().pop();
            let mut memory = match given_back {
                Some(memory) => memory,
                None => Pinned::new(device, STAGING_BYTES)?,
            };
            memory.ensure(device, rows)?;
            *staging = Some(memory);
        }
        // Memory of another device may have been freed.
        device.bind()?;
        let bytes: &[u8] = bytemuck::cast_slice(&counter.tile_table);
        let tiles_at = counter.tiles.ensure("tiles of pairs", bytes.len())?;
        counter.rows.ensure("rows of bit-planes", rows)?;
        let units_at = counter.units.ensure("units of pairs", units)?;
        let counts_at = counter.counts.ensure("counts of pairs", counts)?;
        // SAFETY: the buffers have these sizes, and nothing else uses them; the table lives as long as the counter.
        unsafe {
            result::memcpy_htod_async(tiles_at, bytes, counter.stream).map_err(failed)?;
            result::memset_d8_async(units_at, 0, units, counter.stream).map_err(failed)?;
            result::memset_d8_async(counts_at, 0, counts, counter.stream).map_err(failed)?;
        }
        Ok(counter)
    }

    fn failed(&self, error: &DriverError) -> GpuError {
        self.is_lost.set(true);
        format!("GPU {}: {error}", self.device.ordinal).into()
    }

    /// Adds rows, see [`UnitCounter`](crate::counts::pairs::UnitCounter).
    ///
    /// # Errors
    /// Those of `set` and of the device.
    pub fn add(&mut self, rows: usize, set: &mut SetRows<'_>) -> Result<(), CountError> {
        self.device.bind().map_err(of_device)?;
        let row_bytes = self.layout.row_words * size_of::<u64>();
        let mut begin = 0;
        while begin < rows {
            if self.filled == 0 {
                self.wait(self.turn).map_err(of_device)?;
            }
            let end = rows.min(begin + self.layout.rows - self.filled);
            let room = self.filled * row_bytes..(self.filled + end - begin) * row_bytes;
            let staging = self.staging.get_mut(self.turn).and_then(Option::as_mut);
            let staging = staging.map(|staging| staging.bytes_mut(room.end));
            let Some(words) = staging.and_then(|staging| staging.get_mut(room)) else {
                return Err(CountError::Device("there is no page-locked memory".into()));
            };
            // Page-locked memory begins with a page.
            set(begin..end, bytemuck::cast_slice_mut(words))?;
            self.filled += end - begin;
            begin = end;
            if self.filled == self.layout.rows {
                self.make_units().map_err(of_device)?;
            }
        }
        Ok(())
    }

    /// Copies the rows in page-locked memory, and makes units of them.
    fn make_units(&mut self) -> Result<(), GpuError> {
        let (turn, rows) = (self.turn, std::mem::take(&mut self.filled));
        let steps = rows.div_ceil(abi::STEP_ROWS);
        if steps == 0 {
            return Ok(());
        }
        if self.steps + steps > self.layout.steps {
            self.count()?;
        }
        let layout = &self.layout;
        let bytes = rows * layout.row_words * size_of::<u64>();
        let from = self.staging.get(turn).and_then(Option::as_ref);
        let from = from.map_or(&[][..], |from| from.bytes(bytes));
        let step = layout.stride * abi::UNIT_BYTES;
        // Casts of numbers that the layout has checked, or that are smaller.
        let job = abi::PairRows {
            rows: self.rows.address(),
            units: self.units.address() + (self.steps * step) as u64,
            n_rows: rows as u32,
            width: 2 * plane_words(layout.copies) as u32,
            copies: layout.copies as u32,
            kind: layout.units as u32,
            stride: layout.stride as u32,
            tiles: layout.copies.div_ceil(abi::BLOCK_COPIES) as u32,
        };
        let kernel = self.device.pair_kernels()?.units;
        let event = self.events.get(turn).copied().unwrap_or_default();
        // SAFETY: the buffers have room for a layout's rows and steps, which `add` keeps to.
        unsafe {
            result::memcpy_htod_async(job.rows, from, self.stream)
                .map_err(|error| self.failed(&error))?;
            result::event::record(event, self.stream).map_err(|error| self.failed(&error))?;
            self.kernel_times.record(self.stream);
            self.launch(kernel, steps as u32 * job.tiles, THREADS, 0, &job)?;
        }
        self.kernel_times.record(self.stream);
        self.turn = 1 - turn;
        self.steps += steps;
        Ok(())
    }

    /// Counts the pairs of the units that there are.
    fn count(&mut self) -> Result<(), GpuError> {
        if self.steps == 0 {
            return Ok(());
        }
        self.kernel_times.record(self.stream);
        let kernels = self.device.pair_kernels()?;
        let n_tiles = self.tile_table.len();
        let blocks = self.device.multiprocessors;
        let splits = splits(n_tiles, self.steps, blocks as usize);
        let layout = &self.layout;
        let gram = abi::Gram {
            units: self.units.address(),
            counts: self.counts.address(),
            tiles: self.tiles.address(),
            n_tiles: n_tiles as u32,
            n_units: layout.units.number(layout.copies) as u32,
            stride: layout.stride as u32,
            steps: self.steps as u32,
            splits: splits as u32,
            pad: 0,
        };
        let jobs = gram.n_tiles * gram.splits;
        // SAFETY: the counts and tiles are those of the layout, and there are units of so many steps.
        unsafe {
            match kernels.gram_hopper {
                Some(kernel) => {
                    let (threads, shared) = (abi::HOPPER_THREADS, abi::HOPPER_SHARED);
                    self.launch(kernel, jobs.min(blocks), threads, shared, &gram)
                }
                None => self.launch(kernels.gram, jobs, THREADS, 0, &gram),
            }?;
        }
        self.steps = 0;
        self.kernel_times.record(self.stream);
        Ok(())
    }

    /// # Safety
    /// The kernel takes one argument of this type, which names live device memory.
    unsafe fn launch<T: bytemuck::Pod>(
        &self,
        kernel: sys::CUfunction,
        blocks: u32,
        threads: u32,
        shared: u32,
        argument: &T,
    ) -> Result<(), GpuError> {
        let argument: *const T = argument;
        let mut arguments = [argument.cast_mut().cast::<c_void>()];
        // SAFETY: as the caller says; the driver copies arguments before it returns.
        unsafe {
            result::launch_kernel(
                kernel,
                (blocks, 1, 1),
                (threads, 1, 1),
                shared,
                self.stream,
                &mut arguments,
            )
        }
        .map_err(|error| self.failed(&error))
    }

    /// Waits for an event; at once if it was never recorded.
    fn wait(&self, event: usize) -> Result<(), GpuError> {
        let event = self.events.get(event).copied().unwrap_or_default();
        let begin = Instant::now();
        let ordinal = self.device.ordinal;
        if self.is_lost.get() {
            return Err(format!("GPU {ordinal} has failed").into());
        }
        loop {
            // SAFETY: the event is this counter's.
            match unsafe { result::event::query(event) } {
                Ok(()) => return Ok(()),
                Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_READY)) => {}
                Err(error) => return Err(self.failed(&error)),
            }
            if begin.elapsed() > TIMEOUT {
                self.is_lost.set(true);
                let seconds = TIMEOUT.as_secs();
                return Err(format!("GPU {ordinal} did not respond for {seconds} s").into());
            }
            thread::sleep(POLL);
        }
    }

    /// Waits for everything that was enqueued.
    fn wait_for_all(&self) -> Result<(), GpuError> {
        let [.., done] = self.events;
        // SAFETY: event and stream are this counter's.
        unsafe { result::event::record(done, self.stream) }.map_err(|error| self.failed(&error))?;
        self.wait(self.events.len() - 1)
    }

    /// Enqueues the counting of all rows.
    ///
    /// # Errors
    /// Those of the device.
    pub fn finish(&mut self) -> Result<(), CountError> {
        let mut enqueue = || {
            self.device.bind()?;
            self.make_units()?;
            self.count()
        };
        enqueue().map_err(of_device)
    }

    /// Adds the counts of all rows to `counts`, which has those of a counter of this layout, or is empty and then gets them.
    ///
    /// # Errors
    /// Those of the device, and [`CountError::TooLarge`].
    pub fn take(mut self, counts: &mut Vec<u32>) -> Result<(), CountError> {
        self.finish()?;
        self.wait_for_all().map_err(of_device)?;
        self.kernel_times
            .log(self.device.ordinal, self.layout.units);
        let (stride, units) = (self.layout.stride, self.layout.units);
        let n_units = units.number(self.layout.copies);
        if counts.is_empty() {
            counts.try_reserve_exact(n_units * stride).map_err(|_| {
                CountError::TooLarge(format!("counts over all pairs of {n_units} units"))
            })?;
            counts.resize(n_units * stride, 0);
        }
        let at = self.counts.address();
        // Copied through page-locked memory: one part is added while the next is on its way.
        let mut copied = 0;
        let mut before: Option<&mut [u32]> = None;
        for part in counts.chunks_mut(STAGING_BYTES / size_of::<u32>()) {
            let turn = self.turn;
            let bytes = size_of_val(part);
            self.fetch(turn, at + copied, bytes).map_err(of_device)?;
            if let Some(part) = before.replace(part) {
                self.add_fetched(1 - turn, part).map_err(of_device)?;
            }
            copied += bytes as u64;
            self.turn = 1 - turn;
        }
        match before {
            Some(part) => self.add_fetched(1 - self.turn, part).map_err(of_device),
            None => Ok(()),
        }
    }

    /// Enqueues a copy into page-locked memory.
    fn fetch(&mut self, turn: usize, from: u64, bytes: usize) -> Result<(), GpuError> {
        self.wait(turn)?;
        let (stream, ordinal) = (self.stream, self.device.ordinal);
        let event = self.events.get(turn).copied().unwrap_or_default();
        if let Some(staging) = self.staging.get_mut(turn).and_then(Option::as_mut) {
            // SAFETY: the device has these bytes; nobody reads the page-locked memory until the event has passed.
            let enqueued = unsafe {
                result::memcpy_dtoh_async(staging.bytes_mut(bytes), from, stream)
                    .and_then(|()| result::event::record(event, stream))
            };
            enqueued.map_err(|error| format!("GPU {ordinal}: {error}"))?;
        }
        Ok(())
    }

    /// Adds counts that were fetched.
    fn add_fetched(&self, turn: usize, counts: &mut [u32]) -> Result<(), GpuError> {
        self.wait(turn)?;
        let staging = self.staging.get(turn).and_then(Option::as_ref);
        let fetched = staging.map_or(&[][..], |memory| memory.bytes(size_of_val(counts)));
        for (count, fetched) in counts
            .iter_mut()
            .zip(bytemuck::cast_slice::<u8, u32>(fetched))
        {
            *count = count.wrapping_add(*fetched);
        }
        Ok(())
    }
}

/// An error of a device, with what can be done.
pub fn of_device(error: GpuError) -> CountError {
    CountError::Device(format!(
        "{error}; use SET vcz.backend = 'host' to count pairs on the host"
    ))
}

impl Drop for PairCounter {
    fn drop(&mut self) {
        // Memory that a lost device may still use must not be freed, and freeing would wait for it.
        if self.device.bind().is_err() || self.wait_for_all().is_err() {
            self.staging
                .iter_mut()
                .filter_map(Option::take)
                .for_each(std::mem::forget);
            for buffer in [
                &mut self.rows,
                &mut self.units,
                &mut self.counts,
                &mut self.tiles,
            ] {
                buffer.forget();
            }
            std::mem::forget(std::mem::take(&mut self.tile_table));
            return;
        }
        let mut free = self.free.lock();
        let given_back = self.staging.iter_mut().filter_map(Option::take);
        let room = MOST_KEPT.saturating_sub(free.len());
        free.extend(given_back.take(room));
        drop(free);
        // SAFETY: nothing uses them any more. An error means that the device is lost.
        unsafe {
            let events = self.events.iter().chain(&self.kernel_times.events);
            for event in events.filter(|event| !event.is_null()) {
                let _ = result::event::destroy(*event);
            }
            let _ = result::stream::destroy(self.stream);
        }
    }
}
