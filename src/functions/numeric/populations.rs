//! Per-site terms of the allele counts of several populations: f-statistics, Patterson's D and f_d, Nei's G_ST, Jost's D, and shared
//! alleles. Where possible they are computed from the terms of [`site`](super::site).
//!
//! Rows hold no negative counts, and rows of different lengths are padded with 0, as in `site`. Every term lies in [−1, 1].

use super::site::{
    SMALL, allele_number, derived_count, fst_hudson_terms, site_divergence, site_diversity,
};

/// f2 of one site, D_12 − (π_1 + π_2)/2, in [−1, 1]; `None` unless n1 ≥ 2 and n2 ≥ 2. The net divergence d_a of Nei and Li 1979, and
/// at biallelic sites the unbiased (p1 − p2)² of Reich et al. 2009 and Patterson et al. 2012.
#[inline(always)]
pub fn site_f2(row1: &[i32], row2: &[i32]) -> Option<f64> {
    fst_hudson_terms(row1, row2).map(|(numerator, _)| numerator)
}

/// f3 of one site, (D_ca + D_cb − D_ab − π_c)/2, in [−1, 1], and π_c, in [0, 1], for the target c; `None` unless n_c ≥ 2 and
/// n_a, n_b ≥ 1 (Patterson et al. 2012; f3* is the ratio of their sums).
#[inline(always)]
pub fn f3_terms([c, a, b]: [&[i32]; 3]) -> Option<(f64, f64)> {
    let within = site_diversity(c)?;
    let (ca, cb, ab) = (
        site_divergence(c, a)?,
        site_divergence(c, b)?,
        site_divergence(a, b)?,
    );
    Some(((ca + cb - ab - within) / 2.0, within))
}

/// f4 of one site, (D_ad + D_bc − D_ac − D_bd)/2 = ½ Σ_k (a_k − b_k)(c_k − d_k) of frequencies, in [−1, 1]; `None` unless all
/// n ≥ 1 (Patterson et al. 2012).
#[inline(always)]
pub fn site_f4([a, b, c, d]: [&[i32]; 4]) -> Option<f64> {
    let (ad, bc) = (site_divergence(a, d)?, site_divergence(b, c)?);
    let (ac, bd) = (site_divergence(a, c)?, site_divergence(b, d)?);
    // In this order exchanging two populations changes only the sign.
    Some(((ad + bc) - (ac + bd)) / 2.0)
}

/// Patterson's D of one site: BABA − ABBA, in [−1, 1], and BABA + ABBA, in [0, 1]. These are probabilities for one copy drawn from each
/// population. BABA: the first and third carry one allele, the second and fourth another. ABBA: the first and fourth carry one allele, the
/// second and third another. `None` unless all n ≥ 1. The sign is that of Patterson et al. 2012, the opposite of Durand et al. 2011.
#[inline]
pub fn patterson_d_terms(rows: [&[i32]; 4]) -> Option<(f64, f64)> {
    let copies = rows.map(|row| allele_number(row) as u64);
    if copies.contains(&0) {
        return None;
    }
    if copies.iter().any(|&n| n > SMALL) {
        return Some(large_patterson_d_terms(rows));
    }
    // Each sum has at most 62 bits, and a product of two at most 124.
    let same = |first: &[i32], second: &[i32]| -> u128 {
        let products = first.iter().zip(second);
        u128::from(products.map(|(&x, &y)| x as u64 * y as u64).sum::<u64>())
    };
    let [a, b, c, d] = rows;
    // Both products also count draws of the same allele from all four.
    let pairs = a.iter().zip(b).zip(c.iter().zip(d));
    let all: u128 = pairs
        .map(|((&a, &b), (&c, &d))| {
            u128::from(a as u64 * b as u64) * u128::from(c as u64 * d as u64)
        })
        .sum();
    let baba = same(a, c) * same(b, d) - all;
    let abba = same(a, d) * same(b, c) - all;
    let total = copies.map(u128::from).iter().product::<u128>();
    let ratio = |count: u128| match (i64::try_from(count), i64::try_from(total)) {
        // 64-bit integers are converted by one instruction each.
        (Ok(count), Ok(total)) => count as f64 / total as f64,
        _ => count as f64 / total as f64,
    };
    let difference = ratio(baba.abs_diff(abba));
    let numerator = if baba < abba { -difference } else { difference };
    Some((numerator, ratio(baba + abba)))
}

