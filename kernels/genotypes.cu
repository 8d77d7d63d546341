// Genotype counts of sample sets: calls by class, for codes of any width and ploidy in blocks of any kind.
//
// A warp counts a row. Diploid calls in bit-planes are classified 16 at a time, since both copies of a call are neighbouring bits;
// all others call by call. The remaining samples of a set in the tile are homozygous reference.
#include "vcz.cuh"

// Sets whose sizes in the tile are cached.
#define VCZ_CLASS_SIZES 128

// Classes in the order of the output.
#define VCZ_HOM_REF 0
#define VCZ_HET 1
#define VCZ_HOM_ALT 2
#define VCZ_HAPLOID 3
#define VCZ_MISSING 4

// 16 diploid calls, a bit at every even place.
struct VczCalls {
    u32 het, alt, haploid, missing, bad;
};

// The tile of a CTA, and values derived from it once for all threads.
struct VczClassJob {
    VczTile tile;
    VczCountSpec spec;
    const u32* masks;  // over samples, the genotype sets'
    bool big_endian;
    u32 size[VCZ_CLASS_SIZES];  // samples of the first sets in the tile
};

// Calls of a lane in all classes but homozygous reference.
template <int S>
struct VczClasses {
    u32 het[S], alt[S], haploid[S], missing[S];
};

VCZ_DEVICE const u32* vcz_class_mask(const VczClassJob& job, u32 set) { return job.masks + (u64)set * job.spec.sample_words; }

VCZ_DEVICE u32 vcz_samples_of(const VczClassJob& job, u32 set) {
    return set < VCZ_CLASS_SIZES ? job.size[set] : vcz_mask_size(vcz_class_mask(job, set), job.tile.sample0, job.tile.samples);
}

// The 16 diploid calls of a bit-shuffled block from element `first` on.
VCZ_DEVICE VczCalls vcz_calls(const VczBlock& block, i32 first, u32 width, bool big_endian, u32 n_alleles) {
    const u64 stride = block.elements / 8;
    const u32 sign = 8 * width - 1;
    VczCalls calls;
    if (block.planes <= 2 && !vcz_repeats(block) && !(big_endian && width > 1)) {
        const u32 p0 = vcz_plane_bits(block.data, first);
        const u32 p1 = block.planes > 1 ? vcz_plane_bits(block.data + stride, first) : 0;
        const u32 any = p0 | p1, differ = (p0 ^ p0 >> 1) | (p1 ^ p1 >> 1);
        calls.het = differ;
        calls.alt = any & ~differ;
        calls.haploid = calls.missing = 0;
        calls.bad = n_alleles == 1 ? any : n_alleles == 2 ? p1 : n_alleles == 3 ? p0 & p1 : 0;
    } else {
        u32 any = 0, differ = 0, fill = VCZ_ALL_LANES, negative = 0;
        u32 bad = VCZ_ALL_LANES;
        for (u32 v = 0; v <= sign; ++v) {
            const u32 plane = vcz_plane_of(v, width, big_endian);
            const u32 x = vcz_any_plane_bits(block, plane, first);
            any |= x;
            differ |= x ^ x >> 1;
            fill &= v == 0 ? ~x : x;
            if (v == sign) {
                negative = x;
                // With more alleles than codes, no code is invalid.
                bad = width < 4 && (n_alleles >> sign) != 0 ? 0 : bad & ~x;
            } else {
                bad = v < 32 && ((n_alleles >> v) & 1) != 0 ? bad & x : bad | x;
            }
        }
        const u32 uncalled = negative & ~fill;
        calls.missing = uncalled | uncalled >> 1 | (fill & fill >> 1);
        calls.haploid = (fill ^ fill >> 1) & ~calls.missing;
        const u32 called = ~(negative | negative >> 1);
        calls.het = called & differ;
        calls.alt = called & ~differ & any;
        calls.bad = bad;
    }
    calls.bad |= calls.bad >> 1;
    return calls;
}

// The class of a call, whose copies are read one by one.
struct VczCall {
    i64 first;
    u32 copies;
    bool differ, missing, bad;

