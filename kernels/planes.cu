// Bit-planes of the genotypes of sample sets: for each plane one bit for each copy of the set, next to each other.
//
// A warp makes a row of a set in two passes: the first finds the planes that have a bit, the second writes them. Where the set is every
// stored copy of bit-shuffled blocks, words of 32 copies are copied from the planes; else each lane reads the code of one copy, and the
// lanes' bits make a word. The output was zeroed.
#include "vcz.cuh"

// The planes of a row: those of codes, then that of copies that are not called, then that of copies that do not exist (-2).
#define VCZ_OTHER_PLANES 2

// The tile of a CTA, and values derived from it once for all threads.
struct VczPlanesJob {
    VczTile tile;
    VczPlaneSet set;
    const u32* samples;  // of the set, in this tile
    u32* entries;        // of the set's rows
    u64 data;
    u64 resident;        // of the set's rows that stay on the device, or 0
    u32 n_alleles, ploidy;
    u32 code_planes;
    u32 copies;  // of the set in this tile
    bool big_endian, shared;
    bool all;    // the set is every stored copy of the tile
};

// Planes that codes below `n_alleles` have bits in, and at least one.
VCZ_DEVICE u32 vcz_code_planes(u32 n_alleles) { return n_alleles <= 2 ? 1 : 32 - __clz((i32)(n_alleles - 1)); }

// What a pass over a row finds: planes with a bit, as bits, and whether there is a code that no allele has; or, where it writes planes, the
// number of bits that the thread has written.
struct VczSeen {
    u32 planes, ones;
    bool bad;
};

// Of 32 codes of a bit-shuffled block, as bits: those that are negative, those that are -2, and those that are K or more.
struct VczSigns {
    u32 negative, absent, bad;
};

VCZ_DEVICE VczSigns vcz_signs(const VczBlock& block, i32 first, u32 width, bool big_endian, u32 n_alleles) {
    VczSigns signs;
    signs.negative = signs.absent = signs.bad = 0;
    const u32 sign = 8 * width - 1;
    // Usually there is no sign, and no code that the stored planes can form is bad.
    const bool plain = block.planes == 0 || (!vcz_repeats(block) && !(big_endian && width > 1) && block.planes <= sign);
    if (plain && (block.planes == 0 || (block.planes < 32 && (n_alleles >> block.planes) != 0))) return signs;
    u32 absent = VCZ_ALL_LANES, bad = VCZ_ALL_LANES;
    for (u32 v = 0; v <= sign; ++v) {
        const u32 x = vcz_any_plane_bits(block, vcz_plane_of(v, width, big_endian), first);
        absent &= v == 0 ? ~x : x;
        if (v == sign) {
            signs.negative = x;
            // With more alleles than codes, no code is invalid.
            bad = width < 4 && (n_alleles >> sign) != 0 ? 0 : bad & ~x;
        } else {
            bad = v < 32 && ((n_alleles >> v) & 1) != 0 ? bad & x : bad | x;
        }
    }
    signs.absent = absent;
    signs.bad = bad;
    return signs;
}

// 32 bits of plane `plane` of a row, whose codes are in a bit-shuffled block.
VCZ_DEVICE u32 vcz_row_plane(const VczPlanesJob& job, const VczBlock& block, const VczSigns& signs, u32 plane, i32 first) {
    if (plane == job.code_planes) return signs.negative & ~signs.absent;
    if (plane > job.code_planes) return signs.absent;
    if (block.planes == 0 || plane >= 8 * job.tile.width - 1) return 0;
    return vcz_any_plane_bits(block, vcz_plane_of(plane, job.tile.width, job.big_endian), first) & ~signs.negative;
}

// The planes with a bit of a row of which every copy is wanted; or, with WRITE, writes planes `stored` to `out`.
template <bool WRITE>
VCZ_DEVICE VczSeen vcz_planes_run(const VczPlanesJob& job, VczPlace at, u32 stored, u32* out) {
    const VczTile& tile = job.tile;
    const u32 copies = job.copies, planes = job.code_planes + VCZ_OTHER_PLANES;
    VczSeen seen = {0, 0, false};
    for (u32 done = 0; done < copies;) {
        const VczBlock block = vcz_block(tile, at.block);
        if (at.offset >= block.elements) break;  // no such element: the tile is inconsistent
        const u32 end = done + vcz_min(copies - done, block.elements - at.offset);
        for (u32 group = done / 32 + vcz_lane(); block.planes != 0 && group <= (end - 1) / 32; group += 32) {
            const u32 begin = 32 * group;
            u32 valid = VCZ_ALL_LANES;
            if (begin < done) valid <<= done - begin;
            if (end - begin < 32) valid &= ~(VCZ_ALL_LANES << (end - begin));
            // Negative for the group that straddles the start of the block.
            const i32 first = (i32)(at.offset + begin - done);
            const VczSigns signs = vcz_signs(block, first, tile.width, job.big_endian, job.n_alleles);
            if (!WRITE) {
                seen.bad |= (signs.bad & valid) != 0;
                for (u32 plane = 0; plane < planes; ++plane) {
                    if ((vcz_row_plane(job, block, signs, plane, first) & valid) != 0) seen.planes |= 1u << plane;
                }
                continue;
            }
            // Another block has the other copies of this word.
            const bool part = begin < done || (end < copies && end - begin < 32);
            u32* to = out + group;
            for (u32 plane = 0, left = stored; left != 0; ++plane, left >>= 1) {
                if ((left & 1) == 0) continue;
                const u32 x = vcz_row_plane(job, block, signs, plane, first) & valid;
                seen.ones += __popc(x);
                if (!part) {
                    *to = x;
                } else if (x != 0) {
                    atomicOr(to, x);
                }
                to += 2 * job.set.width;
            }
        }
        done = end;
        at.block += 1;
        at.offset = 0;
    }
    return seen;
}

