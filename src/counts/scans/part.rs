//! [`Part`]: the scores of some rows of a contig: first these are measured to the left, from the first of them on, and then to the right, from
//! the last of them back. Parts do not depend on each other.

use std::ops::Range;
use std::sync::Arc;

use super::contig_rows::{ContigRows, Side};
use super::sweep::{Groups, Measure, Sweep};

/// A row and its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ScannedRow {
    /// Its row in the table.
    pub(crate) row: u64,
    /// Its position.
    pub(crate) position: i64,
    /// Copies with allele 1.
    pub(crate) carriers: u32,
    /// The logarithm of the ratio of what is measured in the first and in the second group; `None` where one of them is undefined or 0.
    pub(crate) score: Option<f64>,
}

/// Some rows of a contig.
#[derive(Debug)]
pub(super) struct Part {
    measure: Measure,
    groups: Groups,
    contig: Arc<ContigRows>,
    range: Range<usize>,
    /// The sweep that is under way.
    sweep: Option<Sweep>,
    /// What was measured to the left of the rows that have no score yet.
    left: Vec<[f64; 2]>,
    /// The scores, from the last row back.
    scores: Vec<Option<f64>>,
}

impl Part {
    /// Rows `range` of the contig.
    pub(super) fn new(
        measure: Measure,
        groups: &Groups,
        contig: &Arc<ContigRows>,
        range: Range<usize>,
    ) -> Self {
        Self {
            measure,
            groups: groups.clone(),
            contig: Arc::clone(contig),
            range,
            sweep: None,
            left: vec![],
            scores: vec![],
        }
    }

    /// Whether every row has its score.
    pub(super) fn is_scored(&self) -> bool {
        self.scores.len() >= self.range.len()
    }

    /// Measures `most` rows to one side, or those that are left.
    pub(super) fn advance(&mut self, most: usize) {
        let Self {
            measure,
            groups,
            contig,
            range,
            sweep,
            left,
            scores,
        } = self;
        let start = |side: Side, at: usize| Sweep::new(*measure, groups, contig, side, at);
        let done = left.len();
        if scores.is_empty() && done < range.len() {
            left.reserve_exact(range.len() - done);
            let sweep = sweep.get_or_insert_with(|| start(Side::Left, range.start));
            let rows = (range.start + done..range.end).take(most);
            left.extend(rows.map(|at| sweep.advance(contig, at)));
        } else {
            if scores.is_empty() {
                *sweep = None;
                scores.reserve_exact(range.len());
            }
            let last = range.end.saturating_sub(1);
            let sweep = sweep.get_or_insert_with(|| start(Side::Right, last));
            for _ in 0..most {
                let Some(left_of_row) = left.pop() else {
                    break;
                };
                let at = range.start + left.len();
                let right = sweep.advance(contig, at);
                let carriers = contig.get(at).map_or(0, |row| row.carriers);
                scores.push(score(*measure, left_of_row, right, groups.pairs(carriers)));
            }
        }
        if self.is_scored() {
            (self.sweep, self.left) = (None, vec![]);
        }
    }

    /// The next rows with their scores, in their order, `most` of them. Every row has its score.
    pub(super) fn take(&mut self, most: usize, out: &mut Vec<ScannedRow>) {
        for _ in 0..most {
            let at = self.range.end - self.scores.len();
            let (Some(score), Some(row)) = (self.scores.pop(), self.contig.get(at)) else {
                break;
            };
            self.range.start += 1;
            out.push(ScannedRow {
                row: row.row,
                position: row.position,
                carriers: row.carriers,
                score,
            });
        }
    }

    /// Whether there are no rows to [`take`](Self::take).
    pub(super) fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Bytes on the heap, without those of the contig.
    pub(super) fn heap_bytes(&self) -> usize {
        self.left.capacity() * size_of::<[f64; 2]>()
            + self.scores.capacity() * size_of::<Option<f64>>()
            + self.sweep.as_ref().map_or(0, Sweep::heap_bytes)
    }
}

/// The score of a row from what was measured on both sides of it.
fn score(measure: Measure, left: [f64; 2], right: [f64; 2], pairs: [u64; 2]) -> Option<f64> {
    let of = |group: usize| {
        let sum = left[group] + right[group];
        match measure {
            Measure::SharedLength => sum / pairs[group] as f64,
            Measure::Homozygosity => sum,
        }
    };
    let (first, second) = (of(0), of(1));
    // Neither comparison holds for NaN.
    (first > 0.0 && second > 0.0).then(|| (first / second).ln())
}
