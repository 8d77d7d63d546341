// Zygosity of complete diploids by allele, for codes of any width and ploidy in blocks of any kind. A complete diploid has exactly two
// codes other than -2, both called.
//
// A warp counts a row, or four at once where they have only codes 0 and 1 in bit-planes. Diploid calls are counted 16 at a time, on words
// of 32 codes, since both copies of a call are neighbouring bits; all others call by call. Alleles are counted four at a time. The remaining samples of a set in the tile are homozygous for allele 0.
#include "codes.cuh"

// Sets whose sizes in the tile are cached.
#define VCZ_ZYGOSITY_SIZES 128
// The first copies of 16 diploid calls.
#define VCZ_FIRSTS 0x55555555u
// Rows that are counted together.
#define VCZ_ZYGOSITY_ROWS 4
// Two counts fit in one word below this many samples.
#define VCZ_PAIR_SAMPLES 65536

// The tile of a CTA, and values derived from it once for all threads.
struct VczZygosityJob {
    VczTile tile;
    VczCountSpec spec;
    const u32* masks;  // over samples, the zygosity sets'
    bool big_endian;
    u32 size[VCZ_ZYGOSITY_SIZES];  // samples of the first sets in the tile
};

// Individuals of a lane, by allele from 4t on. For t = 0, hom[0] counts all that are not homozygous for allele 0.
template <int S>
struct VczZygosity {
    u32 hom[S][4], het[S][4];
};

// What a pass over a row finds besides counts.
struct VczFound {
    bool bad;    // a wanted code that no allele has
    bool above;  // a code above 3
};

VCZ_DEVICE const u32* vcz_zygosity_mask(const VczZygosityJob& job, u32 set) {
    return job.masks + (u64)set * job.spec.sample_words;
}

VCZ_DEVICE u32 vcz_zygosity_size(const VczZygosityJob& job, u32 set) {
    if (set < VCZ_ZYGOSITY_SIZES) return job.size[set];
    return vcz_mask_size(vcz_zygosity_mask(job, set), job.tile.sample0, job.tile.samples);
}

// Counts the diploid calls among 16 whose first bits are in `firsts`; the first of the 16 is of sample `sample` of the masks.
template <int S>
VCZ_DEVICE void vcz_zygosity_words(const VczZygosityJob& job, u32 set, u32 t, const VczWords& w, u32 firsts, u32 sample,
                                   VczZygosity<S>& counts, VczFound& found) {
    const u32 both = firsts | firsts << 1;
    if (t == 0) {
        found.above |= (w.other & ~w.negative & both) != 0;
        if (((w.p1 | w.other | w.bad) & both) == 0) {
            const u32 het = (w.p0 ^ w.p0 >> 1) & firsts, hom = w.p0 & w.p0 >> 1 & firsts;
            if ((het | hom) == 0) return;
#pragma unroll
            for (int s = 0; s < S; ++s) {
                const u32 in = vcz_spread(vcz_mask_bits(vcz_zygosity_mask(job, set + s), sample));
                const u32 hets = __popc(het & in), homs = __popc(hom & in);
                counts.hom[s][0] += hets + homs;
                counts.het[s][0] += hets;
                counts.hom[s][1] += homs;
                counts.het[s][1] += hets;
            }
            return;
        }
    }
    const u32 here = ~w.other;
    if (t != 0 && (here & both) == 0) return;
    const u32 called = ~(w.negative | w.negative >> 1);
    const u32 is[4] = {here & ~(w.p0 | w.p1), here & w.p0 & ~w.p1, here & w.p1 & ~w.p0, here & w.p0 & w.p1};
#pragma unroll
    for (int s = 0; s < S; ++s) {
        const u32 in = firsts & vcz_spread(vcz_mask_bits(vcz_zygosity_mask(job, set + s), sample));
        found.bad |= ((w.bad | w.bad >> 1) & in) != 0;
#pragma unroll
        for (int a = 0; a < 4; ++a) {
            const u32 hom = is[a] & is[a] >> 1;
            counts.hom[s][a] += __popc((a == 0 && t == 0 ? ~hom : hom) & in);
            counts.het[s][a] += __popc((is[a] ^ is[a] >> 1) & called & in);
        }
    }
}

