// Makes the units of pairs from rows of bit-planes: transposes bits, so that those of a copy lie next to each other. Copies rows that are on the
// device. Adds up the bits of units. Makes sums of the counts of units.
//
// A CTA transposes 1,024 rows of 256 copies: each thread 32 rows of 32 copies, in registers; shared memory gathers the words of a unit, which
// are written as a line of 128 bytes.
#include "pairs.cuh"

#define VCZ_CTA_COPIES 256
// Words of a unit in shared memory, and more words after every 32 units, so that neither writes nor reads of a warp meet in a bank.
#define VCZ_UNIT_WORDS (VCZ_STEP_WORDS + 1)
#define VCZ_UNIT_AT(unit, word) ((unit) * VCZ_UNIT_WORDS + ((unit) / 32) * 4 + (word))

// Transposes 32 rows of 32 bits.
VCZ_DEVICE void vcz_transpose_32(u32 (&x)[32]) {
#pragma unroll
    for (u32 step = 16; step > 0; step >>= 1) {
        const u32 mask = step == 16  ? 0x0000ffffu
                         : step == 8 ? 0x00ff00ffu
                         : step == 4 ? 0x0f0f0f0fu
                         : step == 2 ? 0x33333333u
                                     : 0x55555555u;
#pragma unroll
        for (u32 row = 0; row < 32; ++row) {
            if ((row & step) != 0) continue;
            const u32 t = ((x[row] >> step) ^ x[row | step]) & mask;
            x[row | step] ^= t;
            x[row] ^= t << step;
        }
    }
}

// The row of a site of the units.
VCZ_DEVICE u32 vcz_row_of(const VczPairRows& job, u32 site) {
    if (site >= job.n_rows) return VCZ_NO_ROW;
    return job.order == 0 ? site : __ldg((const u32*)job.order + site);
}

// The thread's 32 rows of 32 copies of a plane.
VCZ_DEVICE void vcz_read_plane(const VczPairRows& job, u32 plane, u32 planes, u32 first, u32 word, u32 (&x)[32]) {
    const u32* const rows = (const u32*)job.rows + (u64)plane * job.width + word;
#pragma unroll
    for (u32 i = 0; i < 32; ++i) {
        const u32 row = vcz_row_of(job, first + i);
        x[i] = word < job.width && row != VCZ_NO_ROW ? __ldg(rows + (u64)row * planes * job.width) : 0;
    }
}

// Writes `n` units of a kind that lie in shared memory: of `first` and the copies or individuals after it, of `all`.
VCZ_DEVICE void vcz_write_units(const VczPairRows& job, const u32* shared, u32 step, u32 kind, u32 all, u32 first, u32 n) {
    const u32 lane = vcz_lane();
    for (u32 i = threadIdx.x / 32; i < n; i += VCZ_WARPS) {
        const u32 of = first + i;
        const u32 unit = job.kind == VCZ_UNITS_DIPLOID_BLOCKS ? of / 8 * 16 + 8 * kind + of % 8 : kind * all + of;
        const u32 place = (((lane >> 2) ^ (unit & 7)) << 2) | (lane & 3);
        ((u32*)job.units)[((u64)step * job.stride + unit) * VCZ_STEP_WORDS + place] = shared[VCZ_UNIT_AT(i, lane)];
    }
}

