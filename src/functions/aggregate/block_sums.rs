//! Adds consecutive sites to sums, a block at a time, with the vector instructions of the host.
//!
//! Used by [`sums_of`](super::sums_of) and [`many_sums_of`](super::many_sums_of) for runs of rows of which none is NULL or filtered out.
//! The result has the same bits as adding the sites one by one, because the terms are the same and their sums are integers.

use std::marker::PhantomData;
use std::ops::Range;

use super::many_sites::ManySites;
use super::sites::Sites;
use super::sums::{Block, ManySums, Site, SiteSums, Sums};
use crate::counts::{Job, Lanes, Level};
use crate::functions::numeric::blocks::{Counts, SITES};
use crate::functions::numeric::fixed_sum::FixedSums;
use crate::functions::numeric::many_blocks::MOST_LISTS;

/// What sites with `P` lists of counts add.
trait SiteTerms<const P: usize, const F: usize, const C: usize> {
    /// What one site adds, if anything.
    fn site(&self, counts: [&[i32]; P]) -> Option<Site<F, C>>;
    /// The same of a block of sites; `None` if they have to be added one by one.
    fn block<const K: usize>(&self, counts: [&Counts<K>; P]) -> Option<Block<F, C>>;
}

/// The terms of a statistic of `P` populations.
struct OfSome<T>(PhantomData<fn() -> T>);

/// The terms of a statistic of any number of populations, which has the first `lists` of the lists.
struct OfMany<T> {
    lists: usize,
    statistic: PhantomData<fn() -> T>,
}

impl<T, const P: usize, const F: usize, const C: usize> SiteTerms<P, F, C> for OfSome<T>
where
    T: SiteSums<P, F, C>,
{
    #[inline(always)]
    fn site(&self, counts: [&[i32]; P]) -> Option<Site<F, C>> {
        T::site(counts)
    }

    #[inline(always)]
    fn block<const K: usize>(&self, counts: [&Counts<K>; P]) -> Option<Block<F, C>> {
        T::block(counts)
    }
}

impl<T, const F: usize, const C: usize> SiteTerms<MOST_LISTS, F, C> for OfMany<T>
where
    T: ManySums<F, C>,
{
    #[inline(always)]
    fn site(&self, counts: [&[i32]; MOST_LISTS]) -> Option<Site<F, C>> {
        // Only sites of blocks with very many copies come here, so an allocation does not matter.
        T::site(counts.get(..self.lists)?, &mut Vec::new())
    }

    #[inline(always)]
    fn block<const K: usize>(&self, counts: [&Counts<K>; MOST_LISTS]) -> Option<Block<F, C>> {
        T::block(counts.get(..self.lists)?)
    }
}

/// Adds the sites of `rows`. Returns false, and adds nothing, if there is no block code for their number of alleles.
pub(super) fn add<T, const P: usize, const F: usize, const C: usize>(
    level: Level,
    sums: &mut Sums<F, C>,
    sites: &Sites<'_, P>,
    rows: &Range<usize>,
) -> bool
where
    T: SiteSums<P, F, C>,
{
    let of = OfSome::<T>(PhantomData);
    // As in `Sites::try_for_each`.
    let sum = sum_of_width(level, &of, sites.of_width::<2>(), rows)
        .or_else(|| sum_of_width(level, &of, sites.of_width::<3>(), rows))
        .or_else(|| sum_of_width(level, &of, sites.of_width::<4>(), rows));
    sum.map(|sum| sums.merge(sum)).is_some()
}

/// Adds the sites of `rows`. Returns false, and adds nothing, if there is no block code for their numbers of alleles and lists.
pub(super) fn add_many<T, const F: usize, const C: usize>(
    level: Level,
    sums: &mut Sums<F, C>,
    sites: &ManySites<'_>,
    rows: &Range<usize>,
) -> bool
where
    T: ManySums<F, C>,
{
    let of = OfMany::<T> {
        lists: sites.lists(),
        statistic: PhantomData,
    };
    let sum = sum_of_width(level, &of, sites.of_width::<2>(), rows)
        .or_else(|| sum_of_width(level, &of, sites.of_width::<3>(), rows))
        .or_else(|| sum_of_width(level, &of, sites.of_width::<4>(), rows));
    sum.map(|sum| sums.merge(sum)).is_some()
}

