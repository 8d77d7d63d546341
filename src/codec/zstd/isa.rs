//! Operations of [`decode`](super::decode) that are faster with AVX2 and BMI instructions, and their portable versions.

/// Bytes that are copied at once; the shortest distance at which such copies do not overlap.
pub(super) const MIN_PERIOD: usize = 16;

/// An instruction set.
pub(super) trait Isa: Copy {
    /// The last three offsets.
    type Recent: Copy;

    /// The lowest `n` bits of a word, less than 64.
    fn low(self, word: u64, n: u8) -> u64;

    /// Writes [`MIN_PERIOD`] bytes at `to` that repeat the `offset` bytes before it. Returns a multiple of the offset that is at least
    /// `MIN_PERIOD` and less than `offset + MIN_PERIOD`.
    ///
    /// # Safety
    ///
    /// `offset` is at least 1; `offset` bytes before `to` and `MIN_PERIOD` bytes after it are valid for reads and writes.
    #[allow(unsafe_code)]
    unsafe fn repeat(self, to: *mut u8, offset: usize) -> usize;

    fn recent(self, offsets: [u32; 3]) -> Self::Recent;

    fn offsets(self, recent: Self::Recent) -> [u32; 3];

    /// The offset of a value, which becomes the latest one; 0 is invalid. `bare`: the match has no literals before it.
    fn offset(self, recent: &mut Self::Recent, value: u32, bare: bool) -> u32;
}

/// For each offset up to `MIN_PERIOD`: its smallest multiple that is at least `MIN_PERIOD`, minus the offset.
static FURTHER: [u8; MIN_PERIOD + 1] = {
    let mut further = [0; MIN_PERIOD + 1];
    let mut i = 1;
    while i <= MIN_PERIOD {
        further[i] = (MIN_PERIOD.div_ceil(i) * i - i) as u8;
        i += 1;
    }
    further
};

/// Portable operations.
#[derive(Clone, Copy)]
pub(super) struct Portable;

impl Isa for Portable {
    type Recent = [u32; 3];

    #[inline(always)]
    fn low(self, word: u64, n: u8) -> u64 {
        word & !(u64::MAX << (n & 63))
    }

    #[inline(always)]
    #[allow(unsafe_code)]
    unsafe fn repeat(self, to: *mut u8, offset: usize) -> usize {
        // SAFETY: the caller guarantees both ranges.
        unsafe {
            if offset >= MIN_PERIOD {
                let chunk = to.sub(offset).cast::<[u8; MIN_PERIOD]>().read_unaligned();
                to.cast::<[u8; MIN_PERIOD]>().write_unaligned(chunk);
                return offset;
            }
            for i in 0..MIN_PERIOD {
                to.add(i).write(to.add(i).sub(offset).read());
            }
        }
        offset + usize::from(FURTHER[offset.min(MIN_PERIOD)])
    }

    #[inline(always)]
    fn recent(self, offsets: [u32; 3]) -> [u32; 3] {
        offsets
    }

    #[inline(always)]
    fn offsets(self, recent: [u32; 3]) -> [u32; 3] {
        recent
    }

    #[inline(always)]
    fn offset(self, recent: &mut [u32; 3], value: u32, bare: bool) -> u32 {
        let [first, second, third] = *recent;
        *recent = match (value, value.saturating_add(bare.into())) {
            (4.., _) => [value - 3, first, second],
            (_, ..=1) => [first, second, third],
            (_, 2) => [second, first, third],
            (_, 3) => [third, first, second],
            _ => [first.wrapping_sub(1), first, second],
        };
        recent[0]
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Avx2, usable};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::*;

    /// Whether this CPU has the instructions of [`Avx2`].
    pub(in crate::codec) fn usable() -> bool {
        std::is_x86_feature_detected!("avx2")
            && std::is_x86_feature_detected!("bmi1")
            && std::is_x86_feature_detected!("bmi2")
            && std::is_x86_feature_detected!("lzcnt")
    }