// Counts sample `sample` of the tile, whose copies start at `at`.
template <int S>
VCZ_DEVICE void vcz_zygosity_call(const VczZygosityJob& job, u32 set, u32 t, u32 sample, VczPlace at, VczZygosity<S>& counts,
                                  VczFound& found) {
    const VczTile& tile = job.tile;
    const u32 bit = tile.sample0 + sample;
    u32 in[S], any = 0;
#pragma unroll
    for (int s = 0; s < S; ++s) {
        in[s] = (__ldg(vcz_zygosity_mask(job, set + s) + bit / 32) >> (bit % 32)) & 1;
        any |= in[s];
    }
    if (any == 0) return;
    i64 first = 0, second = 0;
    u32 copies = 0;
    bool called = true;
    VczBlock block = vcz_block(tile, at.block);
    for (u32 copy = 0; copy < job.spec.ploidy; ++copy) {
        if (at.offset >= block.elements) {
            at.block += 1;
            at.offset = 0;
            block = vcz_block(tile, at.block);
        }
        const i64 code = vcz_code(block, at.offset, tile.width, job.big_endian);
        at.offset += 1;
        found.bad |= code >= (i64)job.spec.n_alleles;
        if (code == -2) continue;
        called &= code >= 0;
        if (copies == 0) first = code;
        if (copies == 1) second = code;
        copies += 1;
    }
    const bool complete = called && copies == 2;
    found.above |= complete && (first > 3 || second > 3);
#pragma unroll
    for (int a = 0; a < 4; ++a) {
        const i64 allele = 4 * (i64)t + a;
        const bool one = first == allele, other = second == allele;
        const u32 hom = complete && one && other, het = complete && one != other;
#pragma unroll
        for (int s = 0; s < S; ++s) {
            counts.hom[s][a] += (a == 0 && t == 0 ? 1 - hom : hom) * in[s];
            counts.het[s][a] += het * in[s];
        }
    }
}

// Counts alleles from 4t on of one row that starts at `at`; what other lanes count is not added yet. CODES: any width, else one byte.
template <int S, bool CODES>
VCZ_DEVICE VczFound vcz_zygosity_row(const VczZygosityJob& job, u32 set, u32 t, VczPlace at, VczZygosity<S>& counts) {
    const VczTile& tile = job.tile;
    const u32 copies = tile.samples * tile.copies;
    const u32 width = CODES ? tile.width : 1;
    const bool big_endian = CODES && job.big_endian;
    VczFound found = {false, false};
    for (u32 done = 0; done < copies;) {
        const VczBlock block = vcz_block(tile, at.block);
        if (at.offset >= block.elements) break;  // no such element: the tile is inconsistent
        const u32 end = done + vcz_min(copies - done, block.elements - at.offset);
        if (tile.copies == 2 && job.spec.ploidy == 2 && ((done | end) & 1) == 0) {
            for (u32 group = done / 32 + vcz_lane(); block.planes != 0 && group <= (end - 1) / 32; group += 32) {
                const u32 begin = 32 * group;
                u32 valid = VCZ_ALL_LANES;
                if (begin < done) valid <<= done - begin;
                if (end - begin < 32) valid &= ~(VCZ_ALL_LANES << (end - begin));
                // Negative for the group that straddles the start of the block.
                const u32 first = at.offset + begin - done;
                const VczWords w = vcz_words<CODES>(block, first, valid, width, big_endian, t, job.spec.n_alleles);
                vcz_zygosity_words<S>(job, set, t, w, valid & VCZ_FIRSTS, tile.sample0 + begin / 2, counts, found);
            }
        } else {
            // The samples whose copies start in this block; their last copies may be in the next one.
            const u32 last = (end + tile.copies - 1) / tile.copies;
            for (u32 sample = (done + tile.copies - 1) / tile.copies + vcz_lane(); sample < last; sample += 32) {
                VczPlace first;
                first.block = at.block;
                first.offset = at.offset + (sample * tile.copies - done);
                vcz_zygosity_call<S>(job, set, t, sample, first, counts, found);
            }
        }
        done = end;
        at.block += 1;
        at.offset = 0;
    }
    return found;
}