/// [`patterson_d_terms`] from frequencies, for so many copies that 124 bits do not suffice.
#[cold]
fn large_patterson_d_terms([a, b, c, d]: [&[i32]; 4]) -> (f64, f64) {
    let frequencies = |row: &[i32]| -> Vec<f64> {
        let n = allele_number(row) as f64;
        row.iter().map(|&count| f64::from(count) / n).collect()
    };
    let [a, b, c, d] = [a, b, c, d].map(frequencies);
    let same = |x: &[f64], y: &[f64]| -> f64 { x.iter().zip(y).map(|(x, y)| x * y).sum() };
    let both = |x: &[f64], y: &[f64]| -> Vec<f64> { x.iter().zip(y).map(|(x, y)| x * y).collect() };
    let all = same(&both(&a, &b), &both(&c, &d));
    let baba = (same(&a, &c) * same(&b, &d) - all).max(0.0);
    let abba = (same(&a, &d) * same(&b, &c) - all).max(0.0);
    (baba - abba, (baba + abba).min(1.0))
}

/// f_d of one site (Martin, Davey and Jiggins 2015): (p2 − p1) p3 (1 − o) and (q − p1) q (1 − o) with q = max(p2, p3), of the
/// frequencies d/n of derived alleles, both in [−1, 1]; `None` unless all n ≥ 1.
#[inline]
pub fn f_d_terms(rows: [&[i32]; 4]) -> Option<(f64, f64)> {
    if rows.iter().any(|row| allele_number(row) == 0) {
        return None;
    }
    Some(f_d_of(rows.map(|row| {
        derived_count(row) as f64 / allele_number(row) as f64
    })))
}

/// [`f_d_terms`] of frequencies of derived alleles.
#[inline(always)]
pub(super) fn f_d_of([p1, p2, p3, outgroup]: [f64; 4]) -> (f64, f64) {
    let ancestral = 1.0 - outgroup;
    let donor = p2.max(p3);
    ((p2 - p1) * p3 * ancestral, (donor - p1) * donor * ancestral)
}

/// The diversities of one site in r populations: H_S, the mean of π within populations, and D_B, the mean divergence of pairs of
/// them, both in [0, 1]; `None` unless there are at least two populations, all with n ≥ 2 (Nei 1973; Nei and Chesser 1983).
///
/// `work` is scratch space; its contents do not matter.
pub fn within_and_between(rows: &[&[i32]], work: &mut Vec<f64>) -> Option<(f64, f64)> {
    // Most often two populations and two alleles: compiled for these lengths.
    if let [first, second] = rows
        && let (Ok(first), Ok(second)) = (<&[i32; 2]>::try_from(*first), (*second).try_into())
    {
        let rows: [&[i32; 2]; 2] = [first, second];
        return within_and_between_of(&rows.map(|row| &row[..]), &mut [0.0; 2]);
    }
    work.clear();
    let alleles = rows.iter().map(|row| row.len()).max()?;
    work.resize(alleles, 0.0);
    within_and_between_of(rows, work)
}

/// [`within_and_between`]; `sums` holds a zero for each allele.
#[inline(always)]
fn within_and_between_of(rows: &[&[i32]], sums: &mut [f64]) -> Option<(f64, f64)> {
    // Σ over pairs x ≠ y of Σ_k p_xk p_yk = Σ_k (Σ_x p_xk)² − Σ_x Σ_k p_xk²: linear in the number of populations.
    let (mut within, mut squares) = (0.0, 0.0);
    for row in rows {
        within += site_diversity(row)?;
        let n = allele_number(row) as f64;
        for (sum, &count) in sums.iter_mut().zip(*row) {
            let frequency = f64::from(count) / n;
            *sum += frequency;
            squares += frequency * frequency;
        }
    }
    let r = rows.len() as f64;
    let same = sums.iter().map(|sum| sum * sum).sum::<f64>() - squares;
    // Rounding may take the value out of [0, 1].
    let between = (1.0 - same / (r * (r - 1.0))).clamp(0.0, 1.0);
    (rows.len() > 1).then(|| (within / r, between))
}

