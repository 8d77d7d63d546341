//! [`Level`]: the instruction sets of this CPU, and [`Job`]: work that is compiled once for each of them.

#[cfg(target_arch = "x86_64")]
use super::avx2::Avx2;
#[cfg(target_arch = "x86_64")]
use super::avx512::Avx512;
use super::portable::Portable;
use super::strip::Lanes;

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
    /// AVX2 and FMA.
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
#[target_feature(enable = "avx2,fma,popcnt,bmi1,bmi2,lzcnt")]
fn run_avx2<J: Job>(lanes: Avx2, job: J) -> J::Output {
    job.run(lanes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq,avx2,fma,popcnt,bmi1,bmi2,lzcnt"
)]
fn run_avx512<J: Job>(lanes: Avx512, job: J) -> J::Output {
    job.run(lanes)
}

#[cfg(test)]
mod tests {
    use super::super::strip::STRIP;
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
            let word = |at: usize| {
                let mut word = [0; 8];
                word.iter_mut()
                    .zip(src.iter().skip(at))
                    .for_each(|(to, from)| *to = *from);
                u64::from_le_bytes(word)
            };
            // Whole numbers, of which sums and products are exact.
            let numbers = |from: usize| {
                let mut numbers = [0.0; 8];
                for (to, at) in numbers.iter_mut().zip(from..) {
                    *to = (word(at) >> 42) as f64;
                }
                l.doubles(&numbers)
            };
            let sum = l.add_product(numbers(0), (word(2) >> 40) as f64, numbers(5));
            out.extend(l.each(sum).map(|sum| sum.to_le_bytes().to_vec()));
            let bytes = word(3).to_le_bytes();
            out.extend(
                l.each(l.doubles_of(&bytes))
                    .map(|x| x.to_le_bytes().to_vec()),
            );
            // Sums and products that are rounded.
            let tenths = l.add_products(l.doubles(&[0.7; 8]), sum, l.doubles(&[0.1; 8]));
            let sum = l.plus(tenths, l.add_products(tenths, tenths, sum));
            let sum = l.plus(l.of_halves::<1>(sum), l.plus(sum, l.of_halves::<2>(tenths)));
            let sum = l.plus(l.of_halves::<0>(sum), l.plus(sum, l.of_halves::<3>(tenths)));
            out.extend(l.each(sum).map(|sum| sum.to_le_bytes().to_vec()));
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
