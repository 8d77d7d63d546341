//! Divides the rows of a partition into segments, which are read, filtered and computed at a time.

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

use crate::scan::plan::zones::Zones;
use crate::scan::progress::{ProgressTracker, ScanProgress};
use crate::scan::stores::{Piece, Stores};

/// The rows of a partition that lie in one piece.
#[derive(Debug, Clone)]
pub struct PieceRows {
    /// The piece of the table.
    pub piece: Piece,
    /// Its requested rows, in the store's numbering: ascending and disjoint.
    pub ranges: Vec<Range<u64>>,
    /// Segments do not cross multiples of this many rows of the store, so that each lies in one chunk of the column that is most expensive
    /// to decode (the heaviest column).
    pub boundary: u64,
}

/// Rows that are read at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Which of the pieces.
    pub piece: usize,
    /// The rows, in the store's numbering.
    pub rows: Range<u64>,
    /// Whether they end at the end of a chunk of the heaviest column.
    pub ends_chunk: bool,
}

/// The remaining rows of a partition.
pub struct Segments {
    pieces: Arc<Vec<PieceRows>>,
    /// The current piece, and its remaining ranges.
    at: usize,
    ranges: VecDeque<Range<u64>>,
    progress: ScanProgress,
}

impl Segments {
    /// All rows of `pieces`, reported to `tracker`.
    pub fn new(pieces: Arc<Vec<PieceRows>>, tracker: Option<Arc<ProgressTracker>>) -> Self {
        let ranges = pieces.iter().flat_map(|piece| &piece.ranges);
        let rows = ranges.map(|range| range.end - range.start).sum();
        Self {
            ranges: (pieces.first())
                .map_or_else(VecDeque::new, |first| first.ranges.clone().into()),
            pieces,
            at: 0,
            progress: ScanProgress::start(tracker, rows),
        }
    }

    /// Skips all remaining rows.
    pub fn clear(&mut self) {
        self.at = self.pieces.len();
        self.ranges.clear();
    }

    /// The next piece, once at most one chunk of the heaviest column is left of the current one.
    pub fn to_prefetch(&self) -> Option<usize> {
        let next = self.at + 1;
        let at_hand = self
            .pieces
            .get(self.at)
            .filter(|_| next < self.pieces.len())?;
        let ranges = self.ranges.iter();
        let left: u64 = ranges.map(|range| range.end - range.start).sum();
        (left <= at_hand.boundary).then_some(next)
    }

