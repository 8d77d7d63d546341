//! Runs batches on one stream of a device: copy, decode, count, copy back.
//!
//! With several workers for a device, one batch is copied while another is decoded. Invariants: nothing is allocated for a batch
//! that is no larger than earlier ones; only results are copied back; every status and length that nvCOMP reports is compared
//! with the expected one, on the device. Our kernel decodes zstd frames (see [`super::zstd`]), nvCOMP the other codecs.

use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::result::{self, event, stream};
use cudarc::driver::{DriverError, sys};

use super::batch_description::{Addresses, BatchDescription, CODECS, room};
use super::cufile::CuFileStorage;
use super::device::CudaDevice;
use super::kept_rows::KeptRows;
use super::launches::Launches;
use super::memory::{DeviceBuffer, Pinned};
use super::nvcomp::{Nvcomp, NvcompFrames};
use super::resident::ResidentPool;
use super::result_blocks::{blocks, copy_block};
use super::tables::{Tables, room_for};
use super::zstd::ZstdLaunch;
use crate::counts::ResidentChunk;
use crate::gpu::batch::{Batch, ChunkJob, GUARD, Times, align_up};
use crate::gpu::direct::read_all;
use crate::gpu::error::GpuError;
use crate::gpu::executor::{Executor, Failure, Results};
use crate::gpu::plan::FrameCodec;
use crate::gpu::slab::Slab;
use crate::gpu::watchdog::{BatchProgress, Probe};
use crate::gpu::work::WorkOutput;
use crate::store::LocalFile;

/// Where the buffers of a batch are.
struct Described {
    addresses: Addresses,
    /// Where results begin, after the statuses.
    results_at: usize,
    kept: Option<KeptRows>,
}

/// One stream of a device and its buffers.
#[derive(Debug)]
pub struct Worker {
    device: Arc<CudaDevice>,
    nvcomp: Option<Arc<Nvcomp>>,
    storage: Arc<CuFileStorage>,
    stream: sys::CUstream,
    events: [sys::CUevent; 5],
    encoded: DeviceBuffer,
    decoded: DeviceBuffer,
    temp: DeviceBuffer,
    reports: DeviceBuffer,
    results: DeviceBuffer,
    tables: Tables,
    fetched: Pinned,
    description: BatchDescription,
    /// For each job of the last batch, the bytes of its results.
    lengths: Vec<usize>,
    /// For each job of the batch its rows that may stay on the device; empty if there is no memory for them.
    resident: Vec<Option<ResidentChunk>>,
    /// The memory of these.
    pool: Arc<ResidentPool>,
    reading: Duration,
}

// SAFETY: the handles may be used from one thread at a time, which ownership of the worker ensures.
unsafe impl Send for Worker {}

impl Worker {
    /// A worker of `device`, with page-locked memory for `results` bytes of results, and `pool` for rows that stay on the device.
    ///
    /// # Errors
    /// What could not be created.
    pub fn new(
        device: &Arc<CudaDevice>,
        nvcomp: Option<&Arc<Nvcomp>>,
        storage: &Arc<CuFileStorage>,
        pool: &Arc<ResidentPool>,
        results: usize,
    ) -> Result<Self, GpuError> {
        device.bind()?;
        let failed = |error: DriverError| format!("GPU {}: {error}", device.ordinal);
        let stream = stream::create(stream::StreamKind::NonBlocking).map_err(failed)?;
        let mut events = [std::ptr::null_mut(); 5];
        for slot in &mut events {
            // Waiting threads sleep, since the host has other work for every core.
            *slot = event::create(sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC).map_err(failed)?;
        }
        Ok(Self {
            device: Arc::clone(device),
            nvcomp: nvcomp.cloned(),
            storage: Arc::clone(storage),
            stream,
            events,
            encoded: DeviceBuffer::new(device),
            decoded: DeviceBuffer::new(device),
            temp: DeviceBuffer::new(device),
            reports: DeviceBuffer::new(device),
            results: DeviceBuffer::new(device),
            tables: Tables::new(device, 2 << 20)?,
            fetched: Pinned::new(device, results)?,
            description: BatchDescription::new(nvcomp.is_some()),
            lengths: Vec::new(),
            resident: Vec::new(),
            pool: Arc::clone(pool),
            reading: Duration::ZERO,
        })
    }

