// Runs the kernels that count pairs in emulation on random calls, and compares the counts of every pair with those of plain code. Built
// and run by `run.sh`.
//
//     pairs [cases] [first seed]
#include "emulate.h"

#include "gram.cu"
#include "gram_hopper.cu"
#include "rare.cu"
#include "samples.cu"
#include "units.cu"

#include "random.h"

namespace {

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

// Rows at random addresses, some of them inverted, are copied one after the other.
void test_copied_rows() {
    VczCopiedRows job = {};
    job.copies = (u32)between(1, 400);
    job.width = (job.copies + 63) / 64;
    job.n_rows = (u32)between(1, 100);
    what = "copies of " + std::to_string(job.n_rows) + " rows of " + std::to_string(job.copies) + " copies";
    std::vector<u64> memory(2 * (size_t)job.n_rows * job.width);
    std::vector<u64> from, expected;
    for (u32 row = 0; row < 2 * job.n_rows; ++row) {
        for (u32 copy = 0; copy < job.copies; ++copy) memory[(size_t)row * job.width + copy / 64] |= below(2) << copy % 64;
    }
    for (u32 row = 0; row < job.n_rows; ++row) {
        const u64* const at = &memory[below(2 * job.n_rows) * job.width];
        const bool inverted = below(2) == 0;
        from.push_back((u64)at | inverted | below(4) << 1);
        for (u32 word = 0; word < job.width; ++word) {
            const u64 exist = 64 * (word + 1) <= job.copies ? ~(u64)0 : ((u64)1 << job.copies % 64) - 1;
            expected.push_back(inverted ? ~at[word] & exist : at[word]);
        }
    }
    std::vector<u64> to(expected.size());
    job.from = (u64)from.data();
    job.to = (u64)to.data();
    emulate::launch((u32)between(1, 3), VCZ_THREADS, [&] { vcz_copy_rows(job); });
    if (to != expected) fail("vcz_copy_rows");
}

// The genotypes of individuals at rows of few and of many carriers.
void test_sample_counts() {
    const u32 samples = (u32)between(1, 150), copies = 2 * samples, width = (copies + 63) / 64, n_rows = (u32)between(1, 600);
    what = "genotypes of " + std::to_string(samples) + " individuals at " + std::to_string(n_rows) + " rows";
    std::vector<u64> rows((size_t)n_rows * width), from;
    // Counts are added to what is there.
    std::vector<u32> expected(4 * (size_t)samples, 3), counts = expected;
    for (u32 row = 0; row < n_rows; ++row) {
        std::vector<u32> dosages(samples);
        u64* const bits = &rows[(size_t)row * width];
        const u64 percent = below(3) == 0 ? between(1, 99) : 0;
        for (u32 copy = 0; copy < copies; ++copy) {
            if (below(100) < percent) bits[copy / 64] |= (u64)1 << copy % 64;
        }
        for (u64 more = below(4), at = below(copies); more > 0; --more, at = below(3) == 0 ? below(copies) : at ^ 1) {
            bits[at / 64] |= (u64)1 << at % 64;
        }
        u32 ones = 0, carriers = 0, last = 0;
        for (u32 copy = 0; copy < copies; ++copy) {
            if ((bits[copy / 64] >> copy % 64 & 1) == 0) continue;
            ones += 1;
            carriers += dosages[copy / 2] == 0;
            dosages[last = copy / 2] += 1;
        }
        from.push_back((u64)bits | (ones < 3 ? ones : 3) << 1);
        for (u32 i = 0; i < samples; ++i) {
            expected[i] += dosages[i] == 1;
            expected[samples + i] += dosages[i] == 2;
        }
        expected[2 * samples + last] += ones == 1;
        expected[3 * samples + last] += carriers == 1;
    }
    const VczSampleRows job = {(u64)from.data(), (u64)counts.data(), n_rows, 2 * width, samples, 0};
    const u32 threads = (n_rows + VCZ_COUNTER_ROWS - 1) / VCZ_COUNTER_ROWS * job.width;
    emulate::launch((threads + VCZ_THREADS - 1) / VCZ_THREADS, VCZ_THREADS, [&] { vcz_sample_counts(job); });
    if (counts != expected) fail("vcz_sample_counts");
}

// The sums of a pair at the rows, from their definition.
std::vector<u32> sums_of(u32 kind, const Bits& units, u32 n, u32 i, u32 j) {
    const bool has_called = kind == VCZ_UNITS_COPIES_CALLED || kind == VCZ_UNITS_DIPLOIDS_CALLED;
    const u32 called = kind >= VCZ_UNITS_DIPLOIDS ? 2 * n : n;
    std::vector<u32> sums(kind == VCZ_UNITS_COPIES ? 1 : kind == VCZ_UNITS_DIPLOIDS_CALLED ? 5 : 2);
    for (size_t row = 0; row < units[i].size(); ++row) {
        const auto has = [&](u32 unit) { return (bool)units[unit][row]; };
        if (has_called && !(has(called + i) && has(called + j))) continue;
        if (kind < VCZ_UNITS_DIPLOIDS) {
            sums[0] += has(i) != has(j);
            if (has_called) sums[1] += 1;
            continue;
        }
        sums[0] += has(i) && has(j);
        sums[1] += !has(i) && !has(j) && has(n + i) != has(n + j);
        if (!has_called) continue;
        sums[2] += 1;
        sums[3] += has(i);
        sums[4] += has(j);
    }
    return sums;
}

// The sums of pairs, in some pieces, from counts that all are `more` too large.
void test_sums(u32 kind, const Bits& units, const std::vector<u32>& counts, u32 stride, u32 more) {
    const u32 n = (u32)units.size() / (kind == VCZ_UNITS_COPIES ? 1 : kind == VCZ_UNITS_DIPLOIDS_CALLED ? 3 : 2);
    for (u32 first = 0, end; first < n; first = end) {
        end = below(2) == 0 ? n : (u32)between(first + 1, n);
        std::vector<std::vector<u32>> expected;
        std::vector<u32> of_each;
        for (u32 i = first; i < end; ++i) {
            for (u32 j = i + 1; j < n; ++j) {
                std::vector<u32> sums = sums_of(kind, units, n, i, j);
                // The number of counts that are added, without those that are subtracted.
                const u32 of_counts[] = {kind < VCZ_UNITS_DIPLOIDS ? 0u : 1u, kind < VCZ_UNITS_DIPLOIDS ? 1u : (u32)-2, 1, 1, 1};
                for (size_t at = 0; at < sums.size(); ++at) sums[at] += of_counts[at] * more;
                expected.resize(sums.size());
                for (size_t at = 0; at < sums.size(); ++at) expected[at].push_back(sums[at]);
            }
            if (kind == VCZ_UNITS_DIPLOIDS) of_each.push_back((u32)std::count(units[i].begin(), units[i].end(), true) + more);
        }
        std::vector<u32> all;
        for (const std::vector<u32>& sums : expected) all.insert(all.end(), sums.begin(), sums.end());
        all.insert(all.end(), of_each.begin(), of_each.end());
        const u32 untouched = 0xabcdef01;
        all.push_back(untouched);
        std::vector<u32> found(all.size(), untouched);
        const VczPairSums job = {(u64)counts.data(), (u64)found.data(), kind, stride, n, first, end, (n - first + 31) / 32};
        emulate::launch((end - first + VCZ_WARPS - 1) / VCZ_WARPS * job.across, VCZ_THREADS, [&] { vcz_pair_sums(job); });
        if (found != all) fail("the sums of pairs of first ones " + std::to_string(first) + " to " + std::to_string(end) + " are wrong");
    }
}

void test() {
    const u32 kind = (u32)below(4);
    const bool has_called = kind == VCZ_UNITS_COPIES_CALLED || kind == VCZ_UNITS_DIPLOIDS_CALLED;
    u32 copies = (u32)(below(4) == 0 ? between(1, 300) : between(1, 80));
    if (kind >= VCZ_UNITS_DIPLOIDS) copies += copies % 2;
    const u32 n_rows = (u32)(below(3) == 0 ? between(1, 2500) : between(1, 1100));
    what = "units of kind " + std::to_string(kind) + ", " + std::to_string(copies) + " copies, " + std::to_string(n_rows) + " rows";
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
    const VczPairRows job = {(u64)rows.data(), 0, (u64)units.data(), n_rows, width, copies, kind, stride, (copies + 255) / 256};
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
            fail("pair (" + std::to_string(i) + ", " + std::to_string(j) + "): expected " + std::to_string(count) + ", found " +
                 std::to_string(found) + " and " + std::to_string(of_hopper));
        }
    }
    test_sums(kind, expected, counts, stride, 5);
}

