//! The headers of a zstd frame and of its blocks (RFC 8878, section 3.1.1), parsed without decoding the blocks.
//!
//! Block headers are enough to find a tail of zeros: in a bit-shuffled block of biallelic genotypes, bit-planes 0 and 1 are one
//! compressed block, and the planes of zeros that follow are RLE blocks of three bytes and one each. [`cut`](super::cut)
//! removes such a tail; [`tail`](super::tail) finds tails that repeat a plane.

use std::ops::Range;

use super::super::CodecError;

/// The first four bytes of a frame.
pub(super) const MAGIC: [u8; 4] = 0xfd2f_b528_u32.to_le_bytes();
/// Most bytes of a block, encoded or decoded.
pub(super) const BLOCK_MAX: u64 = 128 * 1024;
/// libzstd rejects frames with a window larger than two to the power of this.
const WINDOW_LOG_MAX: u8 = if cfg!(target_pointer_width = "32") {
    30
} else {
    31
};

/// The type of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockKind {
    /// Uncompressed bytes.
    Raw,
    /// One byte, repeated.
    Rle(u8),
    /// Compressed; its decoded length is not in the header.
    Compressed,
}

/// One block of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Its type.
    pub kind: BlockKind,
    /// The header's size field: decoded bytes of a raw or RLE block, encoded bytes of a compressed one.
    pub size: usize,
    /// Offset of its three header bytes in the frame.
    pub header_at: usize,
    /// Its encoded bytes in the frame.
    pub payload: Range<usize>,
    /// Whether it is the last block of the frame.
    pub last: bool,
}

/// A frame's header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameHeader {
    /// Decoded bytes of the frame, if the header has them.
    pub content_size: Option<u64>,
    /// The window descriptor byte; `None` for a single-segment frame, whose window is its content.
    pub window_descriptor: Option<u8>,
    /// Bytes of history that a decoder keeps.
    pub window_size: u64,
    /// 0 for no dictionary.
    pub dictionary_id: u32,
    /// Whether four bytes of checksum follow the last block.
    pub checksum: bool,
    /// Length of the header: offset of the first block.
    pub len: usize,
}

/// A summary of a frame's header and block headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameSummary {
    /// The frame's header.
    pub header: FrameHeader,
    /// Encoded bytes of the frame, with its checksum.
    pub len: usize,
    /// Number of raw, RLE and compressed blocks.
    pub blocks: [usize; 3],
    /// Decoded bytes of the RLE blocks of zeros at the end.
    pub zero_tail: u64,
    /// The last block before that tail: the start of its header and the end of its encoded bytes. `None` if there is none.
    pub last_kept: Option<(usize, usize)>,
}

impl FrameHeader {
    /// Parses the header at the start of `frame`.
    pub fn parse(frame: &[u8]) -> Result<FrameHeader, CodecError> {
        let Some((magic, rest)) = frame.split_first_chunk::<4>() else {
            return Err(short("its header"));
        };
        if *magic != MAGIC {
            return Err(
                format!("zstd: the frame starts with {magic:02x?}, expected {MAGIC:02x?}").into(),
            );
        }
        let mut rest = rest;
        let descriptor = take(&mut rest, 1)? as u8;
        if descriptor & 0x08 != 0 {
            return Err("zstd: the reserved bit of the frame header is set".into());
        }
        let single_segment = descriptor & 0x20 != 0;
        let window_descriptor = if single_segment {
            None
        } else {
            Some(take(&mut rest, 1)? as u8)
        };
        let dictionary_id = take(&mut rest, [0, 1, 2, 4][usize::from(descriptor & 3)])? as u32;
        let content_size = match descriptor >> 6 {
            0 if single_segment => Some(take(&mut rest, 1)?),
            0 => None,
            1 => Some(take(&mut rest, 2)? + 256),
            2 => Some(take(&mut rest, 4)?),
            _ => Some(take(&mut rest, 8)?),
        };
        let window_size = match window_descriptor {
            Some(byte) if 10 + (byte >> 3) > WINDOW_LOG_MAX => {
                return Err(format!(
                    "zstd: the frame needs a window of 2^{} bytes, at most 2^{WINDOW_LOG_MAX} are allowed",
                    10 + (byte >> 3)
                ).into());
            }
            Some(byte) => {
                let base = 1u64 << (10 + (byte >> 3));
                base + base / 8 * u64::from(byte & 7)
            }
            None => content_size.unwrap_or(0),
        };
        Ok(FrameHeader {
            content_size,
            window_descriptor,
            window_size,
            dictionary_id,
            checksum: descriptor & 0x04 != 0,
            len: frame.len() - rest.len(),
        })
    }

