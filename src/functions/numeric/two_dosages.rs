//! The squared correlation of the genotypes of two sites.

/// Sums over individuals of their dosages x and y, the numbers of copies with another allele than the reference.
#[derive(Clone, Copy, Debug)]
pub struct TwoDosages {
    /// Number of individuals.
    pub individuals: f64,
    /// Σ x.
    pub x: f64,
    /// Σ y.
    pub y: f64,
    /// Σ x².
    pub xx: f64,
    /// Σ y².
    pub yy: f64,
    /// Σ x y.
    pub xy: f64,
}

impl TwoDosages {
    /// r² (Rogers and Huff 2009); `None` where a dosage does not vary. Sums, and products of two of them, are exact.
    #[inline(always)]
    pub fn r2(self) -> Option<f64> {
        let Self {
            individuals: n,
            x,
            y,
            xx,
            yy,
            xy,
        } = self;
        let covariance = n * xy - x * y;
        let spread = (n * xx - x * x) * (n * yy - y * y);
        (spread > 0.0).then_some(((covariance * covariance) / spread).min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(dosages: &[[f64; 2]]) -> Option<f64> {
        let sum = |of: fn(&[f64; 2]) -> f64| dosages.iter().map(of).sum();
        let dosages = TwoDosages {
            individuals: dosages.len() as f64,
            x: sum(|d| d[0]),
            y: sum(|d| d[1]),
            xx: sum(|d| d[0] * d[0]),
            yy: sum(|d| d[1] * d[1]),
            xy: sum(|d| d[0] * d[1]),
        };
        dosages.r2()
    }

    #[test]
    fn correlations() {
        assert_eq!(of(&[[0.0, 2.0], [1.0, 1.0], [2.0, 0.0]]), Some(1.0));
        assert_eq!(
            of(&[[0.0, 0.0], [0.0, 1.0], [2.0, 0.0], [2.0, 1.0]]),
            Some(0.0)
        );
        assert_eq!(of(&[[0.0, 0.0], [1.0, 1.0], [2.0, 1.0]]), Some(0.75));
        assert_eq!(of(&[[1.0, 0.0], [1.0, 2.0]]), None);
        assert_eq!(of(&[]), None);
    }
}
