//! [`PairCounter`]: counts pairs of units on one device, with the kernels `units` and `gram`.
//!
//! Rows are copied into page-locked memory, from there to the device, and become units; pairs are counted once there are many units, or
//! the counts are taken. Everything is enqueued on one stream. Invariants: memory that is copied from is written again only after an
//! event has passed; units past the last are zero.

use std::ffi::c_void;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use cudarc::driver::{DriverError, result, sys};
use parking_lot::Mutex;

use super::device::CudaDevice;
use super::memory::{DeviceBuffer, Pinned};
use crate::counts::CountError;
use crate::counts::gathered::plane_words;
use crate::counts::pairs::{SetRows, UnitCounts, Units};
use crate::gpu::abi;
use crate::gpu::error::GpuError;

/// Bytes of page-locked memory that rows are copied through, twice.
pub const STAGING_BYTES: usize = 32 << 20;
/// Bytes of units before their pairs are counted: adding to the counts in device memory takes as long as the products of some hundred
/// steps.
const UNITS_BYTES: usize = 256 << 20;
/// The most steps before pairs are counted.
const MOST_STEPS: usize = 1024;
/// A device that needs longer for what is enqueued does not respond.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How long a thread sleeps before it asks again.
const POLL: Duration = Duration::from_micros(50);
/// Units of a step are a multiple of this, which the tiles of all kernels divide.
const STRIDE: usize = 768;
/// Threads of a thread block, where the kernel needs no other number.
const THREADS: u32 = 256;
/// The most parts of the steps of a tile: each is added to the counts in device memory.
const MOST_SPLITS: usize = 32;

/// Page-locked memory that counters have given back.
pub type Staging = Mutex<Vec<Pinned>>;

/// The sizes of a counter.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    units: Units,
    copies: usize,
    /// Units of a step, with those past the last.
    stride: usize,
    /// 64-bit words of a row.
    row_words: usize,
    /// The most rows that are copied at a time, whole steps.
    rows: usize,
    /// Steps of which there is room for units.
    steps: usize,
}

impl Layout {
    /// For the pairs of units of so many copies; `None` if the numbers are beyond what kernels take.
    pub fn try_new(units: Units, copies: usize) -> Option<Self> {
        let stride = units.number(copies).checked_next_multiple_of(STRIDE)?;
        let width = plane_words(copies);
        u32::try_from(stride).ok()?;
        u32::try_from(2 * width).ok()?;
        let row_words = width.checked_mul(units.planes())?;
        let row_bytes = row_words.checked_mul(size_of::<u64>())?.max(1);
        let step_bytes = stride.checked_mul(abi::UNIT_BYTES)?.max(1);
        let rows = (STAGING_BYTES / row_bytes / abi::STEP_ROWS).max(1) * abi::STEP_ROWS;
        let steps = (UNITS_BYTES / step_bytes).clamp(1, MOST_STEPS);
        Some(Self {
            units,
            copies,
            stride,
            row_words,
            rows: rows.min(steps * abi::STEP_ROWS),
            steps,
        })
    }

    fn units_bytes(&self) -> Option<usize> {
        let step_bytes = self.stride.checked_mul(abi::UNIT_BYTES)?;
        step_bytes.checked_mul(self.steps)
    }

    fn rows_bytes(&self) -> Option<usize> {
        let words = self.rows.checked_mul(self.row_words)?;
        words.checked_mul(size_of::<u64>())
    }

    fn counts_bytes(&self) -> Option<usize> {
        let counts = self.stride.checked_mul(self.stride)?;
        counts.checked_mul(size_of::<u32>())
    }

    /// Bytes of device memory, without the tiles'; `None` if they are more than memory has.
    pub fn device_bytes(&self) -> Option<usize> {
        let others = self.units_bytes()?.checked_add(self.rows_bytes()?)?;
        self.counts_bytes()?.checked_add(others)
    }
}

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
    n_tiles: usize,
    /// Which page-locked memory is next.
    turn: usize,
    /// Steps that have units which are not counted.
    steps: usize,
    kernel_times: KernelTimes,
}

/// The time that kernels take, as events before and after each.
#[derive(Debug, Default)]
struct KernelTimes {
    events: Vec<sys::CUevent>,
    /// Events that were recorded since the last sum.
    recorded: usize,
}

impl KernelTimes {
    /// Records the next event.
    fn record(&mut self, stream: sys::CUstream) -> Result<(), DriverError> {
        if self.recorded == self.events.len() {
            let event = result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT)?;
            self.events.push(event);
        }
        if let Some(event) = self.events.get(self.recorded) {
            // SAFETY: the event is a live one, and so is the stream.
            unsafe { result::event::record(*event, stream) }?;
            self.recorded += 1;
        }
        Ok(())
    }

    /// The milliseconds between all pairs of events, which have passed.
    fn sum(&mut self) -> Result<f32, DriverError> {
        let recorded = self.events.get(..std::mem::take(&mut self.recorded));
        let pairs = recorded.unwrap_or_default().chunks_exact(2);
        pairs
            .map(|pair| match pair {
                // SAFETY: the events are live ones.
                [start, end] => unsafe { result::event::elapsed(*start, *end) },
                _ => Ok(0.0),
            })
            .sum()
    }
}

