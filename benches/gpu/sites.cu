// Times the kernels of sums over pairs of sites alone, on a device of compute capability 9.0: 59,520 random sites of 2,940 copies, each with
// the next 1,000 sites, in ten bins of distance. Compares r² and DD of the first sites' pairs with those of plain code.
//
//     nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a -I kernels -o sites benches/gpu/sites.cu && ./sites
//
// Prints the fastest of 7 runs, after one that is not counted. Exits with 1 if sums are wrong, so it can run under compute-sanitizer.
#include "../../kernels/gram_hopper.cu"
#include "../../kernels/sites.cu"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

static void check(cudaError_t error, const char* what) {
    if (error == cudaSuccess) return;
    std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
    std::exit(1);
}
#define CHECK(call) check(call, #call)

template <class T>
static u64 device(const std::vector<T>& values) {
    void* at = nullptr;
    CHECK(cudaMalloc(&at, values.size() * sizeof(T)));
    CHECK(cudaMemcpy(at, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    return (u64)at;
}

static const u32 COPIES = 2940, WORDS = (COPIES + 31) / 32, STEPS = (COPIES + VCZ_STEP_ROWS - 1) / VCZ_STEP_ROWS;
static const u32 ROWS = 310 * VCZ_HOPPER_ROWS, NEXT = 1000, SITES = ROWS + NEXT, STRIDE = (SITES + 7) / 8 * 8 + 512;
static const u32 BINS = 10, WIDTH = NEXT / BINS;
// Tiles that are counted at a time, as the program does.
static const u32 TILES = 264;
static const u32 SHARED = VCZ_HOPPER_STAGES * VCZ_STAGE_BYTES(VCZ_HOPPER_ROWS) + 1024;

// Adds a term as a multiple of 2^-90.
static void add_fixed(__int128& sum, double term) { sum += (__int128)(term * std::ldexp(1.0, 90)); }

int main() {
    std::mt19937_64 random(1);
    std::vector<std::vector<u32>> sites(SITES, std::vector<u32>(WORDS));
    std::vector<u32> units((size_t)STRIDE * STEPS * VCZ_STEP_WORDS), alternates(SITES);
    for (u32 site = 0; site < SITES; ++site) {
        const u32 halvings = (u32)(random() % 4);
        for (u32 word = 0; word < WORDS; ++word) {
            u32 bits = (u32)random();
            for (u32 i = 0; i < halvings; ++i) bits &= (u32)random();
            if (word + 1 == WORDS) bits &= (1u << COPIES % 32) - 1;
            sites[site][word] = bits;
            alternates[site] += (u32)__builtin_popcount(bits);
            const u32 step = word / VCZ_STEP_WORDS, of_step = word % VCZ_STEP_WORDS, place = (of_step / 4 ^ site % 8) * 4 + of_step % 4;
            units[((size_t)step * STRIDE + site) * VCZ_STEP_WORDS + place] = bits;
        }
    }
    std::vector<double> positions(SITES), edges;
    for (u32 site = 0; site < SITES; ++site) positions[site] = site;
    for (u32 bin = 0; bin <= BINS; ++bin) edges.push_back(1 + bin * WIDTH);
    std::vector<VczPairTile> tiles;
    for (u32 row = 0; row < ROWS; row += VCZ_HOPPER_ROWS) {
        for (u32 column = (row + 1) / 8 * 8; column < row + VCZ_HOPPER_ROWS + NEXT; column += VCZ_HOPPER_COLUMNS) tiles.push_back({row, column});
    }
    const std::vector<u64> none(BINS * 2 * VCZ_SITE_SUMS);
    const u64 of_units = device(units), of_tiles = device(tiles), of_alternates = device(alternates), sums = device(none);
    const u64 counts = device(std::vector<u16>((size_t)TILES * VCZ_HOPPER_ROWS * VCZ_HOPPER_COLUMNS));
    const u64 inverses = device(std::vector<double>(SITES)), bounds = device(std::vector<u32>((size_t)ROWS * edges.size()));
    const u64 first_bins = device(std::vector<u32>(ROWS)), ends = device(std::vector<u32>(ROWS, SITES));
    vcz_site_bounds<<<264, VCZ_THREADS>>>({device(positions), ends, device(edges), of_alternates, inverses, bounds, SITES, ROWS, (u32)edges.size(), 0,
                                           COPIES, 0});
    CHECK(cudaFuncSetAttribute(vcz_site_counts_hopper, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED));
    CHECK(cudaDeviceSynchronize());
    int multiprocessors = 0;
    CHECK(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));

    typedef void (*Kernel)(VczSitePairs);
    const auto enqueue = [&](Kernel kernel, u32 end) {
        CHECK(cudaMemset((void*)sums, 0, none.size() * sizeof(u64)));
        for (u32 begin = 0; begin < end; begin += TILES) {
            const u32 n = std::min(TILES, end - begin);
            const u64 at = of_tiles + begin * sizeof(VczPairTile);
            vcz_site_counts_hopper<<<std::min(n, (u32)multiprocessors), VCZ_HOPPER_THREADS, SHARED>>>(
                {{of_units, counts, at, n, 0, STRIDE, STEPS, 1, 0}, of_units});
            if (kernel != nullptr) {
                kernel<<<n, VCZ_THREADS>>>({at, counts, of_alternates, inverses, bounds, first_bins, sums, 0, n, VCZ_HOPPER_ROWS, VCZ_HOPPER_COLUMNS,
                                            ROWS, (u32)edges.size(), BINS, COPIES, 0});
            }
            CHECK(cudaGetLastError());
        }
    };

    // The pairs of the first row of tiles: r² and the whole numbers of DD, from their definitions.
    __int128 r2[BINS] = {}, dd[BINS] = {};
    for (u32 row = 0; row < VCZ_HOPPER_ROWS; ++row) {
        for (u32 site = row + 1; site < row + 1 + NEXT; ++site) {
            i64 x = 0;
            for (u32 word = 0; word < WORDS; ++word) x += __builtin_popcount(sites[row][word] & sites[site][word]);
            const i64 n = COPIES, a = alternates[row], b = alternates[site], delta = n * x - a * b;
            const double inverse = (1.0 / (double)(a * (n - a))) * (1.0 / (double)(b * (n - b)));
            const u32 bin = (site - row - 1) / WIDTH;
            add_fixed(r2[bin], std::min((double)delta * (double)delta * inverse, 1.0));
            dd[bin] += delta * (delta + a + b - 2 * x - 1) - (n - 2) * (x * (n - a - b + x));
        }
    }
    const u32 of_first_row = (u32)(std::find_if(tiles.begin(), tiles.end(), [](VczPairTile tile) { return tile.row > 0; }) - tiles.begin());
    for (const Kernel kernel : {vcz_site_r2, vcz_site_decay, vcz_site_moments}) {
        enqueue(kernel, of_first_row);
        std::vector<u64> found(none.size());
        CHECK(cudaMemcpy(found.data(), (const void*)sums, found.size() * sizeof(u64), cudaMemcpyDeviceToHost));
        for (u32 bin = 0; bin < BINS; ++bin) {
            const auto sum = [&](u32 at) {
                const u64* const of = found.data() + (bin * VCZ_SITE_SUMS + at) * 2;
                return (__int128)of[0] + (__int128)(i64)of[1] * ((i64)1 << 32);
            };
            const bool has_r2 = kernel != vcz_site_moments, has_dd = kernel != vcz_site_r2;
            const __int128 of_r2 = sum(VCZ_SUM_R2) * ((i64)1 << 45) + sum(VCZ_SUM_R2 + 1);
            if ((has_r2 && (sum(VCZ_SUM_DEFINED) != VCZ_HOPPER_ROWS * WIDTH || of_r2 != r2[bin])) || (has_dd && sum(VCZ_SUM_MOMENTS) != dd[bin])) {
                std::fprintf(stderr, "wrong sums of bin %u\n", bin);
                return 1;
            }
        }
    }

    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    const struct {
        const char* name;
        Kernel kernel;
    } all[] = {{"counts alone", nullptr}, {"r2", vcz_site_r2}, {"r2, D', DD, pi2 (ld_decay)", vcz_site_decay}, {"DD, Dz, pi2 (ld_moments)", vcz_site_moments}};
    for (const auto& of : all) {
        float best = INFINITY;
        for (u32 run = 0; run < 8; ++run) {
            CHECK(cudaEventRecord(begin));
            enqueue(of.kernel, (u32)tiles.size());
            CHECK(cudaEventRecord(end));
            CHECK(cudaDeviceSynchronize());
            float milliseconds = 0;
            CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
            if (run > 0) best = std::min(best, milliseconds);
        }
        std::printf("%-28s %.3f ms, %.3g pairs/s\n", of.name, best, (double)ROWS * NEXT / best * 1e3);
    }
    return 0;
}
