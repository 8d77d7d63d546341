//! Per-site terms of a block of sites: the same bits as the terms of [`site`](super::site), in loops that compilers vectorise.
//!
//! The aggregates add these terms up; the definitions are in `site`. A site without a term there (too few copies) has the term 0 here.
//! If a site has too many copies for 64-bit arithmetic, the block is `None` and its sites must be computed one by one. Everything is
//! `#[inline(always)]`, so that it is compiled for the instruction set of the caller.

#![expect(
    clippy::needless_range_loop,
    reason = "loops over several arrays of one constant length"
)]

use super::harmonic::inverse_harmonic;
use super::site::SMALL;
use super::spectrum::{Theta, rest_without_folded_singletons, rest_without_singletons};

/// Sites of a block.
pub const SITES: usize = 16;

/// The counts of the `K` alleles at each site, none negative.
pub type Counts<const K: usize> = [[i32; K]; SITES];

/// A term for each site.
pub type Terms = [f64; SITES];

/// The count as an unsigned integer; it is not negative, see [`Counts`].
#[inline(always)]
pub(super) fn widen(count: i32) -> u64 {
    u64::from(count as u32)
}

/// n and Σ a_i² of each site, if no n is too large.
#[inline(always)]
pub(super) fn moments<const K: usize>(rows: &Counts<K>) -> Option<([u64; SITES], [u64; SITES])> {
    let (mut n, mut squares) = ([0; SITES], [0u64; SITES]);
    let mut all = 0;
    for i in 0..SITES {
        for k in 0..K {
            let count = widen(rows[i][k]);
            n[i] += count;
            squares[i] = squares[i].wrapping_add(count * count);
        }
        all |= n[i];
    }
    (all <= SMALL).then_some((n, squares))
}

/// `differences / comparisons`, or 0 where nothing is compared.
#[inline(always)]
fn ratios(differences: &[u64; SITES], comparisons: &[u64; SITES]) -> Terms {
    let mut ratios = [0.0; SITES];
    for i in 0..SITES {
        let ratio = differences[i] as i64 as f64 / comparisons[i] as i64 as f64;
        ratios[i] = if comparisons[i] > 0 { ratio } else { 0.0 };
    }
    ratios
}

/// [`site_diversity`](super::site::site_diversity) of sites with these n and Σ a_i².
#[inline(always)]
pub(super) fn within(n: &[u64; SITES], squares: &[u64; SITES]) -> Terms {
    let (mut differences, mut comparisons) = ([0; SITES], [0; SITES]);
    for i in 0..SITES {
        let square = n[i] * n[i];
        differences[i] = (square - squares[i]) / 2;
        comparisons[i] = (square - n[i]) / 2;
    }
    ratios(&differences, &comparisons)
}

/// [`site_divergence`](super::site::site_divergence) of sites with these n in each population.
#[inline(always)]
fn between<const K: usize>(rows: [&Counts<K>; 2], n1: &[u64; SITES], n2: &[u64; SITES]) -> Terms {
    let (mut differences, mut comparisons) = ([0; SITES], [0; SITES]);
    for i in 0..SITES {
        let mut same = 0;
        for k in 0..K {
            same += widen(rows[0][i][k]) * widen(rows[1][i][k]);
        }
        comparisons[i] = n1[i] * n2[i];
        differences[i] = comparisons[i] - same;
    }
    ratios(&differences, &comparisons)
}

/// [`site_diversity`](super::site::site_diversity).
#[inline(always)]
pub fn diversity<const K: usize>(rows: &Counts<K>) -> Option<Terms> {
    let (n, squares) = moments(rows)?;
    Some(within(&n, &squares))
}

/// [`site_divergence`](super::site::site_divergence).
#[inline(always)]
pub fn divergence<const K: usize>(rows: [&Counts<K>; 2]) -> Option<Terms> {
    let ((n1, _), (n2, _)) = (moments(rows[0])?, moments(rows[1])?);
    Some(between(rows, &n1, &n2))
}

/// [`fst_hudson_terms`](super::site::fst_hudson_terms): numerators and denominators, and which sites have them.
#[inline(always)]
pub fn fst_hudson<const K: usize>(rows: [&Counts<K>; 2]) -> Option<([Terms; 2], [i64; SITES])> {
    let ((n1, squares1), (n2, squares2)) = (moments(rows[0])?, moments(rows[1])?);
    let (w1, w2) = (within(&n1, &squares1), within(&n2, &squares2));
    let mut terms = [[0.0; SITES], between(rows, &n1, &n2)];
    let mut sites = [0; SITES];
    for i in 0..SITES {
        let there = n1[i].min(n2[i]) >= 2;
        let b = terms[1][i];
        let numerator = b - (w1[i] + w2[i]) / 2.0;
        terms[0][i] = if there { numerator } else { 0.0 };
        terms[1][i] = if there { b } else { 0.0 };
        sites[i] = i64::from(there);
    }
    Some((terms, sites))
}

