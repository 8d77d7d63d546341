//! The grid of genome windows: 1-based positions, windows `[start, start + size)` with starts 1, 1 + step, ….
//!
//! `genome_bin`, `genome_bins`, `interval_bins` and the table function `genome_windows` all use it, so that their windows can
//! be joined on equality.

/// Start of the window of the grid 1, 1 + size, … that contains `position`; `size` must be positive.
///
/// Positions below 1 (VCF allows 0 for telomeres) lie in windows that continue the grid downwards: 0 is in the window
/// that starts at 1 − size. `None` if that start does not fit an i64, or `size` is not positive.
#[inline]
pub fn bin_start(position: i64, size: i64) -> Option<i64> {
    if size <= 0 {
        return None;
    }
    let offset = position.checked_sub(1)?;
    if offset >= 0 {
        // A 32-bit division is much faster than a 64-bit one, and positions on chromosomes fit.
        let within = match (u32::try_from(offset), u32::try_from(size)) {
            (Ok(offset), Ok(size)) => i64::from(offset % size),
            _ => offset % size,
        };
        return Some(position - within);
    }
    position.checked_sub(offset.rem_euclid(size))
}

/// [`bin_start`] for a sequence of positions: one in the same window as the position before needs no division.
#[derive(Debug)]
pub struct Bins {
    size: i64,
    /// The window of the last position.
    last: std::ops::Range<i64>,
}

impl Bins {
    /// Windows of `size`, which must be positive.
    pub fn new(size: i64) -> Self {
        Self { size, last: 0..0 }
    }

    /// [`bin_start`] of `position`.
    #[inline]
    pub fn start(&mut self, position: i64) -> Option<i64> {
        if !self.last.contains(&position) {
            let start = bin_start(position, self.size)?;
            self.last = start..start.saturating_add(self.size);
        }
        Some(self.last.start)
    }
}

/// The windows `[start, start + size)` with start = 1 + k·step, k ≥ 0, that contain a position: the first start and the number of
/// windows; the others follow at distance `step`. No window contains a position below 1. `size` and `step` must be positive
/// (else there are no windows).
#[inline]
pub fn overlapping(position: i64, size: i64, step: i64) -> (i64, u64) {
    if position < 1 || size <= 0 || step <= 0 {
        return (1, 0);
    }
    let last = (position - 1) / step;
    // start + size > position, so k·step ≥ position − size; rounded up, and not below 0.
    let excess = position.saturating_sub(size).max(0);
    let first = excess / step + i64::from(excess % step != 0);
    if first > last {
        return (1, 0);
    }
    (1 + first * step, (last - first) as u64 + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Aggregates over overlapping windows are computed from bins of width `step`, which relies on this.
        #[test]
        fn windows_of_whole_steps_hold_whole_bins(
            position in prop_oneof![-50..500i64, 1..3_000_000_000i64, i64::MAX - 10_000..=i64::MAX],
            step in prop_oneof![1..20i64, 1..200_000i64],
            steps in 1..40i64,
        ) {
            let start = bin_start(position, step).unwrap();
            prop_assert_eq!(overlapping(start, step * steps, step), overlapping(position, step * steps, step));
        }
    }

    #[test]
    fn bins() {
        let starts = |size| {
            (-2..=7)
                .map(|position| bin_start(position, size).unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(starts(3), [-2, -2, -2, 1, 1, 1, 4, 4, 4, 7]);
        assert_eq!(starts(1), (-2..=7).collect::<Vec<_>>());
        assert_eq!(bin_start(i64::MAX, 10), Some(i64::MAX / 10 * 10 + 1));
        assert_eq!(bin_start(5_000_000_000, 10_000), Some(4_999_990_001));
        assert_eq!(bin_start(7, i64::MAX), Some(1));
        assert_eq!(bin_start(i64::MIN, 10), None);
        assert_eq!(bin_start(i64::MIN + 3, 10), None);
        assert_eq!(bin_start(1, 0), None);
    }

    #[test]
    fn a_sequence_agrees_with_single_positions() {
        for size in [1, 3, 10, i64::MAX] {
            let mut bins = Bins::new(size);
            for position in [
                1,
                2,
                3,
                4,
                11,
                10,
                0,
                -1,
                -20,
                i64::MAX,
                i64::MAX - 1,
                5,
                i64::MIN,
                5,
            ] {
                assert_eq!(
                    bins.start(position),
                    bin_start(position, size),
                    "{position}, {size}"
                );
            }
        }
        assert_eq!(Bins::new(0).start(1), None);
    }

    #[test]
    fn overlapping_agrees_with_linear_search() {
        for (size, step) in [(3, 1), (3, 2), (3, 3), (2, 5), (10, 4), (1, 1)] {
            for position in -3..60 {
                let expected: Vec<i64> = (0..60)
                    .map(|k| 1 + k * step)
                    .filter(|s| (*s..s + size).contains(&position))
                    .collect();
                let (first, count) = overlapping(position, size, step);
                let found: Vec<i64> = (0..count as i64).map(|k| first + k * step).collect();
                assert_eq!(
                    found, expected,
                    "position {position}, size {size}, step {step}"
                );
            }
        }
        assert_eq!(overlapping(i64::MAX, i64::MAX, i64::MAX), (1, 1));
        assert_eq!(overlapping(i64::MAX, 1, 1), (i64::MAX, 1));
        assert_eq!(overlapping(5, 0, 1), (1, 0));
    }
}
