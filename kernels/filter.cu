// Filters of calls: tests the values of FORMAT fields, and writes genotypes in which calls that fail are missing.
//
// Genotypes and fields of a tile have the same rows and samples, so call c of the tile is its elements from c * copies on, whatever the
// rows. Which calls pass is a bit for each. Genotypes are copied block by block, so that the other kernels read the copies as they would
// read what was decoded: a block that is bit-shuffled stays so, with as many planes as its codes and -1 need.
#include "vcz.cuh"

// Whether a value passes, given its bits as a number.
VCZ_DEVICE bool vcz_passes(const VczCallFilter& filter, u64 bits) {
    if ((filter.flags & VCZ_HAS_NULLS) != 0 && (bits == filter.missing || bits == filter.fill)) return false;
    const u32 unused = 64 - 8 * filter.width;
    i64 key = (i64)(bits << unused) >> unused;
    if (filter.order == VCZ_UNSIGNED) key = (i64)(bits ^ (u64)1 << 63);
    if (filter.order == VCZ_FLOAT) {
        const u64 sign = (u64)1 << (63 - unused);
        key = (i64)(bits & ~sign);
        if ((bits & sign) != 0) key = -key;
    }
    return filter.low <= key && key <= filter.high;
}

// A warp tests 32 calls at a time, those of a word.
extern "C" __global__ void __launch_bounds__(VCZ_THREADS)
    vcz_test_calls(const VczCallTile* __restrict__ tiles, u32 n_tiles, u32 tile_groups, u32* status) {
    (void)status;
    if (blockIdx.x / tile_groups >= n_tiles) return;
    const VczCallTile tile = tiles[blockIdx.x / tile_groups];
    const u32 warp = (blockIdx.x % tile_groups) * VCZ_WARPS + vcz_warp();
    const u32 warps = tile_groups * VCZ_WARPS;
    const u32 words = tile.calls / 32 + (tile.calls % 32 != 0 ? 1 : 0);
    u32* passes = (u32*)tile.passes;
    for (u32 i = 0; i < tile.n_filters; ++i) {
        const VczCallFilter filter = ((const VczCallFilter*)tile.filters)[i];
        const bool big_endian = filter.width > 1 && (filter.flags & VCZ_FIELD_BIG_ENDIAN) != 0;
        u32 held = 0;
        VczBlock block = vcz_block_of(filter.blocks, 0);
        for (u32 word = warp; word < words; word += warps) {
            const u32 call = 32 * word + vcz_lane();
            bool pass = false;
            if (call < tile.calls) {
                const u32 element = call * filter.per_call + filter.at;  // below the elements of the tile
                const u32 index = element / filter.block_elements;
                const u32 offset = element - index * filter.block_elements;
                if (index != held) {
                    held = index;
                    block = vcz_block_of(filter.blocks, index);
                }
                // Else there is no such element: the tile is inconsistent.
                if (offset < block.elements) pass = vcz_passes(filter, vcz_element(block, offset, filter.width, big_endian));
            }
            const u32 bits = __ballot_sync(VCZ_ALL_LANES, pass);
            if (vcz_lane() == 0) passes[word] = i == 0 ? bits : passes[word] & bits;
        }
    }
}

// Bits of the tile's elements from `first` on, of which there are `n`, at most 32: 1 if the element's call fails.
VCZ_DEVICE u32 vcz_failed(const u32* __restrict__ passes, u32 first, u32 n, u32 copies) {
    const u32 call = first / copies;
    if (copies == 1) return ~vcz_mask_bits(passes, call);
    if (copies == 2 && first % 2 == 0) {
        const u32 failed = vcz_spread(~vcz_mask_bits(passes, call));
        return failed | failed << 1;
    }
    u32 failed = 0, at = call, copy = first - call * copies;
    for (u32 i = 0; i < n; ++i) {
        if (((__ldg(passes + at / 32) >> (at % 32)) & 1) == 0) failed |= 1u << i;
        copy += 1;
        if (copy == copies) {
            copy = 0;
            at += 1;
        }
    }
    return failed;
}

