//! Adds consecutive sites to sums, a block at a time, with the vector instructions of the host.
//!
//! Used by [`sums_of`](super::sums_of) for runs of rows of which none is NULL or filtered out. The result has the same bits as adding the
//! sites one by one, because the terms are the same and their sums are integers.

use std::marker::PhantomData;
use std::ops::Range;

use super::sites::Sites;
use super::sums::{SiteSums, Sums};
use crate::counts::{Job, Lanes, Level};
use crate::functions::numeric::blocks::SITES;
use crate::functions::numeric::fixed_sum::FixedSums;

/// Adds the sites of `rows`. Returns false, and adds nothing, if there is no block code for their number of alleles.
pub(super) fn add<T, const P: usize, const F: usize, const C: usize>(
    level: Level,
    sums: &mut Sums<F, C>,
    sites: &Sites<'_, P>,
    rows: Range<usize>,
) -> bool
where
    T: SiteSums<P, F, C>,
{
    // As in `Sites::try_for_each`.
    add_of_width::<T, P, F, C, 2>(level, sums, sites, rows.clone())
        || add_of_width::<T, P, F, C, 3>(level, sums, sites, rows.clone())
        || add_of_width::<T, P, F, C, 4>(level, sums, sites, rows)
}

fn add_of_width<T, const P: usize, const F: usize, const C: usize, const K: usize>(
    level: Level,
    sums: &mut Sums<F, C>,
    sites: &Sites<'_, P>,
    rows: Range<usize>,
) -> bool
where
    T: SiteSums<P, F, C>,
{
    let Some(all) = sites.of_width::<K>() else {
        return false;
    };
    let mut run = [&[][..]; P];
    for (run, all) in run.iter_mut().zip(all) {
        let Some(sites) = all.get(rows.clone()) else {
            return false;
        };
        *run = sites;
    }
    sums.merge(level.run(Run::<T, P, F, C, K>(run, PhantomData)));
    true
}

/// The sums over some sites.
struct Run<'a, T, const P: usize, const F: usize, const C: usize, const K: usize>(
    [&'a [[i32; K]]; P],
    PhantomData<T>,
);

impl<T, const P: usize, const F: usize, const C: usize, const K: usize> Job
    for Run<'_, T, P, F, C, K>
where
    T: SiteSums<P, F, C>,
{
    type Output = Sums<F, C>;

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) -> Sums<F, C> {
        let mut sums = Sums::default();
        let mut rest = self.0;
        while rest.iter().any(|rows| !rows.is_empty()) {
            let mut some = rest;
            for (some, rest) in some.iter_mut().zip(&mut rest) {
                let most = rest.len().min(SITES * FixedSums::<SITES>::TERMS);
                (*some, *rest) = rest.split_at(most);
            }
            add_some::<T, P, F, C, K>(some, &mut sums);
        }
        sums
    }
}

/// Adds at most as many sites as [`FixedSums`] can hold terms.
#[inline(always)]
fn add_some<T, const P: usize, const F: usize, const C: usize, const K: usize>(
    rows: [&[[i32; K]]; P],
    sums: &mut Sums<F, C>,
) where
    T: SiteSums<P, F, C>,
{
    let mut terms = [FixedSums::<SITES>::ZERO; F];
    let mut counts = [[0i64; SITES]; C];
    let len = rows.iter().map(|rows| rows.len()).min().unwrap_or(0);
    let mut start = 0;
    while start < len {
        let mut padded = [[[0; K]; SITES]; P];
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
        match T::block(block) {
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
                    if let Some(site) = T::site(std::array::from_fn(|p| &block[p][i][..])) {
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
