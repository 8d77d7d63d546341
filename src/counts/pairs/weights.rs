//! The terms of a row in sums over rows of α x x′ − β (x c′ + c x′) + γ c c′, with x the dosage of an individual and c whether it is a
//! complete diploid (x = 0 if not), as whole numbers.
//!
//! With u = 1 − c a term is γ − (β x + γ u) − (β x′ + γ u′) + α x x′ + β (x u′ + u x′) + γ u u′: a total, a term of each individual, and a
//! term of pairs that is 0 unless both are carriers or no complete diploids. Coefficients are rounded once, from the row's integers, to
//! multiples of 2⁻³² ([`GCTA_BITS`]) or 2⁻⁴⁴ ([`FRACTION_BITS`]), so sums do not depend on the order of rows.

use super::dosages::INCOMPLETE;

/// Fraction bits of coefficients with the weight 1 / (2p(1 − p)), which is as large as the number of individuals.
pub(super) const GCTA_BITS: u32 = 32;
/// Fraction bits of the others, at most 4.
pub(super) const FRACTION_BITS: u32 = 44;

/// The nearest double.
#[inline]
pub(super) fn nearest(number: i128) -> f64 {
    // The conversion of a word is one instruction, that of two a call.
    if let Ok(number) = i64::try_from(number) {
        return number as f64;
    }
    let size = number.unsigned_abs();
    // The first 63 bits and whether others follow, which rounds like all of them: a double has 53.
    let shift = 65 - ((size >> 64) as u64).leading_zeros();
    let is_more = size & ((1 << shift) - 1) != 0;
    let first = (size >> shift) as i64 | i64::from(is_more);
    // A power of two, by its exponent.
    let power = f64::from_bits((1023 + u64::from(shift)) << 52);
    let nearest = first as f64 * power;
    if number < 0 { -nearest } else { nearest }
}

/// A fixed-point number as the nearest double.
#[inline]
pub(super) fn scaled(number: i128, bits: u32) -> f64 {
    nearest(number) / (1u64 << bits) as f64
}

/// What is summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forms {
    /// The sums of `grm`.
    Grm,
    /// Those of GCTA's relationship alone.
    Gcta,
    /// Those of the covariance of dosages centred by row.
    Covariance,
}

/// The sums of [`Forms::Grm`]; the first is that of [`Forms::Gcta`], too.
pub(super) mod grm {
    /// (x − 2p)(x′ − 2p) / (2p(1 − p)); 2⁻³².
    pub(in super::super) const GCTA: usize = 0;
    /// x x′.
    pub(in super::super) const PRODUCTS: usize = 1;
    /// (x − 2p)(x′ − 2p) − x x′; 2⁻⁴⁴.
    pub(in super::super) const CENTRE: usize = 2;
    /// 2p(1 − p); 2⁻⁴⁴.
    pub(in super::super) const VARIANCE: usize = 3;
    /// 1.
    pub(in super::super) const SITES: usize = 4;
    /// Number of sums.
    pub(in super::super) const COUNT: usize = 5;
}

/// The sums of [`Forms::Covariance`], with y = x − t/N c.
pub(super) mod covariance {
    /// x x′.
    pub(in super::super) const PRODUCTS: usize = 0;
    /// y y′ − x x′; 2⁻⁴⁴.
    pub(in super::super) const CENTRE: usize = 1;
    /// 1.
    pub(in super::super) const SITES: usize = 2;
    /// y u′. Its part −t/N u′ is in the terms of individuals, the rest in those of pairs; 2⁻⁴⁴.
    pub(in super::super) const FIRST: usize = 3;
    /// u y′, divided likewise.
    pub(in super::super) const SECOND: usize = 4;
    /// y, as terms of individuals: y of one is its term − total; 2⁻⁴⁴.
    pub(in super::super) const SINGLE: usize = 5;
}

/// The terms of one row in one sum.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Terms {
    pub(super) total: i64,
    /// The term of an individual, by its value in [`Dosages`](super::Dosages).
    pub(super) single: [i64; 4],
    /// [a, b, c, d] of the term of a pair, (a x + b u) x′ + (c x + d u) u′.
    pub(super) pair: [i64; 4],
}

impl Terms {
    fn symmetric(alpha: i64, beta: i64, gamma: i64) -> Self {
        Self {
            total: gamma,
            single: [0, beta, 2 * beta, gamma],
            pair: [alpha, beta, beta, gamma],
        }
    }

    /// The term of a pair, by values.
    pub(super) fn of_values(&self) -> [[i64; 4]; 4] {
        let mut terms = [[0; 4]; 4];
        for (first, terms) in terms.iter_mut().enumerate() {
            for (second, term) in terms.iter_mut().enumerate() {
                let [by_x, by_u] = self.first(first);
                let (x, u) = dosage(second);
                *term = by_x * x + by_u * u;
            }
        }
        terms
    }

