// Executes 32 sequences of a zstd block: writes literals and matches.
#ifndef VCZ_ZSTD_EXECUTE_CUH
#define VCZ_ZSTD_EXECUTE_CUH
#include "zstd_state.cuh"

// Most bytes of literals or a match that one lane copies.
#define VCZ_ZSTD_SHORT 64
// A repetition with a shorter period is first extended to this many bytes.
#define VCZ_ZSTD_PERIOD 512

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

// Copies `len` bytes by all lanes; source and target do not overlap. Source words are read whole. The first and last bytes are read
// before any is written, so that memory is waited for once.
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
        // Exact for numbers below 1,024 and offsets below 512: the error is less than 2^-20 for each, of 2^-9 that are free.
        const u32 inverse = (1u << 20) / offset + 1;
        const u32 span = ((VCZ_ZSTD_PERIOD + offset - 1) * inverse >> 20) * offset;
        done = vcz_min(len, span);
        for (u32 i = vcz_lane(); i < done; i += 32) {
            const u8 byte = *(to - offset + (i - (i * inverse >> 20) * offset));
            to[i] = byte;
        }
        period = span;
        __syncwarp();
    }
    // Each step copies all bytes of the repetition so far.
    while (done < len) {
        const u32 n = vcz_min(period, len - done);
        vcz_zstd_copy(to + done, to + done - period, n);
        __syncwarp();
        done += n;
        period = offset < VCZ_ZSTD_PERIOD ? done : done + offset;
    }
}

// Writes a short match that overlaps its source with this lane, eight bytes at a time: the source of each eight is written by then.
VCZ_DEVICE void vcz_zstd_repeat_within(u8* to, u32 offset, u32 len) {
    for (u32 i = 0; i < len; i += 8) {
        const u64 from = (u64)to + i - offset;
        const u32* words = (const u32*)(from & ~(u64)3);
        const u32 left = len - i, before = (u32)(from & 3), shift = 8 * before, there = vcz_min(left, offset) + before;
        const u32 a = words[0], b = there > 4 ? words[1] : 0, c = there > 8 ? words[2] : 0;
        u32 low = __funnelshift_r(a, b, shift), high = __funnelshift_r(b, c, shift);
        if (offset < 8) {
            // Repeats the bytes to fill eight; from then on the offset is that of whole repetitions, eight bytes or more.
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

// Writes a match of at least 3 bytes with this lane, four aligned words at a time. Requires that all source bytes are written, or that
// the source is 16 or more bytes before, or that the offset divides a word.
VCZ_DEVICE void vcz_zstd_repeat_short(u8* to, u32 offset, u32 len) {
    // Positions count from the first word of the output, whose first `skip` bytes are not of the match.
    const u32 skip = (u32)((u64)to & 3), end = skip + len;
    u32* out = (u32*)(to - skip);
    const u64 from = (u64)out - offset;
    const u32 before = (u32)(from & 3), shift = 8 * before;
    const u32* words = (const u32*)(from - before);
    const bool same = offset <= 4 && offset < len;
    u32 last = 0;
    u32 w[5];
    if (same) {
        // One word is repeated.
        u32 bytes = 0;
        for (u32 i = 0; i < 4; ++i) bytes |= (u32) * (to - offset + (i & (offset - 1))) << (8 * ((skip + i) & 3));
        for (u32 j = 0; j < 5; ++j) w[j] = bytes;
    }
#pragma unroll 1
    for (u32 i = 0; i < end; i += 16, out += 4, words += 4) {
        if (!same) {
            // Source words with repeated bytes.
#pragma unroll
            for (u32 j = 0; j < 5; ++j) {
                const bool needed = j == 0 ? i + 4 > before + skip : i + 4 * j < before + end;
                w[j] = needed ? words[j] : 0;
            }
#pragma unroll
            for (u32 j = 0; j < 4; ++j) w[j] = __funnelshift_r(w[j], w[j + 1], shift);
        }
#pragma unroll
        for (u32 j = 0; j < 4; ++j) {
            const u32 at = i + 4 * j;
            if ((j != 0 || at >= skip) && at + 4 <= end) out[j] = w[j];
            if (at + 4 > end && at < end) last = w[j];
        }
        if (i < skip) {
            if (skip & 1) ((u8*)out)[skip] = (u8)(w[0] >> 8 * skip);
            if (skip < 3) ((u16*)out)[1] = (u16)(w[0] >> 16);
        }
    }
    u8* rest = to - skip + (end & ~3u);
    if (end & 2) *(u16*)rest = (u16)last;
    if (end & 1) rest[end & 2] = (u8)(last >> 8 * (end & 2));
}

// For each lane, as bits, the earlier lanes whose matches overlap this lane's source [from, end). A lane's match occupies [to, next).
VCZ_DEVICE u32 vcz_zstd_needed(u32 from, u32 end, u32 to, u32 next) {
    // All bytes before a round's first match have been written.
    if (!__any_sync(VCZ_ALL_LANES, end > __shfl_sync(VCZ_ALL_LANES, to, 0))) return 0;
    // `over`: lanes whose matches end before this lane's source. `begun`: lanes whose matches start before its end.
    u32 over = 0, begun = 0;
#pragma unroll
    for (u32 step = 16; step > 0; step /= 2) {
        const u32 other_next = __shfl_sync(VCZ_ALL_LANES, next, over + step - 1), other_to = __shfl_sync(VCZ_ALL_LANES, to, begun + step - 1);
        if (other_next <= from) over += step;
        if (other_to < end) begun += step;
    }
    return ((1u << begun) - 1) & ~((1u << over) - 1) & vcz_zstd_before();
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
    // A match that overlaps its source does not wait for its own bytes.
    const u32 needed = vcz_zstd_needed(from, from + vcz_min(matches, offset), to, to + matches);
    for (u32 waiting = __ballot_sync(VCZ_ALL_LANES, matches > 0); waiting != 0;) {
        // At least the first waiting lane is ready, since it needs no later one.
        const bool ready = (waiting >> lane & 1) != 0 && (waiting & needed) == 0;
        if (ready && matches <= VCZ_ZSTD_SHORT) {
            // Derived values are computed again here, to save registers.
            u32 start = to, distance = offset;
            asm volatile("" : "+r"(start), "+r"(distance));
            if (distance < 16 && distance < matches && (distance > 4 || distance == 3)) {
                vcz_zstd_repeat_within(out + start, distance, matches);
            } else {
                vcz_zstd_repeat_short(out + start, distance, matches);
            }
        }
        for (u32 many = __ballot_sync(VCZ_ALL_LANES, ready && matches > VCZ_ZSTD_SHORT); many != 0; many &= many - 1) {
            const u32 of = (u32)__ffs((i32)many) - 1;
            vcz_zstd_repeat(out + __shfl_sync(VCZ_ALL_LANES, to, of), __shfl_sync(VCZ_ALL_LANES, offset, of), __shfl_sync(VCZ_ALL_LANES, matches, of));
        }
        waiting &= ~__ballot_sync(VCZ_ALL_LANES, ready);
        __syncwarp();
    }
}

#endif