    /// Fills the tables of a batch.
    fn describe(&mut self, batch: &Batch) -> Result<Described, GpuError> {
        let jobs = &batch.jobs;
        let realigned: usize = jobs
            .iter()
            .flat_map(ChunkJob::pieces)
            .flat_map(|piece| &piece.plan.frames)
            .filter(|frame| frame.codec == FrameCodec::Deflate)
            .map(|frame| align_up(frame.src.len() + GUARD))
            .sum();
        let read_at = align_up(batch.used);
        let realigned_at = align_up(batch.decoded + GUARD);
        // A status of each job, then the words of planes that it has used.
        let results_at = align_up(2 * jobs.len() * size_of::<u32>());
        let addresses = Addresses {
            encoded: self
                .encoded
                .ensure("encoded chunks", read_at + batch.read + 2 * GUARD)?,
            read: 0,
            decoded: self
                .decoded
                .ensure("decoded chunks", realigned_at + realigned + 2 * GUARD)?,
            realigned: 0,
            results: self
                .results
                .ensure("results", results_at + batch.output + GUARD)?,
        };
        let addresses = Addresses {
            read: addresses.encoded + read_at as u64,
            realigned: addresses.decoded + realigned_at as u64,
            ..addresses
        };
        self.tables.start(&self.device, room(jobs))?;
        let results = addresses.results + results_at as u64;
        self.resident.clear();
        let mut kept = KeptRows::try_new(&self.pool, jobs);
        if let Some(kept) = &mut kept {
            self.resident = std::mem::take(&mut kept.chunks);
        }
        let of_jobs = kept.as_ref().map_or(&[][..], |kept| &kept.of_jobs);
        self.description
            .fill(jobs, addresses, results, of_jobs, &mut self.tables)?;
        for (at, job) in jobs.iter().enumerate() {
            let is_kept = of_jobs.get(at).is_some_and(|address| *address != 0);
            if let WorkOutput::Counts(counts) = &job.work.wanted
                && counts.keeps_rows().is_some()
                && !is_kept
            {
                let reason = "there is no memory of this device for rows that stay there";
                self.description.rejected.push((at, reason.into()));
            }
        }
        Ok(Described {
            addresses,
            results_at,
            kept,
        })
    }

