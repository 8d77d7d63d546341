//! 512-bit strips of bit-planes on the instruction sets of the host: portable, AVX2, AVX-512.
//!
//! The counting loops in [`rows`](super::rows) are written once against [`Lanes`] and compiled once per instruction set;
//! [`Level::run`] chooses the copy that the CPU supports. A value of [`Avx2`] or [`Avx512`] exists only after detection, which
//! makes the intrinsics here sound. Every method is `inline(always)`, so that it is inlined into the function that enables the
//! instruction set. For the same reason the loops avoid `array::map`, `bool::then`, `fold`, `all` and other functions that take
//! a closure with a strip: those are not always inlined, and outside that function every intrinsic is a call.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

#[cfg(target_arch = "x86_64")]
use {avx2::Avx2, avx512::Avx512};

use portable::Portable;

/// Bytes of a strip; as many bits are eight times as many copies.
pub(crate) const STRIP: usize = 64;
/// Genotype copies of a strip.
pub(super) const STRIP_COPIES: usize = 8 * STRIP;

/// Operations on strips. A strip is the bits of up to 512 consecutive copies, the first in the lowest bit of the first byte.
pub(crate) trait Lanes: Copy {
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

    /// Number of set bits.
    #[inline(always)]
    fn count(self, a: Self::Strip) -> i32 {
        self.sum(self.counters(a)) as i32
    }
}

/// Work to run with the host's best instruction set.
pub(crate) trait Job {
    /// What the work returns.
    type Output;
    /// Does the work; implementations are `#[inline(always)]`.
    fn run<L: Lanes>(self, lanes: L) -> Self::Output;
}

/// An instruction set that this CPU supports.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Level {
    /// No particular instructions.
    Portable,
    /// AVX2.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// AVX-512 F, BW, DQ, VL and VPOPCNTDQ.
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
}

impl Level {
    /// The instruction sets that this CPU has, best last.
    pub(crate) fn available() -> Vec<Self> {
        let mut levels = vec![Self::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            levels.extend(Avx2::detect().map(Self::Avx2));
            levels.extend(Avx512::detect().map(Self::Avx512));
        }
        levels
    }

    /// The best instruction set of this CPU.
    pub(crate) fn detect() -> Self {
        Self::available().pop().unwrap_or(Self::Portable)
    }

    /// Runs the copy of `job` that was compiled for this instruction set.
    pub(crate) fn run<J: Job>(self, job: J) -> J::Output {
        match self {
            Self::Portable => job.run(Portable),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Avx2` values are made only by `detect`, after it found all of the enabled features.
            Self::Avx2(lanes) => unsafe { run_avx2(lanes, job) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Avx512` values are made only by `detect`, after it found all of the enabled features.
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
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq,avx2,popcnt,bmi1,bmi2,lzcnt"
)]
fn run_avx512<J: Job>(lanes: Avx512, job: J) -> J::Output {
    job.run(lanes)
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
            let counters = [l.counters(a), l.counters(b), l.zero(), l.splat(1)];
            let [c, d, e, f] = counters;
            let sums = l.sums([c, d, e, f, d, c, l.add(c, d), l.add(c, c)]);
            out.extend(sums.map(|sum| sum.to_le_bytes().to_vec()));
            let word = |at: usize| {
                let mut word = [0; 8];
                word.iter_mut()
                    .zip(src.iter().skip(at))
                    .for_each(|(to, from)| *to = *from);
                u64::from_le_bytes(word)
            };
            for (word, mask) in [(word(0), word(9)), (word(3), u64::MAX), (word(1), 0)] {
                out.push(l.compress(word, mask).to_le_bytes().to_vec());
            }
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
