// Runs the kernels that count pairs in emulation on random calls, and compares the counts of every pair with those of plain code. Built
// and run by `run.sh`.
//
//     pairs [cases] [first seed]
#include "emulate.h"

#include "gram.cu"
#include "gram_hopper.cu"
#include "units.cu"

#include <random>
#include <string>

namespace {

std::mt19937_64 rng;
u64 seed;

u64 below(u64 n) { return rng() % n; }
u64 between(u64 low, u64 high) { return low + below(high - low + 1); }

[[noreturn]] void fail(const std::string& message) {
    std::fprintf(stderr, "seed %llu: %s\n", seed, message.c_str());
    std::exit(1);
}

using Bits = std::vector<std::vector<bool>>;

// The units of calls, from their definition. `allele` and `called` are by copy and row.
Bits units_of(u32 kind, const Bits& allele, const Bits& called) {
    const bool of_diploids = kind >= VCZ_UNITS_DIPLOIDS;
    Bits units;
    if (!of_diploids) {
        units = allele;
        if (kind == VCZ_UNITS_COPIES_CALLED) units.insert(units.end(), called.begin(), called.end());
        return units;
    }
    Bits het, homozygous, complete;
    for (size_t i = 0; i + 1 < allele.size(); i += 2) {
        std::vector<bool> h, a, c;
        for (size_t row = 0; row < allele[i].size(); ++row) {
            const bool both = called[i][row] && called[i + 1][row];
            h.push_back(both && allele[i][row] != allele[i + 1][row]);
            a.push_back(both && allele[i][row] && allele[i + 1][row]);
            c.push_back(both);
        }
        het.push_back(h);
        homozygous.push_back(a);
        complete.push_back(c);
    }
    units = het;
    units.insert(units.end(), homozygous.begin(), homozygous.end());
    if (kind == VCZ_UNITS_DIPLOIDS_CALLED) units.insert(units.end(), complete.begin(), complete.end());
    return units;
}

std::vector<VczPairTile> tiles_of(u32 units, u32 rows, u32 columns) {
    std::vector<VczPairTile> tiles;
    for (u32 column = 0; column < units; column += columns) {
        for (u32 row = 0; row < units && row < column + columns; row += rows) tiles.push_back({row, column});
    }
    return tiles;
}

void test() {
    const u32 kind = (u32)below(4);
    const bool has_called = kind == VCZ_UNITS_COPIES_CALLED || kind == VCZ_UNITS_DIPLOIDS_CALLED;
    u32 copies = (u32)(below(4) == 0 ? between(1, 300) : between(1, 80));
    if (kind >= VCZ_UNITS_DIPLOIDS) copies += copies % 2;
    const u32 n_rows = (u32)(below(3) == 0 ? between(1, 2500) : between(1, 1100));
    const u64 percent = between(1, 99), missing = below(40);
    Bits allele(copies, std::vector<bool>(n_rows)), called(copies, std::vector<bool>(n_rows, true));
    // Rows of one more word than they need, as those of 64-bit words may have.
    const u32 width = (copies + 63) / 64 * 2, planes = has_called ? 2 : 1;
    std::vector<u32> rows((size_t)n_rows * planes * width);
    for (u32 row = 0; row < n_rows; ++row) {
        for (u32 copy = 0; copy < copies; ++copy) {
            const size_t at = (size_t)row * planes * width + copy / 32;
            called[copy][row] = !has_called || below(100) >= missing;
            allele[copy][row] = called[copy][row] && below(100) < percent;
            if (allele[copy][row]) rows[at] |= 1u << copy % 32;
            if (!called[copy][row]) rows[at + width] |= 1u << copy % 32;
        }
    }
    const Bits expected = units_of(kind, allele, called);
    const u32 n_units = (u32)expected.size(), stride = (n_units + 767) / 768 * 768, steps = (n_rows + 1023) / 1024;
    std::vector<uint4> units((size_t)steps * stride * VCZ_STEP_WORDS / 4);
    const VczPairRows job = {(u64)rows.data(), (u64)units.data(), n_rows, width, copies, kind, stride, (copies + 255) / 256};
    emulate::launch(steps * job.tiles, VCZ_THREADS, [&] { vcz_pair_units(job); });

    // Counts are added to what is there.
    std::vector<u32> counts((size_t)stride * stride, 5);
    VczGram gram = {(u64)units.data(), (u64)counts.data(), 0, 0, n_units, stride, steps, (u32)between(1, steps), 0};
    const std::vector<VczPairTile> tiles = tiles_of(n_units, VCZ_GRAM_TILE, VCZ_GRAM_TILE);
    gram.tiles = (u64)tiles.data();
    gram.n_tiles = (u32)tiles.size();
    emulate::launch(gram.n_tiles * gram.splits, VCZ_THREADS, [&] { vcz_gram(gram); });

    std::vector<u32> hopper((size_t)stride * stride, 5);
    const std::vector<VczPairTile> large = tiles_of(n_units, VCZ_HOPPER_ROWS, VCZ_HOPPER_COLUMNS);
    gram.counts = (u64)hopper.data();
    gram.tiles = (u64)large.data();
    gram.n_tiles = (u32)large.size();
    emulate::launch((u32)between(1, 3), VCZ_HOPPER_THREADS, [&] { vcz_gram_hopper(gram); });

    for (u32 i = 0; i < stride; ++i) {
        for (u32 j = 0; j < stride; ++j) {
            u32 count = 5;
            for (u32 row = 0; i <= j && j < n_units && row < n_rows; ++row) count += expected[i][row] && expected[j][row];
            const u32 found = counts[(size_t)i * stride + j], of_hopper = hopper[(size_t)i * stride + j];
            if (found == count && of_hopper == count) continue;
            fail("kind " + std::to_string(kind) + ", " + std::to_string(n_units) + " units, " + std::to_string(n_rows) + " rows, pair (" +
                 std::to_string(i) + ", " + std::to_string(j) + "): expected " + std::to_string(count) + ", found " +
                 std::to_string(found) + " and " + std::to_string(of_hopper));
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    const u64 cases = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 6;
    const u64 first = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
    for (seed = first; seed < first + cases; ++seed) {
        rng.seed(seed);
        test();
    }
    std::printf("%llu cases of the counts of pairs agree with the reference\n", cases);
}
