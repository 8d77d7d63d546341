// The interface of host and kernels (the structs below, their layout and meaning), and functions that several kernels share:
// reading codes from decoded blocks in any layout, and sums over a warp.
//
// A *tile* is one decoded chunk, or a part of one: rows (variants) of elements (the copies of every sample), stored in blocks
// that were decoded one by one. Rows straddle blocks, and have fewer than 2^31 bytes. Tables of structs are aligned to 8 bytes.
// Every kernel for tiles is launched with CTAs of 256 threads, `tile_groups` of them per tile: blockIdx.x = tile * tile_groups + group.
//
// NVRTC compiles these files without any other header. g++ compiles them after tests/kernels/emulate.h, to test them on machines
// without a device.
#ifndef VCZ_CUH
#define VCZ_CUH

typedef unsigned char u8;
typedef unsigned short u16;
typedef short i16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;

// Elements one after the other.
#define VCZ_PLAIN 0
// Byte j of element i at data[j * elements + i].
#define VCZ_BYTE_SHUFFLED 1
// Bit b of byte j of every element, in order, at data + (8 * j + b) * (elements / 8): bit-planes. `elements` is a multiple of 8.
#define VCZ_BIT_SHUFFLED 2

// Elements are big-endian: byte 0 is the most significant.
#define VCZ_BIG_ENDIAN 1
// Other tiles count the same rows (of other samples): add to the output, which was zeroed, instead of storing.
#define VCZ_SHARED 2

// For a bit-shuffled block with at least one plane: planes that are not stored equal the last one that is. Slow for elements that are not
// of one byte.
#define VCZ_REPEATS 1

// Bits of the status word of a tile, frame or check.
#define VCZ_BAD_CODE 1
#define VCZ_BAD_FRAME 2
#define VCZ_BAD_SUM 4
#define VCZ_FULL 8

// In an entry of planes: the row stays on the device, and where the number of its bits begins.
#define VCZ_RESIDENT 0x80
#define VCZ_RESIDENT_ONES 8

#define VCZ_THREADS 256
#define VCZ_WARPS 8
#define VCZ_CLASSES 5

// One decoded block. Its bytes may have any alignment; aligned 4-byte words that hold one of its bytes are read whole, and up
// to 16 bytes past its end.
struct VczBlock {
    u64 data;
    u32 elements;  // below 2^31
    u32 kind;      // VCZ_PLAIN ...
    u32 planes;    // bit-shuffled: stored planes, from the first; the others are zero. Else: 0 if all bytes are zero and not stored.
    u32 flags;     // VCZ_REPEATS
};

struct VczTile {
    u64 out;             // i32 counts, or the gathered elements: of all rows and samples of the output, aligned to 8 bytes
    u64 blocks;          // VczBlock*, the tile's
    u64 spec;            // VczCountSpec* or VczGatherSpec*
    u64 resident;        // planes: 0, or memory of zeros for rows that stay on the device, see VczCountSpec
    u32 block_elements;  // elements of every block but the last; not 0
    u32 rows;            // rows that exist
    u32 row0;            // the first row's index in the output
    u32 row_elements;    // elements from one row to the next
    u32 sample0;         // the tile's first sample, counted as masks and selections do
    u32 samples;         // samples that exist
    u32 copies;          // elements of a sample; those past the ploidy are padding
    u32 width;           // bytes of an element: 1, 2, 4, 8
    u32 flags;           // VCZ_BIG_ENDIAN, VCZ_SHARED
    u32 status;          // index of the status word
    u32 out_rows;        // rows of the output
    u32 sel_begin;       // gather, planes: the part of the selection, or of the set, in this tile
    u32 sel_count;
    u32 set;             // planes: which set
    u32 used;            // planes: index, among the status words, of the words that rows have taken
    u32 room;            // planes: words that rows may take
};

// Sample sets as bit masks. First 1 + allele_sets masks of mask_words words over stored elements (bit sample * copies + copy;
// 0 for padding copies), the first of them the union of every wanted set; then genotype_sets + zygosity_sets masks of sample_words
// words over samples. Two words that may be read follow after the last.
//
// Counts, of `count_bytes` bytes each, go to out[set][row][allele] for all allele sets, then to [set][row][class] for all genotype sets,
// then for all zygosity sets to [set][row][2 * n_alleles]: complete diploids that are homozygous for each allele, then the heterozygous
// ones that carry it. Tiles that share rows have counts of four bytes.
//
// Then, at a multiple of 8 bytes, for all plane sets to [set][row] the planes that are stored, as bits, and the place of the first among
// 64-bit words that follow after these entries. All stored planes of a row lie one after the other, from the lowest on. Tiles that share
// rows store every plane of a row, at row * planes * width after the rows of the sets before; others those with a bit, and take words
// from a counter.
//
// `sparse` is 0, or the allele sets once more, for a lane to count a set by the words that have a bit of it. With G groups of 32 sets:
// G + 1 words, where each group's steps start and the last one's end; 32 G words, the copies of each set; a word of padding if that
// makes an odd number; then the steps, of 32 entries each, one for each set of the group. An entry is the index of a word of the mask,
// and that word, which is 0 once the set has no more of them.
struct VczCountSpec {
    u64 masks;
    u64 planes;  // VczPlaneSet*
    u64 sparse;
    u32 mask_words;
    u32 allele_sets;
    u32 genotype_sets;
    u32 zygosity_sets;
    u32 sample_words;
    u32 n_alleles;
    u32 ploidy;
    u32 plane_sets;
    u32 count_bytes;  // 1, 2, 4
    u32 pad;
};

