//! Statistics of two sites: r², D', and the unbiased estimators DD, Dz and π₂ of the moments of linkage disequilibrium (Ragsdale and Gravel
//! 2019) from counts of haplotypes.
//!
//! The estimators are averages over distinct copies, each the quotient of a whole number and a falling factorial of n. These numbers
//! are polynomials of δ = n x − a b, q = a + b − 2x and u = x (n − a − b + x), computed in whatever number type holds them.

use std::ops::{Add, Mul, Sub};

/// A number type in which the polynomials are computed: exact, as long as it holds the result.
pub trait Number:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + From<i32>
{
}

impl<T> Number for T where T: Copy + Add<Output = T> + Sub<Output = T> + Mul<Output = T> + From<i32> {}

/// Counts of the copies that are called at two sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TwoSites<T> {
    /// Copies called at both.
    pub n: T,
    /// Those of them with another allele than the reference at the first site.
    pub a: T,
    /// At the second site.
    pub b: T,
    /// At both.
    pub x: T,
}

impl<T: Number> TwoSites<T> {
    /// n² D.
    #[inline(always)]
    pub fn delta(self) -> T {
        self.n * self.x - self.a * self.b
    }

    /// Copies that carry another allele than the reference at one of the sites.
    #[inline(always)]
    pub fn q(self) -> T {
        self.a + self.b - self.x - self.x
    }

    #[inline(always)]
    fn u(self) -> T {
        self.x * (self.n - self.a - self.b + self.x)
    }

    /// n (n−1) (n−2) (n−3) DD.
    #[inline(always)]
    pub fn dd(self) -> T {
        let delta = self.delta();
        delta * (delta + self.q() - T::from(1)) - (self.n - T::from(2)) * self.u()
    }

    /// n (n−1) (n−2) (n−3) Dz.
    #[inline(always)]
    pub fn dz(self) -> T {
        let Self { n, a, b, .. } = self;
        let q = self.q();
        self.delta() * ((n - a - a) * (n - b - b) + q + q - n - T::from(2)) + T::from(4) * self.u()
    }

    /// n (n−1) (n−2) (n−3) π₂.
    #[inline(always)]
    pub fn pi2(self) -> T {
        let Self { n, a, b, .. } = self;
        let q = self.q();
        a * (n - a) * (b * (n - b)) + self.delta() * (T::from(3) * n - T::from(1) - q - q)
            - (T::from(4) * n - T::from(2)) * self.u()
    }

    /// The sites in the other order.
    #[inline(always)]
    pub fn reversed(self) -> Self {
        Self {
            a: self.b,
            b: self.a,
            ..self
        }
    }
}

/// n (n−1) (n−2) (n−3).
pub fn falling_4(n: f64) -> f64 {
    n * (n - 1.0) * ((n - 2.0) * (n - 3.0))
}

/// 1 / (a (n − a)), or 0 where the site does not vary.
#[inline(always)]
pub fn inverse_spread(n: f64, a: f64) -> f64 {
    let spread = a * (n - a);
    if spread > 0.0 { 1.0 / spread } else { 0.0 }
}

/// r² for sums over pairs: `inverse` is the product of both sites' [`inverse_spread`]. 0 where a site does not vary.
#[inline(always)]
pub fn r2_term(delta: f64, inverse: f64) -> f64 {
    ((delta * delta) * inverse).min(1.0)
}

/// D', signed (Lewontin 1964); 0 where a site does not vary.
#[inline(always)]
pub fn d_prime(sites: TwoSites<f64>) -> f64 {
    let TwoSites { n, a, b, .. } = sites;
    let delta = sites.delta();
    let positive = (a * (n - b)).min(b * (n - a));
    let negative = (a * b).min((n - a) * (n - b));
    let most = if delta >= 0.0 { positive } else { negative };
    delta / most.max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The averages over four distinct copies of products that have D², D (1 − 2p)(1 − 2q) and p (1 − p) q (1 − q) as their expectations.
    fn by_definition(haplotypes: &[[i64; 2]]) -> [i64; 3] {
        let n = haplotypes.len();
        let mut sums = [0; 3];
        for i in 0..n {
            for j in 0..n {
                for k in 0..n {
                    for l in 0..n {
                        if i == j || i == k || i == l || j == k || j == l || k == l {
                            continue;
                        }
                        let [h, o, r, s] = [i, j, k, l].map(|at| haplotypes[at]);
                        // D is the expectation of A B of one copy less that of A of one and B of another.
                        let d = h[0] * h[1] - h[0] * o[1];
                        sums[0] += d * (r[0] * r[1] - r[0] * s[1]);
                        sums[1] += d * (1 - 2 * r[0]) * (1 - 2 * s[1]);
                        sums[2] += h[0] * (1 - o[0]) * r[1] * (1 - s[1]);
                    }
                }
            }
        }
        sums
    }

    #[test]
    fn polynomials_are_sums_over_distinct_copies() {
        for n in 4..8i64 {
            for a in 0..=n {
                for b in 0..=n {
                    for x in (a + b - n).max(0)..=a.min(b) {
                        let copy = |at: i64| {
                            let second = at < x || (at >= a && at < a + b - x);
                            [i64::from(at < a), i64::from(second)]
                        };
                        let haplotypes: Vec<[i64; 2]> = (0..n).map(copy).collect();
                        let sites = TwoSites { n, a, b, x };
                        let wide = TwoSites {
                            n: i128::from(n),
                            a: i128::from(a),
                            b: i128::from(b),
                            x: i128::from(x),
                        };
                        let [dd, dz, pi2] = by_definition(&haplotypes);
                        assert_eq!(
                            [sites.dd(), sites.dz(), sites.pi2()],
                            [dd, dz, pi2],
                            "{sites:?}"
                        );
                        assert_eq!(wide.dd(), i128::from(dd));
                        let floats = TwoSites {
                            n: n as f64,
                            a: a as f64,
                            b: b as f64,
                            x: x as f64,
                        };
                        assert_eq!([floats.dz(), floats.pi2()], [dz as f64, pi2 as f64]);
                        assert_eq!(sites.reversed().dz(), dz);
                    }
                }
            }
        }
    }

    #[test]
    fn d_prime_is_one_where_a_haplotype_is_lacking() {
        let of = |n: f64, a: f64, b: f64, x: f64| d_prime(TwoSites { n, a, b, x });
        assert_eq!(of(10.0, 3.0, 5.0, 3.0), 1.0);
        assert_eq!(of(10.0, 3.0, 5.0, 0.0), -1.0);
        assert_eq!(of(10.0, 8.0, 7.0, 5.0), -1.0);
        assert_eq!(of(10.0, 4.0, 5.0, 2.0), 0.0);
        assert_eq!(of(10.0, 0.0, 5.0, 0.0), 0.0);
    }
}
