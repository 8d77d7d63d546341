//! Moments of linkage disequilibrium of one population or two, under the names of the program moments: DD_i_j, Dz_i_j_k (D of population i, 1 − 2p of j at
//! the first site, 1 − 2q of k at the second), and pi2_i_j_k_l (i and j at the first site, k and l at the second).
//!
//! Each is the quotient of a whole number, computed from the counts of haplotypes of each population, and a product of numbers of copies.

use super::two_sites::{Number, TwoSites, falling_4};

/// A statistic: its name, and how many copies the populations must have at both sites, at least.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The name.
    pub name: &'static str,
    /// The fewest copies of each population.
    pub least: [usize; 2],
}

const fn moment(name: &'static str, first: usize, second: usize) -> Moment {
    Moment {
        name,
        least: [first, second],
    }
}

/// Those of one population.
pub const OF_ONE: [Moment; 3] = [
    moment("DD_0_0", 4, 0),
    moment("Dz_0_0_0", 4, 0),
    moment("pi2_0_0_0_0", 4, 0),
];

/// Number of statistics of two populations.
pub const MOMENTS: usize = 15;

/// Those of two populations, in the order of moments.
pub const OF_TWO: [Moment; MOMENTS] = [
    moment("DD_0_0", 4, 0),
    moment("DD_0_1", 2, 2),
    moment("DD_1_1", 0, 4),
    moment("Dz_0_0_0", 4, 0),
    moment("Dz_0_0_1", 3, 1),
    moment("Dz_0_1_1", 2, 2),
    moment("Dz_1_0_0", 2, 2),
    moment("Dz_1_0_1", 1, 3),
    moment("Dz_1_1_1", 0, 4),
    moment("pi2_0_0_0_0", 4, 0),
    moment("pi2_0_0_0_1", 3, 1),
    moment("pi2_0_0_1_1", 2, 2),
    moment("pi2_0_1_0_1", 2, 2),
    moment("pi2_0_1_1_1", 1, 3),
    moment("pi2_1_1_1_1", 0, 4),
];

/// D of `p`, 1 − 2p of `p` at the first site and of `other` at the second.
#[inline(always)]
fn dz_mixed<T: Number>(p: TwoSites<T>, other: TwoSites<T>) -> T {
    p.delta() * ((p.n - p.a - p.a) * (other.n - other.b - other.b))
}

/// D of `p`, the rest of `other`.
#[inline(always)]
fn dz_other<T: Number>(p: TwoSites<T>, other: TwoSites<T>) -> T {
    let TwoSites { n, a, b, .. } = other;
    let q = other.q();
    p.delta() * ((n - a - a) * (n - b - b) - (n - q - q))
}

/// Twice: both alleles of `p` at the first site, one of `p` and one of `other` at the second.
#[inline(always)]
fn pi2_three_one<T: Number>(p: TwoSites<T>, other: TwoSites<T>) -> T {
    let TwoSites { n, a, b, x } = p;
    let with = a * (n - a) * b - x * (n - a) - a * (b - x);
    let without = a * (n - a) * (n - b) - (a - x) * (n - a) - a * (n - a - b + x);
    with * (other.n - other.b) + without * other.b
}

/// Both alleles of `p` at the first site, both of `other` at the second.
#[inline(always)]
fn pi2_two_two<T: Number>(p: TwoSites<T>, other: TwoSites<T>) -> T {
    p.a * (p.n - p.a) * (other.b * (other.n - other.b))
}

/// Four times: one allele of each population at each site.
#[inline(always)]
fn pi2_crossed<T: Number>(p: TwoSites<T>, other: TwoSites<T>) -> T {
    // Pairs of distinct copies with these alleles, of one at the first site and of the other at the second.
    #[inline(always)]
    fn pairs<T: Number>(p: TwoSites<T>) -> [T; 4] {
        let TwoSites { n, a, b, x } = p;
        [
            (n - a) * (n - b) - (n - a - b + x),
            (n - a) * b - (b - x),
            a * (n - b) - (a - x),
            a * b - x,
        ]
    }
    let (one, two) = (pairs(p), pairs(other));
    one[0] * two[3] + one[1] * two[2] + one[2] * two[1] + one[3] * two[0]
}

/// The whole numbers of all statistics.
#[inline(always)]
pub fn numerators<T: Number>(p: TwoSites<T>, other: TwoSites<T>) -> [T; MOMENTS] {
    [
        p.dd(),
        p.delta() * other.delta(),
        other.dd(),
        p.dz(),
        dz_mixed(p, other),
        dz_other(p, other),
        dz_other(other, p),
        // 1 − 2p of `p` at the first site: that of the other order of sites.
        dz_mixed(other.reversed(), p.reversed()),
        other.dz(),
        p.pi2(),
        pi2_three_one(p, other),
        pi2_two_two(p, other),
        pi2_crossed(p, other),
        pi2_three_one(other.reversed(), p.reversed()),
        other.pi2(),
    ]
}

