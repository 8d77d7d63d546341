//! Runs batches on one stream of a device: copy, decode, count, copy back.
//!
//! Several workers a device let one batch be copied while another is decoded. Invariants: nothing is allocated for a batch
//! that is no larger than those before it; only results leave the device; every status and length that nvCOMP reports is
//! compared with what was expected, on the device. Zstd frames are decoded by our own kernel or by nvCOMP, see [`super::zstd`].

use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::result::{self, event, stream};
use cudarc::driver::{DriverError, sys};

use super::launches::Launches;
use super::memory::{DeviceBuffer, Pinned};
use super::nvcomp::{Frames, Nvcomp};
use super::tables::{Tables, room_for};
use super::zstd::{Zstd, ZstdFrames};
use super::{CuFileStorage, Device};
use crate::codec::blosc::Shuffle;
use crate::gpu::abi;
use crate::gpu::batch::{Batch, GUARD, Job, Times, align_up};
use crate::gpu::direct::read_all;
use crate::gpu::executor::{Executor, Failure, Results};
use crate::gpu::plan::{Checksum, FrameCodec, Place};
use crate::gpu::slab::Slab;
use crate::gpu::work::{Wanted, Work};
use crate::store::LocalFile;

/// Codecs that nvCOMP's frames are grouped by.
const CODECS: [FrameCodec; 3] = [FrameCodec::Zstd, FrameCodec::Lz4, FrameCodec::Deflate];
/// nvCOMP wants deflate streams at multiples of this.
const DEFLATE_ALIGN: u64 = 4;

/// One stream of a device and its buffers.
#[derive(Debug)]
pub struct Worker {
    device: Arc<Device>,
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
    frames: [FrameTables; 3],
    zstd: ZstdFrames,
    blocks: Vec<abi::Block>,
    tiles: TileTables,
    segments: Vec<abi::Segment>,
    checks: Vec<abi::Check>,
    /// Jobs that the device cannot do, or whose file could not be read.
    refused: Vec<(usize, String)>,
    reading: Duration,
}

// SAFETY: the handles may be used from any one thread at a time, which owning the worker ensures.
unsafe impl Send for Worker {}

#[derive(Debug, Default)]
struct FrameTables {
    compressed: Vec<u64>,
    compressed_bytes: Vec<u64>,
    uncompressed: Vec<u64>,
    room: Vec<u64>,
    status: Vec<u32>,
}

#[derive(Debug, Default)]
struct TileTables {
    planes: Vec<abi::Tile>,
    codes: Vec<abi::Tile>,
    genotypes: Vec<abi::Tile>,
    gather: Vec<abi::Tile>,
}

/// Device addresses of a batch's buffers.
#[derive(Debug, Clone, Copy)]
struct Addresses {
    encoded: u64,
    /// Where chunks go that are read from files.
    read: u64,
    decoded: u64,
    /// Where realigned frames go.
    realigned: u64,
    results: u64,
}

