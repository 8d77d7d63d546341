//! Per-site terms on one row of allele counts, or on two; the only place where they are computed.
//!
//! Rows come from [`CountsView`](crate::functions::counts_arg::CountsView), which has checked that no count is
//! negative. Everything is exact integer arithmetic up to one final division, so the bits do not depend on the caller,
//! the order of the alleles or the presence of alleles with a count of zero. Rows of different lengths are padded with 0.

/// Number of pairs of copies that differ, and number of pairs compared. Exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pairs {
    /// Pairs of copies that carry different alleles; at most `comparisons`.
    pub differences: u128,
    /// All pairs of copies.
    pub comparisons: u128,
}

impl Pairs {
    /// `differences / comparisons`, in [0, 1]; `None` where nothing is compared.
    #[inline]
    pub fn ratio(self) -> Option<f64> {
        if self.comparisons == 0 {
            return None;
        }
        // The conversion of 64 bits is one instruction, that of 128 a call; both round correctly, so they agree.
        let as_f64 = |n: u128| u64::try_from(n).map_or_else(|_| n as f64, |n| n as f64);
        Some(as_f64(self.differences) / as_f64(self.comparisons))
    }
}

#[inline]
fn widen(count: i32) -> u64 {
    // Not negative, see the module's documentation; this cast cannot panic or overflow a sum even if it were.
    u64::from(count as u32)
}

#[inline]
fn total(row: &[i32]) -> u64 {
    row.iter().map(|&count| widen(count)).sum()
}

/// Number of called copies, n = Σ a_i.
#[inline]
pub fn allele_number(row: &[i32]) -> i64 {
    row.iter().map(|&count| i64::from(count)).sum()
}

/// Number of called copies that are not allele 0, d = n − a_0.
#[inline]
pub fn derived_count(row: &[i32]) -> i64 {
    row.get(1..).map_or(0, allele_number)
}

/// Folded count min(d, n − d) with d = [`derived_count`].
#[inline]
pub fn minor_count(row: &[i32]) -> i64 {
    derived_count(row).min(row.first().map_or(0, |&count| i64::from(count)))
}

/// Whether at least two alleles have a count above zero.
#[inline]
pub fn is_segregating(row: &[i32]) -> bool {
    row.iter().filter(|&&count| count > 0).take(2).count() == 2
}

/// Pairs of copies within one population: C(n, 2) compared, C(n, 2) − Σ C(a_i, 2) of them different
/// (Nei and Li 1979; the pair counts of pixy, Korunes and Samuk 2021).
#[inline]
pub fn within(row: &[i32]) -> Pairs {
    let n = total(row);
    // C(n, 2) − Σ C(a, 2) = (n² − Σ a²) / 2, since Σ a = n.
    if n <= u64::from(u32::MAX) {
        let squares: u64 = row.iter().map(|&count| widen(count) * widen(count)).sum();
        let square = n * n;
        return Pairs {
            differences: u128::from((square - squares) / 2),
            comparisons: u128::from((square - n) / 2),
        };
    }
    let n = u128::from(n);
    let squares: u128 = row
        .iter()
        .map(|&count| u128::from(widen(count) * widen(count)))
        .sum();
    Pairs {
        differences: (n * n - squares) / 2,
        comparisons: (n * n - n) / 2,
    }
}

/// Pairs of copies, one from each population: n1 n2 compared, n1 n2 − Σ a1_i a2_i of them different.
#[inline]
pub fn between(row1: &[i32], row2: &[i32]) -> Pairs {
    let (n1, n2) = (total(row1), total(row2));
    let comparisons = u128::from(n1) * u128::from(n2);
    // Every product is a part of n1 n2, so 64 bits hold the sum where they hold n1 n2.
    let same = if comparisons <= u128::from(u64::MAX) {
        u128::from(
            row1.iter()
                .zip(row2)
                .map(|(&a1, &a2)| widen(a1) * widen(a2))
                .sum::<u64>(),
        )
    } else {
        row1.iter()
            .zip(row2)
            .map(|(&a1, &a2)| u128::from(widen(a1) * widen(a2)))
            .sum()
    };
    Pairs {
        differences: comparisons - same,
        comparisons,
    }
}

/// Nucleotide diversity of one site, 1 − Σ a(a−1) / (n(n−1)), in [0, 1]; `None` where n < 2.
/// Nei and Li 1979; all alleles count, they are not collapsed to two.
#[inline]
pub fn site_diversity(row: &[i32]) -> Option<f64> {
    within(row).ratio()
}

