// Sums over pairs of individuals at sites at which few copies have the allele: pair by pair of the individuals that have them, which takes less time
// than counting all pairs of units.
#include "pairs.cuh"

// The copies with the allele in one row: lane k has the k-th.
struct VczCarriers {
    u32 copy, n;
};

VCZ_DEVICE VczCarriers vcz_carriers(const u32* words, u32 width) {
    VczCarriers carriers = {0, 0};
    for (u32 begin = 0; begin < width; begin += 32) {
        u32 bits = begin + vcz_lane() < width ? __ldg(words + begin + vcz_lane()) : 0;
        for (u32 some; (some = __ballot_sync(VCZ_ALL_LANES, bits != 0)) != 0;) {
            const u32 from = __ffs((i32)some) - 1, word = __shfl_sync(VCZ_ALL_LANES, bits, from);
            if (vcz_lane() == carriers.n) carriers.copy = 32 * (begin + from) + __ffs((i32)word) - 1;
            if (vcz_lane() == from) bits &= bits - 1;
            ++carriers.n;
        }
    }
    return carriers;
}

// A warp has a row. The first copy of an individual stands for it, so each sum is added to once for a row.
extern "C" __global__ void __launch_bounds__(VCZ_THREADS) vcz_rare_pairs(VczRareRows job) {
    const u32 warps = gridDim.x * VCZ_WARPS, lane = vcz_lane();
    for (u32 at = blockIdx.x * VCZ_WARPS + threadIdx.x / 32; at < job.n_rows; at += warps) {
        const u32 row = __ldg((const u32*)job.order + at);
        const VczCarriers carriers = vcz_carriers((const u32*)job.rows + (u64)row * job.width, job.width);
        const u32 n = vcz_min(carriers.n, VCZ_RARE_COPIES);
        const u64* const weights = (const u64*)job.weights + 4 * n;
        const u32 individual = carriers.copy / 2;
        const u32 next = __shfl_sync(VCZ_ALL_LANES, individual, (lane + 1) & 31), before = __shfl_sync(VCZ_ALL_LANES, individual, (lane + 31) & 31);
        // The individual's dosage; 0 for its second copy, and without a copy.
        const bool is_first = lane < n && (lane == 0 || before != individual);
        const u32 dosage = !is_first ? 0 : lane + 1 < n && next == individual ? 2 : 1;
        if (is_first) {
            // Units are those of eight individuals that are heterozygous, and then homozygous for the allele.
            const u32 unit = individual / 8 * 16 + individual % 8 + 8 * (dosage - 1);
            u64* const sums = (u64*)job.unit_sums + 4 * (u64)unit;
#pragma unroll
            for (u32 set = 0; set < 2; ++set) vcz_add_to_sum(sums + 2 * set, __ldg(weights + 2 + set));
        }
        const u32 pairs = n * (n + 1) / 2;
        for (u32 first = 0; first < pairs; first += 32) {
            const u32 pair = first + lane;
            u32 later = 0;
            while ((later + 1) * (later + 2) / 2 <= pair) ++later;
            const u32 one = (pair - later * (later + 1) / 2) & 31, other = later & 31;
            const u32 i = __shfl_sync(VCZ_ALL_LANES, individual, one), j = __shfl_sync(VCZ_ALL_LANES, individual, other);
            const u32 product = __shfl_sync(VCZ_ALL_LANES, dosage, one) * __shfl_sync(VCZ_ALL_LANES, dosage, other);
            if (pair >= pairs || product == 0) continue;
#pragma unroll
            for (u32 set = 0; set < 2; ++set) {
                const u64 weight = __ldg(weights + set);
                if (weight != 0) vcz_add_pair_sum(job.sums[set], job.n_samples, i, j, weight * product);
            }
        }
    }
}
