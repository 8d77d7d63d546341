//! Estimators of θ that are linear in the unfolded site frequency spectrum, θ̂ = Σ_i w_i ξ_i with ξ_i the number of sites where
//! i of n copies are derived (Achaz 2009).
//!
//! A site with d of n copies derived adds the weight w_d of a sample of n copies. So the weights are both the terms of the
//! aggregates, where each site has its own n, and the coefficients for a given spectrum. The variance of a difference of
//! two estimators is in [`spectrum_variance`](super::spectrum_variance).

use super::harmonic::{harmonic, inverse_harmonic};

/// An estimator of θ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theta {
    /// θ_π: mean number of differences between two copies. Tajima 1983.
    Pi,
    /// θ_W, of the number of sites. Watterson 1975.
    W,
    /// θ_H, of the squares of derived counts. Fay and Wu 2000.
    H,
    /// θ_L, of the mean derived count. Zeng et al. 2006, eq. 8.
    L,
    /// η_e: sites with one derived copy. Fu and Li 1993.
    Singletons,
    /// θ_η*: sites where one copy differs from all others. Fu and Li 1993.
    SingletonsFolded,
    /// θ_W without derived singletons. Achaz 2008.
    NoSingletons,
    /// θ_W without the sites where one copy differs from all others. Achaz 2008.
    NoSingletonsFolded,
}

