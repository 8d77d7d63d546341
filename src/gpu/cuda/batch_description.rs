//! The description of a batch for a device: blocks, tiles, filters, segments, frames and checks of all jobs, gathered on the host.
//!
//! The [`worker`](super::worker) fills it before it launches kernels, from the plans of the jobs and the addresses of its buffers.
//! Invariants: every address is in one of those buffers; the lists are reused from batch to batch, so they rarely allocate.

use std::collections::HashMap;
use std::sync::Arc;

use super::filter_description::{FilterTables, filter_room};
use super::tables::{Tables, room_for};
use super::zstd::ZstdFrames;
use crate::codec::blosc::Shuffle;
use crate::gpu::abi;
use crate::gpu::batch::{ChunkJob, GUARD, Piece, align_up};
use crate::gpu::error::GpuError;
use crate::gpu::plan::{BlockLocation, Checksum, FrameCodec, PlannedBlock};
use crate::gpu::work::{Work, WorkOutput};

/// The codecs that nvCOMP decodes; its frames are grouped by codec.
pub const CODECS: [FrameCodec; 2] = [FrameCodec::Lz4, FrameCodec::Deflate];
/// Most tables of one tile (alleles, genotypes, zygosity), not counting plane tables.
const TABLES_OF_TILE: usize = 3;
/// nvCOMP needs deflate streams at multiples of this.
const DEFLATE_ALIGN: u64 = 4;

/// The frames of one codec for nvCOMP: addresses and lengths, before and after, and the indices of their statuses.
#[derive(Debug, Default)]
pub struct FrameTables {
    pub compressed: Vec<u64>,
    pub compressed_bytes: Vec<u64>,
    pub uncompressed: Vec<u64>,
    pub room: Vec<u64>,
    pub status: Vec<u32>,
}

/// Tiles, by the kernel that processes them.
#[derive(Debug, Default)]
pub struct TileTables {
    pub planes: Vec<abi::Tile>,
    pub sparse: Vec<abi::Tile>,
    pub codes: Vec<abi::Tile>,
    pub genotypes: Vec<abi::Tile>,
    pub zygosity: Vec<abi::Tile>,
    pub planes_of_sets: Vec<abi::Tile>,
    pub gather: Vec<abi::Tile>,
}

/// Device addresses of a batch's buffers.
#[derive(Debug, Clone, Copy)]
pub struct Addresses {
    pub encoded: u64,
    /// For chunks that are read from files.
    pub read: u64,
    pub decoded: u64,
    /// For realigned frames.
    pub realigned: u64,
    pub results: u64,
}

/// The lists of a batch.
#[derive(Debug)]
pub struct BatchDescription {
    has_nvcomp: bool,
    pub frames: [FrameTables; 2],
    pub zstd: ZstdFrames,
    pub tiles: TileTables,
    pub filters: FilterTables,
    pub segments: Vec<abi::Segment>,
    pub checks: Vec<abi::Check>,
    /// Jobs that the device rejects, or whose file could not be read, and why.
    pub rejected: Vec<(usize, GpuError)>,
    blocks: Vec<abi::Block>,
}

impl BatchDescription {
    /// Empty lists.
    pub fn new(has_nvcomp: bool) -> Self {
        Self {
            has_nvcomp,
            frames: Default::default(),
            zstd: ZstdFrames::default(),
            tiles: TileTables::default(),
            filters: FilterTables::default(),
            segments: Vec::new(),
            checks: Vec::new(),
            rejected: Vec::new(),
            blocks: Vec::new(),
        }
    }

