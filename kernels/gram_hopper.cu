// The same as gram.cu for compute capability 9.0, whose warpgroups multiply tiles in shared memory (`wgmma`).
//
// A CTA for each multiprocessor counts tiles of 192 x 256 pairs, one after the other; with weights 128 x 256, since sums need registers, too. One
// thread copies units to shared memory, up to four steps ahead; warpgroups count 64 x 256 pairs each, as two products, since the counts of one do
// not fit in the registers.
#include "hopper.cuh"

#define VCZ_HOPPER_ROWS 192
#define VCZ_HOPPER_COLUMNS 256
#define VCZ_HOPPER_STAGES 4
#define VCZ_HOPPER_THREADS 512
#define VCZ_WEIGHTED_ROWS 128
#define VCZ_WEIGHTED_THREADS 384
#define VCZ_UNIT_BYTES (4 * VCZ_STEP_WORDS)
// Bytes of a stage with tiles of so many rows.
#define VCZ_STAGE_BYTES(rows) (((rows) + VCZ_HOPPER_COLUMNS) * VCZ_UNIT_BYTES)

#ifdef __CUDA_ARCH__
extern __shared__ u8 vcz_stages[];  // VCZ_HOPPER_STAGES of them, and 1,024 bytes
#else
static u8 vcz_stages[VCZ_HOPPER_STAGES * VCZ_STAGE_BYTES(VCZ_HOPPER_ROWS) + 1024];
#endif

// The stages of a CTA: which are full, and which are empty again.
struct VczStages {
    VczBarrier full[VCZ_HOPPER_STAGES], empty[VCZ_HOPPER_STAGES];
};

// The next stage, and the parity of its barriers.
struct VczStageAt {
    u32 stage, parity;
};

VCZ_DEVICE void vcz_next_stage(VczStageAt& at) {
    if (++at.stage == VCZ_HOPPER_STAGES) {
        at.stage = 0;
        at.parity ^= 1;
    }
}

// Shared memory of the stages: swizzled rows begin at multiples of 1,024 bytes.
VCZ_DEVICE u8* vcz_stages_at() { return (u8*)(((u64)vcz_stages + 1023) & ~(u64)1023); }

template <u32 ROWS>
VCZ_DEVICE void vcz_init_stages(VczStages& stages) {
    if (threadIdx.x == 0) {
        for (u32 stage = 0; stage < VCZ_HOPPER_STAGES; ++stage) {
            vcz_barrier_init(&stages.full[stage], 1);
            vcz_barrier_init(&stages.empty[stage], ROWS / 16);  // a thread of each warp that counts
        }
        vcz_barrier_fence();
    }
    __syncthreads();
}

// Copies the units of all jobs of the CTA to shared memory, second units from `seconds`.
template <u32 ROWS>
VCZ_DEVICE void vcz_copy_units(const VczGram& gram, u64 seconds, VczStages& stages) {
    VczStageAt at = {0, 0};
    for (u32 index = blockIdx.x; index < gram.n_tiles * gram.splits; index += gridDim.x) {
        const VczPairJob job = vcz_pair_job(gram, index);
        for (u32 step = job.begin; step < job.end; ++step) {
            const u64 first = (u64)step * gram.stride * VCZ_UNIT_BYTES;
            u8* to = vcz_stages_at() + at.stage * VCZ_STAGE_BYTES(ROWS);
            VczBarrier* full = &stages.full[at.stage];
            vcz_barrier_wait(&stages.empty[at.stage], at.parity ^ 1);
            vcz_barrier_expect(full, VCZ_STAGE_BYTES(ROWS));
            vcz_copy_to_shared(to, vcz_bytes(gram.units) + first + (u64)job.tile.row * VCZ_UNIT_BYTES, ROWS * VCZ_UNIT_BYTES, full);
            vcz_copy_to_shared(to + ROWS * VCZ_UNIT_BYTES, vcz_bytes(seconds) + first + (u64)job.tile.column * VCZ_UNIT_BYTES,
                               VCZ_HOPPER_COLUMNS * VCZ_UNIT_BYTES, full);
            vcz_next_stage(at);
        }
    }
}

// The units that a warpgroup multiplies: its own, and both halves of the second units.
struct VczOperands {
    u64 units, seconds, later;
};

template <u32 ROWS>
VCZ_DEVICE VczOperands vcz_operands(u32 stage, u32 group) {
    const u8* from = vcz_stages_at() + stage * VCZ_STAGE_BYTES(ROWS);
    return {vcz_wgmma_units(from + group * 64 * VCZ_UNIT_BYTES), vcz_wgmma_units(from + ROWS * VCZ_UNIT_BYTES),
            vcz_wgmma_units(from + (ROWS + VCZ_WGMMA_COLUMNS) * VCZ_UNIT_BYTES)};
}

