//! Gathers the bits of a sample set from the planes of a row: the part of [`rows`](super::rows) that keeps genotypes and does not
//! count them.
//!
//! Bits of the set's copies are moved next to each other, 64 at a time, into [`GatheredPlanes`](super::gathered::GatheredPlanes).

use super::gathered::or_bits;
use super::lanes::{Lanes, STRIP};
use super::tally::{RowPosition, Tally, overlap};

/// Bytes of a word of a plane.
const WORD: usize = size_of::<u64>();

/// Where the plane of a row goes.
#[derive(Clone, Copy)]
pub(super) enum Target {
    /// Plane `k` of the codes.
    Code(usize),
    /// Copies that are not called.
    Uncalled,
    /// Copies that do not exist.
    Absent,
}

/// The first `n` bytes of `bytes`, at most 8, as a word; zeros where they end.
#[inline(always)]
fn word_at(bytes: &[u8], n: usize) -> u64 {
    if n >= WORD
        && let Some(word) = bytes.first_chunk()
    {
        return u64::from_le_bytes(*word);
    }
    let mut word = [0; WORD];
    for (to, from) in word.iter_mut().zip(bytes).take(n) {
        *to = *from;
    }
    u64::from_le_bytes(word)
}

/// Adds a piece of a plane of one row to what is gathered for every set: `len` bytes of `plane`, which correspond to the bytes from
/// `at.byte` on of the masks.
#[inline(always)]
pub(super) fn gather_piece<L: Lanes>(
    l: L,
    tally: &mut Tally,
    at: RowPosition,
    plane: &[u8],
    len: usize,
    target: Target,
) {
    if plane.is_empty() {
        return; // no bit is set
    }
    for gather in &at.masks.planes {
        let Some(planes) = tally.out.planes.get_mut(gather.slot.column) else {
            continue;
        };
        let to = match target {
            Target::Code(plane) => plane,
            Target::Uncalled => planes.uncalled(),
            Target::Absent => planes.absent(),
        };
        let (start, stop) = overlap(at, &gather.slot, len);
        let bits_at = |done: usize| {
            let n = stop - done;
            let word = word_at(plane.get(done..).unwrap_or(&[]), n);
            (
                word,
                word_at(at.masks.mask(&gather.slot, at.byte + done), n),
            )
        };
        let mut words = (start..stop).step_by(WORD);
        let Some(first) = words.find(|&done| {
            let (word, mask) = bits_at(done);
            word & mask != 0
        }) else {
            continue;
        };
        let Some(out) = planes.plane_mut(at.row, to) else {
            continue;
        };
        for done in (first..stop).step_by(WORD) {
            let (word, mask) = bits_at(done);
            if word & mask == 0 {
                continue;
            }
            if let Some(rank) = gather.ranks.get(at.byte + done) {
                let bits = if mask == u64::MAX {
                    word
                } else {
                    l.compress(word, mask)
                };
                or_bits(out, gather.first + *rank as usize, bits);
            }
        }
    }
}

/// [`gather_piece`] of one strip.
#[inline(always)]
pub(super) fn gather_strip<L: Lanes>(
    l: L,
    tally: &mut Tally,
    at: RowPosition,
    plane: L::Strip,
    target: Target,
) {
    if !at.masks.planes.is_empty() && !l.is_zero(plane) {
        gather_piece(l, tally, at, &l.store(plane), STRIP, target);
    }
}

/// Keeps the genotypes of one strip; `values` are the planes of its called copies, `negative` the others.
#[inline(always)]
pub(super) fn gather_codes<L: Lanes>(
    l: L,
    tally: &mut Tally,
    at: RowPosition,
    planes: &[L::Strip; 8],
    values: &[L::Strip; 7],
    negative: L::Strip,
) {
    for (k, value) in values.iter().enumerate() {
        gather_strip(l, tally, at, *value, Target::Code(k));
    }
    let absent = absent_copies(l, planes, negative);
    gather_strip(l, tally, at, absent, Target::Absent);
    let uncalled = l.and_not(negative, absent);
    gather_strip(l, tally, at, uncalled, Target::Uncalled);
}

/// The copies with the code -2, which is 0xFE: every plane but the lowest.
#[inline(always)]
pub(super) fn absent_copies<L: Lanes>(
    l: L,
    planes: &[L::Strip; 8],
    negative: L::Strip,
) -> L::Strip {
    let mut absent = l.and_not(negative, planes[0]);
    for plane in &planes[1..7] {
        absent = l.and(absent, *plane);
    }
    absent
}

impl Tally<'_> {
    /// Sets every copy of every row to `code`.
    pub(super) fn gather_uniform(&mut self, rows: usize, code: i64) {
        let Some(masks) = self.masks.unshifted() else {
            return;
        };
        for gather in &masks.planes {
            let copies = self.masks.n_samples(&gather.slot) * self.masks.ploidy;
            if let Some(planes) = self.out.planes.get_mut(gather.slot.column) {
                for row in 0..rows {
                    for copy in gather.first..gather.first + copies {
                        planes.set(row, copy, code);
                    }
                }
            }
        }
    }
}