    /// Fills the lists for these jobs, with results at device address `results`. Blocks, masks and specs are pushed to `tables`. `resident`
    /// has for each job the address of memory for rows that stay on the device, or 0; it may be empty.
    ///
    /// # Errors
    /// If the tables have no room.
    pub fn fill(
        &mut self,
        jobs: &[ChunkJob],
        addresses: Addresses,
        results: u64,
        resident: &[u64],
        tables: &mut Tables,
    ) -> Result<(), GpuError> {
        self.clear();

        let mut specs: HashMap<(*const Work, usize), u64> = HashMap::new();
        let mut next_realigned = addresses.realigned;
        // Blocks are pushed first, since tiles need their addresses: of all that is decoded for a job, then of its filtered genotypes.
        let mut blocks = std::mem::take(&mut self.blocks);
        for job in jobs {
            for piece in job.pieces() {
                let (encoded, decoded) = places(addresses, job, &piece);
                let of_piece = piece.plan.blocks.iter();
                blocks.extend(of_piece.map(|block| block_at(block, encoded, decoded)));
            }
            let area = addresses.decoded + job.dst as u64;
            let masked = job.masked.iter().flat_map(|masked| &masked.blocks);
            blocks.extend(masked.map(|block| block_at(block, 0, area)));
        }
        let mut next_block = tables.push(&blocks)?;
        let mut left = blocks.as_slice();
        for (status, job) in jobs.iter().enumerate() {
            let status = status as u32;
            let spec = match specs.get(&(Arc::as_ptr(&job.work), job.sample_chunk)) {
                Some(spec) => *spec,
                None => {
                    let spec = push_spec(tables, job)?;
                    specs.insert((Arc::as_ptr(&job.work), job.sample_chunk), spec);
                    spec
                }
            };
            let out = results + job.out.start as u64;
            // The words of planes that jobs use are after all statuses.
            let used = jobs.len() as u32 + status;
            let n_decoded: usize = job.pieces().map(|piece| piece.plan.blocks.len()).sum();
            let n_masked = job.masked.as_ref().map_or(0, |masked| masked.blocks.len());
            let (of_job, rest) = left
                .split_at_checked(n_decoded + n_masked)
                .ok_or("a job has other blocks than were described")?;
            let address = |block: usize| next_block + (block * size_of::<abi::Block>()) as u64;
            // Filtered genotypes are counted, if there are any.
            let counted = address(if n_masked > 0 { n_decoded } else { 0 });
            let area = addresses.decoded + job.dst as u64;
            self.filters.add(job, of_job, address(0), area);
            let resident = resident.get(status as usize).copied().unwrap_or(0);
            self.add_tiles(job, spec, [out, resident], [status, used], counted);
            (left, next_block) = (rest, address(of_job.len()));
            for piece in job.pieces() {
                let places = places(addresses, job, &piece);
                if let Err(reason) = self.add_frames(&piece, places, status, &mut next_realigned) {
                    self.rejected.push((status as usize, reason));
                    break;
                }
            }
        }
        self.blocks = blocks;
        self.filters.push(tables)
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
        self.rejected.clear();
        self.blocks.clear();
        self.tiles.planes.clear();
        self.tiles.sparse.clear();
        self.tiles.codes.clear();
        self.tiles.genotypes.clear();
        self.tiles.zygosity.clear();
        self.tiles.planes_of_sets.clear();
        self.tiles.gather.clear();
        self.filters.clear();
        self.segments.clear();
        self.checks.clear();
    }

