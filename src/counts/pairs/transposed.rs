//! The bits of rows of bit-planes by copy: word `g` of a copy holds its bits of rows 64 g to 64 g + 63.

use crate::counts::gathered::{ABSENT, PlanesRow, UNCALLED};
use crate::counts::{CountError, Workers};

use super::matrix::zeros;

/// Planes of some rows, transposed.
#[derive(Debug)]
pub(super) struct Transposed {
    /// Words of a copy: one for each 64 rows.
    pub(super) words: usize,
    /// For each plane, the words of each copy.
    bits: Vec<u64>,
    copies: usize,
}

/// Transposes 64 × 64 bits: bit `j` of word `i` becomes bit `i` of word `j` (Warren, Hacker's Delight, 7-3).
#[inline]
fn transpose(block: &mut [u64; 64]) {
    let (mut width, mut mask) = (32, 0x0000_0000_ffff_ffffu64);
    while width > 0 {
        let mut at = 0;
        while at < 64 {
            let (low, high) = (block[at], block[at | width]);
            let moved = (low >> width ^ high) & mask;
            block[at | width] = high ^ moved;
            block[at] = low ^ moved << width;
            at = ((at | width) + 1) & !width;
        }
        width /= 2;
        mask ^= mask << width;
    }
}

/// Copies that are transposed at a time.
const BLOCK: usize = 64;

/// The words of a plane of each row: those of a plane of codes, or at `planes` those of uncalled and of absent copies.
fn sources<'a>(rows: &[PlanesRow<'a>], plane: usize, planes: usize) -> Vec<[&'a [u64]; 2]> {
    let of_row = |row: &PlanesRow<'a>| match plane < planes {
        true => [
            row.codes().nth(plane).map_or(&[][..], |(_, plane)| plane),
            &[],
        ],
        false => [UNCALLED, ABSENT].map(|bit| row.plane(bit).unwrap_or_default()),
    };
    rows.iter().map(of_row).collect()
}

/// Word `at` of all rows, xor `inverse`, as the bits of 64 copies, `words` words each.
fn transpose_block(
    sources: &[[&[u64]; 2]],
    at: usize,
    inverse: u64,
    bits: &mut [u64],
    words: usize,
) {
    // Eight words of a copy are a line of the cache.
    for (line, rows) in sources.chunks(8 * 64).enumerate() {
        let mut blocks = [[0u64; 64]; 8];
        let groups = rows.len().div_ceil(64);
        for (block, rows) in blocks.iter_mut().zip(rows.chunks(64)) {
            for (to, [first, second]) in block.iter_mut().zip(rows) {
                let word = |of: &[u64]| of.get(at).copied().unwrap_or(0);
                *to = (word(first) | word(second)) ^ inverse;
            }
            transpose(block);
        }
        for (copy, bits) in bits.chunks_exact_mut(words).enumerate() {
            let line = bits.get_mut(line * 8..line * 8 + groups);
            for (to, block) in line.unwrap_or_default().iter_mut().zip(&blocks) {
                *to = block[copy];
            }
        }
    }
}

impl Transposed {
    /// The planes of codes of `rows`, which have at most `planes` each, in the order of their bits; then, if `called`, the plane of
    /// called copies. Bits of rows past the last are zero.
    pub(super) fn try_new(
        rows: &[PlanesRow<'_>],
        copies: usize,
        planes: usize,
        called: bool,
        workers: &Workers<'_>,
    ) -> Result<Self, CountError> {
        let words = rows.len().div_ceil(64);
        let all = planes + usize::from(called);
        let len = words.saturating_mul(copies).saturating_mul(all);
        let mut bits: Vec<u64> = zeros(len, copies)?;
        let sources: Vec<Vec<[&[u64]; 2]>> =
            (0..all).map(|plane| sources(rows, plane, planes)).collect();
        let of_planes = bits.chunks_mut((copies * words).max(1));
        let blocks = of_planes.zip(&sources).enumerate();
        let blocks = blocks.flat_map(|(plane, (bits, sources))| {
            let blocks = bits.chunks_mut((BLOCK * words).max(1)).enumerate();
            blocks.map(move |(at, bits)| (plane, at, bits, sources))
        });
        workers.each(blocks, |(plane, at, bits, sources)| {
            // Called copies are those that are neither uncalled nor absent.
            let inverse = if plane == planes { u64::MAX } else { 0 };
            transpose_block(sources, at, inverse, bits, words);
            Ok(())
        })?;
        Ok(Self {
            words,
            bits,
            copies,
        })
    }

    /// The words of a copy in a plane.
    #[inline(always)]
    pub(super) fn of(&self, plane: usize, copy: usize) -> &[u64] {
        let from = (plane * self.copies + copy) * self.words;
        &self.bits[from..from + self.words]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::gathered::GatheredPlanes;

    #[test]
    fn bits_are_found_again() {
        for (rows, copies) in [(1, 1), (64, 64), (70, 130), (200, 3)] {
            let code = |row: usize, copy: usize| ((row * 13 + copy * 7) % 6) as i64 - 2;
            let mut planes = GatheredPlanes::default();
            planes.reset(rows, copies, 4).unwrap();
            let words: Vec<Vec<u64>> = (0..rows)
                .map(|row| {
                    (0..copies).for_each(|copy| planes.set(row, copy, code(row, copy)));
                    let mut words = vec![];
                    planes.push_row(row, &mut words);
                    words
                })
                .collect();
            let view: Vec<_> = words
                .iter()
                .map(|words| PlanesRow::try_new(words, copies).unwrap())
                .collect();
            let found = Transposed::try_new(&view, copies, 2, true, &Workers::ALONE).unwrap();
            for (row, view) in view.iter().enumerate() {
                // Codes have as many planes as bits that occur in the row.
                let present: Vec<u32> = view.codes().map(|(bit, _)| bit).collect();
                for copy in 0..copies {
                    let bit = |plane| found.of(plane, copy)[row / 64] >> (row % 64) & 1;
                    let code = code(row, copy);
                    assert_eq!(bit(2), u64::from(code >= 0), "{row} {copy}");
                    for (plane, at) in present.iter().enumerate() {
                        let wanted = code.max(0) as u64 >> at & 1;
                        assert_eq!(bit(plane), wanted, "{row} {copy} {plane}");
                    }
                }
            }
        }
    }
}
