//! Sums over pairs of sites of one population, by bins of distance: counts of pairs in tiles, and then the terms of each pair, with the
//! host's best instruction set.
//!
//! Where every copy is called at both sites, the terms of moments are whole numbers over one denominator. They are summed exactly:
//! in doubles over the pairs of a tile where these hold all sums, else one by one in 128 bits. Other terms are summed in fixed point.

use std::ops::Range;

use datafusion::common::Result;

use super::count_errors::counted;
use super::site_sweep::{Merge, Tiles, clip, load, merge_all, no_counts, sweep};
use crate::counts::sites::{
    BLOCK, Block, JointCounts, PairTotals, Ranges, SitePairs, SiteRecord, SiteTerms, joint_counts,
};
use crate::counts::{Job, Lanes, Level};
use crate::functions::interrupt::{self, Interrupt};
use crate::functions::numeric::FixedSum;
use crate::functions::numeric::two_sites::{TwoSites, inverse_spread};

/// The most copies of which 64 terms of moments, each below n⁴ / 16 + n³ / 2, have an exact sum in doubles: 4 n⁴ + 32 n³ < 2⁵³.
pub(super) const EXACT_COPIES: u32 = 6800;
/// The fewest copies at both sites for which the moments are defined.
pub(super) const MOMENT_COPIES: u32 = 4;

/// Sites whose pairs are summed at a time.
pub(super) const AT_ONCE: usize = 8;

/// A site and others, where every copy is called.
pub(super) struct Complete<'a> {
    /// Copies.
    pub(super) n: u32,
    /// Copies of the site with another allele than the reference.
    pub(super) a: u32,
    /// [`inverse_spread`] of the site.
    pub(super) inverse: f64,
    /// Copies of the others.
    pub(super) b: &'a [u32],
    /// Their inverse spreads.
    pub(super) inverses: &'a [f64],
    /// Joint copies.
    pub(super) x: &'a [u32],
}

impl Complete<'_> {
    /// The counts of up to eight of the others from `at` on, padded with sites that do not vary; and the product of inverse spreads.
    #[inline(always)]
    pub(super) fn eight(&self, at: usize) -> ([TwoSites<f64>; AT_ONCE], [f64; AT_ONCE]) {
        let (n, a) = (f64::from(self.n), f64::from(self.a));
        let (mut sites, mut inverses) = (
            [TwoSites {
                n,
                a,
                b: 0.0,
                x: 0.0,
            }; AT_ONCE],
            [0.0; AT_ONCE],
        );
        let to = self.x.len().min(at + AT_ONCE);
        let others = self.b[at..to].iter().zip(&self.x[at..to]);
        for (site, (b, x)) in sites.iter_mut().zip(others) {
            (site.b, site.x) = (f64::from(*b), f64::from(*x));
        }
        for (product, inverse) in inverses.iter_mut().zip(&self.inverses[at..to]) {
            *product = self.inverse * inverse;
        }
        (sites, inverses)
    }

    /// The counts of every pair, as integers.
    pub(super) fn each(&self) -> impl Iterator<Item = TwoSites<i128>> {
        let (n, a) = (i128::from(self.n), i128::from(self.a));
        let others = self.b.iter().zip(self.x);
        others.map(move |(b, x)| TwoSites {
            n,
            a,
            b: i128::from(*b),
            x: i128::from(*x),
        })
    }
}

/// The sums of one bin.
pub(super) trait PairSums: Clone + Default + Send + Merge {
    /// What devices add up for them.
    const TERMS: SiteTerms;

    /// The sums that a device has computed.
    fn of_device(totals: &PairTotals) -> Self;

