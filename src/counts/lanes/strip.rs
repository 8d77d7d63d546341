//! [`Lanes`]: operations on strips, the bits of up to 512 consecutive copies.

/// Bytes of a strip; as many bits are eight times as many copies.
pub(crate) const STRIP: usize = 64;
/// Genotype copies of a strip.
pub(in crate::counts) const STRIP_COPIES: usize = 8 * STRIP;

/// Operations on strips. A strip is the bits of up to 512 consecutive copies, the first in the lowest bit of the first byte.
pub(crate) trait Lanes: Copy {
    /// A strip, or eight 64-bit counters.
    type Strip: Copy;
    /// Eight doubles.
    type Doubles: Copy;

    /// All zero.
    fn zero(self) -> Self::Strip;
    /// Every byte `byte`.
    fn splat(self, byte: u8) -> Self::Strip;
    /// The first `min(n, 64, src.len())` bytes of `src`, then zeros.
    fn load(self, src: &[u8], n: usize) -> Self::Strip;
    /// The bytes of a strip.
    fn store(self, a: Self::Strip) -> [u8; STRIP];
    /// `a & b`
    fn and(self, a: Self::Strip, b: Self::Strip) -> Self::Strip;
    /// `a & !b`
    fn and_not(self, a: Self::Strip, b: Self::Strip) -> Self::Strip;
    /// `a | b`
    fn or(self, a: Self::Strip, b: Self::Strip) -> Self::Strip;
    /// `a ^ b`
    fn xor(self, a: Self::Strip, b: Self::Strip) -> Self::Strip;
    /// `a >> 1` in each 64-bit lane: the second bit of each pair where the first was; the odd bits are then meaningless.
    fn seconds(self, a: Self::Strip) -> Self::Strip;
    /// Whether no bit is set.
    fn is_zero(self, a: Self::Strip) -> bool;
    /// Set bits of each 64-bit lane, as counters.
    fn counters(self, a: Self::Strip) -> Self::Strip;
    /// The sums of counters.
    fn add(self, a: Self::Strip, b: Self::Strip) -> Self::Strip;
    /// The sum over all eight counters.
    fn sum(self, a: Self::Strip) -> u64;
    /// The sum over all eight counters of each.
    #[inline(always)]
    fn sums(self, a: [Self::Strip; 8]) -> [u64; 8] {
        let mut sums = [0; 8];
        for (sum, a) in sums.iter_mut().zip(a) {
            *sum = self.sum(a);
        }
        sums
    }
    /// Plane 0 of up to 512 one-byte codes, and whether any of them has another bit.
    fn low_plane(self, codes: &[u8]) -> (Self::Strip, bool);
    /// Plane 0 of up to 512 one-byte codes into `plane`, and whether any of them has another bit.
    #[inline(always)]
    fn store_low_plane(self, codes: &[u8], plane: &mut [u8; STRIP]) -> bool {
        let (strip, others) = self.low_plane(codes);
        *plane = self.store(strip);
        others
    }
    /// All bit-planes of up to 512 one-byte codes.
    fn planes(self, codes: &[u8]) -> [Self::Strip; 8];

    /// The bits of `word` where `mask` has bits, next to each other from the lowest on.
    #[inline(always)]
    fn compress(self, word: u64, mask: u64) -> u64 {
        let (mut bits, mut at, mut mask) = (0, 0, mask);
        while mask != 0 {
            bits |= (word >> mask.trailing_zeros() & 1) << at;
            at += 1;
            mask &= mask - 1;
        }
        bits
    }

    /// These doubles.
    fn doubles(self, from: &[f64; 8]) -> Self::Doubles;
    /// These numbers as doubles.
    fn doubles_of(self, from: &[u8; 8]) -> Self::Doubles;
    /// `sum + a * b`, rounded once or twice; so for whole numbers below 2⁵³ only, of which neither is rounded.
    fn add_product(self, sum: Self::Doubles, a: f64, b: Self::Doubles) -> Self::Doubles;
    /// `a + b`.
    fn plus(self, a: Self::Doubles, b: Self::Doubles) -> Self::Doubles;
    /// `sum + a * b`, rounded once.
    fn add_products(self, sum: Self::Doubles, a: Self::Doubles, b: Self::Doubles) -> Self::Doubles;
    /// Of each half, number `AT` four times.
    fn of_halves<const AT: usize>(self, a: Self::Doubles) -> Self::Doubles;
    /// The doubles.
    fn each(self, a: Self::Doubles) -> [f64; 8];

    /// Number of set bits.
    #[inline(always)]
    fn count(self, a: Self::Strip) -> i32 {
        self.sum(self.counters(a)) as i32
    }
}
