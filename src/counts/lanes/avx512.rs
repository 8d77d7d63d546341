//! Strips as one AVX-512 register, with its own population count.
//!
//! Invariant: a value of [`Avx512`] exists only on a CPU that has the instructions; every `unsafe` here rests on that.

use std::arch::x86_64::*;

use super::avx2::Avx2;
use super::strip::{Lanes, STRIP};

/// Proof that the CPU has AVX-512 F, BW, DQ, VL and VPOPCNTDQ.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(());

impl Avx512 {
    pub(super) fn detect() -> Option<Self> {
        (Avx2::detect().is_some()
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vpopcntdq"))
        .then_some(Self(()))
    }
}

/// In each quarter, the sum of the two counters of `a`, and of those of `b`.
///
/// # Safety
/// The CPU must have AVX-512 F.
#[inline(always)]
unsafe fn pair_sums(a: __m512i, b: __m512i) -> __m512i {
    // SAFETY: the caller's.
    unsafe { _mm512_add_epi64(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b)) }
}

/// The sums of neighbouring quarters: two of `a`, then two of `b`.
///
/// # Safety
/// The CPU must have AVX-512 F.
#[inline(always)]
unsafe fn quarter_sums(a: __m512i, b: __m512i) -> __m512i {
    // SAFETY: the caller's.
    unsafe {
        let even = _mm512_shuffle_i64x2::<0b10_00_10_00>(a, b);
        let odd = _mm512_shuffle_i64x2::<0b11_01_11_01>(a, b);
        _mm512_add_epi64(even, odd)
    }
}

/// One register.
impl Lanes for Avx512 {
    type Strip = __m512i;
    type Doubles = __m512d;

