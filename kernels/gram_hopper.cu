// The same as gram.cu for compute capability 9.0, whose warpgroups multiply tiles in shared memory (`wgmma`).
//
// A CTA for each multiprocessor counts tiles of 192 x 256 pairs, one after the other. One thread copies units to shared memory, up to four
// steps ahead; three warpgroups count 64 x 256 pairs each, as two products, since the counts of one do not fit in the registers.
#include "hopper.cuh"

#define VCZ_HOPPER_ROWS 192
#define VCZ_HOPPER_COLUMNS 256
#define VCZ_HOPPER_STAGES 4
#define VCZ_HOPPER_THREADS 512
#define VCZ_UNIT_BYTES (4 * VCZ_STEP_WORDS)
#define VCZ_HOPPER_STAGE ((VCZ_HOPPER_ROWS + VCZ_HOPPER_COLUMNS) * VCZ_UNIT_BYTES)

#ifdef __CUDA_ARCH__
extern __shared__ u8 vcz_stages[];  // VCZ_HOPPER_STAGES of them, and 1,024 bytes
#else
static u8 vcz_stages[VCZ_HOPPER_STAGES * VCZ_HOPPER_STAGE + 1024];
#endif

extern "C" __global__ void __launch_bounds__(VCZ_HOPPER_THREADS, 1) vcz_gram_hopper(VczGram gram) {
    __shared__ VczBarrier full[VCZ_HOPPER_STAGES], empty[VCZ_HOPPER_STAGES];
    // Swizzled rows begin at multiples of 1,024 bytes.
    u8* const stages = (u8*)(((u64)vcz_stages + 1023) & ~(u64)1023);
    const u32 warp = vcz_warp(), lane = vcz_lane();
    if (threadIdx.x == 0) {
        for (u32 stage = 0; stage < VCZ_HOPPER_STAGES; ++stage) {
            vcz_barrier_init(&full[stage], 1);
            vcz_barrier_init(&empty[stage], VCZ_HOPPER_ROWS / 16);  // a thread of each warp that counts
        }
        vcz_barrier_fence();
    }
    __syncthreads();
    const u32 jobs = gram.n_tiles * gram.splits;
    u32 stage = 0, parity = 0;
    if (warp < 4) {
        vcz_fewer_registers<24>();
        if (threadIdx.x != 0) return;
        for (u32 index = blockIdx.x; index < jobs; index += gridDim.x) {
            const VczPairJob job = vcz_pair_job(gram, index);
            for (u32 step = job.begin; step < job.end; ++step) {
                const u8* units = (const u8*)gram.units + (u64)step * gram.stride * VCZ_UNIT_BYTES;
                u8* to = stages + stage * VCZ_HOPPER_STAGE;
                vcz_barrier_wait(&empty[stage], parity ^ 1);
                vcz_barrier_expect(&full[stage], VCZ_HOPPER_STAGE);
                vcz_copy_to_shared(to, units + (u64)job.tile.row * VCZ_UNIT_BYTES, VCZ_HOPPER_ROWS * VCZ_UNIT_BYTES, &full[stage]);
                vcz_copy_to_shared(to + VCZ_HOPPER_ROWS * VCZ_UNIT_BYTES, units + (u64)job.tile.column * VCZ_UNIT_BYTES,
                                   VCZ_HOPPER_COLUMNS * VCZ_UNIT_BYTES, &full[stage]);
                if (++stage == VCZ_HOPPER_STAGES) {
                    stage = 0;
                    parity ^= 1;
                }
            }
        }
        return;
    }
    vcz_more_registers<160>();
    const u32 group = warp / 4 - 1;
    i32 low[VCZ_WGMMA_COUNTS], high[VCZ_WGMMA_COUNTS];
    for (u32 index = blockIdx.x; index < jobs; index += gridDim.x) {
        const VczPairJob job = vcz_pair_job(gram, index);
        u32 before = VCZ_HOPPER_STAGES;  // the stage that the last products read; none
        for (u32 step = job.begin; step < job.end; ++step) {
            vcz_barrier_wait(&full[stage], parity);
            const u8* from = stages + stage * VCZ_HOPPER_STAGE;
            const u64 units = vcz_wgmma_units(from + group * 64 * VCZ_UNIT_BYTES);
            const u64 seconds = vcz_wgmma_units(from + VCZ_HOPPER_ROWS * VCZ_UNIT_BYTES);
            const u64 later = vcz_wgmma_units(from + (VCZ_HOPPER_ROWS + VCZ_WGMMA_COLUMNS) * VCZ_UNIT_BYTES);
            vcz_wgmma_begin();
#pragma unroll
            for (u32 slice = 0; slice < VCZ_STEP_WORDS / 8; ++slice) {
                const bool add = slice > 0 || step > job.begin;
                vcz_wgmma_b1(low, units, seconds, slice, add);
                vcz_wgmma_b1(high, units, later, slice, add);
            }
            vcz_wgmma_commit();
            vcz_wgmma_wait<1>();
            if (before != VCZ_HOPPER_STAGES && lane == 0) vcz_barrier_arrive(&empty[before]);
            before = stage;
            if (++stage == VCZ_HOPPER_STAGES) {
                stage = 0;
                parity ^= 1;
            }
        }
        vcz_wgmma_wait<0>();
        vcz_wgmma_written(low);
        vcz_wgmma_written(high);
        if (before != VCZ_HOPPER_STAGES && lane == 0) vcz_barrier_arrive(&empty[before]);
        const u32 row = job.tile.row + group * 64 + (warp & 3) * 16 + (lane >> 2), column = job.tile.column + 2 * (lane & 3);
#pragma unroll
        for (u32 at = 0; at < VCZ_WGMMA_COUNTS; ++at) {
            const u32 i = row + 8 * (at >> 1 & 1), j = column + 8 * (at >> 2) + (at & 1);
            vcz_add_pair(gram, i, j, low[at]);
            vcz_add_pair(gram, i, j + VCZ_WGMMA_COLUMNS, high[at]);
        }
    }
}
