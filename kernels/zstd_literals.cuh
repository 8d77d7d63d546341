// Huffman-coded literals of a zstd block, one lane for each stream.
#ifndef VCZ_ZSTD_LITERALS_CUH
#define VCZ_ZSTD_LITERALS_CUH
#include "zstd_tables.cuh"

// Decodes `n` literals of the bit stream `src`, four at a time, with codes of at most `log` bits; false if the stream does not end with
// the last of them.
VCZ_DEVICE bool vcz_zstd_stream(const u16* cells, u32 log, const u8* src, u32 len, u8* out, u32 n) {
    VczZstdBits bits;
    if (!bits.open(src, len)) return false;
    const u32 unused = 32 - log;
    const auto one = [&] {
        bits.fill();
        const u32 a = cells[bits.window() >> unused];
        bits.used += a & 31;
        return a >> 8;
    };
    // Two codes are at most 22 bits.
    const auto two = [&] {
        bits.fill();
        const u32 window = bits.window();
        const u32 a = cells[window >> unused];
        const u32 b = cells[window << (a & 31) >> unused];
        bits.used += (a & 31) + (b & 31);
        return a >> 8 | (b & 0xff00);
    };
    u32 i = 0;
    for (const u32 before = vcz_min(n, (u32)(-(u64)out & 3)); i < before; ++i) out[i] = (u8)one();
    for (; i + 4 <= n; i += 4) {
        const u32 first = two();
        *(u32*)(out + i) = first | two() << 16;
    }
    for (; i < n; ++i) out[i] = (u8)one();
    return bits.left() == 0;
}

// Decodes `n` Huffman-coded literals at `at`, before `end`, in one stream or four, with the block's own codes or, if `repeat`, the
// previous block's.
static __device__ bool vcz_zstd_literals(const VczZstd& z, u32 at, u32 end, u32 n, bool four, bool repeat) {
    VczZstdTables& s = *z.tables;
    const u32 lane = vcz_lane();
    __syncwarp();
    u32 n_weights = s.weights;
    if (repeat) {
        for (u32 i = lane; i < n_weights; i += 32) s.in_order[i] = z.history->weights[i];
    } else {
        n_weights = vcz_zstd_weights(z, at, end);
        if (lane == 0) s.weights = n_weights;
        for (u32 i = lane; i < n_weights; i += 32) z.history->weights[i] = s.in_order[i];
    }
    if (n_weights == 0) return false;
    u16* cells = (u16*)z.cells;
    const u32 log = vcz_zstd_huffman(s, cells, n_weights);
    if (log == 0 || at >= end) return false;
    bool fine = true;
    if (!four) {
        if (lane == 0) fine = vcz_zstd_stream(cells, log, z.src + at, end - at, z.literals, n);
    } else {
        if (n < 6 || end - at < 10) return false;
        const u32 quarter = (n + 3) / 4;
        // Every lane computes the positions of all four streams.
        u32 start = at + 6, len = 0, mine = 0;
        for (u32 i = 0; i < 4; ++i) {
            const u32 size = i < 3 ? vcz_zstd_number(z, at + 2 * i, 2) : end - start;
            if (size == 0 || size > end - start) return false;
            if (lane == i) {
                mine = start;
                len = size;
            }
            start += size;
        }
        if (3 * quarter >= n) return false;
        if (lane < 4) {
            const u32 first = lane * quarter;
            fine = vcz_zstd_stream(cells, log, z.src + mine, len, z.literals + first, lane < 3 ? quarter : n - first);
        }
    }
    fine = __ballot_sync(VCZ_ALL_LANES, !fine) == 0;
    __syncwarp();
    return fine;
}

#endif
