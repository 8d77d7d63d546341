//! The plan of one chunk: frames to decode, segments to copy, and the location of every element afterwards.
//!
//! To find an element: the chunk is a grid of [`PlannedTile`]s; a tile's elements are in row-major order
//! `[rows, samples, copies]`; consecutive elements make up its [`PlannedBlock`]s, whose bytes are at a [`BlockLocation`], shuffled
//! as the block says.

use std::fmt;
use std::ops::Range;

use crate::codec::ShardIndex;
use crate::codec::blosc::Shuffle;
use crate::codec::zstd::cut::InPlaceCut;
use crate::gpu::error::GpuError;

/// Blocks start at multiples of this in the decoded area, and the area is a multiple of it.
pub const ALIGNMENT: usize = 16;

/// Most frames, segments and blocks of one chunk. Bounds allocation for corrupt headers; real chunks have far fewer.
pub(super) const MAX_PARTS: usize = 1 << 18;

/// The codec of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FrameCodec {
    /// One Zstandard frame with a content size, without checksum or dictionary.
    Zstd,
    /// One LZ4 block without a frame.
    Lz4,
    /// One raw DEFLATE stream, of zlib or gzip.
    Deflate,
}

impl fmt::Display for FrameCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FrameCodec::Zstd => "zstd",
            FrameCodec::Lz4 => "lz4",
            FrameCodec::Deflate => "deflate",
        })
    }
}

/// A checksum of the decoded bytes of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksum {
    /// Of zlib (RFC 1950).
    Adler32(u32),
    /// Of gzip (RFC 1952).
    Crc32(u32),
}

/// Encoded bytes that are decoded on their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedFrame {
    /// Its codec.
    pub codec: FrameCodec,
    /// Its bytes in the encoded chunk, at any alignment.
    pub src: Range<usize>,
    /// Its offset in the decoded area. Frames that start a block are aligned to [`ALIGNMENT`]; the other splits of a block follow
    /// without gaps.
    pub dst: usize,
    /// Its exact decoded length in bytes.
    pub len: usize,
    /// The checksum of the decoded bytes, if the format has one.
    pub check: Option<Checksum>,
}

/// Bytes that are copied, or zeros that are written, into the decoded area.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedSegment {
    /// Their offset in the encoded chunk; `None` for zeros.
    pub src: Option<usize>,
    /// Their offset in the decoded area.
    pub dst: usize,
    /// Number of bytes.
    pub len: usize,
}

/// The expected value of a byte in the decoded area. If it differs after decoding, the plan is wrong for the chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownByte {
    /// Its offset in the decoded area, within a frame.
    pub at: usize,
    /// The expected value.
    pub byte: u8,
}

/// The location of a block's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockLocation {
    /// At this offset in the decoded area; aligned to [`ALIGNMENT`].
    Decoded(usize),
    /// At this offset in the encoded chunk; at any alignment.
    Encoded(usize),
    /// Not stored: all bytes are zero.
    Zero,
}

/// Consecutive elements of a tile, shuffled on their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedBlock {
    /// The location of its bytes.
    pub location: BlockLocation,
    /// Number of elements; a multiple of eight where the shuffle is [`Shuffle::Bit`].
    pub elements: u32,
    /// How its bytes are shuffled; [`ChunkPlan::block_bytes`] is their number.
    pub shuffle: Shuffle,
    /// Under [`Shuffle::Bit`], the number of stored bit-planes, from plane 0 on, each of `elements / 8` bytes; the others are zero
    /// or repeat the last. Otherwise 1, or 0 where the location is [`BlockLocation::Zero`].
    pub planes: u32,
    /// Under [`Shuffle::Bit`], whether planes that are not stored equal the last stored one. Then at least one is stored.
    pub repeats: bool,
}

/// A rectangle of the chunk that was encoded on its own: the chunk itself, or an inner chunk of a shard. Includes padding beyond
/// the array's edge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedTile {
    /// Its blocks, as indices into the plan's.
    pub blocks: Range<usize>,
    /// Elements of each of its blocks but the last, which may have fewer.
    pub block_elements: u32,
    /// Its first row in the chunk.
    pub row0: u32,
    /// Its rows.
    pub rows: u32,
    /// Elements of a row: `samples * copies`.
    pub row_elements: u32,
    /// Its first sample in the chunk.
    pub sample0: u32,
    /// Its samples; 1 in an array of rank 1.
    pub samples: u32,
    /// Elements of a sample, as stored: 1 in an array of rank 1 or 2, else as many as the chunk has, which may be more than the
    /// array.
    pub copies: u32,
}

/// The steps that decode one encoded chunk on a GPU. Filled by [`ChunkPlanner::plan`](super::ChunkPlanner::plan), and reused for
/// other chunks, so that planning allocates nothing after the first few.
#[derive(Debug, Default)]
pub struct ChunkPlan {
    /// The frames to decode, in any order. No byte is written by two frames or segments.
    pub frames: Vec<PlannedFrame>,
    /// Ranges to copy or to set to zero.
    pub segments: Vec<PlannedSegment>,
    /// Bytes to check after decoding.
    pub known_bytes: Vec<KnownByte>,
    /// The blocks of all tiles, in the order of the tiles.
    pub blocks: Vec<PlannedBlock>,
    /// The tiles, in row-major order. Together they cover the chunk.
    pub tiles: Vec<PlannedTile>,
    /// Bytes of the decoded area.
    pub decoded_len: usize,
    /// Whether several tiles have samples of the same rows.
    pub shared_rows: bool,
    /// Cut frames, with their offsets in the encoded chunk.
    cuts: Vec<(usize, InPlaceCut)>,
    /// Ranges of the encoded chunk that are used.
    pub(super) sources: Vec<Range<usize>>,
    /// The index of the last shard; its memory is reused.
    pub(super) index: ShardIndex,
}

