// Decodes zstd frames (RFC 8878), a warp each: those of genotypes, which are some 100 KiB of short matches, and of which thousands are
// in flight. To read a sequence means to wait for the one before, so that one lane can do it: those of all frames of a CTA are read by a
// warp of its own, a lane each, ahead of the warps that execute them. These execute 32 sequences together, as far as none needs what another
// has yet to write. Huffman codes are read by as many lanes as there are streams; tables are made by all lanes.
//
// Nothing outside of a frame, its room and the warp's scratch memory is touched, whatever the frame says. What is not valid, or
// is in a form that is not known to be valid for libzstd, sets VCZ_BAD_FRAME: the host is to judge (src/codec/zstd_decode.rs, whose rules
// these are).
#include "vcz.cuh"

#define VCZ_ZSTD_MAGIC 0xfd2fb528u
// Most bits of a Huffman code, and of a state of literal lengths, offsets and match lengths.
#define VCZ_ZSTD_HUFFMAN_LOG 11
#define VCZ_ZSTD_MAX_STATES 512
#define VCZ_ZSTD_MAX_SYMBOLS 64
// Where the tables of literal lengths, offsets and match lengths start.
#define VCZ_ZSTD_LENGTHS_AT 0
#define VCZ_ZSTD_OFFSETS_AT 512
#define VCZ_ZSTD_MATCHES_AT 768
#define VCZ_ZSTD_CELLS 1280
// Literals and matches that a lane copies alone have no more bytes.
#define VCZ_ZSTD_SHORT 40
// A repetition of a shorter period is first written out to as many bytes.
#define VCZ_ZSTD_PERIOD 512

// How the tables of a block are given.
#define VCZ_ZSTD_NONE 0
#define VCZ_ZSTD_ONE 1
#define VCZ_ZSTD_DESCRIBED 2

// A cell of a table, from its lowest bits on: how many bits are added to the value, and how many to the next state; the code of the value;
// the next state before bits are added. Both numbers of bits of three cells add up beside each other.
#define VCZ_ZSTD_MORE(cell) ((cell) & 0xff)
#define VCZ_ZSTD_BITS(cell) ((cell) >> 8 & 0xff)
#define VCZ_ZSTD_CODE(cell) ((cell) >> 16 & 63)
#define VCZ_ZSTD_NEXT(cell) ((cell) >> 23)
#define VCZ_ZSTD_CELL(more, next, bits, code) ((more) | (bits) << 8 | (code) << 16 | (next) << 23)

__constant__ i16 vcz_zstd_default_lengths[36] = {4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2,
                                                 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1};
__constant__ i16 vcz_zstd_default_offsets[29] = {1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1};
__constant__ i16 vcz_zstd_default_matches[53] = {1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                                 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1};
// What codes of literal lengths and match lengths start at.
__constant__ u32 vcz_zstd_lengths[36] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,   10,  11,  12,   13,   14,   15,   16,    18,
                                         20, 22, 24, 28, 32, 40, 48, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536};
__constant__ u32 vcz_zstd_matches[53] = {3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,  17,  18,  19,   20,
                                         21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34,  35,  37,  39,   41,
                                         43, 47, 51, 59, 67, 83, 99, 131, 259, 515, 1027, 2051, 4099, 8195, 16387, 32771, 65539};