/// The sums over `rows` of `sites`, which have `K` alleles each.
fn sum_of_width<T, const P: usize, const F: usize, const C: usize, const K: usize>(
    level: Level,
    of: &T,
    sites: Option<[&[[i32; K]]; P]>,
    rows: &Range<usize>,
) -> Option<Sums<F, C>>
where
    T: SiteTerms<P, F, C>,
{
    let mut run = [&[][..]; P];
    for (run, all) in run.iter_mut().zip(sites?) {
        *run = all.get(rows.clone())?;
    }
    Some(level.run(Run {
        of,
        sites: run,
        sums: PhantomData,
    }))
}

/// The sums over some sites.
struct Run<'a, T, const P: usize, const F: usize, const C: usize, const K: usize> {
    of: &'a T,
    sites: [&'a [[i32; K]]; P],
    sums: PhantomData<Sums<F, C>>,
}

impl<T, const P: usize, const F: usize, const C: usize, const K: usize> Job
    for Run<'_, T, P, F, C, K>
where
    T: SiteTerms<P, F, C>,
{
    type Output = Sums<F, C>;

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) -> Sums<F, C> {
        let mut sums = Sums::default();
        let mut rest = self.sites;
        while rest.iter().any(|rows| !rows.is_empty()) {
            let mut some = rest;
            for (some, rest) in some.iter_mut().zip(&mut rest) {
                let most = rest.len().min(SITES * FixedSums::<SITES>::TERMS);
                (*some, *rest) = rest.split_at(most);
            }
            add_some(self.of, some, &mut sums);
        }
        sums
    }
}

/// Adds at most as many sites as [`FixedSums`] can hold terms.
#[inline(always)]
fn add_some<T, const P: usize, const F: usize, const C: usize, const K: usize>(
    of: &T,
    rows: [&[[i32; K]]; P],
    sums: &mut Sums<F, C>,
) where
    T: SiteTerms<P, F, C>,
{
    let mut terms = [FixedSums::<SITES>::ZERO; F];
    let mut counts = [[0i64; SITES]; C];
    let len = rows.iter().map(|rows| rows.len()).min().unwrap_or(0);
    let mut start = 0;
    let mut padded = [[[0; K]; SITES]; P];
    while start < len {
        let mut block: [&[[i32; K]; SITES]; P] = [&[[0; K]; SITES]; P];
        for ((block, padded), rows) in block.iter_mut().zip(&mut padded).zip(rows) {
            *block = match rows[start..].first_chunk() {
                Some(block) => block,
                // The last block is padded with sites without counts, which add nothing.
                None => {
                    padded[..len - start].copy_from_slice(&rows[start..len]);
                    padded
                }
            };
        }
        start += SITES;
        match of.block(block) {
            Some(block) => {
                for (sum, terms) in terms.iter_mut().zip(&block.terms) {
                    sum.add(terms);
                }
                for (sum, counts) in counts.iter_mut().zip(&block.counts) {
                    for (sum, count) in sum.iter_mut().zip(counts) {
                        *sum += count;
                    }
                }
            }
            None =>
            {
                #[expect(clippy::needless_range_loop, reason = "one site in all populations")]
                for i in 0..SITES {
                    if let Some(site) = of.site(std::array::from_fn(|p| &block[p][i][..])) {
                        sums.add(site);
                    }
                }
            }
        }
    }
    let mut added = Sums::default();
    for (sum, terms) in added.terms.iter_mut().zip(&terms) {
        *sum = terms.total();
    }
    for (sum, counts) in added.counts.iter_mut().zip(&counts) {
        *sum = counts.iter().sum();
    }
    sums.merge(added);
}
