//! Per-site terms of one or two rows of allele counts: the definitions, which [`blocks`](super::blocks) must equal.
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
    pub fn ratio(self) -> Option<f64> {
        (self.comparisons > 0).then(|| self.differences as f64 / self.comparisons as f64)
    }
}

#[inline]
fn widen(count: i32) -> u64 {
    // Not negative, see the module's documentation; this cast cannot panic or overflow a sum even if it were.
    u64::from(count as u32)
}

/// Largest n whose square, and whose product with another such n, fit 63 bits, since converting a signed integer to a double is
/// one instruction.
pub(super) const SMALL: u64 = i32::MAX as u64;

/// n and Σ a_i², the latter modulo 2⁶⁴ (exact where n is [`SMALL`]).
#[inline(always)]
fn moments(row: &[i32]) -> (u64, u64) {
    let add = |(n, squares): (u64, u64), count: i32| {
        let count = widen(count);
        (n + count, squares.wrapping_add(count * count))
    };
    // Unrolled for the usual numbers of alleles, for which the overhead of a loop dominates.
    match *row {
        [a, b] => add(add((0, 0), a), b),
        [a, b, c] => add(add(add((0, 0), a), b), c),
        [a, b, c, d] => add(add(add(add((0, 0), a), b), c), d),
        _ => row.iter().copied().fold((0, 0), add),
    }
}

/// n1, n2 and Σ a1_i a2_i, the latter modulo 2⁶⁴ (exact where n1 and n2 are [`SMALL`]).
#[inline(always)]
fn cross_moments(row1: &[i32], row2: &[i32]) -> (u64, u64, u64) {
    let mut sums = (0, 0, 0u64);
    for (&a1, &a2) in row1.iter().zip(row2) {
        let (a1, a2) = (widen(a1), widen(a2));
        sums = (sums.0 + a1, sums.1 + a2, sums.2.wrapping_add(a1 * a2));
    }
    // The longer row's remaining alleles are paired with zeros.
    let rest = |row: &[i32], of: &[i32]| row.get(of.len()..).map_or(0, |rest| moments(rest).0);
    (sums.0 + rest(row1, row2), sums.1 + rest(row2, row1), sums.2)
}