// Element i of a bit-shuffled block of one-byte codes.
VCZ_DEVICE i32 vcz_byte_of_planes(const VczBlock& block, u32 i) {
    const u64 stride = block.elements / 8;
    const u8* at = vcz_bytes(block.data) + i / 8;
    u32 x = 0, bit = 0;
    for (u32 plane = 0; plane < block.planes; ++plane) {
        bit = ((u32)__ldg(at + plane * stride) >> (i % 8)) & 1;
        x |= bit << plane;
    }
    if (vcz_repeats(block) && bit != 0) x |= VCZ_ALL_LANES << block.planes;
    return (i32)(x << 24) >> 24;
}

// The same of a row of any blocks, of which some copies are wanted.
template <bool WRITE>
VCZ_DEVICE VczSeen vcz_planes_some(const VczPlanesJob& job, VczPlace at, u32 stored, u32* out) {
    const VczTile& tile = job.tile;
    const u32 code_planes = job.code_planes;
    VczSeen seen = {0, 0, false};
    VczBlock block = vcz_block(tile, at.block);
    u32 held = at.block;
    const u64 end = (u64)at.offset + tile.samples * tile.copies;
    const bool bytes = tile.width == 1 && block.kind == VCZ_BIT_SHUFFLED && block.planes <= 8 && end <= block.elements;
    // Whether the only plane is that of codes 0 and 1; one set bit then decides.
    const bool one = bytes && block.planes == 1 && !vcz_repeats(block) && job.n_alleles > 1;
    for (u32 begin = 0; begin < job.copies; begin += 32) {
        const u32 i = begin + vcz_lane();
        i64 code = 0;
        if (i < job.copies) {
            const u32 place = job.ploidy == 2 ? i / 2 : i / job.ploidy;
            const u32 copy = i - place * job.ploidy;
            const u32 element = (__ldg(job.samples + place) - tile.sample0) * tile.copies + copy;
            if (bytes) {
                code = vcz_byte_of_planes(block, at.offset + element);
            } else {
                const VczPlace from = vcz_after(at, element, tile.block_elements);
                if (from.block != held) {
                    held = from.block;
                    block = vcz_block(tile, held);
                }
                // Else there is no such element: the tile is inconsistent.
                if (from.offset < block.elements) code = vcz_code(block, from.offset, tile.width, job.big_endian);
            }
        }
        if (!WRITE) {
            seen.bad |= code >= (i64)job.n_alleles;
            const u32 low = (u32)code & ((1u << code_planes) - 1);
            seen.planes |= code >= 0 ? low : code == -2 ? 2u << code_planes : 1u << code_planes;
            if (one && __any_sync(VCZ_ALL_LANES, seen.planes != 0)) break;
            continue;
        }
        // Copies before this tile's are in the first bits of the row.
        const u32 bit = tile.sel_begin * job.ploidy + begin, shift = bit % 32;
        u32* to = out + bit / 32;
        for (u32 plane = 0, left = stored; left != 0; ++plane, left >>= 1) {
            if ((left & 1) == 0) continue;
            const bool has = plane < code_planes    ? code >= 0 && ((code >> plane) & 1) != 0
                             : plane == code_planes ? code < 0 && code != -2
                                                    : code == -2;
            const u32 x = __ballot_sync(VCZ_ALL_LANES, has);
            if (vcz_lane() == 0 && x != 0) {
                seen.ones += __popc(x);
                if (!job.shared) {
                    *to = x;
                } else {
                    atomicOr(to, x << shift);
                    if (shift != 0 && x >> (32 - shift) != 0) atomicOr(to + 1, x >> (32 - shift));
                }
            }
            to += 2 * job.set.width;
        }
    }
    return seen;
}

// Whether a row lies in bit-shuffled blocks only.
VCZ_DEVICE bool vcz_is_shuffled(const VczPlanesJob& job, VczPlace at) {
    for (u32 done = 0; done < job.copies;) {
        const VczBlock block = vcz_block(job.tile, at.block);
        if (at.offset >= block.elements) break;
        if (block.planes != 0 && block.kind != VCZ_BIT_SHUFFLED) return false;
        done += vcz_min(job.copies - done, block.elements - at.offset);
        at.block += 1;
        at.offset = 0;
    }
    return true;
}