/// Divergence of one site between two populations, 1 − Σ a1_i a2_i / (n1 n2), in [0, 1]; `None` where n1 n2 = 0.
#[inline]
pub fn site_divergence(row1: &[i32], row2: &[i32]) -> Option<f64> {
    between(row1, row2).ratio()
}

/// Hudson's FST of one site as numerator b − (w1 + w2)/2 in [−1, 1] and denominator b in [0, 1], where b is
/// [`site_divergence`] and w [`site_diversity`]; `None` unless n1 ≥ 2 and n2 ≥ 2.
/// Hudson, Slatkin and Maddison 1992, eq. 3, in the per-site form of Bhatia et al. 2013, eq. 10.
#[inline]
pub fn fst_hudson_terms(row1: &[i32], row2: &[i32]) -> Option<(f64, f64)> {
    let (w1, w2) = (site_diversity(row1)?, site_diversity(row2)?);
    let b = site_divergence(row1, row2)?;
    Some((b - (w1 + w2) / 2.0, b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts() {
        assert_eq!(allele_number(&[]), 0);
        assert_eq!(
            allele_number(&[i32::MAX, i32::MAX]),
            2 * i64::from(i32::MAX)
        );
        assert_eq!(derived_count(&[3, 2, 1]), 3);
        assert_eq!(derived_count(&[]), 0);
        assert_eq!(minor_count(&[1, 2, 3]), 1);
        assert_eq!(minor_count(&[9, 2, 3]), 5);
        assert_eq!(minor_count(&[]), 0);
    }

    #[test]
    fn segregating_needs_two_alleles() {
        assert!(!is_segregating(&[]));
        assert!(!is_segregating(&[4, 0]));
        assert!(!is_segregating(&[0, 4]));
        assert!(is_segregating(&[0, 1, 3]));
        assert!(is_segregating(&[1, 1, 1]));
    }

    #[test]
    fn diversity_is_the_textbook_formula() {
        for row in [
            vec![3, 1],
            vec![0, 0, 5],
            vec![2, 3, 4],
            vec![1, 1],
            vec![1000, 7, 0, 3],
        ] {
            let n: i32 = row.iter().sum();
            let same: i32 = row.iter().map(|a| a * (a - 1)).sum();
            let expected = 1.0 - f64::from(same) / f64::from(n * (n - 1));
            assert!(
                (site_diversity(&row).unwrap() - expected).abs() < 1e-12,
                "{row:?}"
            );
        }
        assert_eq!(site_diversity(&[]), None);
        assert_eq!(site_diversity(&[1, 0]), None);
        assert_eq!(site_diversity(&[1, 1]), Some(1.0));
    }

    #[test]
    fn divergence_pads_with_zeros() {
        assert_eq!(site_divergence(&[2], &[0, 2]), Some(1.0));
        assert_eq!(site_divergence(&[1, 1], &[2]), Some(0.5));
        assert_eq!(site_divergence(&[0, 0], &[2]), None);
        assert_eq!(
            between(&[1, 2, 3], &[3, 2, 1]),
            Pairs {
                differences: 26,
                comparisons: 36
            }
        );
    }

    #[test]
    fn counts_beyond_32_bits_stay_exact() {
        let row = [i32::MAX, i32::MAX, i32::MAX];
        let a = u128::from(i32::MAX as u32);
        assert_eq!(
            within(&row),
            Pairs {
                differences: 3 * a * a,
                comparisons: 3 * a * (3 * a - 1) / 2
            }
        );
        assert_eq!(
            between(&row, &row),
            Pairs {
                differences: 6 * a * a,
                comparisons: 9 * a * a
            }
        );
        let small = [i32::MAX, i32::MAX];
        assert_eq!(
            within(&small),
            Pairs {
                differences: a * a,
                comparisons: a * (2 * a - 1)
            }
        );
        assert!((site_diversity(&row).unwrap() - 2.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn fst_needs_two_copies_on_both_sides() {
        assert_eq!(fst_hudson_terms(&[1], &[2]), None);
        assert_eq!(fst_hudson_terms(&[4, 0], &[0, 4]), Some((1.0, 1.0)));
        assert_eq!(fst_hudson_terms(&[1, 1], &[1, 1]), Some((-0.5, 0.5)));
        assert_eq!(fst_hudson_terms(&[4], &[4]), Some((0.0, 0.0)));
    }
}
