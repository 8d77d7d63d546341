//! Bit streams that are read from their end, as [`zstd_decode`](super::decode) reads them: many bits in one load.
//!
//! Where a stream is read is a number of bits, counted from the start of the frame that it lies in. What is loaded reaches below the
//! start of a stream, into what comes before it in the frame; who reads sees to it that no bit of that is used in the end.

use std::ops::Range;

/// Where the highest bit of the stream `src` is, below the mark of its end, and where its lowest.
#[inline(always)]
pub(super) fn above(frame: &[u8], src: &Range<usize>) -> Option<(usize, usize)> {
    let last = frame.get(src.clone())?.last()?.checked_ilog2()?;
    Some(((src.end - 1) * 8 + last as usize, src.start * 8))
}

/// The bits below `left`, at least 57 of them, from the highest bit of the word down. `None` if there are no 64 in the frame.
#[inline(always)]
pub(super) fn load(frame: &[u8], left: usize) -> Option<u64> {
    let from = left.div_ceil(8).checked_sub(8)?;
    let word = frame.get(from..)?.first_chunk::<8>()?;
    Some(u64::from_le_bytes(*word) << (left.wrapping_neg() & 7))
}

/// The highest `n` bits of a word; less than 64.
#[inline(always)]
pub(super) fn top(word: u64, n: u32) -> u64 {
    word.rotate_left(n) & !(u64::MAX << n)
}