// Counts four rows of diploid calls from `row` on, whose codes start at bit `offset` of a bit-shuffled block. Returns, as bits, the rows
// with any code but 0 and 1, which the caller counts.
template <int S>
VCZ_DEVICE u32 vcz_zygosity_rows(const VczZygosityJob& job, u32 set, const VczBlock& block, u32 row, u32 offset) {
    const VczTile& tile = job.tile;
    const u32 copies = 2 * tile.samples, k = job.spec.n_alleles, bytes = job.spec.count_bytes;
    const u64 stride = block.elements / 8;
    // Heterozygous calls, and << 16 those homozygous for allele 1.
    u32 counts[VCZ_ZYGOSITY_ROWS][S] = {}, above[VCZ_ZYGOSITY_ROWS] = {};
    for (u32 begin = 32 * vcz_lane(); begin < copies; begin += 32 * 32) {
        const u32 left = copies - begin;
        const u32 valid = left < 32 ? ~(VCZ_ALL_LANES << left) : VCZ_ALL_LANES;
        u32 in[S];
#pragma unroll
        for (int s = 0; s < S; ++s) {
            in[s] = valid & vcz_spread(vcz_mask_bits(vcz_zygosity_mask(job, set + s), tile.sample0 + begin / 2));
        }
#pragma unroll
        for (int r = 0; r < VCZ_ZYGOSITY_ROWS; ++r) {
            const i32 bit = (i32)(offset + r * tile.row_elements + begin);
            const u32 x = vcz_plane_bits(block.data, bit), other = x >> 1;
            for (u32 plane = 1; plane < block.planes; ++plane) {
                above[r] |= valid & vcz_plane_bits(block.data + plane * stride, bit);
            }
#pragma unroll
            for (int s = 0; s < S; ++s) counts[r][s] += __popc((x ^ other) & in[s]) + (__popc(x & other & in[s]) << 16);
        }
    }
    const u64 before = ((u64)job.spec.allele_sets * k + (u64)job.spec.genotype_sets * VCZ_CLASSES) * tile.out_rows;
    const bool shared = (tile.flags & VCZ_SHARED) != 0;
    u32 todo = 0;
#pragma unroll
    for (int r = 0; r < VCZ_ZYGOSITY_ROWS; ++r) {
        if (__any_sync(VCZ_ALL_LANES, above[r] != 0)) {
            todo |= 1u << r;
            continue;
        }
#pragma unroll
        for (int s = 0; s < S; ++s) {
            const u32 sum = (u32)vcz_warp_sum((i32)counts[r][s]), het = sum & 0xffff, hom = sum >> 16;
            const u64 first = before + ((u64)(set + s) * tile.out_rows + tile.row0 + row + r) * 2 * k;
            // Other alleles have no copies, and the output was zeroed. A lane for each of the four counts.
            const u32 lane = vcz_lane(), size = vcz_zygosity_size(job, set + s);
            const u32 x = lane == 0 ? size - het - hom : lane == 1 ? hom : het;
            if (lane < 4) vcz_put_count(tile.out, first + (lane < 2 ? lane : k + lane - 2), x, bytes, shared);
        }
    }
    return todo;
}

// Whether four rows from `at` on can be counted together.
VCZ_DEVICE bool vcz_are_zygosity_rows(const VczZygosityJob& job, const VczBlock& block, VczPlace at) {
    const VczTile& tile = job.tile;
    const u64 end = (u64)at.offset + (u64)(VCZ_ZYGOSITY_ROWS - 1) * tile.row_elements + 2 * (u64)tile.samples;
    return block.kind == VCZ_BIT_SHUFFLED && block.planes != 0 && !vcz_repeats(block) && end <= block.elements;
}

