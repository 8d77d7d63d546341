//! Byte and bit un-shuffling of decompressed Blosc blocks.
//!
//! Byte shuffle stores byte 0 of every element, then byte 1 of every element, and so on. Bit shuffle stores one row of
//! bits per bit of the element: row `8 j + k` holds bit `k` of byte `j` of every element, eight elements to a byte, the
//! first in the lowest bit. Both are transposes; c-blosc's `shuffle.c`, `shuffle-generic.h` and `bitshuffle-generic.c`
//! define what happens at the ends: bytes after the last whole element stay where they are, and a block whose number
//! of elements is not a multiple of eight is not bit-shuffled at all.
//!
//! The kernels are portable integer code. On x86-64, byte un-shuffling is also compiled for AVX2, chosen at run time; bit
//! un-shuffling has AVX2 kernels in `unshuffle_avx2`.

#[cfg(target_arch = "x86_64")]
use super::unshuffle_avx2;

/// Elements per step of the wide kernel: four lanes of eight bytes of each bit row.
const STEP: usize = 256;

/// Un-shuffles the bytes of a block into `dst`, which is as long as `src`.
pub(super) fn bytes(typesize: usize, src: &[u8], dst: &mut [u8]) {
    debug_assert_eq!(src.len(), dst.len());
    if typesize <= 1 || src.len() < typesize {
        dst.copy_from_slice(src);
        return;
    }
    let n = src.len() / typesize;
    let (planes, rest) = src.split_at(n * typesize);
    let (elements, tail) = dst.split_at_mut(n * typesize);
    tail.copy_from_slice(rest);
    byte_planes(typesize, planes, elements);
}

/// Whether a block of `len` bytes is bit-shuffled when the container says bit shuffle.
pub(super) fn is_bit_shuffled(typesize: usize, len: usize) -> bool {
    len >= typesize && (len / typesize).is_multiple_of(8)
}

/// Un-shuffles the bits of a block into `dst`, which is as long as `src`.
pub(super) fn bits(typesize: usize, src: &[u8], dst: &mut [u8]) {
    debug_assert_eq!(src.len(), dst.len());
    if !is_bit_shuffled(typesize, src.len()) {
        dst.copy_from_slice(src);
        return;
    }
    let n = src.len() / typesize;
    let (rows, rest) = src.split_at(n * typesize);
    let (elements, tail) = dst.split_at_mut(n * typesize);
    tail.copy_from_slice(rest);
    if typesize == 1 {
        return bit_rows(rows, n / 8, 0, elements);
    }
    // Bit rows to byte planes to elements, a tile of elements at a time so that the planes stay in the cache.
    let mut tile = [0u8; 16 * STEP];
    let tile_elements = (tile.len() / typesize) / 8 * 8;
    for start in (0..n).step_by(tile_elements) {
        let len = tile_elements.min(n - start);
        let planes = &mut tile[..len * typesize];
        for (j, plane) in planes.chunks_exact_mut(len).enumerate() {
            bit_rows(&rows[j * n..(j + 1) * n], n / 8, start / 8, plane);
        }
        let to = start * typesize;
        byte_planes(typesize, planes, &mut elements[to..to + len * typesize]);
    }
}

/// Un-shuffles a bit-shuffled block of one-byte elements of which only the first `n_planes` bit rows can be non-zero.
/// `planes` holds at least those; `dst` has a multiple of eight bytes.
pub(super) fn bits_of_planes(n_planes: usize, planes: &[u8], dst: &mut [u8]) {
    let stride = dst.len() / 8;
    debug_assert!(planes.len() >= n_planes.min(8) * stride);
    match n_planes {
        0 => dst.fill(0),
        1 | 2 => few_planes(n_planes, planes, dst),
        _ => {
            // Stands for the rows that are not stored.
            let mut rows = [&[][..]; 8];
            let zeros = vec![0u8; stride];
            for (k, row) in rows.iter_mut().enumerate() {
                *row = if k < n_planes {
                    &planes[k * stride..(k + 1) * stride]
                } else {
                    &zeros
                };
            }
            rows_to_bytes(&rows, dst);
        }
    }
}