    __device__ __forceinline__ VczCall() : first(0), copies(0), differ(false), missing(false), bad(false) {}

    __device__ __forceinline__ void add(i64 code, u32 n_alleles) {
        if (code == -2) return;
        if (copies == 0) first = code;
        copies += 1;
        missing |= code < 0;
        differ |= code != first;
        bad |= code >= (i64)n_alleles;
    }

    __device__ __forceinline__ u32 kind() const {
        if (copies == 0 || missing) return VCZ_MISSING;
        if (copies == 1) return VCZ_HAPLOID;
        if (differ) return VCZ_HET;
        return first == 0 ? VCZ_HOM_REF : VCZ_HOM_ALT;
    }
};

// Counts sample `sample` of the tile, whose copies start at `at`, for S sets from `set` on.
template <int S>
VCZ_DEVICE bool vcz_count_call(const VczClassJob& job, u32 set, u32 sample, VczPlace at, VczClasses<S>& counts) {
    const VczTile& tile = job.tile;
    const u32 bit = tile.sample0 + sample;
    u32 in[S], any = 0;
#pragma unroll
    for (int s = 0; s < S; ++s) {
        in[s] = (__ldg(vcz_class_mask(job, set + s) + bit / 32) >> (bit % 32)) & 1;
        any |= in[s];
    }
    if (any == 0) return false;
    VczCall call;
    VczBlock block = vcz_block(tile, at.block);
    for (u32 copy = 0; copy < job.spec.ploidy; ++copy) {
        if (at.offset >= block.elements) {
            at.block += 1;
            at.offset = 0;
            block = vcz_block(tile, at.block);
        }
        call.add(vcz_code(block, at.offset, tile.width, job.big_endian), job.spec.n_alleles);
        at.offset += 1;
    }
    const u32 kind = call.kind();
#pragma unroll
    for (int s = 0; s < S; ++s) {
        counts.het[s] += kind == VCZ_HET ? in[s] : 0;
        counts.alt[s] += kind == VCZ_HOM_ALT ? in[s] : 0;
        counts.haploid[s] += kind == VCZ_HAPLOID ? in[s] : 0;
        counts.missing[s] += kind == VCZ_MISSING ? in[s] : 0;
    }
    return call.bad;
}

// Counts one row; what other lanes count is not added yet.
template <int S>
VCZ_DEVICE bool vcz_class_row(const VczClassJob& job, u32 set, VczPlace row, VczClasses<S>& counts) {
    const VczTile& tile = job.tile;
    const u32 copies = tile.samples * tile.copies;
    bool bad = false;
    VczPlace at = row;
    for (u32 done = 0; done < copies;) {
        const VczBlock block = vcz_block(tile, at.block);
        if (at.offset >= block.elements) break;  // no such element: the tile is inconsistent
        const u32 end = done + vcz_min(copies - done, block.elements - at.offset);
        const bool pairs = tile.copies == 2 && job.spec.ploidy == 2 && ((done | end) & 1) == 0;
        if (block.kind == VCZ_BIT_SHUFFLED && pairs) {
            for (u32 group = done / 32 + vcz_lane(); block.planes != 0 && group <= (end - 1) / 32; group += 32) {
                const u32 begin = 32 * group;
                u32 valid = 0x55555555;
                if (begin < done) valid &= VCZ_ALL_LANES << (done - begin);
                if (end - begin < 32) valid &= ~(VCZ_ALL_LANES << (end - begin));
                const VczCalls calls = vcz_calls(block, (i32)(at.offset + begin - done), tile.width, job.big_endian, job.spec.n_alleles);
                const u32 some = (calls.het | calls.alt | calls.haploid | calls.missing | calls.bad) & valid;
                if (some == 0) continue;
#pragma unroll
                for (int s = 0; s < S; ++s) {
                    const u32* mask = vcz_class_mask(job, set + s);
                    const u32 in = valid & vcz_spread(vcz_mask_bits(mask, tile.sample0 + begin / 2));
                    counts.het[s] += __popc(calls.het & in);
                    counts.alt[s] += __popc(calls.alt & in);
                    counts.haploid[s] += __popc(calls.haploid & in);
                    counts.missing[s] += __popc(calls.missing & in);
                    bad |= (calls.bad & in) != 0;
                }
            }
        } else {
            // The samples whose copies start in this block; their last copies may be in the next one.
            const u32 last = (end + tile.copies - 1) / tile.copies;
            for (u32 sample = (done + tile.copies - 1) / tile.copies + vcz_lane(); sample < last; sample += 32) {
                VczPlace first;
                first.block = at.block;
                first.offset = at.offset + (sample * tile.copies - done);
                bad |= vcz_count_call<S>(job, set, sample, first, counts);
            }
        }
        done = end;
        at.block += 1;
        at.offset = 0;
    }
    return bad;
}

