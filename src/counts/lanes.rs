//! 512-bit strips of bit-planes on the instruction sets of the host: portable, AVX2, AVX-512.
//!
//! The counting loops in [`rows`](super::rows) are written once against [`Lanes`] and compiled once per instruction set;
//! [`Level::run`] picks the copy that the CPU supports. A value of [`Avx2`] or [`Avx512`] exists only after detection, which is
//! what makes the intrinsics here sound. Every method is `inline(always)`, so that it ends up inside the function that
//! enables the instruction set.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Bytes of a strip; as many bits are eight times as many copies.
pub(super) const STRIP: usize = 64;
/// Genotype copies of a strip.
pub(super) const STRIP_COPIES: usize = 8 * STRIP;

/// Operations on strips. A strip is the bits of up to 512 consecutive copies, the first in the lowest bit of the first byte.
pub(super) trait Lanes: Copy {
    /// A strip, or eight 64-bit counters.
    type Strip: Copy;

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
    /// Plane 0 of up to 512 one-byte codes, and whether any of them has another bit.
    fn low_plane(self, codes: &[u8]) -> (Self::Strip, bool);
    /// All bit-planes of up to 512 one-byte codes.
    fn planes(self, codes: &[u8]) -> [Self::Strip; 8];

    /// Number of set bits.
    #[inline(always)]
    fn count(self, a: Self::Strip) -> i32 {
        self.sum(self.counters(a)) as i32
    }
}

/// Work to run with the host's best instruction set.
pub(super) trait Job {
    /// What the work returns.
    type Output;
    /// Does the work; implementations are `#[inline(always)]`.
    fn run<L: Lanes>(self, lanes: L) -> Self::Output;
}

/// An instruction set that this CPU has.
#[derive(Clone, Copy, Debug)]
pub(super) enum Level {
    /// No particular instructions.
    Portable,
    /// AVX2.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// AVX-512 F, BW and VPOPCNTDQ.
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
}

impl Level {
    /// The instruction sets that this CPU has, best last.
    pub(super) fn available() -> Vec<Self> {
        let mut levels = vec![Self::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            levels.extend(Avx2::detect().map(Self::Avx2));
            levels.extend(Avx512::detect().map(Self::Avx512));
        }
        levels
    }

    /// The best instruction set of this CPU.
    pub(super) fn detect() -> Self {
        Self::available().pop().unwrap_or(Self::Portable)
    }

