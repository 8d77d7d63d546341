//! Statistics of the unphased genotypes of two sites: their squared correlation, and the unbiased estimators of the moments of linkage
//! disequilibrium (Ragsdale and Gravel 2020).
//!
//! The estimators are averages over four distinct individuals of products of dosages. Such an average is a polynomial of sums over
//! all individuals, by inclusion and exclusion over the set partitions of the four. In whole numbers it is exact.

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
    /// Σ x² y, Σ x y² and Σ x² y²; only where [`moments`](Self::moments) are wanted.
    pub higher: [f64; 3],
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
            ..
        } = self;
        let covariance = n * xy - x * y;
        let spread = (n * xx - x * x) * (n * yy - y * y);
        (spread > 0.0).then_some(((covariance * covariance) / spread).min(1.0))
    }

    /// 4 f DD, 2 f Dz and 16 f π₂, where f = n (n−1) (n−2) (n−3) and n is the number of individuals: sums over four distinct individuals u, v,
    /// s and t of (x_u y_u − x_u y_v) (x_s y_s − x_s y_t), of (x_u y_u − x_u y_v) (1 − x_s) (1 − y_t), and of x_u (2 − x_v) y_s (2 − y_t).
    ///
    /// The numbers are whole and below 2⁵³; for a million individuals the results are below 2⁹⁰.
    pub fn moments(self) -> [i128; 3] {
        let [n, x, y, xx, yy, xy] =
            [self.individuals, self.x, self.y, self.xx, self.yy, self.xy].map(|sum| sum as i128);
        let [xxy, xyy, xxyy] = self.higher.map(|sum| sum as i128);
        // Sums over distinct individuals, one for each factor: of xy and xy, of x and y, and so on.
        let xy_xy = xy * xy - xxyy;
        let xy_x = xy * x - xxy;
        let xy_y = xy * y - xyy;
        let x_y = x * y - xy;
        let xy_x_y = xy * x * y - xxy * y - xyy * x - xy * xy + 2 * xxyy;
        let x_x_y = x * x * y - xx * y - 2 * xy * x + 2 * xxy;
        let x_y_y = x * y * y - yy * x - 2 * xy * y + 2 * xyy;
        let x_x_y_y = x * x * y * y - xx * y * y - yy * x * x - 4 * xy * x * y
            + xx * yy
            + 2 * xy * xy
            + 4 * xxy * y
            + 4 * xyy * x
            - 6 * xxyy;
        let (two_left, one_left) = ((n - 2) * (n - 3), n - 3);
        let dd = two_left * xy_xy - 2 * one_left * xy_x_y + x_x_y_y;
        let of_one = (n - 1) * (n - 2) * xy - (n - 2) * (xy_x + xy_y) + xy_x_y;
        let of_two = two_left * x_y - one_left * (x_x_y + x_y_y) + x_x_y_y;
        let dz = one_left * of_one - of_two;
        let pi2 = 4 * two_left * x_y - 2 * one_left * (x_x_y + x_y_y) + x_x_y_y;
        [dd, dz, pi2]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(dosages: &[[f64; 2]]) -> TwoDosages {
        let sum = |of: fn(&[f64; 2]) -> f64| dosages.iter().map(of).sum();
        TwoDosages {
            individuals: dosages.len() as f64,
            x: sum(|d| d[0]),
            y: sum(|d| d[1]),
            xx: sum(|d| d[0] * d[0]),
            yy: sum(|d| d[1] * d[1]),
            xy: sum(|d| d[0] * d[1]),
            higher: [
                sum(|d| d[0] * d[0] * d[1]),
                sum(|d| d[0] * d[1] * d[1]),
                sum(|d| d[0] * d[0] * d[1] * d[1]),
            ],
        }
    }

    fn of(dosages: &[[f64; 2]]) -> Option<f64> {
        sums(dosages).r2()
    }

    /// The sums over distinct individuals, by definition.
    fn by_definition(dosages: &[[f64; 2]]) -> [f64; 3] {
        let n = dosages.len();
        let mut sums = [0.0; 3];
        for at in 0..n.pow(4) {
            let four = [at % n, at / n % n, at / n / n % n, at / n / n / n];
            let differ = (0..4).all(|i| (0..i).all(|j| four[i] != four[j]));
            if !differ {
                continue;
            }
            let [u, v, s, t] = four.map(|of| dosages[of]);
            let d = u[0] * u[1] - u[0] * v[1];
            sums[0] += d * (s[0] * s[1] - s[0] * t[1]);
            sums[1] += d * (1.0 - s[0]) * (1.0 - t[1]);
            sums[2] += u[0] * (2.0 - v[0]) * s[1] * (2.0 - t[1]);
        }
        sums
    }

    #[test]
    fn moments_are_sums_over_distinct_individuals() {
        let mut state = 1u64;
        for round in 0..300 {
            let n = 4 + round % 4;
            let mut dosage = || {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                ((state >> 33) % 3) as f64
            };
            let dosages: Vec<[f64; 2]> = (0..n).map(|_| [dosage(), dosage()]).collect();
            let found = sums(&dosages).moments().map(|sum| sum as f64);
            assert_eq!(found, by_definition(&dosages), "{dosages:?}");
        }
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
