// Work before and after frames are decoded: copies and zero-fills of bytes that are not compressed, and checks of the decoded
// bytes: nvCOMP's status and size of every frame, the known bytes of cut frames, and the checksums that nvCOMP does not verify
// (Adler-32 at the end of zlib streams, CRC-32 of gzip members).
#include "vcz.cuh"

// Copies `len` bytes by the threads `thread` of `threads`, to where none is read from. Source words are read whole; bytes outside of the
// target are not written.
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

extern "C" __global__ void __launch_bounds__(VCZ_THREADS)
    vcz_check_frames(const i32* __restrict__ nvcomp_status, const u64* __restrict__ actual, const u64* __restrict__ expected,
                     const u32* __restrict__ frame_status_index, u32 n, u32* status) {
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        if (nvcomp_status[i] != 0 || actual[i] != expected[i]) atomicOr(&status[frame_status_index[i]], VCZ_BAD_FRAME);
    }
}

#define VCZ_ADLER_BASE 65521u
// The CRC-32 polynomial without its highest term, and 1: the highest bit of a word is the constant term.
#define VCZ_CRC_POLY 0xedb88320u
#define VCZ_CRC_ONE 0x80000000u
// Bytes that a CTA processes at once, a word per thread.
#define VCZ_CRC_STRIDE (4 * VCZ_THREADS)

// The product of two polynomials modulo the CRC's.
VCZ_DEVICE u32 vcz_crc_multiply(u32 a, u32 b) {
    u32 product = 0;
    for (u32 i = 0; i < 32; ++i) {
        product ^= (a & (VCZ_CRC_ONE >> i)) != 0 ? b : 0;
        b = (b >> 1) ^ ((b & 1) != 0 ? VCZ_CRC_POLY : 0);
    }
    return product;
}

// x to the power 32 n.
VCZ_DEVICE u32 vcz_crc_words(u32 n) {
    u32 power = VCZ_CRC_ONE, square = VCZ_CRC_POLY;  // x^32
    for (; n != 0; n >>= 1) {
        if ((n & 1) != 0) power = vcz_crc_multiply(power, square);
        square = vcz_crc_multiply(square, square);
    }
    return power;
}

// The CRC-32 of `len` bytes, in thread 0. A thread takes every 256th word: before it adds a word, it multiplies its remainder by
// x^(32 * 256), with a table. At the end the remainders of all threads are moved to their places and added.
VCZ_DEVICE u32 vcz_crc32(u64 data, u64 len, u32 (&table)[4][256], u32& sum) {
    __syncthreads();  // other threads may still read the sum of the previous check
    const u32 step = vcz_crc_words(VCZ_THREADS);
    for (u32 byte = 0; byte < 4; ++byte) table[byte][threadIdx.x] = vcz_crc_multiply(threadIdx.x << (8 * byte), step);
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    const u64 words = len / 4;
    u32 mine = 0;
    for (u64 i = threadIdx.x; i < words; i += VCZ_THREADS) {
        const u32 word = vcz_load_4(data + 4 * i) ^ (i == 0 ? VCZ_ALL_LANES : 0);
        mine = table[0][mine & 0xff] ^ table[1][(mine >> 8) & 0xff] ^ table[2][(mine >> 16) & 0xff] ^ table[3][mine >> 24] ^ word;
    }
    if (threadIdx.x < words) {
        // Words from this thread's last one on, at most 256.
        const u32 after = (u32)(words - threadIdx.x - 1) % VCZ_THREADS + 1;
        atomicXor(&sum, vcz_crc_multiply(mine, vcz_crc_words(after)));
    }
    __syncthreads();
    u32 crc = words == 0 ? VCZ_ALL_LANES : sum;
    for (u64 i = 4 * words; i < len; ++i) {
        crc ^= __ldg(vcz_bytes(data + i));
        for (u32 bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? VCZ_CRC_POLY : 0);
    }
    return ~crc;
}

// The Adler-32 of `len` bytes, in every thread: b sums every byte times the number of bytes from it to the end.
VCZ_DEVICE u32 vcz_adler32(u64 data, u64 len, u32& sum_a, u32& sum_b) {
    __syncthreads();  // other threads may still read the sum of the previous check
    if (threadIdx.x == 0) sum_a = sum_b = 0;
    __syncthreads();
    const u64 words = len / 4;
    u64 a = 0, b = 0;
    for (u64 i = threadIdx.x; i < words; i += VCZ_THREADS) {
        const u32 word = vcz_load_4(data + 4 * i);
        const u32 x0 = word & 0xff, x1 = (word >> 8) & 0xff, x2 = (word >> 16) & 0xff, x3 = word >> 24;
        // Bytes to the end, with an offset that keeps all four factors non-negative.
        const u32 left = (u32)((len - 4 * i) % VCZ_ADLER_BASE) + VCZ_ADLER_BASE;
        const u32 all = x0 + x1 + x2 + x3;
        a += all;
        b += (u64)all * left - (x1 + 2 * x2 + 3 * x3);
    }
    if (threadIdx.x == 0) {
        for (u64 i = 4 * words; i < len; ++i) {
            const u32 byte = __ldg(vcz_bytes(data + i));
            a += byte;
            b += byte * (len - i);
        }
    }
    atomicAdd(&sum_a, (u32)(a % VCZ_ADLER_BASE));
    atomicAdd(&sum_b, (u32)(b % VCZ_ADLER_BASE));
    __syncthreads();
    const u32 low = (1 + sum_a) % VCZ_ADLER_BASE;
    const u32 high = (u32)((len + sum_b) % VCZ_ADLER_BASE);
    return high << 16 | low;
}

// One CTA of 256 threads per check; a byte is checked by one thread.
extern "C" __global__ void __launch_bounds__(VCZ_THREADS) vcz_check_sums(const VczCheck* __restrict__ checks, u32 n, u32* status) {
    __shared__ u32 table[4][256];
    __shared__ u32 sums[2];
    for (u32 i = blockIdx.x; i < n; i += gridDim.x) {
        const VczCheck check = checks[i];
        if (check.kind == 2) {
            if (threadIdx.x == 0 && __ldg(vcz_bytes(check.data)) != check.expected) atomicOr(&status[check.status], VCZ_BAD_FRAME);
            continue;
        }
        const u32 found = check.kind == 0 ? vcz_adler32(check.data, check.len, sums[0], sums[1])
                                          : vcz_crc32(check.data, check.len, table, sums[0]);
        if (threadIdx.x == 0 && found != check.expected) atomicOr(&status[check.status], VCZ_BAD_SUM);
    }
}
