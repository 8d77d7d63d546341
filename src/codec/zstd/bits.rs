//! Bit streams that are read backwards from their end, many bits with one load, for [`decode`](super::decode).
//!
//! Positions are counted in bits from the start of the frame. A load may include bytes before the start of the stream; callers
//! must not use their bits in a result.

use std::ops::Range;

/// The positions of the end and the start of the stream `src`. The end is below the marker bit, the highest set bit.
#[inline(always)]
pub(super) fn above(frame: &[u8], src: &Range<usize>) -> Option<(usize, usize)> {
    let last = frame.get(src.clone())?.last()?.checked_ilog2()?;
    Some(((src.end - 1) * 8 + last as usize, src.start * 8))
}

/// The bits below position `left`, at least 57 of them, from the highest bit of the word down. `None` if fewer than 64 bits of
/// the frame are below.
#[inline(always)]
pub(super) fn load(frame: &[u8], left: usize) -> Option<u64> {
    let from = left.div_ceil(8).checked_sub(8)?;
    let word = frame.get(from..)?.first_chunk::<8>()?;
    Some(u64::from_le_bytes(*word) << (left.wrapping_neg() & 7))
}

/// The highest `n` bits of a word; `n` is less than 64.
#[inline(always)]
pub(super) fn top(word: u64, n: u32) -> u64 {
    word.rotate_left(n) & !(u64::MAX << n)
}
