//! [`SiteBits`]: the bits of one site.

use crate::counts::gathered::{ABSENT, FILL_CODE, PlanesRow, UNCALLED, plane_words};
use crate::counts::pairs::Shape;

/// The copies of one site. Its buffers are used again for the next.
#[derive(Clone, Debug, Default)]
pub(crate) struct SiteBits {
    /// Copies that are called with another allele than the reference.
    pub(crate) alternate: Vec<u64>,
    /// Called copies; empty where all are.
    pub(crate) called: Vec<u64>,
    /// Number of called copies.
    pub(crate) n: usize,
    /// Number of those with another allele than the reference.
    pub(crate) d: usize,
}

/// The set bits of a plane.
pub(super) fn ones(words: &[u64]) -> usize {
    words.iter().map(|word| word.count_ones() as usize).sum()
}

/// The other copy of each pair: bits 2i and 2i + 1 change places.
#[inline(always)]
pub(super) fn swapped(word: u64) -> u64 {
    const FIRST: u64 = 0x5555_5555_5555_5555;
    (word & FIRST) << 1 | word >> 1 & FIRST
}

/// A plane of `copies` set bits.
pub(super) fn all_ones(copies: usize) -> Vec<u64> {
    let mut words = vec![u64::MAX; plane_words(copies)];
    if let (Some(last), rest @ 1..) = (words.last_mut(), copies % 64) {
        *last = (1 << rest) - 1;
    }
    words
}

impl SiteBits {
    /// The copies of `row`, of which there are `copies`.
    pub(crate) fn of_copies(&mut self, row: PlanesRow<'_>, copies: usize) {
        self.alternate.clear();
        self.alternate.resize(plane_words(copies), 0);
        for (_, plane) in row.codes() {
            for (sum, word) in self.alternate.iter_mut().zip(plane) {
                *sum |= word;
            }
        }
        self.called.clear();
        self.n = copies;
        if !row.is_complete() {
            self.called = all_ones(copies);
            for bit in [UNCALLED, ABSENT] {
                for (called, word) in self.called.iter_mut().zip(row.plane(bit).unwrap_or(&[])) {
                    *called &= !word;
                }
            }
            self.n = ones(&self.called);
        }
        self.d = ones(&self.alternate);
    }

    /// The complete diploids of `row`, individuals with exactly two copies, both called: copies 2i and 2i + 1 are those of individual i.
    pub(crate) fn of_diploids(&mut self, row: PlanesRow<'_>, shape: Shape) {
        if shape.ploidy == 2 {
            self.of_copies(row, shape.copies());
            for (called, alternate) in self.called.iter_mut().zip(&mut self.alternate) {
                *called &= swapped(*called);
                *alternate &= *called;
            }
        } else {
            let copies = shape.samples.saturating_mul(2);
            for plane in [&mut self.alternate, &mut self.called] {
                plane.clear();
                plane.resize(plane_words(copies), 0);
            }
            for sample in 0..shape.samples {
                let slots = sample * shape.ploidy..(sample + 1) * shape.ploidy;
                let mut codes = slots.map(|slot| row.code(slot)).filter(|c| *c != FILL_CODE);
                let found = [codes.next(), codes.next(), codes.next()];
                let [Some(first), Some(second), None] = found else {
                    continue;
                };
                if first < 0 || second < 0 {
                    continue;
                }
                let (word, at) = (sample / 32, sample % 32 * 2);
                self.called[word] |= 3 << at;
                self.alternate[word] |= (u64::from(first > 0) | u64::from(second > 0) << 1) << at;
            }
        }
        if !self.called.is_empty() {
            self.n = ones(&self.called);
        }
        self.d = ones(&self.alternate);
    }

    /// Whether both alleles are among the called copies.
    pub(crate) fn is_segregating(&self) -> bool {
        0 < self.d && self.d < self.n
    }
}
