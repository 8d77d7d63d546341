//! The plan of one chunk: frames to decode, segments to copy, and where every element then is.
//!
//! An element is found from the outside in: the chunk is a grid of [`Tile`]s; a tile's elements are in row-major order
//! `[rows, samples, copies]`; consecutive elements make up its [`PlannedBlock`]s, whose bytes are at a [`Place`], shuffled
//! as the block says.

use std::fmt;
use std::ops::Range;

use crate::codec::ShardIndex;
use crate::codec::blosc::Shuffle;
use crate::codec::zstd::cut::InPlaceCut;

/// Blocks start at multiples of this in the decoded area, and the area is a multiple of it.
pub const ALIGNMENT: usize = 16;

/// The most frames, segments and blocks of one chunk. Real ones stay far below; lying headers do not get to take memory.
pub(super) const MAX_PARTS: usize = 1 << 18;

/// What decodes a frame.
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
pub struct Frame {
    /// What decodes it.
    pub codec: FrameCodec,
    /// Where it is in the encoded chunk; at any alignment.
    pub src: Range<usize>,
    /// Where it is decoded to, in the decoded area. Frames that start a block are aligned to [`ALIGNMENT`]; the other splits of
    /// a block follow it without gaps.
    pub dst: usize,
    /// How many bytes it must decode to, exactly.
    pub len: usize,
    /// What has to be compared with the decoded bytes.
    pub check: Option<Checksum>,
}

/// Bytes that are copied, or zeros that are written, into the decoded area.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Where they are in the encoded chunk; `None` for zeros.
    pub src: Option<usize>,
    /// Where they go in the decoded area.
    pub dst: usize,
    /// How many there are.
    pub len: usize,
}

/// What a byte of the decoded area must be after decoding; where it is not, the plan does not hold for the chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownByte {
    /// Where it is in the decoded area; part of a frame.
    pub at: usize,
    /// What it must be.
    pub byte: u8,
}

/// Where the bytes of a block are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// From here in the decoded area; aligned to [`ALIGNMENT`].
    Decoded(usize),
    /// From here in the encoded chunk; at any alignment.
    Encoded(usize),
    /// Nowhere: all are zero.
    Zero,
}

/// Consecutive elements of a tile, shuffled on their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedBlock {
    /// Where its bytes are.
    pub place: Place,
    /// How many elements it has. A multiple of eight where the shuffle is [`Shuffle::Bit`].
    pub elements: u32,
    /// How its bytes are shuffled; see [`ChunkPlan::block_bytes`] for how many there are.
    pub shuffle: Shuffle,
    /// Under [`Shuffle::Bit`], how many bit-planes are there, from plane 0 on, each of `elements / 8` bytes; bits of the others
    /// are zero, or repeat. Otherwise 1, or 0 where the place is [`Place::Zero`].
    pub planes: u32,
    /// Under [`Shuffle::Bit`], whether the planes that are not there equal the last that is, of which there is one then.
    pub repeats: bool,
}

/// A rectangle of the chunk that was encoded on its own: the chunk itself, or an inner chunk of a shard. Padding beyond the
/// array's edge is part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tile {
    /// Its blocks, among those of the plan.
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

/// What a GPU has to do with one encoded chunk. Filled by [`ChunkPlanner::plan`](super::ChunkPlanner::plan), and meant to be
/// used again for other chunks, so that planning allocates nothing after the first few.
#[derive(Debug, Default)]
pub struct ChunkPlan {
    /// What is decoded, in any order. No two write the same bytes, nor does a segment.
    pub frames: Vec<Frame>,
    /// What is copied or zeroed.
    pub segments: Vec<Segment>,
    /// What must hold of the decoded bytes.
    pub known_bytes: Vec<KnownByte>,
    /// The blocks of all tiles, in the order of the tiles.
    pub blocks: Vec<PlannedBlock>,
    /// The tiles, in row-major order. Together they are the chunk.
    pub tiles: Vec<Tile>,
    /// Bytes of the decoded area.
    pub decoded_len: usize,
    /// Whether several tiles hold samples of the same rows.
    pub shared_rows: bool,
    /// Frames that end early, by where they start in the encoded chunk.
    cuts: Vec<(usize, InPlaceCut)>,
    /// The parts of the encoded chunk that are used.
    pub(super) sources: Vec<Range<usize>>,
    /// The index of the last shard, for its memory.
    pub(super) index: ShardIndex,
}

