// The tile whose alleles a CTA counts, and how a warp counts a row of it, whatever its codes are.
//
// A lane takes every 32nd group of 32 codes, counted from the row's start, so that the masks of a tile need one shift for all rows.
// Alleles are counted four at a time. Usually only p0 has bits; the count of allele 0 is then the size of the set in this tile minus the
// other counts.
#ifndef VCZ_COUNT_CUH
#define VCZ_COUNT_CUH

#include "codes.cuh"

// Sets whose sizes in the tile are cached.
#define VCZ_SIZES 128

// The tile of a CTA, and values derived from it once for all threads.
struct VczJob {
    VczTile tile;
    VczCountSpec spec;
    const u32* wanted;       // the union of all sets, then the sets, every `mask_words` words
    u32 mask_bit;            // the tile's first copy in the masks
    u32 copies;              // of a row that exist
    bool big_endian, shared;
    u32 size[VCZ_SIZES];     // copies of the first sets in the tile
};

// Counts of a row, of one lane. `first`: the codes that are none of alleles 0 to 3, or, for t > 0, allele 4t.
template <int S>
struct VczCounts {
    u32 first[S], one[S], two[S], three[S];
};

template <int S>
VCZ_DEVICE void vcz_tally(VczCounts<S>& counts, const VczWords& w, u32 valid, u32 t, const u32* __restrict__ masks,
                          u32 mask_words, u32 bit) {
    const u32 rest = (w.p1 | w.other) & valid;
    if (t == 0 && rest == 0) {
#pragma unroll
        for (int s = 0; s < S; ++s) counts.one[s] += __popc(w.p0 & valid & vcz_mask_bits(masks + (u64)s * mask_words, bit));
        return;
    }
    const u32 here = valid & ~w.other;
    if (t != 0 && here == 0) return;
    const u32 first = t == 0 ? w.other & valid : here & ~(w.p0 | w.p1);
    const u32 one = here & w.p0 & ~w.p1, two = here & w.p1 & ~w.p0, three = here & w.p0 & w.p1;
#pragma unroll
    for (int s = 0; s < S; ++s) {
        const u32 mask = vcz_mask_bits(masks + (u64)s * mask_words, bit);
        counts.first[s] += __popc(first & mask);
        counts.one[s] += __popc(one & mask);
        counts.two[s] += __popc(two & mask);
        counts.three[s] += __popc(three & mask);
    }
}

// Sets from `set` on, and alleles 4t.. of them, which are counted at once.
struct VczPart {
    u32 set, t;
    bool check;  // also check for codes without an allele
};

VCZ_DEVICE const u32* vcz_set_mask(const VczJob& job, u32 set) { return job.wanted + (u64)(1 + set) * job.spec.mask_words; }

VCZ_DEVICE u32 vcz_size_of(const VczJob& job, u32 set) {
    return set < VCZ_SIZES ? job.size[set] : vcz_mask_size(vcz_set_mask(job, set), job.mask_bit, job.copies);
}

// Counts one row that starts at `at`; what other lanes count is not added yet. CODES: any kind and width, else bit-planes and
// bytes of one-byte codes.
template <int S, bool CODES>
VCZ_DEVICE bool vcz_count_row(const VczJob& job, const VczPart& part, VczPlace at, VczCounts<S>& counts) {
    const u32 copies = job.copies, k = job.spec.n_alleles;
    const u32 width = CODES ? job.tile.width : 1;
    const bool big_endian = CODES && job.big_endian;
    const u32* masks = vcz_set_mask(job, part.set);
    u32 bad = 0;
    for (u32 done = 0; done < copies;) {
        const VczBlock block = vcz_block(job.tile, at.block);
        if (at.offset >= block.elements) break;  // no such element: the tile is inconsistent
        const u32 end = done + vcz_min(copies - done, block.elements - at.offset);
        // Blocks of zeros have allele 0 only, whose count is the remainder.
        if (block.planes != 0) {
            for (u32 group = done / 32 + vcz_lane(); group <= (end - 1) / 32; group += 32) {
                const u32 begin = 32 * group;
                u32 valid = VCZ_ALL_LANES;
                if (begin < done) valid <<= done - begin;
                if (end - begin < 32) valid &= ~(VCZ_ALL_LANES << (end - begin));
                // Negative for the group that straddles the start of the block.
                const u32 first = at.offset + begin - done;
                const VczWords w = vcz_words<CODES>(block, first, valid, width, big_endian, part.t, k);
                const u32 bit = job.mask_bit + begin;
                if (part.check && (w.bad & valid) != 0) bad |= w.bad & valid & vcz_mask_bits(job.wanted, bit);
                vcz_tally<S>(counts, w, valid, part.t, masks, job.spec.mask_words, bit);
            }
        }
        done = end;
        at.block += 1;
        at.offset = 0;
    }
    return bad != 0;
}