// Counts a row for S sets from `set` on and writes the counts.
template <int S>
VCZ_DEVICE void vcz_finish_classes(const VczClassJob& job, u32 set, u32 row, VczPlace at, u32* status) {
    VczClasses<S> counts = {};
    const bool bad = vcz_class_row<S>(job, set, at, counts);
    vcz_report(&status[job.tile.status], bad, VCZ_BAD_CODE);
    const bool shared = (job.tile.flags & VCZ_SHARED) != 0;
    const u64 before = (u64)job.spec.allele_sets * job.tile.out_rows * job.spec.n_alleles;
    const u32 bytes = job.spec.count_bytes;
#pragma unroll
    for (int s = 0; s < S; ++s) {
        const u64 first = before + ((u64)(set + s) * job.tile.out_rows + job.tile.row0 + row) * VCZ_CLASSES;
        const u32 size = vcz_samples_of(job, set + s);
        const u32 others = counts.het[s] + counts.alt[s] + counts.haploid[s] + counts.missing[s];
        vcz_put_sum(job.tile.out, first + VCZ_HOM_REF, (vcz_lane() == 0 ? size : 0) - others, bytes, shared);
        vcz_put_sum(job.tile.out, first + VCZ_HET, counts.het[s], bytes, shared);
        vcz_put_sum(job.tile.out, first + VCZ_HOM_ALT, counts.alt[s], bytes, shared);
        vcz_put_sum(job.tile.out, first + VCZ_HAPLOID, counts.haploid[s], bytes, shared);
        vcz_put_sum(job.tile.out, first + VCZ_MISSING, counts.missing[s], bytes, shared);
    }
}

extern "C" __global__ void __launch_bounds__(VCZ_THREADS)
    vcz_count_genotypes(const VczTile* __restrict__ tiles, u32 n_tiles, u32 tile_groups, u32* status) {
    __shared__ VczClassJob job;
    if (blockIdx.x / tile_groups >= n_tiles) return;
    if (threadIdx.x == 0) {
        job.tile = tiles[blockIdx.x / tile_groups];
        job.spec = *(const VczCountSpec*)job.tile.spec;
        job.masks = (const u32*)job.spec.masks + (u64)(1 + job.spec.allele_sets) * job.spec.mask_words;
        job.big_endian = (job.tile.flags & VCZ_BIG_ENDIAN) != 0;
    }
    __syncthreads();
    const u32 sets = job.spec.genotype_sets;
    for (u32 set = vcz_warp(); set < vcz_min(sets, VCZ_CLASS_SIZES); set += VCZ_WARPS) {
        const u32 size = vcz_mask_size(vcz_class_mask(job, set), job.tile.sample0, job.tile.samples);
        if (vcz_lane() == 0) job.size[set] = size;
    }
    __syncthreads();
    const u32 warp = (blockIdx.x % tile_groups) * VCZ_WARPS + vcz_warp();
    const u32 warps = tile_groups * VCZ_WARPS;
    VczRowWalk walk(job.tile, warp, warps);
    for (u32 row = warp; row < job.tile.rows; row += warps, walk.next()) {
        for (u32 set = 0; set < sets; set += 2) {
            if (set + 2 <= sets) {
                vcz_finish_classes<2>(job, set, row, walk.at, status);
            } else {
                vcz_finish_classes<1>(job, set, row, walk.at, status);
            }
        }
    }
}
