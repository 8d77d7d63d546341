//! Sums over pairs of sites of the unphased genotypes of one population, by bins of distance: products of planes in tiles, and from them the
//! sums of dosages of each pair.
//!
//! Sites hold complete diploids alone (see [`Kept`](super::site_pairs::Kept)): the two copies of an individual are bits next to each other.

use std::ops::Range;

use datafusion::common::Result;

use super::site_sweep::{Merge, Tiles, clip, load, merge_all, no_counts, sweep};
use crate::counts::sites::{Block, JointCounts, Ranges, SiteRecord, joint_counts};
use crate::counts::{Job, Lanes, Level};
use crate::functions::numeric::two_dosages::TwoDosages;

/// Products of planes of two sites, of which each is the copies that both have: `a` are copies with another allele than the reference, `s`
/// the same with the copies of an individual exchanged, `h` the copies of individuals with two of these, and `c` called copies.
/// In order: aa, as; ac, ca, hc, ch, cc; ha, ah, hh.
const PRODUCTS: usize = 10;
/// Those that are also needed where every individual is a complete diploid.
const ALWAYS: Range<usize> = 0..2;
/// Those that are needed for the higher sums alone.
const HIGHER: Range<usize> = 7..10;

/// The sums of one bin.
pub(super) trait DosageSums: Clone + Default + Send + Merge {
    /// Whether [`TwoDosages::higher`] is needed.
    const HIGHER: bool;

    /// Adds a pair of sites.
    fn add(&mut self, dosages: TwoDosages);
}

/// The pairs of a population's sites.
pub(super) struct GenotypePairs<'a, S> {
    records: &'a [SiteRecord<'a>],
    level: Level,
    first: Block,
    second: Block,
    counts: [Box<JointCounts>; PRODUCTS],
    /// The sums of each bin.
    sums: Vec<S>,
}

impl<'a, S: DosageSums> GenotypePairs<'a, S> {
    /// The sums of each bin over the pairs of sites in the order in which they are compared, which is that of their `positions`.
    ///
    /// # Errors
    /// If the query was stopped.
    pub(super) fn sums(
        records: &'a [SiteRecord<'a>],
        positions: &[f64],
        edges: &[f64],
        copies: usize,
        level: Level,
    ) -> Result<Vec<S>> {
        let bins = edges.len().saturating_sub(1);
        let mut sums = vec![S::default(); bins];
        let start = || Self::new(records, copies, bins, level);
        sweep(positions, edges, start, |tiles| {
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
            counts: std::array::from_fn(|_| no_counts()),
            sums: vec![S::default(); bins],
        }
    }
}

impl<S: DosageSums> Tiles for GenotypePairs<'_, S> {
    fn first(&mut self, sites: Range<usize>) {
        load(&mut self.first, self.records, sites, 0);
        self.first.add_genotypes();
    }

    fn second(&mut self, sites: Range<usize>, ranges: &Ranges, bounds: &[Vec<usize>]) {
        load(&mut self.second, self.records, sites.clone(), 0);
        self.second.add_genotypes();
        let complete = self.first.is_complete() && self.second.is_complete();
        if !complete {
            self.first.fill_called();
            self.second.fill_called();
        }
        let (one, two) = (&self.first, &self.second);
        let planes = [
            (&one.alternate, &two.alternate),
            (&one.alternate, &two.swapped),
            (&one.alternate, &two.called),
            (&one.called, &two.alternate),
            (&one.homozygous, &two.called),
            (&one.called, &two.homozygous),
            (&one.called, &two.called),
            (&one.homozygous, &two.alternate),
            (&one.alternate, &two.homozygous),
            (&one.homozygous, &two.homozygous),
        ];
        for (at, ((one, two), counts)) in planes.into_iter().zip(&mut self.counts).enumerate() {
            let wanted = match HIGHER.contains(&at) {
                true => S::HIGHER,
                false => ALWAYS.contains(&at) || !complete,
            };
            if wanted {
                joint_counts(self.level, one, two, ranges, counts);
            }
        }
        self.level.run(Terms {
            first: &self.first,
            second: &self.second,
            complete,
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
    counts: &'a [Box<JointCounts>; PRODUCTS],
    second_sites: Range<usize>,
    bounds: &'a [Vec<usize>],
    sums: &'a mut [S],
}

impl<S: DosageSums> Terms<'_, S> {
    #[inline(always)]
    fn dosages(&self, row: usize, other: usize) -> TwoDosages {
        let count = |product: usize| f64::from(self.counts[product][row][other]);
        let (one, two) = (self.first, self.second);
        let xy = count(0) + count(1);
        let higher = match S::HIGHER {
            // x² is x, and 2 more where x is 2; each product with `h` has both copies of an individual.
            true => {
                let (x_is_2, y_is_2) = (2.0 * count(7), 2.0 * count(8));
                let both = 2.0 * count(9);
                [xy + x_is_2, xy + y_is_2, xy + x_is_2 + y_is_2 + both]
            }
            false => [0.0; 3],
        };
        match self.complete {
            true => TwoDosages {
                individuals: f64::from(one.n[row]) / 2.0,
                x: f64::from(one.d[row]),
                y: f64::from(two.d[other]),
                xx: f64::from(one.d[row]) + 2.0 * f64::from(one.homozygotes[row]),
                yy: f64::from(two.d[other]) + 2.0 * f64::from(two.homozygotes[other]),
                xy,
                higher,
            },
            false => TwoDosages {
                individuals: count(6) / 2.0,
                x: count(2),
                y: count(3),
                xx: count(2) + count(4),
                yy: count(3) + count(5),
                xy,
                higher,
            },
        }
    }
}

impl<S: DosageSums> Job for Terms<'_, S> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, _lanes: L) {
        for (row, bounds) in self.bounds.iter().enumerate() {
            let starts = bounds.iter().zip(bounds.iter().skip(1));
            for (bin, (start, end)) in starts.enumerate() {
                for other in clip(*start..*end, &self.second_sites) {
                    let dosages = self.dosages(row, other);
                    if let Some(sums) = self.sums.get_mut(bin) {
                        sums.add(dosages);
                    }
                }
            }
        }
    }
}