    fn add_tiles(
        &mut self,
        job: &ChunkJob,
        spec: u64,
        [out, resident]: [u64; 2],
        [status, used]: [u32; 2],
        blocks: u64,
    ) {
        let planner = &job.work.planner;
        let width = planner.width();
        let mut flags = 0;
        if planner.big_endian() {
            flags |= abi::BIG_ENDIAN;
        }
        if job.plan.shared_rows {
            flags |= abi::SHARED;
        }
        let room = match &job.work.wanted {
            WorkOutput::Counts(counts) => {
                let layout = counts.layout(job.sample_chunk, job.rows);
                layout.map_or(0, |layout| counts.room(&layout))
            }
            WorkOutput::Elements(_) => 0,
        };
        // Places of words fit, as the layout has checked.
        let room = u32::try_from(room).unwrap_or(u32::MAX);
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
                resident,
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
                set: 0,
                used,
                room,
            };
            match &job.work.wanted {
                WorkOutput::Counts(counts) => {
                    let request = counts.request();
                    let masked = job.masked.as_ref();
                    let blocks = masked.map_or(&job.plan.blocks, |masked| &masked.blocks);
                    let of_tile = blocks.get(tile.blocks.clone()).unwrap_or_default();
                    if !request.alleles.is_empty() {
                        let planes =
                            width == 1 && of_tile.iter().any(|block| block.shuffle == Shuffle::Bit);
                        let masks = counts.masks(job.sample_chunk);
                        if planes && masks.is_some_and(|masks| masks.sparse.is_some()) {
                            self.tiles.sparse.push(described);
                        } else if planes {
                            self.tiles.planes.push(described);
                        } else {
                            self.tiles.codes.push(described);
                        }
                    }
                    if !request.genotypes.is_empty() {
                        self.tiles.genotypes.push(described);
                    }
                    if !request.zygosity.is_empty() {
                        self.tiles.zygosity.push(described);
                    }
                    for (set, samples) in counts.planes(job.sample_chunk).iter().enumerate() {
                        described.set = set as u32;
                        if select(&mut described, samples) {
                            self.tiles.planes_of_sets.push(described);
                        }
                    }
                }
                WorkOutput::Elements(elements) => {
                    let Some(samples) = elements.samples.get(job.sample_chunk) else {
                        continue;
                    };
                    if select(&mut described, samples) {
                        self.tiles.gather.push(described);
                    }
                }
            }
        }
    }

    /// Adds the frames, checks and segments of a piece whose encoded bytes and decoded area are at these addresses.
    ///
    /// # Errors
    /// Why the device rejects the job.
    fn add_frames(
        &mut self,
        piece: &Piece<'_>,
        (encoded, decoded): (u64, u64),
        status: u32,
        realigned: &mut u64,
    ) -> Result<(), GpuError> {
        let plan = piece.plan;
        for frame in &plan.frames {
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
            let Some(codec) = CODECS.iter().position(|codec| *codec == frame.codec) else {
                if !self.zstd.takes(len, frame.len) {
                    return Err(format!("a zstd frame of {} bytes is too large", frame.len).into());
                }
                self.zstd.push(src, len, dst, frame.len, status);
                continue;
            };
            if !self.has_nvcomp {
                // The chunk has another codec than the array's metadata says.
                return Err(
                    format!("a frame of {} needs nvCOMP, which is missing", frame.codec).into(),
                );
            }
            let frames = &mut self.frames[codec];
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
            .extend(plan.known_bytes.iter().map(|known| abi::Check {
                data: decoded + known.at as u64,
                len: 1,
                expected: known.byte.into(),
                kind: abi::BYTE,
                status,
                pad: 0,
            }));
        self.segments
            .extend(plan.segments.iter().map(|segment| abi::Segment {
                src: segment.src.map_or(0, |at| encoded + at as u64),
                dst: decoded + segment.dst as u64,
                len: segment.len as u64,
            }));
        Ok(())
    }
}

/// Notes which of `samples`, ascending, are in a tile; false if none is.
fn select(tile: &mut abi::Tile, samples: &[u32]) -> bool {
    let stop = tile.sample0.saturating_add(tile.samples);
    let begin = samples.partition_point(|sample| *sample < tile.sample0);
    let end = samples.partition_point(|sample| *sample < stop);
    tile.sel_begin = begin as u32;
    tile.sel_count = (end - begin) as u32;
    end > begin
}

/// A block as the kernels read it, with the addresses of the encoded bytes and of the decoded area that its location refers to.
fn block_at(block: &PlannedBlock, encoded: u64, decoded: u64) -> abi::Block {
    abi::Block {
        data: match block.location {
            BlockLocation::Decoded(at) => decoded + at as u64,
            BlockLocation::Encoded(at) => encoded + at as u64,
            BlockLocation::Zero => 0,
        },
        elements: block.elements,
        kind: match block.shuffle {
            Shuffle::None => abi::PLAIN,
            Shuffle::Byte => abi::BYTE_SHUFFLED,
            Shuffle::Bit => abi::BIT_SHUFFLED,
        },
        planes: block.planes,
        flags: if block.repeats { abi::REPEATS } else { 0 },
    }
}