/// [`f3_terms`](super::populations::f3_terms): f3 and the target's diversity, and which sites have them.
#[inline(always)]
pub fn f3<const K: usize>([c, a, b]: [&Counts<K>; 3]) -> Option<([Terms; 2], [i64; SITES])> {
    let ((nc, squares), (na, _), (nb, _)) = (moments(c)?, moments(a)?, moments(b)?);
    let w = within(&nc, &squares);
    let (ca, cb) = (between([c, a], &nc, &na), between([c, b], &nc, &nb));
    let ab = between([a, b], &na, &nb);
    let (mut terms, mut sites) = ([[0.0; SITES]; 2], [0; SITES]);
    for i in 0..SITES {
        let there = nc[i] >= 2 && na[i].min(nb[i]) >= 1;
        let f3 = (ca[i] + cb[i] - ab[i] - w[i]) / 2.0;
        terms[0][i] = if there { f3 } else { 0.0 };
        terms[1][i] = if there { w[i] } else { 0.0 };
        sites[i] = i64::from(there);
    }
    Some((terms, sites))
}

/// [`site_f4`](super::populations::site_f4), and which sites have it.
#[inline(always)]
pub fn f4<const K: usize>([a, b, c, d]: [&Counts<K>; 4]) -> Option<(Terms, [i64; SITES])> {
    let ((na, _), (nb, _)) = (moments(a)?, moments(b)?);
    let ((nc, _), (nd, _)) = (moments(c)?, moments(d)?);
    let (ad, bc) = (between([a, d], &na, &nd), between([b, c], &nb, &nc));
    let (ac, bd) = (between([a, c], &na, &nc), between([b, d], &nb, &nd));
    let (mut terms, mut sites) = ([0.0; SITES], [0; SITES]);
    for i in 0..SITES {
        let there = na[i].min(nb[i]).min(nc[i]).min(nd[i]) >= 1;
        let f4 = ((ad[i] + bc[i]) - (ac[i] + bd[i])) / 2.0;
        terms[i] = if there { f4 } else { 0.0 };
        sites[i] = i64::from(there);
    }
    Some((terms, sites))
}

/// 1 where [`is_segregating`](super::site::is_segregating), else 0.
#[inline(always)]
pub fn segregating<const K: usize>(rows: &Counts<K>) -> [i64; SITES] {
    let mut segregating = [0; SITES];
    for i in 0..SITES {
        let mut alleles = 0;
        for k in 0..K {
            alleles += i64::from(rows[i][k] > 0);
        }
        segregating[i] = i64::from(alleles >= 2);
    }
    segregating
}

/// The terms that [`theta_w`] and [`tajimas_d`] share, and the sums that they are computed from.
struct Segregating {
    n: [u64; SITES],
    squares: [u64; SITES],
    segregating: [i64; SITES],
    /// 1/h(n) of segregating sites.
    inverse_harmonic: Terms,
}

/// 1/h(n) where `used` is above 0, else 0.
#[inline(always)]
fn inverse_harmonics(n: &[u64; SITES], used: &[i64; SITES]) -> Terms {
    terms_of_n(n, used, inverse_harmonic)
}

/// `term(n)` where `used` is above 0, else 0.
#[inline(always)]
fn terms_of_n(n: &[u64; SITES], used: &[i64; SITES], term: impl Fn(u64) -> f64) -> Terms {
    let mut terms = [0.0; SITES];
    let mut others = 0;
    for i in 0..SITES {
        others |= n[i] ^ n[0];
    }
    if others == 0 {
        // The usual case: no calls are missing, so n is the same at all sites.
        let of_all = term(n[0]);
        for i in 0..SITES {
            terms[i] = if used[i] > 0 { of_all } else { 0.0 };
        }
    } else {
        for i in 0..SITES {
            if used[i] > 0 {
                terms[i] = term(n[i]);
            }
        }
    }
    terms
}

#[inline(always)]
fn of_segregating<const K: usize>(rows: &Counts<K>) -> Option<Segregating> {
    let (n, squares) = moments(rows)?;
    let segregating = segregating(rows);
    Some(Segregating {
        n,
        squares,
        segregating,
        inverse_harmonic: inverse_harmonics(&n, &segregating),
    })
}

/// 1/h(n) of segregating sites, see [`inverse_harmonic`].
#[inline(always)]
pub fn theta_w<const K: usize>(rows: &Counts<K>) -> Option<Terms> {
    Some(of_segregating(rows)?.inverse_harmonic)
}

