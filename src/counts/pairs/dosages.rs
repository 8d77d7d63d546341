//! [`Dosages`]: for each individual of a row the copies of alleles other than the reference, if it is a complete diploid.

use crate::counts::gathered::{ABSENT, PlanesRow, UNCALLED};
use crate::counts::reference::diploid_alleles;

use super::matrix::Shape;

/// The value of an individual that is no complete diploid.
pub(crate) const INCOMPLETE: u8 = 3;
/// The first bits of pairs of bits.
pub(super) const FIRSTS: u64 = 0x5555_5555_5555_5555;

/// The dosages of one row, and their sums.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dosages {
    /// 0, 1, 2 or [`INCOMPLETE`], for each individual.
    pub(crate) values: Vec<u8>,
    /// The individuals whose value is not 0, in order.
    pub(crate) marked: Vec<u32>,
    /// Complete diploids.
    pub(crate) complete: u64,
    /// Σ of their dosages.
    pub(crate) total: u64,
}

impl Dosages {
    /// Reads a row of a population.
    pub(crate) fn read(&mut self, row: PlanesRow<'_>, shape: Shape) {
        match (self.values.len() == shape.samples, shape.ploidy) {
            // Only what was marked is not zero.
            (true, 2) => {
                for at in self.marked.drain(..) {
                    if let Some(value) = self.values.get_mut(at as usize) {
                        *value = 0;
                    }
                }
            }
            _ => {
                self.marked.clear();
                self.values.clear();
                self.values.resize(shape.samples, 0);
            }
        }
        self.complete = shape.samples as u64;
        self.total = 0;
        match shape.ploidy {
            2 => self.read_diploids(row),
            _ => self.read_calls(row, shape),
        }
    }

    fn mark(&mut self, sample: usize, value: u8) {
        if let Some(of) = self.values.get_mut(sample) {
            *of = value;
            self.marked.push(sample as u32);
        }
        match value {
            INCOMPLETE => self.complete -= 1,
            dosage => self.total += u64::from(dosage),
        }
    }

    fn read_diploids(&mut self, row: PlanesRow<'_>) {
        let word = |plane: Option<&[u64]>, at: usize| plane.map_or(0, |plane| plane[at]);
        let (uncalled, absent) = (row.plane(UNCALLED), row.plane(ABSENT));
        for at in 0..row.width() {
            let alt = row.codes().fold(0, |alt, (_, plane)| alt | plane[at]);
            let none = word(uncalled, at) | word(absent, at);
            let none = (none | none >> 1) & FIRSTS;
            let any = (alt | alt >> 1) & FIRSTS | none;
            let mut rest = any;
            while rest != 0 {
                let bit = rest.trailing_zeros();
                let value = match none >> bit & 1 {
                    1 => INCOMPLETE,
                    _ => (alt >> bit & 3).count_ones() as u8,
                };
                self.mark((at * 64 + bit as usize) / 2, value);
                rest &= rest - 1;
            }
        }
    }

    fn read_calls(&mut self, row: PlanesRow<'_>, shape: Shape) {
        for sample in 0..shape.samples {
            let copies = sample * shape.ploidy..(sample + 1) * shape.ploidy;
            let value = match diploid_alleles(copies.map(|copy| row.code(copy))) {
                Some(alleles) => alleles.iter().filter(|allele| **allele > 0).count() as u8,
                None => INCOMPLETE,
            };
            if value != 0 {
                self.mark(sample, value);
            }
        }
    }

    /// Whether 0 < d < n among complete diploids.
    pub(crate) fn is_segregating(&self) -> bool {
        self.total > 0 && self.total < 2 * self.complete
    }

    /// Counts the copies of the reference instead of those of other alleles.
    pub(crate) fn flip(&mut self) {
        self.total = 2 * self.complete - self.total;
        self.marked.clear();
        for (sample, value) in self.values.iter_mut().enumerate() {
            if *value != INCOMPLETE {
                *value = 2 - *value;
            }
            if *value != 0 {
                self.marked.push(sample as u32);
            }
        }
    }
}
