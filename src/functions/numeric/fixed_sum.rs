//! Sums of per-site terms in 128-bit fixed point: the same bits in any order of the terms, and exact retraction.
//!
//! Used by all aggregates that are sums over sites, such as `diversity` and `fst_hudson`, whose terms lie in [−1, 1].

/// A sum of terms in [−1, 1] as a multiple of 2⁻⁹⁰.
///
/// Adding truncates a term (towards zero) to a multiple of 2⁻⁹⁰; terms of magnitude 2⁻³⁷ and more are exact. The rest is integer
/// addition: commutative, associative, and undone exactly by [`FixedSum::unmerge`]. 2³⁷ (137 billion) terms of magnitude 1 fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FixedSum(pub i128);

/// 2⁹⁰, exactly.
const SCALE: f64 = (1u128 << 90) as f64;
/// Terms are added in two halves of this many bits.
const HALF_BITS: u32 = 45;
/// 2⁴⁵, exactly.
const HALF_SCALE: f64 = (1u64 << HALF_BITS) as f64;

impl FixedSum {
    /// The empty sum.
    pub const ZERO: Self = Self(0);

    #[inline(always)]
    fn quantise(term: f64) -> i128 {
        debug_assert!(
            (-1.0..=1.0).contains(&term),
            "a term must lie in [-1, 1]: {term}"
        );
        // The integer part of term · 2⁴⁵, and that of the remainder · 2⁴⁵. Every step is exact: the products are by powers of two,
        // and the difference has no more digits than the term. The casts truncate, and map NaN to 0.
        let scaled = term * HALF_SCALE;
        let high = scaled as i64;
        let low = ((scaled - high as f64) * HALF_SCALE) as i64;
        (i128::from(high) << HALF_BITS) + i128::from(low)
    }

    /// Adds a term.
    #[inline(always)]
    pub fn add(&mut self, term: f64) {
        self.0 = self.0.wrapping_add(Self::quantise(term));
    }

    /// Adds a term `times` times (subtracts it where `times` is negative), with the same bits as single additions.
    #[inline]
    pub fn add_times(&mut self, term: f64, times: i64) {
        self.0 = self
            .0
            .wrapping_add(Self::quantise(term).wrapping_mul(i128::from(times)));
    }

    /// Adds another sum.
    #[inline]
    pub fn merge(&mut self, other: Self) {
        self.0 = self.0.wrapping_add(other.0);
    }

    /// Subtracts another sum that was merged before.
    #[inline]
    pub fn unmerge(&mut self, other: Self) {
        self.0 = self.0.wrapping_sub(other.0);
    }

    /// The sum as the nearest double.
    #[inline]
    pub fn to_f64(self) -> f64 {
        self.0 as f64 / SCALE
    }

    /// The state, to be stored as Decimal128(38, 0).
    #[inline]
    pub fn state(self) -> i128 {
        self.0
    }

    /// A sum from its [`state`](Self::state).
    #[inline]
    pub fn from_state(state: i128) -> Self {
        Self(state)
    }
}

/// `L` partial sums, one per vector lane, for a limited number of terms.
#[derive(Clone, Copy, Debug)]
pub struct FixedSums<const L: usize> {
    high: [i64; L],
    low: [i64; L],
}

/// 1.5 · 2⁵²: added to a double of at most 2⁵¹, it leaves the nearest integer in the lowest bits.
const TO_WHOLE: f64 = (3u64 << 51) as f64;

/// A term of a [`FixedSum`] in two halves, `high · 2⁴⁵ + low`, computed without converting doubles to integers, for which few
/// instruction sets have vector instructions. The result is unspecified for a term outside of [−1, 1].
#[inline(always)]
fn halves(term: f64) -> (i64, i64) {
    debug_assert!(
        (-1.0..=1.0).contains(&term),
        "a term must lie in [-1, 1]: {term}"
    );
    let integer = |whole: f64| whole.to_bits().wrapping_sub(TO_WHOLE.to_bits()) as i64;
    let scaled = term.abs() * HALF_SCALE;
    let high = scaled + TO_WHOLE;
    // The difference is in [−½, ½] and exact, and so is the product.
    let rest = (scaled - (high - TO_WHOLE)) * HALF_SCALE;
    let low = rest + TO_WHOLE;
    // Truncate, where the addition has rounded up.
    let above = i64::from(low - TO_WHOLE > rest);
    // All bits are set for a negative term, to negate both halves.
    let sign = term.to_bits() as i64 >> 63;
    (
        (integer(high) ^ sign).wrapping_sub(sign),
        (integer(low).wrapping_sub(above) ^ sign).wrapping_sub(sign),
    )
}