// Counts a row for S sets from `set` on and writes the counts.
template <int S, bool CODES>
VCZ_DEVICE void vcz_finish_zygosity(const VczZygosityJob& job, u32 set, u32 row, VczPlace at, u32* status) {
    const VczTile& tile = job.tile;
    const bool shared = (tile.flags & VCZ_SHARED) != 0;
    const u32 k = job.spec.n_alleles;
    const u64 before = (u64)job.spec.allele_sets * k + (u64)job.spec.genotype_sets * VCZ_CLASSES;
    const u32 bytes = job.spec.count_bytes;
    bool above = false;
    for (u32 t = 0; 4 * t < k; ++t) {
        VczZygosity<S> counts = {};
        // Usually no allele after the first four has a copy.
        if (t == 0 || above) {
            const VczFound found = vcz_zygosity_row<S, CODES>(job, set, t, at, counts);
            if (t == 0) {
                vcz_report(&status[tile.status], found.bad, VCZ_BAD_CODE);
                above = __any_sync(VCZ_ALL_LANES, found.above) != 0;
            }
        }
#pragma unroll
        for (int s = 0; s < S; ++s) {
            const u64 first = before * tile.out_rows + ((u64)(set + s) * tile.out_rows + tile.row0 + row) * 2 * k + 4 * t;
            if (t == 0) {
                const u32 size = vcz_zygosity_size(job, set + s);
                counts.hom[s][0] = (vcz_lane() == 0 ? size : 0) - counts.hom[s][0];
            }
#pragma unroll
            for (int a = 0; a < 4; ++a) {
                if (4 * t + a >= k) continue;
                vcz_put_sum(tile.out, first + a, counts.hom[s][a], bytes, shared);
                vcz_put_sum(tile.out, first + k + a, counts.het[s][a], bytes, shared);
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(VCZ_THREADS, 2)
    vcz_count_zygosity(const VczTile* __restrict__ tiles, u32 n_tiles, u32 tile_groups, u32* status) {
    __shared__ VczZygosityJob job;
    if (blockIdx.x / tile_groups >= n_tiles) return;
    if (threadIdx.x == 0) {
        job.tile = tiles[blockIdx.x / tile_groups];
        job.spec = *(const VczCountSpec*)job.tile.spec;
        job.masks = (const u32*)job.spec.masks + (u64)(1 + job.spec.allele_sets) * job.spec.mask_words +
                    (u64)job.spec.genotype_sets * job.spec.sample_words;
        job.big_endian = (job.tile.flags & VCZ_BIG_ENDIAN) != 0;
    }
    __syncthreads();
    const u32 sets = job.spec.zygosity_sets;
    for (u32 set = vcz_warp(); set < vcz_min(sets, VCZ_ZYGOSITY_SIZES); set += VCZ_WARPS) {
        const u32 size = vcz_mask_size(vcz_zygosity_mask(job, set), job.tile.sample0, job.tile.samples);
        if (vcz_lane() == 0) job.size[set] = size;
    }
    __syncthreads();
    const u32 warp = (blockIdx.x % tile_groups) * VCZ_WARPS + vcz_warp();
    const u32 warps = tile_groups * VCZ_WARPS;
    // Four rows at a time, if there is a group for nearly every warp.
    const bool in_groups = job.tile.width == 1 && job.tile.copies == 2 && job.spec.ploidy == 2 && job.spec.n_alleles >= 2 &&
                           job.tile.samples < VCZ_PAIR_SAMPLES && job.tile.rows >= (VCZ_ZYGOSITY_ROWS - 1) * warps;
    const u32 height = in_groups ? VCZ_ZYGOSITY_ROWS : 1;
    VczRowWalk walk(job.tile, height * warp, height * warps);
    for (u32 row = height * warp; row < job.tile.rows; row += height * warps, walk.next()) {
        const u32 rows = vcz_min(height, job.tile.rows - row);
        const VczBlock block = vcz_block(job.tile, walk.at.block);
        const bool grouped = in_groups && rows == VCZ_ZYGOSITY_ROWS && vcz_are_zygosity_rows(job, block, walk.at);
        for (u32 set = 0; set < sets;) {
            // One by one where codes are wider, which takes more registers.
            const u32 n = job.tile.width > 1 || set + 2 > sets ? 1 : 2;
            u32 todo = (1u << rows) - 1;
            if (grouped) {
                todo = n == 2 ? vcz_zygosity_rows<2>(job, set, block, row, walk.at.offset)
                              : vcz_zygosity_rows<1>(job, set, block, row, walk.at.offset);
            }
            for (u32 r = 0; todo != 0; ++r, todo >>= 1) {
                if ((todo & 1) == 0) continue;
                const VczPlace at = r == 0 ? walk.at : vcz_after(walk.at, r * job.tile.row_elements, job.tile.block_elements);
                if (job.tile.width > 1) {
                    vcz_finish_zygosity<1, true>(job, set, row + r, at, status);
                } else if (n == 2) {
                    vcz_finish_zygosity<2, false>(job, set, row + r, at, status);
                } else {
                    vcz_finish_zygosity<1, false>(job, set, row + r, at, status);
                }
            }
            set += n;
        }
    }
}
