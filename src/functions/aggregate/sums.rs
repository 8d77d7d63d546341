//! Sums of per-site terms: a fixed number of fixed-point sums and integer counts. [`sums_of`](super::sums_of) makes a statistic of
//! a fixed number of populations from them, and [`many_sums_of`](super::many_sums_of) one of any number.

use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use datafusion::common::Result;

use super::statistic::GroupState;
use crate::functions::numeric::FixedSum;
use crate::functions::numeric::blocks::{Counts, SITES, Terms};

/// Σ of `F` kinds of terms in [−1, 1], and `C` counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sums<const F: usize, const C: usize> {
    pub(crate) terms: [FixedSum; F],
    pub(crate) counts: [i64; C],
}

impl<const F: usize, const C: usize> Default for Sums<F, C> {
    fn default() -> Self {
        Self {
            terms: [FixedSum::ZERO; F],
            counts: [0; C],
        }
    }
}

impl<const F: usize, const C: usize> GroupState for Sums<F, C> {}

impl<const F: usize, const C: usize> Sums<F, C> {
    #[inline]
    pub(super) fn add(&mut self, site: Site<F, C>) {
        self.terms
            .iter_mut()
            .zip(site.terms)
            .for_each(|(sum, term)| sum.add(term));
        self.counts
            .iter_mut()
            .zip(site.counts)
            .for_each(|(sum, count)| *sum += count);
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.terms
            .iter_mut()
            .zip(other.terms)
            .for_each(|(sum, other)| sum.merge(other));
        self.counts
            .iter_mut()
            .zip(other.counts)
            .for_each(|(sum, other)| *sum = sum.wrapping_add(other));
    }

    pub(super) fn unmerge(&mut self, other: Self) {
        self.terms
            .iter_mut()
            .zip(other.terms)
            .for_each(|(sum, other)| sum.unmerge(other));
        self.counts
            .iter_mut()
            .zip(other.counts)
            .for_each(|(sum, other)| *sum -= other);
    }
}

impl Sums<2, 0> {
    /// The first sum divided by the second; `None` where that is not positive.
    pub(crate) fn ratio(&self) -> Option<f64> {
        let [numerator, denominator] = self.terms;
        (denominator > FixedSum::ZERO).then(|| numerator.to_f64() / denominator.to_f64())
    }
}

impl Sums<1, 1> {
    /// The sum divided by the count, the number of sites; `None` where there are none.
    pub(crate) fn mean(&self) -> Option<f64> {
        let ([sum], [sites]) = (self.terms, self.counts);
        (sites > 0).then(|| sum.to_f64() / sites as f64)
    }
}

/// What one site adds.
pub(crate) struct Site<const F: usize, const C: usize> {
    /// Terms, each in [−1, 1].
    pub(crate) terms: [f64; F],
    /// Counts.
    pub(crate) counts: [i64; C],
}

/// What the sites of a block add.
pub(crate) struct Block<const F: usize, const C: usize> {
    /// Terms, each in [−1, 1].
    pub(crate) terms: [Terms; F],
    /// Counts.
    pub(crate) counts: [[i64; SITES]; C],
}

/// The type of a statistic's values, and how they become a column. Implemented by Arrow's primitive types.
pub(crate) trait Output {
    /// One value.
    type Value;

    /// The column of these values; `None` is NULL.
    fn column(values: impl Iterator<Item = Option<Self::Value>>) -> Result<ArrayRef>;
}

impl<T: ArrowPrimitiveType> Output for T {
    type Value = T::Native;

    fn column(values: impl Iterator<Item = Option<T::Native>>) -> Result<ArrayRef> {
        Ok(Arc::new(values.collect::<PrimitiveArray<T>>()))
    }
}

/// A statistic that is a function of [`Sums`] over the sites of `P` populations.
pub(crate) trait SiteSums<const P: usize, const F: usize, const C: usize>:
    std::fmt::Debug + Send + Sync + 'static
{
    /// The type of the result.
    type Output: Output;

    /// What a site with these counts in each population adds, if anything.
    fn site(counts: [&[i32]; P]) -> Option<Site<F, C>>;
    /// What the sites of a block add: the same terms as [`site`](Self::site), and 0 where it returns `None`. `None` if the sites have
    /// to be added one by one. Implementations are `#[inline(always)]`.
    fn block<const K: usize>(counts: [&Counts<K>; P]) -> Option<Block<F, C>>;

    /// Computes what several groups share, or returns an error if one of them has no result. Called with all groups before
    /// [`finish`](Self::finish) is called for each.
    fn prepare(&mut self, _groups: &[Sums<F, C>]) -> Result<()> {
        Ok(())
    }

    /// The result; `None` is NULL.
    fn finish(&self, sums: &Sums<F, C>) -> Option<<Self::Output as Output>::Value>;
}

/// A statistic that is a function of [`Sums`] over the sites of any number of populations.
pub(crate) trait ManySums<const F: usize, const C: usize>:
    std::fmt::Debug + Send + Sync + 'static
{
    /// The type of the result.
    type Output: Output;

    /// What a site with these counts adds, if anything: a list for each population, two (`ac` and `het`) for zygosity. `work` is scratch
    /// space, reused from site to site.
    fn site(counts: &[&[i32]], work: &mut Vec<f64>) -> Option<Site<F, C>>;
    /// What the sites of a block add: the same terms as [`site`](Self::site), and 0 where it returns `None`. `None` if the sites have
    /// to be added one by one. Implementations are `#[inline(always)]`.
    fn block<const K: usize>(counts: &[&Counts<K>]) -> Option<Block<F, C>>;

    /// The result; `None` is NULL.
    fn finish(&self, sums: &Sums<F, C>) -> Option<<Self::Output as Output>::Value>;
}
