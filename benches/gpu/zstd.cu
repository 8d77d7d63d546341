// Times kernels/zstd.cu alone: launches for all frames of a file of frames.py, and for its first ones. Compares the output with the
// decoded frames in the file.
//
//     nvcc -O3 -arch=native -I kernels -o zstd benches/gpu/zstd.cu && ./zstd FRAMES...
//
// Prints medians of 7 launches. Exits with 1 if a frame is rejected or decoded wrongly, so it can run under compute-sanitizer.
#include "../../kernels/zstd.cu"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

static void check(cudaError_t error, const char* what) {
    if (error == cudaSuccess) return;
    std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
    std::exit(1);
}
#define CHECK(call) check(call, #call)

template <class T>
static T* device(size_t n) {
    T* at = nullptr;
    CHECK(cudaMalloc(&at, std::max<size_t>(n, 1) * sizeof(T)));
    return at;
}

template <class T>
static std::vector<T> read(FILE* file, size_t n) {
    std::vector<T> all(n);
    if (std::fread(all.data(), sizeof(T), n, file) != n) {
        std::fprintf(stderr, "the file is too short\n");
        std::exit(1);
    }
    return all;
}

static bool run(const char* name) {
    FILE* file = std::fopen(name, "rb");
    if (!file) {
        std::perror(name);
        return false;
    }
    const std::vector<u64> head = read<u64>(file, 2);
    const u64 n = head[0], checked = head[1];
    const std::vector<u64> sizes = read<u64>(file, 2 * n);
    u64 encoded = 0, decoded = 0;
    std::vector<VczFrame> frames(n);
    for (u64 i = 0; i < n; ++i) {
        frames[i] = {encoded, decoded, (u32)sizes[2 * i], (u32)sizes[2 * i + 1], (u32)i, 0};
        encoded += sizes[2 * i];
        decoded += (sizes[2 * i + 1] + 15) / 16 * 16;
    }
    const std::vector<u8> bytes = read<u8>(file, encoded);
    int multiprocessors = 0;
    CHECK(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
    const u64 most = (u64)multiprocessors * VCZ_ZSTD_CTAS;
    u8 *src = device<u8>(encoded + 64), *dst = device<u8>(decoded + 64);
    u8* scratch = device<u8>(most * VCZ_ZSTD_WARPS * (VCZ_ZSTD_BLOCK + VCZ_ZSTD_HISTORY));
    VczFrame* table = device<VczFrame>(n);
    u32 *next = device<u32>(1), *status = device<u32>(n);
    for (VczFrame& frame : frames) {
        frame.src += (u64)src;
        frame.dst += (u64)dst;
    }
    CHECK(cudaMemcpy(src, bytes.data(), encoded, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(table, frames.data(), n * sizeof(VczFrame), cudaMemcpyHostToDevice));
    cudaEvent_t before, after;
    CHECK(cudaEventCreate(&before));
    CHECK(cudaEventCreate(&after));
    const auto median = [&](u64 some) {
        // As in src/gpu/cuda/zstd.rs.
        const u64 full = (some + VCZ_ZSTD_WARPS - 1) / VCZ_ZSTD_WARPS, alone = std::min<u64>(some, multiprocessors);
        const u32 grid = (u32)std::min(std::max(full, alone), most);
        std::vector<float> times;
        for (int i = 0; i < 7; ++i) {
            CHECK(cudaMemset(next, 0, 4));
            CHECK(cudaMemset(status, 0, 4 * n));
            CHECK(cudaEventRecord(before));
            vcz_zstd<<<grid, 32 * (VCZ_ZSTD_WARPS + 1)>>>(table, (u32)some, next, (u64)scratch, VCZ_ZSTD_BLOCK, status);
            CHECK(cudaEventRecord(after));
            CHECK(cudaDeviceSynchronize());
            float time = 0;
            CHECK(cudaEventElapsedTime(&time, before, after));
            times.push_back(time);
        }
        std::sort(times.begin(), times.end());
        return times[3];
    };
    std::printf("%s:", name);
    for (u64 some : {1, 64, 512, 2048, 4096}) {
        if (some < n) std::printf(" %llu frames %.2f ms,", some, median(some));
    }
    const float all = median(n);
    std::vector<u32> statuses(n);
    CHECK(cudaMemcpy(statuses.data(), status, 4 * n, cudaMemcpyDeviceToHost));
    const u64 refused = n - (u64)std::count(statuses.begin(), statuses.end(), 0u);
    u64 wrong = 0;
    for (u64 i = 0; i < checked; ++i) {
        const VczFrame& frame = frames[i * (n / checked)];
        const std::vector<u8> expected = read<u8>(file, frame.dst_len);
        std::vector<u8> found(frame.dst_len);
        CHECK(cudaMemcpy(found.data(), (void*)frame.dst, frame.dst_len, cudaMemcpyDeviceToHost));
        wrong += expected != found;
    }
    std::fclose(file);
    std::printf(" all %llu %.2f ms, %.0f GB/s; refused %llu, wrong %llu of %llu\n", n, all, (double)decoded / all / 1e6, refused, wrong, checked);
    for (void* memory : {(void*)src, (void*)dst, (void*)scratch, (void*)table, (void*)next, (void*)status}) CHECK(cudaFree(memory));
    return refused == 0 && wrong == 0;
}

int main(int argc, char** argv) {
    bool fine = argc > 1;
    for (int i = 1; i < argc; ++i) fine = run(argv[i]) && fine;
    return fine ? 0 : 1;
}