impl ChunkPlan {
    /// Bytes of a block at its location, with elements of `width` bytes.
    pub fn block_bytes(block: &PlannedBlock, width: usize) -> usize {
        let elements = block.elements as usize;
        match (block.location, block.shuffle) {
            (BlockLocation::Zero, _) => 0,
            (_, Shuffle::Bit) => Self::plane_bytes(block),
            _ => elements * width,
        }
    }

    /// Bytes of the stored planes of a bit-shuffled block.
    pub(super) fn plane_bytes(block: &PlannedBlock) -> usize {
        block.elements as usize / 8 * block.planes as usize
    }

    /// Undoes the cuts in `encoded`, the chunk of this plan, so that the host can decode it. The plan is empty afterwards.
    pub fn restore(&mut self, encoded: &mut [u8]) {
        for (at, cut) in &self.cuts {
            if let Some(frame) = encoded.get_mut(*at..) {
                cut.undo(frame);
            }
        }
        self.clear();
    }

    pub(super) fn clear(&mut self) {
        self.frames.clear();
        self.segments.clear();
        self.known_bytes.clear();
        self.blocks.clear();
        self.tiles.clear();
        self.cuts.clear();
        self.sources.clear();
        self.decoded_len = 0;
        self.shared_rows = false;
    }

    /// Finishes a plan: checks that used ranges do not overlap, and cuts frames.
    pub(super) fn finish(&mut self, encoded: &mut [u8]) -> Result<(), GpuError> {
        // Cuts modify `encoded`, so no other part may use the same bytes. Encoders never share bytes, but may write blocks in any
        // order.
        let disjoint = |sources: &[Range<usize>]| {
            sources
                .iter()
                .zip(sources.iter().skip(1))
                .all(|(a, b)| a.end <= b.start)
        };
        if !disjoint(&self.sources) {
            self.sources.sort_unstable_by_key(|range| range.start);
            if !disjoint(&self.sources) {
                return Err("parts of the encoded chunk overlap".into());
            }
        }
        for (at, cut) in &self.cuts {
            if let Some(frame) = encoded.get_mut(*at..) {
                cut.apply(frame);
            }
        }
        Ok(())
    }

    /// Reserves `len` bytes of the decoded area. Returns their offset.
    pub(super) fn room(&mut self, len: usize) -> Result<usize, GpuError> {
        let start = self.decoded_len;
        let end = start
            .checked_add(len)
            .and_then(|end| end.checked_next_multiple_of(ALIGNMENT));
        self.decoded_len = end.ok_or("the decoded chunk is too large")?;
        Ok(start)
    }

    pub(super) fn frame(&mut self, frame: PlannedFrame) -> Result<(), GpuError> {
        self.sources.push(frame.src.clone());
        self.frames.push(frame);
        self.check_parts()
    }

    /// Adds a cut frame: `frame.src` is the whole frame, `frame.len` the decoded length after the cut.
    pub(super) fn cut_frame(
        &mut self,
        mut frame: PlannedFrame,
        cut: InPlaceCut,
    ) -> Result<(), GpuError> {
        self.sources.push(frame.src.clone());
        self.cuts.push((frame.src.start, cut));
        frame.src.end = frame.src.start + cut.encoded_len;
        self.frames.push(frame);
        self.check_parts()
    }

    pub(super) fn segment(&mut self, segment: PlannedSegment) -> Result<(), GpuError> {
        if let Some(src) = segment.src {
            self.sources.push(src..src + segment.len);
        }
        self.segments.push(segment);
        self.check_parts()
    }

    /// Adds a block whose bytes are used where they are in the encoded chunk.
    pub(super) fn encoded_block(
        &mut self,
        src: Range<usize>,
        elements: u32,
        shuffle: Shuffle,
        planes: u32,
    ) -> Result<(), GpuError> {
        let location = BlockLocation::Encoded(src.start);
        self.sources.push(src);
        self.block(PlannedBlock {
            location,
            elements,
            shuffle,
            planes,
            repeats: false,
        })
    }

    pub(super) fn block(&mut self, block: PlannedBlock) -> Result<(), GpuError> {
        self.blocks.push(block);
        self.check_parts()
    }

    pub(super) fn known_byte(&mut self, known: KnownByte) -> Result<(), GpuError> {
        self.known_bytes.push(known);
        self.check_parts()
    }

    /// Number of frames, segments, known bytes and blocks.
    pub fn parts(&self) -> usize {
        self.frames.len() + self.segments.len() + self.known_bytes.len() + self.blocks.len()
    }

    fn check_parts(&self) -> Result<(), GpuError> {
        if self.parts() > MAX_PARTS {
            return Err(format!("the chunk has more than {MAX_PARTS} blocks and frames").into());
        }
        Ok(())
    }
}
