// Gathers the elements of the wanted samples, un-shuffled, as native little-endian numbers, for queries that select columns.
//
// A warp writes a row's part of the output, which is one run of bytes. For a whole row of one-byte elements, 8 elements are made
// from 8 bit-planes at a time, or plain bytes are copied; otherwise each lane fetches one element at a time.
#include "vcz.cuh"

// Un-shuffles 8 one-byte elements: byte p of (low, high) holds their bits p; returns element i in byte i.
VCZ_DEVICE uint2 vcz_transpose_8(u32 low, u32 high) {
    u32 t;
    // Within each half: 2x2 bits, then 2x2 blocks of 2 bits, of 4 rows of 8 bits.
    t = (low ^ (low >> 7)) & 0x00aa00aa;
    low ^= t ^ (t << 7);
    t = (high ^ (high >> 7)) & 0x00aa00aa;
    high ^= t ^ (t << 7);
    t = (low ^ (low >> 14)) & 0x0000cccc;
    low ^= t ^ (t << 14);
    t = (high ^ (high >> 14)) & 0x0000cccc;
    high ^= t ^ (t << 14);
    // Then the halves: rows 0 to 3 keep their low nibbles and get those of rows 4 to 7.
    uint2 out;
    out.x = (low & 0x0f0f0f0f) | ((high & 0x0f0f0f0f) << 4);
    out.y = ((low >> 4) & 0x0f0f0f0f) | (high & 0xf0f0f0f0);
    return out;
}

// Writes elements `begin..end` of a block of one-byte elements that is bit-shuffled, to `out` (element `begin` first).
VCZ_DEVICE void vcz_unshuffle_run(u64 out, const VczBlock& block, u32 begin, u32 end) {
    const u64 stride = block.elements / 8;
    const u32 planes = vcz_min(block.planes, 8);
    // Groups of 8 whose target is aligned; the first and the last may be partial.
    const u32 before = (u32)(out & 7);
    const u32 groups = (end - begin + before + 7) / 8;
    for (u32 group = vcz_lane(); group < groups; group += 32) {
        const i32 first = (i32)(begin - before + 8 * group);
        u32 low = 0, high = 0, x = 0;
#pragma unroll
        for (u32 plane = 0; plane < 8; ++plane) {
            if (plane < planes) {
                x = vcz_plane_bits(block.data + plane * stride, first) & 0xff;
            } else if (!vcz_repeats(block)) {
                break;
            }
            if (plane < 4) {
                low |= x << (8 * plane);
            } else {
                high |= x << (8 * (plane - 4));
            }
        }
        const uint2 elements = vcz_transpose_8(low, high);
        const u64 target = out - before + 8 * group;
        if (first >= (i32)begin && first + 8 <= (i32)end) {
            *(uint2*)target = elements;
        } else {
            for (i32 i = 0; i < 8; ++i) {
                if (first + i < (i32)begin || first + i >= (i32)end) continue;
                *(u8*)(target + i) = (u8)((i < 4 ? elements.x >> (8 * i) : elements.y >> (8 * (i - 4))) & 0xff);
            }
        }
    }
}

// Copies `len` bytes, four at a time where the target is aligned; source words are read whole.
VCZ_DEVICE void vcz_copy_run(u64 out, u64 from, u32 len) {
    const u32 before = (u32)(out & 3);
    const u32 groups = (len + before + 3) / 4;
    for (u32 group = vcz_lane(); group < groups; group += 32) {
        const i32 first = (i32)(4 * group) - (i32)before;
        if (first >= 0 && first + 4 <= (i32)len) {
            *(u32*)(out + first) = vcz_load_4(from + first);
        } else {
            for (i32 i = first < 0 ? 0 : first; i < first + 4 && i < (i32)len; ++i) {
                *(u8*)(out + i) = __ldg(vcz_bytes(from + i));
            }
        }
    }
}

VCZ_DEVICE void vcz_zero_run(u64 out, u64 len) {
    for (u64 i = vcz_lane(); i < len; i += 32) *(u8*)(out + i) = 0;
}