impl Worker {
    /// A worker of `device`. `results` bytes come back fast from the first batch on.
    ///
    /// # Errors
    /// What could not be made.
    pub fn new(
        device: &Arc<Device>,
        nvcomp: Option<&Arc<Nvcomp>>,
        storage: &Arc<CuFileStorage>,
        results: usize,
    ) -> Result<Self, String> {
        device.bind()?;
        let failed = |error: DriverError| format!("GPU {}: {error}", device.ordinal);
        let stream = stream::create(stream::StreamKind::NonBlocking).map_err(failed)?;
        let mut events = [std::ptr::null_mut(); 5];
        for slot in &mut events {
            // Who waits for one sleeps: the host's threads have work for every core.
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
            frames: Default::default(),
            zstd: ZstdFrames::new(nvcomp.is_some()),
            blocks: Vec::new(),
            tiles: TileTables::default(),
            segments: Vec::new(),
            checks: Vec::new(),
            refused: Vec::new(),
            reading: Duration::ZERO,
        })
    }

    /// Fills the tables of a batch.
    fn describe(&mut self, batch: &Batch) -> Result<(Addresses, usize), String> {
        let jobs = &batch.jobs;
        let realigned: usize = jobs
            .iter()
            .flat_map(|job| &job.plan.frames)
            .filter(|frame| frame.codec == FrameCodec::Deflate)
            .map(|frame| align_up(frame.src.len() + GUARD))
            .sum();
        let read_at = align_up(batch.used);
        let realigned_at = align_up(batch.decoded + GUARD);
        let results_at = align_up(jobs.len() * size_of::<u32>());
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
        self.clear();

        let mut specs: HashMap<(*const Work, usize), u64> = HashMap::new();
        let mut next_realigned = addresses.realigned;
        // Blocks come first, so that tiles know where theirs are.
        for job in jobs {
            let (encoded, decoded) = places(addresses, job);
            self.blocks
                .extend(job.plan.blocks.iter().map(|block| abi::Block {
                    data: match block.place {
                        Place::Decoded(at) => decoded + at as u64,
                        Place::Encoded(at) => encoded + at as u64,
                        Place::Zero => 0,
                    },
                    elements: block.elements,
                    kind: match block.shuffle {
                        Shuffle::None => abi::PLAIN,
                        Shuffle::Byte => abi::BYTE_SHUFFLED,
                        Shuffle::Bit => abi::BIT_SHUFFLED,
                    },
                    planes: block.planes,
                    flags: if block.repeats { abi::REPEATS } else { 0 },
                }));
        }
        let mut next_block = self.tables.push(&self.blocks)?;
        for (status, job) in jobs.iter().enumerate() {
            let status = status as u32;
            let spec = match specs.get(&(Arc::as_ptr(&job.work), job.sample_chunk)) {
                Some(spec) => *spec,
                None => {
                    let spec = push_spec(&mut self.tables, job)?;
                    specs.insert((Arc::as_ptr(&job.work), job.sample_chunk), spec);
                    spec
                }
            };
            let out = addresses.results + (results_at + job.out.start) as u64;
            self.add_tiles(job, spec, out, status, next_block);
            next_block += (job.plan.blocks.len() * size_of::<abi::Block>()) as u64;
            self.add_frames(job, addresses, status, &mut next_realigned);
        }
        Ok((addresses, results_at))
    }

    fn clear(&mut self) {
        for frames in &mut self.frames {
            frames.compressed.clear();
            frames.compressed_bytes.clear();
            frames.uncompressed.clear();
            frames.room.clear();
            frames.status.clear();
        }
        self.zstd.clear();
        self.refused.clear();
        self.blocks.clear();
        self.tiles.planes.clear();
        self.tiles.codes.clear();
        self.tiles.genotypes.clear();
        self.tiles.gather.clear();
        self.segments.clear();
        self.checks.clear();
    }

    fn add_tiles(&mut self, job: &Job, spec: u64, out: u64, status: u32, blocks: u64) {
        let planner = &job.work.planner;
        let width = planner.width();
        let mut flags = 0;
        if planner.big_endian() {
            flags |= abi::BIG_ENDIAN;
        }
        if job.plan.shared_rows {
            flags |= abi::SHARED;
        }
        for tile in &job.plan.tiles {
            // Both fit: the planner checks sizes against 32 bits.
            let out_rows = job.rows as u32;
            let rows = out_rows.saturating_sub(tile.row0).min(tile.rows);
            if rows == 0 {
                continue;
            }
            let mut described = abi::Tile {
                out,
                blocks: blocks + (tile.blocks.start * size_of::<abi::Block>()) as u64,
                spec,
                block_elements: tile.block_elements,
                rows,
                row0: tile.row0,
                row_elements: tile.row_elements,
                sample0: tile.sample0,
                samples: tile.samples,
                copies: tile.copies,
                width: width as u32,
                flags,
                status,
                out_rows,
                sel_begin: 0,
                sel_count: 0,
                pad: [0; 3],
            };
            match &job.work.wanted {
                Wanted::Counts(counts) => {
                    let request = counts.request();
                    let of_tile = job.plan.blocks.get(tile.blocks.clone()).unwrap_or_default();
                    if !request.alleles.is_empty() {
                        let planes =
                            width == 1 && of_tile.iter().any(|block| block.shuffle == Shuffle::Bit);
                        if planes {
                            self.tiles.planes.push(described);
                        } else {
                            self.tiles.codes.push(described);
                        }
                    }
                    if !request.genotypes.is_empty() {
                        self.tiles.genotypes.push(described);
                    }
                }
                Wanted::Elements(elements) => {
                    let Some(samples) = elements.samples.get(job.sample_chunk) else {
                        continue;
                    };
                    let stop = tile.sample0.saturating_add(tile.samples);
                    let begin = samples.partition_point(|sample| *sample < tile.sample0);
                    let end = samples.partition_point(|sample| *sample < stop);
                    described.sel_begin = begin as u32;
                    described.sel_count = (end - begin) as u32;
                    if end > begin {
                        self.tiles.gather.push(described);
                    }
                }
            }
        }
    }

    fn add_frames(&mut self, job: &Job, addresses: Addresses, status: u32, realigned: &mut u64) {
        let (encoded, decoded) = places(addresses, job);
        for frame in &job.plan.frames {
            let mut src = encoded + frame.src.start as u64;
            let len = frame.src.len();
            if frame.codec == FrameCodec::Deflate && !src.is_multiple_of(DEFLATE_ALIGN) {
                self.segments.push(abi::Segment {
                    src,
                    dst: *realigned,
                    len: len as u64,
                });
                src = *realigned;
                *realigned += align_up(len + GUARD) as u64;
            }
            let dst = decoded + frame.dst as u64;
            if frame.codec == FrameCodec::Zstd && self.zstd.takes(len, frame.len) {
                self.zstd.push(src, len, dst, frame.len, status);
                continue;
            }
            if self.nvcomp.is_none() {
                // The chunk is not what the array's metadata says, or the frame is too large for our own kernel.
                let reason = format!(
                    "a frame of {} needs nvCOMP, which is not there",
                    frame.codec
                );
                self.refused.push((status as usize, reason));
                return;
            }
            let frames = &mut self.frames[codec_index(frame.codec)];
            frames.compressed.push(src);
            frames.compressed_bytes.push(len as u64);
            frames.uncompressed.push(dst);
            frames.room.push(frame.len as u64);
            frames.status.push(status);
            if let Some(check) = &frame.check {
                let (expected, kind) = match check {
                    Checksum::Adler32(sum) => (*sum, abi::ADLER32),
                    Checksum::Crc32(sum) => (*sum, abi::CRC32),
                };
                self.checks.push(abi::Check {
                    data: dst,
                    len: frame.len as u64,
                    expected,
                    kind,
                    status,
                    pad: 0,
                });
            }
        }
        self.checks
            .extend(job.plan.known_bytes.iter().map(|known| abi::Check {
                data: decoded + known.at as u64,
                len: 1,
                expected: known.byte.into(),
                kind: abi::BYTE,
                status,
                pad: 0,
            }));
        self.segments
            .extend(job.plan.segments.iter().map(|segment| abi::Segment {
                src: segment.src.map_or(0, |at| encoded + at as u64),
                dst: decoded + segment.dst as u64,
                len: segment.len as u64,
            }));
    }

    /// Enqueues everything. Returns after that, not after it has run.
    fn enqueue(&mut self, batch: &Batch) -> Result<usize, Failure> {
        let (addresses, results_at) = self.describe(batch).map_err(Failure::Batch)?;
        self.read_files(batch, addresses);
        let stream = self.stream;
        let mut launches = Launches {
            tables: &mut self.tables,
            status: addresses.results,
            pending: Vec::new(),
        };
        let kernels = &self.device.kernels;
        launches.segments(kernels.segments, &self.segments)?;
        let before = launches.pending.len();
        let mut decodes = Vec::new();
        let mut reports = 0;
        for (codec, frames) in CODECS.iter().zip(&self.frames) {
            if frames.compressed.is_empty() {
                continue;
            }
            // Chunks with such frames were refused otherwise.
            let nvcomp = self.nvcomp.as_ref();
            let nvcomp =
                nvcomp.ok_or_else(|| Failure::Batch(format!("frames of {codec} need nvCOMP")))?;
            let n = frames.compressed.len();
            let described = Frames {
                n,
                compressed: launches.push(&frames.compressed)?,
                compressed_bytes: launches.push(&frames.compressed_bytes)?,
                uncompressed: launches.push(&frames.uncompressed)?,
                room: launches.push(&frames.room)?,
                // Offsets, until the buffer is there.
                actual: reports as u64,
                statuses: (reports + room_for::<u64>(n)) as u64,
                largest: frames.room.iter().max().map_or(0, |len| *len as usize),
                total: frames.room.iter().sum::<u64>() as usize,
            };
            reports += room_for::<u64>(n) + room_for::<i32>(n);
            decodes.push((nvcomp, *codec, described, launches.push(&frames.status)?));
        }
        let zstd = self
            .zstd
            .describe(&mut launches, self.device.multiprocessors)?;
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
        // Frames of nvCOMP and ours are decoded one after the other.
        let zstd_bytes = zstd.as_ref().map_or(0, Zstd::scratch_bytes);
        let temp = self
            .temp
            .ensure("decoding", temp_bytes.max(zstd_bytes))
            .map_err(Failure::Batch)?;
        if let Some(zstd) = &zstd {
            launches.zstd(kernels.zstd, zstd, temp);
        }
        launches.check_sums(kernels.check_sums, &self.checks)?;
        let after = launches.pending.len();
        launches.tiles(kernels.count_planes, &self.tiles.planes)?;
        launches.tiles(kernels.count_codes, &self.tiles.codes)?;
        launches.tiles(kernels.count_genotypes, &self.tiles.genotypes)?;
        launches.tiles(kernels.gather, &self.tiles.gather)?;
        let pending = std::mem::take(&mut launches.pending);

        let (tables, tables_at) = self.tables.image();
        let fetched = results_at + batch.output;
        self.fetched
            .ensure(&self.device, fetched)
            .map_err(Failure::Batch)?;
        let lost = |error: DriverError| Failure::Device(format!("GPU: {error}"));
        // SAFETY: all memory is owned by this worker or by the batch, and both wait for the stream before anything is reused;
        // tables hold addresses inside of those buffers only.
        unsafe {
            event::record(self.events[0], stream).map_err(lost)?;
            // Nobody writes any more: the queue hands out batches whose chunks are all staged.
            for (at, encoded) in batch.staged() {
                result::memcpy_htod_async(addresses.encoded + at as u64, encoded, stream)
                    .map_err(lost)?;
            }
            result::memcpy_htod_async(tables_at, tables, stream).map_err(lost)?;
            result::memset_d8_async(addresses.results, 0, fetched, stream).map_err(lost)?;
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
            let to = self.fetched.bytes_mut(fetched);
            result::memcpy_dtoh_async(to, addresses.results, stream).map_err(lost)?;
            event::record(self.events[4], stream).map_err(lost)?;
        }
        Ok(results_at)
    }

    /// Reads what is not staged. Nothing of this worker runs on the device meanwhile.
    fn read_files(&mut self, batch: &Batch, addresses: Addresses) {
        let started = Instant::now();
        let (device, storage) = (&self.device, &self.storage);
        let first = (addresses.read - addresses.encoded) as usize;
        let read = |job: &Job, file: &LocalFile, open: File| {
            device.bind()?;
            // SAFETY: `encoded` is one allocation, in which jobs have places of their own, and no launch before this uses it.
            unsafe { storage.read(&open, file.len(), addresses.encoded, first + job.src.start) }
        };
        let direct = batch.read > 0 && storage.reads_past_cache();
        for (at, done) in read_all(&batch.jobs, direct, read) {
            if let Err(reason) = done {
                self.refused.push((at, reason));
            }
        }
        self.reading = match batch.read {
            0 => Duration::ZERO,
            _ => started.elapsed(),
        };
    }

    fn times(&self) -> Times {
        let between = |from: usize, to: usize| {
            // SAFETY: both events have happened: the stream has been waited for.
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
    fn run(&mut self, batch: &Batch) -> Result<Results<'_>, Failure> {
        self.device.bind().map_err(Failure::Device)?;
        let results_at = self.enqueue(batch);
        // Also after a failure: what was enqueued may still be using the buffers.
        // SAFETY: our stream and its last event, which was recorded.
        let waited = match results_at {
            Ok(_) => unsafe { event::synchronize(self.events[4]) },
            Err(_) => unsafe { stream::synchronize(self.stream) },
        };
        let results_at = results_at?;
        waited.map_err(|error| Failure::Device(format!("GPU {}: {error}", self.device.ordinal)))?;
        let fetched = self.fetched.bytes(results_at + batch.output);
        let (statuses, bytes) = fetched.split_at_checked(results_at).unwrap_or_default();
        let statuses: &[u32] = bytemuck::try_cast_slice(statuses).unwrap_or_default();
        Ok(Results {
            bytes,
            statuses: statuses.get(..batch.jobs.len()).unwrap_or_default(),
            unread: &self.refused,
            times: self.times(),
        })
    }

    fn page_locked(&self, len: usize) -> Option<Slab> {
        Pinned::new(&self.device, len)
            .inspect_err(|reason| log::debug!("going on with pageable memory: {reason}"))
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
        // Nothing runs between batches. The buffers come back with the next one.
        if self.device.bind().is_ok() {
            self.encoded = DeviceBuffer::new(&self.device);
            self.decoded = DeviceBuffer::new(&self.device);
            self.temp = DeviceBuffer::new(&self.device);
            self.results = DeviceBuffer::new(&self.device);
        }
    }
}