    /// Adds a site with each of the others; every site varies.
    fn add_complete(&mut self, pairs: &Complete<'_>);

    /// Adds a pair of sites at which not all copies are called.
    fn add_pair(&mut self, sites: TwoSites<u32>);
}

/// The sums of each bin over the pairs of sites within each group, those of one group after the other. The sites of each group are in
/// the order in which they are compared.
///
/// # Errors
/// If the query was stopped, and those of devices and of `groups`.
pub(super) fn sums_of_groups<'a, S: PairSums>(
    groups: impl Iterator<Item = Result<Vec<SiteRecord<'a>>>>,
    edges: &[f64],
    copies: usize,
    level: Level,
) -> Result<Vec<S>> {
    let mut all = vec![];
    let current = Interrupt::current();
    let Some(device) = current.site_device() else {
        for group in groups {
            all.append(&mut OnePopulation::sums(&group?, edges, copies, level)?);
        }
        return Ok(all);
    };
    // A device gets all groups together, since one may have few pairs.
    let (mut sites, mut ends) = (vec![], vec![]);
    for group in groups {
        let mut group = group?;
        match sites.is_empty() {
            true => sites = group,
            false => sites.append(&mut group),
        }
        ends.push(sites.len());
    }
    let pairs = SitePairs {
        copies,
        terms: S::TERMS,
        sites: &sites,
        ends: &ends,
        edges,
    };
    let totals = interrupt::with_workers(|workers| device.pair_sums(&pairs, workers));
    if let Some(totals) = counted("sums over pairs of sites", totals)? {
        return Ok(totals.iter().map(S::of_device).collect());
    }
    for group in pairs.groups() {
        let records = sites.get(group).unwrap_or_default();
        all.append(&mut OnePopulation::sums(records, edges, copies, level)?);
    }
    Ok(all)
}

/// The pairs of one population's sites.
struct OnePopulation<'a, S> {
    records: &'a [SiteRecord<'a>],
    level: Level,
    first: Block,
    second: Block,
    first_inverses: [f64; BLOCK],
    second_inverses: [f64; BLOCK],
    /// Joint counts of alternates; of alternates and called copies, and reversed; of called copies.
    counts: [Box<JointCounts>; 4],
    /// The sums of each bin.
    sums: Vec<S>,
}

fn inverses(block: &Block) -> [f64; BLOCK] {
    let mut inverses = [0.0; BLOCK];
    for (inverse, (n, d)) in inverses.iter_mut().zip(block.n.iter().zip(block.d)) {
        *inverse = inverse_spread(f64::from(*n), f64::from(d));
    }
    inverses
}

impl<'a, S: PairSums> OnePopulation<'a, S> {
    /// The sums of each bin over the pairs of sites of a group, which are in the order in which they are compared.
    fn sums(
        records: &'a [SiteRecord<'a>],
        edges: &[f64],
        copies: usize,
        level: Level,
    ) -> Result<Vec<S>> {
        let positions: Vec<f64> = records.iter().map(|site| site.position).collect();
        let bins = edges.len().saturating_sub(1);
        let mut sums = vec![S::default(); bins];
        let start = || Self::new(records, copies, bins, level);
        sweep(&positions, edges, start, |tiles| {
            merge_all(&mut sums, &tiles.sums)
        })?;
        Ok(sums)
    }

    fn new(records: &'a [SiteRecord<'a>], copies: usize, bins: usize, level: Level) -> Self {
        Self {
            records,
            level,
            first: Block::new(copies),
            second: Block::new(copies),
            first_inverses: [0.0; BLOCK],
            second_inverses: [0.0; BLOCK],
            counts: std::array::from_fn(|_| no_counts()),
            sums: vec![S::default(); bins],
        }
    }
}

impl<S: PairSums> Tiles for OnePopulation<'_, S> {
    fn first(&mut self, sites: Range<usize>) {
        load(&mut self.first, self.records, sites, 0);
        self.first_inverses = inverses(&self.first);
    }

    fn second(&mut self, sites: Range<usize>, ranges: &Ranges, bounds: &[Vec<usize>]) {
        load(&mut self.second, self.records, sites.clone(), 0);
        self.second_inverses = inverses(&self.second);
        let complete = self.first.is_complete() && self.second.is_complete();
        if !complete {
            self.first.fill_called();
            self.second.fill_called();
        }
        let (first, second) = (&self.first, &self.second);
        let planes = [
            (&first.alternate, &second.alternate),
            (&first.alternate, &second.called),
            (&first.called, &second.alternate),
            (&first.called, &second.called),
        ];
        let wanted = if complete { 1 } else { planes.len() };
        for ((one, two), counts) in planes.iter().zip(&mut self.counts).take(wanted) {
            joint_counts(self.level, one, two, ranges, counts);
        }
        self.level.run(Terms {
            first,
            second,
            complete,
            inverses: [&self.first_inverses, &self.second_inverses],
            counts: &self.counts,
            second_sites: sites,
            bounds,
            sums: &mut self.sums,
        });
    }
}