impl ChunkPlan {
    /// Bytes that a block takes where it is, of elements of `width` bytes.
    pub fn block_bytes(block: &PlannedBlock, width: usize) -> usize {
        let elements = block.elements as usize;
        match (block.place, block.shuffle) {
            (Place::Zero, _) => 0,
            (_, Shuffle::Bit) => Self::plane_bytes(block),
            _ => elements * width,
        }
    }

    /// Bytes that the planes of a bit-shuffled block take.
    pub(super) fn plane_bytes(block: &PlannedBlock) -> usize {
        block.elements as usize / 8 * block.planes as usize
    }

    /// Undoes what planning changed in `encoded`, the chunk that this is the plan of, so that the host can decode it. The plan
    /// means nothing afterwards.
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

    /// Ends a plan: checks what can only be checked with all of it, and changes the frames that are cut.
    pub(super) fn finish(&mut self, encoded: &mut [u8]) -> Result<(), String> {
        // A frame that is cut is changed where it lies, which nobody else may see. Encoders write no byte twice; they may write
        // blocks in any order.
        let disjoint = |sources: &[Range<usize>]| {
            sources
                .iter()
                .zip(sources.iter().skip(1))
                .all(|(a, b)| a.end <= b.start)
        };
        if !disjoint(&self.sources) {
            self.sources.sort_unstable_by_key(|range| range.start);
            if !disjoint(&self.sources) {
                return Err("parts of the encoded chunk overlap".to_string());
            }
        }
        for (at, cut) in &self.cuts {
            if let Some(frame) = encoded.get_mut(*at..) {
                cut.apply(frame);
            }
        }
        Ok(())
    }

    /// Takes `len` bytes of the decoded area, and returns where they start.
    pub(super) fn room(&mut self, len: usize) -> Result<usize, String> {
        let start = self.decoded_len;
        let end = start
            .checked_add(len)
            .and_then(|end| end.checked_next_multiple_of(ALIGNMENT));
        self.decoded_len = end.ok_or("the decoded chunk is too large")?;
        Ok(start)
    }

    pub(super) fn frame(&mut self, frame: Frame) -> Result<(), String> {
        self.sources.push(frame.src.clone());
        self.frames.push(frame);
        self.check_parts()
    }

    /// Adds a frame that is cut: `frame.src` is all of it, `frame.len` what is left.
    pub(super) fn cut_frame(&mut self, mut frame: Frame, cut: InPlaceCut) -> Result<(), String> {
        self.sources.push(frame.src.clone());
        self.cuts.push((frame.src.start, cut));
        frame.src.end = frame.src.start + cut.encoded_len;
        self.frames.push(frame);
        self.check_parts()
    }

    pub(super) fn segment(&mut self, segment: Segment) -> Result<(), String> {
        if let Some(src) = segment.src {
            self.sources.push(src..src + segment.len);
        }
        self.segments.push(segment);
        self.check_parts()
    }

    /// Adds a block whose bytes stay where they are.
    pub(super) fn encoded_block(
        &mut self,
        src: Range<usize>,
        elements: u32,
        shuffle: Shuffle,
        planes: u32,
    ) -> Result<(), String> {
        let place = Place::Encoded(src.start);
        self.sources.push(src);
        self.block(PlannedBlock {
            place,
            elements,
            shuffle,
            planes,
            repeats: false,
        })
    }

    pub(super) fn block(&mut self, block: PlannedBlock) -> Result<(), String> {
        self.blocks.push(block);
        self.check_parts()
    }

    pub(super) fn known_byte(&mut self, known: KnownByte) -> Result<(), String> {
        self.known_bytes.push(known);
        self.check_parts()
    }

    /// How many frames, segments, known bytes and blocks there are.
    pub fn parts(&self) -> usize {
        self.frames.len() + self.segments.len() + self.known_bytes.len() + self.blocks.len()
    }

    fn check_parts(&self) -> Result<(), String> {
        if self.parts() > MAX_PARTS {
            return Err(format!(
                "the chunk has more than {MAX_PARTS} blocks and frames"
            ));
        }
        Ok(())
    }
}