/// Where a job's encoded bytes and its decoded area are on the device.
fn places(addresses: Addresses, job: &Job) -> (u64, u64) {
    let encoded = match job.file {
        Some(_) => addresses.read,
        None => addresses.encoded,
    };
    (
        encoded + job.src.start as u64,
        addresses.decoded + job.dst as u64,
    )
}

fn codec_index(codec: FrameCodec) -> usize {
    match codec {
        FrameCodec::Zstd => 0,
        FrameCodec::Lz4 => 1,
        FrameCodec::Deflate => 2,
    }
}

/// What the spec of a job takes at most.
fn spec_room(job: &Job) -> usize {
    match &job.work.wanted {
        Wanted::Counts(counts) => {
            let words = counts
                .masks(job.sample_chunk)
                .map_or(0, |masks| masks.words.len());
            room_for::<u32>(words) + room_for::<abi::CountSpec>(1)
        }
        Wanted::Elements(elements) => {
            let samples = elements
                .samples
                .get(job.sample_chunk)
                .map_or(0, |samples| samples.len());
            room_for::<u32>(samples) + room_for::<abi::GatherSpec>(1)
        }
    }
}

fn push_spec(tables: &mut Tables, job: &Job) -> Result<u64, String> {
    let missing = || format!("sample chunk {} is not wanted", job.sample_chunk);
    match &job.work.wanted {
        Wanted::Counts(counts) => {
            let masks = counts.masks(job.sample_chunk).ok_or_else(missing)?;
            let words = tables.push(&masks.words)?;
            tables.push(&[counts.spec(masks, words)])
        }
        Wanted::Elements(elements) => {
            let samples = elements.samples.get(job.sample_chunk).ok_or_else(missing)?;
            let at = tables.push(samples.as_slice())?;
            tables.push(&[abi::GatherSpec {
                samples: at,
                n_samples: samples.len() as u32,
                inner: elements.inner,
            }])
        }
    }
}

/// Bytes that the tables of these jobs take at most.
fn room(jobs: &[Job]) -> usize {
    let mut specs = HashMap::new();
    let (mut blocks, mut tiles, mut frames, mut segments, mut bytes) = (0, 0, 0, 0, 0);
    for job in jobs {
        specs.insert((Arc::as_ptr(&job.work), job.sample_chunk), spec_room(job));
        blocks += job.plan.blocks.len();
        tiles += job.plan.tiles.len();
        frames += job.plan.frames.len();
        segments += job.plan.segments.len();
        bytes += job.plan.known_bytes.len();
    }
    let of_nvcomp = 4 * size_of::<u64>() + size_of::<u32>();
    let per_frame = of_nvcomp.max(size_of::<abi::Frame>()) + size_of::<abi::Check>();
    // Every table is rounded up; there are fewer than 32 besides the specs.
    specs.values().sum::<usize>()
        + room_for::<abi::Block>(blocks)
        + 2 * room_for::<abi::Tile>(tiles)
        + frames * per_frame
        + bytes * size_of::<abi::Check>()
        + room_for::<abi::Segment>(segments + frames)
        + 32 * GUARD
}
