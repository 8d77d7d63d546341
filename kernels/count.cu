// Allele counts of sample sets, computed from decoded blocks: bit-planes are counted directly, other layouts are converted to
// the same words of 32 codes in registers.
//
// A warp counts a row, or two or four at once. Sets are processed two at a time. sparse.cu counts many small ones.
#include "count.cuh"

// Rows that are counted together where planes repeat.
#define VCZ_PAIR 2
// Alleles that `vcz_count_pair` distinguishes.
#define VCZ_PAIR_ALLELES 4

// Writes the counts of a row: lane i has allele i in x. Other alleles have no copies, and the output was zeroed.
VCZ_DEVICE void vcz_put_counts(const VczJob& job, u32 set, u32 row, u32 x, bool shared) {
    const u32 k = job.spec.n_alleles;
    const u64 first = ((u64)set * job.tile.out_rows + job.tile.row0 + row) * k;
    if (vcz_lane() < vcz_min(k, VCZ_PAIR_ALLELES)) vcz_put_count(job.tile.out, first + vcz_lane(), x, job.spec.count_bytes, shared);
}

// Counts a pair of rows of a block whose planes repeat, as they do where calls are missing: codes are negative, or alleles from 0 to 3.
// Returns, as bits, the rows with any other code, which the caller counts. All planes of the block are stored, or those that are not
// repeat the last.
template <int S>
VCZ_DEVICE u32 vcz_count_pair(const VczJob& job, u32 set, const VczBlock& block, u32 row, u32 offset) {
    const u32 copies = job.copies, mask_words = job.spec.mask_words, k = job.spec.n_alleles, planes = block.planes;
    const u32* masks = vcz_set_mask(job, set);
    const u64 stride = block.elements / 8;
    // Counts of missing codes, and << 16 of allele 1; counts of alleles 2 and 3.
    u32 few[VCZ_PAIR][S] = {}, more[VCZ_PAIR][S] = {}, others[VCZ_PAIR] = {};
    for (u32 begin = 32 * vcz_lane(); begin < copies; begin += 32 * 32) {
        const u32 left = copies - begin;
        const u32 valid = left < 32 ? ~(VCZ_ALL_LANES << left) : VCZ_ALL_LANES;
        u32 mask[S], p0[VCZ_PAIR], p1[VCZ_PAIR], last[VCZ_PAIR];
#pragma unroll
        for (int r = 0; r < VCZ_PAIR; ++r) {
            const i32 bit = (i32)(offset + r * job.tile.row_elements + begin);
            p0[r] = vcz_plane_bits(block.data, bit);
            p1[r] = planes > 1 ? vcz_plane_bits(block.data + stride, bit) : p0[r];
            last[r] = planes > 2 ? vcz_plane_bits(block.data + (planes - 1) * stride, bit) : p1[r];
            for (u32 plane = 2; plane + 1 < planes; ++plane) {
                others[r] |= valid & (vcz_plane_bits(block.data + plane * stride, bit) ^ last[r]);
            }
        }
#pragma unroll
        for (int s = 0; s < S; ++s) {
            mask[s] = valid & vcz_mask_bits(masks + (u64)s * mask_words, job.mask_bit + begin);
        }
#pragma unroll
        for (int r = 0; r < VCZ_PAIR; ++r) {
            const u32 here = ~last[r];
            const u32 one = here & p0[r] & ~p1[r], two = here & p1[r] & ~p0[r], three = here & p0[r] & p1[r];
            others[r] |= valid & ((k > 2 ? 0 : two) | (k > 3 ? 0 : three));
#pragma unroll
            for (int s = 0; s < S; ++s) few[r][s] += __popc(last[r] & mask[s]) + (__popc(one & mask[s]) << 16);
            if (k > 2) {
#pragma unroll
                for (int s = 0; s < S; ++s) more[r][s] += __popc(two & mask[s]) + (__popc(three & mask[s]) << 16);
            }
        }
    }
    u32 todo = 0;
    const bool shared = job.shared;
#pragma unroll
    for (int r = 0; r < VCZ_PAIR; ++r) {
        if (__any_sync(VCZ_ALL_LANES, others[r] != 0)) {
            todo |= 1u << r;
            continue;
        }
#pragma unroll
        for (int s = 0; s < S; ++s) {
            const u32 f = (u32)vcz_warp_sum((i32)few[r][s]), m = k > 2 ? (u32)vcz_warp_sum((i32)more[r][s]) : 0;
            const u32 derived = (f >> 16) + (m & 0xffff) + (m >> 16);
            const u32 lane = vcz_lane(), first = vcz_size_of(job, set + s) - (f & 0xffff) - derived;
            vcz_put_counts(job, set + s, row + r, lane == 0 ? first : lane == 1 ? f >> 16 : lane == 2 ? m & 0xffff : m >> 16, shared);
        }
    }
    return todo;
}

