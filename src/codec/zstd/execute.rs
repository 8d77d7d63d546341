//! Decodes the sequences of a compressed zstd block and executes them, with few data-dependent branches.
//!
//! Used by [`decode`](super::decode), with the instructions of `isa` and tables of `fse`. Decoding a sequence depends on the one
//! before it, but not on the output bytes. So each sequence is decoded before the previous one is executed: the CPU overlaps
//! both, and a mispredicted branch in the execution does not delay decoding.

use std::hint::select_unpredictable;
use std::ops::Range;

use super::bits::{above, load, top};
use super::fse::{Cell, FseTable};
use super::isa::{Isa, MIN_PERIOD};

/// Bits available after a load, without those of three states.
const MORE_BITS: usize = 56 - 26;
/// Lowest start position of a stream: a sequence takes up to 89 bits, and loads include up to 63 bits below.
const MIN_START: usize = 128;
/// Literals that are copied for every sequence, further ones for a sequence with more, and bytes that are copied for every
/// match. Most sequences have no more.
const LITERALS: usize = 16;
const MORE_LITERALS: usize = 32;
const LENGTH: usize = 64;
/// Bytes of a long match that are copied in each step.
const LONG: usize = 128;
/// Bytes that may be read after the literals of a sequence.
const READ_AHEAD: usize = LITERALS + MORE_LITERALS;
/// Bytes that may be written after the end of a match.
const SLACK: usize = LENGTH + LONG;

/// Some literals, then a match: a copy of `length` bytes from `offset` bytes before.
#[derive(Debug, Clone, Copy)]
struct Sequence {
    literals: u32,
    length: u32,
    offset: u32,
}

/// A decoder of a block's sequences.
pub(super) struct Sequences<'a, R> {
    frame: &'a [u8],
    /// The position of the next bit, and the start of the stream.
    left: usize,
    start: usize,
    /// Tables for literal lengths, offsets and match lengths.
    tables: &'a [FseTable; 3],
    states: [u64; 3],
    /// Number of bits of the latest states.
    state_bits: usize,
    /// The last three offsets.
    recent: R,
}

impl<'a, R> Sequences<'a, R> {
    /// Starts with the tables and recent offsets of the block; the stream is the bytes `bits` of the frame.
    #[inline(always)]
    pub(super) fn new(
        frame: &'a [u8],
        bits: Range<usize>,
        tables: &'a [FseTable; 3],
        offsets: [u32; 3],
        isa: impl Isa<Recent = R>,
    ) -> Option<Self> {
        let (mut left, start) = above(frame, &bits)?;
        let mut word = load(frame, left)?;
        let states = [0, 1, 2].map(|i: usize| {
            let log = tables[i].log();
            let state = top(word, log);
            word <<= log;
            left = left.wrapping_sub(log as usize);
            state
        });
        // Only nearly empty frames have a stream that starts earlier.
        (left >= start && left < 8 * frame.len() && start >= MIN_START).then_some(Sequences {
            frame,
            left,
            start,
            tables,
            states,
            state_bits: 0,
            recent: isa.recent(offsets),
        })
    }

    /// Decodes and executes all `n` sequences of the block, at least one. Returns the recent offsets.
    #[inline(always)]
    pub(super) fn execute(
        mut self,
        n: usize,
        output: &mut Output<'_>,
        isa: impl Isa<Recent = R>,
    ) -> Option<[u32; 3]> {
        let mut sequence = self.next(isa);
        for _ in 1..n {
            // Required by `next`.
            if self.left < self.start {
                return None;
            }
            let following = self.next(isa);
            output.execute(sequence, isa)?;
            sequence = following;
        }
        output.execute(sequence, isa)?;
        // The stream has no state bits after the last sequence.
        (self.left + self.state_bits == self.start).then(|| isa.offsets(self.recent))
    }

