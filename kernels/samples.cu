// Counts the genotypes of individuals in rows of bit-planes that are on the device.
//
// A thread counts the bits of one word of 16 individuals at up to 255 rows: for every bit it has a counter of eight bits, whose bits of one
// value are a word. Then it adds the counters to the counts of the individuals.
#include "pairs.cuh"

#define VCZ_COUNTER_BITS 8
#define VCZ_COUNTER_ROWS 255
// Rows that are read at a time: a thread would otherwise wait for the memory of each.
#define VCZ_ROWS_AHEAD 8
// The first copies of diploid calls.
#define VCZ_FIRST_COPIES 0x55555555u

// Counts the row's only carrier: of its only copy of the allele, or of its only two.
VCZ_DEVICE void vcz_count_carrier(const VczSampleRows& job, u32 word, u32 het, u32 hom, u32 ones) {
    u32* const counts = (u32*)job.counts;
    const u32 individual = 16 * word + ((u32)__ffs((i32)(het | hom)) - 1) / 2;
    if (individual >= job.n_samples) return;
    if (ones == 1) atomicAdd(counts + 2 * (u64)job.n_samples + individual, 1u);
    if (ones == 1 || hom != 0) atomicAdd(counts + 3 * (u64)job.n_samples + individual, 1u);
}

extern "C" __global__ void __launch_bounds__(VCZ_THREADS) vcz_sample_counts(VczSampleRows job) {
    const u64 thread = (u64)blockIdx.x * VCZ_THREADS + threadIdx.x;
    const u32 slice = (u32)(thread / job.width), word = (u32)(thread - (u64)slice * job.width);
    const u64 begin = (u64)slice * VCZ_COUNTER_ROWS;
    if (begin >= job.n_rows) return;
    const u32 end = (u32)begin + vcz_min(VCZ_COUNTER_ROWS, job.n_rows - (u32)begin);
    u32 counters[VCZ_COUNTER_BITS];
#pragma unroll
    for (u32 k = 0; k < VCZ_COUNTER_BITS; ++k) counters[k] = 0;
    for (u32 first = (u32)begin; first < end; first += VCZ_ROWS_AHEAD) {
        u64 at[VCZ_ROWS_AHEAD];
        u32 bits[VCZ_ROWS_AHEAD];
#pragma unroll
        for (u32 i = 0; i < VCZ_ROWS_AHEAD; ++i) at[i] = first + i < end ? __ldg((const u64*)job.from + first + i) : 0;
#pragma unroll
        for (u32 i = 0; i < VCZ_ROWS_AHEAD; ++i) bits[i] = at[i] == 0 ? 0 : __ldg((const u32*)(at[i] & ~(u64)7) + word);
#pragma unroll
        for (u32 i = 0; i < VCZ_ROWS_AHEAD; ++i) {
            const u32 second = bits[i] >> 1;
            const u32 het = (bits[i] ^ second) & VCZ_FIRST_COPIES, hom = bits[i] & second & VCZ_FIRST_COPIES;
            const u32 ones = (u32)(at[i] >> 1) & 3;
            if (ones <= 2 && bits[i] != 0) vcz_count_carrier(job, word, het, hom, ones);
            u32 carry = het | hom << 1;
#pragma unroll
            for (u32 k = 0; k < VCZ_COUNTER_BITS; ++k) {
                const u32 both = counters[k] & carry;
                counters[k] ^= carry;
                carry = both;
            }
        }
    }
    for (u32 bit = 0; bit < 32; ++bit) {
        u32 count = 0;
#pragma unroll
        for (u32 k = 0; k < VCZ_COUNTER_BITS; ++k) count |= (counters[k] >> bit & 1) << k;
        const u32 individual = 16 * word + bit / 2;
        if (count != 0 && individual < job.n_samples) {
            atomicAdd((u32*)job.counts + (u64)(bit % 2) * job.n_samples + individual, count);
        }
    }
}