    /// Enqueues all copies and kernels of a batch. Returns before they have run.
    fn enqueue(&mut self, batch: &Batch, progress: BatchProgress<'_>) -> Result<usize, Failure> {
        let Described {
            addresses,
            results_at,
            kept,
        } = self.describe(batch).map_err(Failure::Batch)?;
        self.reading = Duration::ZERO;
        if batch.read > 0 {
            self.read_files(batch, addresses, progress);
            progress.waiting_for_device(None);
        }
        let stream = self.stream;
        let mut launches = Launches {
            tables: &mut self.tables,
            status: addresses.results,
            pending: Vec::new(),
        };
        let kernels = &self.device.kernels;
        launches.segments(kernels.segments, &self.description.segments)?;
        let before = launches.pending.len();
        let mut decodes = Vec::new();
        let mut reports = 0;
        for (codec, frames) in CODECS.iter().zip(&self.description.frames) {
            if frames.compressed.is_empty() {
                continue;
            }
            // Without nvCOMP, the description rejects chunks with such frames.
            let nvcomp = self.nvcomp.as_ref();
            let nvcomp = nvcomp
                .ok_or_else(|| Failure::Batch(format!("frames of {codec} need nvCOMP").into()))?;
            let n = frames.compressed.len();
            let described = NvcompFrames {
                n,
                compressed: launches.push(&frames.compressed)?,
                compressed_bytes: launches.push(&frames.compressed_bytes)?,
                uncompressed: launches.push(&frames.uncompressed)?,
                room: launches.push(&frames.room)?,
                // Offsets, until the buffer is allocated.
                actual: reports as u64,
                statuses: (reports + room_for::<u64>(n)) as u64,
                largest: frames.room.iter().max().map_or(0, |len| *len as usize),
                total: frames.room.iter().sum::<u64>() as usize,
            };
            reports += room_for::<u64>(n) + room_for::<i32>(n);
            decodes.push((nvcomp, *codec, described, launches.push(&frames.status)?));
        }
        let zstd = self
            .description
            .zstd
            .describe(launches.tables, self.device.multiprocessors)
            .map_err(Failure::Batch)?;
        let report = self
            .reports
            .ensure("the reports of nvCOMP", reports)
            .map_err(Failure::Batch)?;
        let mut temp_bytes = 0;
        for (nvcomp, codec, frames, status) in &mut decodes {
            frames.actual += report;
            frames.statuses += report;
            let needed = nvcomp
                .temp_bytes(*codec, frames, stream)
                .map_err(Failure::Batch)?;
            temp_bytes = temp_bytes.max(needed);
            launches.check_frames(kernels.check_frames, frames, *status);
        }
        // nvCOMP and our kernel run one after the other, so they share scratch memory.
        let zstd_bytes = zstd.as_ref().map_or(0, ZstdLaunch::scratch_bytes);
        let temp = self
            .temp
            .ensure("decoding", temp_bytes.max(zstd_bytes))
            .map_err(Failure::Batch)?;
        if let Some(zstd) = &zstd {
            launches.zstd(kernels.zstd, zstd, temp);
        }
        launches.check_sums(kernels.check_sums, &self.description.checks)?;
        let after = launches.pending.len();
        launches.calls(kernels.test_calls, &self.description.filters.calls)?;
        launches.masked(kernels.mask_calls, &self.description.filters.masked)?;
        launches.tiles(kernels.count_planes, &self.description.tiles.planes)?;
        launches.tiles(kernels.count_sparse, &self.description.tiles.sparse)?;
        launches.tiles(kernels.count_codes, &self.description.tiles.codes)?;
        launches.tiles(kernels.count_genotypes, &self.description.tiles.genotypes)?;
        launches.tiles(kernels.count_zygosity, &self.description.tiles.zygosity)?;
        launches.tiles(
            kernels.gather_planes,
            &self.description.tiles.planes_of_sets,
        )?;
        launches.tiles(kernels.gather, &self.description.tiles.gather)?;
        let pending = std::mem::take(&mut launches.pending);

        let (tables, tables_at) = self.tables.image();
        let fetched = results_at + batch.output;
        self.fetched
            .ensure(&self.device, fetched)
            .map_err(Failure::Batch)?;
        let lost = |error: DriverError| Failure::Device(format!("GPU: {error}").into());
        // SAFETY: all memory belongs to this worker or to the batch, and neither is reused before the stream has been waited for;
        // tables hold addresses within those buffers only. No thread writes to the staging memory: the queue returns a batch only
        // when all of its chunks are staged.
        unsafe {
            event::record(self.events[0], stream).map_err(lost)?;
            for (at, encoded) in batch.staged() {
                result::memcpy_htod_async(addresses.encoded + at as u64, encoded, stream)
                    .map_err(lost)?;
            }
            result::memcpy_htod_async(tables_at, tables, stream).map_err(lost)?;
            result::memset_d8_async(addresses.results, 0, fetched, stream).map_err(lost)?;
            if let Some(kept) = &kept {
                result::memset_d8_async(kept.address, 0, kept.bytes, stream).map_err(lost)?;
            }
            event::record(self.events[1], stream).map_err(lost)?;
            for launch in &pending[..before] {
                launch.run(stream).map_err(lost)?;
            }
            for (nvcomp, codec, frames, _) in &decodes {
                nvcomp
                    .decompress(*codec, frames, temp, temp_bytes, stream)
                    .map_err(Failure::Device)?;
            }
            for launch in &pending[before..after] {
                launch.run(stream).map_err(lost)?;
            }
            event::record(self.events[2], stream).map_err(lost)?;
            for launch in &pending[after..] {
                launch.run(stream).map_err(lost)?;
            }
            event::record(self.events[3], stream).map_err(lost)?;
            // Of bit-planes only what is used is copied, which is known once the kernels have run.
            let first = match self.description.tiles.planes_of_sets.is_empty() {
                true => fetched,
                false => results_at,
            };
            let to = self.fetched.bytes_mut(first);
            result::memcpy_dtoh_async(to, addresses.results, stream).map_err(lost)?;
            event::record(self.events[4], stream).map_err(lost)?;
        }
        Ok(results_at)
    }

    /// Once the statuses have been copied, sets the bytes of results of each job, and enqueues copies of those that have not been.
    fn fetch_results(&mut self, batch: &Batch, results_at: usize) -> Result<(), Failure> {
        let statuses = self.fetched.bytes(results_at);
        let used: &[u32] = bytemuck::try_cast_slice(statuses).unwrap_or_default();
        let used = used.iter().skip(batch.jobs.len());
        self.lengths.clear();
        let lengths = batch.jobs.iter().zip(used);
        self.lengths
            .extend(lengths.map(|(job, used)| job.results_len(*used)));
        if self.description.tiles.planes_of_sets.is_empty() {
            return Ok(());
        }
        let results = self.results.address() + results_at as u64;
        let to = self.fetched.bytes_mut(results_at + batch.output);
        let (_, to) = to.split_at_mut_checked(results_at).unwrap_or_default();
        let lost = |error: DriverError| Failure::Device(format!("GPU: {error}").into());
        let of_jobs = batch.jobs.iter().zip(&self.lengths);
        let of_jobs = of_jobs.map(|(job, len)| job.out.start..job.out.start + len);
        for block in blocks(of_jobs, batch.output) {
            // SAFETY: both are buffers of this worker, which waits for the stream before it uses them.
            unsafe { copy_block(&block, results, to, self.stream) }.map_err(lost)?;
        }
        // SAFETY: the worker's event and stream.
        unsafe { event::record(self.events[4], self.stream).map_err(lost)? };
        // SAFETY: as above; the event was recorded.
        unsafe { event::synchronize(self.events[4]).map_err(lost) }
    }