/// One or two bit rows to bytes; these are what biallelic genotypes without missing calls have.
fn few_planes(n_planes: usize, planes: &[u8], dst: &mut [u8]) {
    let stride = dst.len() / 8;
    let (first, second) = (&planes[..stride], &planes[stride..n_planes * stride]);
    #[cfg(target_arch = "x86_64")]
    let done = if unshuffle_avx2::usable() {
        // SAFETY: the processor has AVX2, which is all that the function asks for.
        #[allow(unsafe_code)]
        unsafe {
            unshuffle_avx2::few_planes(first, second, dst)
        }
    } else {
        0
    };
    #[cfg(not(target_arch = "x86_64"))]
    let done = 0;
    for (i, out) in dst.chunks_exact_mut(8).enumerate().skip(done) {
        let mut word = SPREAD[usize::from(first[i])];
        if n_planes > 1 {
            word |= SPREAD[usize::from(second[i])] << 1;
        }
        out.copy_from_slice(&word.to_le_bytes());
    }
}

/// `SPREAD[b]` has bit `e` of `b` in the lowest bit of its byte `e`.
static SPREAD: [u64; 256] = {
    let mut table = [0u64; 256];
    let mut b = 0;
    while b < 256 {
        let mut e = 0;
        while e < 8 {
            table[b] |= ((b as u64 >> e) & 1) << (8 * e);
            e += 1;
        }
        b += 1;
    }
    table
};

/// Eight bit rows, `stride` bytes apart in `rows`, from byte `skip` of each row on, to as many bytes as `out` has.
fn bit_rows(rows: &[u8], stride: usize, skip: usize, out: &mut [u8]) {
    let len = out.len() / 8;
    let mut split = [&[][..]; 8];
    for (k, row) in split.iter_mut().enumerate() {
        *row = &rows[k * stride + skip..k * stride + skip + len];
    }
    rows_to_bytes(&split, out);
}

/// Eight bit rows of equal length to eight times as many bytes.
fn rows_to_bytes(rows: &[&[u8]; 8], out: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if unshuffle_avx2::usable() {
        // SAFETY: the processor has AVX2, which is all that the function asks for.
        #[allow(unsafe_code)]
        let done = unsafe { unshuffle_avx2::rows_to_bytes(rows, out) };
        return groups_to_bytes(rows, done, out);
    }
    rows_to_bytes_generic(rows, out);
}

fn rows_to_bytes_generic(rows: &[&[u8]; 8], out: &mut [u8]) {
    for (t, step) in out.as_chunks_mut::<STEP>().0.iter_mut().enumerate() {
        let mut w = [[0u64; 4]; 8];
        for (row, lanes) in rows.iter().zip(&mut w) {
            let bytes = &row[t * 32..t * 32 + 32];
            for (lane, word) in lanes.iter_mut().zip(bytes.as_chunks::<8>().0) {
                *lane = u64::from_le_bytes(*word);
            }
        }
        transpose(&mut w);
        for (l, lane) in step.as_chunks_mut::<64>().0.iter_mut().enumerate() {
            for (g, word) in lane.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                *word = w[g][l].to_le_bytes();
            }
        }
    }
    groups_to_bytes(rows, out.len() / STEP * STEP / 8, out);
}

/// The groups of eight elements from `first` on, one at a time.
fn groups_to_bytes(rows: &[&[u8]; 8], first: usize, out: &mut [u8]) {
    for (i, group) in out.chunks_exact_mut(8).enumerate().skip(first) {
        let mut word = 0u64;
        for (k, row) in rows.iter().enumerate() {
            word |= u64::from(row[i]) << (8 * k);
        }
        group.copy_from_slice(&transpose_bits(word).to_le_bytes());
    }
}