/// [`site_diversity`](super::site::site_diversity), 1/h(n) and 1/n of segregating sites; and which sites segregate.
#[inline(always)]
pub fn tajimas_d<const K: usize>(rows: &Counts<K>) -> Option<([Terms; 3], [i64; SITES])> {
    let of = of_segregating(rows)?;
    // Zero where a site does not segregate.
    let within = within(&of.n, &of.squares);
    let mut inverse = [0.0; SITES];
    for i in 0..SITES {
        let term = 1.0 / of.n[i] as i64 as f64;
        inverse[i] = if of.segregating[i] > 0 { term } else { 0.0 };
    }
    Some(([within, of.inverse_harmonic, inverse], of.segregating))
}

/// The expression for each site in the spectrum, with its n and d as doubles, else 0. It is computed for the other sites, too, and then
/// ignored. A macro, since closures are not always inlined into code with vector instructions.
macro_rules! each {
    ($sites:expr, |$n:ident, $d:ident| $term:expr) => {{
        let mut terms = [0.0; SITES];
        for i in 0..SITES {
            let ($n, $d) = ($sites.n[i] as i64 as f64, $sites.d[i] as i64 as f64);
            let term: f64 = $term;
            terms[i] = if $sites.used[i] > 0 { term } else { 0.0 };
        }
        terms
    }};
}

/// The sites of the spectrum, [`spectrum_site`](super::site::spectrum_site): of each site n and d, and 1 where 0 < d < n, else 0.
pub struct SpectrumSites {
    n: [u64; SITES],
    d: [u64; SITES],
    used: [i64; SITES],
}

impl SpectrumSites {
    /// The sites of these rows, with any number of copies.
    #[inline(always)]
    pub fn new<const K: usize>(rows: &Counts<K>) -> Self {
        let (mut n, mut d, mut used) = ([0; SITES], [0; SITES], [0; SITES]);
        for i in 0..SITES {
            for k in 1..K {
                d[i] += widen(rows[i][k]);
            }
            n[i] = d[i] + widen(rows[i][0]);
            used[i] = i64::from(d[i] > 0 && d[i] < n[i]);
        }
        Self { n, d, used }
    }

    /// For each site 1 if it is in the spectrum, else 0.
    #[inline(always)]
    pub fn used(&self) -> [i64; SITES] {
        self.used
    }

    /// For each site 1 if it is in the spectrum and `is(n, d)`, else 0.
    #[inline(always)]
    pub fn matching(&self, is: impl Fn(f64, f64) -> bool) -> [i64; SITES] {
        let mut matching = self.used;
        for i in 0..SITES {
            matching[i] &= i64::from(is(self.n[i] as i64 as f64, self.d[i] as i64 as f64));
        }
        matching
    }

    /// `term(n, d)` for each site in the spectrum, else 0. `term` is called for the other sites, too, and its value is then ignored.
    #[inline(always)]
    pub fn terms(&self, term: impl Fn(f64, f64) -> f64) -> Terms {
        each!(self, |n, d| term(n, d))
    }

    /// 1/n of each site in the spectrum, else 0.
    #[inline(always)]
    pub fn inverse_copies(&self) -> Terms {
        each!(self, |n, _d| 1.0 / n)
    }

