//! Arithmetic on ascending, disjoint row ranges: the rows that a scan keeps, and their division among partitions.

use std::ops::Range;

/// Merges ascending ranges that touch.
pub fn merge(ranges: impl IntoIterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges.into_iter().filter(|range| !range.is_empty()) {
        match merged.last_mut() {
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// Total number of rows.
pub fn rows_in(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// The number of chunks of `chunk_rows` rows that overlap the ranges.
pub fn chunks_in(ranges: &[Range<u64>], chunk_rows: u64) -> u64 {
    let mut next = 0;
    let mut chunks = 0;
    for range in ranges.iter().filter(|range| !range.is_empty()) {
        let first = (range.start / chunk_rows).max(next);
        let end = (range.end - 1) / chunk_rows + 1;
        chunks += end.saturating_sub(first);
        next = end.max(next);
    }
    chunks
}

/// Divides `ranges` into at most `parts` parts with about the same number of rows. `boundary` gives the first row at or after a row
/// where they may be cut, so that no chunk is decoded twice. There is always at least one part; parts keep row order.
pub fn split(
    ranges: &[Range<u64>],
    parts: usize,
    boundary: impl Fn(u64) -> u64,
) -> Vec<Vec<Range<u64>>> {
    let total = rows_in(ranges);
    let parts = parts.max(1) as u64;
    let mut all = vec![Vec::new()];
    let mut done = 0u64;
    for range in ranges {
        let mut start = range.start;
        while start < range.end {
            // The number of rows from the beginning at which the current part is full.
            let full = (u128::from(total) * all.len() as u128 / u128::from(parts)) as u64;
            let room = full.saturating_sub(done);
            let cut = boundary(start.saturating_add(room)).max(start);
            let end = if (all.len() as u64) < parts {
                range.end.min(cut)
            } else {
                range.end
            };
            if end > start {
                done += end - start;
                if let Some(part) = all.last_mut() {
                    part.push(start..end);
                }
            }
            start = end;
            if start < range.end {
                all.push(Vec::new());
            }
        }
    }
    all.retain(|part| !part.is_empty());
    if all.is_empty() {
        all.push(Vec::new());
    }
    all
}

#[cfg(test)]
#[allow(
    clippy::single_range_in_vec_init,
    reason = "lists of ranges are what is tested"
)]
mod tests {
    use super::*;

    #[test]
    fn merges_what_touches() {
        assert_eq!(merge([0..2, 2..5, 7..7, 8..9]), vec![0..5, 8..9]);
    }

    #[test]
    fn counts_chunks_once() {
        assert_eq!(chunks_in(&[0..1, 5..6, 999..1001], 1000), 2);
        assert_eq!(chunks_in(&[], 1000), 0);
    }

    #[test]
    fn splits_at_boundaries_and_loses_nothing() {
        let chunk_end = |row: u64| row.div_ceil(1000) * 1000;
        for parts in 1..9 {
            for ranges in [
                vec![0..10_000u64],
                vec![5..1_999, 3_000..3_001, 7_500..12_345],
                vec![],
            ] {
                let split = split(&ranges, parts, chunk_end);
                assert!(split.len() <= parts.max(1));
                assert_eq!(merge(split.concat()), ranges);
                for pair in split.windows(2) {
                    let (a, b) = (pair[0].last().unwrap().end, pair[1][0].start);
                    assert!(
                        a / 1000 < b / 1000 || a % 1000 == 0,
                        "{a} and {b} share a chunk"
                    );
                }
            }
        }
        assert_eq!(
            split(&[0..8000], 4, chunk_end)
                .iter()
                .map(|p| rows_in(p))
                .collect::<Vec<_>>(),
            [2000; 4]
        );
    }
}
