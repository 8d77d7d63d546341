// Writes what 32 sequences of a zstd block stand for: literals, and repetitions of what is there.
#ifndef VCZ_ZSTD_EXECUTE_CUH
#define VCZ_ZSTD_EXECUTE_CUH
#include "zstd_state.cuh"

// Literals and matches that a lane copies alone have no more bytes.
#define VCZ_ZSTD_SHORT 40
// A repetition of a shorter period is first written out to as many bytes.
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

#endif