// Writes a row of which every element of every sample is wanted, in runs of blocks.
VCZ_DEVICE void vcz_gather_run(const VczTile& tile, VczPlace at, u64 out) {
    const u32 copies = tile.samples * tile.copies;
    const bool big_endian = tile.width > 1 && (tile.flags & VCZ_BIG_ENDIAN) != 0;
    for (u32 done = 0; done < copies;) {
        const VczBlock block = vcz_block(tile, at.block);
        if (at.offset >= block.elements) break;  // no such element: the tile is inconsistent
        const u32 taken = vcz_min(copies - done, block.elements - at.offset);
        const u64 target = out + (u64)done * tile.width;
        if (block.planes == 0) {
            vcz_zero_run(target, (u64)taken * tile.width);
        } else if (block.kind == VCZ_BIT_SHUFFLED && tile.width == 1) {
            vcz_unshuffle_run(target, block, at.offset, at.offset + taken);
        } else if ((block.kind == VCZ_PLAIN && !big_endian) || tile.width == 1) {
            vcz_copy_run(target, block.data + (u64)at.offset * tile.width, taken * tile.width);
        } else {
            for (u32 i = vcz_lane(); i < taken; i += 32) {
                vcz_store(target + (u64)i * tile.width, vcz_element(block, at.offset + i, tile.width, big_endian), tile.width);
            }
        }
        done += taken;
        at.block += 1;
        at.offset = 0;
    }
}

// Writes a row of which some elements are wanted.
VCZ_DEVICE void vcz_gather_some(const VczTile& tile, const u32* __restrict__ samples, u32 inner, VczPlace at, u64 out) {
    const bool big_endian = tile.width > 1 && (tile.flags & VCZ_BIG_ENDIAN) != 0;
    VczBlock block = vcz_block(tile, at.block);
    u32 held = at.block;
    const u32 wanted = tile.sel_count * inner;  // at most the elements of a row
    for (u32 i = vcz_lane(); i < wanted; i += 32) {
        const u32 place = i / inner;
        const u32 copy = i - place * inner;
        const VczPlace from = vcz_after(at, (__ldg(samples + place) - tile.sample0) * tile.copies + copy, tile.block_elements);
        if (from.block != held) {
            held = from.block;
            block = vcz_block(tile, held);
        }
        if (from.offset >= block.elements) continue;  // no such element: the tile is inconsistent
        vcz_store(out + (u64)i * tile.width, vcz_element(block, from.offset, tile.width, big_endian), tile.width);
    }
}

extern "C" __global__ void __launch_bounds__(VCZ_THREADS)
    vcz_gather(const VczTile* __restrict__ tiles, u32 n_tiles, u32 tile_groups, u32* status) {
    (void)status;
    __shared__ VczTile tile;
    __shared__ VczGatherSpec spec;
    if (blockIdx.x / tile_groups >= n_tiles) return;
    if (threadIdx.x == 0) {
        tile = tiles[blockIdx.x / tile_groups];
        spec = *(const VczGatherSpec*)tile.spec;
    }
    __syncthreads();
    const u32 warp = (blockIdx.x % tile_groups) * VCZ_WARPS + threadIdx.x / 32;
    const u32 warps = tile_groups * VCZ_WARPS;
    const u32* samples = (const u32*)spec.samples + tile.sel_begin;
    // Indices are ascending and unique: if there are as many as samples, all are selected.
    const bool all = tile.sel_count == tile.samples && spec.inner == tile.copies;
    VczRowWalk walk(tile, warp, warps);
    for (u32 row = warp; row < tile.rows; row += warps, walk.next()) {
        const u64 first = ((u64)(tile.row0 + row) * spec.n_samples + tile.sel_begin) * spec.inner;
        const u64 out = tile.out + first * tile.width;
        if (all) {
            vcz_gather_run(tile, walk.at, out);
        } else {
            vcz_gather_some(tile, samples, spec.inner, walk.at, out);
        }
    }
}