// The sums with weights of random dosages, of rows in random order and with gaps.
void test_weighted() {
    const u32 samples = (u32)(below(4) == 0 ? between(1, 150) : between(1, 40)), copies = 2 * samples;
    const u32 n_rows = (u32)between(1, 600), slices = (u32)between(1, 9), steps = (slices + 3) / 4;
    const u32 width = (copies + 63) / 64 * 2;
    std::vector<std::vector<u32>> dosages(n_rows, std::vector<u32>(samples));
    std::vector<u32> rows((size_t)n_rows * width);
    for (u32 row = 0; row < n_rows; ++row) {
        for (u32 copy = 0; copy < copies; ++copy) {
            if (below(100) >= 40) continue;
            rows[(size_t)row * width + copy / 32] |= 1u << copy % 32;
            dosages[row][copy / 2] += 1;
        }
    }
    std::vector<u32> order(slices * VCZ_SLICE_ROWS);
    for (u32& row : order) row = below(3) == 0 ? VCZ_NO_ROW : (u32)below(n_rows);
    std::vector<u64> weights(4 * steps), of_units(8 * steps);
    for (u32 slice = 0; slice < slices; ++slice) {
        weights[slice] = slice > 0 && below(2) == 0 ? weights[slice - 1] : below(4) == 0 ? below(9) : rng() >> 20;
        of_units[2 * slice] = below(3) == 0 ? 0 : rng() >> 9;
        of_units[2 * slice + 1] = rng() >> 30;
    }
    const u32 n_units = (samples + 7) / 8 * 16, stride = (n_units + 767) / 768 * 768;
    std::vector<uint4> units((size_t)steps * stride * VCZ_STEP_WORDS / 4);
    const VczPairRows job = {(u64)rows.data(),         (u64)order.data(), (u64)units.data(), (u32)order.size(), width, copies,
                             VCZ_UNITS_DIPLOID_BLOCKS, stride,            (copies + 255) / 256};
    emulate::launch(steps * job.tiles, VCZ_THREADS, [&] { vcz_pair_units(job); });

    // Sums are added to what is there.
    const size_t pairs = (size_t)samples * (samples + 1) / 2;
    std::vector<u64> sums(2 * pairs, 3), hopper(2 * pairs, 3), unit_sums(4 * (size_t)n_units, 3);
    std::vector<u64> products(2 * pairs, 3), of_hopper(2 * pairs, 3);
    const bool has_products = below(3) != 0;
    VczWeightedGram gram = {{(u64)units.data(), 0, 0, 0, n_units, stride, steps, (u32)between(1, steps), 0}, (u64)weights.data(), (u64)sums.data(), (u64)products.data(), samples, 0};
    const std::vector<VczPairTile> tiles = tiles_of(n_units, VCZ_GRAM_TILE, VCZ_GRAM_TILE);
    if (!has_products) gram.products = 0;
    gram.gram.tiles = (u64)tiles.data();
    gram.gram.n_tiles = (u32)tiles.size();
    emulate::launch(gram.gram.n_tiles * gram.gram.splits, VCZ_THREADS, [&] { vcz_gram_weighted(gram); });
    const std::vector<VczPairTile> large = tiles_of(n_units, VCZ_WEIGHTED_ROWS, VCZ_HOPPER_COLUMNS);
    gram.gram.tiles = (u64)large.data();
    gram.gram.n_tiles = (u32)large.size();
    gram.sums = (u64)hopper.data();
    if (has_products) gram.products = (u64)of_hopper.data();
    emulate::launch((u32)between(1, 3), VCZ_WEIGHTED_THREADS, [&] { vcz_gram_weighted_hopper(gram); });
    const VczUnitSums of_bits = {(u64)units.data(), (u64)of_units.data(), (u64)unit_sums.data(), n_units, stride, steps, 0};
    emulate::launch((n_units + VCZ_THREADS - 1) / VCZ_THREADS * ((steps + VCZ_SUM_STEPS - 1) / VCZ_SUM_STEPS), VCZ_THREADS,
                    [&] { vcz_unit_sums(of_bits); });

    typedef unsigned __int128 u128;
    const u128 begin = 3 + ((u128)3 << 32);
    const auto sum_at = [](const std::vector<u64>& sums, size_t at) { return sums[at] + ((u128)sums[at + 1] << 32); };
    what = std::to_string(samples) + " individuals, " + std::to_string(slices) + " slices";
    size_t at = 0;
    for (u32 i = 0; i < samples; ++i) {
        for (u32 j = i; j < samples; ++j, at += 2) {
            u128 expected = begin, without = begin;
            for (size_t place = 0; place < order.size(); ++place) {
                if (order[place] == VCZ_NO_ROW) continue;
                const std::vector<u32>& row = dosages[order[place]];
                expected += (u128)weights[place / VCZ_SLICE_ROWS] * row[i] * row[j];
                if (has_products) without += row[i] * row[j];
            }
            const bool are_sums = sum_at(sums, at) == expected && sum_at(hopper, at) == expected;
            if (are_sums && sum_at(products, at) == without && sum_at(of_hopper, at) == without) continue;
            fail("the sum of pair (" + std::to_string(i) + ", " + std::to_string(j) + ") is wrong");
        }
    }
    for (u32 unit = 0; unit < n_units; ++unit) {
        const u32 sample = unit / 16 * 8 + unit % 8, dosage_bit = unit % 16 < 8 ? 1 : 2;
        for (u32 set = 0; set < 2; ++set) {
            u128 expected = begin;
            for (size_t place = 0; place < order.size(); ++place) {
                if (order[place] == VCZ_NO_ROW || sample >= samples || dosages[order[place]][sample] != dosage_bit) continue;
                expected += of_units[2 * (place / VCZ_SLICE_ROWS) + set];
            }
            if (sum_at(unit_sums, 4 * (size_t)unit + 2 * set) != expected) fail("a sum of unit " + std::to_string(unit) + " is wrong");
        }
    }
}