// Writes 32 elements of every plane of a bit-shuffled block, `group` of them.
VCZ_DEVICE void vcz_mask_planes(const VczMaskedBlock& masked, u32 group) {
    const VczBlock& from = masked.from;
    const u32 width = masked.width, sign = 8 * width - 1;
    const bool big_endian = width > 1 && (masked.flags & VCZ_BIG_ENDIAN) != 0;
    const u32 begin = 32 * group;
    const u32 n = vcz_min(32, from.elements - begin);
    u32 failed = vcz_failed((const u32*)masked.passes, masked.first + begin, n, masked.copies);
    if (failed != 0) {
        // Copies that do not exist, -2, stay.
        u32 absent = VCZ_ALL_LANES;
        for (u32 v = 0; v <= sign; ++v) {
            const u32 x = vcz_any_plane_bits(from, vcz_plane_of(v, width, big_endian), (i32)begin);
            absent &= v == 0 ? ~x : x;
        }
        failed &= ~absent;
    }
    const u64 stride = from.elements / 8;
    const u32 bytes = n / 8;
    for (u32 plane = 0; plane < masked.planes; ++plane) {
        const u32 x = vcz_any_plane_bits(from, plane, (i32)begin) | failed;
        const u64 to = masked.to + plane * stride + begin / 8;
        if (bytes == 4 && (to & 3) == 0) {
            *(u32*)to = x;
        } else {
            for (u32 i = 0; i < bytes; ++i) *(u8*)(to + i) = (u8)(x >> (8 * i));
        }
    }
}

// Writes element i of a block that is not bit-shuffled, in the byte order in which it is stored.
VCZ_DEVICE void vcz_mask_element(const VczMaskedBlock& masked, u32 i) {
    const VczBlock& from = masked.from;
    const u32 width = masked.width;
    const u32 call = (masked.first + i) / masked.copies;
    const u64 ones = ~(u64)0 >> (64 - 8 * width);
    const u64 lowest = width > 1 && (masked.flags & VCZ_BIG_ENDIAN) != 0 ? (u64)1 << (8 * (width - 1)) : 1;
    u64 x = vcz_element(from, i, width, false);
    const bool passes = ((__ldg((const u32*)masked.passes + call / 32) >> (call % 32)) & 1) != 0;
    if (!passes && x != (ones & ~lowest)) x = ones;
    if (from.kind == VCZ_PLAIN) {
        vcz_store(masked.to + (u64)i * width, x, width);
        return;
    }
    for (u32 j = 0; j < width; ++j) *(u8*)(masked.to + (u64)j * from.elements + i) = (u8)(x >> (8 * j));
}

// A warp writes 1024 elements of a block at a time.
extern "C" __global__ void __launch_bounds__(VCZ_THREADS)
    vcz_mask_calls(const VczMaskedBlock* __restrict__ blocks, u32 n_blocks, u32 block_groups, u32* status) {
    (void)status;
    if (blockIdx.x / block_groups >= n_blocks) return;
    const VczMaskedBlock masked = blocks[blockIdx.x / block_groups];
    const u32 elements = masked.from.elements;
    const u32 warp = (blockIdx.x % block_groups) * VCZ_WARPS + vcz_warp();
    const u32 warps = block_groups * VCZ_WARPS;
    for (u64 begin = (u64)1024 * warp; begin < elements; begin += (u64)1024 * warps) {
        if (masked.from.kind == VCZ_BIT_SHUFFLED) {
            const u32 group = (u32)(begin / 32) + vcz_lane();
            if ((u64)32 * group < elements) vcz_mask_planes(masked, group);
            continue;
        }
        const u32 end = (u32)(begin + 1024 < elements ? begin + 1024 : elements);
        for (u32 i = (u32)begin + vcz_lane(); i < end; i += 32) vcz_mask_element(masked, i);
    }
}