    /// Operations with AVX2, BMI1 and BMI2. Used only after [`usable`], which makes the intrinsics sound.
    #[derive(Clone, Copy)]
    pub(in crate::codec) struct Avx2;

    /// For each offset up to `MIN_PERIOD`: the indices of the repeated bytes.
    static PATTERNS: [[u8; MIN_PERIOD]; MIN_PERIOD + 1] = {
        let mut patterns = [[0; MIN_PERIOD]; MIN_PERIOD + 1];
        let mut offset = 1;
        while offset <= MIN_PERIOD {
            let mut i = 0;
            while i < MIN_PERIOD {
                patterns[offset][i] = (i % offset) as u8;
                i += 1;
            }
            offset += 1;
        }
        patterns
    };

    /// How to compute the recent offsets from the previous ones and a new one, the fourth.
    #[derive(Clone, Copy)]
    #[repr(align(32))]
    struct Update {
        /// Indices of their bytes.
        bytes: [u8; 16],
        /// Added to them.
        add: [i32; 4],
    }

    /// Indexed by twice the value, at most 4, plus one without literals.
    static UPDATES: [Update; 10] = [
        update([0, 1, 2], 0),
        update([0, 1, 2], 0),
        update([0, 1, 2], 0),
        update([1, 0, 2], 0),
        update([1, 0, 2], 0),
        update([2, 0, 1], 0),
        update([2, 0, 1], 0),
        update([0, 0, 1], -1),
        update([3, 0, 1], 0),
        update([3, 0, 1], 0),
    ];

    const fn update(from: [u8; 3], add: i32) -> Update {
        let mut bytes = [0; 16];
        let mut i = 0;
        while i < 12 {
            bytes[i] = from[i / 4] * 4 + i as u8 % 4;
            i += 1;
        }
        Update {
            bytes,
            add: [add, 0, 0, 0],
        }
    }

    #[allow(unsafe_code)]
    impl Isa for Avx2 {
        type Recent = __m128i;

        #[inline(always)]
        fn low(self, word: u64, n: u8) -> u64 {
            // SAFETY: `Avx2` is used only on CPUs that have the instructions.
            unsafe { _bzhi_u64(word, n.into()) }
        }

        #[inline(always)]
        unsafe fn repeat(self, to: *mut u8, offset: usize) -> usize {
            let short = offset.min(MIN_PERIOD);
            // SAFETY: the caller guarantees both ranges; `Avx2` is used only on CPUs that have the instructions.
            unsafe {
                let chunk = _mm_loadu_si128(to.sub(offset).cast());
                let pattern = _mm_loadu_si128(PATTERNS[short].as_ptr().cast());
                _mm_storeu_si128(to.cast(), _mm_shuffle_epi8(chunk, pattern));
            }
            offset + usize::from(FURTHER[short])
        }

        #[inline(always)]
        fn recent(self, [first, second, third]: [u32; 3]) -> __m128i {
            // SAFETY: `Avx2` is used only on CPUs that have the instructions.
            unsafe { _mm_setr_epi32(first as i32, second as i32, third as i32, 0) }
        }

        #[inline(always)]
        fn offsets(self, recent: __m128i) -> [u32; 3] {
            let [first, second, third, _]: [u32; 4] = bytemuck::cast(recent);
            [first, second, third]
        }

        #[inline(always)]
        fn offset(self, recent: &mut __m128i, value: u32, bare: bool) -> u32 {
            let update = &UPDATES[2 * value.min(4) as usize + usize::from(bare)];
            // SAFETY: `Avx2` is used only on CPUs that have the instructions.
            unsafe {
                let with_new = _mm_insert_epi32::<3>(*recent, value.wrapping_sub(3) as i32);
                let chosen = _mm_shuffle_epi8(with_new, bytemuck::cast(update.bytes));
                *recent = _mm_add_epi32(chosen, bytemuck::cast(update.add));
                _mm_cvtsi128_si32(*recent) as u32
            }
        }
    }
}
