// 32 consecutive codes as words of bits: the input of the kernels that count alleles and zygosity.
#ifndef VCZ_CODES_CUH
#define VCZ_CODES_CUH

#include "vcz.cuh"

// 32 codes, as bits. Bits p0 and p1 distinguish alleles 4t to 4t + 3, `other` marks all other codes, `negative` those that are no
// allele's, and `bad` those that are K or more.
struct VczWords {
    u32 p0, p1, other, negative, bad;
};

// Bit-shuffled codes with at most two stored planes, or one-byte codes with three, the last of which repeats and so is the sign: a code
// is 0 to 3 or negative.
template <bool ONE_BYTE>
VCZ_DEVICE VczWords vcz_few_planes(const VczBlock& block, i32 bit, u32 n_alleles) {
    const bool repeats = ONE_BYTE && vcz_repeats(block);
    const u64 stride = block.elements / 8;
    VczWords w;
    w.p0 = vcz_plane_bits(block.data, bit);
    w.p1 = block.planes > 1 ? vcz_plane_bits(block.data + stride, bit) : repeats ? w.p0 : 0;
    w.other = ONE_BYTE && block.planes > 2 ? vcz_plane_bits(block.data + 2 * stride, bit) : repeats ? w.p1 : 0;
    w.bad = n_alleles == 1 ? w.p0 | w.p1 : n_alleles == 2 ? w.p1 : n_alleles == 3 ? w.p0 & w.p1 : 0;
    w.bad &= ~w.other;
    w.negative = w.other;
    return w;
}

// Bit-shuffled codes of any width; only those of one byte may repeat.
template <bool ONE_BYTE>
VCZ_DEVICE VczWords vcz_all_planes(const VczBlock& block, i32 bit, u32 width, bool big_endian, u32 t, u32 n_alleles) {
    const u32 sign = 8 * width - 1;
    VczWords w;
    w.p0 = w.p1 = w.negative = 0;
    // Alleles that only a wider code could represent have no copies.
    w.other = width < 4 && (t >> (sign - 2)) != 0 ? VCZ_ALL_LANES : 0;
    w.bad = VCZ_ALL_LANES;
    const u64 stride = block.elements / 8;
    const bool repeats = ONE_BYTE && vcz_repeats(block);
    u32 x = 0;
#pragma unroll 8
    for (u32 v = 0; v <= sign; ++v) {
        const u32 plane = vcz_plane_of(v, width, big_endian);
        if (plane < block.planes) {
            x = vcz_plane_bits(block.data + plane * stride, bit);
        } else if (!repeats) {
            x = 0;
        }
        if (v == sign) {
            w.other |= x;
            w.negative = x;
            // With more alleles than codes, no code is invalid.
            w.bad = width < 4 && (n_alleles >> sign) != 0 ? 0 : w.bad & ~x;
            break;
        }
        // Whether the code's bits up to this one are at least those of K.
        const bool k = v < 32 && ((n_alleles >> v) & 1) != 0;
        w.bad = k ? w.bad & x : w.bad | x;
        if (v == 0) {
            w.p0 = x;
        } else if (v == 1) {
            w.p1 = x;
        } else {
            const bool high = v - 2 < 32 && ((t >> (v - 2)) & 1) != 0;
            w.other |= high ? ~x : x;
        }
    }
    return w;
}

// Gathers bits 0, 8, 16 and 24 into the lowest four.
VCZ_DEVICE u32 vcz_nibble(u32 x) { return ((x & 0x01010101u) * 0x01020408u) >> 24; }

