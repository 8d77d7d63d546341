// Decodes zstd frames (RFC 8878), one warp for each frame. Optimised for genotypes: frames of some 100 KiB of short matches, with
// thousands in flight. Each sequence depends on the one before, so only one lane can read the sequences of a frame. An extra warp of
// each CTA reads those of all its frames, one lane for each frame, ahead of the warps that execute them. These execute 32 sequences
// at a time, as far as none needs bytes that another has not yet written. Huffman codes are read by one lane for each stream;
// tables are built by all lanes.
//
// For any input, only the frame, its output and the warp's scratch memory are accessed. A frame that is invalid, or in a form that
// libzstd might reject, sets VCZ_BAD_FRAME, and the host decodes it (src/codec/zstd/decode.rs has the same rules).
#include "zstd_literals.cuh"
#include "zstd_sequences.cuh"
#include "zstd_tables.cuh"

#define VCZ_ZSTD_MAGIC 0xfd2fb528u

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
        if (!vcz_zstd_tables(z, at, end, logs)) return false;
        if (!vcz_zstd_sequences(z, z.src + at, end - at, n, logs[0] | logs[1] << 8 | logs[2] << 16, literals, n_literals)) return false;
    }
    return z.at - start <= z.block_max;
}

// Decodes a frame whose content size must equal the size of its output.
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
        // Matches may repeat bytes that other lanes wrote for the previous block.
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

// Decodes all frames. Each warp takes frames until none is left: `next` counts those taken after the first of each warp, and must be 0
// before the launch. CTAs have VCZ_ZSTD_WARPS warps that decode, and one that reads for them. Each decoding warp has `literals` bytes
// of `scratch`, and VCZ_ZSTD_HISTORY more. `literals` is a multiple of 16 and at least the smaller of VCZ_ZSTD_BLOCK and the largest
// decoded frame, since no block has more literals.
extern "C" __global__ void __launch_bounds__(32 * (VCZ_ZSTD_WARPS + 1), VCZ_ZSTD_CTAS)
    vcz_zstd(const VczFrame* __restrict__ frames, u32 n, u32* next, u64 scratch, u32 literals, u32* status) {
    // The alignment of a shared variable's type does not ensure that of its address.
    __shared__ uint4 room[(sizeof(VczZstdCells) + VCZ_ZSTD_CELLS_AT) / 16 - 1];
    VczZstdCells& cells = *(VczZstdCells*)((u8*)room + (0 - vcz_shared_address(room)) % VCZ_ZSTD_CELLS_AT);
    __shared__ VczZstdTables tables[VCZ_ZSTD_WARPS];
    const u32 warp = vcz_warp();
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
        vcz_zstd_read(tables, cells);
        return;
    }
    const u64 own = scratch + (u64)(blockIdx.x * VCZ_ZSTD_WARPS + warp) * (literals + VCZ_ZSTD_HISTORY);
    VczZstd z;
    z.fills = 0;
    z.literals = (u8*)own;
    z.history = (VczZstdHistory*)(own + literals);
    z.tables = &tables[warp];
    z.cells = cells.sequences[warp][0];
    z.offsets = cells.offsets[warp];
    // A few frames are spread over many CTAs.
    for (u32 i = blockIdx.x + gridDim.x * warp; i < n;) {
        const VczFrame frame = frames[i];
        z.src = vcz_bytes(frame.src);
        z.len = frame.src_len;
        z.out = (u8*)frame.dst;
        z.room = frame.dst_len;
        z.at = 0;
        z.block_max = 0;
        // Earlier writes for the previous frame are complete after this.
        __syncwarp();
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
