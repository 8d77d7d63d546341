//! Strips as plain 64-bit words, for every CPU; also what the other instruction sets are tested against.

use super::strip::{Lanes, STRIP};

/// Plain 64-bit words; `count_ones` is the CPU's own instruction wherever the target has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Portable;

#[inline(always)]
fn words(f: impl Fn(usize) -> u64) -> [u64; 8] {
    [f(0), f(1), f(2), f(3), f(4), f(5), f(6), f(7)]
}

/// Bit `k` of eight bytes, gathered into one byte: the product moves bit `8 i` to bit `56 + i`, and no two terms meet.
#[inline(always)]
fn gather(bytes: u64, k: u32) -> u8 {
    let bits = (bytes >> k) & 0x0101_0101_0101_0101;
    (bits.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
}

/// Eight codes from each whole group, and the rest padded with zeros.
#[inline(always)]
fn groups(codes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let (whole, rest) = codes.as_chunks::<8>();
    let mut last = [0u8; 8];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    whole
        .iter()
        .copied()
        .chain((!rest.is_empty()).then_some(last))
        .map(u64::from_le_bytes)
}

impl Lanes for Portable {
    type Strip = [u64; 8];
    type Doubles = [f64; 8];

    #[inline(always)]
    fn zero(self) -> [u64; 8] {
        [0; 8]
    }
    #[inline(always)]
    fn splat(self, byte: u8) -> [u64; 8] {
        [u64::from_ne_bytes([byte; 8]); 8]
    }
    #[inline(always)]
    fn load(self, src: &[u8], n: usize) -> [u64; 8] {
        let mut strip = [0; 8];
        let src = src.get(..n.min(STRIP)).unwrap_or(src);
        for (word, bytes) in strip.iter_mut().zip(groups(src)) {
            *word = bytes;
        }
        strip
    }
    #[inline(always)]
    fn store(self, a: [u64; 8]) -> [u8; STRIP] {
        let mut bytes = [0; STRIP];
        for (to, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(a) {
            *to = word.to_le_bytes();
        }
        bytes
    }
    #[inline(always)]
    fn and(self, a: [u64; 8], b: [u64; 8]) -> [u64; 8] {
        words(|i| a[i] & b[i])
    }
    #[inline(always)]
    fn and_not(self, a: [u64; 8], b: [u64; 8]) -> [u64; 8] {
        words(|i| a[i] & !b[i])
    }
    #[inline(always)]
    fn or(self, a: [u64; 8], b: [u64; 8]) -> [u64; 8] {
        words(|i| a[i] | b[i])
    }
    #[inline(always)]
    fn xor(self, a: [u64; 8], b: [u64; 8]) -> [u64; 8] {
        words(|i| a[i] ^ b[i])
    }
    #[inline(always)]
    fn seconds(self, a: [u64; 8]) -> [u64; 8] {
        words(|i| a[i] >> 1)
    }
    #[inline(always)]
    fn is_zero(self, a: [u64; 8]) -> bool {
        a.iter().fold(0, |all, word| all | word) == 0
    }
    #[inline(always)]
    fn counters(self, a: [u64; 8]) -> [u64; 8] {
        words(|i| a[i].count_ones().into())
    }
    #[inline(always)]
    fn add(self, a: [u64; 8], b: [u64; 8]) -> [u64; 8] {
        words(|i| a[i].wrapping_add(b[i]))
    }
    #[inline(always)]
    fn sum(self, a: [u64; 8]) -> u64 {
        a.iter().fold(0, |sum, n| sum.wrapping_add(*n))
    }
    #[inline(always)]
    fn doubles(self, from: &[f64; 8]) -> [f64; 8] {
        *from
    }
    #[inline(always)]
    fn add_product(self, mut sum: [f64; 8], a: f64, b: [f64; 8]) -> [f64; 8] {
        for (sum, b) in sum.iter_mut().zip(b) {
            *sum += a * b;
        }
        sum
    }
    #[inline(always)]
    fn plus(self, mut a: [f64; 8], b: [f64; 8]) -> [f64; 8] {
        for (a, b) in a.iter_mut().zip(b) {
            *a += b;
        }
        a
    }
    #[inline(always)]
    fn add_products(self, mut sum: [f64; 8], a: [f64; 8], b: [f64; 8]) -> [f64; 8] {
        for (sum, (a, b)) in sum.iter_mut().zip(a.iter().zip(b)) {
            *sum = a.mul_add(b, *sum);
        }
        sum
    }
    #[inline(always)]
    fn doubles_of(self, from: &[u8; 8]) -> [f64; 8] {
        from.map(f64::from)
    }
    #[inline(always)]
    fn of_halves<const AT: usize>(self, a: [f64; 8]) -> [f64; 8] {
        std::array::from_fn(|at| a[at & !3 | AT & 3])
    }
    #[inline(always)]
    fn each(self, a: [f64; 8]) -> [f64; 8] {
        a
    }
    #[inline(always)]
    fn low_plane(self, codes: &[u8]) -> ([u64; 8], bool) {
        let mut plane = [0u8; STRIP];
        let mut any = 0;
        for (to, group) in plane.iter_mut().zip(groups(codes)) {
            any |= group;
            *to = gather(group, 0);
        }
        (self.load(&plane, STRIP), any & 0xfefe_fefe_fefe_fefe != 0)
    }
    #[inline(always)]
    fn planes(self, codes: &[u8]) -> [[u64; 8]; 8] {
        let mut planes = [[0u8; STRIP]; 8];
        for (i, group) in groups(codes).take(STRIP).enumerate() {
            for (k, plane) in (0..).zip(&mut planes) {
                plane[i] = gather(group, k);
            }
        }
        let mut strips = [self.zero(); 8];
        for (strip, plane) in strips.iter_mut().zip(&planes) {
            *strip = self.load(plane, STRIP);
        }
        strips
    }
}
