// Allele counts of sample sets, computed from decoded blocks: bit-planes are counted directly, other layouts are converted to
// the same words of 32 codes in registers.
//
// A warp counts a row, or two or four at once; a lane takes every 32nd group of 32 codes, counted from the row's start, so that the
// masks of a tile need one shift for all rows. Alleles are counted four at a time. Usually only p0 has bits; the count of allele 0 is
// then the size of the set in this tile minus the other counts. Sets are processed two at a time.
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
VCZ_DEVICE void vcz_finish_row(const VczJob& job, const VczPart& part, u32 row, VczPlace at, u32* status) {
    VczCounts<S> counts = {};
    const bool bad = vcz_count_row<S, CODES>(job, part, at, counts);
    if (part.check) vcz_report(&status[job.tile.status], bad, VCZ_BAD_CODE);
    const bool shared = job.shared;
    const u32 allele = 4 * part.t, k = job.spec.n_alleles;
#pragma unroll
    for (int s = 0; s < S; ++s) {
        const u32 set = part.set + s;
        i32* out = (i32*)job.tile.out + ((u64)set * job.tile.out_rows + job.tile.row0 + row) * k + allele;
        u32 first = counts.first[s];
        if (part.t == 0) {
            // The copies that are not counted below, in lane 0.
            const u32 size = vcz_size_of(job, set);
            first = (vcz_lane() == 0 ? size : 0) - (first + counts.one[s] + counts.two[s] + counts.three[s]);
        }
        vcz_add_to(out, (i32)first, shared);
        if (allele + 1 < k) vcz_add_to(out + 1, (i32)counts.one[s], shared);
        if (allele + 2 < k) vcz_add_to(out + 2, (i32)counts.two[s], shared);
        if (allele + 3 < k) vcz_add_to(out + 3, (i32)counts.three[s], shared);
    }
}

// Rows that a warp counts together where they lie in one bit-shuffled block; where planes repeat, two of them at a time.
#define VCZ_GROUP_ROWS 4
#define VCZ_PAIR 2
// Two counts fit in one word below this many copies.
#define VCZ_PAIR_COPIES 65536
// Alleles that `vcz_count_pair` distinguishes.
#define VCZ_PAIR_ALLELES 4

// Writes the counts of a row: lane i has allele i in x; alleles from 32 on have no copies.
VCZ_DEVICE void vcz_put_counts(const VczJob& job, u32 set, u32 row, u32 x, bool shared) {
    const u32 k = job.spec.n_alleles;
    i32* out = (i32*)job.tile.out + ((u64)set * job.tile.out_rows + job.tile.row0 + row) * k;
    for (u32 allele = vcz_lane(); allele < k; allele += 32, x = 0) {
        if (!shared) {
            out[allele] = (i32)x;
        } else if (x != 0) {
            atomicAdd(out + allele, (i32)x);
        }
    }
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
        VczPart part;
        part.set = set;
        for (part.t = 0; 4 * part.t < job.spec.n_alleles; ++part.t) {
            part.check = set == 0 && part.t == 0;
            vcz_finish_row<S, CODES>(job, part, row + r, start, status);
        }
    }
}

template <bool CODES>
VCZ_DEVICE void vcz_count(const VczTile* __restrict__ tiles, u32 n_tiles, u32 tile_groups, VczJob& job, u32* status) {
    if (blockIdx.x / tile_groups >= n_tiles) return;
    if (threadIdx.x == 0) {
        job.tile = tiles[blockIdx.x / tile_groups];
        job.spec = *(const VczCountSpec*)job.tile.spec;
        job.wanted = (const u32*)job.spec.masks;
        job.mask_bit = job.tile.sample0 * job.tile.copies;
        job.copies = job.tile.samples * job.tile.copies;
        job.big_endian = (job.tile.flags & VCZ_BIG_ENDIAN) != 0;
        job.shared = (job.tile.flags & VCZ_SHARED) != 0;
    }
    __syncthreads();
    const u32 sets = job.spec.allele_sets;
    for (u32 set = threadIdx.x / 32; set < vcz_min(sets, VCZ_SIZES); set += VCZ_WARPS) {
        const u32 size = vcz_mask_size(vcz_set_mask(job, set), job.mask_bit, job.copies);
        if (vcz_lane() == 0) job.size[set] = size;
    }
    __syncthreads();
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
extern "C" __global__ void __launch_bounds__(VCZ_THREADS)
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
