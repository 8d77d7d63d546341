// The sequences of zstd blocks. One warp of a CTA reads those of all other warps, a lane for each warp; the others execute them.
#ifndef VCZ_ZSTD_SEQUENCES_CUH
#define VCZ_ZSTD_SEQUENCES_CUH
#include "zstd_execute.cuh"

// The last three offsets after some sequences. Each is an offset or, with the highest bit set, a reference to one of the three before
// them (bits 0-1) minus a number (from bit 2).
struct VczZstdRecent {
    u32 first, second, third;

    static constexpr u32 BEFORE = 1u << 31;

    // A value v > 3 is the new offset v - 3; 1 to 3 repeat a recent offset. Without literals, 1 and 2 mean the second and third, and 3 the
    // latest - 1.
    static __device__ __forceinline__ VczZstdRecent after(u32 value, bool literals) {
        const u32 which = value - literals;
        // Larger offsets do not fit in any frame.
        if (value > 3) return {vcz_min(value - 3, BEFORE - 1), BEFORE, BEFORE | 1};
        if (which == 0) return {BEFORE, BEFORE | 1, BEFORE | 2};
        return {which == 3 ? BEFORE | 1 << 2 : BEFORE | which, BEFORE, which == 1 ? BEFORE | 2 : BEFORE | 1};
    }

    // Resolves `x`, relative to these offsets, to an offset or a reference to the earlier ones.
    __device__ __forceinline__ u32 of(u32 x) const {
        const u32 which = x & 3, less = x >> 2 & 0xff, is = which == 0 ? first : which == 1 ? second : third;
        if ((x & BEFORE) == 0) return x;
        return (is & BEFORE) == 0 ? is - less : is + (less << 2);
    }

    // Combined over the sequences of all lanes up to this one.
    __device__ __forceinline__ VczZstdRecent running() const {
        VczZstdRecent all = *this;
        const u32 lane = vcz_lane();
#pragma unroll
        for (u32 step = 1; step < 32; step <<= 1) {
            const u32 from = (lane - step) & 31;
            const VczZstdRecent before = {__shfl_sync(VCZ_ALL_LANES, all.first, from), __shfl_sync(VCZ_ALL_LANES, all.second, from),
                                          __shfl_sync(VCZ_ALL_LANES, all.third, from)};
            if (lane >= step) all = {before.of(all.first), before.of(all.second), before.of(all.third)};
        }
        return all;
    }
};

// Reads the sequences of one warp's blocks, by one lane.
struct VczZstdReader {
    VczZstdTables* tables;
    u32 cells, offsets, stream;  // addresses of the first of VczZstdCells
    VczZstdPlaces places;
    i32 bit, start;              // the next bit of the stream, and the last one
    u32 high, low;               // the word with the next bit, and the word before it
    i32 there;                   // the last piece of the stream that is in shared memory
    uint4 before, before_that;   // the two pieces that come next
    u32 offset, length, match;   // cells of the three states
    u32 left;                    // unread sequences of the stream
    u32 some, i;                 // size of the half that is being filled (0: none), and sequences in it
    u32 streams, fills;          // number so far

    __device__ __forceinline__ VczZstdReader(VczZstdTables* tables, const VczZstdCells& all, u32 warp)
        : tables(tables + warp), cells(vcz_shared_address(all.sequences[warp])), offsets(vcz_shared_address(all.offsets[warp])),
          stream(vcz_shared_address(all.streams[warp])), places(nullptr), bit(0), start(0), high(0), low(0), there(0), before(), before_that(), offset(0), length(0),
          match(0), left(0), some(0), i(0), streams(0), fills(0) {}

