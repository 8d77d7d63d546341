//! Finds a tail of a zstd frame that repeats the bit-plane before it.
//!
//! The code of a missing call is -1, and of an absent copy -2, so in a bit-shuffled block of genotypes with missing calls the
//! higher bit-planes are copies of each other. The frame then ends in short blocks of one sequence each: a literal, and a match of
//! the rest from one plane before. Such blocks are recognised here from their sequences and need not be decoded:
//! [`decompress_planes`] leaves the copies out on the host, and the plan for a GPU cuts the frame.
//!
//! This never changes which frames are accepted, nor their content: the blocks of the tail are valid, they fill the content size
//! exactly, and all of their bytes are matches with the same offset, or literals in [`RepeatedTail::literals`], which are compared
//! with the decoded bytes. A frame of any other form is decoded whole.

use super::super::CodecError;
use super::context::ZstdContext;
use super::cut::Cut;
use super::frame::{Block, BlockKind, FrameSummary, blocks};
use super::prefix::decompress_prefix;
use super::sequences::{History, Literals, Parts};

/// Most encoded bytes of a block in a tail.
const SHORT_BLOCK: usize = 48;
/// Frames with more blocks are not examined.
const MAX_BLOCKS: usize = 64;
/// Most literals of a tail.
const MAX_LITERALS: usize = 16;

/// A tail of a frame in which every byte equals the one `period` bytes before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepeatedTail {
    /// How to cut the frame before the blocks of the tail.
    pub cut: Cut,
    /// The distance of equal bytes; at most the decoded length before the cut.
    pub period: u64,
    /// From here on every byte is known to equal the one `period` before; may be before the cut. At least `period`.
    pub from: u64,
    /// Positions and expected values of bytes before the cut. If one differs, the tail is not a repetition.
    pub literals: Vec<(u64, u8)>,
}

impl RepeatedTail {
    /// Finds the tail of `frame`, whose summary is `summary`. `None` if there is none, or if it is not certain.
    pub fn find(summary: &FrameSummary, frame: &[u8]) -> Option<RepeatedTail> {
        let size = summary.header.content_size?;
        let n_blocks: usize = summary.blocks.iter().sum();
        if summary.header.checksum || summary.header.dictionary_id != 0 || n_blocks > MAX_BLOCKS {
            return None;
        }
        let is_short =
            |block: &Block| block.kind == BlockKind::Compressed && block.size <= SHORT_BLOCK;
        // The first block that may be part of a tail: only short blocks follow.
        let mut first_short = 0;
        for (i, block) in blocks(frame, &summary.header).enumerate() {
            if !is_short(&block.ok()?) {
                first_short = i + 1;
            }
        }
        if first_short == n_blocks {
            return None;
        }
        let mut search = Search {
            history: History::START,
            position: 0,
            run: None,
            found: None,
            literals: Vec::new(),
            last: None,
        };
        for (i, block) in blocks(frame, &summary.header).enumerate() {
            let block = block.ok()?;
            if block.kind == BlockKind::Compressed {
                let parts = Parts::of(frame.get(block.payload.clone())?)?;
                // The block before the tail is read too, for its offsets.
                if i + 1 >= first_short && parts.is_short() {
                    search.read(&parts, summary.header.block_max())?;
                } else {
                    parts.skip(&mut search.history)?;
                }
            }
            search.last = Some((block.header_at, block.payload.end));
        }
        search.end(size)
    }

    /// The number of planes of `plane_len` bytes after which every plane equals the last of them. That last plane may extend
    /// beyond the cut; its rest then equals the same bytes of the plane before. `None` if the period is not a plane.
    pub fn planes(&self, plane_len: usize) -> Option<usize> {
        if plane_len == 0 || self.period != plane_len as u64 {
            return None;
        }
        usize::try_from(self.from.div_ceil(self.period)).ok()
    }
}

/// Matches of one offset, without a literal between them, to the end of a block.
#[derive(Debug, Clone, Copy)]
struct Run {
    offset: u32,
    start: u64,
}

/// A tail found so far. Positions are relative to the first block whose sequences are read.
#[derive(Debug, Clone, Copy)]
struct Found {
    cut: Cut,
    offset: u32,
    from: u64,
}

/// A search over the blocks of a frame, which reads the sequences of the last ones.
struct Search<'a> {
    history: History<'a>,
    /// Decoded bytes so far.
    position: u64,
    /// The run at the end of the previous block.
    run: Option<Run>,
    found: Option<Found>,
    /// The literals of the tail found so far.
    literals: Vec<(u64, u8)>,
    /// The start of the previous block's header, and the end of its encoded bytes.
    last: Option<(usize, usize)>,
}