// SAFETY: the handles may be used from one thread at a time, which ownership of the counter ensures.
unsafe impl Send for PairCounter {}

/// Tiles that cover all pairs of units `i <= j`, those of a column next to each other, so that their second units stay in the cache.
fn tiles(n_units: usize, [rows, columns]: [usize; 2]) -> Vec<abi::PairTile> {
    let columns_at = (0..n_units).step_by(columns);
    columns_at
        .flat_map(|column| {
            let rows_at = (0..n_units.min(column + columns)).step_by(rows);
            // These fit, as the layout says.
            rows_at.map(move |row| abi::PairTile {
                row: row as u32,
                column: column as u32,
            })
        })
        .collect()
}

/// Parts of `steps` steps, so that every one of `blocks` thread blocks has about as much to do.
fn splits(n_tiles: usize, steps: usize, blocks: usize) -> usize {
    let most = steps.clamp(1, MOST_SPLITS);
    // Steps of tiles that pass until the last block ends, as a part of all.
    let time = |splits: usize| (n_tiles * splits).div_ceil(blocks) as f64 / splits as f64;
    let best = (1..=most).map(time).fold(f64::INFINITY, f64::min);
    (1..=most)
        .find(|splits| time(*splits) <= 1.05 * best)
        .unwrap_or(1)
}

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
            n_tiles: tiles.len(),
            turn: 0,
            steps: 0,
            kernel_times: KernelTimes::default(),
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
        let bytes: &[u8] = bytemuck::cast_slice(&tiles);
        let tiles_at = counter.tiles.ensure("tiles of pairs", bytes.len())?;
        counter.rows.ensure("rows of bit-planes", rows)?;
        let units_at = counter.units.ensure("units of pairs", units)?;
        let counts_at = counter.counts.ensure("counts of pairs", counts)?;
        // SAFETY: the buffers have these sizes, and nothing else uses them.
        unsafe {
            result::memcpy_htod_sync(tiles_at, bytes).map_err(failed)?;
            result::memset_d8_async(units_at, 0, units, counter.stream).map_err(failed)?;
            result::memset_d8_async(counts_at, 0, counts, counter.stream).map_err(failed)?;
        }
        Ok(counter)
    }

    fn failed(&self, error: &DriverError) -> GpuError {
        format!("GPU {}: {error}", self.device.ordinal).into()
    }

    /// Adds rows, see [`UnitCounter`](crate::counts::pairs::UnitCounter).
    ///
    /// # Errors
    /// Those of `set` and of the device.
    pub fn add(&mut self, rows: usize, set: &mut SetRows<'_>) -> Result<(), CountError> {
        self.device.bind().map_err(of_device)?;
        let mut begin = 0;
        while begin < rows {
            let end = rows.min(begin + self.layout.rows);
            let steps = (end - begin).div_ceil(abi::STEP_ROWS);
            if self.steps + steps > self.layout.steps {
                self.count().map_err(of_device)?;
            }
            let turn = self.turn;
            self.wait(turn).map_err(of_device)?;
            let bytes = (end - begin) * self.layout.row_words * size_of::<u64>();
            let staging = self.staging.get_mut(turn).and_then(Option::as_mut);
            let Some(staging) = staging.map(|staging| staging.bytes_mut(bytes)) else {
                return Err(CountError::Device("there is no page-locked memory".into()));
            };
            // Page-locked memory begins with a page.
            set(begin..end, bytemuck::cast_slice_mut(staging))?;
            self.make_units(turn, end - begin, steps)
                .map_err(of_device)?;
            self.turn = 1 - turn;
            self.steps += steps;
            begin = end;
        }
        Ok(())
    }

    /// Copies the rows in page-locked memory, and makes units of them.
    fn make_units(&mut self, turn: usize, rows: usize, steps: usize) -> Result<(), GpuError> {
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
            self.time()?;
            self.launch(kernel, steps as u32 * job.tiles, THREADS, 0, &job)?;
        }
        self.time()
    }

    /// Records an event before or after a kernel.
    fn time(&mut self) -> Result<(), GpuError> {
        let recorded = self.kernel_times.record(self.stream);
        recorded.map_err(|error| self.failed(&error))
    }

    /// Counts the pairs of the units that there are.
    fn count(&mut self) -> Result<(), GpuError> {
        if self.steps == 0 {
            return Ok(());
        }
        self.time()?;
        let kernels = self.device.pair_kernels()?;
        let blocks = self.device.multiprocessors;
        let splits = splits(self.n_tiles, self.steps, blocks as usize);
        let layout = &self.layout;
        let gram = abi::Gram {
            units: self.units.address(),
            counts: self.counts.address(),
            tiles: self.tiles.address(),
            n_tiles: self.n_tiles as u32,
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
        self.time()
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
        loop {
            // SAFETY: the event is this counter's.
            match unsafe { result::event::query(event) } {
                Ok(()) => return Ok(()),
                Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_READY)) => {}
                Err(error) => return Err(self.failed(&error)),
            }
            if begin.elapsed() > TIMEOUT {
                let seconds = TIMEOUT.as_secs();
                let ordinal = self.device.ordinal;
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

    /// Adds the counts of all rows to `counts`, which has one for each pair of the layout, or is empty and then becomes so; no rows are left.
    ///
    /// # Errors
    /// Those of the device, and [`CountError::TooLarge`].
    pub fn take(&mut self, counts: &mut Vec<u32>) -> Result<(), CountError> {
        self.device.bind().map_err(of_device)?;
        self.count().map_err(of_device)?;
        let stride = self.layout.stride;
        if counts.is_empty() {
            counts.try_reserve_exact(stride * stride).map_err(|_| {
                CountError::TooLarge(format!("counts over all pairs of {stride} units"))
            })?;
            counts.resize(stride * stride, 0);
        }
        self.wait_for_all().map_err(of_device)?;
        let kernels = self.kernel_times.sum();
        let kernels = kernels.map_err(|error| of_device(self.failed(&error)))?;
        let ordinal = self.device.ordinal;
        log::debug!(
            "GPU {ordinal}: the kernels of pairs of {:?} took {kernels} ms",
            self.layout.units
        );
        let at = self.counts.address();
        // Copied through page-locked memory: one part is added while the next is on its way.
        let parts: Vec<_> = counts
            .chunks_mut(STAGING_BYTES / size_of::<u32>())
            .collect();
        let mut copied = 0;
        let mut before: Option<&mut [u32]> = None;
        for part in parts {
            let turn = self.turn;
            let bytes = size_of_val(part);
            self.fetch(turn, at + copied, bytes).map_err(of_device)?;
            if let Some(part) = before.replace(part) {
                self.add_fetched(1 - turn, part).map_err(of_device)?;
            }
            copied += bytes as u64;
            self.turn = 1 - turn;
        }
        if let Some(part) = before {
            self.add_fetched(1 - self.turn, part).map_err(of_device)?;
        }
        let bytes = stride * stride * size_of::<u32>();
        // SAFETY: the buffer has these bytes.
        unsafe { result::memset_d8_async(at, 0, bytes, self.stream) }
            .map_err(|error| of_device(self.failed(&error)))
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

    /// The counts of pairs, as [`UnitCounts`] has them.
    pub fn unit_counts(&self, counts: Vec<u32>) -> UnitCounts {
        UnitCounts::new(self.layout.stride, counts)
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
        if self.device.bind().is_err() {
            return;
        }
        // If the device is lost, its memory must not be freed while it may still be written to.
        if self.wait_for_all().is_err() {
            for staging in self.staging.iter_mut().filter_map(Option::take) {
                std::mem::forget(staging);
            }
            return;
        }
        self.free
            .lock()
            .extend(self.staging.iter_mut().filter_map(Option::take));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_cover_each_pair() {
        for n_units in [1, 127, 128, 129, 400, 1000] {
            for [rows, columns] in [abi::GRAM_TILE, abi::HOPPER_TILE] {
                let mut covered = vec![0; n_units * n_units];
                for tile in tiles(n_units, [rows, columns]) {
                    for i in tile.row as usize..n_units.min(tile.row as usize + rows) {
                        let seconds = tile.column as usize..tile.column as usize + columns;
                        for j in seconds.filter(|j| *j < n_units) {
                            covered[i * n_units + j] += 1;
                        }
                    }
                }
                for i in 0..n_units {
                    assert!((i..n_units).all(|j| covered[i * n_units + j] == 1));
                }
                let stride = n_units.next_multiple_of(STRIDE);
                let last = tiles(n_units, [rows, columns]).into_iter();
                let ends =
                    last.map(|tile| [tile.row as usize + rows, tile.column as usize + columns]);
                assert!(ends.into_iter().flatten().all(|end| end <= stride));
            }
        }
    }

    #[test]
    fn layouts_are_within_limits() {
        for copies in [1, 2, 63, 2_940, 50_000] {
            for units in [Units::Copies, Units::CopiesCalled, Units::DiploidsCalled] {
                let layout = Layout::try_new(units, copies).unwrap();
                assert!(layout.stride >= units.number(copies) && layout.steps >= 1);
                assert!(
                    layout.rows >= abi::STEP_ROWS && layout.rows.is_multiple_of(abi::STEP_ROWS)
                );
                assert!(layout.rows <= layout.steps * abi::STEP_ROWS);
                assert!(layout.device_bytes().is_some());
            }
        }
        assert!(Layout::try_new(Units::CopiesCalled, usize::MAX).is_none());
        assert!(Layout::try_new(Units::Copies, 1 << 33).is_none());
    }

    #[test]
    fn blocks_have_work() {
        assert_eq!(splits(1, 1, 132), 1);
        assert_eq!(splits(132, 500, 132), 1);
        assert!(splits(1, 500, 132) >= 30);
        let splits = splits(96, 512, 132);
        assert!(
            (96 * splits).div_ceil(132) * 132 <= 96 * splits * 107 / 100,
            "{splits}"
        );
    }
}