    /// Decodes the next sequence and the next states. `left` must not be less than `start`.
    #[inline(always)]
    fn next(&mut self, isa: impl Isa<Recent = R>) -> Sequence {
        // SAFETY: `left` is less than the bits of the frame and at least `MIN_START - 63`, since at most 63 bits are read between
        // the check in `execute` and this load.
        #[allow(unsafe_code)]
        let load = |left: usize| unsafe {
            debug_assert!(left >= MIN_START - 63 && left < 8 * self.frame.len());
            let at = self.frame.as_ptr().add(left / 8 - 7);
            u64::from_le(at.cast::<u64>().read_unaligned())
        };
        // SAFETY: every state of a table leads to states of the same table, see `FseTable`, and the initial states have as many
        // bits as the table's size.
        #[allow(unsafe_code)]
        let cell = |i: usize| unsafe {
            let cells = self.tables[i].cells();
            debug_assert!(self.states[i] < 1 << self.tables[i].log());
            cells.get_unchecked(self.states[i] as usize)
        };
        let [literal_cell, offset_cell, match_cell] = [cell(0), cell(1), cell(2)];
        let mut word = load(self.left);
        let literal_more = usize::from(literal_cell.more);
        let more = usize::from(offset_cell.more) + usize::from(match_cell.more) + literal_more;
        // Bit offsets in the word; only the lowest six bits matter. The computation of the next states is kept short, because
        // every sequence depends on it.
        let full = self.left | 56;
        let extract = |cell: &Cell, word: u64, end: usize| {
            cell.value + isa.low(word >> (end & 63), cell.more) as u32
        };
        let end_value = full.wrapping_sub(usize::from(offset_cell.more));
        let value = extract(offset_cell, word, end_value);
        let end_length = end_value.wrapping_sub(usize::from(match_cell.more));
        let length = extract(match_cell, word, end_length);
        self.left -= more;
        let (literals, end);
        if more > MORE_BITS {
            let before = self.left + literal_more;
            literals = extract(
                literal_cell,
                load(before),
                (before | 56).wrapping_sub(literal_more),
            );
            word = load(self.left);
            end = self.left | 56;
        } else {
            end = full.wrapping_sub(more);
            literals = extract(literal_cell, word, end);
        }
        let state = |cell: &Cell, taken: usize| {
            u64::from(cell.next) + isa.low(word >> (end.wrapping_sub(taken) & 63), cell.bits)
        };
        let literal_bits = usize::from(literal_cell.bits);
        let two_bits = literal_bits + usize::from(match_cell.bits);
        self.state_bits = two_bits + usize::from(offset_cell.bits);
        self.states = [
            state(literal_cell, literal_bits),
            state(offset_cell, self.state_bits),
            state(match_cell, two_bits),
        ];
        self.left -= self.state_bits;
        Sequence {
            literals,
            length,
            offset: isa.offset(&mut self.recent, value, literals == 0),
        }
    }
}

/// The output of a block.
pub(super) struct Output<'a> {
    /// The decoded bytes of the frame, and room for more.
    dst: &'a mut [u8],
    /// Number of decoded bytes.
    at: usize,
    /// The literals of the block, with padding.
    literals: &'a [u8],
    /// Number of literals that are used so far, and of all.
    literal: usize,
    n_literals: usize,
    /// Bytes of `literals` that fast copies may read.
    readable: usize,
}

