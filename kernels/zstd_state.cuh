// State of a warp that decodes a zstd frame: its tables, its communication with the reading warp, in shared memory; and bit streams.
#ifndef VCZ_ZSTD_STATE_CUH
#define VCZ_ZSTD_STATE_CUH
#include "vcz.cuh"

// Most bits of a Huffman code, and of a state of literal lengths, offsets and match lengths.
#define VCZ_ZSTD_HUFFMAN_LOG 11
#define VCZ_ZSTD_MAX_STATES 512
#define VCZ_ZSTD_MAX_SYMBOLS 64
#define VCZ_ZSTD_MAX_OFFSET_STATES 256
// Pieces of 16 bytes of a bit stream that are in shared memory while it is read, a power of two. Eight sequences have at most 712 bits.
#define VCZ_ZSTD_PIECES 8

// The table modes of a block.
#define VCZ_ZSTD_NONE 0
#define VCZ_ZSTD_ONE 1
#define VCZ_ZSTD_DESCRIBED 2

// A cell of a table:
//   bits 0-3    number of bits that are added to the next state
//   bits 4-9    code of the value
//   bits 10-18  next state, whose added bits are zeros here
//   bits 25-    VCZ_ZSTD_MOST minus the number of bits of value and state
// The last field of three cells is added without unpacking.
#define VCZ_ZSTD_MOST 42
static_assert(3 * VCZ_ZSTD_MOST < 128 && VCZ_ZSTD_MOST >= 31 + 8, "sums of three have seven bits, and no offset has more bits");
#define VCZ_ZSTD_BITS(cell) ((cell) & 15)
#define VCZ_ZSTD_CODE(cell) ((cell) >> 4 & 63)
#define VCZ_ZSTD_NEXT(cell) ((cell) >> 10 & 511)
#define VCZ_ZSTD_FEWER(cell) ((cell) >> 25)
#define VCZ_ZSTD_MORE(cell) (VCZ_ZSTD_MOST - VCZ_ZSTD_FEWER(cell) - VCZ_ZSTD_BITS(cell))
#define VCZ_ZSTD_CELL(more, next, bits, code) ((bits) | (code) << 4 | (next) << 10 | (VCZ_ZSTD_MOST - (more) - (bits)) << 25)

__constant__ i16 vcz_zstd_default_lengths[36] = {4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2,
                                                 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1};
__constant__ i16 vcz_zstd_default_offsets[29] = {1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1};
__constant__ i16 vcz_zstd_default_matches[53] = {1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                                 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1};
// Base values of the codes of literal lengths and match lengths.
__constant__ u32 vcz_zstd_lengths[36] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,   10,  11,  12,   13,   14,   15,   16,    18,
                                         20, 22, 24, 28, 32, 40, 48, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536};
__constant__ u32 vcz_zstd_matches[53] = {3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,  17,  18,  19,   20,
                                         21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34,  35,  37,  39,   41,
                                         43, 47, 51, 59, 67, 83, 99, 131, 259, 515, 1027, 2051, 4099, 8195, 16387, 32771, 65539};