// Reads 32 consecutive one-byte codes, all of them in the block.
VCZ_DEVICE VczWords vcz_byte_codes(const VczBlock& block, u32 first, u32 t, u32 n_alleles) {
    const u64 address = block.data + first;
    const u32* from = (const u32*)(address & ~(u64)3);
    const u32 shift = 8 * (u32)(address & 3);
    u32 x[8], any = 0;
    u32 low = __ldg(from);
#pragma unroll
    for (u32 j = 0; j < 8; ++j) {
        const u32 high = j < 7 || shift != 0 ? __ldg(from + j + 1) : 0;
        x[j] = __funnelshift_r(low, high, shift);
        any |= x[j];
        low = high;
    }
    VczWords w;
    w.p0 = w.p1 = w.other = w.negative = w.bad = 0;
#pragma unroll
    for (u32 j = 0; j < 8; ++j) w.p0 |= vcz_nibble(x[j]) << (4 * j);
    if ((any & 0xfefefefeu) == 0 && t == 0) {
        w.bad = n_alleles == 1 ? w.p0 : 0;
        return w;
    }
    // Every byte below 0x40, after the shift: adding 0x3f carries into bit 6 unless it is 0.
    const u32 high = (t & 31) * 0x01010101u;
    const u32 limit = n_alleles < 128 ? (128 - n_alleles) * 0x01010101u : 0;
#pragma unroll
    for (u32 j = 0; j < 8; ++j) {
        w.p1 |= vcz_nibble(x[j] >> 1) << (4 * j);
        w.other |= vcz_nibble(((((x[j] >> 2) & 0x3f3f3f3fu) ^ high) + 0x3f3f3f3fu) >> 6) << (4 * j);
        w.negative |= vcz_nibble(x[j] >> 7) << (4 * j);
        w.bad |= vcz_nibble((((x[j] & 0x7f7f7f7fu) + limit) & ~x[j]) >> 7) << (4 * j);
    }
    if (t > 31) w.other = VCZ_ALL_LANES;
    if (n_alleles >= 128) w.bad = 0;
    return w;
}

// Codes of any kind and width, those of `valid` only; `first` is the block's element of bit 0 and may be before the block.
VCZ_DEVICE VczWords vcz_any_codes(const VczBlock& block, u32 first, u32 valid, u32 width, bool big_endian, u32 t,
                                  u32 n_alleles) {
    VczWords w;
    w.p0 = w.p1 = w.other = w.negative = w.bad = 0;
    for (u32 i = 0; i < 32; ++i) {
        if (((valid >> i) & 1) == 0) continue;
        const i64 code = vcz_code(block, first + i, width, big_endian);
        w.p0 |= (u32)(code & 1) << i;
        w.p1 |= (u32)((code >> 1) & 1) << i;
        w.other |= (u32)(code >> 2 != (i64)t) << i;
        w.negative |= (u32)(code < 0) << i;
        w.bad |= (u32)(code >= (i64)n_alleles) << i;
    }
    return w;
}

// 32 codes of a block, those of `valid` only; `first` is the block's element of bit 0 and may be before the block. With CODES, blocks of
// any kind and width; without, bit-planes and bytes of one-byte codes.
template <bool CODES>
VCZ_DEVICE VczWords vcz_words(const VczBlock& block, u32 first, u32 valid, u32 width, bool big_endian, u32 t, u32 n_alleles) {
    VczWords w;
    if (block.kind == VCZ_BIT_SHUFFLED && !(CODES && vcz_repeats(block))) {
        const bool few = !CODES && vcz_repeats(block) ? block.planes <= 3 : block.planes <= 2 && !(big_endian && width > 1);
        if (few) {
            w = vcz_few_planes<!CODES>(block, (i32)first, n_alleles);
            if (t != 0) w.other = VCZ_ALL_LANES;
        } else {
            w = vcz_all_planes<!CODES>(block, (i32)first, width, big_endian, t, n_alleles);
        }
    } else if (valid == VCZ_ALL_LANES && width == 1 && !(CODES && vcz_repeats(block))) {
        w = vcz_byte_codes(block, first, t, n_alleles);
    } else {
        w = vcz_any_codes(block, first, valid, width, big_endian, t, n_alleles);
    }
    return w;
}

#endif
