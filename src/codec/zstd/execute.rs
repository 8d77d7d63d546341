//! The sequences of a compressed zstd block: reads them and executes them, without a branch that depends on what most of them are.
//!
//! Used by [`zstd_decode`](super::decode), with the instructions of `zstd_isa`, on tables whose form `zstd_fse` sees to. To read
//! a sequence means to wait for the one before, not for the bytes, so each is read before the one before is executed: the processor
//! then does both at once, and what it guesses wrong about the bytes does not cost what is read.

use std::hint::select_unpredictable;
use std::ops::Range;

use super::bits::{above, load, top};
use super::fse::{Cell, Table};
use super::isa::{Isa, MIN_PERIOD};

/// Bits that are there at least after the bits of a word are loaded, less those of three states.
const MORE_BITS: usize = 56 - 26;
/// The lowest bit that a stream may start at: a sequence takes up to 89 bits, and is loaded from as many as 63 bits below.
const MIN_START: usize = 128;
/// Literals that are copied of any sequence, and of one that has more; bytes of a match. Most have no more.
const LITERALS: usize = 16;
const MORE_LITERALS: usize = 32;
const LENGTH: usize = 64;
/// Bytes of a long match that are copied at once.
const LONG: usize = 128;
/// Bytes that may be read after the literals of a sequence.
const READ_AHEAD: usize = LITERALS + MORE_LITERALS;
/// Bytes that may be written after the end of a match.
const SLACK: usize = LENGTH + LONG;

/// A match of `length` bytes that come `offset` bytes before, after some literals.
#[derive(Debug, Clone, Copy)]
struct Sequence {
    literals: u32,
    length: u32,
    offset: u32,
}

/// Sequences as they are read.
pub(super) struct Sequences<'a, R> {
    frame: &'a [u8],
    /// Bits of the frame that are below what is read next, and below what may be read.
    left: usize,
    start: usize,
    /// Of literals, offsets and matches.
    tables: &'a [Table; 3],
    states: [u64; 3],
    /// The bits of the latest states.
    state_bits: usize,
    /// The last three offsets.
    recent: R,
}

impl<'a, R> Sequences<'a, R> {
    /// `tables` and `offsets` are those that the block starts with; the stream is at `bits` in the frame.
    #[inline(always)]
    pub(super) fn new(
        frame: &'a [u8],
        bits: Range<usize>,
        tables: &'a [Table; 3],
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
        // Of what libzstd writes, only frames of next to nothing start before.
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

    /// Reads and executes all sequences of the block, `n` of them, 1 or more; the last three offsets.
    #[inline(always)]
    pub(super) fn execute(
        mut self,
        n: usize,
        output: &mut Output<'_>,
        isa: impl Isa<Recent = R>,
    ) -> Option<[u32; 3]> {
        let mut sequence = self.next(isa);
        for _ in 1..n {
            // So that the next one can be read.
            if self.left < self.start {
                return None;
            }
            let following = self.next(isa);
            output.execute(sequence, isa)?;
            sequence = following;
        }
        output.execute(sequence, isa)?;
        // After the last one, there are no bits of states.
        (self.left + self.state_bits == self.start).then(|| isa.offsets(self.recent))
    }

    /// Reads the next sequence, and the next states. `left` must not be less than `start`.
    #[inline(always)]
    fn next(&mut self, isa: impl Isa<Recent = R>) -> Sequence {
        // SAFETY: `left` is at least `MIN_START` less 63 bits that were read before, and less than the bits of the frame.
        #[allow(unsafe_code)]
        let load = |left: usize| unsafe {
            debug_assert!(left >= MIN_START - 63 && left < 8 * self.frame.len());
            let at = self.frame.as_ptr().add(left / 8 - 7);
            u64::from_le(at.cast::<u64>().read_unaligned())
        };
        // SAFETY: all states that a table leads to are its own, see `Table`, and the first ones have no more bits than it.
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
        // Where in the word the bits end that are read next: of such a number the lowest six bits count. The way to the next
        // states is a short one, because every sequence waits for it.
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

/// What a block is decoded to.
pub(super) struct Output<'a> {
    /// All that is decoded, and room for more.
    dst: &'a mut [u8],
    /// Bytes of it that are there.
    at: usize,
    /// The literals of the block, and bytes after them.
    literals: &'a [u8],
    /// How many of them are used, and how many there are.
    literal: usize,
    n_literals: usize,
    /// Of the bytes with literals, those that can be read at once.
    readable: usize,
}

impl<'a> Output<'a> {
    /// Continues `dst` at `at`. Of `literals` the first `n_literals` are literals.
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
        // SAFETY: `1 <= offset <= match_at`, so what is read is after the start, and before what was written by then, at the end
        // at the latest; `end + SLACK <= dst.len()`, of which `end` is the end of the match, so what is written is before the end;
        // `literal + READ_AHEAD <= literals.len()`.
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
            // What is after the end is read elsewhere: here it may have been written just now, and would have to be waited for.
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

    /// Executes a sequence that is not valid, or close to an end.
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
        // What is there of the repetition, again and again.
        while done < length {
            let n = (offset + done).min(length - done);
            self.dst.copy_within(start..start + n, match_at + done);
            done += n;
        }
        (self.at, self.literal) = (match_at + length, literal);
        Some(())
    }

    /// Writes the literals after the last sequence; how much is decoded then.
    #[inline(always)]
    pub(super) fn end(self) -> Option<usize> {
        let from = self.literals.get(self.literal..self.n_literals)?;
        let end = self.at + from.len();
        self.dst.get_mut(self.at..end)?.copy_from_slice(from);
        Some(end)
    }
}

/// Continues a match of `length` bytes, more than [`LENGTH`] of them, of which so many are there.
///
/// # Safety
///
/// `offset` bytes before, 1 or more, and `length + LONG` after `to` can be read and written.
#[inline(never)]
#[allow(unsafe_code)]
unsafe fn repeat_long(to: *mut u8, offset: usize, length: usize) {
    // SAFETY: the caller's; what is read is `LENGTH` bytes before what is written, or more, and not before the offset.
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

/// Copies `N` bytes at once.
///
/// # Safety
///
/// So many bytes can be read, and written.
#[inline(always)]
#[allow(unsafe_code)]
unsafe fn copy<const N: usize>(from: *const u8, to: *mut u8) {
    // SAFETY: the caller's.
    unsafe {
        to.cast::<[u8; N]>()
            .write_unaligned(from.cast::<[u8; N]>().read_unaligned());
    }
}