    /// Most decoded or encoded bytes of a block of this frame.
    pub fn block_max(&self) -> u64 {
        self.window_size.min(BLOCK_MAX)
    }
}

/// The blocks of a frame, in order; ends after the last block or the first error.
#[derive(Debug, Clone)]
pub struct Blocks<'a> {
    frame: &'a [u8],
    at: usize,
    block_max: u64,
    done: bool,
}

/// Walks the block headers of the frame at the start of `frame`.
pub fn blocks<'a>(frame: &'a [u8], header: &FrameHeader) -> Blocks<'a> {
    Blocks {
        frame,
        at: header.len,
        block_max: header.block_max(),
        done: false,
    }
}

impl Blocks<'_> {
    fn read(&self) -> Result<Block, CodecError> {
        let mut rest = self.frame.get(self.at..).unwrap_or_default();
        let bits = take(&mut rest, 3)?;
        let size = (bits >> 3) as usize;
        if size as u64 > self.block_max {
            return Err(format!(
                "zstd: a block of {size} bytes, at most {} are allowed",
                self.block_max
            )
            .into());
        }
        let (kind, encoded) = match bits >> 1 & 3 {
            0 => (BlockKind::Raw, size),
            1 => match rest.first() {
                Some(byte) => (BlockKind::Rle(*byte), 1),
                None => return Err(short("an RLE block")),
            },
            2 => (BlockKind::Compressed, size),
            _ => return Err("zstd: a block of the reserved type".into()),
        };
        if rest.len() < encoded {
            return Err(short("a block"));
        }
        let start = self.at + 3;
        let payload = start..start + encoded;
        Ok(Block {
            kind,
            size,
            header_at: self.at,
            payload,
            last: bits & 1 != 0,
        })
    }
}

impl Iterator for Blocks<'_> {
    type Item = Result<Block, CodecError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let block = self.read();
        match &block {
            Ok(block) => {
                self.at = block.payload.end;
                self.done = block.last;
            }
            Err(_) => self.done = true,
        }
        Some(block)
    }
}

impl FrameSummary {
    /// Summarises the frame at the start of `frame`, which may be followed by other bytes.
    pub fn parse(frame: &[u8]) -> Result<FrameSummary, CodecError> {
        let header = FrameHeader::parse(frame)?;
        let mut summary = FrameSummary {
            len: header.len,
            header,
            blocks: [0; 3],
            zero_tail: 0,
            last_kept: None,
        };
        for block in blocks(frame, &summary.header) {
            let block = block?;
            summary.len = block.payload.end;
            match block.kind {
                BlockKind::Raw => summary.blocks[0] += 1,
                BlockKind::Rle(_) => summary.blocks[1] += 1,
                BlockKind::Compressed => summary.blocks[2] += 1,
            }
            if block.kind == BlockKind::Rle(0) {
                summary.zero_tail += block.size as u64;
            } else {
                summary.zero_tail = 0;
                summary.last_kept = Some((block.header_at, block.payload.end));
            }
        }
        if summary.header.checksum {
            summary.len += 4;
            if frame.len() < summary.len {
                return Err(short("its checksum"));
            }
        }
        if summary
            .header
            .content_size
            .is_some_and(|size| size < summary.zero_tail)
        {
            return Err("zstd: the blocks hold more bytes than the frame's content size".into());
        }
        Ok(summary)
    }
}

/// Takes a little-endian number of up to eight bytes from the front of `rest`.
fn take(rest: &mut &[u8], len: usize) -> Result<u64, CodecError> {
    let Some((bytes, tail)) = rest.split_at_checked(len) else {
        return Err(short("a header"));
    };
    *rest = tail;
    Ok(bytes
        .iter()
        .rev()
        .fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

fn short(what: &str) -> CodecError {
    format!("zstd: the frame is cut short in {what}").into()
}