    #[inline(always)]
    fn zero(self) -> __m512i {
        // SAFETY: `self` proves the instruction sets.
        unsafe { _mm512_setzero_si512() }
    }
    #[inline(always)]
    fn splat(self, byte: u8) -> __m512i {
        // SAFETY: `self` proves the instruction sets.
        unsafe { _mm512_set1_epi8(byte as i8) }
    }
    #[inline(always)]
    fn load(self, src: &[u8], n: usize) -> __m512i {
        if let (true, Some(whole)) = (n >= STRIP, src.first_chunk::<STRIP>()) {
            // SAFETY: `whole` has 64 bytes.
            return unsafe { _mm512_loadu_si512(whole.as_ptr().cast()) };
        }
        let n = n.min(src.len()).min(STRIP) as u32;
        let keep = u64::MAX.checked_shr(STRIP as u32 - n).unwrap_or(0);
        // SAFETY: `src` has the first `n` bytes, and a masked load reads no others.
        unsafe { _mm512_maskz_loadu_epi8(keep, src.as_ptr().cast()) }
    }
    #[inline(always)]
    fn store(self, a: __m512i) -> [u8; STRIP] {
        let mut bytes = [0u8; STRIP];
        // SAFETY: `bytes` is 64 bytes.
        unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), a) };
        bytes
    }
    #[inline(always)]
    fn and(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves the instruction sets.
        unsafe { _mm512_and_si512(a, b) }
    }
    #[inline(always)]
    fn and_not(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves the instruction sets.
        unsafe { _mm512_andnot_si512(b, a) }
    }
    #[inline(always)]
    fn or(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves the instruction sets.
        unsafe { _mm512_or_si512(a, b) }
    }
    #[inline(always)]
    fn xor(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves the instruction sets.
        unsafe { _mm512_xor_si512(a, b) }
    }
    #[inline(always)]
    fn seconds(self, a: __m512i) -> __m512i {
        // SAFETY: `self` proves the instruction sets.
        unsafe { _mm512_srli_epi64::<1>(a) }
    }
    #[inline(always)]
    fn compress(self, word: u64, mask: u64) -> u64 {
        // SAFETY: `self` proves BMI2.
        unsafe { _pext_u64(word, mask) }
    }
    #[inline(always)]
    fn is_zero(self, a: __m512i) -> bool {
        // SAFETY: `self` proves the instruction sets.
        unsafe { _mm512_test_epi64_mask(a, a) == 0 }
    }
    #[inline(always)]
    fn counters(self, a: __m512i) -> __m512i {
        // SAFETY: `self` proves the instruction sets.
        unsafe { _mm512_popcnt_epi64(a) }
    }
    #[inline(always)]
    fn add(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves the instruction sets.
        unsafe { _mm512_add_epi64(a, b) }
    }
    #[inline(always)]
    fn sum(self, a: __m512i) -> u64 {
        // SAFETY: `self` proves the instruction sets.
        unsafe { _mm512_reduce_add_epi64(a) as u64 }
    }
    #[inline(always)]
    fn sums(self, a: [__m512i; 8]) -> [u64; 8] {
        // SAFETY: `self` proves the instruction sets, and `sums` is 64 bytes.
        unsafe {
            let [a0, a1, a2, a3, a4, a5, a6, a7] = a;
            // In each quarter: the sums of two counters of the first, and of the second.
            let (a01, a23) = (pair_sums(a0, a1), pair_sums(a2, a3));
            let (a45, a67) = (pair_sums(a4, a5), pair_sums(a6, a7));
            let all = quarter_sums(quarter_sums(a01, a23), quarter_sums(a45, a67));
            let mut sums = [0u64; 8];
            _mm512_storeu_si512(sums.as_mut_ptr().cast(), all);
            sums
        }
    }
    #[inline(always)]
    fn doubles(self, from: &[f64; 8]) -> __m512d {
        // SAFETY: `self` proves the instruction sets, and `from` is 64 bytes.
        unsafe { _mm512_loadu_pd(from.as_ptr()) }
    }
    #[inline(always)]
    fn add_product(self, sum: __m512d, a: f64, b: __m512d) -> __m512d {
        // SAFETY: `self` proves the instruction sets.
        unsafe { _mm512_fmadd_pd(_mm512_set1_pd(a), b, sum) }
    }
    #[inline(always)]
    fn plus(self, a: __m512d, b: __m512d) -> __m512d {
        // SAFETY: `self` proves the instruction sets.
        unsafe { _mm512_add_pd(a, b) }
    }
    #[inline(always)]
    fn add_products(self, sum: __m512d, a: __m512d, b: __m512d) -> __m512d {
        // SAFETY: `self` proves the instruction sets.
        unsafe { _mm512_fmadd_pd(a, b, sum) }
    }
    #[inline(always)]
    fn doubles_of(self, from: &[u8; 8]) -> __m512d {
        // SAFETY: `self` proves the instruction sets.
        unsafe {
            let bytes = _mm_cvtsi64_si128(i64::from_le_bytes(*from));
            _mm512_cvtepi32_pd(_mm256_cvtepu8_epi32(bytes))
        }
    }
    #[inline(always)]
    fn of_halves<const AT: usize>(self, a: __m512d) -> __m512d {
        // SAFETY: `self` proves the instruction sets.
        unsafe {
            match AT {
                0 => _mm512_permutex_pd::<0x00>(a),
                1 => _mm512_permutex_pd::<0x55>(a),
                2 => _mm512_permutex_pd::<0xaa>(a),
                _ => _mm512_permutex_pd::<0xff>(a),
            }
        }
    }
    #[inline(always)]
    fn each(self, a: __m512d) -> [f64; 8] {
        let mut each = [0.0; 8];
        // SAFETY: `self` proves the instruction sets, and `each` is 64 bytes.
        unsafe { _mm512_storeu_pd(each.as_mut_ptr(), a) };
        each
    }
    #[inline(always)]
    fn low_plane(self, codes: &[u8]) -> (__m512i, bool) {
        let mut plane = [0u64; 8];
        // SAFETY: `self` proves the instruction sets.
        unsafe {
            let one = _mm512_set1_epi8(1);
            let mut any = _mm512_setzero_si512();
            for (word, codes) in plane.iter_mut().zip(codes.chunks(STRIP)) {
                let x = self.load(codes, STRIP);
                any = _mm512_or_si512(any, x);
                *word = _mm512_test_epi8_mask(x, one);
            }
            let others = _mm512_test_epi8_mask(any, _mm512_set1_epi8(0xfeu8 as i8));
            // SAFETY: `plane` is 64 bytes.
            (_mm512_loadu_si512(plane.as_ptr().cast()), others != 0)
        }
    }
    #[inline(always)]
    fn store_low_plane(self, codes: &[u8], plane: &mut [u8; STRIP]) -> bool {
        // SAFETY: `self` proves the instruction sets.
        unsafe {
            let one = _mm512_set1_epi8(1);
            let mut any = _mm512_setzero_si512();
            // Directly to memory: loading a strip made of eight masks would wait for all eight stores.
            for (word, codes) in plane.as_chunks_mut().0.iter_mut().zip(codes.chunks(STRIP)) {
                let x = self.load(codes, STRIP);
                any = _mm512_or_si512(any, x);
                *word = _mm512_test_epi8_mask(x, one).to_le_bytes();
            }
            _mm512_test_epi8_mask(any, _mm512_set1_epi8(0xfeu8 as i8)) != 0
        }
    }
    #[inline(always)]
    fn planes(self, codes: &[u8]) -> [__m512i; 8] {
        let mut planes = [[0u64; 8]; 8];
        for (i, codes) in codes.chunks(STRIP).take(8).enumerate() {
            let mut x = self.load(codes, STRIP);
            for plane in planes.iter_mut().rev() {
                // SAFETY: `self` proves the instruction sets.
                unsafe {
                    plane[i] = _mm512_movepi8_mask(x);
                    x = _mm512_add_epi8(x, x); // the next lower bit becomes the sign
                }
            }
        }
        let mut strips = [self.zero(); 8];
        for (strip, plane) in strips.iter_mut().zip(&planes) {
            // SAFETY: every plane is 64 bytes.
            *strip = unsafe { _mm512_loadu_si512(plane.as_ptr().cast()) };
        }
        strips
    }
}