// Counts a row and writes the counts.
template <int S, bool CODES>
VCZ_DEVICE void vcz_finish_row(const VczJob& job, const VczPart& part, u32 row, VczPlace start, u32* status) {
    VczCounts<S> counts = {};
    const bool bad = vcz_count_row<S, CODES>(job, part, start, counts);
    if (part.check) vcz_report(&status[job.tile.status], bad, VCZ_BAD_CODE);
    const bool shared = job.shared;
    const u32 allele = 4 * part.t, k = job.spec.n_alleles;
#pragma unroll
    for (int s = 0; s < S; ++s) {
        const u32 set = part.set + s;
        const u64 at = ((u64)set * job.tile.out_rows + job.tile.row0 + row) * k + allele;
        u32 first = counts.first[s];
        if (part.t == 0) {
            // The copies that are not counted below, in lane 0.
            const u32 size = vcz_size_of(job, set);
            first = (vcz_lane() == 0 ? size : 0) - (first + counts.one[s] + counts.two[s] + counts.three[s]);
        }
        vcz_put_sum(job.tile.out, at, first, job.spec.count_bytes, shared);
        if (allele + 1 < k) vcz_put_sum(job.tile.out, at + 1, counts.one[s], job.spec.count_bytes, shared);
        if (allele + 2 < k) vcz_put_sum(job.tile.out, at + 2, counts.two[s], job.spec.count_bytes, shared);
        if (allele + 3 < k) vcz_put_sum(job.tile.out, at + 3, counts.three[s], job.spec.count_bytes, shared);
    }
}

// Counts a row, which starts at `start`, for S sets from `set` on.
template <int S, bool CODES>
VCZ_DEVICE void vcz_finish_sets(const VczJob& job, u32 set, u32 row, VczPlace start, u32* status) {
    VczPart part;
    part.set = set;
    for (part.t = 0; 4 * part.t < job.spec.n_alleles; ++part.t) {
        part.check = set == 0 && part.t == 0;
        vcz_finish_row<S, CODES>(job, part, row, start, status);
    }
}

// Prepares the job of a CTA, of all its threads.
VCZ_DEVICE void vcz_begin_job(const VczTile& tile, VczJob& job) {
    if (threadIdx.x == 0) {
        job.tile = tile;
        job.spec = *(const VczCountSpec*)tile.spec;
        job.wanted = (const u32*)job.spec.masks;
        job.mask_bit = tile.sample0 * tile.copies;
        job.copies = tile.samples * tile.copies;
        job.big_endian = (tile.flags & VCZ_BIG_ENDIAN) != 0;
        job.shared = (tile.flags & VCZ_SHARED) != 0;
    }
    __syncthreads();
    for (u32 set = threadIdx.x / 32; set < vcz_min(job.spec.allele_sets, VCZ_SIZES); set += VCZ_WARPS) {
        const u32 size = vcz_mask_size(vcz_set_mask(job, set), job.mask_bit, job.copies);
        if (vcz_lane() == 0) job.size[set] = size;
    }
    __syncthreads();
}

// Rows that a warp counts together where they lie in one bit-shuffled block.
#define VCZ_GROUP_ROWS 4
// Two counts fit in one word below this many copies.
#define VCZ_PAIR_COPIES 65536

#endif
