//! All pairs of a group's sites by bins of distance: in tiles of 64 × 64 sites, each counted in one call of a kernel.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::Result;
use parking_lot::Mutex;

use crate::counts::sites::{
    BLOCK, Block, Copies, JointCounts, Ranges, SiteRecord, SiteRecords, records,
};
use crate::counts::{CountError, Workers};
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

    /// Finds the bounds for a site, so that they need not be found for those before it.
    pub(super) fn begin_at(&mut self, site: usize) {
        let others = self.positions.get(site + 1..).unwrap_or_default();
        if let Some(position) = self.positions.get(site) {
            for (next, edge) in self.next.iter_mut().zip(self.edges) {
                *next = site + 1 + others.partition_point(|other| other - position < *edge);
            }
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
    fn second(&mut self, sites: Range<usize>, ranges: &Ranges, bounds: &[Vec<usize>]);
}

/// Exact sums, so that the order in which they are merged does not show.
pub(super) trait Merge {
    /// Adds the sums of other pairs.
    fn merge(&mut self, other: &Self);
}

/// Merges the sums of each bin.
pub(super) fn merge_all<S: Merge>(to: &mut [S], from: &[S]) {
    for (to, from) in to.iter_mut().zip(from) {
        to.merge(from);
    }
}

/// Has all pairs of sites at `positions`, which ascend, whose distance is in a bin, computed by the operator's threads: each calls tiles
/// of its own, which `start` begins and `finish` takes, in any order.
///
/// # Errors
/// If the query was stopped.
pub(super) fn sweep<T: Tiles>(
    positions: &[f64],
    edges: &[f64],
    start: impl Fn() -> T + Sync,
    finish: impl FnMut(T) + Send,
) -> Result<()> {
    let finish = Mutex::new(finish);
    let next = AtomicUsize::new(0);
    let swept = interrupt::with_workers(|workers| {
        let threads = workers.threads().min(positions.len().div_ceil(BLOCK));
        workers.each(0..threads, |_| {
            let mut tiles = start();
            sweep_blocks(positions, edges, &next, workers, &mut tiles)?;
            (*finish.lock())(tiles);
            Ok(())
        })
    });
    swept.map_err(|_| interrupt::stopped())
}

/// Calls `tiles` for the pairs of the next block of first sites, and so on.
fn sweep_blocks(
    positions: &[f64],
    edges: &[f64],
    next: &AtomicUsize,
    workers: &Workers<'_>,
    tiles: &mut impl Tiles,
) -> std::result::Result<(), CountError> {
    let sites = positions.len();
    let mut bounds = Bounds::new(positions, edges);
    let mut of_rows: Vec<Vec<usize>> = vec![vec![]; BLOCK];
    loop {
        let start = next.fetch_add(1, Ordering::Relaxed).saturating_mul(BLOCK);
        if start >= sites {
            return Ok(());
        }
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
                workers.check()?;
                tiles.second(second.clone(), &ranges, of_rows);
            }
            at = second.end;
        }
    }
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

/// Sites in any order, read by the operator's threads.
///
/// # Errors
/// If the query was stopped.
pub(super) fn read_records(sites: &SiteRecords, copies: Copies) -> Result<Vec<SiteRecord<'_>>> {
    let parts = sites.whole_parts();
    if parts.len() < 2 {
        return Ok(parts
            .iter()
            .flat_map(|part| records(part, copies))
            .collect());
    }
    let of_parts = Mutex::new(vec![vec![]; parts.len()]);
    let read = interrupt::with_workers(|workers| {
        workers.each(parts.iter().enumerate(), |(at, part)| {
            let read: Vec<SiteRecord<'_>> = records(part, copies).collect();
            if let Some(of_part) = of_parts.lock().get_mut(at) {
                *of_part = read;
            }
            Ok(())
        })
    });
    read.map_err(|_| interrupt::stopped())?;
    let mut all = Vec::with_capacity(sites.len());
    for mut part in of_parts.into_inner() {
        all.append(&mut part);
    }
    Ok(all)
}

/// Sites in the order in which they are compared: by position, and those at one position by their bits, since a group does not know the
/// order of its rows.
///
/// # Errors
/// If the query was stopped.
pub(super) fn in_order<'a>(sites: &'a SiteRecords, copies: Copies) -> Result<Vec<SiteRecord<'a>>> {
    let mut records = read_records(sites, copies)?;
    let order = |one: &SiteRecord<'a>, other: &SiteRecord<'a>| {
        let positions = one.position.total_cmp(&other.position);
        positions.then_with(|| one.words.cmp(other.words))
    };
    if !records.is_sorted_by(|one, other| order(one, other).is_le()) {
        // What partitions have is in order for the most part, which this sort makes use of.
        records.sort_by(order);
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::interrupt::{Interrupt, Threads};

    /// Counts tiles, and requests `interrupt` at the third.
    struct Counted<'a> {
        tiles: &'a AtomicUsize,
        interrupt: Interrupt,
    }

    impl Tiles for Counted<'_> {
        fn first(&mut self, _sites: Range<usize>) {}

        fn second(&mut self, _: Range<usize>, _: &Ranges, _: &[Vec<usize>]) {
            if self.tiles.fetch_add(1, Ordering::SeqCst) == 2 {
                self.interrupt.request();
            }
        }
    }

    #[test]
    fn a_sweep_stops_between_tiles() {
        let positions = vec![0.0; 10 * BLOCK];
        for threads in [1, 3] {
            let interrupt = Interrupt::new(&Threads::new(threads));
            let tiles = AtomicUsize::new(0);
            let start = || Counted {
                tiles: &tiles,
                interrupt: interrupt.clone(),
            };
            let swept = interrupt.within(|| sweep(&positions, &[0.0, 1.0], start, |_| {}));
            assert!(swept.is_err());
            let stopped = tiles.swap(0, Ordering::SeqCst);
            assert!((3..3 + threads).contains(&stopped), "{stopped}");
            sweep(&positions, &[0.0, 1.0], start, |_| {}).unwrap();
            assert_eq!(tiles.load(Ordering::SeqCst), 55);
        }
    }
}