/// `differences / comparisons`, both of 63 bits at most; `None` where nothing is compared.
#[inline(always)]
fn ratio(differences: u64, comparisons: u64) -> Option<f64> {
    // No shortcut for 0 differences: a mispredicted branch costs more than the division.
    (comparisons > 0).then(|| differences as i64 as f64 / comparisons as i64 as f64)
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

/// n and d = [`derived_count`] of a site of the spectrum, one where 0 < d < n, for the estimators of
/// [`spectrum`](super::spectrum); `None` for others.
#[inline(always)] // once per row, in the loop over them
pub fn spectrum_site(row: &[i32]) -> Option<(f64, f64)> {
    let (first, d) = (*row.first()?, derived_count(row));
    // Exact: n is far below 2⁵³.
    (first > 0 && d > 0).then(|| ((i64::from(first) + d) as f64, d as f64))
}

/// Pairs of copies within one population: C(n, 2) compared, C(n, 2) − Σ C(a_i, 2) of them different
/// (Nei and Li 1979; the pair counts of pixy, Korunes and Samuk 2021).
#[inline]
pub fn within(row: &[i32]) -> Pairs {
    let (n, squares) = moments(row);
    if n > SMALL {
        return large_within(row);
    }
    // C(n, 2) − Σ C(a, 2) = (n² − Σ a²) / 2, since Σ a = n.
    Pairs {
        differences: u128::from((n * n - squares) / 2),
        comparisons: u128::from((n * n - n) / 2),
    }
}

#[cold]
fn large_within(row: &[i32]) -> Pairs {
    let n = u128::from(moments(row).0);
    let squares: u128 = row
        .iter()
        .map(|&count| u128::from(widen(count)).pow(2))
        .sum();
    Pairs {
        differences: (n * n - squares) / 2,
        comparisons: (n * n - n) / 2,
    }
}

/// Pairs of copies, one from each population: n1 n2 compared, n1 n2 − Σ a1_i a2_i of them different.
#[inline]
pub fn between(row1: &[i32], row2: &[i32]) -> Pairs {
    let (n1, n2, same) = cross_moments(row1, row2);
    if n1.max(n2) > SMALL {
        return large_between(row1, row2);
    }
    Pairs {
        differences: u128::from(n1 * n2 - same),
        comparisons: u128::from(n1 * n2),
    }
}

#[cold]
fn large_between(row1: &[i32], row2: &[i32]) -> Pairs {
    let comparisons = u128::from(moments(row1).0) * u128::from(moments(row2).0);
    let same: u128 = row1
        .iter()
        .zip(row2)
        .map(|(&a1, &a2)| u128::from(widen(a1)) * u128::from(widen(a2)))
        .sum();
    Pairs {
        differences: comparisons - same,
        comparisons,
    }
}

/// Nucleotide diversity of one site, 1 − Σ a(a−1) / (n(n−1)), in [0, 1]; `None` where n < 2.
/// Nei and Li 1979; all alleles count, they are not collapsed to two.
#[inline(always)]
pub fn site_diversity(row: &[i32]) -> Option<f64> {
    let (n, squares) = moments(row);
    if n > SMALL {
        return large_within(row).ratio();
    }
    ratio((n * n - squares) / 2, (n * n - n) / 2)
}

/// Divergence of one site between two populations, 1 − Σ a1_i a2_i / (n1 n2), in [0, 1]; `None` where n1 n2 = 0.
#[inline(always)]
pub fn site_divergence(row1: &[i32], row2: &[i32]) -> Option<f64> {
    let (n1, n2, same) = cross_moments(row1, row2);
    if n1.max(n2) > SMALL {
        return large_between(row1, row2).ratio();
    }
    ratio(n1 * n2 - same, n1 * n2)
}

/// Hudson's FST of one site as numerator b − (w1 + w2)/2 in [−1, 1] and denominator b in [0, 1], where b is
/// [`site_divergence`] and w [`site_diversity`]; `None` unless n1 ≥ 2 and n2 ≥ 2.
/// Hudson, Slatkin and Maddison 1992, eq. 3, in the per-site form of Bhatia et al. 2013, eq. 10.
#[inline(always)]
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
    fn sites_of_the_spectrum_have_both_kinds_of_copies() {
        assert_eq!(spectrum_site(&[]), None);
        assert_eq!(spectrum_site(&[4, 0]), None);
        assert_eq!(spectrum_site(&[0, 1, 3]), None);
        assert_eq!(spectrum_site(&[1, 1]), Some((2.0, 1.0)));
        assert_eq!(spectrum_site(&[3, 2, 1]), Some((6.0, 3.0)));
        let most = f64::from(i32::MAX);
        assert_eq!(
            spectrum_site(&[i32::MAX; 3]),
            Some((3.0 * most, 2.0 * most))
        );
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
    fn shortcuts_agree_with_the_exact_pairs() {
        let rows: [&[i32]; 8] = [
            &[],
            &[3],
            &[3, 1],
            &[0, 2, 5],
            &[1, 2, 3, 4],
            &[9, 0, 0, 0, 7],
            &[i32::MAX; 2],
            &[i32::MAX; 3],
        ];
        for row1 in rows {
            assert_eq!(site_diversity(row1), within(row1).ratio());
            assert_eq!(within(row1), large_within(row1), "{row1:?}");
            for row2 in rows {
                assert_eq!(site_divergence(row1, row2), between(row1, row2).ratio());
                assert_eq!(
                    between(row1, row2),
                    large_between(row1, row2),
                    "{row1:?} {row2:?}"
                );
            }
        }
    }

    #[test]
    fn fst_needs_two_copies_on_both_sides() {
        assert_eq!(fst_hudson_terms(&[1], &[2]), None);
        assert_eq!(fst_hudson_terms(&[4, 0], &[0, 4]), Some((1.0, 1.0)));
        assert_eq!(fst_hudson_terms(&[1, 1], &[1, 1]), Some((-0.5, 0.5)));
        assert_eq!(fst_hudson_terms(&[4], &[4]), Some((0.0, 0.0)));
    }
}