// Counts a group of four rows whose codes are 0 and 1. Returns, as bits, the rows with any other code, which the caller counts.
template <int S>
VCZ_DEVICE u32 vcz_count_group(const VczJob& job, u32 set, const VczBlock& block, u32 row, u32 offset) {
    const u32 copies = job.copies, mask_words = job.spec.mask_words, mask_bit = job.mask_bit;
    const u32* masks = vcz_set_mask(job, set);
    const u64 stride = block.elements / 8;
    const u32* plane = (const u32*)(block.data & ~(u64)3);
    u32 from[VCZ_GROUP_ROWS], shift[VCZ_GROUP_ROWS], one[VCZ_GROUP_ROWS][S] = {}, above[VCZ_GROUP_ROWS] = {};
#pragma unroll
    for (int r = 0; r < VCZ_GROUP_ROWS; ++r) {
        const u32 at = offset + r * job.tile.row_elements + 8 * (u32)(block.data & 3);
        from[r] = at / 32;
        shift[r] = at % 32;
    }
    for (u32 begin = 32 * vcz_lane(); begin < copies; begin += 32 * 32) {
        const u32 group = begin / 32;
        const u32 left = copies - begin;
        const u32 valid = left < 32 ? ~(VCZ_ALL_LANES << left) : VCZ_ALL_LANES;
        u32 mask[S], x[VCZ_GROUP_ROWS];
#pragma unroll
        for (int r = 0; r < VCZ_GROUP_ROWS; ++r) {
            const u32* word = plane + from[r] + group;
            x[r] = __funnelshift_r(__ldg(word), __ldg(word + 1), shift[r]);
        }
        // Tests whole words: bits of a neighbouring row only cost time.
        u64 next = block.data;
#pragma unroll 1
        for (u32 i = 1; i < block.planes; ++i) {
            next += stride;
            const u32* words = (const u32*)(next & ~(u64)3) + group;
#pragma unroll
            for (int r = 0; r < VCZ_GROUP_ROWS; ++r) {
                const u32* word = words + (offset + r * job.tile.row_elements + 8 * (u32)(next & 3)) / 32;
                above[r] |= __ldg(word);
                if (left <= 32) above[r] |= __ldg(word + 1);
            }
        }
#pragma unroll
        for (int s = 0; s < S; ++s) {
            mask[s] = valid & vcz_mask_bits(masks + (u64)s * mask_words, mask_bit + begin);
        }
#pragma unroll
        for (int r = 0; r < VCZ_GROUP_ROWS; ++r) {
#pragma unroll
            for (int s = 0; s < S; ++s) one[r][s] += __popc(x[r] & mask[s]);
        }
    }
    u32 todo = 0;
    const bool shared = job.shared;
#pragma unroll
    for (int r = 0; r < VCZ_GROUP_ROWS; ++r) {
        if (__any_sync(VCZ_ALL_LANES, above[r] != 0)) {
            todo |= 1u << r;
            continue;
        }
#pragma unroll
        for (int s = 0; s < S; ++s) {
            const u32 derived = (u32)vcz_warp_sum((i32)one[r][s]);
            const u32 lane = vcz_lane(), rest = vcz_size_of(job, set + s) - derived;
            vcz_put_counts(job, set + s, row + r, lane == 0 ? rest : lane == 1 ? derived : 0, shared);
        }
    }
    return todo;
}

