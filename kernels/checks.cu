// What must hold of decoded frames: nvCOMP's status and size of every one, and the checksums that nvCOMP does not look at
// (Adler-32 at the end of zlib streams, CRC-32 of gzip members).
#include "vcz.cuh"

extern "C" __global__ void __launch_bounds__(VCZ_THREADS)
    vcz_check_frames(const i32* __restrict__ nvcomp_status, const u64* __restrict__ actual, const u64* __restrict__ expected,
                     const u32* __restrict__ frame_status_index, u32 n, u32* status) {
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        if (nvcomp_status[i] != 0 || actual[i] != expected[i]) atomicOr(&status[frame_status_index[i]], VCZ_BAD_FRAME);
    }
}
