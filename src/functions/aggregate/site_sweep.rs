//! All pairs of a group's sites by bins of distance: in tiles of 64 × 64 sites, each counted in one call of a kernel.

use std::ops::Range;

use datafusion::common::Result;

use crate::counts::sites::{BLOCK, Block, JointCounts, Ranges, SiteRecord};
use crate::functions::interrupt;

/// For one site after the other, where each bin of distances begins among the sites after it.
pub(super) struct Bounds<'a> {
    positions: &'a [f64],
    edges: &'a [f64],
    next: Vec<usize>,
}

impl<'a> Bounds<'a> {
    /// Of sites at `positions`, which ascend; bin b is [edges[b], edges[b + 1]).
    pub(super) fn new(positions: &'a [f64], edges: &'a [f64]) -> Self {
        Self {
            positions,
            edges,
            next: vec![0; edges.len()],
        }
    }

    /// The bounds for a site, which is not before that of the last call: for each edge, the first site after it at that distance or
    /// more.
    pub(super) fn of(&mut self, site: usize) -> &[usize] {
        let Some(&position) = self.positions.get(site) else {
            return &self.next;
        };
        for (next, edge) in self.next.iter_mut().zip(self.edges) {
            *next = (*next).max(site + 1);
            while self
                .positions
                .get(*next)
                .is_some_and(|other| other - position < *edge)
            {
                *next += 1;
            }
        }
        &self.next
    }
}

/// What is computed for the pairs of each tile.
pub(super) trait Tiles {
    /// Sites `sites` become the first ones of pairs.
    fn first(&mut self, sites: Range<usize>);

    /// Sites `sites` become the second ones; `ranges` are the pairs of interest, and `bins(row)` the bounds of the bins of row `row` of the
    /// first sites, among all sites.
    fn second(&mut self, sites: Range<usize>, ranges: &Ranges, bounds: &[Vec<usize>])
    -> Result<()>;
}

/// Calls `tiles` for all pairs of sites at `positions`, which ascend, whose distance is in a bin.
///
/// # Errors
/// Those of `tiles`, and if the query was stopped.
pub(super) fn sweep(positions: &[f64], edges: &[f64], tiles: &mut impl Tiles) -> Result<()> {
    let sites = positions.len();
    let mut bounds = Bounds::new(positions, edges);
    let mut of_rows: Vec<Vec<usize>> = vec![vec![]; BLOCK];
    let mut start = 0;
    while start < sites {
        let first = start..sites.min(start + BLOCK);
        for (site, of_row) in first.clone().zip(&mut of_rows) {
            of_row.clear();
            of_row.extend_from_slice(bounds.of(site));
        }
        let of_rows = &of_rows[..first.len()];
        let ends = |end: fn(&[usize]) -> Option<&usize>| {
            of_rows.iter().filter_map(move |row| end(row).copied())
        };
        let low = ends(|row| row.first()).min().unwrap_or(sites);
        let high = ends(|row| row.last()).max().unwrap_or(0);
        if low < high {
            tiles.first(first.clone());
        }
        let mut at = low / BLOCK * BLOCK;
        while at < high {
            let second = at..sites.min(at + BLOCK);
            let mut ranges: Ranges = [const { 0..0 }; BLOCK];
            let mut any = false;
            for (range, row) in ranges.iter_mut().zip(of_rows) {
                if let (Some(low), Some(high)) = (row.first(), row.last()) {
                    let clipped = clip(*low..*high, &second);
                    any |= !clipped.is_empty();
                    *range = clipped.start as u8..clipped.end as u8;
                }
            }
            if any {
                interrupt::check()?;
                tiles.second(second.clone(), &ranges, of_rows)?;
            }
            at = second.end;
        }
        start = first.end;
    }
    Ok(())
}

/// The part of `range` in `block`, counted from the block's start.
pub(super) fn clip(range: Range<usize>, block: &Range<usize>) -> Range<usize> {
    let start = range.start.clamp(block.start, block.end) - block.start;
    let end = range.end.clamp(block.start, block.end) - block.start;
    start..end.max(start)
}

/// Loads the sites `sites` of a population into a block.
pub(super) fn load(block: &mut Block, records: &[SiteRecord<'_>], sites: Range<usize>, of: usize) {
    let records = records.get(sites).unwrap_or_default();
    block.load(
        records
            .iter()
            .map(|record| (record.alternate[of], record.called[of])),
    );
}

/// Zero counts.
pub(super) fn no_counts() -> Box<JointCounts> {
    Box::new([[0; BLOCK]; BLOCK])
}

/// Sites in the order in which they are compared: by position, and those at one position by their bits, since a group does not know the
/// order of its rows.
pub(super) fn in_order<'a>(records: impl Iterator<Item = SiteRecord<'a>>) -> Vec<SiteRecord<'a>> {
    let mut records: Vec<SiteRecord<'a>> = records.collect();
    let key = |record: &SiteRecord<'a>| (record.position, record.words);
    records.sort_unstable_by(|a, b| {
        let ((a, words), (b, others)) = (key(a), key(b));
        a.total_cmp(&b).then_with(|| words.cmp(others))
    });
    records
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::interrupt::Interrupt;

    /// Counts tiles, and requests `interrupt` at the third.
    struct Counted {
        tiles: usize,
        interrupt: Interrupt,
    }

    impl Tiles for Counted {
        fn first(&mut self, _sites: Range<usize>) {}

        fn second(&mut self, _: Range<usize>, _: &Ranges, _: &[Vec<usize>]) -> Result<()> {
            self.tiles += 1;
            if self.tiles == 3 {
                self.interrupt.request();
            }
            Ok(())
        }
    }

    #[test]
    fn a_sweep_stops_between_tiles() {
        let positions = vec![0.0; 10 * BLOCK];
        let interrupt = Interrupt::default();
        let mut counted = Counted {
            tiles: 0,
            interrupt: interrupt.clone(),
        };
        let swept = interrupt.within(|| sweep(&positions, &[0.0, 1.0], &mut counted));
        assert!(swept.is_err());
        assert_eq!(counted.tiles, 3);
        sweep(&positions, &[0.0, 1.0], &mut counted).unwrap();
        assert_eq!(counted.tiles, 3 + 55);
    }
}