// Counts the rows of `todo` (bit 0: `row`, which starts at `at`) for S sets from `set` on. With `grouped` they are a group of four rows,
// which are counted together where their block allows it.
template <int S, bool CODES>
VCZ_DEVICE void vcz_count_sets(const VczJob& job, u32 set, u32 row, VczPlace at, u32 todo, bool grouped, u32* status) {
    if (!CODES && grouped) {
        const VczBlock block = vcz_block(job.tile, at.block);
        const u64 end = (u64)at.offset + (u64)(VCZ_GROUP_ROWS - 1) * job.tile.row_elements + job.copies;
        if (block.kind == VCZ_BIT_SHUFFLED && block.planes != 0 && end <= block.elements) {
            // A block with a stored sign plane has missing codes too, even if its frame did not show that planes repeat.
            const bool pairs = job.spec.n_alleles <= VCZ_PAIR_ALLELES && job.copies < VCZ_PAIR_COPIES;
            if (pairs && (vcz_repeats(block) || block.planes == 8)) {
                todo = 0;
                for (u32 r = 0; r < VCZ_GROUP_ROWS; r += VCZ_PAIR) {
                    todo |= vcz_count_pair<S>(job, set, block, row + r, at.offset + r * job.tile.row_elements) << r;
                }
            } else if (!vcz_repeats(block)) {
                todo = vcz_count_group<S>(job, set, block, row, at.offset);
            }
        }
    }
    for (u32 r = 0; todo != 0; ++r, todo >>= 1) {
        if ((todo & 1) == 0) continue;
        const VczPlace start = r == 0 ? at : vcz_after(at, r * job.tile.row_elements, job.tile.block_elements);
        vcz_finish_sets<S, CODES>(job, set, row + r, start, status);
    }
}

template <bool CODES>
VCZ_DEVICE void vcz_count(const VczTile* __restrict__ tiles, u32 n_tiles, u32 tile_groups, VczJob& job, u32* status) {
    if (blockIdx.x / tile_groups >= n_tiles) return;
    vcz_begin_job(tiles[blockIdx.x / tile_groups], job);
    const u32 sets = job.spec.allele_sets;
    const u32 warp = (blockIdx.x % tile_groups) * VCZ_WARPS + threadIdx.x / 32;
    const u32 warps = tile_groups * VCZ_WARPS;
    // Four rows at a time, if there is a group for nearly every warp. With one allele every code but 0 is invalid, which that path does
    // not check.
    const bool in_groups = !CODES && job.spec.n_alleles >= 2 && job.tile.rows >= (VCZ_GROUP_ROWS - 1) * warps;
    const u32 height = in_groups ? VCZ_GROUP_ROWS : 1;
    VczRowWalk walk(job.tile, height * warp, height * warps);
    for (u32 row = height * warp; row < job.tile.rows; row += height * warps, walk.next()) {
        const u32 todo = (1u << vcz_min(height, job.tile.rows - row)) - 1;
        const bool grouped = in_groups && job.tile.rows - row >= VCZ_GROUP_ROWS;
        for (u32 set = 0; set < sets; set += 2) {
            if (set + 2 <= sets) {
                vcz_count_sets<2, CODES>(job, set, row, walk.at, todo, grouped, status);
            } else {
                vcz_count_sets<1, CODES>(job, set, row, walk.at, todo, grouped, status);
            }
        }
    }
}

// Counts tiles of one-byte codes in bit-shuffled or plain blocks, as in default stores.
extern "C" __global__ void __launch_bounds__(VCZ_THREADS, 3)
    vcz_count_planes(const VczTile* __restrict__ tiles, u32 n_tiles, u32 tile_groups, u32* status) {
    __shared__ VczJob job;
    vcz_count<false>(tiles, n_tiles, tile_groups, job, status);
}

// Counts tiles of codes of any width in blocks of any kind.
extern "C" __global__ void __launch_bounds__(VCZ_THREADS)
    vcz_count_codes(const VczTile* __restrict__ tiles, u32 n_tiles, u32 tile_groups, u32* status) {
    __shared__ VczJob job;
    vcz_count<true>(tiles, n_tiles, tile_groups, job, status);
}
