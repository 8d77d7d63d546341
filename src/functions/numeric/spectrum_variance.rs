//! The variance of a difference of two estimators of θ that are linear in the spectrum, for tests of neutrality.
//!
//! Under the standard neutral model without recombination, Var Σ_i Δ_i ξ_i = α θ + β θ² with Δ_i the difference of the
//! estimators' weights (Achaz 2009, eq. 9), where the variances and covariances of the ξ_i are those of Fu 1995, eqs 2 and 3. It is
//! computed once per group of sites, not per site.

use super::harmonic::{harmonic, harmonic_squares};

/// α and β of a sample of m copies, and the constants for the estimates of θ and θ².
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpectrumVariance {
    /// The part of the variance that is linear in θ, over θ.
    pub alpha: f64,
    /// The part of the variance that is quadratic in θ, over θ².
    pub beta: f64,
    /// Σ_{i<m} 1/i.
    a: f64,
    /// Σ_{i<m} 1/i².
    b: f64,
}

impl SpectrumVariance {
    /// The largest m that is supported; it takes tenths of a second.
    pub const MOST_COPIES: u64 = 1 << 24;

    /// The variance of Σ Δ_i ξ_i in a sample of `m` copies, with Δ_i = `delta(i)` for 0 < i < m; `None` if m is below 2 or above
    /// [`MOST_COPIES`](Self::MOST_COPIES).
    ///
    /// In O(m): where i ≠ j, σ_ij depends on both only through the larger or the smaller of the two, except where i + j = m. So the
    /// double sum is one over i of Δ_i times sums of Δ over ranges; `low` and `high` = m − `low` go through it from both ends.
    pub fn new(m: u64, delta: impl Fn(u64) -> f64) -> Option<Self> {
        if !(2..=Self::MOST_COPIES).contains(&m) {
            return None;
        }
        let copies = m as f64;
        let (a_m, a_next) = (harmonic(m), harmonic(m + 1));
        // Fu's β_m(k) (1995), of k that is not above m / 2 + 1: m (a_{m+1} − a_k) is well above r + 1 there.
        let fu_beta = |k: u64| {
            let r = (m - k) as f64;
            2.0 / (r * (r + 1.0)) * (copies * (a_next - harmonic(k)) - (r + 1.0))
        };
        let (mut alpha, mut beta) = (0.0, 0.0);
        // P: Σ Δ_k over k < low; R, R': Σ Δ_k and Σ Δ_k / k over k > high.
        let (mut below, mut above, mut above_over) = (0.0, 0.0, 0.0);
        // Of β_high = 2 Σ_{i ≤ low} i / (m − i) / (low (low + 1)), which is the same as `fu_beta`, but does not cancel; and a_m − a_high.
        let (mut tail, mut top) = (0.0, 0.0);
        // β_low and β_{high+1}; there are no sums below and above yet that the latter is needed for.
        let (mut beta_low, mut beta_above) = (fu_beta(1), 0.0);
        for low in 1..=(m - 1) / 2 {
            let high = m - low;
            let (x, y) = (delta(low), delta(high));
            let (l, h) = (low as f64, high as f64);
            tail += l / h;
            top += 1.0 / h;
            let beta_high = 2.0 / (l * (l + 1.0)) * tail;
            let beta_next = if low + 1 < high {
                fu_beta(low + 1)
            } else {
                beta_high
            };
            alpha += x * x / l + y * y / h;
            // σ_ii.
            beta += x * x * beta_next + y * y * (beta_high - 1.0 / (h * h));
            // i > j, i + j < m.
            beta += (x * (beta_next - beta_low) + y * (beta_above - beta_high)) * below;
            // i > j, i + j > m.
            beta += x * ((beta_low - beta_next) * above - 2.0 * above_over / l);
            beta += y * ((beta_high - beta_above) * above - 2.0 * above_over / h);
            // i + j = m.
            let sigma =
                top / l + (a_m - harmonic(low)) / h - (beta_high + beta_next) / 2.0 - 1.0 / (h * l);
            beta += 2.0 * x * y * sigma;
            below += x;
            above += y;
            above_over += y / h;
            (beta_low, beta_above) = (beta_next, beta_high);
        }
        if m.is_multiple_of(2) {
            let (x, middle) = (delta(m / 2), copies / 2.0);
            alpha += x * x / middle;
            beta += x * x * (2.0 * (a_m - harmonic(m / 2)) / middle - 1.0 / (middle * middle));
            beta += x * (beta_above - beta_low) * below;
            beta += x * ((beta_low - beta_above) * above - 2.0 * above_over / middle);
        }
        Some(Self {
            alpha,
            beta,
            a: a_m,
            b: harmonic_squares(m),
        })
    }

    /// The variance for S = `sites` sites, with θ estimated by S/a and θ² by S(S−1)/(a² + b) (Achaz 2009; Tajima 1989).
    pub fn estimate(&self, sites: f64) -> f64 {
        self.alpha * sites / self.a + self.beta * sites * (sites - 1.0) / (self.a * self.a + self.b)
    }