impl<'a> Search<'a> {
    fn read(&mut self, parts: &Parts<'a>, block_max: u64) -> Option<()> {
        let start = self.position;
        let before = self.literals.len();
        let literals = &mut self.literals;
        let (mut at, mut n_literals) = (start, 0);
        let mut run: Option<Run> = None;
        // The offset of all sequences, if it is the same. Huffman-coded literals are not examined here, so such a block is no tail.
        let mut offset = None;
        let mut is_tail = !matches!(parts.literals, Literals::Compressed(_));
        parts.sequences(&mut self.history, |sequence| {
            for i in 0..sequence.literals {
                match parts.literals.get(n_literals + i) {
                    Some(byte) if is_tail && literals.len() < before + MAX_LITERALS => {
                        literals.push((at + u64::from(i), byte));
                    }
                    _ => {
                        is_tail = false;
                        break;
                    }
                }
            }
            n_literals += sequence.literals;
            at += u64::from(sequence.literals);
            if sequence.literals > 0 || run.map(|run| run.offset) != sequence.offset {
                run = sequence.offset.map(|offset| Run { offset, start: at });
            }
            at += u64::from(sequence.length);
            is_tail &= sequence.offset.is_some() && (offset.is_none() || offset == sequence.offset);
            offset = sequence.offset;
            (at - start <= block_max).then_some(())
        })?;
        // The remaining literals follow the last match.
        let rest = parts.literals.len().checked_sub(n_literals)?;
        if rest > 0 {
            (run, is_tail) = (None, false);
            at += u64::from(rest);
        }
        if at - start > block_max {
            return None;
        }
        let run_before = std::mem::replace(&mut self.run, run);
        self.position = at;
        let Some(offset) = offset.filter(|_| is_tail) else {
            self.literals.clear();
            self.found = None;
            return Some(());
        };
        if self.found.is_none_or(|found| found.offset != offset) {
            self.literals.drain(..before);
            self.found = None;
            let (last_block_at, encoded_len) = self.last?;
            let from = run_before.filter(|run| run.offset == offset);
            self.found = Some(Found {
                cut: Cut {
                    decoded_len: start,
                    encoded_len,
                    last_block_at,
                },
                offset,
                from: from.map_or(start, |run| run.start),
            });
        }
        (self.literals.len() <= MAX_LITERALS).then_some(())
    }

    /// Finishes the search at the end of the frame, whose content size is `size`.
    fn end(self, size: u64) -> Option<RepeatedTail> {
        let found = self.found?;
        let start = size.checked_sub(self.position)?;
        let (kept, period) = (start + found.cut.decoded_len, u64::from(found.offset));
        if period == 0 || period > kept {
            return None;
        }
        let mut literals: Vec<(u64, u8)> = Vec::new();
        for (at, byte) in self.literals {
            // Moved back by whole periods to before the cut.
            let at = start + at;
            let at = at - ((at - kept) / period + 1) * period;
            match literals.iter().find(|(other, _)| *other == at) {
                None => literals.push((at, byte)),
                Some((_, other)) if *other == byte => {}
                Some(_) => return None,
            }
        }
        Some(RepeatedTail {
            cut: Cut {
                decoded_len: kept,
                ..found.cut
            },
            period,
            from: (start + found.from).max(period),
            literals,
        })
    }
}

/// The result of [`decompress_planes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planes {
    /// Bytes of the output that were written: whole planes, or everything.
    pub written: usize,
    /// Whether every plane after them equals the last of them instead of zero.
    pub repeats: bool,
}

/// Decodes `frame`, whose content must be exactly `dst.len()` bytes: planes of `plane_len` bytes or, if that is 0, plain bytes.
/// Planes at the end that the frame's blocks show to be zero or copies are not written; of plain bytes, zeros are not written.
pub fn decompress_planes(
    frame: &[u8],
    dst: &mut [u8],
    plane_len: usize,
    context: &mut ZstdContext,
) -> Result<Planes, CodecError> {
    if let Some(written) = decompress_repeated(frame, dst, plane_len, context) {
        return Ok(Planes {
            written,
            repeats: written < dst.len(),
        });
    }
    let prefix = decompress_prefix(frame, dst, 0, context)?;
    let whole = prefix.zero_from.checked_next_multiple_of(plane_len.max(1));
    let written = whole.unwrap_or(dst.len()).min(dst.len());
    dst.get_mut(prefix.valid..written)
        .unwrap_or_default()
        .fill(0);
    Ok(Planes {
        written,
        repeats: false,
    })
}

/// Decodes a frame that ends in copies of a plane. Returns the number of bytes written; `None` for other frames.
fn decompress_repeated(
    frame: &[u8],
    dst: &mut [u8],
    plane_len: usize,
    context: &mut ZstdContext,
) -> Option<usize> {
    let summary = FrameSummary::parse(frame).ok()?;
    if summary.len != frame.len()
        || summary.header.content_size != Some(dst.len() as u64)
        || summary.zero_tail > 0
    {
        return None;
    }
    let tail = RepeatedTail::find(&summary, frame)?;
    let written = tail.planes(plane_len)?.checked_mul(plane_len)?;
    let kept = usize::try_from(tail.cut.decoded_len).ok()?;
    if written > dst.len() {
        return None;
    }
    let head = dst.get_mut(..kept)?;
    context.decompress_before(&summary, &tail.cut, frame, head)?;
    for (at, byte) in &tail.literals {
        if head.get(usize::try_from(*at).ok()?) != Some(byte) {
            return None;
        }
    }
    if written > kept {
        // The rest of a plane, copied from the plane before.
        dst.copy_within(kept - plane_len..written - plane_len, kept);
    }
    Some(written)
}

#[cfg(test)]
#[path = "tail_tests.rs"]
mod tests;
