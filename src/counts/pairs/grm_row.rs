//! [`GrmRow`]: the values of `grm` of one individual and each from it on, made of the sums of a [`Relationship`]. What these have in common is looked up
//! once, and what all pairs have in common once for [`GrmRows`].

use super::relationship::{Relationship, SumRow};
use super::weights::{FRACTION_BITS, GCTA_BITS, grm, nearest, scaled};

/// GCTA's and VanRaden's relationship of a pair, and their number of rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrmPair {
    pub(crate) gcta: f64,
    pub(crate) vanraden: f64,
    pub(crate) sites: i64,
}

/// What the sums of a pair are divided by.
#[derive(Clone, Copy, Debug)]
struct Divisors {
    /// Rows with both as complete diploids.
    sites: i64,
    /// The same, as a double.
    number: f64,
    variance: f64,
}

impl Divisors {
    /// `None` if no row has both as complete diploids.
    fn new(sites: i128, variance: i128) -> Option<Self> {
        (sites > 0 && variance > 0).then(|| Self {
            sites: sites as i64,
            number: nearest(sites),
            variance: nearest(variance),
        })
    }
}

/// The values of `grm` of all individuals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrmRows<'a> {
    of: &'a Relationship,
    /// Those of every pair, if all rows have all individuals as complete diploids.
    divisors: Option<Divisors>,
}

impl<'a> GrmRows<'a> {
    /// Those of the sums of [`Forms::Grm`](super::Forms).
    pub(crate) fn new(of: &'a Relationship) -> Self {
        let same = |at: usize| {
            let sum = of.sums.get(at)?;
            let is_same = sum.pairs.is_empty() && sum.single.iter().all(|single| *single == 0);
            is_same.then_some(sum.total)
        };
        let sums = same(grm::SITES).zip(same(grm::VARIANCE));
        Self {
            of,
            divisors: sums.and_then(|(sites, variance)| Divisors::new(sites, variance)),
        }
    }

    /// Those of individual i and each from it on.
    pub(crate) fn row(&self, i: usize) -> GrmRow<'a> {
        GrmRow {
            sums: std::array::from_fn(|at| self.of.sum_row(at, i)),
            divisors: self.divisors,
        }
    }
}

/// The values of `grm` of an individual i and each j from it on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrmRow<'a> {
    sums: [SumRow<'a>; grm::COUNT],
    /// Those of every pair, if they are the same.
    divisors: Option<Divisors>,
}

impl GrmRow<'_> {
    /// That of individuals i and i + `at`; `None` if no row has both as complete diploids.
    #[inline]
    pub(crate) fn pair(&self, at: usize) -> Option<GrmPair> {
        let sum = |which: usize| self.sums[which].value(at);
        let divisors = match self.divisors {
            Some(divisors) => divisors,
            None => Divisors::new(sum(grm::SITES), sum(grm::VARIANCE))?,
        };
        let centred = (sum(grm::PRODUCTS) << FRACTION_BITS) + sum(grm::CENTRE);
        Some(GrmPair {
            gcta: scaled(sum(grm::GCTA), GCTA_BITS) / divisors.number,
            vanraden: nearest(centred) / divisors.variance,
            sites: divisors.sites,
        })
    }
}
