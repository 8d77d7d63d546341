//! An exact sum of any doubles (a small superaccumulator), for `exact_sum`.
//!
//! The sum is one long fixed-point number that covers the whole range of doubles. Each of its 32-bit limbs is held in a 64-bit
//! integer, so that carries are propagated only after many additions. Additions commute, associate and can be undone; only
//! [`to_f64`](ExactSum::to_f64) rounds, once, to nearest even. After Neal 2015 ("Fast exact summation using small and large superaccumulators").

use crate::error::{Result, VczError};

/// Number of limbs: 2 098 bits hold any finite double, the other 78 the carries of 2⁶³ additions and the sign.
const LIMBS: usize = 68;
/// Additions after which carries must be propagated.
const MAX_PENDING: u32 = 1 << 29;
/// Bytes before the limbs in [`ExactSum::to_bytes`].
const HEADER: usize = 25;

/// An exact, order-independent sum of doubles. NaN and infinities are counted, so that they can be subtracted again.
#[derive(Clone, Debug)]
pub struct ExactSum {
    /// Σ limbs\[i\] 2^(32 i − 1074).
    limbs: Box<[i64; LIMBS]>,
    pending: u32,
    nans: i64,
    infinities: i64,
    negative_infinities: i64,
}

impl Default for ExactSum {
    fn default() -> Self {
        Self {
            limbs: Box::new([0; LIMBS]),
            pending: 0,
            nans: 0,
            infinities: 0,
            negative_infinities: 0,
        }
    }
}

impl ExactSum {
    /// The empty sum.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes of a sum on the heap.
    pub const HEAP_SIZE: usize = size_of::<[i64; LIMBS]>();

    /// Adds a term.
    #[inline]
    pub fn add(&mut self, term: f64) {
        self.add_signed(term, 1);
    }

    /// Subtracts a term that was added before.
    #[inline]
    pub fn sub(&mut self, term: f64) {
        self.add_signed(term, -1);
    }

    #[inline]
    fn add_signed(&mut self, term: f64, times: i64) {
        let bits = term.to_bits();
        let exponent = ((bits >> 52) & 0x7ff) as usize;
        let fraction = bits & ((1 << 52) - 1);
        let (mantissa, shift) = match exponent {
            0 => (fraction, 0),
            0x7ff => return self.add_special(term, times),
            _ => (fraction | 1 << 52, exponent - 1),
        };
        if self.pending >= MAX_PENDING {
            self.normalise();
        }
        self.pending += 1;
        let sign = if term.is_sign_negative() {
            -times
        } else {
            times
        };
        // At most 53 + 31 bits: three limbs, and shift / 32 is at most 63.
        let wide = u128::from(mantissa) << (shift % 32);
        let first = shift / 32;
        for (i, limb) in self.limbs[first..first + 3].iter_mut().enumerate() {
            *limb += sign * i64::from((wide >> (32 * i)) as u32);
        }
    }

    #[cold]
    fn add_special(&mut self, term: f64, times: i64) {
        let counter = match term {
            f64::INFINITY => &mut self.infinities,
            f64::NEG_INFINITY => &mut self.negative_infinities,
            _ => &mut self.nans,
        };
        *counter = counter.wrapping_add(times);
    }

    /// Propagates carries: all limbs but the last end up in [0, 2³²), and the last holds the sign.
    fn normalise(&mut self) {
        let mut carry = 0;
        for limb in self.limbs.iter_mut() {
            let value = *limb + carry;
            *limb = value & 0xffff_ffff;
            carry = value >> 32;
        }
        // The last limb is signed; the range keeps it far below 2³¹ in magnitude.
        let last = &mut self.limbs[LIMBS - 1];
        *last = i64::from(*last as u32 as i32);
        self.pending = 0;
    }

    fn normalised(&self) -> Self {
        let mut copy = self.clone();
        copy.normalise();
        copy
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &Self) {
        if self.pending >= MAX_PENDING {
            self.normalise();
        }
        let other = other.normalised();
        self.limbs
            .iter_mut()
            .zip(other.limbs.iter())
            .for_each(|(limb, &other)| *limb += other);
        self.pending += 1;
        self.nans = self.nans.wrapping_add(other.nans);
        self.infinities = self.infinities.wrapping_add(other.infinities);
        self.negative_infinities = self
            .negative_infinities
            .wrapping_add(other.negative_infinities);
    }

    /// The sum, rounded once to the nearest double (ties to even); 0 for an empty sum. NaN if it contains a NaN or both
    /// infinities.
    pub fn to_f64(&self) -> f64 {
        match (
            self.nans > 0,
            self.infinities > 0,
            self.negative_infinities > 0,
        ) {
            (true, _, _) | (_, true, true) => return f64::NAN,
            (_, true, _) => return f64::INFINITY,
            (_, _, true) => return f64::NEG_INFINITY,
            _ => {}
        }
        let mut value = self.normalised();
        let negative = value.limbs[LIMBS - 1] < 0;
        if negative {
            value.limbs.iter_mut().for_each(|limb| *limb = -*limb);
            value.normalise();
        }
        let magnitude = value.round_magnitude();
        if negative { -magnitude } else { magnitude }
    }

