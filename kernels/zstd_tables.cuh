// The tables of a zstd block, for sequences (FSE) and literals (Huffman), built from their descriptions by all lanes.
#ifndef VCZ_ZSTD_TABLES_CUH
#define VCZ_ZSTD_TABLES_CUH
#include "zstd_state.cuh"

// Reads the description of a table at `at`, before `end`, into `probabilities`: of symbols up to `max_symbol`, of at most `max_log` bits.
// The number of symbols, and `log`; 0 if it is not valid. `at` is then after it.
static __device__ u32 vcz_zstd_describe(const VczZstd& z, u32& at, u32 end, u32 max_symbol, u32 max_log, u32& log) {
    i16* probabilities = z.tables->probabilities;
    __syncwarp();
    const u32 first = at;
    const u32 bytes = end - first;
    // Up to 16 bits; bits past the end are zeros.
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
        // A value from 0 to `left + 1`; smaller values take one bit less.
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

// Builds a table from the probabilities of `n` symbols (`s.probabilities`), whose sum is `1 << log`; -1 stands for less than one.
static __device__ __noinline__ void vcz_zstd_table(VczZstdTables& s, u32* cells, u32 n, u32 log, u32 table) {
    const u32 size = 1u << log, lane = vcz_lane();
    __syncwarp();
    // Each symbol repeated for its number of states, in order; "less than one" symbols at the end.
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
    // Spreads the other symbols over the states below those of "less than one" symbols. A table has at least 32 states.
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

// Builds the table of Huffman codes from all weights but the last (`s.in_order`), which follows from the others. Returns the bits of the
// longest code; 0 if the weights are not valid.
static __device__ u32 vcz_zstd_huffman(VczZstdTables& s, u16* cells, u32 n) {
    const u32 lane = vcz_lane();
    u8* weights = s.in_order;
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
    // Longer codes come first. The sum of the weights, a power of two, is the size of the table.
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
    vcz_zstd_table(s, z.cells, symbols, log, 3);
    at = stop;
    // Two states alternate. When too few bits are left for one, the other has the last symbol.
    u32 state = bits.take(log), other = bits.take(log), n = 0;
    for (;;) {
        if (n + 2 > 255) return 0;
        const u32 cell = z.cells[state];
        if (vcz_lane() == 0) weights[n] = (u8)VCZ_ZSTD_CODE(cell);
        n += 1;
        if (bits.left() < (i32)VCZ_ZSTD_BITS(cell)) break;
        state = other;
        other = VCZ_ZSTD_NEXT(cell) + bits.take(VCZ_ZSTD_BITS(cell));
    }
    if (vcz_lane() == 0) weights[n] = (u8)VCZ_ZSTD_CODE(z.cells[other]);
    __syncwarp();
    return n + 1;
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
        u32* cells = i == 0 ? z.cells : i == 1 ? z.offsets : z.cells + VCZ_ZSTD_MAX_STATES;
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

#endif