extern "C" __global__ void __launch_bounds__(VCZ_THREADS) vcz_pair_units(VczPairRows job) {
    __shared__ u32 shared[VCZ_UNIT_AT(VCZ_CTA_COPIES - 1, VCZ_UNIT_WORDS)];
    const u32 step = blockIdx.x / job.tiles, tile = blockIdx.x - step * job.tiles;
    // Words of 32 copies next to each other are read by threads next to each other.
    const u32 column = threadIdx.x & 7, group = threadIdx.x >> 3;
    const u32 word = tile * (VCZ_CTA_COPIES / 32) + column, first = step * VCZ_STEP_ROWS + 32 * group;
    const bool has_called = job.kind == VCZ_UNITS_COPIES_CALLED || job.kind == VCZ_UNITS_DIPLOIDS_CALLED;
    const bool of_diploids = job.kind != VCZ_UNITS_COPIES && job.kind != VCZ_UNITS_COPIES_CALLED;
    const u32 planes = has_called ? 2 : 1;
    u32 allele[32], called[32];
    vcz_read_plane(job, 0, planes, first, word, allele);
    vcz_transpose_32(allele);
    // Of every copy, whether it is called, at rows that there are.
    const u32 rows = first >= job.n_rows ? 0 : vcz_min(job.n_rows - first, 32);
    const u32 exist = rows == 32 ? VCZ_ALL_LANES : (1u << rows) - 1;
#pragma unroll
    for (u32 i = 0; i < 32; ++i) called[i] = 0;
    if (has_called) {
        vcz_read_plane(job, 1, planes, first, word, called);
        vcz_transpose_32(called);
    }
#pragma unroll
    for (u32 i = 0; i < 32; ++i) called[i] = exist & ~called[i];
    // The units that the CTA has of each kind, and all of that kind.
    const u32 per_unit = of_diploids ? 2 : 1;
    const u32 all = job.copies / per_unit, begin = tile * VCZ_CTA_COPIES / per_unit;
    const u32 n = begin >= all ? 0 : vcz_min(all - begin, VCZ_CTA_COPIES / per_unit);
    const u32 kinds = (of_diploids ? 2 : 1) + (has_called ? 1 : 0);
    for (u32 kind = 0; kind < kinds; ++kind) {
        const bool is_called = has_called && kind + 1 == kinds;
#pragma unroll
        for (u32 i = 0; i < 32; ++i) {
            if (!of_diploids) {
                shared[VCZ_UNIT_AT(column * 32 + i, group)] = is_called ? called[i] : allele[i];
            } else if (i % 2 == 0) {
                const u32 one = allele[i], other = allele[i + 1], both = called[i] & called[i + 1];
                const u32 x = is_called ? both : (kind == 0 ? one ^ other : one & other) & both;
                shared[VCZ_UNIT_AT((column * 32 + i) / 2, group)] = x;
            }
        }
        __syncthreads();
        vcz_write_units(job, shared, step, kind, all, begin, n);
        __syncthreads();
    }
}

// A warp copies a row.
extern "C" __global__ void __launch_bounds__(VCZ_THREADS) vcz_copy_rows(VczCopiedRows job) {
    const u32 warps = gridDim.x * VCZ_WARPS;
    for (u32 row = blockIdx.x * VCZ_WARPS + threadIdx.x / 32; row < job.n_rows; row += warps) {
        const u64 at = __ldg((const u64*)job.from + row);
        const u64* const from = (const u64*)(at & ~(u64)7);
        const u64 inverted = (at & 1) != 0 ? ~(u64)0 : 0;
        u64* const to = (u64*)job.to + (u64)row * job.width;
        for (u32 word = vcz_lane(); word < job.width; word += 32) {
            const u32 left = job.copies - 64 * word;
            const u64 exist = left < 64 ? ((u64)1 << left) - 1 : ~(u64)0;
            to[word] = (__ldg(from + word) ^ inverted) & exist;
        }
    }
}

// Steps of which a CTA adds up the bits.
#define VCZ_SUM_STEPS 16

// Of each thread's unit, the bits of some steps.
extern "C" __global__ void __launch_bounds__(VCZ_THREADS) vcz_unit_sums(VczUnitSums job) {
    const u32 across = (job.n_units + VCZ_THREADS - 1) / VCZ_THREADS;
    const u32 part = blockIdx.x / across, unit = (blockIdx.x - part * across) * VCZ_THREADS + threadIdx.x;
    if (unit >= job.n_units) return;
    u64 low[2] = {0, 0}, high[2] = {0, 0};
    const u32 end = vcz_min(job.steps, (part + 1) * VCZ_SUM_STEPS);
    for (u32 step = part * VCZ_SUM_STEPS; step < end; ++step) {
        const uint4* const words = (const uint4*)job.units + ((u64)step * job.stride + unit) * (VCZ_STEP_WORDS / 4);
        const u64* const weights = (const u64*)job.weights + (u64)step * VCZ_STEP_SLICES * 2;
#pragma unroll
        for (u32 slice = 0; slice < VCZ_STEP_SLICES; ++slice) {
            const uint4 one = __ldg(words + ((2 * slice) ^ (unit & 7))), other = __ldg(words + ((2 * slice + 1) ^ (unit & 7)));
            const u32 bits = __popc(one.x) + __popc(one.y) + __popc(one.z) + __popc(one.w) + __popc(other.x) + __popc(other.y) +
                             __popc(other.z) + __popc(other.w);
#pragma unroll
            for (u32 set = 0; set < 2; ++set) {
                const u64 sum = bits * __ldg(weights + 2 * slice + set);
                low[set] += sum & 0xffffffff;
                high[set] += sum >> 32;
            }
        }
    }
    u64* const sums = (u64*)job.sums + 4 * (u64)unit;
#pragma unroll
    for (u32 set = 0; set < 2; ++set) {
        if (low[set] != 0) atomicAdd(sums + 2 * set, low[set]);
        if (high[set] != 0) atomicAdd(sums + 2 * set + 1, high[set]);
    }
}