    /// Rounds a normalised, non-negative sum.
    fn round_magnitude(&self) -> f64 {
        let Some(top) = self.limbs.iter().rposition(|&limb| limb != 0) else {
            return 0.0;
        };
        let highest = 32 * top + self.limbs[top].ilog2() as usize;
        let bit = |at: usize| self.limbs[at / 32] >> (at % 32) & 1 == 1;
        // The lowest bit of a mantissa of 53 bits; doubles have no bits below 2^-1074, which is bit 0 here.
        let lowest = highest.saturating_sub(52);
        let first = lowest / 32;
        let mut window = 0u128;
        for (i, &limb) in self.limbs[first..=top].iter().enumerate() {
            window |= u128::from(limb as u64) << (32 * i);
        }
        let mut bits = (window >> (lowest % 32)) as u64;
        if lowest > 0 {
            // While the exponent field is 0 or 1, the bits of a double are its multiple of 2^-1074. So only larger exponents have
            // to be added, and a carry out of the mantissa increments the exponent.
            bits += (lowest as u64) << 52;
            let half = bit(lowest - 1);
            let below = (0..(lowest - 1) / 32).any(|i| self.limbs[i] != 0)
                || self.limbs[(lowest - 1) / 32] & ((1 << ((lowest - 1) % 32)) - 1) != 0;
            if half && (below || bits & 1 == 1) {
                bits += 1;
            }
        }
        f64::from_bits(bits.min(f64::INFINITY.to_bits()))
    }

    /// The state, equal for equal sums: empty for an empty sum, else three counters (NaN, +∞, −∞; little-endian 64 bits), the
    /// index of the first limb that is not zero, and the limbs from there on (little-endian 32 bits, two's complement).
    pub fn to_bytes(&self) -> Vec<u8> {
        let value = self.normalised();
        let sign = value.limbs[LIMBS - 1] >> 63;
        let limbs = value.limbs.map(|limb| limb as u32);
        let first = limbs.iter().position(|&limb| limb != 0);
        let specials = [self.nans, self.infinities, self.negative_infinities];
        if first.is_none() && specials == [0; 3] {
            return Vec::new();
        }
        let first = first.unwrap_or(LIMBS);
        // Limbs above this one only repeat the sign, so one of them is enough.
        let end = limbs
            .iter()
            .rposition(|&limb| limb != sign as u32)
            .map_or(first + 1, |last| last + 2);
        let kept = limbs.get(first..end.min(LIMBS)).unwrap_or_default();
        let mut bytes = Vec::with_capacity(HEADER + 4 * kept.len());
        specials
            .iter()
            .for_each(|special| bytes.extend_from_slice(&special.to_le_bytes()));
        bytes.push(first as u8);
        kept.iter()
            .for_each(|limb| bytes.extend_from_slice(&limb.to_le_bytes()));
        bytes
    }