/// Nei's G_ST of one site: H_T − H_S, in [−1, 1], and H_T = H_S/r + (r − 1) D_B/r, in [0, 1], with H_S and D_B of
/// [`within_and_between`] (Nei 1973; with equal n the estimate of Nei and Chesser 1983).
pub fn fst_nei_terms(rows: &[&[i32]], work: &mut Vec<f64>) -> Option<(f64, f64)> {
    let (within, between) = within_and_between(rows, work)?;
    Some(fst_nei_of(within, between, rows.len() as f64))
}

/// [`fst_nei_terms`] of H_S and D_B of `r` populations.
#[inline(always)]
pub(super) fn fst_nei_of(within: f64, between: f64, r: f64) -> (f64, f64) {
    let total = within / r + between * (r - 1.0) / r;
    ((between - within) * (r - 1.0) / r, total.min(1.0))
}

/// Jost's D of one site: D_B − H_S, in [−1, 1], and 1 − H_S, in [0, 1], with H_S and D_B of [`within_and_between`] (Jost 2008).
pub fn jost_d_terms(rows: &[&[i32]], work: &mut Vec<f64>) -> Option<(f64, f64)> {
    let (within, between) = within_and_between(rows, work)?;
    Some(jost_d_of(within, between))
}

/// [`jost_d_terms`] of H_S and D_B.
#[inline(always)]
pub(super) fn jost_d_of(within: f64, between: f64) -> (f64, f64) {
    (between - within, 1.0 - within)
}

/// The count of the same allele in the other row.
fn count_in(row: &[i32], allele: usize) -> i32 {
    row.get(allele).copied().unwrap_or(0)
}

/// The classes of one site in two populations, as 0 or 1 each: a fixed difference, a polymorphism private to the first, one private to the
/// second, a shared polymorphism; `None` unless n1 ≥ 1 and n2 ≥ 1 (Wakeley and Hey 1997).
pub fn shared_polymorphism(row1: &[i32], row2: &[i32]) -> Option<[i64; 4]> {
    let alleles = 0..row1.len().max(row2.len());
    let (mut seen1, mut seen2, mut common) = (0, 0, 0);
    for allele in alleles {
        let (in1, in2) = (count_in(row1, allele) > 0, count_in(row2, allele) > 0);
        seen1 += i64::from(in1);
        seen2 += i64::from(in2);
        common += i64::from(in1 && in2);
    }
    let one = common == 1;
    (seen1 > 0 && seen2 > 0)
        .then(|| [common == 0, one && seen1 > 1, one && seen2 > 1, common >= 2].map(i64::from))
}

