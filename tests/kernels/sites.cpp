// Runs the kernels that sum over pairs of sites in emulation on random calls, and compares the sums of every bin with those of plain code.
// Built and run by `run.sh`.
//
//     sites [cases] [first seed]
#include "emulate.h"

#include "gram.cu"
#include "gram_hopper.cu"
#include "sites.cu"

#include "random.h"

#include <limits>

namespace {

typedef __int128 i128;

// The sums of a bin: pairs with an r², and fixed-point sums and whole numbers as `VCZ_SITE_SUMS` has them.
struct Sums {
    i128 defined = 0, r2 = 0, d_prime = 0, whole[3] = {}, others[3] = {};
};

// A term as a multiple of 2^-90, truncated.
i128 fixed(double term) { return (i128)(term * std::ldexp(1.0, 90)); }

void add(Sums& to, i64 n, i64 a, i64 b, i64 x, i64 copies) {
    const i64 delta = n * x - a * b;
    if (0 < a && a < n && 0 < b && b < n) {
        const double inverse = (1.0 / (double)(a * (n - a))) * (1.0 / (double)(b * (n - b)));
        to.defined += 1;
        to.r2 += fixed(std::min((double)delta * (double)delta * inverse, 1.0));
        const i64 most = delta >= 0 ? std::min(a * (n - b), b * (n - a)) : std::min(a * b, (n - a) * (n - b));
        to.d_prime += fixed((double)delta / (double)most);
    }
    if (n < 4) return;
    const i128 q = a + b - 2 * x, u = (i128)x * (n - a - b + x), d = delta;
    const i128 numbers[3] = {d * (d + q - 1) - (n - 2) * u, d * ((i128)(n - 2 * a) * (n - 2 * b) + 2 * q - n - 2) + 4 * u,
                             (i128)(a * (n - a)) * (b * (n - b)) + d * (3 * n - 1 - 2 * q) - (4 * n - 2) * u};
    const double f = (double)n, falling = f * (f - 1.0) * ((f - 2.0) * (f - 3.0));
    for (int m = 0; m < 3; ++m) {
        if (n == copies) {
            to.whole[m] += numbers[m];
        } else {
            to.others[m] += fixed(std::max(-1.0, std::min(1.0, (double)numbers[m] / falling)));
        }
    }
}

// Bits of sites, as units are: 128 bytes for each 1,024 copies.
std::vector<uint4> units_of(const std::vector<std::vector<bool>>& sites, u32 stride, u32 steps) {
    std::vector<uint4> units((size_t)stride * steps * VCZ_STEP_WORDS / 4);
    u32* const words = (u32*)units.data();
    for (size_t site = 0; site < sites.size(); ++site) {
        for (size_t copy = 0; copy < sites[site].size(); ++copy) {
            if (!sites[site][copy]) continue;
            const size_t step = copy / VCZ_STEP_ROWS, word = copy % VCZ_STEP_ROWS / 32;
            const size_t place = (word / 4 ^ site % 8) * 4 + word % 4;
            words[(step * stride + site) * VCZ_STEP_WORDS + place] |= 1u << copy % 32;
        }
    }
    return units;
}

struct Tile {
    u32 rows, columns;
};

void test() {
    const bool missing = below(2) == 0;
    // Whole numbers of more than VCZ_NARROW_COPIES copies have sums in two parts.
    const u32 copies = (u32)(below(100) == 0 ? VCZ_MOST_COPIES : below(12) == 0 ? between(8190, 9000) : below(3) == 0 ? between(1, 1500) : between(1, 60));
    // Sites that are all linked have the largest terms, and all of them may be in one bin.
    const bool linked = below(3) == 0, together = linked && below(2) == 0 && copies < 100;
    const u32 sites = (u32)(together ? between(250, 420) : copies > 9000 ? between(2, 3) : copies > 8000 ? between(2, 30) : between(2, below(3) == 0 ? 420 : 90));
    std::vector<std::vector<bool>> alternate(sites, std::vector<bool>(copies)), called(sites, std::vector<bool>(copies, true));
    std::vector<u32> alternates(sites);
    what = std::to_string(sites) + " sites, " + std::to_string(copies) + " copies";
    for (u32 site = 0; site < sites; ++site) {
        if (linked && site > 0 && below(together ? 1000 : 40) != 0) {
            const u32 like = (u32)below(site);
            alternate[site] = alternate[like], called[site] = called[like], alternates[site] = alternates[like];
            continue;
        }
        const u64 percent = between(1, 99), uncalled = missing && below(3) != 0 ? below(70) : 0;
        do {
            alternates[site] = 0;
            for (u32 copy = 0; copy < copies; ++copy) {
                called[site][copy] = below(100) >= uncalled;
                alternate[site][copy] = called[site][copy] && below(100) < percent;
                alternates[site] += alternate[site][copy];
            }
        } while (!missing && copies > 1 && (alternates[site] == 0 || alternates[site] == copies));
    }
    // Groups of sites, which follow each other; positions ascend in each.
    std::vector<u32> end_of(sites), group_of(sites);
    std::vector<double> positions(sites);
    u32 groups = 0;
    for (u32 begin = 0; begin < sites; ++groups) {
        const u32 end = !together && below(3) == 0 ? (u32)between(begin + 1, sites) : sites;
        double position = (double)below(100);
        for (u32 site = begin; site < end; ++site) {
            position += below(3) == 0 ? 0.0 : (double)below(40) / 4;
            positions[site] = position;
            end_of[site] = end;
            group_of[site] = groups;
        }
        begin = end;
    }
    std::vector<double> edges = {below(2) == 0 ? 0.0 : (double)below(20)};
    const u64 bins = together ? 1 : below(4) == 0 ? between(20, 80) : between(1, 6);
    while (edges.size() <= bins) edges.push_back(edges.back() + 0.25 + (double)below(bins > 6 ? 20 : 200) / 4);
    if (together) edges.front() = 0.0;
    if (together || below(3) == 0) edges.back() = std::numeric_limits<double>::infinity();
    // First sites, and second sites after or among them.
    const u32 first = together ? 0 : (u32)below(sites), last = together ? sites : (u32)between(first + 1, sites);
    const u32 from = together ? 0 : (u32)between(first, sites), to = together ? sites : (u32)between(from, sites);
    const u32 shift = from > last ? (last - first + 7) / 8 * 8 : from - first;  // where second sites begin in the numbering
    const u32 n_rows = last - first, n_sites = std::max(n_rows, shift + to - from);
    std::vector<u32> global(n_sites);
    for (u32 at = 0; at < n_rows; ++at) global[at] = first + at;
    for (u32 at = shift; at < n_sites; ++at) global[at] = std::min(from + at - shift, sites - 1);
    for (u32 at = n_rows; at < shift && at < n_sites; ++at) global[at] = first;  // in no pair

    const u32 steps = (copies + VCZ_STEP_ROWS - 1) / VCZ_STEP_ROWS, stride = (n_sites + 7) / 8 * 8 + 512;
    std::vector<std::vector<bool>> of_alternate, of_called;
    std::vector<double> of_positions;
    std::vector<u32> of_alternates, ends, first_bins;
    for (u32 at = 0; at < n_sites; ++at) {
        of_alternate.push_back(alternate[global[at]]);
        of_called.push_back(called[global[at]]);
        of_positions.push_back(positions[global[at]]);
        of_alternates.push_back(alternates[global[at]]);
    }
    for (u32 at = 0; at < n_rows; ++at) {
        const u32 end = std::min(end_of[first + at], to);
        ends.push_back(end > from ? end - from + shift : shift);
        first_bins.push_back(group_of[first + at] * (u32)bins);
    }
    const std::vector<uint4> units = units_of(of_alternate, stride, steps), of_calls = units_of(of_called, stride, steps);
    std::vector<double> inverses(n_sites);
    std::vector<u32> bounds((size_t)n_rows * edges.size());
    const VczSiteBounds prepare = {(u64)of_positions.data(), (u64)ends.data(), (u64)edges.data(), (u64)of_alternates.data(), (u64)inverses.data(),
                                   (u64)bounds.data(), n_sites, n_rows, (u32)edges.size(), shift, copies, 0};
    emulate::launch((u32)between(1, 3), VCZ_THREADS, [&] { vcz_site_bounds(prepare); });

    std::vector<Sums> expected(groups * bins);
    for (u32 i = first; i < last; ++i) {
        for (u32 j = std::max(from, i + 1); j < std::min(to, end_of[i]); ++j) {
            size_t bin = 0;
            while (bin < edges.size() && edges[bin] <= positions[j] - positions[i]) ++bin;
            if (bin == 0 || bin == edges.size()) continue;
            i64 n = 0, a = 0, b = 0, x = 0;
            for (u32 copy = 0; copy < copies; ++copy) {
                const bool both = called[i][copy] && called[j][copy];
                n += both;
                a += both && alternate[i][copy];
                b += both && alternate[j][copy];
                x += both && alternate[i][copy] && alternate[j][copy];
            }
            add(expected[group_of[i] * bins + bin - 1], n, a, b, x, copies);
        }
    }
    for (const Tile tile : {Tile{VCZ_GRAM_TILE, VCZ_GRAM_TILE}, Tile{VCZ_HOPPER_ROWS, VCZ_HOPPER_COLUMNS}}) {
        std::vector<VczPairTile> tiles;
        for (u32 row = 0; row < n_rows; row += tile.rows) {
            for (u32 column = shift / 8 * 8; column < shift + to - from; column += tile.columns) tiles.push_back({row, column});
        }
        if (tiles.empty()) tiles.push_back({0, 0});
        const size_t matrix = tiles.size() * tile.rows * tile.columns;
        std::vector<u16> counts(4 * matrix, 7);
        for (u32 at = 0; at < (missing ? 4 : 1); ++at) {
            const u64 of_first = (u64)(at < 2 ? units : of_calls).data(), of_second = (u64)(at % 2 == 0 ? units : of_calls).data();
            const VczSiteCounts job = {{of_first, (u64)(counts.data() + at * matrix), (u64)tiles.data(), (u32)tiles.size(), 0, stride, steps, 1, 0}, of_second};
            if (tile.rows == VCZ_GRAM_TILE) {
                emulate::launch((u32)tiles.size(), VCZ_THREADS, [&] { vcz_site_counts(job); });
            } else {
                emulate::launch((u32)between(1, 3), VCZ_HOPPER_THREADS, [&] { vcz_site_counts_hopper(job); });
            }
        }
        // Matrices of `counts` are those of alternates, alternates and called, called and alternates, and called.
        for (const u32 terms : {VCZ_TERM_R2, VCZ_TERM_R2 | VCZ_TERM_D_PRIME | VCZ_TERM_DD | VCZ_TERM_PI2, VCZ_TERM_MOMENTS}) {
            std::vector<u64> sums(expected.size() * 2 * VCZ_SITE_SUMS);
            const VczSitePairs job = {(u64)tiles.data(), (u64)counts.data(), (u64)of_alternates.data(), (u64)inverses.data(), (u64)bounds.data(),
                                      (u64)first_bins.data(), (u64)sums.data(), matrix, (u32)tiles.size(), tile.rows, tile.columns, n_rows,
                                      (u32)edges.size(), (u32)expected.size(), copies, 0};
            emulate::launch((u32)between(1, tiles.size()), VCZ_THREADS, [&] {
                if (terms == VCZ_TERM_R2) missing ? vcz_site_r2_missing(job) : vcz_site_r2(job);
                else if (terms == VCZ_TERM_MOMENTS) missing ? vcz_site_moments_missing(job) : vcz_site_moments(job);
                else missing ? vcz_site_decay_missing(job) : vcz_site_decay(job);
            });
            for (size_t bin = 0; bin < expected.size(); ++bin) {
                const auto sum = [&](u32 at) {
                    const u64* const of = sums.data() + (bin * VCZ_SITE_SUMS + at) * 2;
                    return (i128)of[0] + (i128)(i64)of[1] * ((i64)1 << 32);
                };
                const auto halves = [&](u32 at) { return sum(at) * ((i64)1 << 45) + sum(at + 1); };
                const Sums& all = expected[bin];
                bool same = true;
                if (terms & VCZ_TERM_R2) same = same && sum(VCZ_SUM_DEFINED) == all.defined && halves(VCZ_SUM_R2) == all.r2;
                if (terms & VCZ_TERM_D_PRIME) same = same && halves(VCZ_SUM_D_PRIME) == all.d_prime;
                for (u32 moment = 0; moment < 3; ++moment) {
                    if ((terms & VCZ_TERM_DD << moment) == 0) continue;
                    const u32 at = VCZ_SUM_MOMENTS + 3 * moment;
                    same = same && sum(at) == all.whole[moment] && halves(at + 1) == all.others[moment];
                }
                if (same) continue;
                fail("terms " + std::to_string(terms) + ", tiles of " + std::to_string(tile.rows) + " rows: the sums of bin " + std::to_string(bin) + " are wrong");
            }
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
    std::printf("%llu cases of the sums over pairs of sites agree with the reference\n", cases);
}