/// Device addresses of the encoded bytes of a job's piece, and of its decoded area.
fn places(addresses: Addresses, job: &ChunkJob, piece: &Piece<'_>) -> (u64, u64) {
    let encoded = match job.file {
        Some(_) => addresses.read,
        None => addresses.encoded,
    };
    (
        encoded + piece.src.start as u64,
        addresses.decoded + piece.dst as u64,
    )
}

/// Most bytes of a job's spec in the tables.
fn spec_room(job: &ChunkJob) -> usize {
    match &job.work.wanted {
        WorkOutput::Counts(counts) => {
            let masks = counts.masks(job.sample_chunk);
            let words = masks.map_or(0, |masks| masks.words.len());
            let sparse = masks.and_then(|masks| masks.sparse.as_ref());
            let planes = counts.planes(job.sample_chunk);
            let samples = planes.iter().map(|samples| room_for::<u32>(samples.len()));
            room_for::<u32>(words)
                + room_for::<u64>(sparse.map_or(0, |sets| sets.words.len()))
                + room_for::<abi::CountSpec>(1)
                + samples.sum::<usize>()
                + room_for::<abi::PlaneSet>(planes.len())
        }
        WorkOutput::Elements(elements) => {
            let samples = elements
                .samples
                .get(job.sample_chunk)
                .map_or(0, |samples| samples.len());
            room_for::<u32>(samples) + room_for::<abi::GatherSpec>(1)
        }
    }
}

fn push_spec(tables: &mut Tables, job: &ChunkJob) -> Result<u64, GpuError> {
    let missing = || format!("sample chunk {} is not wanted", job.sample_chunk);
    match &job.work.wanted {
        WorkOutput::Counts(counts) => {
            let masks = counts.masks(job.sample_chunk).ok_or_else(missing)?;
            let words = tables.push(&masks.words)?;
            let planes = counts.planes(job.sample_chunk).iter();
            let samples = planes
                .map(|samples| tables.push(samples))
                .collect::<Result<Vec<_>, _>>()?;
            let planes = tables.push(&counts.plane_sets(job.sample_chunk, &samples))?;
            let sparse = match &masks.sparse {
                Some(sets) => tables.push(&sets.words)?,
                None => 0,
            };
            tables.push(&[counts.spec(masks, [words, planes, sparse])])
        }
        WorkOutput::Elements(elements) => {
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

/// Most bytes of the tables of these jobs.
pub fn room(jobs: &[ChunkJob]) -> usize {
    let mut specs = HashMap::new();
    let mut of_planes = 0;
    let (mut blocks, mut tiles, mut frames, mut segments, mut bytes) = (0, 0, 0, 0, 0);
    for job in jobs {
        specs.insert((Arc::as_ptr(&job.work), job.sample_chunk), spec_room(job));
        tiles += job.plan.tiles.len();
        if let WorkOutput::Counts(counts) = &job.work.wanted {
            of_planes += job.plan.tiles.len() * counts.request().planes.len();
        }
        for piece in job.pieces() {
            blocks += piece.plan.blocks.len();
            frames += piece.plan.frames.len();
            segments += piece.plan.segments.len();
            bytes += piece.plan.known_bytes.len();
        }
        blocks += job.masked.as_ref().map_or(0, |masked| masked.blocks.len());
    }
    let of_nvcomp = 4 * size_of::<u64>() + size_of::<u32>();
    let per_frame = of_nvcomp.max(size_of::<abi::Frame>()) + size_of::<abi::Check>();
    // Each table is rounded up; there are fewer than 32 besides the specs.
    specs.values().sum::<usize>()
        + room_for::<abi::Block>(blocks)
        + TABLES_OF_TILE * room_for::<abi::Tile>(tiles)
        + room_for::<abi::Tile>(of_planes)
        + frames * per_frame
        + bytes * size_of::<abi::Check>()
        + room_for::<abi::Segment>(segments + frames)
        + filter_room(jobs)
        + 32 * GUARD
}