    /// Reads the chunks that are not staged. Nothing of this worker runs on the device meanwhile.
    fn read_files(&mut self, batch: &Batch, addresses: Addresses, progress: BatchProgress<'_>) {
        let started = Instant::now();
        let (device, storage) = (&self.device, &self.storage);
        let first = (addresses.read - addresses.encoded) as usize;
        let read = |job: &ChunkJob, file: &LocalFile, open: File| {
            device.bind()?;
            progress.reading_files();
            // SAFETY: `encoded` is one allocation, in which each job has a range of its own, and no launch uses it yet.
            unsafe { storage.read(&open, file.len(), addresses.encoded, first + job.src.start) }
        };
        let direct = storage.reads_past_cache();
        for (at, done) in read_all(&batch.jobs, direct, read) {
            if let Err(reason) = done {
                self.description.rejected.push((at, reason));
            }
        }
        self.reading = started.elapsed();
    }

    /// A probe that describes the device's progress with a batch.
    fn probe(&self, batch: &Batch) -> Probe {
        let (device, id) = (Arc::clone(&self.device), batch.id);
        // Events are never destroyed, so the handles stay valid.
        let events = self.events.map(|event| event as usize);
        Box::new(move || {
            let is_over = |event: &&usize| {
                // SAFETY: one of the worker's events, which are never destroyed.
                device.bind().is_ok() && unsafe { event::query(**event as sys::CUevent) }.is_ok()
            };
            let state = match events.iter().take_while(is_over).count() {
                0 => "is still running earlier work",
                1 => "is copying the chunks",
                2 => "is decoding",
                3 => "is counting",
                4 => "is copying the results",
                _ => "has finished, but the driver has not reported it",
            };
            format!("GPU {}: batch {id}: the device {state}", device.ordinal)
        })
    }

    fn times(&self) -> Times {
        let between = |from: usize, to: usize| {
            // SAFETY: both events have been recorded and reached, since the stream has been waited for.
            let milliseconds = unsafe { event::elapsed(self.events[from], self.events[to]) };
            Duration::from_secs_f64(f64::from(milliseconds.unwrap_or(0.0).max(0.0)) / 1e3)
        };
        Times {
            copy: self.reading + between(0, 1) + between(3, 4),
            decode: between(1, 2),
            count: between(2, 3),
        }
    }
}

impl Executor for Worker {
    fn run(&mut self, batch: &Batch, progress: BatchProgress<'_>) -> Result<Results<'_>, Failure> {
        self.device.bind().map_err(Failure::Device)?;
        let results_at = self.enqueue(batch, progress);
        if results_at.is_ok() {
            progress.waiting_for_device(Some(self.probe(batch)));
        }
        // Waits also after a failure: work that was enqueued may still use the buffers.
        let waited = match results_at {
            // SAFETY: the worker's last event, which was recorded.
            Ok(_) => unsafe { event::synchronize(self.events[4]) },
            // SAFETY: the worker's stream.
            Err(_) => unsafe { stream::synchronize(self.stream) },
        };
        let results_at = results_at.inspect_err(|_| self.resident.clear())?;
        waited.map_err(|error| {
            Failure::Device(format!("GPU {}: {error}", self.device.ordinal).into())
        })?;
        self.fetch_results(batch, results_at)?;
        let fetched = self.fetched.bytes(results_at + batch.output);
        let (statuses, bytes) = fetched.split_at_checked(results_at).unwrap_or_default();
        let statuses: &[u32] = bytemuck::try_cast_slice(statuses).unwrap_or_default();
        Ok(Results {
            bytes,
            statuses: statuses.get(..batch.jobs.len()).unwrap_or_default(),
            lengths: &self.lengths,
            unread: &self.description.rejected,
            times: self.times(),
            resident: std::mem::take(&mut self.resident),
        })
    }

    fn page_locked(&self, len: usize) -> Option<Slab> {
        Pinned::new(&self.device, len)
            .inspect_err(|reason| log::debug!("continuing with pageable memory: {reason}"))
            .ok()
            .map(|pinned| Slab::new(Box::new(pinned)))
    }

    fn device_bytes(&self) -> usize {
        self.encoded.len()
            + self.decoded.len()
            + self.temp.len()
            + self.reports.len()
            + self.results.len()
            + self.tables.device_bytes()
    }

    fn release(&mut self) {
        // Nothing runs between batches. The next batch allocates the buffers again.
        if self.device.bind().is_ok() {
            self.encoded = DeviceBuffer::new(&self.device);
            self.decoded = DeviceBuffer::new(&self.device);
            self.temp = DeviceBuffer::new(&self.device);
            self.results = DeviceBuffer::new(&self.device);
        }
    }
}