// A set whose genotypes are kept as bit-planes.
struct VczPlaneSet {
    u64 samples;    // u32 indices, ascending
    u64 before;     // 64-bit words that a row of the sets before has at most
    u32 n_samples;
    u32 width;      // 64-bit words of a plane
};

// Wanted samples. Elements go to out[row][selected sample][inner], little-endian.
struct VczGatherSpec {
    u64 samples;    // u32 indices, ascending
    u32 n_samples;  // number of selected samples
    u32 inner;      // elements wanted of each, at most `copies`
};

// How bits become an integer that is ordered as the values are: a signed number; one without sign, minus 2^63; the bits of a
// floating-point number without the sign, negative where the sign is set.
#define VCZ_SIGNED 0
#define VCZ_UNSIGNED 1
#define VCZ_FLOAT 2

// Flags of a filter: the field's elements are big-endian; `missing` and `fill` are set.
#define VCZ_FIELD_BIG_ENDIAN 1
#define VCZ_HAS_NULLS 2

// A filter of calls by values of a field, in a tile.
struct VczCallFilter {
    u64 blocks;          // VczBlock*, the field's
    i64 low;             // the smallest value that passes
    i64 high;            // the largest
    u64 missing;         // bits of values that never pass
    u64 fill;
    u32 block_elements;  // elements of every block but the last; not 0
    u32 per_call;        // elements of a call
    u32 at;              // which of them is tested
    u32 width;           // bytes of an element: 1, 2, 4, 8
    u32 order;           // VCZ_SIGNED ...
    u32 flags;           // VCZ_FIELD_BIG_ENDIAN, VCZ_HAS_NULLS
};

// The calls of a tile to test.
struct VczCallTile {
    u64 passes;     // u32 words, a bit for each call: 1 if it passes every filter. One word more may be read.
    u64 filters;    // VczCallFilter*
    u32 n_filters;  // at least 1
    u32 calls;      // calls of the tile, padding included
};

// A block of genotypes to copy, with -1 for each copy but -2 of a call that does not pass. The copy has the same kind and elements.
struct VczMaskedBlock {
    VczBlock from;
    u64 to;         // aligned to 16 bytes
    u64 passes;     // of the block's tile
    u32 first;      // the first element's index in the tile
    u32 copies;     // elements of a call
    u32 planes;     // bit-shuffled: planes to write, from the first
    u32 width;      // bytes of an element: 1, 2, 4, 8
    u32 flags;      // VCZ_BIG_ENDIAN
    u32 pad;
};

// A zstd frame to decode, whose content size is `dst_len`.
struct VczFrame {
    u64 src;
    u64 dst;
    u32 src_len;  // below 2^28
    u32 dst_len;  // below 2^31
    u32 status;
    u32 pad;
};

// Warps of a CTA that decode zstd frames, besides the one that reads for them; CTAs of a multiprocessor; bytes of the largest block of a
// frame, and of scratch memory that a warp has besides a block's literals.
#define VCZ_ZSTD_WARPS 7
#define VCZ_ZSTD_CTAS 4
#define VCZ_ZSTD_BLOCK (128 * 1024)
#define VCZ_ZSTD_HISTORY 1024

struct VczSegment {
    u64 src;  // 0: fill with zeros
    u64 dst;
    u64 len;
};

struct VczCheck {
    u64 data;
    u64 len;
    u32 expected;
    u32 kind;  // 0: Adler-32; 1: CRC-32; 2: one byte
    u32 status;
    u32 pad;
};

static_assert(sizeof(VczBlock) == 24, "layout of VczBlock");
static_assert(sizeof(VczTile) == 96, "layout of VczTile");
static_assert(sizeof(VczCountSpec) == 64, "layout of VczCountSpec");
static_assert(sizeof(VczPlaneSet) == 24, "layout of VczPlaneSet");
static_assert(sizeof(VczGatherSpec) == 16, "layout of VczGatherSpec");
static_assert(sizeof(VczCallFilter) == 64, "layout of VczCallFilter");
static_assert(sizeof(VczCallTile) == 24, "layout of VczCallTile");
static_assert(sizeof(VczMaskedBlock) == 64, "layout of VczMaskedBlock");
static_assert(sizeof(VczFrame) == 32, "layout of VczFrame");
static_assert(sizeof(VczSegment) == 24, "layout of VczSegment");
static_assert(sizeof(VczCheck) == 32, "layout of VczCheck");