// How many bits are added to them, from code 16 and from code 32 on.
__constant__ u8 vcz_zstd_length_bits[20] = {1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
__constant__ u8 vcz_zstd_match_bits[21] = {1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

// A reusable signal: one lane, or all lanes of a warp, raise it; waiting lanes see everything written before. A waiter must wait for each
// raise before the next.
template <u32 LANES>
struct VczSignal {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    u64 barrier;

    __device__ __forceinline__ void start() { asm volatile("mbarrier.init.b64 [%0], %1;" ::"l"(&barrier), "r"(LANES) : "memory"); }

    __device__ __forceinline__ void raise() {
        asm volatile("{ .reg .b64 state; mbarrier.arrive.b64 state, [%0]; }" ::"l"(&barrier) : "memory");
    }

    // Whether it was raised at least `n` times.
    __device__ __forceinline__ bool raised(u32 n) const {
        u32 is;
        asm volatile("{ .reg .pred is; mbarrier.test_wait.parity.b64 is, [%1], %2; selp.u32 %0, 1, 0, is; }"
                     : "=r"(is)
                     : "l"(&barrier), "r"((n - 1) & 1)
                     : "memory");
        return is != 0;
    }
#else
    volatile u32 times;

    __device__ __forceinline__ void start() { times = 0; }

    __device__ __forceinline__ void raise() {
        __threadfence_block();
        if (LANES > 1) __syncwarp();
        if (LANES == 1 || vcz_lane() == 0) times = times + 1;
    }

    __device__ __forceinline__ bool raised(u32 n) const {
        const bool is = times == n;
        __threadfence_block();
        return is;
    }
#endif
};

// The ring between the reading lane and the executing warp, in two halves of 32 sequences.
struct VczZstdRing {
    // The block's bit stream: its address, its length, its number of sequences (0: the warp has no more frames), and the logs of its
    // tables of literal lengths, offsets and match lengths.
    u64 src;
    u32 len, n;
    u32 logs[3];
    u32 fine[2];  // by half, whether the sequences are valid; if not, the rest of the stream is not read
    // Each half has a signal.
    VczSignal<32> started, emptied[2];
    VczSignal<1> filled[2];
};

// Shared memory of a warp, besides the cells of its tables.
struct VczZstdTables {
    union {
        // While tables are built.
        struct {
            u8 in_order[VCZ_ZSTD_MAX_STATES];  // each symbol repeated for its states; or the weights of Huffman codes
            u8 symbols[VCZ_ZSTD_MAX_STATES];   // of every state
        };
        // While sequences are read, in halves by turns: the cells of the offset, the match and the literals, and the bit of the stream
        // at which the bits of the three values start, downwards.
        uint4 read[2][32];
    };
    i16 probabilities[VCZ_ZSTD_MAX_SYMBOLS];
    u16 next[VCZ_ZSTD_MAX_SYMBOLS];      // next state number of each symbol
    VczZstdRing ring;
    // State from earlier blocks; see also VczZstdHistory.
    u32 weights;       // number of Huffman weights; 0: none yet
    u32 described[3];  // of literal lengths, offsets and match lengths: kind, log << 8, symbols (or the one symbol) << 16
    u32 recent[3];     // offsets
};

// Tables and stream pieces of all warps of a CTA, read by the reading warp. The whole is aligned to VCZ_ZSTD_CELLS_AT, so an element's
// address is the array's OR its offset.
struct VczZstdCells {
    u32 sequences[VCZ_ZSTD_WARPS][2][VCZ_ZSTD_MAX_STATES];  // of literal lengths and match lengths; before, of Huffman codes, two bytes each
    u32 offsets[VCZ_ZSTD_WARPS][VCZ_ZSTD_MAX_OFFSET_STATES];
    u32 streams[VCZ_ZSTD_WARPS][4 * VCZ_ZSTD_PIECES];       // the next pieces of the bit stream
};
#define VCZ_ZSTD_CELLS_AT (4 * VCZ_ZSTD_MAX_STATES)
static_assert(sizeof(VczZstdCells::sequences) % (4 * VCZ_ZSTD_MAX_OFFSET_STATES) == 0, "bits of addresses of offsets are free");
static_assert((sizeof(VczZstdCells::sequences) + sizeof(VczZstdCells::offsets)) % (16 * VCZ_ZSTD_PIECES) == 0, "bits of addresses of streams are free");

// What a block may need of earlier ones: descriptions of tables, from which they are built again. In scratch memory, after the literals.
struct VczZstdHistory {
    i16 probabilities[3][VCZ_ZSTD_MAX_SYMBOLS];
    u8 weights[256];
};
static_assert(sizeof(VczZstdHistory) <= VCZ_ZSTD_HISTORY, "room for what is kept");

// The input and output of a frame.
struct VczZstd {
    const u8* src;
    u32 len;
    u8* out;
    u32 room;
    u32 at;  // number of decoded bytes
    u32 block_max;
    u8* literals;
    VczZstdHistory* history;
    VczZstdTables* tables;
    u32 *cells, *offsets;  // of VczZstdCells
    u32 fills;  // halves of the ring that this warp has consumed
};

// A bit stream that is read from its end: the next bits are those of `high` without the first `used`, then `low`, then `ahead`. Bits
// before the stream's start have any value.
struct VczZstdBits {
    u32 high, low, ahead;
    u32 used;
    const u32* words;
    i32 word;   // index of `ahead`
    i32 start;  // the lowest bit of the stream, relative to the first word

    __device__ __forceinline__ u32 load(i32 i) const { return __ldg(words + (i < 0 ? 0 : i)); }

    // Starts the stream of `len` bytes, at least 1; false if it has no end marker.
    __device__ __forceinline__ bool open(const u8* src, u32 len) {
        const u32 last = __ldg(src + len - 1);
        if (last == 0) return false;
        const u32 before = (u32)((u64)src & 3);
        words = (const u32*)(src - before);
        start = (i32)(8 * before);
        const u32 end = 8 * (before + len - 1) + (31 - (u32)__clz((i32)last));
        const i32 first = (i32)(end + 31) / 32 - 1;
        used = (u32)(32 * (first + 1)) - end;
        word = first - 2;
        high = load(first);
        low = load(first - 1);
        ahead = load(word);
        return true;
    }

    // Advances by a word if 32 bits or more are used; fewer than 64 must be.
    __device__ __forceinline__ void fill() {
        const bool full = used >= 32;
        high = full ? low : high;
        low = full ? ahead : low;
        used &= 31;
        word -= full;
        if (full) ahead = load(word);
    }

    // The next 32 bits, if fewer than 32 are used.
    __device__ __forceinline__ u32 window() const { return __funnelshift_l(low, high, used); }

    // The next `n` bits, at most 31.
    __device__ __forceinline__ u32 take(u32 n) {
        fill();
        const u32 x = window() >> 1 >> (31 - n);
        used += n;
        return x;
    }

    // Remaining bits of the stream; negative if too many were taken.
    __device__ __forceinline__ i32 left() const { return 64 - (i32)used + 32 * (word + 1) - start; }
};

// A bit stream of sequences, which is read from its end. A frame has 12 bytes or more before it, so three words before the stream's may
// be read, and whole pieces that have one of its bytes.
struct VczZstdPlaces {
    const u32* words;  // from the piece before the stream's first on; bits are counted from here

    __device__ __forceinline__ explicit VczZstdPlaces(const u8* src) : words((const u32*)((u64)src & ~(u64)15) - 4) {}

    // The stream's lowest bit.
    static __device__ __forceinline__ i32 start(const u8* src) { return (i32)(8 * ((u64)src & 15)) + 128; }

    // The highest bit, of `len` bytes; false if the stream has no end marker.
    static __device__ __forceinline__ bool end(const u8* src, u32 len, i32& last) {
        const u32 byte = len == 0 ? 0 : __ldg(src + len - 1);
        last = start(src) + (i32)(8 * len) - 9 + (31 - __clz((i32)byte));
        return byte != 0;
    }

    // A piece of the stream; any piece if it is before the stream.
    __device__ __forceinline__ uint4 piece(i32 i) const { return __ldg((const uint4*)words + (i < 1 ? 1 : i)); }

    // The 64 bits from `bit` downwards; `bit` must be within the stream.
    __device__ __forceinline__ u64 wide(i32 bit) const {
        const i32 word = bit >> 5;
        const u32 a = __ldg(words + word), b = __ldg(words + word - 1), c = __ldg(words + word - 2), used = (u32)~bit & 31;
        return (u64)__funnelshift_l(b, a, used) << 32 | __funnelshift_l(c, b, used);
    }
};

// 32 of 64 bits, from bit `n` on; zeros beyond them.
VCZ_DEVICE u32 vcz_zstd_shifted(u32 low, u32 high, u32 n) {
#if defined(__CUDA_ARCH__)
    u64 bits;
    asm("shr.b64 %0, %1, %2;" : "=l"(bits) : "l"((u64)high << 32 | low), "r"(n));
    return (u32)bits;
#else
    return n > 63 ? 0 : (u32)(((u64)high << 32 | low) >> n);
#endif
}

// Shared memory by 32-bit addresses, whose bits can be set: the address of an object, reading a word, writing four.
#if defined(__CUDA_ARCH__)
VCZ_DEVICE u32 vcz_shared_address(const void* at) { return (u32)__cvta_generic_to_shared(at); }
VCZ_DEVICE u32 vcz_shared_word(u32 address) {
    u32 word;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(address));
    return word;
}
VCZ_DEVICE void vcz_shared_put(u32 address, const uint4& words) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(words.x), "r"(words.y), "r"(words.z), "r"(words.w));
}
#else
alignas(VCZ_ZSTD_CELLS_AT) static u8 vcz_shared_origin[1];
VCZ_DEVICE u32 vcz_shared_address(const void* at) { return (u32)((u64)at - (u64)vcz_shared_origin); }
VCZ_DEVICE u8* vcz_shared_place(u32 address) { return (u8*)((u64)vcz_shared_origin + (u64)(i64)(i32)address); }
VCZ_DEVICE u32 vcz_shared_word(u32 address) { return *(const u32*)vcz_shared_place(address); }
VCZ_DEVICE void vcz_shared_put(u32 address, const uint4& words) { *(uint4*)vcz_shared_place(address) = words; }
#endif

// The first `n` of 64 bits, at most 31.
VCZ_DEVICE u32 vcz_zstd_first(u64 bits, u32 n) { return (u32)(bits >> 32) >> 1 >> (31 - n); }

VCZ_DEVICE u32 vcz_zstd_byte(const VczZstd& z, u32 at) { return __ldg(z.src + at); }

// A little-endian number of `n` bytes, up to 4.
VCZ_DEVICE u32 vcz_zstd_number(const VczZstd& z, u32 at, u32 n) {
    u32 x = 0;
    for (u32 i = 0; i < n; ++i) x |= vcz_zstd_byte(z, at + i) << (8 * i);
    return x;
}

// Mask of the lanes before this one.
VCZ_DEVICE u32 vcz_zstd_before() { return (1u << vcz_lane()) - 1; }

// The sum of x over this lane and the lanes before it.
VCZ_DEVICE u32 vcz_zstd_running_sum(u32 x) {
    const u32 lane = vcz_lane();
#pragma unroll
    for (u32 step = 1; step < 32; step <<= 1) {
        const u32 other = __shfl_sync(VCZ_ALL_LANES, x, (lane - step) & 31);
        if (lane >= step) x += other;
    }
    return x;
}

#endif
