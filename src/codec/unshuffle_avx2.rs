//! Bit rows to bytes with AVX2, for `unshuffle`. Each kernel processes whole vectors and returns how many groups it has done.

use std::arch::x86_64::*;

/// Whether this processor can run the kernels here.
pub(super) fn usable() -> bool {
    std::is_x86_feature_detected!("avx2")
}

/// Eight bit rows of equal length to bytes; the number of groups of eight elements done. 256 elements at a time.
#[target_feature(enable = "avx2")]
pub(super) fn rows_to_bytes(rows: &[&[u8]; 8], out: &mut [u8]) -> usize {
    let steps = out.as_chunks_mut::<256>().0;
    let done = steps.len() * 32;
    for (t, step) in steps.iter_mut().enumerate() {
        // Vector k: 32 groups of eight elements as its bytes, bit k of the elements as their bits.
        let mut w = [_mm256_setzero_si256(); 8];
        for (row, w) in rows.iter().zip(&mut w) {
            *w = bytemuck::pod_read_unaligned(&row[t * 32..t * 32 + 32]);
        }
        // Exchange k with the position in the byte: vector e, bytes by group, bits by k.
        w = exchange::<1, 1>(w, _mm256_set1_epi8(0x55));
        w = exchange::<2, 2>(w, _mm256_set1_epi8(0x33));
        w = exchange::<4, 4>(w, _mm256_set1_epi8(0x0f));
        // Interleave the bytes of the eight vectors. Unpacking works in halves of a vector: the low half holds groups 0
        // to 15, the high half groups 16 to 31.
        let [a, b, c, d, e, f, g, h] = w;
        let (ab0, ab1) = (_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b));
        let (cd0, cd1) = (_mm256_unpacklo_epi8(c, d), _mm256_unpackhi_epi8(c, d));
        let (ef0, ef1) = (_mm256_unpacklo_epi8(e, f), _mm256_unpackhi_epi8(e, f));
        let (gh0, gh1) = (_mm256_unpacklo_epi8(g, h), _mm256_unpackhi_epi8(g, h));
        let halves = [(ab0, cd0, ef0, gh0), (ab1, cd1, ef1, gh1)];
        let (low, high) = step.split_at_mut(128);
        for (i, (ab, cd, ef, gh)) in halves.into_iter().enumerate() {
            let (p0, p1) = (_mm256_unpacklo_epi16(ab, cd), _mm256_unpackhi_epi16(ab, cd));
            let (q0, q1) = (_mm256_unpacklo_epi16(ef, gh), _mm256_unpackhi_epi16(ef, gh));
            let quarters = [
                _mm256_unpacklo_epi32(p0, q0),
                _mm256_unpackhi_epi32(p0, q0),
                _mm256_unpacklo_epi32(p1, q1),
                _mm256_unpackhi_epi32(p1, q1),
            ];
            for (j, quarter) in quarters.into_iter().enumerate() {
                let at = 64 * i + 16 * j;
                let both: [[u8; 16]; 2] = bytemuck::cast(quarter);
                low[at..at + 16].copy_from_slice(&both[0]);
                high[at..at + 16].copy_from_slice(&both[1]);
            }
        }
    }
    done
}

/// Exchanges the bit of the vectors' index that `DISTANCE` is with the bit of the position in a byte that `SHIFT` is.
/// `mask` has the positions where the latter is 0, so that nothing crosses bytes.
#[target_feature(enable = "avx2")]
#[inline]
fn exchange<const DISTANCE: usize, const SHIFT: i32>(
    mut w: [__m256i; 8],
    mask: __m256i,
) -> [__m256i; 8] {
    for k in 0..8 {
        if k & DISTANCE == 0 {
            let (a, b) = (w[k], w[k | DISTANCE]);
            let t = _mm256_and_si256(_mm256_xor_si256(_mm256_srli_epi64::<SHIFT>(a), b), mask);
            w[k | DISTANCE] = _mm256_xor_si256(b, t);
            w[k] = _mm256_xor_si256(a, _mm256_slli_epi64::<SHIFT>(t));
        }
    }
    w
}

/// Bit row `first`, and `second` unless it is empty, to bytes of which they are bits 0 and 1; the number of groups of
/// eight elements done. 32 elements at a time.
#[target_feature(enable = "avx2")]
pub(super) fn few_planes(first: &[u8], second: &[u8], out: &mut [u8]) -> usize {
    let steps = out.as_chunks_mut::<32>().0;
    let done = steps.len() * 4;
    if second.is_empty() {
        for (step, a) in steps.iter_mut().zip(first.as_chunks::<4>().0) {
            *step = bytemuck::cast(spread(*a, _mm256_set1_epi8(1)));
        }
    } else {
        let rows = first
            .as_chunks::<4>()
            .0
            .iter()
            .zip(second.as_chunks::<4>().0);
        for (step, (a, b)) in steps.iter_mut().zip(rows) {
            let a = spread(*a, _mm256_set1_epi8(1));
            let b = spread(*b, _mm256_set1_epi8(2));
            *step = bytemuck::cast(_mm256_or_si256(a, b));
        }
    }
    done
}

/// `value` in the bytes whose bit, of the 32, is set.
#[target_feature(enable = "avx2")]
#[inline]
fn spread(bits: [u8; 4], value: __m256i) -> __m256i {
    // Byte i gets byte i / 8 of the bits (each half of a vector shuffles within itself, and has all four of them),
    let bytes = _mm256_shuffle_epi8(
        _mm256_set1_epi32(i32::from_le_bytes(bits)),
        _mm256_set_epi64x(
            0x0303_0303_0303_0303,
            0x0202_0202_0202_0202,
            0x0101_0101_0101_0101,
            0,
        ),
    );
    // then keeps bit i mod 8 of it.
    let bit = _mm256_set1_epi64x(i64::from_le_bytes([1, 2, 4, 8, 16, 32, 64, 128]));
    _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit), value)
}