    /// Runs the copy of `job` that was compiled for this instruction set.
    pub(super) fn run<J: Job>(self, job: J) -> J::Output {
        match self {
            Self::Portable => job.run(Portable),
            // SAFETY: a value of Avx2 or Avx512 is made only by `detect`, after it found all of the enabled features.
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(lanes) => unsafe { run_avx2(lanes, job) },
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(lanes) => unsafe { run_avx512(lanes, job) },
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt,bmi1,bmi2,lzcnt")]
fn run_avx2<J: Job>(lanes: Avx2, job: J) -> J::Output {
    job.run(lanes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vpopcntdq,avx2,popcnt,bmi1,bmi2,lzcnt")]
fn run_avx512<J: Job>(lanes: Avx512, job: J) -> J::Output {
    job.run(lanes)
}

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
        planes.map(|plane| self.load(&plane, STRIP))
    }
}

/// Proof that the CPU has AVX2 and the bit-manipulation instructions that come with it.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(super) struct Avx2(());

#[cfg(target_arch = "x86_64")]
impl Avx2 {
    fn detect() -> Option<Self> {
        (is_x86_feature_detected!("avx2")
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
        // SAFETY: 32 bytes are there, and `self` proves AVX2.
        unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
    }
}

/// Both halves of a strip. SAFETY of every intrinsic below: `self` proves AVX2.
#[cfg(target_arch = "x86_64")]
impl Lanes for Avx2 {
    type Strip = [__m256i; 2];

    #[inline(always)]
    fn zero(self) -> [__m256i; 2] {
        unsafe { [_mm256_setzero_si256(); 2] }
    }
    #[inline(always)]
    fn splat(self, byte: u8) -> [__m256i; 2] {
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
            (Some(src), Some(keep)) if keep.len() >= STRIP => unsafe {
                let (src, keep) = (src.as_ptr(), keep.as_ptr());
                // SAFETY: 64 bytes are there in both.
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
        unsafe { [_mm256_and_si256(a[0], b[0]), _mm256_and_si256(a[1], b[1])] }
    }
    #[inline(always)]
    fn and_not(self, a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        unsafe {
            [
                _mm256_andnot_si256(b[0], a[0]),
                _mm256_andnot_si256(b[1], a[1]),
            ]
        }
    }
    #[inline(always)]
    fn or(self, a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        unsafe { [_mm256_or_si256(a[0], b[0]), _mm256_or_si256(a[1], b[1])] }
    }
    #[inline(always)]
    fn xor(self, a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        unsafe { [_mm256_xor_si256(a[0], b[0]), _mm256_xor_si256(a[1], b[1])] }
    }
    #[inline(always)]
    fn seconds(self, a: [__m256i; 2]) -> [__m256i; 2] {
        unsafe { [_mm256_srli_epi64::<1>(a[0]), _mm256_srli_epi64::<1>(a[1])] }
    }
    #[inline(always)]
    fn is_zero(self, a: [__m256i; 2]) -> bool {
        unsafe {
            let any = _mm256_or_si256(a[0], a[1]);
            _mm256_testz_si256(any, any) == 1
        }
    }
    /// Muła, Kurz and Lemire 2018: the set bits of each nibble by table look-up, summed per 64 bits.
    #[inline(always)]
    fn counters(self, a: [__m256i; 2]) -> [__m256i; 2] {
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
        unsafe { [_mm256_add_epi64(a[0], b[0]), _mm256_add_epi64(a[1], b[1])] }
    }
    #[inline(always)]
    fn sum(self, a: [__m256i; 2]) -> u64 {
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
    fn low_plane(self, codes: &[u8]) -> ([__m256i; 2], bool) {
        let mut plane = [0u32; 16];
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
                unsafe {
                    plane[i] = _mm256_movemask_epi8(x) as u32;
                    x = _mm256_add_epi8(x, x); // the next lower bit becomes the sign
                }
            }
        }
        // SAFETY: every plane is 64 bytes.
        planes.map(|plane| unsafe {
            [
                _mm256_loadu_si256(plane.as_ptr().cast()),
                _mm256_loadu_si256(plane.as_ptr().add(8).cast()),
            ]
        })
    }
}

/// Proof that the CPU has AVX-512 F, BW and VPOPCNTDQ.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(super) struct Avx512(());

#[cfg(target_arch = "x86_64")]
impl Avx512 {
    fn detect() -> Option<Self> {
        (Avx2::detect().is_some()
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vpopcntdq"))
        .then_some(Self(()))
    }
}

/// One register. SAFETY of every intrinsic below: `self` proves the instruction sets.
#[cfg(target_arch = "x86_64")]
impl Lanes for Avx512 {
    type Strip = __m512i;

    #[inline(always)]
    fn zero(self) -> __m512i {
        unsafe { _mm512_setzero_si512() }
    }
    #[inline(always)]
    fn splat(self, byte: u8) -> __m512i {
        unsafe { _mm512_set1_epi8(byte as i8) }
    }
    #[inline(always)]
    fn load(self, src: &[u8], n: usize) -> __m512i {
        if let (true, Some(whole)) = (n >= STRIP, src.first_chunk::<STRIP>()) {
            // SAFETY: 64 bytes are there.
            return unsafe { _mm512_loadu_si512(whole.as_ptr().cast()) };
        }
        let n = n.min(src.len()).min(STRIP) as u32;
        let keep = u64::MAX.checked_shr(STRIP as u32 - n).unwrap_or(0);
        // SAFETY: the first `n` bytes are there, and a masked load touches no others.
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
        unsafe { _mm512_and_si512(a, b) }
    }
    #[inline(always)]
    fn and_not(self, a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_andnot_si512(b, a) }
    }
    #[inline(always)]
    fn or(self, a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_or_si512(a, b) }
    }
    #[inline(always)]
    fn xor(self, a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_xor_si512(a, b) }
    }
    #[inline(always)]
    fn seconds(self, a: __m512i) -> __m512i {
        unsafe { _mm512_srli_epi64::<1>(a) }
    }
    #[inline(always)]
    fn is_zero(self, a: __m512i) -> bool {
        unsafe { _mm512_test_epi64_mask(a, a) == 0 }
    }
    #[inline(always)]
    fn counters(self, a: __m512i) -> __m512i {
        unsafe { _mm512_popcnt_epi64(a) }
    }
    #[inline(always)]
    fn add(self, a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_add_epi64(a, b) }
    }
    #[inline(always)]
    fn sum(self, a: __m512i) -> u64 {
        unsafe { _mm512_reduce_add_epi64(a) as u64 }
    }
    #[inline(always)]
    fn low_plane(self, codes: &[u8]) -> (__m512i, bool) {
        let mut plane = [0u64; 8];
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
    fn planes(self, codes: &[u8]) -> [__m512i; 8] {
        let mut planes = [[0u64; 8]; 8];
        for (i, codes) in codes.chunks(STRIP).take(8).enumerate() {
            let mut x = self.load(codes, STRIP);
            for plane in planes.iter_mut().rev() {
                unsafe {
                    plane[i] = _mm512_movepi8_mask(x);
                    x = _mm512_add_epi8(x, x); // the next lower bit becomes the sign
                }
            }
        }
        // SAFETY: every plane is 64 bytes.
        planes.map(|plane| unsafe { _mm512_loadu_si512(plane.as_ptr().cast()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every operation once; must be the same on every instruction set.
    struct Everything<'a>(&'a [u8]);

    impl Job for Everything<'_> {
        type Output = Vec<Vec<u8>>;

        #[inline(always)]
        fn run<L: Lanes>(self, l: L) -> Vec<Vec<u8>> {
            let src = self.0;
            let mut out = Vec::new();
            for n in [0, 1, 7, 8, 31, 32, 33, 63, 64, 90] {
                out.push(l.store(l.load(src, n)).to_vec());
                out.push(l.store(l.load(&src[..src.len().min(n)], STRIP)).to_vec());
            }
            let (a, b) = (l.load(src, STRIP), l.load(&src[src.len().min(3)..], STRIP));
            for x in [
                l.zero(),
                l.splat(0x55),
                l.and(a, b),
                l.and_not(a, b),
                l.or(a, b),
                l.xor(a, b),
                l.and(l.seconds(a), l.splat(0x55)),
                l.counters(a),
                l.add(l.counters(a), l.counters(b)),
            ] {
                out.push(l.store(x).to_vec());
                out.push(vec![u8::from(l.is_zero(x))]);
            }
            out.push(l.count(a).to_le_bytes().to_vec());
            for n in [0, 1, 8, 31, 65, 511, 512, src.len()] {
                let codes = &src[..src.len().min(n)];
                let (plane, others) = l.low_plane(codes);
                out.push(l.store(plane).to_vec());
                out.push(vec![u8::from(others)]);
                out.extend(l.planes(codes).map(|p| l.store(p).to_vec()));
            }
            out
        }
    }

    #[test]
    fn instruction_sets_agree() {
        let noise = |n: usize, mask: u8| -> Vec<u8> {
            (0..n as u64)
                .map(|i| ((i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8) & mask)
                .collect()
        };
        for codes in [
            noise(600, 0xff),
            noise(512, 1),
            noise(70, 3),
            noise(5, 0xff),
            vec![],
        ] {
            let expected = Level::Portable.run(Everything(&codes));
            for level in Level::available() {
                assert_eq!(level.run(Everything(&codes)), expected, "{level:?}");
            }
        }
    }

    #[test]
    fn portable_planes_are_bits() {
        let codes: Vec<u8> = (0..200u32).map(|i| (i * 37 % 251) as u8).collect();
        let planes = Portable.planes(&codes).map(|p| Portable.store(p));
        for (i, code) in codes.iter().enumerate() {
            for (k, plane) in planes.iter().enumerate() {
                assert_eq!(plane[i / 8] >> (i % 8) & 1, code >> k & 1);
            }
        }
        assert_eq!(Portable.store(Portable.low_plane(&codes).0), planes[0]);
        assert!(Portable.low_plane(&codes).1 && !Portable.low_plane(&[1, 0, 1]).1);
    }
}
