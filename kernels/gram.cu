// Counts the pairs of units with 1-bit products of tensor cores (`mma.sync`, from compute capability 8.0 on); older devices count bits.
//
// A CTA counts a tile of 128 x 128 pairs over some steps: each of its 8 warps 64 x 32 pairs, as 4 x 4 products of 16 x 8 pairs over 256 sites.
// The next step is on its way from memory while one is counted. With weights, counts are multiplied after each run of slices with the same weight.
#include "pairs.cuh"

#define VCZ_GRAM_TILE 128
// Parts of 16 bytes of a tile's units that each thread copies.
#define VCZ_GRAM_PARTS (VCZ_GRAM_TILE * 8 / VCZ_THREADS)

// Adds the counts of 16 x 8 pairs over 256 sites: as the PTX instruction mma.m16n8k256 lays out its operands. Lane l has of units l / 4 and
// l / 4 + 8 the words l % 4 and l % 4 + 4, of second unit l / 4 the same words, and the counts of units l / 4 and l / 4 + 8 with second
// units 2 (l % 4) and 2 (l % 4) + 1.
VCZ_DEVICE void vcz_mma_b1(i32 (&counts)[4], const u32 (&a)[4], const u32 (&b)[2]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile(
        "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(counts[0]), "+r"(counts[1]), "+r"(counts[2]), "+r"(counts[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    const u32 lane = vcz_lane();
    // Not unrolled: there are 32 calls, and the assembler would take a minute for all of them unrolled.
#pragma unroll 1
    for (u32 word = 0; word < 4; ++word) {
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            const u32 from = (lane & ~3u) | word;
            const u32 low = __shfl_sync(VCZ_ALL_LANES, a[2 * half], from);
            const u32 high = __shfl_sync(VCZ_ALL_LANES, a[2 * half + 1], from);
#pragma unroll
            for (u32 q = 0; q < 2; ++q) {
                const u32 second = __shfl_sync(VCZ_ALL_LANES, b[half], ((lane & 3) * 2 + q) * 4 + word);
                counts[q] += __popc(low & second);
                counts[2 + q] += __popc(high & second);
            }
        }
    }
#endif
}

VCZ_DEVICE void vcz_clear(i32 (&counts)[4][4][4]) {
#pragma unroll
    for (u32 i = 0; i < 4; ++i)
#pragma unroll
        for (u32 j = 0; j < 4; ++j)
#pragma unroll
            for (u32 q = 0; q < 4; ++q) counts[i][j][q] = 0;
}