// Counts all tiles of the CTA, with second units from `seconds`; calls `put` with a job, its index, the row and column in the tile of a
// pair, and the counts of it and of the pair in the next column.
template <class Put>
VCZ_DEVICE void vcz_count_tiles(const VczGram& gram, u64 seconds, Put put) {
    __shared__ VczStages stages;
    const u32 warp = vcz_warp(), lane = vcz_lane();
    vcz_init_stages<VCZ_HOPPER_ROWS>(stages);
    if (warp < 4) {
        vcz_fewer_registers<24>();
        if (threadIdx.x == 0) vcz_copy_units<VCZ_HOPPER_ROWS>(gram, seconds, stages);
        return;
    }
    vcz_more_registers<160>();
    const u32 group = warp / 4 - 1;
    VczStageAt at = {0, 0};
    i32 low[VCZ_WGMMA_COUNTS], high[VCZ_WGMMA_COUNTS];
    for (u32 index = blockIdx.x; index < gram.n_tiles * gram.splits; index += gridDim.x) {
        const VczPairJob job = vcz_pair_job(gram, index);
        u32 before = VCZ_HOPPER_STAGES;  // the stage that the last products read; none
        for (u32 step = job.begin; step < job.end; ++step) {
            vcz_barrier_wait(&stages.full[at.stage], at.parity);
            const VczOperands of = vcz_operands<VCZ_HOPPER_ROWS>(at.stage, group);
            vcz_wgmma_begin();
#pragma unroll
            for (u32 slice = 0; slice < VCZ_STEP_SLICES; ++slice) {
                const bool add = slice > 0 || step > job.begin;
                vcz_wgmma_b1(low, of.units, of.seconds, slice, add);
                vcz_wgmma_b1(high, of.units, of.later, slice, add);
            }
            vcz_wgmma_commit();
            vcz_wgmma_wait<1>();
            if (before != VCZ_HOPPER_STAGES && lane == 0) vcz_barrier_arrive(&stages.empty[before]);
            before = at.stage;
            vcz_next_stage(at);
        }
        vcz_wgmma_wait<0>();
        vcz_wgmma_written(low);
        vcz_wgmma_written(high);
        if (before != VCZ_HOPPER_STAGES && lane == 0) vcz_barrier_arrive(&stages.empty[before]);
        const u32 row = group * 64 + (warp & 3) * 16 + (lane >> 2), column = 2 * (lane & 3);
#pragma unroll
        for (u32 at = 0; at < VCZ_WGMMA_COUNTS; at += 2) {
            const u32 i = row + 8 * (at >> 1 & 1), j = column + 8 * (at >> 2);
            put(job, index, i, j, low[at], low[at + 1]);
            put(job, index, i, j + VCZ_WGMMA_COLUMNS, high[at], high[at + 1]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(VCZ_HOPPER_THREADS, 1) vcz_gram_hopper(VczGram gram) {
    vcz_count_tiles(gram, gram.units, [&](const VczPairJob& job, u32, u32 row, u32 column, i32 count, i32 next) {
        vcz_add_pair(gram, job.tile.row + row, job.tile.column + column, count);
        vcz_add_pair(gram, job.tile.row + row, job.tile.column + column + 1, next);
    });
}

extern "C" __global__ void __launch_bounds__(VCZ_HOPPER_THREADS, 1) vcz_site_counts_hopper(VczSiteCounts sites) {
    u16* const counts = (u16*)sites.gram.counts;
    vcz_count_tiles(sites.gram, sites.seconds, [&](const VczPairJob&, u32 index, u32 row, u32 column, i32 count, i32 next) {
        const u64 at = ((u64)index * VCZ_HOPPER_ROWS + row) * VCZ_HOPPER_COLUMNS + column;
        vcz_put_counts(counts + at, count, next);
    });
}

// The products of dosages of pair `i` of 16. Eight rows of units that follow each other are of one kind, the next eight of the other; likewise columns.
VCZ_DEVICE u64 vcz_products_at(const i32 (&counts)[VCZ_WGMMA_COUNTS], u32 i) {
    const u32 at = i / 2 * 8 + i % 2;
    return vcz_dosage_products(counts[at], counts[at + 2], counts[at + 4], counts[at + 6]);
}

// Adds those of all 16 pairs.
VCZ_DEVICE void vcz_add_products(u64 (&sums)[VCZ_WGMMA_COUNTS / 4], const i32 (&counts)[VCZ_WGMMA_COUNTS], u64 weight) {
#pragma unroll
    for (u32 i = 0; i < VCZ_WGMMA_COUNTS / 4; ++i) sums[i] += weight * vcz_products_at(counts, i);
}

extern "C" __global__ void __launch_bounds__(VCZ_WEIGHTED_THREADS, 1) vcz_gram_weighted_hopper(VczWeightedGram weighted) {
    __shared__ VczStages stages;
    const VczGram& gram = weighted.gram;
    const u32 warp = vcz_warp(), lane = vcz_lane();
    vcz_init_stages<VCZ_WEIGHTED_ROWS>(stages);
    if (warp < 4) {
        vcz_fewer_registers<24>();
        if (threadIdx.x == 0) vcz_copy_units<VCZ_WEIGHTED_ROWS>(gram, gram.units, stages);
        return;
    }
    vcz_more_registers<240>();
    const u32 group = warp / 4 - 1;
    VczStageAt at = {0, 0};
    i32 low[VCZ_WGMMA_COUNTS], high[VCZ_WGMMA_COUNTS];
    u64 sums[VCZ_WGMMA_COUNTS / 4], later[VCZ_WGMMA_COUNTS / 4];
    for (u32 index = blockIdx.x; index < gram.n_tiles * gram.splits; index += gridDim.x) {
        const VczPairJob job = vcz_pair_job(gram, index);
#pragma unroll
        for (u32 i = 0; i < VCZ_WGMMA_COUNTS / 4; ++i) sums[i] = later[i] = 0;
        u32 before = VCZ_HOPPER_STAGES;  // the stage that products read which may still run; none
        bool add = false;                // whether there are products of slices before
        for (u32 step = job.begin; step < job.end; ++step) {
            const u64* const weights = (const u64*)weighted.weights + (u64)step * VCZ_STEP_SLICES;
            // Whether each slice is the last one with its weight, or of the job.
            u32 last = 0;
#pragma unroll
            for (u32 slice = 0; slice < VCZ_STEP_SLICES; ++slice) {
                const bool is_end = step + 1 == job.end && slice + 1 == VCZ_STEP_SLICES;
                last |= (u32)(is_end || vcz_weight_change(weights, slice, is_end) != 0) << slice;
            }
            vcz_barrier_wait(&stages.full[at.stage], at.parity);
            const VczOperands of = vcz_operands<VCZ_WEIGHTED_ROWS>(at.stage, group);
#pragma unroll 1
            for (u32 slice = 0; slice < VCZ_STEP_SLICES; ++slice) {
                vcz_wgmma_begin();
                vcz_wgmma_b1(low, of.units, of.seconds, slice, add);
                vcz_wgmma_b1(high, of.units, of.later, slice, add);
                vcz_wgmma_commit();
                add = true;
                if ((last >> slice & 1) == 0) continue;
                vcz_wgmma_wait<0>();
                vcz_wgmma_written(low);
                vcz_wgmma_written(high);
                if (before != VCZ_HOPPER_STAGES && lane == 0) vcz_barrier_arrive(&stages.empty[before]);
                before = VCZ_HOPPER_STAGES;
                const u64 weight = vcz_weight_change(weights, slice, step + 1 == job.end && slice + 1 == VCZ_STEP_SLICES);
                vcz_add_products(sums, low, weight);
                vcz_add_products(later, high, weight);
            }
            if (before != VCZ_HOPPER_STAGES) {
                vcz_wgmma_wait<VCZ_STEP_SLICES>();
                if (lane == 0) vcz_barrier_arrive(&stages.empty[before]);
            }
            before = at.stage;
            vcz_next_stage(at);
        }
        // The products of the last slice have been waited for.
        if (before != VCZ_HOPPER_STAGES && lane == 0) vcz_barrier_arrive(&stages.empty[before]);
        const u32 n = weighted.n_samples;
        const u32 i = (job.tile.row + group * 64) / 2 + (warp & 3) * 8 + (lane >> 2), j = job.tile.column / 2 + 2 * (lane & 3);
#pragma unroll
        for (u32 k = 0; k < VCZ_WGMMA_COUNTS / 4; ++k) {
            const u32 column = j + k / 2 * 8 + k % 2;
            vcz_add_weighted(weighted.sums, n, i, column, sums[k]);
            vcz_add_weighted(weighted.sums, n, i, column + VCZ_WGMMA_COLUMNS / 2, later[k]);
            if (weighted.products == 0) continue;
            vcz_add_weighted(weighted.products, n, i, column, vcz_products_at(low, k));
            vcz_add_weighted(weighted.products, n, i, column + VCZ_WGMMA_COLUMNS / 2, vcz_products_at(high, k));
        }
    }
}