// How many bits are added to them, from code 16 and from code 32 on.
__constant__ u8 vcz_zstd_length_bits[20] = {1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
__constant__ u8 vcz_zstd_match_bits[21] = {1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

// What has been done and is waited for, again and again. Who waits knows of each time before the next. It is raised by one lane, or by all
// lanes of a warp together; all that they did before is seen by who sees it raised.
template <u32 LANES>
struct VczSignal {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    u64 barrier;

    __device__ __forceinline__ void start() { asm volatile("mbarrier.init.b64 [%0], %1;" ::"l"(&barrier), "r"(LANES) : "memory"); }

    __device__ __forceinline__ void raise() {
        asm volatile("{ .reg .b64 state; mbarrier.arrive.b64 state, [%0]; }" ::"l"(&barrier) : "memory");
    }

    // Whether it was raised the `n`-th time, counting from 1.
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

// What the lane that reads sequences and the warp that executes them tell each other. They are handed over 32 at a time.
struct VczZstdRing {
    // The block's bit stream: how many sequences it has (0: the warp has no more frames), and the logs of its tables, of literal
    // lengths, offsets and match lengths.
    u64 src;
    u32 len, n;
    u32 logs[3];
    u32 fine[2];  // by half, whether what was read is valid: if not, no more is read of this stream
    // The halves of what is read have a signal each.
    VczSignal<32> started, emptied[2];
    VczSignal<1> filled[2];
};

// A warp's shared memory.
struct VczZstdTables {
    u32 cells[VCZ_ZSTD_CELLS];           // of sequences; before that, the cells of Huffman codes, of two bytes
    union {
        // While tables are made.
        struct {
            u8 in_order[VCZ_ZSTD_MAX_STATES];  // symbols as often as they have states; or the weights of Huffman codes
            u8 symbols[VCZ_ZSTD_MAX_STATES];   // of every state
        };
        // While sequences are read, in halves by turns: the cells of the offset, the match and the literals, and how many bits of the
        // stream were taken before: those of the three values follow.
        uint4 read[2][32];
    };
    i16 probabilities[VCZ_ZSTD_MAX_SYMBOLS];
    u16 next[VCZ_ZSTD_MAX_SYMBOLS];      // states of a symbol, to be numbered from there on
    VczZstdRing ring;
    // What a block needs of those before it; see VczZstdHistory too.
    u32 weights;       // how many Huffman weights there are; 0: none yet
    u32 described[3];  // of literal lengths, offsets and match lengths: kind, log << 8, symbols (or the one symbol) << 16
    u32 recent[3];     // offsets
};

// What a block may need of those before it, in scratch memory after the literals: descriptions of tables, from which they are made again.
struct VczZstdHistory {
    i16 probabilities[3][VCZ_ZSTD_MAX_SYMBOLS];
    u8 weights[256];
};
static_assert(sizeof(VczZstdHistory) <= VCZ_ZSTD_HISTORY, "room for what is kept");

// What a frame is decoded from and to.
struct VczZstd {
    const u8* src;
    u32 len;
    u8* out;
    u32 room;
    u32 at;  // bytes that are there
    u32 block_max;
    u8* literals;
    VczZstdHistory* history;
    VczZstdTables* tables;
    u32 fills;  // halves of the ring that this warp has taken
};

// A bit stream that is read from its end: the next bits are those of `high`, of which so many are `used`, then those of `low`, then those
// of `ahead`. Bits past the stream's start are anything.
struct VczZstdBits {
    u32 high, low, ahead;
    u32 used;
    const u32* words;
    i32 word;   // index of `ahead`
    i32 start;  // the lowest bit of the stream, counted from the first word

    __device__ __forceinline__ u32 load(i32 i) const { return __ldg(words + (i < 0 ? 0 : i)); }

    // The stream of `len` bytes, 1 or more; false if it has no mark of its end.
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

    // Moves on where 32 bits are used. 64 must not be.
    __device__ __forceinline__ void fill() {
        const bool full = used >= 32;
        high = full ? low : high;
        low = full ? ahead : low;
        used &= 31;
        word -= full;
        if (full) ahead = load(word);
    }

    // Takes `n` bits, at most 64, where fewer than 32 are used.
    __device__ __forceinline__ void skip(u32 n) {
        used += n;
#pragma unroll 1
        for (; used >= 32; used -= 32) {
            high = low;
            low = ahead;
            word -= 1;
            ahead = load(word);
        }
    }

    // The next 32 bits, where fewer are used.
    __device__ __forceinline__ u32 window() const { return __funnelshift_l(low, high, used); }

    // The next `n` bits, at most 31.
    __device__ __forceinline__ u32 take(u32 n) {
        fill();
        const u32 x = window() >> 1 >> (31 - n);
        used += n;
        return x;
    }

    // Bits of the stream that are left; below 0 if more were taken.
    __device__ __forceinline__ i32 left() const { return 64 - (i32)used + 32 * (word + 1) - start; }
};

// A bit stream that is read from its end, at any place: of `len` bytes, 1 or more, the last not 0.
struct VczZstdValues {
    const u32* words;
    i32 end;  // the bit after the last, counted from the first word

    __device__ __forceinline__ VczZstdValues(const u8* src, u32 len) {
        const u32 before = (u32)((u64)src & 3);
        words = (const u32*)(src - before);
        end = (i32)(8 * (before + len - 1) + (31 - (u32)__clz((i32)__ldg(src + len - 1))));
    }

    // The 64 bits after the first `taken`; those past the stream's start are anything.
    __device__ __forceinline__ u64 at(u32 taken) const {
        const i32 last = end - (i32)taken, word = (last - 1) >> 5;
        const u32 used = (u32)(32 * (word + 1) - last);
        const u32 a = __ldg(words + (word < 0 ? 0 : word)), b = __ldg(words + (word < 1 ? 0 : word - 1)), c = __ldg(words + (word < 2 ? 0 : word - 2));
        return (u64)__funnelshift_l(b, a, used) << 32 | __funnelshift_l(c, b, used);
    }
};

// The first `n` of 64 bits, at most 31.
VCZ_DEVICE u32 vcz_zstd_first(u64 bits, u32 n) { return (u32)(bits >> 32) >> 1 >> (31 - n); }

VCZ_DEVICE u32 vcz_zstd_byte(const VczZstd& z, u32 at) { return __ldg(z.src + at); }

// A little-endian number of `n` bytes, up to 4.
VCZ_DEVICE u32 vcz_zstd_number(const VczZstd& z, u32 at, u32 n) {
    u32 x = 0;
    for (u32 i = 0; i < n; ++i) x |= vcz_zstd_byte(z, at + i) << (8 * i);
    return x;
}

// Lanes of the warp before this one.
VCZ_DEVICE u32 vcz_zstd_before() { return (1u << vcz_lane()) - 1; }

// The sum of x over this lane and those before.
VCZ_DEVICE u32 vcz_zstd_running_sum(u32 x) {
    const u32 lane = vcz_lane();
#pragma unroll
    for (u32 step = 1; step < 32; step <<= 1) {
        const u32 other = __shfl_sync(VCZ_ALL_LANES, x, (lane - step) & 31);
        if (lane >= step) x += other;
    }
    return x;
}

// Reads the description of a table at `at`, before `end`, into `probabilities`: of symbols up to `max_symbol`, of at most `max_log` bits.
// The number of symbols, and `log`; 0 if it is not valid. `at` is then after it.
static __device__ u32 vcz_zstd_describe(const VczZstd& z, u32& at, u32 end, u32 max_symbol, u32 max_log, u32& log) {
    i16* probabilities = z.tables->probabilities;
    __syncwarp();
    const u32 first = at;
    const u32 bytes = end - first;
    // Up to 16 bits; those past the end are zeros.
    const auto peek = [&](u32 bit, u32 n) {
        u32 x = 0;
        for (u32 i = 0; i < 3; ++i) {
            const u32 byte = bit / 8 + i;
            if (byte < bytes) x |= vcz_zstd_byte(z, first + byte) << (8 * i);
        }
        return x >> (bit % 8) & ((1u << n) - 1);
    };
    log = peek(0, 4) + 5;
    if (log > max_log) return 0;
    u32 bit = 4, symbol = 0;
    i32 left = 1 << log;
    while (left > 0) {
        if (symbol > max_symbol || bit > 8 * bytes) return 0;
        // One of 0 to `left + 1`: the smaller ones take a bit less.
        const u32 largest = (u32)left + 1;
        const u32 bits = 32 - (u32)__clz((i32)largest);
        const u32 less = (1u << bits) - 1 - largest;
        const u32 x = peek(bit, bits);
        u32 value = x & ((1u << (bits - 1)) - 1);
        if (value < less) {
            bit += bits - 1;
        } else {
            bit += bits;
            if (x != value) value = x - less;
        }
        const i32 probability = (i32)value - 1;
        left -= probability < 0 ? -probability : probability;
        if (vcz_lane() == 0) probabilities[symbol] = (i16)probability;
        symbol += 1;
        if (probability != 0) continue;
        for (u32 more = 3; more == 3;) {
            more = peek(bit, 2);
            bit += 2;
            if (symbol + more > max_symbol + 1) return 0;
            if (vcz_lane() < more) probabilities[symbol + vcz_lane()] = 0;
            symbol += more;
        }
    }
    at = first + (bit + 7) / 8;
    __syncwarp();
    return left == 0 && at <= end ? symbol : 0;
}

// How many bits are added to a value of this code; `table`: 0 to 2, or 3 for the weights of Huffman codes.
VCZ_DEVICE u32 vcz_zstd_more(u32 table, u32 code) {
    if (table == 0) return code < 16 ? 0 : vcz_zstd_length_bits[code - 16];
    if (table == 1) return code;
    if (table == 2) return code < 32 ? 0 : vcz_zstd_match_bits[code - 32];
    return 0;
}

// Makes the table of `n` symbols whose probabilities are there, which add up to `1 << log`; a probability of -1 is less than one.
static __device__ __noinline__ void vcz_zstd_table(VczZstdTables& s, u32* cells, u32 n, u32 log, u32 table) {
    const u32 size = 1u << log, lane = vcz_lane();
    __syncwarp();
    // Symbols as often as they have states, in order; the rarest at the end.
    u32 first = 0, high = size;
    for (u32 base = 0; base < n; base += 32) {
        const u32 symbol = base + lane;
        const i32 probability = symbol < n ? s.probabilities[symbol] : 0;
        const u32 rare = __ballot_sync(VCZ_ALL_LANES, probability < 0);
        if (probability < 0) {
            s.symbols[high - 1 - (u32)__popc(rare & vcz_zstd_before())] = (u8)symbol;
            s.next[symbol] = 1;
        } else if (symbol < n) {
            s.next[symbol] = (u16)probability;
        }
        high -= (u32)__popc(rare);
        const u32 states = probability > 0 ? (u32)probability : 0;
        const u32 sum = vcz_zstd_running_sum(states);
        const u32 start = first + sum - states;
        if (states <= 8) {
            for (u32 i = 0; i < states; ++i) s.in_order[start + i] = (u8)symbol;
        }
        for (u32 many = __ballot_sync(VCZ_ALL_LANES, states > 8); many != 0; many &= many - 1) {
            const u32 of = (u32)__ffs((i32)many) - 1;
            const u32 from = __shfl_sync(VCZ_ALL_LANES, start, of), len = __shfl_sync(VCZ_ALL_LANES, states, of);
            for (u32 i = lane; i < len; i += 32) s.in_order[from + i] = (u8)(base + of);
        }
        first += __shfl_sync(VCZ_ALL_LANES, sum, 31);
    }
    __syncwarp();
    // They are dealt out to the states below those of the rarest. A table has 32 states or more.
    const u32 step = (size >> 1) + (size >> 3) + 3;
    u32 dealt = 0;
    for (u32 base = 0; base < size; base += 32) {
        const u32 state = (base + lane) * step & (size - 1);
        const u32 common = __ballot_sync(VCZ_ALL_LANES, state < high);
        if (state < high) s.symbols[state] = s.in_order[dealt + (u32)__popc(common & vcz_zstd_before())];
        dealt += (u32)__popc(common);
    }
    __syncwarp();
    for (u32 base = 0; base < size; base += 32) {
        const u32 symbol = s.symbols[base + lane];
        const u32 same = __match_any_sync(VCZ_ALL_LANES, symbol);
        const u32 number = s.next[symbol] + (u32)__popc(same & vcz_zstd_before());
        __syncwarp();
        if (same >> lane == 1) s.next[symbol] = (u16)(number + 1);
        __syncwarp();
        const u32 bits = log - (31 - (u32)__clz((i32)number));
        cells[base + lane] = VCZ_ZSTD_CELL(vcz_zstd_more(table, symbol), (number << bits) - size, bits, symbol);
    }
    __syncwarp();
}

// Makes the table of Huffman codes of the weights that are there, but for the last one, which follows from the others. The bits
// of the longest code, 0 if the weights are not valid.
static __device__ u32 vcz_zstd_huffman(VczZstdTables& s, u32 n) {
    const u32 lane = vcz_lane();
    u8* weights = s.in_order;
    u16* cells = (u16*)s.cells;
    __syncwarp();
    u32 total = 0;
    for (u32 symbol = lane; symbol < n; symbol += 32) total += (1u << (weights[symbol] & 15)) >> 1;
    total = (u32)vcz_warp_sum((i32)total);
    if (total == 0) return 0;
    const u32 log = 32 - (u32)__clz((i32)total);
    const u32 left = (1u << log) - total;
    if (log > VCZ_ZSTD_HUFFMAN_LOG || (left & (left - 1)) != 0) return 0;
    if (lane == 0) weights[n] = (u8)(32 - (u32)__clz((i32)left));
    if (lane < 16) s.next[lane] = 0;
    __syncwarp();
    for (u32 base = 0; base <= n; base += 32) {
        const u32 weight = base + lane <= n ? weights[base + lane] & 15 : 0;
        const u32 same = __match_any_sync(VCZ_ALL_LANES, weight);
        if (same >> lane == 1) s.next[weight] += (u16)__popc(same);
        __syncwarp();
    }
    const u32 longest = s.next[1];
    if (longest < 2 || longest % 2 == 1) return 0;
    // Longer codes come first. The weights' sum, a power of two, is the size of the table.
    u32 start = 0, mine = 0;
    for (u32 weight = 1; weight <= log; ++weight) {
        if (lane == weight) mine = start;
        start += (u32)s.next[weight] << (weight - 1);
    }
    __syncwarp();
    if (lane < 16) s.next[lane] = (u16)mine;
    __syncwarp();
    for (u32 base = 0; base <= n; base += 32) {
        const u32 weight = base + lane <= n ? weights[base + lane] & 15 : 0;
        const u32 same = __match_any_sync(VCZ_ALL_LANES, weight);
        const u32 len = (1u << weight) >> 1;
        const u32 from = s.next[weight] + (u32)__popc(same & vcz_zstd_before()) * len;
        const u32 cell = (base + lane) << 8 | (log + 1 - weight);
        __syncwarp();
        if (same >> lane == 1 && weight != 0) s.next[weight] = (u16)(from + len);
        if (len <= 8) {
            for (u32 i = 0; i < len; ++i) cells[from + i] = (u16)cell;
        }
        for (u32 many = __ballot_sync(VCZ_ALL_LANES, len > 8); many != 0; many &= many - 1) {
            const u32 of = (u32)__ffs((i32)many) - 1;
            const u32 to = __shfl_sync(VCZ_ALL_LANES, from, of), n_cells = __shfl_sync(VCZ_ALL_LANES, len, of);
            const u32 what = __shfl_sync(VCZ_ALL_LANES, cell, of);
            for (u32 i = lane; i < n_cells; i += 32) cells[to + i] = (u16)what;
        }
        __syncwarp();
    }
    return log;
}

// Reads the weights of Huffman codes at `at`, before `end`; how many are written down, 0 if they are not valid.
static __device__ u32 vcz_zstd_weights(const VczZstd& z, u32& at, u32 end) {
    VczZstdTables& s = *z.tables;
    u8* weights = s.in_order;
    if (at >= end) return 0;
    const u32 first = vcz_zstd_byte(z, at);
    at += 1;
    __syncwarp();
    if (first >= 128) {
        const u32 n = first - 127;
        if ((n + 1) / 2 > end - at) return 0;
        for (u32 i = vcz_lane(); i < n; i += 32) weights[i] = (u8)(vcz_zstd_byte(z, at + i / 2) >> (i % 2 == 0 ? 4 : 0) & 15);
        at += (n + 1) / 2;
        __syncwarp();
        return n;
    }
    if (first > end - at) return 0;
    const u32 stop = at + first;
    u32 stream = at, log;
    const u32 symbols = vcz_zstd_describe(z, stream, stop, VCZ_ZSTD_HUFFMAN_LOG, 6, log);
    VczZstdBits bits;
    if (symbols == 0 || stream >= stop || !bits.open(z.src + stream, stop - stream) || bits.left() < 2 * (i32)log) return 0;
    vcz_zstd_table(s, s.cells, symbols, log, 3);
    at = stop;
    // Two states by turns. The end is where there are too few bits to go on from one; the other has its symbol left.
    u32 state = bits.take(log), other = bits.take(log), n = 0;
    for (;;) {
        if (n + 2 > 255) return 0;
        const u32 cell = s.cells[state];
        if (vcz_lane() == 0) weights[n] = (u8)VCZ_ZSTD_CODE(cell);
        n += 1;
        if (bits.left() < (i32)VCZ_ZSTD_BITS(cell)) break;
        state = other;
        other = VCZ_ZSTD_NEXT(cell) + bits.take(VCZ_ZSTD_BITS(cell));
    }
    if (vcz_lane() == 0) weights[n] = (u8)VCZ_ZSTD_CODE(s.cells[other]);
    __syncwarp();
    return n + 1;
}

// Decodes `n` literals from the bit stream `src`, by the codes of `log` bits or fewer, four at a time; false if it does not end where they do.
VCZ_DEVICE bool vcz_zstd_stream(const u16* cells, u32 log, const u8* src, u32 len, u8* out, u32 n) {
    VczZstdBits bits;
    if (!bits.open(src, len)) return false;
    const u32 unused = 32 - log;
    const auto one = [&] {
        bits.fill();
        const u32 a = cells[bits.window() >> unused];
        bits.used += a & 31;
        return a >> 8;
    };
    // Two codes are at most 22 bits.
    const auto two = [&] {
        bits.fill();
        const u32 window = bits.window();
        const u32 a = cells[window >> unused];
        const u32 b = cells[window << (a & 31) >> unused];
        bits.used += (a & 31) + (b & 31);
        return a >> 8 | (b & 0xff00);
    };
    u32 i = 0;
    for (const u32 before = vcz_min(n, (u32)(-(u64)out & 3)); i < before; ++i) out[i] = (u8)one();
    for (; i + 4 <= n; i += 4) {
        const u32 first = two();
        *(u32*)(out + i) = first | two() << 16;
    }
    for (; i < n; ++i) out[i] = (u8)one();
    return bits.left() == 0;
}

// Decodes `n` Huffman-coded literals at `at`, before `end`, in one stream or four, of codes that are there or are those of the block before.
static __device__ bool vcz_zstd_literals(const VczZstd& z, u32 at, u32 end, u32 n, bool four, bool repeat) {
    VczZstdTables& s = *z.tables;
    const u32 lane = vcz_lane();
    __syncwarp();
    u32 n_weights = s.weights;
    if (repeat) {
        for (u32 i = lane; i < n_weights; i += 32) s.in_order[i] = z.history->weights[i];
    } else {
        n_weights = vcz_zstd_weights(z, at, end);
        if (lane == 0) s.weights = n_weights;
        for (u32 i = lane; i < n_weights; i += 32) z.history->weights[i] = s.in_order[i];
    }
    if (n_weights == 0) return false;
    const u32 log = vcz_zstd_huffman(s, n_weights);
    if (log == 0 || at >= end) return false;
    const u16* cells = (const u16*)s.cells;
    bool fine = true;
    if (!four) {
        if (lane == 0) fine = vcz_zstd_stream(cells, log, z.src + at, end - at, z.literals, n);
    } else {
        if (n < 6 || end - at < 10) return false;
        const u32 quarter = (n + 3) / 4;
        // Each lane knows where all four are.
        u32 start = at + 6, len = 0, mine = 0;
        for (u32 i = 0; i < 4; ++i) {
            const u32 size = i < 3 ? vcz_zstd_number(z, at + 2 * i, 2) : end - start;
            if (size == 0 || size > end - start) return false;
            if (lane == i) {
                mine = start;
                len = size;
            }
            start += size;
        }
        if (3 * quarter >= n) return false;
        if (lane < 4) {
            const u32 first = lane * quarter;
            fine = vcz_zstd_stream(cells, log, z.src + mine, len, z.literals + first, lane < 3 ? quarter : n - first);
        }
    }
    fine = __ballot_sync(VCZ_ALL_LANES, !fine) == 0;
    __syncwarp();
    return fine;
}

// Fills `len` bytes, by all lanes.
static __device__ void vcz_zstd_fill(u8* out, u32 len, u32 byte) {
    const u32 lane = vcz_lane(), before = vcz_min(len, (u32)(-(u64)out & 15));
    if (lane < before) out[lane] = (u8)byte;
    const u32 word = byte * 0x01010101u, whole = (len - before) / 16;
    uint4* words = (uint4*)(out + before);
    for (u32 i = lane; i < whole; i += 32) words[i] = {word, word, word, word};
    const u32 done = before + 16 * whole;
    if (done + lane < len) out[done + lane] = (u8)byte;
}

// Copies `len` bytes by all lanes, to where none is read from. Source words are read whole. All is read before it is written, so that
// memory is waited for once.
static __device__ void vcz_zstd_copy(u8* to, const u8* from, u32 len) {
    const u32 lane = vcz_lane(), before = vcz_min(len, (u32)(-(u64)to & 15)), whole = (len - before) / 16, done = before + 16 * whole;
    const bool first = lane < before, last = done + lane < len;
    const u8 first_byte = first ? from[lane] : 0, last_byte = last ? from[done + lane] : 0;
    uint4* vectors = (uint4*)(to + before);
    const u32* words = (const u32*)((u64)(from + before) & ~(u64)3) + 4 * lane;
    const u32 shift = 8 * (u32)((u64)(from + before) & 3);
    for (u32 i = lane; i < whole; i += 32, words += 128) {
        const u32 a = words[0], b = words[1], c = words[2], d = words[3], e = shift == 0 ? 0 : words[4];
        vectors[i] = {__funnelshift_r(a, b, shift), __funnelshift_r(b, c, shift), __funnelshift_r(c, d, shift), __funnelshift_r(d, e, shift)};
    }
    if (first) to[lane] = first_byte;
    if (last) to[done + lane] = last_byte;
}

// Writes a match of `len` bytes, `offset` bytes after those that it repeats, by all lanes.
static __device__ void vcz_zstd_repeat(u8* to, u32 offset, u32 len) {
    if (offset == 1) {
        vcz_zstd_fill(to, len, *(to - 1));
        return;
    }
    u32 done = 0, period = offset;
    if (offset < VCZ_ZSTD_PERIOD && offset < len) {
        const u32 span = (VCZ_ZSTD_PERIOD + offset - 1) / offset * offset;
        done = vcz_min(len, span);
        for (u32 i = vcz_lane(); i < done; i += 32) {
            const u8 byte = *(to - offset + i % offset);
            to[i] = byte;
        }
        period = span;
        __syncwarp();
    }
    // What is there of the repetition, again and again.
    while (done < len) {
        const u32 n = vcz_min(period, len - done);
        vcz_zstd_copy(to + done, to + done - period, n);
        __syncwarp();
        done += n;
        period = offset < VCZ_ZSTD_PERIOD ? done : done + offset;
    }
}

// Writes a short match, by this lane: eight bytes at a time, which are there by then.
VCZ_DEVICE void vcz_zstd_repeat_short(u8* to, u32 offset, u32 len) {
    for (u32 i = 0; i < len; i += 8) {
        const u64 from = (u64)to + i - offset;
        const u32* words = (const u32*)(from & ~(u64)3);
        const u32 left = len - i, before = (u32)(from & 3), shift = 8 * before, there = vcz_min(left, offset) + before;
        const u32 a = words[0], b = there > 4 ? words[1] : 0, c = there > 8 ? words[2] : 0;
        u32 low = __funnelshift_r(a, b, shift), high = __funnelshift_r(b, c, shift);
        if (offset < 8) {
            // As often as they fit, and then whole repetitions of eight bytes or more.
            u64 bytes = ((u64)high << 32 | low) & (((u64)1 << 8 * offset) - 1);
            for (u32 n = 8 * offset; n < 64; n *= 2) bytes |= bytes << n;
            low = (u32)bytes;
            high = (u32)(bytes >> 32);
            offset = (7 + offset) / offset * offset;
        }
#pragma unroll
        for (u32 j = 0; j < 8; ++j) {
            if (j < left) to[i + j] = (u8)((j < 4 ? low : high) >> (8 * (j % 4)));
        }
    }
}

// Executes the sequences that the lanes have, in order: at `at` of the output, `lengths` literals from `literals` on, then a match.
static __device__ void vcz_zstd_execute(u8* out, u32 at, const u8* literals, u32 lengths, u32 matches, u32 offset) {
    const u32 lane = vcz_lane();
    if (lengths <= VCZ_ZSTD_SHORT) {
        for (u32 i = 0; i < lengths; i += 4) {
            u8 bytes[4];
#pragma unroll
            for (u32 j = 0; j < 4; ++j) bytes[j] = i + j < lengths ? literals[i + j] : 0;
#pragma unroll
            for (u32 j = 0; j < 4; ++j) {
                if (i + j < lengths) out[at + i + j] = bytes[j];
            }
        }
    }
    for (u32 many = __ballot_sync(VCZ_ALL_LANES, lengths > VCZ_ZSTD_SHORT); many != 0; many &= many - 1) {
        const u32 of = (u32)__ffs((i32)many) - 1;
        const u64 from = (u64)__shfl_sync(VCZ_ALL_LANES, (u32)((u64)literals >> 32), of) << 32 | __shfl_sync(VCZ_ALL_LANES, (u32)(u64)literals, of);
        vcz_zstd_copy(out + __shfl_sync(VCZ_ALL_LANES, at, of), (const u8*)from, __shfl_sync(VCZ_ALL_LANES, lengths, of));
    }
    __syncwarp();
    const u32 to = at + lengths, from = to - offset;
    // Where the bytes end that are repeated.
    const u32 end = from + vcz_min(matches, offset);
    for (u32 waiting = __ballot_sync(VCZ_ALL_LANES, matches > 0); waiting != 0;) {
        // All bytes before the first that waits are there.
        const u32 first = (u32)__ffs((i32)waiting) - 1;
        const u32 there = __shfl_sync(VCZ_ALL_LANES, to, first), n = __shfl_sync(VCZ_ALL_LANES, matches, first);
        if (n > VCZ_ZSTD_SHORT) {
            vcz_zstd_repeat(out + there, __shfl_sync(VCZ_ALL_LANES, offset, first), n);
            __syncwarp();
            waiting &= waiting - 1;
            continue;
        }
        const bool ready = (waiting >> lane & 1) != 0 && matches <= VCZ_ZSTD_SHORT && end <= there;
        if (ready) vcz_zstd_repeat_short(out + to, offset, matches);
        waiting &= ~__ballot_sync(VCZ_ALL_LANES, ready);
        __syncwarp();
    }
}

// The last three offsets.
struct VczZstdRecent {
    u32 first, second, third;

    // After the offsets of `n` lanes up to `end`, none of which repeats one.
    __device__ __forceinline__ void pass(u32 offset, u32 end, u32 n) {
        const u32 a = __shfl_sync(VCZ_ALL_LANES, offset, (end - 1) & 31), b = __shfl_sync(VCZ_ALL_LANES, offset, (end - 2) & 31),
                  c = __shfl_sync(VCZ_ALL_LANES, offset, (end - 3) & 31);
        if (n == 0) return;
        third = n > 2 ? c : n == 2 ? first : second;
        second = n > 1 ? b : first;
        first = a;
    }

    // The offset that a value up to 3 stands for, which becomes the latest. Without literals, the latest offset would only make the match
    // before longer.
    __device__ __forceinline__ u32 again(u32 value, bool literals) {
        const u32 which = value - literals;
        const u32 offset = which == 0 ? first : which == 1 ? second : which == 2 ? third : first - 1;
        if (which > 1) third = second;
        if (which > 0) second = first;
        first = offset;
        return offset;
    }
};

// Reads the sequences of one warp's blocks, by one lane.
struct VczZstdReader {
    VczZstdTables* tables;
    VczZstdBits bits;
    u32 offset, length, match;  // cells that the three states are at
    u32 left;                   // sequences of the stream that are not read
    u32 some, i;                // of the half that is being filled: how many it takes, how many it has; 0: none is
    u32 streams, fills;         // so far
    u32 taken;                  // bits of the stream
    u32 n_states;               // bits of the latest states

    // Looks for something to read; false if there will never be any more.
    __device__ __forceinline__ bool look() {
        VczZstdRing& ring = tables->ring;
        if (left == 0) {
            if (!ring.started.raised(streams + 1)) return true;
            streams += 1;
            left = ring.n;
            if (left == 0) return false;
            const bool open = ring.len != 0 && bits.open((const u8*)ring.src, ring.len);
            if (!open) {
                left = 0;
                publish(false);
                return true;
            }
            const u32 first = bits.take(ring.logs[0]), second = bits.take(ring.logs[1]), third = bits.take(ring.logs[2]);
            taken = ring.logs[0] + ring.logs[1] + ring.logs[2];
            length = tables->cells[VCZ_ZSTD_LENGTHS_AT + first];
            offset = tables->cells[VCZ_ZSTD_OFFSETS_AT + second];
            match = tables->cells[VCZ_ZSTD_MATCHES_AT + third];
        }
        if (fills < 2 || ring.emptied[fills & 1].raised(fills / 2)) {
            some = vcz_min(left, 32);
            i = 0;
        }
        return true;
    }

    __device__ __forceinline__ void publish(bool fine) {
        tables->ring.fine[fills & 1] = fine;
        tables->ring.filled[fills & 1].raise();
        fills += 1;
    }

    // Reads one sequence: its values, which are not looked at, then the next states, of literals, match and offset. Few have so many bits that
    // they need `LONG`: without it, false if this one has, and nothing is read.
    template <bool LONG>
    __device__ __forceinline__ bool step(uint4& read) {
        bits.fill();
        const u32 sum = offset + match + length;
        const u32 n_values = sum & 0xff, states_at = bits.used + n_values;
        n_states = sum >> 8 & 0xff;
        u32 states;
        if (LONG) {
            // At most 63 bits and 26.
            bits.skip(n_values);
            states = bits.window();
            bits.used += n_states;
        } else {
            if (states_at + n_states >= 64) return false;
            const bool second = states_at >= 32;
            states = __funnelshift_l(second ? bits.ahead : bits.low, second ? bits.low : bits.high, states_at);
            bits.used = states_at + n_states;
        }
        read = {offset, match, length, taken};
        taken += n_values + n_states;
        states = __funnelshift_rc(states, 0, 32 - n_states);
        const u32 bits1 = VCZ_ZSTD_BITS(offset), bits2 = VCZ_ZSTD_BITS(match);
        offset = tables->cells[VCZ_ZSTD_OFFSETS_AT + VCZ_ZSTD_NEXT(offset) + (states & ((1u << bits1) - 1))];
        match = tables->cells[VCZ_ZSTD_MATCHES_AT + VCZ_ZSTD_NEXT(match) + (states >> bits1 & ((1u << bits2) - 1))];
        length = tables->cells[VCZ_ZSTD_LENGTHS_AT + VCZ_ZSTD_NEXT(length) + (states >> (bits1 + bits2))];
        return true;
    }

    // Reads eight sequences of the half, or those that it has left.
    __device__ __forceinline__ void steps() {
        uint4* read = tables->read[fills & 1] + i;
        const u32 n = vcz_min(8, some - i);
        u32 j = 0;
        if (n == 8) {
#pragma unroll
            for (; j < 8; ++j) {
                if (!step<false>(read[j])) break;
            }
        }
#pragma unroll 1
        for (; j < n; ++j) step<true>(read[j]);
        i += n;
        if (i < some) return;
        left -= some;
        some = 0;
        // After the last one, there are no bits of states, and none are left.
        const i32 rest = bits.left() + (i32)(left == 0 ? n_states : 0);
        const bool fine = left == 0 ? rest == 0 : rest >= 0;
        if (!fine) left = 0;
        publish(fine);
    }
};

// Reads the sequences of all warps of the CTA, a lane each, until they have no more.
static __device__ void vcz_zstd_read(VczZstdTables* tables) {
    const u32 lane = vcz_lane();
    VczZstdReader reader = {};
    reader.tables = tables + (lane < VCZ_ZSTD_WARPS ? lane : 0);
    bool open = lane < VCZ_ZSTD_WARPS;
    while (__any_sync(VCZ_ALL_LANES, open)) {
        if (open && reader.some == 0) open = reader.look();
        if (!__any_sync(VCZ_ALL_LANES, reader.some != 0)) {
            __nanosleep(100);
        } else if (reader.some != 0) {
            reader.steps();
        }
    }
}

// Executes the `n` sequences of the bit stream at `at`, before `end`. Of `literals` there are `n_literals`.
static __device__ bool vcz_zstd_sequences(VczZstd& z, u32 at, u32 end, u32 n, const u32 (&logs)[3], const u8* literals, u32 n_literals) {
    const u32 lane = vcz_lane();
    VczZstdTables& s = *z.tables;
    VczZstdRing& ring = s.ring;
    if (lane == 0) {
        ring.src = (u64)(z.src + at);
        ring.len = end - at;
        ring.n = n;
        for (u32 i = 0; i < 3; ++i) ring.logs[i] = logs[i];
    }
    ring.started.raise();
    const VczZstdValues values(z.src + at, end - at);
    VczZstdRecent recent = {s.recent[0], s.recent[1], s.recent[2]};
    u32 literal = 0;
    bool good = true;
    for (u32 base = 0; base < n; base += 32) {
        const u32 some = vcz_min(32, n - base), half = z.fills & 1;
        z.fills += 1;
        for (;;) {
            // Every lane looks for itself.
            const bool filled = ring.filled[half].raised((z.fills + 1) / 2);
            if (__any_sync(VCZ_ALL_LANES, !filled) == 0) break;
            __nanosleep(40);
        }
        const bool fine = ring.fine[half] != 0;
        u32 value = 4, matches = 0, lengths = 0;
        if (fine && lane < some) {
            const uint4 read = s.read[half][lane];
            u64 wide = values.at(read.w);
            value = (1u << VCZ_ZSTD_CODE(read.x)) + vcz_zstd_first(wide, VCZ_ZSTD_MORE(read.x));
            wide <<= VCZ_ZSTD_MORE(read.x);
            matches = vcz_zstd_matches[vcz_min(VCZ_ZSTD_CODE(read.y), 52)] + vcz_zstd_first(wide, VCZ_ZSTD_MORE(read.y));
            wide <<= VCZ_ZSTD_MORE(read.y);
            lengths = vcz_zstd_lengths[vcz_min(VCZ_ZSTD_CODE(read.z), 35)] + vcz_zstd_first(wide, VCZ_ZSTD_MORE(read.z));
        }
        ring.emptied[half].raise();
        if (!fine) return false;
        // The others are read all the same, so that the lane that reads is where this warp is.
        if (!good) continue;
        u32 offset = value - 3, passed = 0;
        for (u32 again = __ballot_sync(VCZ_ALL_LANES, value <= 3); again != 0; again &= again - 1) {
            const u32 i = (u32)__ffs((i32)again) - 1;
            recent.pass(offset, i, i - passed);
            const u32 repeated = recent.again(__shfl_sync(VCZ_ALL_LANES, value, i), __shfl_sync(VCZ_ALL_LANES, lengths, i) != 0);
            if (lane == i) offset = repeated;
            passed = i + 1;
        }
        recent.pass(offset, some, some - passed);
        // 32 sequences have fewer than 2^24 bytes, and the room fewer than 2^31.
        const u32 literals_to = literal + vcz_zstd_running_sum(lengths), to = z.at + vcz_zstd_running_sum(lengths + matches);
        literal = __shfl_sync(VCZ_ALL_LANES, literals_to, 31);
        z.at = __shfl_sync(VCZ_ALL_LANES, to, 31);
        const bool bad = matches != 0 && offset - 1 >= to - matches;
        good = !__any_sync(VCZ_ALL_LANES, bad) && z.at <= z.room && literal <= n_literals;
        if (good) vcz_zstd_execute(z.out, to - matches - lengths, literals + literals_to - lengths, lengths, matches, offset);
    }
    if (!good) return false;
    __syncwarp();
    if (lane < 3) s.recent[lane] = lane == 0 ? recent.first : lane == 1 ? recent.second : recent.third;
    const u32 rest = n_literals - literal;
    if (rest > z.room - z.at) return false;
    vcz_zstd_copy(z.out + z.at, literals + literal, rest);
    z.at += rest;
    return true;
}

// Makes the three tables of a block's sequences, which are described from `at` on, before `end`. `at` is then after them.
static __device__ bool vcz_zstd_tables(const VczZstd& z, u32& at, u32 end, u32 (&logs)[3]) {
    VczZstdTables& s = *z.tables;
    const u32 lane = vcz_lane();
    if (at >= end) return false;
    const u32 modes = vcz_zstd_byte(z, at);
    at += 1;
    if ((modes & 3) != 0) return false;
#pragma unroll
    for (u32 i = 0; i < 3; ++i) {
        const u32 max_symbol = i == 0 ? 35 : i == 1 ? 31 : 52;
        u32* cells = s.cells + (i == 0 ? VCZ_ZSTD_LENGTHS_AT : i == 1 ? VCZ_ZSTD_OFFSETS_AT : VCZ_ZSTD_MATCHES_AT);
        const u32 mode = modes >> (6 - 2 * i) & 3;
        u32 described = s.described[i];
        __syncwarp();
        if (mode == 0) {
            const u32 symbols = i == 0 ? 36 : i == 1 ? 29 : 53;
            const i16* probabilities = i == 0 ? vcz_zstd_default_lengths : i == 1 ? vcz_zstd_default_offsets : vcz_zstd_default_matches;
            for (u32 j = lane; j < symbols; j += 32) s.probabilities[j] = probabilities[j];
            __syncwarp();
            described = VCZ_ZSTD_DESCRIBED | (i == 1 ? 5 : 6) << 8 | symbols << 16;
        } else if (mode == 1) {
            if (at >= end) return false;
            const u32 symbol = vcz_zstd_byte(z, at);
            at += 1;
            if (symbol > max_symbol) return false;
            described = VCZ_ZSTD_ONE | symbol << 16;
        } else if (mode == 2) {
            u32 log;
            const u32 symbols = vcz_zstd_describe(z, at, end, max_symbol, i == 1 ? 8 : 9, log);
            if (symbols == 0) return false;
            described = VCZ_ZSTD_DESCRIBED | log << 8 | symbols << 16;
        } else if ((described & 0xff) == VCZ_ZSTD_DESCRIBED) {
            for (u32 j = lane; j < VCZ_ZSTD_MAX_SYMBOLS; j += 32) s.probabilities[j] = z.history->probabilities[i][j];
            __syncwarp();
        }
        const u32 kind = described & 0xff, symbols = described >> 16;
        logs[i] = described >> 8 & 0xff;
        if (lane == 0) s.described[i] = described;
        if (kind == VCZ_ZSTD_NONE) return false;
        if (kind == VCZ_ZSTD_ONE) {
            if (lane == 0) cells[0] = VCZ_ZSTD_CELL(vcz_zstd_more(i, symbols), 0, 0, symbols);
            continue;
        }
        if (mode != 3) {
            for (u32 j = lane; j < symbols; j += 32) z.history->probabilities[i][j] = s.probabilities[j];
        }
        vcz_zstd_table(s, cells, symbols, logs[i], i);
    }
    __syncwarp();
    return true;
}

// Decodes the compressed block at `at`, before `end`.
static __device__ bool vcz_zstd_block(VczZstd& z, u32 at, u32 end) {
    if (at >= end) return false;
    const u32 size = end - at;
    const u32 first = vcz_zstd_byte(z, at);
    const u32 type = first & 3, format = first >> 2 & 3;
    const u8* literals = z.literals;
    u32 n_literals;
    if (type < 2) {
        const u32 header = format == 1 ? 2 : format == 3 ? 3 : 1;
        if (header > size) return false;
        n_literals = vcz_zstd_number(z, at, header) >> (header == 1 ? 3 : 4);
        at += header;
        const u32 bytes = type == 0 ? n_literals : 1;
        if (bytes > end - at || n_literals > z.block_max || n_literals > z.room - z.at) return false;
        if (type == 0) {
            literals = z.src + at;
        } else {
            vcz_zstd_fill(z.literals, n_literals, vcz_zstd_byte(z, at));
        }
        at += bytes;
    } else {
        const u32 header = format < 2 ? 3 : format + 2, bits = format < 2 ? 10 : format == 2 ? 14 : 18;
        if (header > size || size < 5) return false;
        u64 sizes = vcz_zstd_number(z, at, vcz_min(header, 4));
        if (header == 5) sizes |= (u64)vcz_zstd_byte(z, at + 4) << 32;
        n_literals = (u32)(sizes >> 4) & ((1u << bits) - 1);
        const u32 bytes = (u32)(sizes >> (4 + bits)) & ((1u << bits) - 1);
        at += header;
        if (bytes > end - at || n_literals > z.block_max || n_literals > z.room - z.at || n_literals == 0) return false;
        if (!vcz_zstd_literals(z, at, at + bytes, n_literals, format != 0, type == 3)) return false;
        at += bytes;
    }
    __syncwarp();
    if (at >= end) return false;
    u32 n = vcz_zstd_byte(z, at);
    at += 1;
    if (n >= 128) {
        const u32 more = n == 255 ? 2 : 1;
        if (more > end - at) return false;
        n = n == 255 ? vcz_zstd_number(z, at, 2) + 0x7f00 : (n - 128) << 8 | vcz_zstd_byte(z, at);
        at += more;
    }
    const u32 start = z.at;
    if (n == 0) {
        if (at != end || n_literals > z.room - z.at) return false;
        vcz_zstd_copy(z.out + z.at, literals, n_literals);
        z.at += n_literals;
    } else {
        u32 logs[3];
        if (!vcz_zstd_tables(z, at, end, logs) || !vcz_zstd_sequences(z, at, end, n, logs, literals, n_literals)) return false;
    }
    return z.at - start <= z.block_max;
}

// Decodes a frame that says that it holds as many bytes as there is room for.
static __device__ bool vcz_zstd_frame(VczZstd& z) {
    if (z.len < 6 || vcz_zstd_number(z, 0, 4) != VCZ_ZSTD_MAGIC) return false;
    const u32 descriptor = vcz_zstd_byte(z, 4);
    // The reserved bit, a checksum, a dictionary.
    if ((descriptor & 0x0f) != 0) return false;
    const bool single_segment = (descriptor & 0x20) != 0;
    u32 at = 5;
    u64 window = z.room;
    if (!single_segment) {
        const u32 byte = vcz_zstd_byte(z, at);
        at += 1;
        if (10 + (byte >> 3) > 31) return false;
        window = (u64)(8 + (byte & 7)) << (7 + (byte >> 3));
    }
    const u32 width = descriptor >> 6 == 0 ? (single_segment ? 1 : 0) : 1u << (descriptor >> 6);
    if (width == 0 || width > z.len - at) return false;
    const u32 low = vcz_zstd_number(z, at, vcz_min(width, 4)), high = width == 8 ? vcz_zstd_number(z, at + 4, 4) : 0;
    if (high != 0 || low + (width == 2 ? 256 : 0) != z.room) return false;
    at += width;
    z.block_max = window < VCZ_ZSTD_BLOCK ? (u32)window : VCZ_ZSTD_BLOCK;
    for (bool last = false; !last;) {
        if (z.len - at < 3) return false;
        const u32 header = vcz_zstd_number(z, at, 3), type = header >> 1 & 3, size = header >> 3;
        last = (header & 1) != 0;
        at += 3;
        const u32 bytes = type == 1 ? 1 : size;
        if (size > z.block_max || bytes > z.len - at || type == 3) return false;
        // Matches may repeat what other lanes wrote for the block before.
        __syncwarp();
        if (type == 2) {
            if (!vcz_zstd_block(z, at, at + bytes)) return false;
        } else {
            if (size > z.room - z.at) return false;
            if (type == 0) {
                vcz_zstd_copy(z.out + z.at, z.src + at, size);
            } else {
                vcz_zstd_fill(z.out + z.at, size, vcz_zstd_byte(z, at));
            }
            z.at += size;
        }
        at += bytes;
    }
    return z.at == z.room && at == z.len;
}

// Takes frames as long as there are any: `next` is how many were taken but for the first of each warp, 0 before the launch. CTAs of VCZ_ZSTD_WARPS warps, and
// one more, which reads for them. Each of the others has `literals` bytes of `scratch`, and VCZ_ZSTD_HISTORY more: a multiple of 16, no fewer
// than the smaller of VCZ_ZSTD_BLOCK and what any of the frames decodes to, for no block has more literals than that.
extern "C" __global__ void __launch_bounds__(32 * (VCZ_ZSTD_WARPS + 1), VCZ_ZSTD_CTAS)
    vcz_zstd(const VczFrame* __restrict__ frames, u32 n, u32* next, u64 scratch, u32 literals, u32* status) {
    __shared__ VczZstdTables tables[VCZ_ZSTD_WARPS];
    const u32 warp = threadIdx.x / 32;
    if (threadIdx.x < VCZ_ZSTD_WARPS) {
        VczZstdRing& ring = tables[threadIdx.x].ring;
        ring.started.start();
        for (u32 i = 0; i < 2; ++i) {
            ring.filled[i].start();
            ring.emptied[i].start();
        }
    }
    __syncthreads();
    if (warp == VCZ_ZSTD_WARPS) {
        vcz_zstd_read(tables);
        return;
    }
    const u64 own = scratch + (u64)(blockIdx.x * VCZ_ZSTD_WARPS + warp) * (literals + VCZ_ZSTD_HISTORY);
    VczZstd z;
    z.fills = 0;
    z.literals = (u8*)own;
    z.history = (VczZstdHistory*)(own + literals);
    z.tables = &tables[warp];
    // Few frames go to many CTAs.
    for (u32 i = blockIdx.x + gridDim.x * warp; i < n;) {
        const VczFrame frame = frames[i];
        z.src = vcz_bytes(frame.src);
        z.len = frame.src_len;
        z.out = (u8*)frame.dst;
        z.room = frame.dst_len;
        z.at = 0;
        z.block_max = 0;
        if (vcz_lane() == 0) {
            z.tables->weights = 0;
            for (u32 j = 0; j < 3; ++j) {
                z.tables->described[j] = VCZ_ZSTD_NONE;
                z.tables->recent[j] = j == 0 ? 1 : 4 * j;
            }
        }
        if (!vcz_zstd_frame(z) && vcz_lane() == 0) atomicOr(&status[frame.status], VCZ_BAD_FRAME);
        if (vcz_lane() == 0) i = gridDim.x * VCZ_ZSTD_WARPS + atomicAdd(next, 1u);
        i = __shfl_sync(VCZ_ALL_LANES, i, 0);
    }
    if (vcz_lane() == 0) z.tables->ring.n = 0;
    z.tables->ring.started.raise();
}
