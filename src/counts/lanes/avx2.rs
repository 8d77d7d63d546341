//! Strips as two AVX2 registers.
//!
//! Invariant: a value of [`Avx2`] exists only on a CPU that has the instructions; every `unsafe` here rests on that.

use std::arch::x86_64::*;

use super::strip::{Lanes, STRIP};

/// Proof that the CPU has AVX2, FMA, and the bit-manipulation instructions that come with them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

impl Avx2 {
    pub(super) fn detect() -> Option<Self> {
        (is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("popcnt")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt"))
        .then_some(Self(()))
    }

    /// Up to 32 codes, then zeros.
    #[inline(always)]
    fn codes(self, codes: &[u8]) -> __m256i {
        let mut padded = [0u8; 32];
        let from = match codes.first_chunk::<32>() {
            Some(whole) => whole,
            None => {
                for (to, from) in padded.iter_mut().zip(codes) {
                    *to = *from;
                }
                &padded
            }
        };
        // SAFETY: `from` has 32 bytes, and `self` proves AVX2.
        unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
    }
}

/// Both halves of a strip.
impl Lanes for Avx2 {
    type Strip = [__m256i; 2];
    type Doubles = [__m256d; 2];

    #[inline(always)]
    fn zero(self) -> [__m256i; 2] {
        // SAFETY: `self` proves AVX2.
        unsafe { [_mm256_setzero_si256(); 2] }
    }
    #[inline(always)]
    fn splat(self, byte: u8) -> [__m256i; 2] {
        // SAFETY: `self` proves AVX2.
        unsafe { [_mm256_set1_epi8(byte as i8); 2] }
    }
    #[inline(always)]
    fn load(self, src: &[u8], n: usize) -> [__m256i; 2] {
        /// 64 bytes of ones, then 64 of zeros: a window of 64 that starts at `64 - n` keeps `n` bytes.
        static KEEP: [u8; 128] = {
            let mut keep = [0; 128];
            let mut i = 0;
            while i < 64 {
                keep[i] = 0xff;
                i += 1;
            }
            keep
        };
        let n = n.min(STRIP);
        match (src.first_chunk::<STRIP>(), KEEP.get(STRIP - n..)) {
            // SAFETY: both have 64 bytes, and `self` proves AVX2.
            (Some(src), Some(keep)) if keep.len() >= STRIP => unsafe {
                let (src, keep) = (src.as_ptr(), keep.as_ptr());
                [
                    _mm256_and_si256(
                        _mm256_loadu_si256(src.cast()),
                        _mm256_loadu_si256(keep.cast()),
                    ),
                    _mm256_and_si256(
                        _mm256_loadu_si256(src.add(32).cast()),
                        _mm256_loadu_si256(keep.add(32).cast()),
                    ),
                ]
            },
            _ => {
                let src = src.get(..n).unwrap_or(src);
                [self.codes(src), self.codes(src.get(32..).unwrap_or(&[]))]
            }
        }
    }
    #[inline(always)]
    fn store(self, a: [__m256i; 2]) -> [u8; STRIP] {
        let mut bytes = [0u8; STRIP];
        // SAFETY: `bytes` has room for both halves.
        unsafe {
            _mm256_storeu_si256(bytes.as_mut_ptr().cast(), a[0]);
            _mm256_storeu_si256(bytes.as_mut_ptr().add(32).cast(), a[1]);
        }
        bytes
    }
    #[inline(always)]
    fn and(self, a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: `self` proves AVX2.
        unsafe { [_mm256_and_si256(a[0], b[0]), _mm256_and_si256(a[1], b[1])] }
    }
    #[inline(always)]
    fn and_not(self, a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: `self` proves AVX2.
        unsafe {
            [
                _mm256_andnot_si256(b[0], a[0]),
                _mm256_andnot_si256(b[1], a[1]),
            ]
        }
    }
    #[inline(always)]
    fn or(self, a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: `self` proves AVX2.
        unsafe { [_mm256_or_si256(a[0], b[0]), _mm256_or_si256(a[1], b[1])] }
    }
    #[inline(always)]
    fn xor(self, a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: `self` proves AVX2.
        unsafe { [_mm256_xor_si256(a[0], b[0]), _mm256_xor_si256(a[1], b[1])] }
    }
    #[inline(always)]
    fn seconds(self, a: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: `self` proves AVX2.
        unsafe { [_mm256_srli_epi64::<1>(a[0]), _mm256_srli_epi64::<1>(a[1])] }
    }
    #[inline(always)]
    fn compress(self, word: u64, mask: u64) -> u64 {
        // SAFETY: `self` proves BMI2.
        unsafe { _pext_u64(word, mask) }
    }
    #[inline(always)]
    fn is_zero(self, a: [__m256i; 2]) -> bool {
        // SAFETY: `self` proves AVX2.
        unsafe {
            let any = _mm256_or_si256(a[0], a[1]);
            _mm256_testz_si256(any, any) == 1
        }
    }
    /// Muła, Kurz and Lemire 2018: the set bits of each nibble by table look-up, summed per 64 bits.
    #[inline(always)]
    fn counters(self, a: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: `self` proves AVX2.
        unsafe {
            let table = _mm256_setr_epi8(
                0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3,
                2, 3, 3, 4,
            );
            let nibble = _mm256_set1_epi8(0x0f);
            let mut counters = a;
            for half in &mut counters {
                let low = _mm256_shuffle_epi8(table, _mm256_and_si256(*half, nibble));
                let high = _mm256_shuffle_epi8(
                    table,
                    _mm256_and_si256(_mm256_srli_epi16::<4>(*half), nibble),
                );
                *half = _mm256_sad_epu8(_mm256_add_epi8(low, high), _mm256_setzero_si256());
            }
            counters
        }
    }
    #[inline(always)]
    fn add(self, a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: `self` proves AVX2.
        unsafe { [_mm256_add_epi64(a[0], b[0]), _mm256_add_epi64(a[1], b[1])] }
    }
    #[inline(always)]
    fn sum(self, a: [__m256i; 2]) -> u64 {
        // SAFETY: `self` proves AVX2.
        unsafe {
            let four = _mm256_add_epi64(a[0], a[1]);
            let two = _mm_add_epi64(
                _mm256_castsi256_si128(four),
                _mm256_extracti128_si256::<1>(four),
            );
            (_mm_cvtsi128_si64(two) + _mm_extract_epi64::<1>(two)) as u64
        }
    }
    #[inline(always)]
    fn doubles(self, from: &[f64; 8]) -> [__m256d; 2] {
        // SAFETY: `self` proves AVX2, and `from` is 64 bytes.
        unsafe {
            [
                _mm256_loadu_pd(from.as_ptr()),
                _mm256_loadu_pd(from.as_ptr().add(4)),
            ]
        }
    }
    #[inline(always)]
    fn add_product(self, sum: [__m256d; 2], a: f64, b: [__m256d; 2]) -> [__m256d; 2] {
        // SAFETY: `self` proves AVX2.
        unsafe {
            let a = _mm256_set1_pd(a);
            [
                _mm256_fmadd_pd(a, b[0], sum[0]),
                _mm256_fmadd_pd(a, b[1], sum[1]),
            ]
        }
    }
    #[inline(always)]
    fn plus(self, a: [__m256d; 2], b: [__m256d; 2]) -> [__m256d; 2] {
        // SAFETY: `self` proves AVX2.
        unsafe { [_mm256_add_pd(a[0], b[0]), _mm256_add_pd(a[1], b[1])] }
    }
    #[inline(always)]
    fn add_products(self, sum: [__m256d; 2], a: [__m256d; 2], b: [__m256d; 2]) -> [__m256d; 2] {
        // SAFETY: `self` proves AVX2.
        unsafe {
            [
                _mm256_fmadd_pd(a[0], b[0], sum[0]),
                _mm256_fmadd_pd(a[1], b[1], sum[1]),
            ]
        }
    }
    #[inline(always)]
    fn doubles_of(self, from: &[u8; 8]) -> [__m256d; 2] {
        let bytes = i64::from_le_bytes(*from);
        // SAFETY: `self` proves AVX2.
        unsafe {
            let bytes = _mm_cvtsi64_si128(bytes);
            [
                _mm256_cvtepi32_pd(_mm_cvtepu8_epi32(bytes)),
                _mm256_cvtepi32_pd(_mm_cvtepu8_epi32(_mm_srli_si128::<4>(bytes))),
            ]
        }
    }
    #[inline(always)]
    fn of_halves<const AT: usize>(self, a: [__m256d; 2]) -> [__m256d; 2] {
        // SAFETY: `self` proves AVX2.
        unsafe {
            match AT {
                0 => a.map(|half| _mm256_permute4x64_pd::<0x00>(half)),
                1 => a.map(|half| _mm256_permute4x64_pd::<0x55>(half)),
                2 => a.map(|half| _mm256_permute4x64_pd::<0xaa>(half)),
                _ => a.map(|half| _mm256_permute4x64_pd::<0xff>(half)),
            }
        }
    }
    #[inline(always)]
    fn each(self, a: [__m256d; 2]) -> [f64; 8] {
        let mut each = [0.0; 8];
        // SAFETY: `each` has room for both halves.
        unsafe {
            _mm256_storeu_pd(each.as_mut_ptr(), a[0]);
            _mm256_storeu_pd(each.as_mut_ptr().add(4), a[1]);
        }
        each
    }
    #[inline(always)]
    fn low_plane(self, codes: &[u8]) -> ([__m256i; 2], bool) {
        let mut plane = [0u32; 16];
        // SAFETY: `self` proves AVX2.
        unsafe {
            let mut any = _mm256_setzero_si256();
            for (word, codes) in plane.iter_mut().zip(codes.chunks(32)) {
                let x = self.codes(codes);
                any = _mm256_or_si256(any, x);
                *word = _mm256_movemask_epi8(_mm256_slli_epi16::<7>(x)) as u32;
            }
            let others = _mm256_set1_epi8(0xfeu8 as i8);
            // SAFETY: `plane` is 64 bytes.
            let strip = [
                _mm256_loadu_si256(plane.as_ptr().cast()),
                _mm256_loadu_si256(plane.as_ptr().add(8).cast()),
            ];
            (strip, _mm256_testz_si256(any, others) == 0)
        }
    }
    #[inline(always)]
    fn planes(self, codes: &[u8]) -> [[__m256i; 2]; 8] {
        let mut planes = [[0u32; 16]; 8];
        for (i, codes) in codes.chunks(32).take(16).enumerate() {
            let mut x = self.codes(codes);
            for plane in planes.iter_mut().rev() {
                // SAFETY: `self` proves AVX2.
                unsafe {
                    plane[i] = _mm256_movemask_epi8(x) as u32;
                    x = _mm256_add_epi8(x, x); // the next lower bit becomes the sign
                }
            }
        }
        let mut strips = [self.zero(); 8];
        for (strip, plane) in strips.iter_mut().zip(&planes) {
            // SAFETY: every plane is 64 bytes.
            *strip = unsafe {
                [
                    _mm256_loadu_si256(plane.as_ptr().cast()),
                    _mm256_loadu_si256(plane.as_ptr().add(8).cast()),
                ]
            };
        }
        strips
    }
}
