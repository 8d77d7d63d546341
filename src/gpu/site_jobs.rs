//! [`SiteJob`]: a part of the pairs of sites, of which a device has the sites at the same time; and its tiles.
//!
//! A job has first sites and second sites, which are numbered together: the first sites come first. Where second sites begin among the first
//! ones or right after them, they are the same sites; else they begin at a multiple of eight.

use std::ops::Range;

use super::abi::PairTile;
use crate::counts::sites::SitePairs;

/// Second sites of a tile begin at a multiple of this, as the kernels' layout of units has it.
const ALIGNED: usize = 8;

/// First sites, and sites that are compared with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteJob {
    /// First sites of pairs.
    pub rows: Range<usize>,
    /// Second sites of pairs.
    pub seconds: Range<usize>,
}

impl SiteJob {
    /// Where the second sites begin in the job's numbering.
    pub fn first_column(&self) -> usize {
        match self.seconds.start.checked_sub(self.rows.start) {
            Some(shift) if self.seconds.start <= self.rows.end => shift,
            _ => self.rows.len().next_multiple_of(ALIGNED),
        }
    }

    /// Sites of the job, with those between.
    pub fn len(&self) -> usize {
        let seconds = self.first_column() + self.seconds.len();
        self.rows.len().max(seconds)
    }

    /// The number in the job of a second site, or that of the nearest one.
    pub fn column(&self, site: usize) -> usize {
        let site = site.clamp(self.seconds.start, self.seconds.end.max(self.seconds.start));
        self.first_column() + (site - self.seconds.start)
    }

    /// Ranges of sites, and where they begin in the job's numbering.
    pub fn parts(&self) -> Vec<(Range<usize>, usize)> {
        if self.seconds.start <= self.rows.end {
            let all = self.rows.start..self.rows.end.max(self.seconds.end);
            return vec![(all, 0)];
        }
        vec![
            (self.rows.clone(), 0),
            (self.seconds.clone(), self.first_column()),
        ]
    }
}

/// Jobs for all pairs, each of at most so many first sites, and of at most so many sites in all.
pub fn jobs(pairs: &SitePairs<'_>, most_rows: usize, most_sites: usize) -> Vec<SiteJob> {
    let most_rows = most_rows.max(1);
    let most_seconds = most_sites.saturating_sub(most_rows + ALIGNED).max(1);
    let sites = pairs.sites.len();
    let mut jobs = vec![];
    for start in (0..sites).step_by(most_rows) {
        let rows = start..sites.min(start + most_rows);
        let seconds = pairs.seconds_of(rows.start).start..pairs.seconds_of(rows.end - 1).end;
        for start in seconds.clone().step_by(most_seconds) {
            jobs.push(SiteJob {
                rows: rows.clone(),
                seconds: start..seconds.end.min(start + most_seconds),
            });
        }
    }
    jobs
}

/// Tiles of so many first and second sites that cover the pairs of a job, in its numbering. The second sites are a multiple of eight.
pub fn tiles(pairs: &SitePairs<'_>, job: &SiteJob, [rows, columns]: [usize; 2]) -> Vec<PairTile> {
    let mut tiles = vec![];
    for start in job.rows.clone().step_by(rows) {
        let last = job.rows.end.min(start + rows) - 1;
        let begin = job.column(pairs.seconds_of(start).start);
        let end = job.column(pairs.seconds_of(last).end);
        let begin = begin / ALIGNED * ALIGNED;
        for column in (begin..end).step_by(columns) {
            // A job has fewer than 2^32 sites.
            tiles.push(PairTile {
                row: (start - job.rows.start) as u32,
                column: column as u32,
            });
        }
    }
    tiles
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::counts::sites::{SiteRecord, SiteTerms};

    fn record(position: f64) -> SiteRecord<'static> {
        SiteRecord {
            position,
            alternate: [None; 2],
            called: [None; 2],
            words: &[],
        }
    }

    proptest! {
        /// Every pair is in exactly one tile, and no site of a job or tile is beyond its room.
        #[test]
        fn tiles_cover_each_pair(
            groups in prop::collection::vec(prop::collection::vec(0u8..30, 0..40), 1..5),
            edges in prop::collection::btree_set(0u8..40, 2..5),
            most_rows in 1usize..60,
            more in 9usize..80,
            rows in 1usize..20,
            columns in 1usize..4,
        ) {
            let columns = columns * ALIGNED;
            let mut sites = vec![];
            let mut ends = vec![];
            for group in &groups {
                let mut group = group.clone();
                group.sort_unstable();
                sites.extend(group.iter().map(|position| record(f64::from(*position))));
                ends.push(sites.len());
            }
            let edges: Vec<f64> = edges.into_iter().map(f64::from).collect();
            let pairs = SitePairs { copies: 1, terms: SiteTerms::R2, sites: &sites, ends: &ends, edges: &edges };
            let most_sites = most_rows + more;
            let mut covered = vec![0; sites.len() * sites.len()];
            for job in jobs(&pairs, most_rows, most_sites) {
                prop_assert!(job.rows.len() <= most_rows && job.len() <= most_sites);
                let mut at = vec![None; job.len()];
                for (part, begin) in job.parts() {
                    for (place, site) in at[begin..].iter_mut().zip(part) {
                        *place = Some(site);
                    }
                }
                for tile in tiles(&pairs, &job, [rows, columns]) {
                    prop_assert!((tile.row as usize) < job.rows.len() && (tile.column as usize) < job.len());
                    prop_assert!((tile.column as usize).is_multiple_of(ALIGNED));
                    for row in (tile.row as usize..job.rows.len()).take(rows) {
                        for column in (tile.column as usize..job.len()).take(columns) {
                            let (Some(one), Some(other)) = (at[row], at[column]) else { continue };
                            if column >= job.first_column() && other < job.seconds.end && other > one {
                                covered[one * sites.len() + other] += 1;
                            }
                        }
                    }
                }
            }
            for one in 0..sites.len() {
                for other in one + 1..sites.len() {
                    let distance = sites[other].position - sites[one].position;
                    let same = pairs.group_of(one) == pairs.group_of(other);
                    let is_in = same && edges[0] <= distance && distance < edges[edges.len() - 1];
                    let times = covered[one * sites.len() + other];
                    prop_assert!(times == 1 || (times == 0 && !is_in), "{one} {other}: {times}");
                }
            }
        }
    }
}