/// Number of alleles seen in the first population and not in the second; `None` unless n1 ≥ 1 and n2 ≥ 1.
pub fn private_alleles(row1: &[i32], row2: &[i32]) -> Option<i64> {
    if allele_number(row1) == 0 || allele_number(row2) == 0 {
        return None;
    }
    let private = row1
        .iter()
        .enumerate()
        .filter(|&(allele, &count)| count > 0 && count_in(row2, allele) == 0);
    Some(private.count() as i64)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn near(found: f64, expected: f64) -> bool {
        (found - expected).abs() < 1e-12
    }

    fn frequencies(row: &[i32], alleles: usize) -> Vec<f64> {
        let n: i32 = row.iter().sum();
        (0..alleles)
            .map(|allele| f64::from(count_in(row, allele)) / f64::from(n))
            .collect()
    }

    #[test]
    fn by_hand() {
        // p = 1/4 and 3/4: 1/4 less half of 1/2 + 1/2, and the bias.
        assert_eq!(site_f2(&[3, 1], &[1, 3]), Some(10.0 / 16.0 - 0.5));
        assert_eq!(site_f2(&[1], &[2]), None);
        // The target fixed, the others fixed for the other allele: (1 + 1 − 0 − 0)/2.
        assert_eq!(f3_terms([&[2], &[0, 1], &[0, 1]]), Some((1.0, 0.0)));
        assert_eq!(f3_terms([&[1, 1], &[1], &[0, 1]]), Some((-0.5, 1.0)));
        assert_eq!(f3_terms([&[1], &[1], &[1]]), None);
        assert_eq!(site_f4([&[1], &[0, 1], &[1], &[0, 1]]), Some(1.0));
        assert_eq!(site_f4([&[1], &[0, 1], &[0, 1], &[1]]), Some(-1.0));
        assert_eq!(site_f4([&[1], &[0, 1], &[0, 0], &[1]]), None);
    }

    #[test]
    fn abba_and_baba() {
        let (anc, der) = (&[1, 0][..], &[0, 1][..]);
        assert_eq!(patterson_d_terms([der, anc, der, anc]), Some((1.0, 1.0)));
        assert_eq!(patterson_d_terms([anc, der, der, anc]), Some((-1.0, 1.0)));
        assert_eq!(patterson_d_terms([anc, anc, der, anc]), Some((0.0, 0.0)));
        assert_eq!(patterson_d_terms([anc, der, der, &[0, 0]]), None);
        assert_eq!(f_d_terms([anc, der, der, anc]), Some((1.0, 1.0)));
        assert_eq!(f_d_terms([der, anc, der, anc]), Some((-1.0, 0.0)));
        // q = 1/2: (1/4 − 0) · 1/2 over (1/2 − 0) · 1/2.
        assert_eq!(f_d_terms([anc, &[3, 1], &[1, 1], anc]), Some((0.125, 0.25)));
        assert_eq!(f_d_terms([anc, der, &[], anc]), None);
    }

    #[test]
    fn many_copies_stay_exact() {
        let most = i32::MAX;
        // Frequencies of 1/2 at the limit of the integers, and above it: 0 over 2 (1/4 − 1/8).
        let row = [most / 2, most / 2];
        assert_eq!(patterson_d_terms([&row; 4]), Some((0.0, 0.25)));
        let large = [most; 2];
        assert_eq!(patterson_d_terms([&large; 4]), Some((0.0, 0.25)));
        let ones = [most, 1, 0];
        let (numerator, denominator) = patterson_d_terms([&ones, &large, &ones, &large]).unwrap();
        assert!(numerator > 0.0 && denominator >= numerator);
        let huge = [most; 40];
        let terms = within_and_between(&[&huge, &huge], &mut vec![]).unwrap();
        // The diversity has n − 1 in the denominator.
        assert!((terms.0 - 39.0 / 40.0).abs() < 1e-9 && near(terms.1, 39.0 / 40.0));
    }

    #[test]
    fn several_populations() {
        let mut work = vec![7.0; 9];
        // Fixed for three alleles: H_S = 0, D_B = 1, H_T = 2/3.
        let rows: [&[i32]; 3] = [&[2], &[0, 5], &[0, 0, 3]];
        assert_eq!(within_and_between(&rows, &mut work), Some((0.0, 1.0)));
        let (numerator, total) = fst_nei_terms(&rows, &mut work).unwrap();
        assert_eq!(numerator, total);
        assert_eq!(jost_d_terms(&rows, &mut work), Some((1.0, 1.0)));
        // Nothing varies, which no rounding may hide.
        let rows = vec![&[7, 0, 0][..]; 11];
        assert_eq!(within_and_between(&rows, &mut work), Some((0.0, 0.0)));
        assert_eq!(within_and_between(&[&[2, 2], &[1]], &mut work), None);
        assert_eq!(within_and_between(&[&[2, 2]], &mut work), None);
    }

    #[test]
    fn who_has_which_allele() {
        for (row1, row2, expected) in [
            (&[4][..], &[0, 4][..], [1, 0, 0, 0]),
            (&[3, 1], &[4], [0, 1, 0, 0]),
            (&[4], &[1, 3], [0, 0, 1, 0]),
            (&[3, 1], &[1, 3], [0, 0, 0, 1]),
            // One allele in common and one more in each.
            (&[1, 1], &[1, 0, 1], [0, 1, 1, 0]),
            (&[4], &[4], [0, 0, 0, 0]),
            // No allele in common, though both vary.
            (&[1, 1], &[0, 0, 1, 1], [1, 0, 0, 0]),
        ] {
            assert_eq!(
                shared_polymorphism(row1, row2),
                Some(expected),
                "{row1:?} {row2:?}"
            );
        }
        assert_eq!(shared_polymorphism(&[0], &[1]), None);
        assert_eq!(private_alleles(&[3, 1, 0, 2], &[0, 1]), Some(2));
        assert_eq!(private_alleles(&[3], &[3, 1]), Some(0));
        assert_eq!(private_alleles(&[3], &[0, 0]), None);
    }

    /// Counts of up to four alleles.
    fn row() -> impl Strategy<Value = Vec<i32>> {
        vec(0..7i32, 0..5)
    }

    proptest! {
        #[test]
        fn terms_are_their_definitions_by_frequencies(a in row(), b in row(), c in row(), d in row()) {
            let rows = [&a[..], &b, &c, &d];
            let called = rows.iter().all(|row| row.iter().any(|&count| count > 0));
            prop_assert_eq!(site_f4(rows).is_some(), called);
            prop_assert_eq!(patterson_d_terms(rows).is_some(), called);
            prop_assert_eq!(f_d_terms(rows).is_some(), called);
            if !called {
                return Ok(());
            }
            let [p, q, s, t] = rows.map(|row| frequencies(row, 5));
            let sum = |term: &dyn Fn(usize, usize) -> f64| -> f64 {
                let pairs = (0..5).flat_map(|k| (0..5).map(move |l| (k, l)));
                pairs.filter(|(k, l)| k != l).map(|(k, l)| term(k, l)).sum()
            };
            let baba = sum(&|k, l| p[k] * q[l] * s[k] * t[l]);
            let abba = sum(&|k, l| p[k] * q[l] * s[l] * t[k]);
            let (numerator, denominator) = patterson_d_terms(rows).unwrap();
            prop_assert!(near(numerator, baba - abba) && near(denominator, baba + abba));
            let large = large_patterson_d_terms(rows);
            prop_assert!(near(large.0, numerator) && near(large.1, denominator));
            let f4: f64 = (0..5).map(|k| (p[k] - q[k]) * (s[k] - t[k])).sum();
            prop_assert!(near(site_f4(rows).unwrap(), f4 / 2.0));
        }

        /// f4 is a combination of f2 and f3 is one of f2, where all have two copies; f3 of the same population twice is f2.
        #[test]
        fn terms_are_made_of_f2(a in row(), b in row(), c in row(), d in row()) {
            let f2 = |x: &[i32], y: &[i32]| site_f2(x, y);
            if let (Some(ad), Some(bc), Some(ac), Some(bd), Some(ab)) =
                (f2(&a, &d), f2(&b, &c), f2(&a, &c), f2(&b, &d), f2(&a, &b))
            {
                let f4 = site_f4([&a, &b, &c, &d]).unwrap();
                prop_assert!(near(f4, (ad + bc - ac - bd) / 2.0));
                prop_assert_eq!(f4, -site_f4([&b, &a, &c, &d]).unwrap());
                let (f3, within) = f3_terms([&c, &a, &b]).unwrap();
                prop_assert!(near(f3, (ac + bc - ab) / 2.0));
                prop_assert_eq!(Some(within), site_diversity(&c));
            }
        }

        #[test]
        fn diversities_are_means(rows in vec(row(), 2..6)) {
            let rows: Vec<&[i32]> = rows.iter().map(Vec::as_slice).collect();
            let within: Option<Vec<f64>> = rows.iter().map(|row| site_diversity(row)).collect();
            let found = within_and_between(&rows, &mut vec![]);
            prop_assert_eq!(found.is_some(), within.is_some());
            if let (Some(found), Some(within)) = (found, within) {
                let mut between = vec![];
                for (at, first) in rows.iter().enumerate() {
                    between.extend(rows[..at].iter().map(|second| site_divergence(first, second).unwrap()));
                }
                let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
                prop_assert!(near(found.0, mean(&within)) && near(found.1, mean(&between)));
                let (numerator, total) = fst_nei_terms(&rows, &mut vec![]).unwrap();
                prop_assert!(near(numerator, total - found.0));
            }
        }
    }
}