#define VCZ_DEVICE static __device__ __forceinline__
#define VCZ_ALL_LANES 0xffffffffu

VCZ_DEVICE u32 vcz_min(u32 a, u32 b) { return a < b ? a : b; }

VCZ_DEVICE u32 vcz_lane() { return threadIdx.x & 31; }

// The warp of the CTA. From the shuffle the compiler knows that it is the same for all lanes; otherwise it has code for lanes that go
// different ways at every exchange.
VCZ_DEVICE u32 vcz_warp() { return __shfl_sync(VCZ_ALL_LANES, threadIdx.x / 32, 0); }

// The sum of every lane's x, in every lane.
VCZ_DEVICE i32 vcz_warp_sum(i32 x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    for (int step = 16; step > 0; step >>= 1) x += __shfl_xor_sync(VCZ_ALL_LANES, x, step);
    return x;
#else
    return __reduce_add_sync(VCZ_ALL_LANES, x);
#endif
}

// Sets `bits` in a status word if any lane requests it.
VCZ_DEVICE void vcz_report(u32* status, bool found, u32 bits) {
    if (__any_sync(VCZ_ALL_LANES, found) && vcz_lane() == 0) atomicOr(status, bits);
}

VCZ_DEVICE const u8* vcz_bytes(u64 address) { return (const u8*)address; }

// Block `index` of those at address `blocks`.
VCZ_DEVICE VczBlock vcz_block_of(u64 blocks, u32 index) {
    const u64* from = (const u64*)blocks + 3 * (u64)index;
    const u64 kind = __ldg(from + 1), planes = __ldg(from + 2);
    VczBlock block;
    block.data = __ldg(from);
    block.elements = (u32)kind;
    block.kind = (u32)(kind >> 32);
    block.planes = (u32)planes;
    block.flags = (u32)(planes >> 32);
    return block;
}

VCZ_DEVICE VczBlock vcz_block(const VczTile& tile, u32 index) { return vcz_block_of(tile.blocks, index); }

// The position of an element: its block, and its index in the block.
struct VczPlace {
    u32 block;
    u32 offset;
};

// The element `elements` after `at`.
VCZ_DEVICE VczPlace vcz_after(VczPlace at, u32 elements, u32 block_elements) {
    u64 offset = (u64)at.offset + elements;
    if (offset >= block_elements) {
        at.block += (u32)(offset / block_elements);
        offset %= block_elements;
    }
    at.offset = (u32)offset;
    return at;
}

// The positions of rows `first`, `first + step`, ..., without a division per row.
struct VczRowWalk {
    VczPlace at;
    u32 blocks, elements;  // from one of these rows to the next
    u32 block_elements;

    __device__ __forceinline__ VczRowWalk(const VczTile& tile, u32 first, u32 step) {
        block_elements = tile.block_elements;
        const u64 start = (u64)first * tile.row_elements, distance = (u64)step * tile.row_elements;
        at.block = (u32)(start / block_elements);
        at.offset = (u32)(start % block_elements);
        blocks = (u32)(distance / block_elements);
        elements = (u32)(distance % block_elements);
    }

    __device__ __forceinline__ void next() {
        at.block += blocks;
        at.offset += elements;
        if (at.offset >= block_elements) {
            at.offset -= block_elements;
            at.block += 1;
        }
    }
};

// 32 bits of a mask from bit `bit` on; the word after them is read too.
VCZ_DEVICE u32 vcz_mask_bits(const u32* __restrict__ mask, u32 bit) {
    const u32* word = mask + (bit >> 5);
    return __funnelshift_r(__ldg(word), __ldg(word + 1), bit & 31);
}

// The low 16 bits at the even places.
VCZ_DEVICE u32 vcz_spread(u32 x) {
    x &= 0xffff;
    x = (x | x << 8) & 0x00ff00ff;
    x = (x | x << 4) & 0x0f0f0f0f;
    x = (x | x << 2) & 0x33333333;
    return (x | x << 1) & 0x55555555;
}

// The number of ones among the `bits` bits of a mask from bit `bit` on, in every lane.
VCZ_DEVICE u32 vcz_mask_size(const u32* __restrict__ mask, u32 bit, u32 bits) {
    u32 n = 0;
    for (u32 first = 32 * vcz_lane(); first < bits; first += 32 * 32) {
        u32 x = vcz_mask_bits(mask, bit + first);
        if (bits - first < 32) x &= ~(VCZ_ALL_LANES << (bits - first));
        n += __popc(x);
    }
    return (u32)vcz_warp_sum((i32)n);
}