/// In each lane: words indexed by k with bits indexed by (g, e), byte and bit in it, become words indexed by g with
/// bits indexed by (e, k).
#[inline(always)]
fn transpose(w: &mut [[u64; 4]; 8]) {
    exchange(w, 1, 1, 0x5555_5555_5555_5555);
    exchange(w, 2, 2, 0x3333_3333_3333_3333);
    exchange(w, 4, 4, 0x0f0f_0f0f_0f0f_0f0f);
    // Now words are indexed by e, with bits (g, k): exchange e and g.
    exchange(w, 1, 8, 0x00ff_00ff_00ff_00ff);
    exchange(w, 2, 16, 0x0000_ffff_0000_ffff);
    exchange(w, 4, 32, 0x0000_0000_ffff_ffff);
}

/// Exchanges one bit of the word index, of weight `distance`, with the bit of the position in the word that `shift` is.
#[inline(always)]
fn exchange(w: &mut [[u64; 4]; 8], distance: usize, shift: u32, mask: u64) {
    for k in 0..8 {
        if k & distance == 0 {
            let (first, second) = w.split_at_mut(k | distance);
            for (a, b) in first[k].iter_mut().zip(&mut second[0]) {
                let t = ((*a >> shift) ^ *b) & mask;
                *b ^= t;
                *a ^= t << shift;
            }
        }
    }
}

/// Transposes an 8 × 8 bit matrix whose rows are the bytes (Warren, Hacker's Delight, 7–3).
#[inline(always)]
fn transpose_bits(mut x: u64) -> u64 {
    let t = (x ^ (x >> 7)) & 0x00aa_00aa_00aa_00aa;
    x ^= t ^ (t << 7);
    let t = (x ^ (x >> 14)) & 0x0000_cccc_0000_cccc;
    x ^= t ^ (t << 14);
    let t = (x ^ (x >> 28)) & 0x0000_0000_f0f0_f0f0;
    x ^ t ^ (t << 28)
}

