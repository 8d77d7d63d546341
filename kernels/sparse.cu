// Allele counts of many sample sets: a lane counts a set, by the words of 32 copies in which the set has one, so that many small sets take
// no longer than a few large ones.
//
// A warp counts four rows that lie in one bit-shuffled block, and whose codes are negative, or alleles from 0 to 3. Other rows are counted
// one by one, two sets at a time.
#include "count.cuh"

// Alleles that are distinguished here.
#define VCZ_SPARSE_ALLELES 4

// The sets by the words that they have a bit in; see VczCountSpec.
struct VczSparse {
    const u32* starts;   // of each group's steps; then the end
    const u32* sizes;    // copies of each set
    const u64* entries;  // 32 for each step
    u32 groups;
};

VCZ_DEVICE VczSparse vcz_sparse(const VczCountSpec& spec) {
    VczSparse sparse;
    sparse.groups = (spec.allele_sets + 31) / 32;
    sparse.starts = (const u32*)spec.sparse;
    sparse.sizes = sparse.starts + sparse.groups + 1;
    sparse.entries = (const u64*)(sparse.starts + (33 * sparse.groups + 2) / 2 * 2);
    return sparse;
}

// A bit-shuffled block's planes beside the first.
struct VczHighPlanes {
    u64 data;
    u64 stride;   // bytes of a plane
    u32 planes;   // that are stored
    bool repeats;
    bool sign;    // whether the last one stored is that of the sign
};

VCZ_DEVICE VczHighPlanes vcz_high_planes(const VczBlock& block) {
    VczHighPlanes high;
    high.data = block.data;
    high.stride = block.elements / 8;
    high.planes = block.planes;
    high.repeats = vcz_repeats(block);
    high.sign = high.repeats || block.planes == 8;
    return high;
}

// Of 32 codes whose low bits are p0, as bits: those that are negative, and the second bit of the others.
VCZ_DEVICE void vcz_high_bits(const VczHighPlanes& high, i32 bit, u32 p0, u32& negative, u32& p1) {
    const u32 second = high.planes > 1 ? vcz_plane_bits(high.data + high.stride, bit) : high.repeats ? p0 : 0;
    negative = !high.sign ? 0 : high.planes > 2 ? vcz_plane_bits(high.data + (high.planes - 1) * high.stride, bit) : second;
    p1 = second & ~negative;
}

// What a pass over rows finds, as bits: rows with a code other than 0 and 1, and those with one that is not counted here.
struct VczSparseRows {
    u32 high, other;
};

VCZ_DEVICE VczSparseRows vcz_sparse_rows(const VczJob& job, const VczBlock& block, const i32 (&offset)[VCZ_GROUP_ROWS]) {
    VczSparseRows rows = {0, 0};
    if (block.planes <= 1 && !vcz_repeats(block)) return rows;
    const u32 k = job.spec.n_alleles;
    const VczHighPlanes high = vcz_high_planes(block);
    u32 any[VCZ_GROUP_ROWS] = {}, others[VCZ_GROUP_ROWS] = {};
    for (u32 begin = 32 * vcz_lane(); begin < job.copies; begin += 32 * 32) {
        const u32 left = job.copies - begin;
        const u32 valid = left < 32 ? ~(VCZ_ALL_LANES << left) : VCZ_ALL_LANES;
#pragma unroll
        for (int r = 0; r < VCZ_GROUP_ROWS; ++r) {
            const i32 bit = offset[r] + (i32)begin;
            const u32 p0 = vcz_plane_bits(block.data, bit);
            u32 negative, p1;
            vcz_high_bits(high, bit, p0, negative, p1);
            any[r] |= valid & (negative | p1);
            for (u32 plane = 2; plane + (high.sign ? 1 : 0) < high.planes; ++plane) {
                others[r] |= valid & (vcz_plane_bits(block.data + plane * high.stride, bit) ^ negative);
            }
            others[r] |= valid & ((k > 2 ? 0 : p1 & ~p0) | (k > 3 ? 0 : p1 & p0));
        }
    }
#pragma unroll
    for (int r = 0; r < VCZ_GROUP_ROWS; ++r) {
        if (__any_sync(VCZ_ALL_LANES, any[r] != 0)) rows.high |= 1u << r;
        if (__any_sync(VCZ_ALL_LANES, others[r] != 0)) rows.other |= 1u << r;
    }
    return rows;
}

// Writes the counts of the lane's set in a row.
VCZ_DEVICE void vcz_put_sparse(const VczJob& job, u32 set, u32 row, const u32 (&x)[VCZ_SPARSE_ALLELES]) {
    const u32 k = job.spec.n_alleles, bytes = job.spec.count_bytes;
    const u64 at = ((u64)set * job.tile.out_rows + job.tile.row0 + row) * k;
    if (k == 2) {
        // Both in one access. A row's counts are at a multiple of their size.
        const u32 bits = 8 * bytes;
        vcz_store(job.tile.out + at * bytes, (u64)x[1] << bits | x[0], 2 * bytes);
        return;
    }
    // Other alleles have no copies, and the output was zeroed.
    for (u32 allele = 0; allele < vcz_min(k, VCZ_SPARSE_ALLELES); ++allele) {
        vcz_store(job.tile.out + (at + allele) * bytes, x[allele], bytes);
    }
}

