//! [`GrmRow`]: the values of `grm` of one individual and each from it on, made of the sums of a [`Relationship`](super::Relationship). What these have in
//! common is looked up once.

use super::weights::{FRACTION_BITS, GCTA_BITS, grm, nearest, scaled};

/// GCTA's and VanRaden's relationship of a pair, and their number of rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrmPair {
    pub(crate) gcta: f64,
    pub(crate) vanraden: f64,
    pub(crate) sites: i64,
}

/// One of the sums of a [`Relationship`](super::Relationship) for an individual i and each j from it on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SumRow<'a> {
    /// total − single[i].
    pub(super) all_but_second: i128,
    /// From individual i on.
    pub(super) single: &'a [i128],
    /// From the pair of i with itself on; empty if all are 0.
    pub(super) pairs: &'a [i128],
}

impl SumRow<'_> {
    /// That of individuals i and i + `at`.
    #[inline]
    pub(super) fn value(&self, at: usize) -> i128 {
        let number = |numbers: &[i128]| numbers.get(at).copied().unwrap_or(0);
        self.all_but_second - number(self.single) + number(self.pairs)
    }
}

/// The values of `grm` of an individual i and each j from it on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrmRow<'a> {
    pub(super) sums: [SumRow<'a>; grm::COUNT],
}

impl GrmRow<'_> {
    /// That of individuals i and i + `at`; `None` if no row has both as complete diploids.
    #[inline]
    pub(crate) fn pair(&self, at: usize) -> Option<GrmPair> {
        let sum = |which: usize| self.sums[which].value(at);
        let (sites, variance) = (sum(grm::SITES), sum(grm::VARIANCE));
        if sites <= 0 || variance <= 0 {
            return None;
        }
        let centred = (sum(grm::PRODUCTS) << FRACTION_BITS) + sum(grm::CENTRE);
        Some(GrmPair {
            gcta: scaled(sum(grm::GCTA), GCTA_BITS) / nearest(sites),
            vanraden: nearest(centred) / nearest(variance),
            sites: sites as i64,
        })
    }
}