    /// A sum from its [`to_bytes`](Self::to_bytes).
    ///
    /// # Errors
    /// [`VczError::Invalid`] if the bytes are not such a state.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut sum = Self::new();
        if bytes.is_empty() {
            return Ok(sum);
        }
        let invalid = || {
            VczError::Invalid(format!(
                "{} bytes are not the state of an exact sum",
                bytes.len()
            ))
        };
        let (header, kept) = bytes.split_at_checked(HEADER).ok_or_else(invalid)?;
        let (specials, first) = header.split_at(HEADER - 1);
        let special = |i: usize| {
            specials
                .as_chunks::<8>()
                .0
                .get(i)
                .map_or(0, |bytes| i64::from_le_bytes(*bytes))
        };
        (sum.nans, sum.infinities, sum.negative_infinities) = (special(0), special(1), special(2));
        let (kept, rest) = kept.as_chunks::<4>();
        let first = first.first().copied().map_or(0, usize::from);
        if !rest.is_empty() || first + kept.len() > LIMBS {
            return Err(invalid());
        }
        for (limb, bytes) in sum.limbs.iter_mut().skip(first).zip(kept) {
            *limb = i64::from(u32::from_le_bytes(*bytes));
        }
        if let Some(last) = kept.last().filter(|last| last[3] & 0x80 != 0) {
            let top = first + kept.len() - 1;
            sum.limbs[top] = i64::from(i32::from_le_bytes(*last));
            // Propagates the sign, which is a borrow, into the limbs above.
            sum.normalise();
        }
        Ok(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(terms: &[f64]) -> ExactSum {
        let mut sum = ExactSum::new();
        terms.iter().for_each(|&term| sum.add(term));
        sum
    }

    /// Deterministic pseudo-random doubles.
    fn pseudo_random(count: usize, spread: i32) -> Vec<f64> {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        (0..count)
            .map(|_| {
                let fraction = (next() >> 11) as f64 / (1u64 << 53) as f64 - 0.5;
                fraction * 2f64.powi((next() % (2 * spread as u64 + 1)) as i32 - spread)
            })
            .collect()
    }

    #[test]
    fn single_terms_come_back_unchanged() {
        let edges = [
            1.0,
            -1.0,
            0.1,
            1e300,
            -1e-300,
            f64::MAX,
            f64::MIN,
            f64::MIN_POSITIVE,
            5e-324,
            -5e-324,
            1e-310,
            0.0,
        ];
        for x in edges.into_iter().chain(pseudo_random(2000, 900)) {
            let one = sum(&[x]);
            assert_eq!(one.to_f64(), x);
            assert_eq!(
                ExactSum::from_bytes(&one.to_bytes()).unwrap().to_f64(),
                x,
                "{x:e}"
            );
        }
        assert_eq!(ExactSum::new().to_f64().to_bits(), 0);
    }

    #[test]
    fn nothing_is_lost() {
        assert_eq!(sum(&[1e308, 1.0, -1e308]).to_f64(), 1.0);
        assert_eq!(sum(&[1e16, 1.0, 5e-324, -1e16, -1.0]).to_f64(), 5e-324);
        assert_eq!(sum(&[0.1; 10]).to_f64(), 1.0);
        assert_eq!(sum(&[f64::MAX, f64::MAX, -f64::MAX]).to_f64(), f64::MAX);
        assert_eq!(sum(&[f64::MAX, f64::MAX]).to_f64(), f64::INFINITY);
        assert_eq!(sum(&[f64::MIN, f64::MIN]).to_f64(), f64::NEG_INFINITY);
    }

    #[test]
    fn ties_go_to_even() {
        let ulp = f64::EPSILON;
        assert_eq!(sum(&[1.0, ulp / 2.0]).to_f64(), 1.0);
        assert_eq!(sum(&[1.0, ulp / 2.0, 5e-324]).to_f64(), 1.0 + ulp);
        assert_eq!(sum(&[1.0 + ulp, ulp / 2.0]).to_f64(), 1.0 + 2.0 * ulp);
        assert_eq!(sum(&[-1.0, -ulp / 2.0, -5e-324]).to_f64(), -1.0 - ulp);
    }

    #[test]
    fn order_partition_and_retraction_do_not_matter() {
        let terms = pseudo_random(3000, 300);
        let whole = sum(&terms);
        let reversed: Vec<f64> = terms.iter().rev().copied().collect();
        assert_eq!(sum(&reversed).to_f64().to_bits(), whole.to_f64().to_bits());
        let mut merged = sum(&terms[..1000]);
        merged.merge(&ExactSum::from_bytes(&sum(&terms[1000..]).to_bytes()).unwrap());
        assert_eq!(merged.to_bytes(), whole.to_bytes());
        let mut slid = whole;
        terms[..2999].iter().for_each(|&term| slid.sub(term));
        assert_eq!(slid.to_f64(), terms[2999]);
        slid.sub(terms[2999]);
        assert!(slid.to_bytes().is_empty());
    }

    #[test]
    fn specials_are_counted() {
        let mut special = sum(&[1.0, f64::INFINITY]);
        assert_eq!(special.to_f64(), f64::INFINITY);
        special.add(f64::NEG_INFINITY);
        assert!(
            ExactSum::from_bytes(&special.to_bytes())
                .unwrap()
                .to_f64()
                .is_nan()
        );
        special.sub(f64::INFINITY);
        assert_eq!(special.to_f64(), f64::NEG_INFINITY);
        special.sub(f64::NEG_INFINITY);
        special.add(f64::NAN);
        assert!(special.to_f64().is_nan());
        special.sub(f64::NAN);
        assert_eq!(special.to_f64(), 1.0);
        assert_eq!(
            ExactSum::from_bytes(&sum(&[f64::INFINITY]).to_bytes())
                .unwrap()
                .to_f64(),
            f64::INFINITY
        );
    }

    #[test]
    fn hostile_states_are_errors() {
        assert!(ExactSum::from_bytes(&[0; 3]).is_err());
        assert!(ExactSum::from_bytes(&[0; HEADER + 3]).is_err());
        let mut bytes = vec![0; HEADER + 4];
        bytes[HEADER - 1] = 255;
        assert!(ExactSum::from_bytes(&bytes).is_err());
        bytes[HEADER - 1] = 67;
        bytes[HEADER + 3] = 0xff;
        assert!(ExactSum::from_bytes(&bytes).unwrap().to_f64() < 0.0);
    }
}
