// The sequences of zstd blocks: read by a warp for all others of its CTA, a lane each, and executed by these.
#ifndef VCZ_ZSTD_SEQUENCES_CUH
#define VCZ_ZSTD_SEQUENCES_CUH
#include "zstd_execute.cuh"

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

#endif