    // Looks for a stream to read; false if there will be no more.
    __device__ __forceinline__ bool look() {
        VczZstdRing& ring = tables->ring;
        if (left == 0) {
            if (!ring.started.raised(streams + 1)) return true;
            streams += 1;
            left = ring.n;
            if (left == 0) return false;
            const u8* src = (const u8*)ring.src;
            if (!VczZstdPlaces::end(src, ring.len, bit)) {
                left = 0;
                publish(false);
                return true;
            }
            places = VczZstdPlaces(src);
            start = VczZstdPlaces::start(src);
            there = (bit >> 7) + 1;
            before = places.piece(there - 1);
            before_that = places.piece(there - 2);
            fetch();
            // At most 26 bits.
            const u32 first = ring.logs[0], second = ring.logs[1], third = ring.logs[2], states = window(bit);
            bit -= (i32)(first + second + third);
            follow(0, 0, 0, __funnelshift_rc(states, 0, 32 - first) << 2, __funnelshift_rc(states << first, 0, 32 - second) << 2,
                   __funnelshift_rc(states << first << second, 0, 32 - third) << 2);
            load(bit);
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

    // Refills the ring two pieces at a time, over pieces already read. At least five whole pieces and the current one are then unread.
    __device__ __forceinline__ void fetch() {
#pragma unroll 1
        while (there > (bit >> 7) - (VCZ_ZSTD_PIECES - 2)) {
            there -= 2;
            vcz_shared_put(stream | ((u32)(there + 1) % VCZ_ZSTD_PIECES * 16), before);
            vcz_shared_put(stream | ((u32)there % VCZ_ZSTD_PIECES * 16), before_that);
            before = places.piece(there - 1);
            before_that = places.piece(there - 2);
        }
    }

    // The word with a bit, and the word before it.
    __device__ __forceinline__ void load(i32 of) {
        const u32 mask = 16 * VCZ_ZSTD_PIECES - 4, at = (u32)(of >> 3);
        high = vcz_shared_word(stream | (at & mask));
        low = vcz_shared_word(stream | ((at - 4) & mask));
    }

    // The 32 bits from `of` on downwards.
    __device__ __forceinline__ u32 window(i32 of) {
        load(of);
        return __funnelshift_l(low, high, (u32)~of & 31);
    }

    // Looks up the next states; each `more_...` is four times the added bits.
    __device__ __forceinline__ void follow(u32 to_length, u32 to_offset, u32 to_match, u32 more_length, u32 more_offset, u32 more_match) {
        const u32 none = 4 * (VCZ_ZSTD_MAX_STATES - 1);
        length = vcz_shared_word(more_length | (to_length >> 8 & none) | cells);
        offset = vcz_shared_word(more_offset | (to_offset >> 8 & none) | offsets);
        match = vcz_shared_word((more_match | (to_match >> 8 & none) | cells) + 4 * VCZ_ZSTD_MAX_STATES);
    }

    // Reads the bits of one sequence: its values, skipped here, then those of the next states (lowest).
    __device__ __forceinline__ void step(uint4& read) {
        const u32 offset_was = offset, match_was = match, length_was = length;
        const i32 bit_was = bit;
        const u32 fewer = VCZ_ZSTD_FEWER(offset + match + length);
        const u32 bits1 = VCZ_ZSTD_BITS(offset), bits2 = VCZ_ZSTD_BITS(match), bits3 = VCZ_ZSTD_BITS(length);
        const u32 mask1 = (4u << bits1) - 4, mask2 = (4u << bits2) - 4, mask3 = (4u << bits3) - 4;
        // Where the bits of the states start in both words, less two, for the factor of four.
        const i32 from = (bit & 31) + 31 - 3 * VCZ_ZSTD_MOST + (i32)fewer;
        follow(length, offset, match, vcz_zstd_shifted(low, high, (u32)from + bits1 + bits2) & mask3, vcz_zstd_shifted(low, high, (u32)from) & mask1,
               vcz_zstd_shifted(low, high, (u32)from + bits1) & mask2);
        bit += (i32)fewer - 3 * VCZ_ZSTD_MOST;
        load(bit);
        read = {offset_was, match_was, length_was, (u32)bit_was};
        if (from < 0) {
            // Too many bits for two words.
            const u32 n = bits1 + bits2 + bits3, states = __funnelshift_rc(window(bit + (i32)n), 0, 32 - n);
            follow(length_was, offset_was, match_was, states >> (bits1 + bits2) << 2 & mask3, states << 2 & mask1, states >> bits1 << 2 & mask2);
            load(bit);
        }
    }

    // Eight sequences have at most 8 * 89 bits and may start at the lowest bit of a piece; two words are read ahead.
    static_assert(8 * 89 + 24 + 32 <= 128 * (VCZ_ZSTD_PIECES - 2), "what is read is there");

    // Reads the next eight sequences of the half, or its remaining ones.
    __device__ __forceinline__ void steps() {
        uint4* read = tables->read[fills & 1] + i;
        const u32 n = vcz_min(8, some - i);
        fetch();
#pragma unroll 2
        for (u32 j = 0; j < n; ++j) step(read[j]);
        i += n;
        if (i < some) return;
        left -= some;
        some = 0;
        // The last sequence has no state bits, and no bits are left after it.
        const uint4 last = read[n - 1];
        const i32 states = left == 0 ? (i32)(VCZ_ZSTD_BITS(last.x) + VCZ_ZSTD_BITS(last.y) + VCZ_ZSTD_BITS(last.z)) : 0, rest = bit + states - start + 1;
        const bool fine = left == 0 ? rest == 0 : rest >= 0;
        if (!fine) left = 0;
        publish(fine);
    }
};

// Reads the sequences of all warps of the CTA, a lane for each, until there are no more.
static __device__ void vcz_zstd_read(VczZstdTables* tables, const VczZstdCells& cells) {
    const u32 lane = vcz_lane();
    VczZstdReader reader(tables, cells, lane < VCZ_ZSTD_WARPS ? lane : 0);
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

// Executes the `n` sequences of the bit stream of `len` bytes at `src`, with `n_literals` literals; `logs` has a byte for each table.
static __device__ __forceinline__ bool vcz_zstd_sequences(VczZstd& z, const u8* src, u32 len, u32 n, u32 logs, const u8* literals, u32 n_literals) {
    const u32 lane = vcz_lane();
    VczZstdTables& s = *z.tables;
    VczZstdRing& ring = s.ring;
    if (lane == 0) {
        ring.src = (u64)src;
        ring.len = len;
        ring.n = n;
        for (u32 i = 0; i < 3; ++i) ring.logs[i] = logs >> (8 * i) & 0xff;
    }
    ring.started.raise();
    const VczZstdPlaces places(src);
    u8* const out = z.out;
    const u32 room = z.room;
    u32 at = z.at, literal = 0, fills = z.fills;
    bool good = true;
    for (u32 left = n; left != 0;) {
        const u32 some = vcz_min(32, left), half = fills & 1;
        left -= some;
        fills += 1;
        for (;;) {
            // Every lane checks for itself.
            const bool filled = ring.filled[half].raised((fills + 1) / 2);
            if (__any_sync(VCZ_ALL_LANES, !filled) == 0) break;
            __nanosleep(40);
        }
        const bool fine = ring.fine[half] != 0;
        // Lanes without a sequence repeat the latest offset without effect.
        u32 value = 1, matches = 0, lengths = 0;
        if (fine && lane < some) {
            const uint4 read = s.read[half][lane];
            u64 wide = places.wide((i32)read.w);
            value = (1u << VCZ_ZSTD_CODE(read.x)) + vcz_zstd_first(wide, VCZ_ZSTD_MORE(read.x));
            wide <<= VCZ_ZSTD_MORE(read.x);
            matches = vcz_zstd_matches[vcz_min(VCZ_ZSTD_CODE(read.y), 52)] + vcz_zstd_first(wide, VCZ_ZSTD_MORE(read.y));
            wide <<= VCZ_ZSTD_MORE(read.y);
            lengths = vcz_zstd_lengths[vcz_min(VCZ_ZSTD_CODE(read.z), 35)] + vcz_zstd_first(wide, VCZ_ZSTD_MORE(read.z));
        }
        ring.emptied[half].raise();
        if (!fine) {
            z.fills = fills;
            return false;
        }
        // The remaining sequences are taken too, to stay in step with the reading lane.
        if (!good) continue;
        const VczZstdRecent recent = {s.recent[0], s.recent[1], s.recent[2]};
        const VczZstdRecent after = VczZstdRecent::after(value, lane >= some || lengths != 0).running();
        const u32 offset = recent.of(after.first);
        __syncwarp();
        if (lane == 31) {
            s.recent[0] = offset;
            s.recent[1] = recent.of(after.second);
            s.recent[2] = recent.of(after.third);
        }
        // 32 sequences have fewer than 2^24 bytes, and the output fewer than 2^31.
        const u32 literals_to = literal + vcz_zstd_running_sum(lengths), to = at + vcz_zstd_running_sum(lengths + matches);
        literal = __shfl_sync(VCZ_ALL_LANES, literals_to, 31);
        at = __shfl_sync(VCZ_ALL_LANES, to, 31);
        const bool bad = matches != 0 && offset - 1 >= to - matches;
        good = !__any_sync(VCZ_ALL_LANES, bad) && at <= room && literal <= n_literals;
        if (good) vcz_zstd_execute(out, to - matches - lengths, literals + literals_to - lengths, lengths, matches, offset);
    }
    z.fills = fills;
    const u32 rest = n_literals - literal;
    if (!good || rest > room - at) return false;
    vcz_zstd_copy(out + at, literals + literal, rest);
    z.at = at + rest;
    return true;
}

#endif