VCZ_DEVICE void vcz_planes_row(const VczPlanesJob& job, u32 row, VczPlace at, u32* status) {
    const u32 planes = job.code_planes + VCZ_OTHER_PLANES;
    const bool run = job.all && !job.shared && vcz_is_shuffled(job, at);
    const VczSeen seen = run ? vcz_planes_run<false>(job, at, 0, 0) : vcz_planes_some<false>(job, at, 0, 0);
    vcz_report(&status[job.tile.status], seen.bad, VCZ_BAD_CODE);
    u32 stored = seen.planes & ((1u << planes) - 1);
    for (u32 step = 16; step > 0; step >>= 1) stored |= __shfl_sync(VCZ_ALL_LANES, stored, vcz_lane() ^ step);
    // Of such a row, pairs can be counted where it is.
    const bool resident = job.resident != 0 && stored == 1;
    u32 place = 0;
    if (job.shared) {
        // Other tiles have other planes with a bit.
        stored = (1u << planes) - 1;
        place = (u32)(job.set.before * job.tile.out_rows) + row * planes * job.set.width;
    } else if (resident) {
        place = row * job.set.width;
    } else if (stored != 0) {
        const u32 words = (u32)__popc(stored) * job.set.width;
        if (vcz_lane() == 0) place = atomicAdd(&status[job.tile.used], words);
        place = __shfl_sync(VCZ_ALL_LANES, place, 0);
        const bool full = place + words > job.tile.room;
        vcz_report(&status[job.tile.status], full, VCZ_FULL);
        if (full) stored = 0;
    }
    u32* const out = (u32*)(resident ? job.resident : job.data) + 2 * (u64)place;
    u32 ones = 0;
    if (stored != 0) ones = (run ? vcz_planes_run<true>(job, at, stored, out) : vcz_planes_some<true>(job, at, stored, out)).ones;
    if (resident) {
        for (u32 step = 16; step > 0; step >>= 1) ones += __shfl_sync(VCZ_ALL_LANES, ones, vcz_lane() ^ step);
        stored |= VCZ_RESIDENT | ones << VCZ_RESIDENT_ONES;
    }
    if (vcz_lane() == 0) {
        job.entries[2 * (u64)row] = stored;
        job.entries[2 * (u64)row + 1] = place;
    }
}

extern "C" __global__ void __launch_bounds__(VCZ_THREADS, 4)
    vcz_gather_planes(const VczTile* __restrict__ tiles, u32 n_tiles, u32 tile_groups, u32* status) {
    __shared__ VczPlanesJob job;
    if (blockIdx.x / tile_groups >= n_tiles) return;
    if (threadIdx.x == 0) {
        job.tile = tiles[blockIdx.x / tile_groups];
        const VczTile& tile = job.tile;
        const VczCountSpec spec = *(const VczCountSpec*)tile.spec;
        job.set = ((const VczPlaneSet*)spec.planes)[tile.set];
        job.samples = (const u32*)job.set.samples + tile.sel_begin;
        const u64 width = (u64)spec.allele_sets * spec.n_alleles + (u64)spec.genotype_sets * VCZ_CLASSES +
                          2 * (u64)spec.zygosity_sets * spec.n_alleles;
        const u64 entries = tile.out + (spec.count_bytes * width * tile.out_rows + 7) / 8 * 8;
        job.entries = (u32*)(entries + 8 * (u64)tile.set * tile.out_rows);
        job.data = entries + 8 * (u64)spec.plane_sets * tile.out_rows;
        job.n_alleles = spec.n_alleles;
        job.ploidy = spec.ploidy;
        job.code_planes = vcz_code_planes(spec.n_alleles);
        const u64 before = job.set.before / (job.code_planes + VCZ_OTHER_PLANES) * tile.out_rows;
        job.resident = tile.resident == 0 ? 0 : tile.resident + 8 * before;
        job.copies = tile.sel_count * spec.ploidy;
        job.big_endian = tile.width > 1 && (tile.flags & VCZ_BIG_ENDIAN) != 0;
        job.shared = (tile.flags & VCZ_SHARED) != 0;
        // Indices are ascending and unique: if there are as many as samples, all are selected.
        job.all = tile.sel_count == tile.samples && spec.ploidy == tile.copies;
    }
    __syncthreads();
    const u32 warp = (blockIdx.x % tile_groups) * VCZ_WARPS + vcz_warp();
    const u32 warps = tile_groups * VCZ_WARPS;
    VczRowWalk walk(job.tile, warp, warps);
    for (u32 row = warp; row < job.tile.rows; row += warps, walk.next()) {
        vcz_planes_row(job, job.tile.row0 + row, walk.at, status);
    }
}