// The count of two units, the first of which is not after the second.
VCZ_DEVICE u32 vcz_count_of(const VczPairSums& job, u32 unit, u32 other) {
    return __ldg((const u32*)job.counts + ((u64)unit * job.stride + other));
}

// Pairs i < j of n whose first one is before `first`.
VCZ_DEVICE u64 vcz_pairs_before(u32 n, u32 first) { return (u64)first * (2 * (u64)n - first - 1) / 2; }

// A warp has one i, and each of its threads one j. The counts of j with units n + i or 2 n + i are next to each other for consecutive i, which
// the warps of a CTA therefore have.
extern "C" __global__ void __launch_bounds__(VCZ_THREADS) vcz_pair_sums(VczPairSums job) {
    const u32 block = blockIdx.x / job.across, part = blockIdx.x - block * job.across;
    const u32 first = job.first + block * VCZ_WARPS, lane = vcz_lane(), n = job.n;
    const u32 i = first + threadIdx.x / 32, j = first + 1 + part * 32 + lane;
    if (i >= job.end) return;
    const u64 begin = vcz_pairs_before(n, job.first), pairs = vcz_pairs_before(n, job.end) - begin;
    if (job.kind == VCZ_UNITS_DIPLOIDS && part == 0 && lane == 0) {
        ((u32*)job.sums)[2 * pairs + (i - job.first)] = vcz_count_of(job, i, i);
    }
    if (j <= i || j >= n) return;
    u32* const sums = (u32*)job.sums + (vcz_pairs_before(n, i) - begin + (j - i - 1));
    const u32 both = vcz_count_of(job, i, j);
    if (job.kind == VCZ_UNITS_COPIES || job.kind == VCZ_UNITS_COPIES_CALLED) {
        const bool has_called = job.kind == VCZ_UNITS_COPIES_CALLED;
        // Where both are called: the one has the allele, and the other.
        const u32 one = has_called ? vcz_count_of(job, i, n + j) : vcz_count_of(job, i, i);
        const u32 other = has_called ? vcz_count_of(job, j, n + i) : vcz_count_of(job, j, j);
        sums[0] = one + other - 2 * both;
        if (has_called) sums[pairs] = vcz_count_of(job, n + i, n + j);
        return;
    }
    const bool has_called = job.kind == VCZ_UNITS_DIPLOIDS_CALLED;
    const u32 hom_i = n + i, hom_j = n + j, called_i = 2 * n + i, called_j = 2 * n + j;
    // Where both are called: the one is homozygous for the allele, and the other.
    const u32 one = has_called ? vcz_count_of(job, hom_i, called_j) : vcz_count_of(job, hom_i, hom_i);
    const u32 other = has_called ? vcz_count_of(job, hom_j, called_i) : vcz_count_of(job, hom_j, hom_j);
    const u32 with_het = vcz_count_of(job, i, hom_j) + vcz_count_of(job, j, hom_i);
    sums[0] = both;
    sums[pairs] = one + other - with_het - 2 * vcz_count_of(job, hom_i, hom_j);
    if (has_called) {
        sums[2 * pairs] = vcz_count_of(job, called_i, called_j);
        sums[3 * pairs] = vcz_count_of(job, i, called_j);
        sums[4 * pairs] = vcz_count_of(job, j, called_i);
    }
}