    /// The next rows, at most `rows`; `None` at the end. For a row of the table that is ruled out, `skip` returns the next row that may not
    /// be.
    pub fn next(
        &mut self,
        rows: u64,
        mut skip: impl FnMut(u64) -> Result<Option<u64>>,
    ) -> Result<Option<Segment>> {
        loop {
            let Some(PieceRows {
                piece, boundary, ..
            }) = self.pieces.get(self.at)
            else {
                return Ok(None);
            };
            let Some(range) = self.ranges.front().cloned() else {
                self.at += 1;
                let next = self.pieces.get(self.at);
                self.ranges = next.map_or_else(VecDeque::new, |next| next.ranges.clone().into());
                continue;
            };
            if range.is_empty() {
                self.ranges.pop_front();
                continue;
            }
            if let Some(skip_to) = skip(piece.to_table(range.start))? {
                let skip_to = piece.to_store(skip_to.min(piece.rows.end));
                self.advance(skip_to);
                continue;
            }
            let chunk_end = (range.start / boundary + 1).saturating_mul(*boundary);
            let end = range
                .end
                .min(chunk_end)
                .min(range.start.saturating_add(rows.max(1)));
            self.advance(end);
            return Ok(Some(Segment {
                piece: self.at,
                rows: range.start..end,
                ends_chunk: end == chunk_end,
            }));
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

/// Pruning by dynamic filters, repeated whenever one of them has changed.
pub struct DynamicPruning {
    predicate: Arc<dyn PhysicalExpr>,
    zones: Arc<Zones>,
    schema: SchemaRef,
    stores: Arc<Stores>,
    generation: Option<u64>,
    keep: Vec<bool>,
}

impl DynamicPruning {
    /// Pruning of `zones` by all of `filters`, which are over the table's `schema`.
    pub fn new(
        filters: &[Arc<dyn PhysicalExpr>],
        zones: &Arc<Zones>,
        schema: &SchemaRef,
        stores: &Arc<Stores>,
    ) -> Self {
        Self {
            predicate: conjunction(filters.iter().cloned()),
            zones: Arc::clone(zones),
            schema: Arc::clone(schema),
            stores: Arc::clone(stores),
            generation: None,
            keep: vec![],
        }
    }

    /// The row at which to continue if the filters rule out the zone of `row`.
    pub fn skip(&mut self, row: u64) -> Result<Option<u64>> {
        let generation = snapshot_generation(&self.predicate);
        if self.generation != Some(generation) {
            let snapshot = snapshot_physical_expr(Arc::clone(&self.predicate))?;
            let contigs = self.stores.contigs();
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

    /// Rows of one store.
    fn one(ranges: &[Range<u64>], boundary: u64) -> Segments {
        let piece = Piece {
            rows: 0..1_000_000,
            store: 0,
            first: 0,
        };
        let rows = PieceRows {
            piece,
            ranges: ranges.to_vec(),
            boundary,
        };
        Segments::new(Arc::new(vec![rows]), None)
    }

    fn all(
        mut segments: Segments,
        rows: u64,
        skip: impl Fn(u64) -> Option<u64>,
    ) -> Vec<Range<u64>> {
        let mut found = vec![];
        while let Some(segment) = segments.next(rows, |row| Ok(skip(row))).unwrap() {
            found.push(segment.rows);
        }
        found
    }

    #[test]
    fn segments_end_at_boundaries_and_ranges() {
        let segments = one(&[5..25, 30..31, 31..31, 40..50], 10);
        assert_eq!(
            all(segments, 100, |_| None),
            [5..10, 10..20, 20..25, 30..31, 40..50]
        );
        let segments = one(&[5..25], 10);
        assert_eq!(all(segments, 4, |_| None)[..3], [5..9, 9..10, 10..14]);
        // A segment has at least one row.
        assert_eq!(all(one(&[3..5, 5..5], 10), 0, |_| None), [3..4, 4..5]);
        assert!(all(one(&[], 10), 1, |_| None).is_empty());
    }

    #[test]
    fn rows_that_are_ruled_out_are_left_out() {
        let ruled_out = |row: u64| (12..40).contains(&row).then_some(40);
        let segments = one(&[10..20, 25..30, 35..60], 100);
        // A segment that has started is not shortened; its rows are filtered afterwards.
        assert_eq!(all(segments, 100, ruled_out), [10..20, 40..60]);
        let segments = one(&[12..20, 25..30], 100);
        assert!(all(segments, 100, ruled_out).is_empty());
        let mut segments = one(&[0..10], 100);
        segments.clear();
        assert!(all(segments, 100, |_| None).is_empty());
    }

    #[test]
    fn progress_counts_rows_that_are_left_out() {
        let mut segments = one(&[0..10, 20..30], 5);
        let skip = |row: u64| Ok((row < 10).then_some(10));
        assert_eq!(segments.next(3, skip).unwrap().unwrap().rows, 20..23);
        assert_eq!(segments.progress.left(), 7);
    }

    #[test]
    fn pieces_have_boundaries_of_their_own_and_the_table_s_rows_are_skipped() {
        let pieces = || {
            let piece = |rows: Range<u64>, store, first, boundary| PieceRows {
                ranges: vec![first..first + rows.end - rows.start],
                piece: Piece { rows, store, first },
                boundary,
            };
            Arc::new(vec![
                piece(0..10, 0, 0, 4),
                piece(10..16, 1, 90, 5),
                piece(16..20, 0, 10, 4),
            ])
        };
        let found = |mut segments: Segments, skip: fn(u64) -> Option<u64>| {
            let mut found = vec![];
            while let Some(segment) = segments.next(100, |row| Ok(skip(row))).unwrap() {
                found.push((segment.piece, segment.rows, segment.ends_chunk));
            }
            found
        };
        let all = found(Segments::new(pieces(), None), |_| None);
        assert_eq!(
            all,
            [
                (0, 0..4, true),
                (0, 4..8, true),
                (0, 8..10, false),
                (1, 90..95, true),
                (1, 95..96, false),
                (2, 10..12, true),
                (2, 12..14, false),
            ]
        );
        let some = found(Segments::new(pieces(), None), |row| {
            (4..18).contains(&row).then_some(18)
        });
        assert_eq!(some, [(0, 0..4, true), (2, 12..14, false)]);
        let mut segments = Segments::new(pieces(), None);
        let mut soon = vec![];
        while segments.next(100, |_| Ok(None)).unwrap().is_some() {
            soon.push(segments.to_prefetch());
        }
        let (none, one, two) = (None, Some(1), Some(2));
        assert_eq!(soon, [none, one, one, two, two, none, none]);
    }
}