// 32 bits of a bit-plane that starts at byte address `plane`, from bit `bit` >= -31 on. Bits before the plane are undefined.
VCZ_DEVICE u32 vcz_plane_bits(u64 plane, i32 bit) {
    const i32 at = bit + 8 * (i32)(plane & 3);
    const u32* word = (const u32*)(plane & ~(u64)3) + (at >> 5);
    const u32 low = at < 0 ? 0 : __ldg(word);
    return __funnelshift_r(low, __ldg(word + 1), at & 31);
}

// The plane that holds bit `bit` (0 = least significant) of an element.
VCZ_DEVICE u32 vcz_plane_of(u32 bit, u32 width, bool big_endian) {
    return big_endian ? 8 * (width - 1 - bit / 8) + bit % 8 : bit;
}

// Whether planes of a bit-shuffled block that are not stored equal the last one that is.
VCZ_DEVICE bool vcz_repeats(const VczBlock& block) { return (block.flags & VCZ_REPEATS) != 0; }

// 32 bits of plane `plane` of a bit-shuffled block, stored or not; see vcz_plane_bits.
VCZ_DEVICE u32 vcz_any_plane_bits(const VczBlock& block, u32 plane, i32 bit) {
    if (plane >= block.planes) {
        if (!vcz_repeats(block)) return 0;
        plane = block.planes - 1;
    }
    return vcz_plane_bits(block.data + plane * (u64)(block.elements / 8), bit);
}

// Loads four bytes from any address.
VCZ_DEVICE u32 vcz_load_4(u64 address) {
    const u32* word = (const u32*)(address & ~(u64)3);
    const u32 shift = 8 * (u32)(address & 3);
    const u32 low = __ldg(word);
    return shift == 0 ? low : __funnelshift_r(low, __ldg(word + 1), shift);
}

// The bytes of element i of a block, as a little-endian number.
VCZ_DEVICE u64 vcz_element(const VczBlock& block, u32 i, u32 width, bool big_endian) {
    u64 x = 0;
    if (block.planes == 0) return x;
    if (block.kind == VCZ_BIT_SHUFFLED) {
        const u64 stride = block.elements / 8;
        const u8* at = vcz_bytes(block.data) + i / 8;
        const u32 planes = vcz_min(block.planes, 8 * width);
        const u32 end = vcz_repeats(block) ? 8 * width : planes;
        u64 bit = 0;
        for (u32 plane = 0; plane < end; ++plane) {
            if (plane < planes) bit = (__ldg(at + plane * stride) >> (i % 8)) & 1;
            x |= bit << vcz_plane_of(plane, width, big_endian);
        }
        return x;
    }
    const u64 step = block.kind == VCZ_PLAIN ? 1 : block.elements;
    const u8* at = vcz_bytes(block.data) + (block.kind == VCZ_PLAIN ? (u64)i * width : (u64)i);
    for (u32 j = 0; j < width; ++j) {
        const u64 byte = __ldg(at + j * step);
        x |= byte << (8 * (big_endian ? width - 1 - j : j));
    }
    return x;
}

// Writes an element, little-endian, to an address that is a multiple of its width.
VCZ_DEVICE void vcz_store(u64 out, u64 x, u32 width) {
    switch (width) {
        case 1: *(u8*)out = (u8)x; break;
        case 2: *(u16*)out = (u16)x; break;
        case 4: *(u32*)out = (u32)x; break;
        default: *(u64*)out = x; break;
    }
}

// Count `at` of an output is x; or x is added to it if other tiles add too, whose counts have four bytes.
VCZ_DEVICE void vcz_put_count(u64 out, u64 at, u32 x, u32 bytes, bool shared) {
    if (shared) {
        if (x != 0) atomicAdd((u32*)out + at, x);
    } else if (bytes == 1) {
        ((u8*)out)[at] = (u8)x;
    } else if (bytes == 2) {
        ((u16*)out)[at] = (u16)x;
    } else {
        ((u32*)out)[at] = x;
    }
}

// The same of the sum of every lane's x.
VCZ_DEVICE void vcz_put_sum(u64 out, u64 at, u32 x, u32 bytes, bool shared) {
    x = (u32)vcz_warp_sum((i32)x);
    if (vcz_lane() == 0) vcz_put_count(out, at, x, bytes, shared);
}

// Element i of a block as a genotype code.
VCZ_DEVICE i64 vcz_code(const VczBlock& block, u32 i, u32 width, bool big_endian) {
    const u32 unused = 64 - 8 * width;
    return (i64)(vcz_element(block, i, width, big_endian) << unused) >> unused;
}

#endif
