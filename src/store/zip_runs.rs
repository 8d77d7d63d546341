//! [`runs`]: entries of an archive that are near each other, to be read by one request.
//!
//! Archives list what they hold in any order: of an array that was zipped by `os.walk` all chunks are near each other, but chunk 1 is not
//! beside chunk 2. Invariants: every span is inside exactly one run; a run of several is no longer than [`MOST`], and if it is longer than
//! [`SPARSE`] a quarter of its bytes or more are wanted.

use std::ops::Range;

/// Bytes between two entries that are read and discarded rather than requested separately. At 100 MB/s they take a third of a
/// millisecond.
const GAP: u64 = 32 << 10;
/// Most bytes of a run of several entries.
const MOST: u64 = 8 << 20;
/// Longest run of which less than a quarter is wanted.
const SPARSE: u64 = 256 << 10;
/// A longer run has at most this many bytes for each that is wanted.
const WASTE: u64 = 4;

/// A range of an archive that is read at once, and the entries in it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Run<E> {
    pub(super) range: Range<u64>,
    /// For each entry: its index in the caller's list, its span, and itself.
    pub(super) members: Vec<(usize, Range<u64>, E)>,
    /// Bytes of the members.
    wanted: u64,
}

impl<E> Run<E> {
    /// Whether most of its bytes are discarded.
    pub(super) fn is_sparse(&self) -> bool {
        self.range.end - self.range.start > self.wanted.saturating_mul(2)
    }

    fn takes(&self, span: &Range<u64>) -> bool {
        let len = span.end.max(self.range.end) - self.range.start;
        let wanted = self.wanted.saturating_add(span.end - span.start);
        span.start <= self.range.end.saturating_add(GAP)
            && len <= MOST
            && (len <= SPARSE || len / WASTE <= wanted)
    }
}

/// The runs of these spans.
pub(super) fn runs<E>(mut spans: Vec<(usize, Range<u64>, E)>) -> Vec<Run<E>> {
    spans.sort_by_key(|(_, span, _)| (span.start, span.end));
    let mut runs: Vec<Run<E>> = Vec::new();
    for (n, span, entry) in spans {
        match runs.last_mut() {
            Some(run) if run.takes(&span) => {
                run.range.end = run.range.end.max(span.end);
                run.wanted = run.wanted.saturating_add(span.end - span.start);
                run.members.push((n, span, entry));
            }
            _ => runs.push(Run {
                range: span.clone(),
                wanted: span.end - span.start,
                members: vec![(n, span, entry)],
            }),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(spans: &[Range<u64>]) -> Vec<(Range<u64>, Vec<usize>)> {
        let spans = spans.iter().cloned().enumerate();
        let found = runs(spans.map(|(n, span)| (n, span, ())).collect());
        found
            .into_iter()
            .map(|run| {
                let members = run.members.into_iter().map(|(n, _, ())| n);
                (run.range, members.collect())
            })
            .collect()
    }

    #[test]
    fn neighbours_share_a_run_in_any_order() {
        let found = ranges(&[200..300, 0..100, 100..200, 300 + GAP..400 + GAP]);
        assert_eq!(found, [(0..400 + GAP, vec![1, 2, 0, 3])]);
        let found = ranges(&[0..100, 101 + GAP..200 + GAP]);
        assert_eq!(found, [(0..100, vec![0]), (101 + GAP..200 + GAP, vec![1])]);
    }

    #[test]
    fn runs_are_bounded() {
        let found = ranges(&[0..MOST, MOST..MOST + 1]);
        assert_eq!(found.len(), 2);
        // Overlapping and huge ones, as in a malicious archive.
        let found = ranges(&[0..u64::MAX, 5..6, u64::MAX - 1..u64::MAX]);
        assert_eq!(found.len(), 3);
        assert_eq!(ranges(&[7..7, 7..7]), [(7..7, vec![0, 1])]);
        // Few bytes, far from each other.
        let far: Vec<_> = (0..100).map(|n| n * GAP..n * GAP + 10).collect();
        let found = ranges(&far);
        assert!(found.len() > 10, "{}", found.len());
        assert!(
            found
                .iter()
                .all(|(range, _)| range.end - range.start <= SPARSE)
        );
        let half: Vec<_> = (0..100).map(|n| n * GAP..n * GAP + GAP / 2).collect();
        assert_eq!(ranges(&half).len(), 1);
    }
}