// The sums of rows in which few copies have the allele.
void test_rare() {
    const u32 samples = (u32)(below(4) == 0 ? between(1, 600) : between(1, 20)), copies = 2 * samples, width = (copies + 63) / 64 * 2;
    const u32 n_rows = (u32)between(1, 60);
    what = "rare rows of " + std::to_string(samples) + " individuals";
    std::vector<std::vector<u32>> dosages(n_rows, std::vector<u32>(samples));
    std::vector<u32> rows((size_t)n_rows * width), order, numbers(n_rows);
    for (u32 row = 0; row < n_rows; ++row) {
        const u32 most = vcz_min((u32)below(VCZ_RARE_COPIES + 1), copies);
        while (numbers[row] < most) {
            const u32 copy = (u32)below(copies);
            u32& word = rows[(size_t)row * width + copy / 32];
            if ((word >> copy % 32 & 1) != 0) continue;
            word |= 1u << copy % 32;
            dosages[row][copy / 2] += 1;
            ++numbers[row];
        }
        if (below(4) != 0) order.push_back(row);
    }
    std::vector<u64> weights(4 * (VCZ_RARE_COPIES + 1));
    for (u64& weight : weights) weight = below(3) == 0 ? below(2) : rng() >> 20;
    const size_t pairs = (size_t)samples * (samples + 1) / 2, n_units = (samples + 7) / 8 * 16;
    const bool has_second = below(2) == 0;
    if (!has_second) {
        for (size_t at = 1; at < weights.size(); at += 4) weights[at] = 0;
    }
    // Sums are added to what is there.
    std::vector<u64> sums[2] = {std::vector<u64>(2 * pairs, 3), std::vector<u64>(2 * pairs, 3)}, unit_sums(4 * n_units, 3);
    const VczRareRows job = {(u64)rows.data(), (u64)order.data(), (u64)weights.data(), {(u64)sums[0].data(), has_second ? (u64)sums[1].data() : 0},
                             (u64)unit_sums.data(), (u32)order.size(), width, samples, 0};
    emulate::launch((u32)between(1, 3), VCZ_THREADS, [&] { vcz_rare_pairs(job); });

    typedef unsigned __int128 u128;
    const u128 begin = 3 + ((u128)3 << 32);
    const auto sum_at = [](const std::vector<u64>& sums, size_t at) { return sums[at] + ((u128)sums[at + 1] << 32); };
    for (u32 set = 0; set < 2; ++set) {
        size_t at = 0;
        for (u32 i = 0; i < samples; ++i) {
            for (u32 j = i; j < samples; ++j, at += 2) {
                u128 expected = begin;
                for (const u32 row : order) expected += (u128)weights[4 * numbers[row] + set] * dosages[row][i] * dosages[row][j];
                if (sum_at(sums[set], at) != expected) fail("the sum of pair (" + std::to_string(i) + ", " + std::to_string(j) + ") is wrong");
            }
        }
        for (u32 sample = 0; sample < samples; ++sample) {
            // Those of heterozygous, and twice those of homozygous individuals.
            const size_t unit = sample / 8 * 16 + sample % 8;
            u128 expected = begin + 2 * begin;
            for (const u32 row : order) expected += (u128)weights[4 * numbers[row] + 2 + set] * dosages[row][sample];
            const u128 found = sum_at(unit_sums, 4 * unit + 2 * set) + 2 * sum_at(unit_sums, 4 * (unit + 8) + 2 * set);
            if (found != expected) fail("the sum of individual " + std::to_string(sample) + " is wrong");
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
        test_weighted();
        for (u32 i = 0; i < 10; ++i) {
            test_copied_rows();
            test_sample_counts();
            test_rare();
        }
    }
    std::printf("%llu cases of the counts and sums of pairs agree with the reference\n", cases);
}
