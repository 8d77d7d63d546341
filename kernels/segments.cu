// Copies and zero-fills on the device, many in one launch: stored (not compressed) blocks, absent chunks, gathered zero planes.
#include "vcz.cuh"

// Copies `len` bytes by the threads `thread` of `threads`. Source words are read whole; bytes outside of the target are not
// written.
VCZ_DEVICE void vcz_copy(u64 dst, u64 src, u64 len, u32 thread, u32 threads) {
    u64 head = (16 - (dst & 15)) & 15;
    if (head > len) head = len;
    const u64 vectors = (len - head) / 16;
    u8* out = (u8*)dst;
    const u8* in = vcz_bytes(src);
    for (u64 i = thread; i < head; i += threads) out[i] = __ldg(in + i);
    uint4* to = (uint4*)(dst + head);
    const u64 from = src + head;
    if ((from & 15) == 0) {
        for (u64 i = thread; i < vectors; i += threads) to[i] = __ldg((const uint4*)from + i);
    } else {
        const u32* words = (const u32*)(from & ~(u64)3);
        const u32 shift = 8 * (u32)(from & 3);
        for (u64 i = thread; i < vectors; i += threads) {
            const u32* word = words + 4 * i;
            u32 x[5];
            for (int j = 0; j < 4; ++j) x[j] = __ldg(word + j);
            x[4] = shift == 0 ? 0 : __ldg(word + 4);
            uint4 v;
            v.x = __funnelshift_r(x[0], x[1], shift);
            v.y = __funnelshift_r(x[1], x[2], shift);
            v.z = __funnelshift_r(x[2], x[3], shift);
            v.w = __funnelshift_r(x[3], x[4], shift);
            to[i] = v;
        }
    }
    for (u64 i = head + 16 * vectors + thread; i < len; i += threads) out[i] = __ldg(in + i);
}

VCZ_DEVICE void vcz_zero(u64 dst, u64 len, u32 thread, u32 threads) {
    u64 head = (16 - (dst & 15)) & 15;
    if (head > len) head = len;
    const u64 vectors = (len - head) / 16;
    u8* out = (u8*)dst;
    for (u64 i = thread; i < head; i += threads) out[i] = 0;
    uint4* to = (uint4*)(dst + head);
    uint4 zero;
    zero.x = zero.y = zero.z = zero.w = 0;
    for (u64 i = thread; i < vectors; i += threads) to[i] = zero;
    for (u64 i = head + 16 * vectors + thread; i < len; i += threads) out[i] = 0;
}

// One CTA per segment; cut long segments (a few hundred KiB) so that many CTAs work on them.
extern "C" __global__ void __launch_bounds__(VCZ_THREADS) vcz_segments(const VczSegment* __restrict__ segments, u32 n) {
    for (u32 i = blockIdx.x; i < n; i += gridDim.x) {
        const VczSegment segment = segments[i];
        if (segment.src == 0) {
            vcz_zero(segment.dst, segment.len, threadIdx.x, blockDim.x);
        } else {
            vcz_copy(segment.dst, segment.src, segment.len, threadIdx.x, blockDim.x);
        }
    }
}
