//! Finds the tail of a zstd frame that only repeats what comes before it, plane by plane.
//!
//! A missing call is -1, so all bits of its code are equal but the lowest, which tells it from a filler: the higher bit-planes of
//! a bit-shuffled block of genotypes are copies of each other. Its frame then ends in short blocks of one sequence each, a
//! byte and a match of all the rest, from one plane before. What such blocks say is read here
//! (`zstd_sequences`), so that they need not be decoded: on the host, where
//! [`decompress_planes`] leaves the copies out, and on the GPU, whose plan cuts the frame.
//!
//! As with a tail of zeros, this never changes which frames are accepted, nor what they hold: the blocks of the tail are valid, they
//! fill up the content size exactly, and all of their bytes are matches of the one offset, or literals that
//! [`RepeatedTail::literals`] lists, to be compared with what is decoded. A frame of any other shape is decoded whole.

use super::context::ZstdContext;
use super::cut::Cut;
use super::frame::{Block, BlockKind, FrameSummary, blocks};
use super::prefix::decompress_prefix;
use super::sequences::{History, Literals, Parts};

/// Encoded bytes of the blocks that a tail is made of, at most.
const SHORT_BLOCK: usize = 48;
/// The most blocks of a frame that is looked at.
const MAX_BLOCKS: usize = 64;
/// The most literals of a tail.
const MAX_LITERALS: usize = 16;

/// A tail of a frame in which every byte equals the one `period` bytes before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepeatedTail {
    /// How to cut the frame before the blocks of the tail.
    pub cut: Cut,
    /// The distance of the bytes that are equal; no more than what is left of the frame.
    pub period: u64,
    /// From here on every byte is known to equal the one before, which may be before the end of what is left. At least `period`.
    pub from: u64,
    /// Bytes of what is left of the frame, by where they are, that must be these, or the tail is no repetition.
    pub literals: Vec<(u64, u8)>,
}

impl RepeatedTail {
    /// Finds the tail of `frame`, of which `summary` is the summary. `None` where there is none, or it cannot be told.
    pub fn find(summary: &FrameSummary, frame: &[u8]) -> Option<RepeatedTail> {
        let size = summary.header.content_size?;
        let n_blocks: usize = summary.blocks.iter().sum();
        if summary.header.checksum || summary.header.dictionary_id != 0 || n_blocks > MAX_BLOCKS {
            return None;
        }
        let is_short =
            |block: &Block| block.kind == BlockKind::Compressed && block.size <= SHORT_BLOCK;
        // The first block that may be part of a tail: none but short ones come after it.
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
                // Of the block before, the offsets.
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

    /// The number of planes that everything can be made of, where a plane has `plane_len` bytes: every plane after them
    /// equals the last of them. Not all of that last one has to be left of the frame; the rest of it then equals the same bytes
    /// of the plane before. `None` where it is not planes that repeat.
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

/// A tail as far as it is found. Positions count from the first block whose sequences are read.
#[derive(Debug, Clone, Copy)]
struct Found {
    cut: Cut,
    offset: u32,
    from: u64,
}

/// A walk over the blocks of a frame, of which it reads the sequences of the last.
struct Search<'a> {
    history: History<'a>,
    /// Decoded bytes so far.
    position: u64,
    /// The end of the block before.
    run: Option<Run>,
    found: Option<Found>,
    /// Where the literals of what is found are.
    literals: Vec<(u64, u8)>,
    /// Where the header of the block before starts, and where its encoded bytes end.
    last: Option<(usize, usize)>,
}

impl<'a> Search<'a> {
    fn read(&mut self, parts: &Parts<'a>, block_max: u64) -> Option<()> {
        let start = self.position;
        let before = self.literals.len();
        let literals = &mut self.literals;
        let (mut at, mut n_literals) = (start, 0);
        let mut run: Option<Run> = None;
        // The one offset of the block, if that is all it has. Compressed literals are not looked at here, not even whether none of them
        // are well formed.
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
        // The literals that are left come after the last match.
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

    /// `size`: of the whole content, at whose end the walk is.
    fn end(self, size: u64) -> Option<RepeatedTail> {
        let found = self.found?;
        let start = size.checked_sub(self.position)?;
        let (kept, period) = (start + found.cut.decoded_len, u64::from(found.offset));
        if period == 0 || period > kept {
            return None;
        }
        let mut literals: Vec<(u64, u8)> = Vec::new();
        for (at, byte) in self.literals {
            // As many periods before as it takes to be in what is left.
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

/// What [`decompress_planes`] wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planes {
    /// Bytes of the output that were written: whole planes, or everything.
    pub written: usize,
    /// Whether every plane after them equals the last of them, rather than zero.
    pub repeats: bool,
}

/// Decodes `frame`, whose content must be exactly `dst.len()` bytes: planes of `plane_len` bytes, or, if that is 0, bytes. Planes
/// at the end that are zero, or equal to the last one before, are not written where the frame's blocks show it; of bytes, zeros.
pub fn decompress_planes(
    frame: &[u8],
    dst: &mut [u8],
    plane_len: usize,
    context: &mut ZstdContext,
) -> Result<Planes, String> {
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

/// Bytes that were written, if the frame ends in copies of a plane; `None` if it has to be decoded otherwise.
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
        // Less than a plane; what it equals was decoded.
        dst.copy_within(kept - plane_len..written - plane_len, kept);
    }
    Some(written)
}

#[cfg(test)]
#[path = "tail_tests.rs"]
mod tests;