impl Theta {
    /// Every estimator, with its name in SQL.
    pub const NAMED: [(&'static str, Self); 8] = [
        ("pi", Self::Pi),
        ("w", Self::W),
        ("h", Self::H),
        ("l", Self::L),
        ("singletons", Self::Singletons),
        ("singletons_folded", Self::SingletonsFolded),
        ("no_singletons", Self::NoSingletons),
        ("no_singletons_folded", Self::NoSingletonsFolded),
    ];

    /// The smallest sample that it is defined for.
    pub fn smallest(self) -> u64 {
        match self {
            Self::NoSingletons => 3,
            Self::NoSingletonsFolded => 4,
            _ => 2,
        }
    }

    /// The weight w_d of ξ_d in a sample of `n` copies. `n` and `d` are integers with 0 < `d` < `n`, and `n` is at least
    /// [`smallest`](Self::smallest).
    ///
    /// In [0, 1] but for [`H`](Self::H), which is below 2, and [`NoSingletons`](Self::NoSingletons) and
    /// [`NoSingletonsFolded`](Self::NoSingletonsFolded), which are at most 2 and 3.
    #[inline(always)] // once per site, where the estimator is a constant
    pub fn weight(self, n: f64, d: f64) -> f64 {
        let pairs = n * (n - 1.0) / 2.0;
        let is_folded_singleton = d == 1.0 || n - d == 1.0;
        match self {
            Self::Pi => d * (n - d) / pairs,
            // A whole number.
            Self::W => inverse_harmonic(n as u64),
            Self::H => d * d / pairs,
            Self::L => d / (n - 1.0),
            Self::Singletons => f64::from(u8::from(d == 1.0)),
            Self::SingletonsFolded if is_folded_singleton => (n - 1.0) / n,
            Self::NoSingletons if d > 1.0 => rest_without_singletons(n as u64),
            Self::NoSingletonsFolded if !is_folded_singleton => {
                rest_without_folded_singletons(n as u64)
            }
            _ => 0.0,
        }
    }
}

/// 1 / (h(n) − 1): the weight of [`Theta::NoSingletons`] of a site that is no singleton.
pub fn rest_without_singletons(n: u64) -> f64 {
    1.0 / (harmonic(n) - 1.0)
}

/// 1 / (h(n) − n/(n−1)): the weight of [`Theta::NoSingletonsFolded`] of a site that is no singleton of either allele.
pub fn rest_without_folded_singletons(n: u64) -> f64 {
    let copies = n as f64;
    1.0 / (harmonic(n) - copies / (copies - 1.0))
}

/// Half of what a site adds to Fay and Wu's H = θ_π − θ_H (2000): d(n − 2d) / (n(n−1)), in (−1, ½]; 0 < `d` < `n`.
#[inline(always)] // once per site
pub fn half_fay_wu_h(n: f64, d: f64) -> f64 {
    d * (n - 2.0 * d) / (n * (n - 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_by_hand() {
        let weights = |theta: Theta, n: u32| -> Vec<f64> {
            (1..n).map(|d| theta.weight(n.into(), d.into())).collect()
        };
        let w = 1.0 / (1.0 + 0.5 + 1.0 / 3.0);
        assert_eq!(weights(Theta::Pi, 4), [0.5, 2.0 / 3.0, 0.5]);
        assert_eq!(weights(Theta::W, 4), [w; 3]);
        assert_eq!(weights(Theta::H, 4), [1.0 / 6.0, 2.0 / 3.0, 1.5]);
        assert_eq!(weights(Theta::L, 4), [1.0 / 3.0, 2.0 / 3.0, 1.0]);
        assert_eq!(weights(Theta::Singletons, 4), [1.0, 0.0, 0.0]);
        assert_eq!(weights(Theta::SingletonsFolded, 4), [0.75, 0.0, 0.75]);
        assert_eq!(weights(Theta::SingletonsFolded, 2), [0.5]);
        let rest = 1.0 / (1.0 / w - 1.0);
        assert_eq!(weights(Theta::NoSingletons, 4)[0], 0.0);
        assert!((weights(Theta::NoSingletons, 4)[2] - rest).abs() < 1e-15);
        assert_eq!(weights(Theta::NoSingletons, 3), [0.0, 2.0]);
        let found = weights(Theta::NoSingletonsFolded, 4);
        assert_eq!([found[0], found[2]], [0.0, 0.0]);
        assert!((found[1] - 2.0).abs() < 1e-14);
    }

    /// E ξ_i = θ / i, so each estimator is unbiased if Σ w_i / i = 1.
    #[test]
    fn every_estimator_is_unbiased() {
        for (name, theta) in Theta::NAMED {
            // With two copies both singletons are one site, and θ_η* is η_e / 2.
            for n in theta.smallest().max(3)..200 {
                let mean: f64 = (1..n)
                    .map(|d| theta.weight(n as f64, d as f64) / d as f64)
                    .sum();
                assert!((mean - 1.0).abs() < 1e-13, "{name}, n = {n}: {mean}");
            }
        }
    }

    #[test]
    fn h_is_a_difference_of_two_estimators() {
        for n in 2..60u32 {
            for d in 1..n {
                let (n, d) = (n.into(), d.into());
                let expected = Theta::Pi.weight(n, d) - Theta::H.weight(n, d);
                assert!((2.0 * half_fay_wu_h(n, d) - expected).abs() < 1e-14);
                let expected = Theta::Pi.weight(n, d) - Theta::L.weight(n, d);
                assert!((half_fay_wu_h(n, d) - expected).abs() < 1e-14);
            }
        }
    }

    #[test]
    fn terms_that_are_summed_are_at_most_1() {
        // Fixed-point sums need terms in [−1, 1], up to the largest sample that four 32-bit counts can give.
        for n in [2.0, 3.0, 4.0, 1e3, 1e6 + 1.0, 94_906_267.0, 8_589_934_588.0] {
            for d in [1.0, 2.0, 3.0, (n / 2.0_f64).floor(), n - 2.0, n - 1.0] {
                if d <= 0.0 || d >= n {
                    continue;
                }
                for theta in [
                    Theta::Pi,
                    Theta::W,
                    Theta::L,
                    Theta::Singletons,
                    Theta::SingletonsFolded,
                ] {
                    let weight = theta.weight(n, d);
                    assert!((0.0..=1.0).contains(&weight), "{theta:?} {n} {d}: {weight}");
                }
                assert!((0.0..=1.0).contains(&(Theta::H.weight(n, d) / 2.0)));
                assert!((-1.0..=0.5).contains(&half_fay_wu_h(n, d)));
            }
        }
    }
}