    /// a x + b u and c x + d u.
    pub(super) fn first(&self, value: usize) -> [i64; 2] {
        let [a, b, c, d] = self.pair;
        let (x, u) = dosage(value);
        [a * x + b * u, c * x + d * u]
    }

    /// Whether pairs have terms, in rows with and without incomplete individuals.
    pub(super) fn has_pairs(&self, complete: bool) -> bool {
        let [a, others @ ..] = self.pair;
        a != 0 || !complete && others != [0; 3]
    }

    /// The largest term of a pair, in a row with or without incomplete individuals.
    pub(super) fn largest(&self, complete: bool) -> i64 {
        let all = self.of_values();
        let values = if complete { 3 } else { 4 };
        let terms = all.iter().take(values).flat_map(|terms| &terms[..values]);
        terms.map(|term| term.abs()).max().unwrap_or(0)
    }
}

/// x and u of a value.
fn dosage(value: usize) -> (i64, i64) {
    match value {
        value if value == usize::from(INCOMPLETE) => (0, 1),
        dosage => (dosage as i64, 0),
    }
}

/// numerator / denominator to the nearest multiple of 2^−bits, halves rounded up.
fn rounded(numerator: u128, denominator: u128, bits: u32) -> i64 {
    let doubled = 2 * denominator;
    // At most 2N · 2^32 or 4 · 2^44.
    (((numerator << (bits + 1)) + denominator) / doubled) as i64
}

impl Forms {
    /// Number of sums.
    pub(super) fn count(self) -> usize {
        match self {
            Self::Grm => grm::COUNT,
            Self::Gcta => 1,
            Self::Covariance => 6,
        }
    }

    /// Whether the sums are the same with the alleles exchanged.
    pub(super) fn flips(self) -> bool {
        self != Self::Covariance
    }

    /// The terms of a row with N complete individuals whose dosages have the sum t: 0 < N, and 0 < t < 2N but in
    /// [`Forms::Covariance`].
    pub(super) fn terms(self, complete: u64, total: u64) -> [Terms; 6] {
        let (n, t) = (u128::from(complete), u128::from(total));
        let one = 1i64 << FRACTION_BITS;
        let mut terms = [Terms::default(); 6];
        let mean = rounded(t, n, FRACTION_BITS);
        let square = rounded(t * t, n * n, FRACTION_BITS);
        if self == Self::Covariance {
            terms[covariance::PRODUCTS] = Terms::symmetric(1, 0, 0);
            terms[covariance::CENTRE] = Terms::symmetric(0, mean, square);
            terms[covariance::SITES] = Terms::symmetric(0, 0, 1);
            let of_incomplete = [0, 0, 0, mean];
            terms[covariance::FIRST] = Terms {
                total: 0,
                single: of_incomplete,
                pair: [0, 0, one, mean],
            };
            terms[covariance::SECOND] = Terms {
                total: 0,
                single: of_incomplete,
                pair: [0, one, 0, mean],
            };
            terms[covariance::SINGLE] = Terms {
                total: mean,
                single: [0, one, 2 * one, mean],
                pair: [0; 4],
            };
            return terms;
        }
        let variance = t * (2 * n - t);
        terms[grm::GCTA] = Terms::symmetric(
            rounded(2 * n * n, variance, GCTA_BITS),
            rounded(2 * n * t, variance, GCTA_BITS),
            rounded(2 * t * t, variance, GCTA_BITS),
        );
        if self == Self::Grm {
            terms[grm::PRODUCTS] = Terms::symmetric(1, 0, 0);
            terms[grm::CENTRE] = Terms::symmetric(0, mean, square);
            let variance = rounded(variance, 2 * n * n, FRACTION_BITS);
            terms[grm::VARIANCE] = Terms::symmetric(0, 0, variance);
            terms[grm::SITES] = Terms::symmetric(0, 0, 1);
        }
        terms
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn conversions_are_those_of_the_compiler(number in any::<i128>(), shift in 0..127u32, near in -3..=3i128) {
            let number = number >> shift;
            prop_assert_eq!(nearest(number), number as f64);
            // Halfway between doubles, which have 53 bits, and next to that.
            let size = number.unsigned_abs();
            let bits = 128 - size.leading_zeros();
            if bits > 54 {
                let halfway = ((size >> (bits - 54) | 1) << (bits - 54)).cast_signed().saturating_add(near);
                for halfway in [halfway, halfway.saturating_neg()] {
                    prop_assert_eq!(nearest(halfway), halfway as f64);
                }
            }
        }
    }

    #[test]
    fn the_largest_numbers() {
        for number in [0, 1 << 63, 1 << 64, i128::MAX] {
            for number in [number - 1, number, -number, -number - 1] {
                assert_eq!(nearest(number), number as f64);
            }
        }
    }
}