// Counts 32 sets in four rows. HIGH: there are codes other than 0 and 1.
template <bool HIGH>
VCZ_DEVICE void vcz_count_sparse_group(const VczJob& job, const VczSparse& sparse, u32 group, const VczBlock& block, u32 row,
                                       const i32 (&offset)[VCZ_GROUP_ROWS], u32 wanted) {
    const u32 k = job.spec.n_alleles;
    const VczHighPlanes high = vcz_high_planes(block);
    // Counts of missing codes, and << 16 of allele 1; counts of alleles 2 and 3.
    u32 few[VCZ_GROUP_ROWS] = {}, more[VCZ_GROUP_ROWS] = {};
    const u32 end = block.planes == 0 ? 0 : __ldg(sparse.starts + group + 1);
    for (u32 step = __ldg(sparse.starts + group); step < end; ++step) {
        const u64 entry = __ldg(sparse.entries + 32 * (u64)step + vcz_lane());
        const u32 mask = (u32)(entry >> 32);
        const i32 begin = 32 * (i32)(u32)entry;
#pragma unroll
        for (int r = 0; r < VCZ_GROUP_ROWS; ++r) {
            const i32 bit = offset[r] + begin;
            const u32 p0 = vcz_plane_bits(block.data, bit);
            if (!HIGH) {
                few[r] += __popc(p0 & mask) << 16;
                continue;
            }
            u32 negative, p1;
            vcz_high_bits(high, bit, p0, negative, p1);
            few[r] += __popc(negative & mask) + (__popc(p0 & ~p1 & ~negative & mask) << 16);
            if (k > 2) more[r] += __popc(p1 & ~p0 & mask) + (__popc(p1 & p0 & mask) << 16);
        }
    }
    const u32 set = 32 * group + vcz_lane();
    if (set >= job.spec.allele_sets) return;
    const u32 size = __ldg(sparse.sizes + set);
#pragma unroll
    for (int r = 0; r < VCZ_GROUP_ROWS; ++r) {
        if (((wanted >> r) & 1) == 0) continue;
        const u32 one = few[r] >> 16, two = more[r] & 0xffff, three = more[r] >> 16;
        const u32 counts[VCZ_SPARSE_ALLELES] = {size - (few[r] & 0xffff) - one - two - three, one, two, three};
        vcz_put_sparse(job, set, row + r, counts);
    }
}

// Counts the rows of `todo` (bit 0: `row`, which starts at `at`) for every set. Returns, as bits, those that it does not count.
VCZ_DEVICE u32 vcz_sparse_tile_rows(const VczJob& job, u32 row, VczPlace at, u32 todo) {
    const VczBlock block = vcz_block(job.tile, at.block);
    const u32 last = 31 - __clz((i32)todo);
    const u64 end = (u64)at.offset + (u64)last * job.tile.row_elements + job.copies;
    if (block.kind != VCZ_BIT_SHUFFLED || end > block.elements) return todo;
    i32 offset[VCZ_GROUP_ROWS];
    // Rows that do not exist are read as the last one that does, and not written.
#pragma unroll
    for (u32 r = 0; r < VCZ_GROUP_ROWS; ++r) offset[r] = (i32)(at.offset + vcz_min(r, last) * job.tile.row_elements);
    const VczSparseRows rows = vcz_sparse_rows(job, block, offset);
    const u32 wanted = todo & ~rows.other;
    const VczSparse sparse = vcz_sparse(job.spec);
    for (u32 group = 0; wanted != 0 && group < sparse.groups; ++group) {
        if (rows.high != 0) {
            vcz_count_sparse_group<true>(job, sparse, group, block, row, offset, wanted);
        } else {
            vcz_count_sparse_group<false>(job, sparse, group, block, row, offset, wanted);
        }
    }
    return todo & rows.other;
}

// Counts tiles of one-byte codes in bit-shuffled or plain blocks that share no rows, of whole rows of fewer than VCZ_PAIR_COPIES copies,
// with at least two alleles.
extern "C" __global__ void __launch_bounds__(VCZ_THREADS, 2)
    vcz_count_sparse(const VczTile* __restrict__ tiles, u32 n_tiles, u32 tile_groups, u32* status) {
    __shared__ VczJob job;
    if (blockIdx.x / tile_groups >= n_tiles) return;
    vcz_begin_job(tiles[blockIdx.x / tile_groups], job);
    const u32 warp = (blockIdx.x % tile_groups) * VCZ_WARPS + vcz_warp();
    const u32 warps = tile_groups * VCZ_WARPS;
    VczRowWalk walk(job.tile, VCZ_GROUP_ROWS * warp, VCZ_GROUP_ROWS * warps);
    for (u32 row = VCZ_GROUP_ROWS * warp; row < job.tile.rows; row += VCZ_GROUP_ROWS * warps, walk.next()) {
        u32 todo = (1u << vcz_min(VCZ_GROUP_ROWS, job.tile.rows - row)) - 1;
        todo = vcz_sparse_tile_rows(job, row, walk.at, todo);
        for (u32 r = 0; todo != 0; ++r, todo >>= 1) {
            if ((todo & 1) == 0) continue;
            const VczPlace at = r == 0 ? walk.at : vcz_after(walk.at, r * job.tile.row_elements, job.tile.block_elements);
            const u32 sets = job.spec.allele_sets;
            u32 set = 0;
            for (; set + 2 <= sets; set += 2) vcz_finish_sets<2, false>(job, set, row + r, at, status);
            if (set < sets) vcz_finish_sets<1, false>(job, set, row + r, at, status);
        }
    }
}