/// Adds the terms of the pairs of a tile.
struct Terms<'a, S> {
    first: &'a Block,
    second: &'a Block,
    complete: bool,
    inverses: [&'a [f64; BLOCK]; 2],
    counts: &'a [Box<JointCounts>; 4],
    second_sites: Range<usize>,
    bounds: &'a [Vec<usize>],
    sums: &'a mut [S],
}

impl<S: PairSums> Job for Terms<'_, S> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, _lanes: L) {
        let copies = self.first.copies() as u32;
        let [alternates, a_counts, b_counts, n_counts] = self.counts;
        for (row, bounds) in self.bounds.iter().enumerate() {
            let starts = bounds.iter().zip(bounds.iter().skip(1));
            for (sums, (start, end)) in self.sums.iter_mut().zip(starts) {
                if *end <= self.second_sites.start {
                    continue;
                }
                if *start >= self.second_sites.end {
                    break;
                }
                let others = clip(*start..*end, &self.second_sites);
                let complete = |others: Range<usize>| Complete {
                    n: copies,
                    a: self.first.d[row],
                    inverse: self.inverses[0][row],
                    b: &self.second.d[others.clone()],
                    inverses: &self.inverses[1][others.clone()],
                    x: &alternates[row][others],
                };
                if self.complete {
                    sums.add_complete(&complete(others));
                    continue;
                }
                for other in others {
                    if n_counts[row][other] == copies {
                        sums.add_complete(&complete(other..other + 1));
                    } else {
                        sums.add_pair(TwoSites {
                            n: n_counts[row][other],
                            a: a_counts[row][other],
                            b: b_counts[row][other],
                            x: alternates[row][other],
                        });
                    }
                }
            }
        }
    }
}

/// A sum of whole numbers over one denominator, and of quotients with others.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Quotients {
    /// Over the denominator of complete pairs.
    pub(super) whole: i128,
    /// Terms of other pairs.
    pub(super) others: FixedSum,
}

impl Quotients {
    /// Adds a pair: a whole number and its denominator. The quotient is in [−1, 1].
    #[inline(always)]
    pub(super) fn add(&mut self, numerator: i128, denominator: f64) {
        self.others
            .add((numerator as f64 / denominator).clamp(-1.0, 1.0));
    }

    /// Adds the sums of other pairs.
    pub(super) fn merge(&mut self, other: &Self) {
        self.whole += other.whole;
        self.others.merge(other.others);
    }

    /// The sums of a moment that a device has computed.
    pub(super) fn of_device([whole, others]: [i128; 2]) -> Self {
        Self {
            whole,
            others: FixedSum(others),
        }
    }

    /// The sum; 0 over nothing.
    pub(super) fn total(&self, denominator: f64) -> f64 {
        let whole = match self.whole {
            0 => 0.0,
            whole => whole as f64 / denominator,
        };
        whole + self.others.to_f64()
    }
}

/// Numbers of pairs as they are in wider integers.
pub(super) fn wide(sites: TwoSites<u32>) -> TwoSites<i128> {
    let TwoSites { n, a, b, x } = sites;
    TwoSites {
        n: i128::from(n),
        a: i128::from(a),
        b: i128::from(b),
        x: i128::from(x),
    }
}

/// The same as doubles.
#[inline(always)]
pub(super) fn floats(sites: TwoSites<u32>) -> TwoSites<f64> {
    let TwoSites { n, a, b, x } = sites;
    TwoSites {
        n: f64::from(n),
        a: f64::from(a),
        b: f64::from(b),
        x: f64::from(x),
    }
}