    /// The weights of an estimator.
    #[inline(always)]
    pub fn weights(&self, theta: Theta) -> Terms {
        match theta {
            Theta::W => inverse_harmonics(&self.n, &self.used),
            Theta::NoSingletons => {
                let mut used = self.used;
                for i in 0..SITES {
                    used[i] &= i64::from(self.d[i] > 1);
                }
                terms_of_n(&self.n, &used, rest_without_singletons)
            }
            Theta::NoSingletonsFolded => {
                let mut used = self.used;
                for i in 0..SITES {
                    used[i] &= i64::from(self.d[i] > 1) & i64::from(self.n[i] > self.d[i] + 1);
                }
                terms_of_n(&self.n, &used, rest_without_folded_singletons)
            }
            // With a constant estimator, each loop is compiled for one formula.
            Theta::Pi => each!(self, |n, d| Theta::Pi.weight(n, d)),
            Theta::H => each!(self, |n, d| Theta::H.weight(n, d)),
            Theta::L => each!(self, |n, d| Theta::L.weight(n, d)),
            Theta::Singletons => each!(self, |n, d| Theta::Singletons.weight(n, d)),
            Theta::SingletonsFolded => each!(self, |n, d| Theta::SingletonsFolded.weight(n, d)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{populations, site};
    use super::*;

    /// Sites with no copies, one copy, one allele, all alleles, and many copies; n differs between sites.
    fn sites<const K: usize>(seed: i32, most: i32) -> Counts<K> {
        std::array::from_fn(|i| {
            std::array::from_fn(|k| {
                let x = (seed + 1).wrapping_mul(i as i32 * 7919 + k as i32 * 104_729 + 13);
                match (i + seed as usize) % 5 {
                    0 => 0,
                    1 => i32::from(k == 0),
                    2 => i32::from(k == 1) * most,
                    _ => x.rem_euclid(most + 1),
                }
            })
        })
    }

    fn agree<const K: usize>(a: &Counts<K>, b: &Counts<K>) {
        fn of<const K: usize>(
            [a, b]: [&Counts<K>; 2],
            term: impl Fn(&[i32], &[i32]) -> Option<f64>,
        ) -> Terms {
            std::array::from_fn(|i| term(&a[i], &b[i]).unwrap_or(0.0))
        }
        let is = |i: usize| site::is_segregating(&a[i]);
        let n = |i: usize| site::allele_number(&a[i]) as u64;
        let pi = of([a, b], |a, _| site::site_diversity(a));
        assert_eq!(diversity(a), Some(pi));
        assert_eq!(divergence([a, b]), Some(of([a, b], site::site_divergence)));
        let fst = [
            of([a, b], |a, b| Some(site::fst_hudson_terms(a, b)?.0)),
            of([a, b], |a, b| Some(site::fst_hudson_terms(a, b)?.1)),
        ];
        let pairs: [i64; SITES] =
            std::array::from_fn(|i| i64::from(site::fst_hudson_terms(&a[i], &b[i]).is_some()));
        assert_eq!(fst_hudson([a, b]), Some((fst, pairs)));
        let f3_of = |i: usize| populations::f3_terms([&b[i], &a[i], &b[(i + 1) % SITES]]);
        let next: Counts<K> = std::array::from_fn(|i| b[(i + 1) % SITES]);
        let f3_terms = [
            std::array::from_fn(|i| f3_of(i).map_or(0.0, |terms| terms.0)),
            std::array::from_fn(|i| f3_of(i).map_or(0.0, |terms| terms.1)),
        ];
        let targets = std::array::from_fn(|i| i64::from(f3_of(i).is_some()));
        assert_eq!(f3([b, a, &next]), Some((f3_terms, targets)));
        let last: Counts<K> = std::array::from_fn(|i| a[(i + 1) % SITES]);
        let f4_of = |i: usize| populations::site_f4([&a[i], &b[i], &next[i], &last[i]]);
        let f4_terms = std::array::from_fn(|i| f4_of(i).unwrap_or(0.0));
        let fours = std::array::from_fn(|i| i64::from(f4_of(i).is_some()));
        assert_eq!(f4([a, b, &next, &last]), Some((f4_terms, fours)));
        let there: [i64; SITES] = std::array::from_fn(|i| i64::from(is(i)));
        assert_eq!(segregating(a), there);
        let of_n = |f: &dyn Fn(u64) -> f64| -> Terms {
            std::array::from_fn(|i| if is(i) { f(n(i)) } else { 0.0 })
        };
        let watterson = of_n(&inverse_harmonic);
        assert_eq!(theta_w(a), Some(watterson));
        let terms = [
            std::array::from_fn(|i| if is(i) { pi[i] } else { 0.0 }),
            watterson,
            of_n(&|n| 1.0 / n as f64),
        ];
        assert_eq!(tajimas_d(a), Some((terms, there)));
        spectrum_agrees(a);
    }

    fn spectrum_agrees<const K: usize>(rows: &Counts<K>) {
        let (found, sites) = (
            SpectrumSites::new(rows),
            rows.map(|row| site::spectrum_site(&row)),
        );
        assert_eq!(found.used(), sites.map(|site| i64::from(site.is_some())));
        for (name, theta) in Theta::NAMED {
            let expected = sites.map(|site| site.map_or(0.0, |(n, d)| theta.weight(n, d)));
            assert_eq!(found.weights(theta), expected, "{name}");
        }
    }

    #[test]
    fn blocks_agree_with_single_sites() {
        for most in [1, 2, 7, 2940, 1 << 20, i32::MAX / 4] {
            for seed in 0..7 {
                agree::<2>(&sites(seed, most), &sites(seed + 3, most));
                agree::<3>(&sites(seed, most), &sites(seed + 3, most));
                agree::<4>(&sites(seed, most), &sites(seed + 3, most));
            }
        }
        // The same n at all sites.
        let same = std::array::from_fn(|i| [i as i32, 20 - i as i32]);
        agree::<2>(&same, &sites(1, 9));
    }

    #[test]
    fn a_block_with_too_many_copies_is_none() {
        let mut large = sites::<2>(1, 9);
        let small = large;
        large[7] = [i32::MAX, 1];
        assert_eq!(diversity(&large), None);
        assert_eq!(divergence([&small, &large]), None);
        assert_eq!(fst_hudson([&large, &small]), None);
        assert_eq!(theta_w(&large), None);
        assert_eq!(tajimas_d(&large), None);
        spectrum_agrees(&large);
        large[7] = [i32::MAX, 0];
        agree(&large, &small);
    }
}