/// Byte planes to elements; both slices hold the same whole number of elements.
fn byte_planes(typesize: usize, planes: &[u8], out: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if unshuffle_avx2::usable() {
        // SAFETY: the processor has AVX2, which is all that the function asks for.
        #[allow(unsafe_code)]
        return unsafe { byte_planes_avx2(typesize, planes, out) };
    }
    byte_planes_generic(typesize, planes, out);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn byte_planes_avx2(typesize: usize, planes: &[u8], out: &mut [u8]) {
    byte_planes_generic(typesize, planes, out);
}

#[inline(always)]
fn byte_planes_generic(typesize: usize, planes: &[u8], out: &mut [u8]) {
    let n = out.len() / typesize;
    match typesize {
        2 => byte_planes_of::<2>(planes, n, out),
        4 => byte_planes_of::<4>(planes, n, out),
        8 => byte_planes_of::<8>(planes, n, out),
        _ => {
            // Eight, four, two or one byte of each element at a time, through a tile where they lie side by side.
            let mut tile = [0u8; 8 * STEP];
            for (start, elements) in (0..n).step_by(STEP).zip(out.chunks_mut(STEP * typesize)) {
                let mut j = 0;
                while j < typesize {
                    let part = &planes[j * n + start..];
                    let count = elements.len() / typesize;
                    j += match typesize - j {
                        8.. => {
                            byte_planes_of::<8>(part, n, &mut tile[..8 * count]);
                            scatter::<8>(&tile, typesize, j, elements)
                        }
                        4.. => {
                            byte_planes_of::<4>(part, n, &mut tile[..4 * count]);
                            scatter::<4>(&tile, typesize, j, elements)
                        }
                        2.. => {
                            byte_planes_of::<2>(part, n, &mut tile[..2 * count]);
                            scatter::<2>(&tile, typesize, j, elements)
                        }
                        _ => scatter::<1>(part, typesize, j, elements),
                    };
                }
            }
        }
    }
}

/// Copies parts of `SIZE` bytes to position `at` of each element; returns `SIZE`.
#[inline(always)]
fn scatter<const SIZE: usize>(
    parts: &[u8],
    typesize: usize,
    at: usize,
    elements: &mut [u8],
) -> usize {
    for (element, part) in elements
        .chunks_exact_mut(typesize)
        .zip(parts.as_chunks::<SIZE>().0)
    {
        element[at..at + SIZE].copy_from_slice(part);
    }
    SIZE
}

/// Byte planes `stride` bytes apart to elements of a size known when compiling, which the compiler turns into vector code.
#[inline(always)]
fn byte_planes_of<const SIZE: usize>(planes: &[u8], stride: usize, out: &mut [u8]) {
    let (elements, _) = out.as_chunks_mut::<SIZE>();
    let n = elements.len();
    let mut rows = [&[][..]; SIZE];
    for (j, row) in rows.iter_mut().enumerate() {
        *row = &planes[j * stride..j * stride + n];
    }
    for (i, element) in elements.iter_mut().enumerate() {
        for j in 0..SIZE {
            element[j] = rows[j][i];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::noise;
    use super::*;
    use proptest::prelude::*;

    /// Follows the definition.
    fn bits_by_definition(typesize: usize, src: &[u8]) -> Vec<u8> {
        let n = src.len() / typesize;
        if n == 0 || !n.is_multiple_of(8) {
            return src.to_vec();
        }
        let mut out = src.to_vec();
        out[..n * typesize].fill(0);
        for bit in 0..8 * typesize {
            for e in 0..n {
                let value = src[bit * (n / 8) + e / 8] >> (e % 8) & 1;
                out[e * typesize + bit / 8] |= value << (bit % 8);
            }
        }
        out
    }

    fn bytes_by_definition(typesize: usize, src: &[u8]) -> Vec<u8> {
        let n = src.len() / typesize;
        let mut out = src.to_vec();
        for e in 0..n {
            for j in 0..typesize {
                out[e * typesize + j] = src[j * n + e];
            }
        }
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn both_agree_with_the_definition(typesize in 1usize..40, n in 0usize..1200, extra in 0usize..8, seed: u64) {
            let src = noise(n * typesize + extra % typesize, seed);
            let mut dst = vec![0xaa; src.len()];
            bytes(typesize, &src, &mut dst);
            prop_assert_eq!(&dst, &bytes_by_definition(typesize, &src));
            bits(typesize, &src, &mut dst);
            prop_assert_eq!(&dst, &bits_by_definition(typesize, &src));
        }

        #[test]
        fn groups_of_eight(typesize in 1usize..20, groups in 0usize..200, seed: u64) {
            let src = noise(8 * groups * typesize, seed);
            let mut dst = vec![0xaa; src.len()];
            bits(typesize, &src, &mut dst);
            prop_assert_eq!(&dst, &bits_by_definition(typesize, &src));
        }

        #[test]
        fn known_zero_planes(groups in 0usize..200, n_planes in 0usize..=8, seed: u64) {
            let mut src = noise(8 * groups, seed);
            src[n_planes * groups..].fill(0);
            let mut dst = vec![0xaa; src.len()];
            bits_of_planes(n_planes, &src[..n_planes * groups], &mut dst);
            prop_assert_eq!(&dst, &bits_by_definition(1, &src));
        }
    }

    #[test]
    fn the_baseline_code_agrees_too() {
        let src = noise(8 * 129, 7);
        let rows: [&[u8]; 8] = std::array::from_fn(|k| &src[k * 129..(k + 1) * 129]);
        let mut dst = vec![0; src.len()];
        rows_to_bytes_generic(&rows, &mut dst);
        assert_eq!(dst, bits_by_definition(1, &src));
    }
}