/// What the whole numbers are divided by, for populations of `n` and `m` copies.
pub fn denominators(n: f64, m: f64) -> [f64; MOMENTS] {
    let (n2, m2) = (n * (n - 1.0), m * (m - 1.0));
    let two_two = n2 * m2;
    let three_one = n2 * (n - 2.0) * m;
    let one_three = m2 * (m - 2.0) * n;
    let (n4, m4) = (falling_4(n), falling_4(m));
    [
        n4,
        two_two,
        m4,
        n4,
        three_one,
        two_two,
        two_two,
        one_three,
        m4,
        n4,
        2.0 * three_one,
        two_two,
        4.0 * two_two,
        2.0 * one_three,
        m4,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The factor of an allele frequency of population `of` at `site`, taken from one copy: `[population, copy]`.
    type Copies<'a> = [&'a [[i64; 2]]; 2];

    /// The mean over distinct copies of a product of factors, each of one copy of a population.
    fn mean(copies: Copies<'_>, populations: &[usize], value: &dyn Fn(&[[i64; 2]]) -> i64) -> f64 {
        fn visit(
            copies: Copies<'_>,
            populations: &[usize],
            chosen: &mut Vec<(usize, usize)>,
            value: &dyn Fn(&[[i64; 2]]) -> i64,
            sum: &mut (i64, i64),
        ) {
            let Some(&population) = populations.get(chosen.len()) else {
                let values: Vec<[i64; 2]> = chosen.iter().map(|(p, at)| copies[*p][*at]).collect();
                sum.0 += value(&values);
                sum.1 += 1;
                return;
            };
            for at in 0..copies[population].len() {
                if !chosen.contains(&(population, at)) {
                    chosen.push((population, at));
                    visit(copies, populations, chosen, value, sum);
                    chosen.pop();
                }
            }
        }
        let mut sum = (0, 0);
        visit(copies, populations, &mut vec![], value, &mut sum);
        sum.0 as f64 / sum.1 as f64
    }

    /// Every statistic by its definition: an average over distinct copies.
    fn by_definition(copies: Copies<'_>) -> [f64; MOMENTS] {
        let d = |h: &[[i64; 2]]| h[0][0] * h[0][1] - h[0][0] * h[1][1];
        let dd = |i, j| mean(copies, &[i, i, j, j], &|h| d(h) * d(&h[2..]));
        let dz = |i, j, k| {
            mean(copies, &[i, i, j, k], &|h| {
                d(h) * (1 - 2 * h[2][0]) * (1 - 2 * h[3][1])
            })
        };
        // Averaged over both choices of the population with the first allele, at each site.
        let pi2 = |i: usize, j: usize, k: usize, l: usize| {
            let one = |i, j, k, l| {
                mean(copies, &[i, j, k, l], &|h| {
                    h[0][0] * (1 - h[1][0]) * h[2][1] * (1 - h[3][1])
                })
            };
            (one(i, j, k, l) + one(j, i, k, l) + one(i, j, l, k) + one(j, i, l, k)) / 4.0
        };
        [
            dd(0, 0),
            dd(0, 1),
            dd(1, 1),
            dz(0, 0, 0),
            dz(0, 0, 1),
            dz(0, 1, 1),
            dz(1, 0, 0),
            dz(1, 0, 1),
            dz(1, 1, 1),
            pi2(0, 0, 0, 0),
            pi2(0, 0, 0, 1),
            pi2(0, 0, 1, 1),
            pi2(0, 1, 0, 1),
            pi2(0, 1, 1, 1),
            pi2(1, 1, 1, 1),
        ]
    }

    fn counts(copies: &[[i64; 2]]) -> TwoSites<i64> {
        let sum = |of: fn(&[i64; 2]) -> i64| copies.iter().map(of).sum();
        TwoSites {
            n: copies.len() as i64,
            a: sum(|copy| copy[0]),
            b: sum(|copy| copy[1]),
            x: sum(|copy| copy[0] * copy[1]),
        }
    }

    #[test]
    fn statistics_are_means_over_distinct_copies() {
        let mut state = 88172645463325252u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state >> 20
        };
        for case in 0..60 {
            let sizes = [4 + next() % 3, 4 + next() % 3];
            let populations: Vec<Vec<[i64; 2]>> = sizes
                .iter()
                .map(|size| {
                    let copy = |_| [next() % 2, next() % 2].map(|bit| bit as i64);
                    (0..*size).map(copy).collect()
                })
                .collect();
            let copies = [&populations[0][..], &populations[1][..]];
            let (p, other) = (counts(copies[0]), counts(copies[1]));
            let below = denominators(p.n as f64, other.n as f64);
            let found = numerators(p, other);
            for (at, expected) in by_definition(copies).into_iter().enumerate() {
                let found = found[at] as f64 / below[at];
                let name = OF_TWO[at].name;
                assert!(
                    (found - expected).abs() < 1e-12,
                    "{case}, {name}: {found} {expected}"
                );
            }
        }
    }

    #[test]
    fn denominators_are_positive_from_the_fewest_copies_on() {
        for (at, Moment { name, least }) in OF_TWO.iter().enumerate() {
            let of = |n: usize, m: usize| denominators(n as f64, m as f64)[at];
            assert!(of(least[0].max(1), least[1].max(1)) > 0.0, "{name}");
            if least[0] > 0 {
                assert_eq!(of(least[0] - 1, 9), 0.0, "{name}");
            }
            if least[1] > 0 {
                assert_eq!(of(9, least[1] - 1), 0.0, "{name}");
            }
        }
    }
}