// Counts a tile, with second units from `seconds`. After each slice calls `end_slice` with its number and whether it is the last.
template <class EndSlice>
VCZ_DEVICE void vcz_count_tile(const VczGram& gram, u64 seconds, const VczPairJob& job, i32 (&counts)[4][4][4], EndSlice end_slice) {
    __shared__ uint4 tiles[2][VCZ_GRAM_TILE * VCZ_STEP_WORDS / 4];
    const u32 warp = vcz_warp(), lane = vcz_lane();
    const u32 row = (warp & 1) * 64 + (lane >> 2), column = (warp >> 1) * 32 + (lane >> 2);
    vcz_clear(counts);
    uint4 rows[VCZ_GRAM_PARTS], columns[VCZ_GRAM_PARTS];
    for (u32 step = job.begin; step <= job.end; ++step) {
        if (step > job.begin) {
#pragma unroll
            for (u32 part = 0; part < VCZ_GRAM_PARTS; ++part) {
                tiles[0][part * VCZ_THREADS + threadIdx.x] = rows[part];
                tiles[1][part * VCZ_THREADS + threadIdx.x] = columns[part];
            }
            __syncthreads();
        }
        if (step < job.end) {
            const u64 first = (u64)step * gram.stride * (VCZ_STEP_WORDS / 4);
            const uint4* of_rows = (const uint4*)gram.units + first + (u64)job.tile.row * (VCZ_STEP_WORDS / 4);
            const uint4* of_columns = (const uint4*)seconds + first + (u64)job.tile.column * (VCZ_STEP_WORDS / 4);
#pragma unroll
            for (u32 part = 0; part < VCZ_GRAM_PARTS; ++part) {
                const u32 at = part * VCZ_THREADS + threadIdx.x;
                rows[part] = __ldg(of_rows + at);
                columns[part] = __ldg(of_columns + at);
            }
        }
        if (step == job.begin) continue;
        const u32 *of_rows = (const u32*)tiles[0], *of_columns = (const u32*)tiles[1];
#pragma unroll
        for (u32 slice = 0; slice < VCZ_STEP_SLICES; ++slice) {
            const u32 low = 8 * slice + (lane & 3), high = low + 4;
            u32 b[4][2];
#pragma unroll
            for (u32 j = 0; j < 4; ++j) {
                b[j][0] = vcz_unit_word(of_columns, column + 8 * j, low);
                b[j][1] = vcz_unit_word(of_columns, column + 8 * j, high);
            }
#pragma unroll
            for (u32 i = 0; i < 4; ++i) {
                const u32 unit = row + 16 * i;
                const u32 a[4] = {vcz_unit_word(of_rows, unit, low), vcz_unit_word(of_rows, unit + 8, low),
                                  vcz_unit_word(of_rows, unit, high), vcz_unit_word(of_rows, unit + 8, high)};
#pragma unroll
                for (u32 j = 0; j < 4; ++j) vcz_mma_b1(counts[i][j], a, b[j]);
            }
            end_slice((step - 1) * VCZ_STEP_SLICES + slice, step == job.end && slice + 1 == VCZ_STEP_SLICES);
        }
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(VCZ_THREADS) vcz_gram(VczGram gram) {
    const VczPairJob job = vcz_pair_job(gram, blockIdx.x);
    i32 counts[4][4][4];
    vcz_count_tile(gram, gram.units, job, counts, [](u32, bool) {});
    const u32 warp = vcz_warp(), lane = vcz_lane();
    const u32 first = job.tile.row + (warp & 1) * 64 + (lane >> 2), second = job.tile.column + (warp >> 1) * 32 + 2 * (lane & 3);
#pragma unroll
    for (u32 i = 0; i < 4; ++i)
#pragma unroll
        for (u32 j = 0; j < 4; ++j)
#pragma unroll
            for (u32 q = 0; q < 4; ++q) vcz_add_pair(gram, first + 16 * i + 8 * (q >> 1), second + 8 * j + (q & 1), counts[i][j][q]);
}

extern "C" __global__ void __launch_bounds__(VCZ_THREADS) vcz_gram_weighted(VczWeightedGram weighted) {
    const VczPairJob job = vcz_pair_job(weighted.gram, blockIdx.x);
    const u64* const weights = (const u64*)weighted.weights;
    i32 counts[4][4][4];
    // Of individuals i of eight and j of eight, as units are: rows q / 2 and columns j % 2 are of both kinds.
    u64 sums[4][2][2];
#pragma unroll
    for (u32 i = 0; i < 4; ++i)
#pragma unroll
        for (u32 j = 0; j < 2; ++j) sums[i][j][0] = sums[i][j][1] = 0;
    vcz_count_tile(weighted.gram, weighted.gram.units, job, counts, [&](u32 slice, bool is_last) {
        const u64 weight = vcz_weight_change(weights, slice, is_last);
        if (weight == 0) return;
#pragma unroll
        for (u32 i = 0; i < 4; ++i)
#pragma unroll
            for (u32 j = 0; j < 2; ++j)
#pragma unroll
                for (u32 q = 0; q < 2; ++q) {
                    const i32(&het)[4] = counts[i][2 * j], (&hom)[4] = counts[i][2 * j + 1];
                    sums[i][j][q] += weight * vcz_dosage_products(het[q], het[2 + q], hom[q], hom[2 + q]);
                }
    });
    const u32 n = weighted.n_samples, warp = vcz_warp(), lane = vcz_lane();
    const u32 first = job.tile.row / 2 + (warp & 1) * 32 + (lane >> 2), second = job.tile.column / 2 + (warp >> 1) * 16 + 2 * (lane & 3);
#pragma unroll
    for (u32 i = 0; i < 4; ++i)
#pragma unroll
        for (u32 j = 0; j < 2; ++j)
#pragma unroll
            for (u32 q = 0; q < 2; ++q) {
                vcz_add_weighted(weighted.sums, n, first + 8 * i, second + 8 * j + q, sums[i][j][q]);
                if (weighted.products == 0) continue;
                const i32(&het)[4] = counts[i][2 * j], (&hom)[4] = counts[i][2 * j + 1];
                const u64 products = vcz_dosage_products(het[q], het[2 + q], hom[q], hom[2 + q]);
                vcz_add_weighted(weighted.products, n, first + 8 * i, second + 8 * j + q, products);
            }
}

extern "C" __global__ void __launch_bounds__(VCZ_THREADS) vcz_site_counts(VczSiteCounts sites) {
    const VczPairJob job = vcz_pair_job(sites.gram, blockIdx.x);
    i32 counts[4][4][4];
    vcz_count_tile(sites.gram, sites.seconds, job, counts, [](u32, bool) {});
    const u32 warp = vcz_warp(), lane = vcz_lane();
    const u32 row = (warp & 1) * 64 + (lane >> 2), column = (warp >> 1) * 32 + 2 * (lane & 3);
    u16* const to = (u16*)sites.gram.counts + (u64)blockIdx.x * VCZ_GRAM_TILE * VCZ_GRAM_TILE;
#pragma unroll
    for (u32 i = 0; i < 4; ++i)
#pragma unroll
        for (u32 j = 0; j < 4; ++j)
#pragma unroll
            for (u32 q = 0; q < 4; q += 2)
                vcz_put_counts(to + (row + 16 * i + 4 * q) * VCZ_GRAM_TILE + column + 8 * j, counts[i][j][q], counts[i][j][q + 1]);
}