    /// The test's value: a difference of two estimators over its standard deviation; `None` where that is not positive.
    pub fn standardise(&self, difference: f64, sites: f64) -> Option<f64> {
        let variance = self.estimate(sites);
        (variance > 0.0).then(|| difference / variance.sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::super::harmonic::TajimaConstants;
    use super::super::spectrum::Theta;
    use super::*;

    /// Differences for which SQL has tests, and an asymmetric one.
    const DIFFERENCES: [[Theta; 2]; 8] = [
        [Theta::Pi, Theta::W],
        [Theta::Pi, Theta::L],
        [Theta::L, Theta::W],
        [Theta::W, Theta::Singletons],
        [Theta::Pi, Theta::Singletons],
        [Theta::W, Theta::SingletonsFolded],
        [Theta::Pi, Theta::SingletonsFolded],
        [Theta::H, Theta::NoSingletons],
    ];

    fn delta(m: u64, [one, other]: [Theta; 2]) -> impl Fn(u64) -> f64 {
        move |i| one.weight(m as f64, i as f64) - other.weight(m as f64, i as f64)
    }

    fn variance(m: u64, difference: [Theta; 2]) -> SpectrumVariance {
        SpectrumVariance::new(m, delta(m, difference)).unwrap()
    }

    fn a(k: u64) -> f64 {
        (1..k).map(|i| 1.0 / i as f64).sum()
    }

    fn b(k: u64) -> f64 {
        (1..k).map(|i| 1.0 / (i * i) as f64).sum()
    }

    /// σ_ij as it stands: Fu 1995, eqs 2 and 3, with his β_m(k).
    fn sigma(m: u64, i: u64, j: u64, a: &[f64]) -> f64 {
        let (n, a_of) = (m as f64, |k: u64| a[k as usize]);
        let f = |k: u64| k as f64;
        let beta =
            |k: u64| 2.0 * n / (f(m - k + 1) * f(m - k)) * (a_of(m + 1) - a_of(k)) - 2.0 / f(m - k);
        let (i, j) = (i.max(j), i.min(j));
        let (x, y) = (f(i), f(j));
        if i == j {
            return match (2 * i).cmp(&m) {
                std::cmp::Ordering::Less => beta(i + 1),
                std::cmp::Ordering::Equal => 2.0 * (a_of(m) - a_of(i)) / f(m - i) - 1.0 / (x * x),
                std::cmp::Ordering::Greater => beta(i) - 1.0 / (x * x),
            };
        }
        match (i + j).cmp(&m) {
            std::cmp::Ordering::Less => (beta(i + 1) - beta(i)) / 2.0,
            std::cmp::Ordering::Equal => {
                (a_of(m) - a_of(i)) / f(m - i) + (a_of(m) - a_of(j)) / f(m - j)
                    - (beta(i) + beta(j + 1)) / 2.0
                    - 1.0 / (x * y)
            }
            std::cmp::Ordering::Greater => (beta(j) - beta(j + 1)) / 2.0 - 1.0 / (x * y),
        }
    }

    #[test]
    fn one_pass_is_the_double_sum() {
        for m in 3..=200 {
            let a: Vec<f64> = (0..=m + 1).map(a).collect();
            let mut sigmas = vec![vec![0.0; m as usize]; m as usize];
            for i in 1..m {
                for j in 1..m {
                    sigmas[i as usize][j as usize] = sigma(m, i, j, &a);
                }
            }
            for difference in DIFFERENCES {
                if difference[1].smallest() > m {
                    continue;
                }
                let delta = delta(m, difference);
                let (mut alpha, mut beta) = (0.0, 0.0);
                for i in 1..m {
                    alpha += delta(i) * delta(i) / i as f64;
                    for j in 1..m {
                        beta += delta(i) * delta(j) * sigmas[i as usize][j as usize];
                    }
                }
                let found = variance(m, difference);
                let place =
                    format!("m = {m}, {difference:?}: {found:?}, expected {alpha} and {beta}");
                assert!((found.alpha - alpha).abs() < 1e-12, "{place}");
                assert!((found.beta - beta).abs() < 1e-11, "{place}");
            }
        }
    }

    fn assert_close(found: f64, expected: f64, tolerance: f64, place: &str) {
        let difference = (found - expected).abs();
        assert!(
            difference <= tolerance * expected.abs().max(1e-3),
            "{place}: {found}, expected {expected}"
        );
    }

    /// α and β of H / 2 and of E: Zeng et al. 2006.
    fn closed_h_and_e(m: u64) -> [(f64, f64); 2] {
        let (n, a, b, b_next) = (m as f64, a(m), b(m), b(m + 1));
        let h = (
            (n - 2.0) / (6.0 * (n - 1.0)),
            (18.0 * n * n * (3.0 * n + 2.0) * b_next
                - (88.0 * n.powi(3) + 9.0 * n * n - 13.0 * n + 6.0))
                / (9.0 * n * (n - 1.0).powi(2)),
        );
        let e = (
            n / (2.0 * (n - 1.0)) - 1.0 / a,
            b / (a * a) + 2.0 * (n / (n - 1.0)).powi(2) * b
                - 2.0 * (n * b - n + 1.0) / ((n - 1.0) * a)
                - (3.0 * n + 1.0) / (n - 1.0),
        );
        [h, e]
    }

    /// u and v of D, of S − a η_e, and of D*, of m/(m−1) S − a η_s: Fu and Li 1993, the latter as in Simonsen et al. 1995.
    fn closed_fu_li(m: u64) -> [(f64, f64); 2] {
        let (n, a, b) = (m as f64, a(m), b(m));
        let squares = a * a + b;
        let c = 2.0 * (n * a - 2.0 * (n - 1.0)) / ((n - 1.0) * (n - 2.0));
        let v = 1.0 + a * a / squares * (c - (n + 1.0) / (n - 1.0));
        let plain = (a - 1.0 - v, v);
        let factor = n / (n - 1.0);
        let d = c
            + (n - 2.0) / (n - 1.0).powi(2)
            + 2.0 / (n - 1.0) * (1.5 - (2.0 * (a + 1.0 / n) - 3.0) / (n - 2.0) - 1.0 / n);
        let v = (factor * factor * b + a * a * d - 2.0 * n * a * (a + 1.0) / (n - 1.0).powi(2))
            / squares;
        [plain, (factor * (a - factor) - v, v)]
    }

    /// u and v of an estimate uS + vS², for a difference times `factor`.
    fn linear_and_square(found: SpectrumVariance, factor: f64) -> (f64, f64) {
        let square = found.beta / (found.a * found.a + found.b) * factor * factor;
        (found.alpha / found.a * factor * factor - square, square)
    }

    #[test]
    fn published_closed_forms() {
        for m in 4..=200 {
            let at = |name: &str| format!("{name}, m = {m}");
            let (n, a) = (m as f64, a(m));
            let [h, e] = closed_h_and_e(m);
            for (name, difference, (alpha, beta)) in [
                ("H", [Theta::Pi, Theta::L], h),
                ("E", [Theta::L, Theta::W], e),
            ] {
                let found = variance(m, difference);
                assert_close(found.alpha, alpha, 1e-8, &at(name));
                assert_close(found.beta, beta, 1e-8, &at(name));
            }
            let [d, d_star] = closed_fu_li(m);
            for (name, difference, factor, (u, v)) in [
                ("D", [Theta::W, Theta::Singletons], a, d),
                (
                    "D*",
                    [Theta::W, Theta::SingletonsFolded],
                    n * a / (n - 1.0),
                    d_star,
                ),
            ] {
                let found = linear_and_square(variance(m, difference), factor);
                assert_close(found.0, u, 1e-8, &at(name));
                assert_close(found.1, v, 1e-8, &at(name));
            }
            let tajima = TajimaConstants::new(m).unwrap();
            let found = variance(m, [Theta::Pi, Theta::W]);
            assert_close(
                found.estimate(2.0),
                tajima.variance(2),
                1e-8,
                &at("Tajima's D"),
            );
            assert_close(
                found.estimate(99.0),
                tajima.variance(99),
                1e-8,
                &at("Tajima's D"),
            );
            // The closed forms of β that are published for F and F* are not this variance; α of F is plain.
            let found = variance(m, [Theta::Pi, Theta::Singletons]);
            let alpha = 1.0 + (n + 1.0) / (3.0 * (n - 1.0)) - 4.0 / n;
            assert_close(found.alpha, alpha, 1e-8, &at("F"));
        }
    }

    #[test]
    fn large_samples_stay_accurate() {
        let m = 200_000;
        let [h, _] = closed_h_and_e(m);
        let found = variance(m, [Theta::Pi, Theta::L]);
        assert_close(found.alpha, h.0, 1e-11, "H");
        assert_close(found.beta, h.1, 1e-11, "H");
        let [(u, v), _] = closed_fu_li(m);
        let found = linear_and_square(variance(m, [Theta::W, Theta::Singletons]), a(m));
        assert_close(found.0, u, 1e-11, "D");
        assert_close(found.1, v, 1e-11, "D");
    }

    /// Simulated variances of Fu and Li's F and F* (m = 5, θ = 10, 60,000 coalescents): 45.0 and 61.1.
    #[test]
    fn simulated_variances() {
        for (difference, simulated) in [
            ([Theta::Pi, Theta::Singletons], 45.0),
            ([Theta::Pi, Theta::SingletonsFolded], 61.1),
        ] {
            let found = variance(5, difference);
            let variance = found.alpha * 10.0 + found.beta * 100.0;
            assert!((variance / simulated - 1.0).abs() < 0.02, "{variance}");
        }
    }

    #[test]
    fn nothing_to_test_and_too_many_copies() {
        let found = SpectrumVariance::new(9, |_| 0.0).unwrap();
        assert_eq!(found.standardise(0.0, 5.0), None);
        assert_eq!(SpectrumVariance::new(1, |_| 1.0), None);
        assert_eq!(
            SpectrumVariance::new(SpectrumVariance::MOST_COPIES + 1, |_| 1.0),
            None
        );
    }
}
