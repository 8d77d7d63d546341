//! [`Sweep`]: goes over rows in one direction, and measures at each one how far pairs of copies are identical up to it.

use std::sync::Arc;

use super::contig_rows::{ContigRows, Side};
use super::homozygosity::Homozygosity;
use super::prefix_order::{CopyPlace, PrefixOrder};
use super::shared_lengths::SharedLengths;

/// What is measured of a group of copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// The sum over pairs of the number of rows over which they are identical.
    SharedLength,
    /// The integral of extended haplotype homozygosity.
    Homozygosity,
}

/// The two groups of copies whose measures are compared.
#[derive(Clone, Debug)]
pub(crate) enum Groups {
    /// At each row the carriers of allele 1, and those of allele 0, among so many copies.
    Alleles(u32),
    /// The copies of two populations. A pair that differs at the row is identical over no rows.
    Populations([Arc<[u32]>; 2]),
}

/// Pairs of `n` copies. Copies are numbered by 32 bits, so this does not overflow.
fn pairs(n: u64) -> u64 {
    n * n.saturating_sub(1) / 2
}

impl Groups {
    /// Pairs in each group, at a row with so many carriers of allele 1.
    pub(super) fn pairs(&self, carriers: u32) -> [u64; 2] {
        match self {
            Self::Alleles(copies) => [carriers, copies.saturating_sub(carriers)]
                .map(u64::from)
                .map(pairs),
            Self::Populations([first, second]) => {
                [first, second].map(|copies| pairs(copies.len() as u64))
            }
        }
    }
}

/// A direction, and the rows so far.
#[derive(Clone, Debug)]
pub(super) struct Sweep {
    measure: Measure,
    /// The side of a row that is measured. Rows are numbered from the outermost one of that side.
    side: Side,
    /// Of all copies, or of each population.
    orders: Vec<PrefixOrder>,
    lengths: SharedLengths,
    homozygosity: Homozygosity,
}

impl Sweep {
    /// Whose first row is number `at` of the rows of a contig.
    pub(super) fn new(
        measure: Measure,
        groups: &Groups,
        rows: &ContigRows,
        side: Side,
        at: usize,
    ) -> Self {
        let before = match side {
            Side::Left => at,
            Side::Right => (rows.len() - 1).saturating_sub(at),
        };
        let bits = |number: u32| match side {
            Side::Left => rows.bits(number as usize),
            Side::Right => rows.bits(rows.len() - 1 - number as usize),
        };
        // There are fewer than 2³² rows.
        let before = before as u32;
        let orders = match groups {
            Groups::Alleles(copies) => vec![PrefixOrder::after(0..*copies, before, bits)],
            Groups::Populations(populations) => populations
                .iter()
                .map(|copies| PrefixOrder::after(copies.iter().copied(), before, bits))
                .collect(),
        };
        Self {
            measure,
            side,
            orders,
            lengths: SharedLengths::default(),
            homozygosity: Homozygosity::default(),
        }
    }

    /// Goes on to row `at`, the next one, and measures both groups at it; NaN where an integral has no end, or there are no pairs.
    pub(super) fn advance(&mut self, rows: &ContigRows, at: usize) -> [f64; 2] {
        let Self {
            measure,
            side,
            orders,
            lengths,
            homozygosity,
        } = self;
        for order in &mut *orders {
            order.advance(rows.bits(at));
        }
        let mut of = |places: [&[CopyPlace]; 2], so_far: u32, all: u64| match measure {
            Measure::SharedLength => {
                let mut sum = 0u128;
                for places in places {
                    lengths.of(places, so_far, |length, pairs| {
                        sum += u128::from(length) * u128::from(pairs);
                    });
                }
                sum as f64
            }
            Measure::Homozygosity => {
                for places in places {
                    lengths.of(places, so_far, |length, pairs| {
                        homozygosity.add(length, pairs);
                    });
                }
                match side {
                    Side::Left => homozygosity.integral(all, rows.gaps_to_the_left(at)),
                    Side::Right => homozygosity.integral(all, rows.gaps_to_the_right(at)),
                }
            }
        };
        match orders.as_slice() {
            [all] => {
                let (zeros, ones) = all.carriers();
                [ones, zeros]
                    .map(|places| of([places, &[]], all.rows(), pairs(places.len() as u64)))
            }
            [first, second] => [first, second].map(|order| {
                let (zeros, ones) = order.carriers();
                of([zeros, ones], order.rows(), pairs(order.copies() as u64))
            }),
            _ => [f64::NAN; 2],
        }
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        let orders: usize = self.orders.iter().map(PrefixOrder::heap_bytes).sum();
        orders + self.lengths.heap_bytes() + self.homozygosity.heap_bytes()
    }
}