impl<'a> Output<'a> {
    /// Continues `dst` at `at`. The first `n_literals` bytes of `literals` are the literals.
    #[inline(always)]
    pub(super) fn new(
        dst: &'a mut [u8],
        at: usize,
        literals: &'a [u8],
        n_literals: usize,
    ) -> Output<'a> {
        Output {
            dst,
            at,
            literals,
            literal: 0,
            n_literals,
            readable: literals.len().min(n_literals + READ_AHEAD),
        }
    }

    /// Executes a sequence.
    #[inline(always)]
    fn execute(&mut self, sequence: Sequence, isa: impl Isa) -> Option<()> {
        let (literals, length) = (sequence.literals as usize, sequence.length as usize);
        let offset = sequence.offset as usize;
        let match_at = self.at + literals;
        let end = match_at + length;
        let literal = self.literal + literals;
        if end + SLACK > self.dst.len()
            || literal + READ_AHEAD > self.readable
            || offset.wrapping_sub(1) >= match_at
        {
            return self.execute_exactly(sequence);
        }
        // SAFETY: `1 <= offset <= match_at`, so matches are read within `dst`. `end` is the end of the match and
        // `end + SLACK <= dst.len()`, so all writes are within `dst`. `literal + READ_AHEAD <= literals.len()`, so literals are read
        // within `literals`.
        #[allow(unsafe_code)]
        unsafe {
            let from = self.literals.as_ptr().add(self.literal);
            let dst = self.dst.as_mut_ptr();
            let to = dst.add(self.at);
            copy::<LITERALS>(from, to);
            if literals > LITERALS {
                if literals > LITERALS + MORE_LITERALS {
                    to.copy_from_nonoverlapping(from, literals);
                } else {
                    copy::<MORE_LITERALS>(from.add(LITERALS), to.add(LITERALS));
                }
            }
            let to = dst.add(match_at);
            let from = to.sub(isa.repeat(to, offset));
            // Bytes after the end of the match are read from the start of `dst` instead: reading bytes that were just written
            // would stall.
            let second = select_unpredictable(length > MIN_PERIOD, from.add(MIN_PERIOD), dst);
            copy::<MIN_PERIOD>(second, to.add(MIN_PERIOD));
            let others =
                select_unpredictable(length > 2 * MIN_PERIOD, from.add(2 * MIN_PERIOD), dst);
            for i in (0..LENGTH - 2 * MIN_PERIOD).step_by(MIN_PERIOD) {
                copy::<MIN_PERIOD>(others.add(i), to.add(2 * MIN_PERIOD + i));
            }
            if length > LENGTH {
                if length > LENGTH + LONG {
                    repeat_long(to, offset, length);
                } else {
                    for i in (LENGTH..LENGTH + LONG).step_by(MIN_PERIOD) {
                        copy::<MIN_PERIOD>(from.add(i), to.add(i));
                    }
                }
            }
        }
        (self.at, self.literal) = (end, literal);
        Some(())
    }

    /// Executes a sequence that is invalid or close to the end of a buffer.
    #[cold]
    #[inline(never)]
    fn execute_exactly(&mut self, sequence: Sequence) -> Option<()> {
        let (literals, length) = (sequence.literals as usize, sequence.length as usize);
        let literal = self.literal + literals;
        let from = self
            .literals
            .get(..self.n_literals)?
            .get(self.literal..literal)?;
        let match_at = self.at + literals;
        let offset = sequence.offset as usize;
        if offset == 0 || offset > match_at || length > self.dst.len().checked_sub(match_at)? {
            return None;
        }
        self.dst.get_mut(self.at..match_at)?.copy_from_slice(from);
        let start = match_at - offset;
        let mut done = 0;
        // Each step copies all bytes of the repetition so far.
        while done < length {
            let n = (offset + done).min(length - done);
            self.dst.copy_within(start..start + n, match_at + done);
            done += n;
        }
        (self.at, self.literal) = (match_at + length, literal);
        Some(())
    }

    /// Writes the literals after the last sequence. Returns the number of decoded bytes.
    #[inline(always)]
    pub(super) fn end(self) -> Option<usize> {
        let from = self.literals.get(self.literal..self.n_literals)?;
        let end = self.at + from.len();
        self.dst.get_mut(self.at..end)?.copy_from_slice(from);
        Some(end)
    }
}

/// Continues a match of `length` bytes, of which the first [`LENGTH`] have been copied.
///
/// # Safety
///
/// `offset` is at least 1; `offset` bytes before `to` and `length + LONG` bytes after it are valid for reads and writes.
#[inline(never)]
#[allow(unsafe_code)]
unsafe fn repeat_long(to: *mut u8, offset: usize, length: usize) {
    // SAFETY: the caller guarantees the range; reads are at least `LENGTH` bytes before writes, and not before the match.
    unsafe {
        if offset == 1 {
            return to.add(LENGTH).write_bytes(to.read(), length - LENGTH);
        }
        if offset >= length {
            let from = to.sub(offset).add(LENGTH);
            let to = to.add(LENGTH);
            return to.copy_from_nonoverlapping(from, length - LENGTH);
        }
        let period = if offset < LENGTH {
            LENGTH.div_ceil(offset) * offset
        } else {
            offset
        };
        for done in (LENGTH..length).step_by(LONG) {
            for i in (done..done + LONG).step_by(32) {
                copy::<32>(to.add(i).sub(period), to.add(i));
            }
        }
    }
}

/// Copies `N` bytes with one load and store.
///
/// # Safety
///
/// `from` is valid for reads of `N` bytes, `to` for writes.
#[inline(always)]
#[allow(unsafe_code)]
unsafe fn copy<const N: usize>(from: *const u8, to: *mut u8) {
    // SAFETY: the caller guarantees both ranges.
    unsafe {
        to.cast::<[u8; N]>()
            .write_unaligned(from.cast::<[u8; N]>().read_unaligned());
    }
}
