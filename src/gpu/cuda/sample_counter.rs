//! [`DeviceSamples`]: counts genotypes of individuals on one device, with the kernel `samples`.
//!
//! Invariant: after an error nothing is freed that the device may still use.

use std::sync::Arc;

use parking_lot::Mutex;

use super::device::CudaDevice;
use super::fetched::Fetched;
use super::memory::DeviceBuffer;
use super::pair_layout::THREADS;
use super::pair_stream::{PairStream, Staging, of_device};
use super::resident_rows::{ResidentQueue, ResidentSink};
use super::sorted_rows::ClassRuns;
use crate::counts::gathered::plane_words;
use crate::counts::pairs::SAMPLE_COUNTS;
use crate::counts::{CountError, ResidentPart, Workers};
use crate::gpu::error::GpuError;
use crate::gpu::sample_abi::{COUNTER_ROWS, SampleRows};

/// Bytes of device memory for addresses of rows, and for rounding up.
const OTHER_BYTES: usize = 4 << 20;

/// Genotypes of individuals, counted on a device.
#[derive(Debug)]
pub struct DeviceSamples {
    counting: Mutex<Counting>,
    resident: ResidentQueue,
}

/// What is on the device.
#[derive(Debug)]
struct Counting {
    stream: PairStream,
    counts: DeviceBuffer,
    addresses: DeviceBuffer,
    samples: usize,
    /// 64-bit words of a row.
    row_words: usize,
}

impl DeviceSamples {
    /// Bytes of device memory at most for so many individuals; `None` if they are more than memory has, or than kernels take.
    pub fn device_bytes(samples: usize) -> Option<usize> {
        u32::try_from(samples.checked_mul(2)?).ok()?;
        counts_bytes(samples)?.checked_add(OTHER_BYTES)
    }

    /// Counts of no rows of so many individuals on `device`, with page-locked memory from `free` if there is some.
    ///
    /// # Errors
    /// What could not be created.
    pub fn try_new(
        device: &Arc<CudaDevice>,
        samples: usize,
        free: &Arc<Staging>,
    ) -> Result<Self, GpuError> {
        let row_words = plane_words(samples.saturating_mul(2));
        let mut counting = Counting {
            stream: PairStream::try_new(device, free)?,
            counts: DeviceBuffer::new(device),
            addresses: DeviceBuffer::new(device),
            samples,
            row_words,
        };
        let bytes = counts_bytes(samples)
            .ok_or_else(|| format!("counts of {samples} individuals do not fit in memory"))?;
        let counts = counting.counts.ensure("counts of individuals", bytes)?;
        // SAFETY: the buffer has this size, and nothing else uses it.
        unsafe { counting.stream.clear(counts, bytes) }?;
        Ok(Self {
            counting: Mutex::new(counting),
            resident: ResidentQueue::new(device.ordinal, row_words),
        })
    }

    /// Adds rows, see [`SampleCounter`](crate::counts::pairs::SampleCounter).
    ///
    /// # Errors
    /// Those of the device.
    pub fn add_resident(
        &self,
        parts: &[ResidentPart],
        workers: &Workers<'_>,
    ) -> Result<(), CountError> {
        self.resident.add(&self.counting, parts, &[], workers)
    }

    /// Enqueues the counting of all rows.
    ///
    /// # Errors
    /// Those of the device.
    pub fn finish(&mut self) -> Result<(), CountError> {
        self.resident.finish(&self.counting)
    }

    /// Adds the counts of all rows to `counts`.
    ///
    /// # Errors
    /// Those of the device.
    pub fn take(mut self, counts: &mut [u32]) -> Result<(), CountError> {
        self.finish()?;
        let counting = self.counting.get_mut();
        // This thread may not have used the device.
        counting.stream.device.bind().map_err(of_device)?;
        let bytes = size_of_val(counts).min(counts_bytes(counting.samples).unwrap_or(0));
        let read = |begin: usize, fetched: &Fetched| {
            let counts = counts.iter_mut().skip(begin / size_of::<u32>());
            for (at, count) in counts.take(fetched.len::<u32>()).enumerate() {
                *count = count.wrapping_add(fetched.number(at));
            }
        };
        // SAFETY: the buffer has at least these bytes.
        let fetched = unsafe {
            counting
                .stream
                .fetch(counting.counts.address(), bytes, read)
        };
        counting.stream.log_times("individuals");
        fetched.map_err(of_device)
    }
}

fn counts_bytes(samples: usize) -> Option<usize> {
    samples.checked_mul(SAMPLE_COUNTS * size_of::<u32>())
}

impl ResidentSink for Counting {
    fn reading_stream(&mut self) -> &mut PairStream {
        &mut self.stream
    }

    fn addresses(&mut self) -> &mut DeviceBuffer {
        &mut self.addresses
    }

    fn read_rows(
        &mut self,
        from: u64,
        rows: usize,
        _classes: &[u32],
        _runs: &ClassRuns,
    ) -> Result<(), GpuError> {
        // Casts of numbers that `device_bytes` has checked, or that are smaller.
        let job = SampleRows {
            from,
            counts: self.counts.address(),
            n_rows: rows as u32,
            width: 2 * self.row_words as u32,
            n_samples: self.samples as u32,
            pad: 0,
        };
        let threads = rows.div_ceil(COUNTER_ROWS) as u64 * u64::from(job.width);
        let blocks = u32::try_from(threads.div_ceil(u64::from(THREADS)))
            .map_err(|_| format!("{rows} rows of {} individuals", self.samples))?;
        let kernel = self.stream.device.pair_kernels()?.sample_counts;
        // SAFETY: there are counts of all individuals; the rows are in memory that is held until an event has passed, and were written before
        // their chunk was returned.
        unsafe { self.stream.launch(kernel, blocks, THREADS, 0, &job) }
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        if !self.stream.close() {
            self.counts.forget();
            self.addresses.forget();
        }
    }
}