impl<const L: usize> FixedSums<L> {
    /// The empty sums.
    pub const ZERO: Self = Self {
        high: [0; L],
        low: [0; L],
    };

    /// How many times terms may be added: halves are at most 2⁴⁵, and the total of all sums must fit 63 bits.
    pub const TERMS: usize = (1 << 17) / L;

    /// Adds a term to each sum.
    #[inline(always)]
    pub fn add(&mut self, terms: &[f64; L]) {
        #[expect(clippy::needless_range_loop, reason = "three arrays side by side")]
        for i in 0..L {
            let (high, low) = halves(terms[i]);
            self.high[i] = self.high[i].wrapping_add(high);
            self.low[i] = self.low[i].wrapping_add(low);
        }
    }

    /// The sum of all sums.
    #[inline(always)]
    pub fn total(&self) -> FixedSum {
        let (high, low): (i64, i64) = (self.high.iter().sum(), self.low.iter().sum());
        FixedSum((i128::from(high) << HALF_BITS) + i128::from(low))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partial_sums_agree_with_single_additions() {
        let mut each = FixedSum::ZERO;
        let mut sums = FixedSums::<4>::ZERO;
        for i in 1..500 {
            let term = 1.0 / f64::from(i);
            let terms = [term, -term, 0.0, 1.0 - term / 3.0];
            terms.iter().for_each(|&term| each.add(term));
            sums.add(&terms);
        }
        assert_eq!(sums.total(), each);
        // The largest number of terms that is allowed, of the largest magnitude.
        let mut sums = FixedSums::<2>::ZERO;
        (0..FixedSums::<2>::TERMS).for_each(|_| sums.add(&[-1.0, -1.0]));
        assert_eq!(sums.total().to_f64(), -f64::from(1 << 17));
    }

    #[test]
    fn order_does_not_matter() {
        let terms: Vec<f64> = (1..2000).map(|i| 1.0 / f64::from(i) - 0.3).collect();
        let (mut forward, mut backward) = (FixedSum::ZERO, FixedSum::ZERO);
        terms.iter().for_each(|&term| forward.add(term));
        terms.iter().rev().for_each(|&term| backward.add(term));
        assert_eq!(forward, backward);
        let plain: f64 = terms.iter().sum();
        assert!((forward.to_f64() - plain).abs() < 1e-9);
    }

    #[test]
    fn retraction_is_exact() {
        let mut sum = FixedSum::ZERO;
        sum.add(0.1);
        let before = sum;
        sum.add(-1.0 / 3.0);
        let mut third = FixedSum::ZERO;
        third.add(-1.0 / 3.0);
        sum.unmerge(third);
        assert_eq!(sum, before);
        sum.merge(FixedSum::from_state(7));
        sum.unmerge(FixedSum::from_state(7));
        assert_eq!(FixedSum::from_state(sum.state()), before);
        assert_eq!(sum.to_f64(), 0.1);
    }

    #[test]
    fn add_times_agrees_with_single_additions() {
        let (mut once, mut each) = (FixedSum::ZERO, FixedSum::ZERO);
        once.add_times(1.0 / 7.0, 1000);
        (0..1000).for_each(|_| each.add(1.0 / 7.0));
        assert_eq!(once, each);
        once.add_times(1.0 / 7.0, -1000);
        assert_eq!(once, FixedSum::ZERO);
    }

    #[test]
    fn halves_agree_with_the_definition() {
        let mut term = 1.0;
        while term > 1e-40 {
            for term in [term, -term, term * 0.7, -term / 3.0] {
                let expected = (term * SCALE) as i128;
                assert_eq!(FixedSum::quantise(term), expected, "{term}");
                let (high, low) = halves(term);
                assert_eq!((i128::from(high) << HALF_BITS) + i128::from(low), expected);
                assert!(high.abs() <= 1 << HALF_BITS && low.abs() <= 1 << HALF_BITS);
            }
            term /= 2.0;
        }
        assert_eq!(FixedSum::quantise(0.0), 0);
    }

    #[test]
    fn extremes() {
        let mut sum = FixedSum::ZERO;
        sum.add_times(1.0, 1 << 36);
        assert_eq!(sum.to_f64(), (1u64 << 36) as f64);
        sum.add_times(-1.0, 1 << 37);
        assert_eq!(sum.to_f64(), -((1u64 << 36) as f64));
        let mut tiny = FixedSum::ZERO;
        tiny.add(f64::MIN_POSITIVE);
        assert_eq!(tiny, FixedSum::ZERO);
    }
}
