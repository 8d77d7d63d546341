//! The rows of a partition, cut into segments: what is read, filtered and computed at one time.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::conjunction;
use datafusion::physical_expr_common::physical_expr::{
    snapshot_generation, snapshot_physical_expr,
};

use crate::scan::dataset::Dataset;
use crate::scan::plan::zones::Zones;
use crate::scan::progress::{ProgressTracker, ScanProgress};

/// The rows that are left of a partition.
pub struct Segments {
    ranges: VecDeque<Range<u64>>,
    /// Segments do not cross multiples of this many rows, so that each is of one chunk of the heaviest column.
    boundary: u64,
    progress: ScanProgress,
}

impl Segments {
    /// All rows of `ranges`, which are ascending and disjoint; reported to `tracker`.
    pub fn new(
        ranges: &[Range<u64>],
        boundary: u64,
        tracker: Option<Arc<ProgressTracker>>,
    ) -> Self {
        let rows = ranges.iter().map(|range| range.end - range.start).sum();
        Self {
            ranges: ranges.iter().cloned().collect(),
            boundary,
            progress: ScanProgress::start(tracker, rows),
        }
    }

    /// Leaves out all rows that are left.
    pub fn clear(&mut self) {
        self.ranges.clear();
    }

    /// The next rows, at most `rows`; `None` at the end. `skip` says of a row where to go on, if it and those up to there are not
    /// wanted.
    pub fn next(
        &mut self,
        rows: u64,
        mut skip: impl FnMut(u64) -> Result<Option<u64>>,
    ) -> Result<Option<Range<u64>>> {
        loop {
            let Some(range) = self.ranges.front().cloned() else {
                return Ok(None);
            };
            if range.is_empty() {
                self.ranges.pop_front();
                continue;
            }
            if let Some(skip_to) = skip(range.start)? {
                self.advance(skip_to);
                continue;
            }
            let boundary = (range.start / self.boundary + 1).saturating_mul(self.boundary);
            let end = range
                .end
                .min(boundary)
                .min(range.start.saturating_add(rows.max(1)));
            self.advance(end);
            return Ok(Some(range.start..end));
        }
    }

    fn advance(&mut self, to: u64) {
        if let Some(front) = self.ranges.front_mut() {
            let to = to.min(front.end);
            self.progress.advance(to.saturating_sub(front.start));
            front.start = to;
        }
    }
}

/// Pruning by dynamic filters, done again whenever one of them has changed.
pub struct DynamicPruning {
    predicate: Arc<dyn PhysicalExpr>,
    zones: Arc<Zones>,
    schema: SchemaRef,
    dataset: Arc<Dataset>,
    generation: Option<u64>,
    keep: Vec<bool>,
}

impl DynamicPruning {
    /// Pruning of `zones` by all of `filters`, which are over the table's `schema`.
    pub fn new(
        filters: &[Arc<dyn PhysicalExpr>],
        zones: &Arc<Zones>,
        schema: &SchemaRef,
        dataset: &Arc<Dataset>,
    ) -> Self {
        Self {
            predicate: conjunction(filters.iter().cloned()),
            zones: Arc::clone(zones),
            schema: Arc::clone(schema),
            dataset: Arc::clone(dataset),
            generation: None,
            keep: vec![],
        }
    }

    /// Where to go on if the filters rule out the zone of `row`.
    pub fn skip(&mut self, row: u64) -> Result<Option<u64>> {
        let generation = snapshot_generation(&self.predicate);
        if self.generation != Some(generation) {
            let snapshot = snapshot_physical_expr(Arc::clone(&self.predicate))?;
            let contigs = &self.dataset.names().contigs;
            self.keep = self.zones.prune(&snapshot, &self.schema, contigs)?;
            self.generation = Some(generation);
        }
        let zones = &self.zones.zones;
        let at = zones.partition_point(|zone| zone.rows.end <= row);
        Ok(match (zones.get(at), self.keep.get(at)) {
            (Some(zone), Some(false)) => Some(zone.rows.end),
            _ => None,
        })
    }
}

#[cfg(test)]
#[expect(
    clippy::single_range_in_vec_init,
    reason = "a list of one range is meant"
)]
mod tests {
    use super::*;

    fn all(
        mut segments: Segments,
        rows: u64,
        skip: impl Fn(u64) -> Option<u64>,
    ) -> Vec<Range<u64>> {
        let mut found = vec![];
        while let Some(segment) = segments.next(rows, |row| Ok(skip(row))).unwrap() {
            found.push(segment);
        }
        found
    }

    #[test]
    fn segments_end_at_boundaries_and_ranges() {
        let segments = Segments::new(&[5..25, 30..31, 31..31, 40..50], 10, None);
        assert_eq!(
            all(segments, 100, |_| None),
            [5..10, 10..20, 20..25, 30..31, 40..50]
        );
        let segments = Segments::new(&[5..25], 10, None);
        assert_eq!(all(segments, 4, |_| None)[..3], [5..9, 9..10, 10..14]);
        // There is always something to read.
        assert_eq!(
            all(Segments::new(&[3..5, 5..5], 10, None), 0, |_| None),
            [3..4, 4..5]
        );
        assert!(all(Segments::new(&[], 10, None), 1, |_| None).is_empty());
    }

    #[test]
    fn rows_that_are_ruled_out_are_left_out() {
        let ruled_out = |row: u64| (12..40).contains(&row).then_some(40);
        let segments = Segments::new(&[10..20, 25..30, 35..60], 100, None);
        // A segment that has begun is not cut short: what is in it is filtered afterwards.
        assert_eq!(all(segments, 100, ruled_out), [10..20, 40..60]);
        let segments = Segments::new(&[12..20, 25..30], 100, None);
        assert!(all(segments, 100, ruled_out).is_empty());
        let mut segments = Segments::new(&[0..10], 100, None);
        segments.clear();
        assert!(all(segments, 100, |_| None).is_empty());
    }

    #[test]
    fn progress_counts_rows_that_are_left_out() {
        let mut segments = Segments::new(&[0..10, 20..30], 5, None);
        let skip = |row: u64| Ok((row < 10).then_some(10));
        assert_eq!(segments.next(3, skip).unwrap(), Some(20..23));
        assert_eq!(segments.progress.left(), 7);
    }
}
