// Runs every kernel of kernels/ in emulation on random cases and compares with plain code, element by element, from the
// definitions of design.md. `run.sh` builds it with the address and undefined-behaviour sanitizers, so that reads further
// outside of a block than vcz.cuh allows, misaligned accesses and shifts by too much are failures too.
//
//     emulated [cases] [first seed]
#include "emulate.h"

#include "count.cu"
#include "filter.cu"
#include "frames.cu"
#include "gather.cu"
#include "genotypes.cu"
#include "planes.cu"
#include "sparse.cu"
#include "zygosity.cu"

#include "random.h"

#include <cstring>
#include <iterator>
#include <set>

namespace {

std::string str(i64 x) { return std::to_string(x); }

// Bytes at an address that is `misaligned` past a multiple of 16, with the 16 bytes after them that kernels may read.
class Bytes {
   public:
    explicit Bytes(const std::vector<u8>& bytes) {
        const size_t misaligned = chance(0.5) ? below(4) : below(16);
        memory_.reset((u8*)std::malloc(misaligned + bytes.size() + 16));
        start_ = memory_.get() + misaligned;
        for (size_t i = 0; i < misaligned; ++i) memory_[i] = (u8)rng();
        std::copy(bytes.begin(), bytes.end(), start_);
        for (size_t i = 0; i < 16; ++i) start_[bytes.size() + i] = (u8)rng();
    }
    u64 address() const { return (u64)start_; }

   private:
    struct Free {
        void operator()(u8* p) const { std::free(p); }
    };
    std::unique_ptr<u8[], Free> memory_;
    u8* start_;
};

// Elements in the stored byte order, as blocks. Elements are given as little-endian numbers.
struct Encoded {
    std::vector<VczBlock> blocks;
    std::vector<Bytes> bytes;
    u32 block_elements;
};

std::vector<u8> stored_bytes(u64 x, u32 width, bool big_endian) {
    std::vector<u8> out(width);
    for (u32 j = 0; j < width; ++j) out[big_endian ? width - 1 - j : j] = (u8)(x >> (8 * j));
    return out;
}

Encoded encode(const std::vector<u64>& elements, u32 width, bool big_endian, u32 kind, bool large) {
    Encoded out;
    const u32 n = (u32)elements.size();
    u32 size = chance(0.2) ? n : (u32)between(1, chance(0.5) ? 64 : 3000);
    if (large || chance(0.1)) size = n / (u32)between(1, 2) + 1;
    // Blocks of one tile that are shuffled or not, as no writer makes them.
    const bool mixed = !large && chance(0.1);
    if (kind == VCZ_BIT_SHUFFLED && !mixed) size = (size + 7) / 8 * 8;
    out.block_elements = size;
    for (u32 start = 0; start < n; start += size) {
        const u32 len = std::min(size, n - start);
        VczBlock block = {};
        block.elements = len;
        // What cannot be shuffled by bits is not shuffled.
        if (mixed) kind = (u32)below(3);
        block.kind = kind == VCZ_BIT_SHUFFLED && len % 8 != 0 ? VCZ_PLAIN : kind;
        u32 planes = 0;
        std::vector<u8> bytes((size_t)len * width);
        for (u32 i = 0; i < len; ++i) {
            const std::vector<u8> element = stored_bytes(elements[start + i], width, big_endian);
            for (u32 j = 0; j < width; ++j) {
                if (element[j] == 0) continue;
                if (block.kind == VCZ_PLAIN) bytes[(size_t)i * width + j] = element[j];
                if (block.kind == VCZ_BYTE_SHUFFLED) bytes[(size_t)j * len + i] = element[j];
                for (u32 bit = 0; bit < 8; ++bit) {
                    if ((element[j] >> bit & 1) == 0) continue;
                    planes = std::max(planes, 8 * j + bit + 1);
                    if (block.kind == VCZ_BIT_SHUFFLED) bytes[(size_t)(8 * j + bit) * (len / 8) + i / 8] |= (u8)(1 << i % 8);
                }
            }
        }
        if (planes == 0 && chance(0.7)) {
            out.blocks.push_back(block);
            continue;
        }
        if (block.kind == VCZ_BIT_SHUFFLED) {
            // As many planes as there are, or some more; they come in whole frames.
            block.planes = large || chance(0.5) ? std::max(planes, 1u) : (u32)between(std::max(planes, 1u), 8 * width);
            // Or as many as it takes for the others to equal the last.
            u32 different = 8 * width;
            const auto plane = [&](u32 i) { return bytes.begin() + (size_t)i * (len / 8); };
            while (different > 1 && std::equal(plane(different - 2), plane(different - 1), plane(different - 1))) different -= 1;
            if (different < 8 * width && chance(0.8)) {
                block.planes = chance(0.8) ? different : (u32)between(different, 8 * width);
                block.flags = VCZ_REPEATS;
            }
            bytes.resize((size_t)block.planes * (len / 8));
        } else {
            block.planes = (u32)between(1, 8);
        }
        out.bytes.emplace_back(bytes);
        block.data = out.bytes.back().address();
        out.blocks.push_back(block);
    }
    return out;
}

// A chunk of rows of samples of elements, cut into tiles.
struct Chunk {
    u32 rows, samples, copies, width, kind, out_rows, row0;
    bool big_endian;
    bool large;                 // in large tiles and blocks
    std::vector<u64> elements;  // [rows, samples, copies], masked to the width

    u64 at(u32 row, u32 sample, u32 copy) const { return elements[((size_t)row * samples + sample) * copies + copy]; }
    i64 code(u32 row, u32 sample, u32 copy) const {
        const u32 unused = 64 - 8 * width;
        return (i64)(at(row, sample, copy) << unused) >> unused;
    }
};

u64 masked(i64 code, u32 width) { return width == 8 ? (u64)code : (u64)code & (((u64)1 << (8 * width)) - 1); }

struct Tiles {
    std::vector<VczTile> tiles;
    std::vector<Encoded> encoded;
    bool shared;
};

// Cuts a chunk into a grid of tiles, those at the ends padded with other elements that no one may count.
Tiles cut(const Chunk& chunk, const std::function<u64()>& padding, u32 status_offset) {
    Tiles out;
    const u32 tile_rows = chunk.large || chance(0.6) ? chunk.rows + (u32)below(3) : (u32)between(1, chunk.rows);
    const u32 tile_samples = chance(0.5) ? chunk.samples + (u32)below(3) * (u32)below(40) : (u32)between(1, chunk.samples);
    out.shared = tile_samples < chunk.samples || chance(0.1);
    for (u32 row = 0; row < chunk.rows; row += tile_rows) {
        for (u32 sample = 0; sample < chunk.samples; sample += tile_samples) {
            VczTile tile = {};
            tile.rows = std::min(tile_rows, chunk.rows - row);
            tile.row0 = chunk.row0 + row;
            tile.samples = std::min(tile_samples, chunk.samples - sample);
            tile.sample0 = sample;
            tile.copies = chunk.copies;
            tile.width = chunk.width;
            tile.row_elements = tile_samples * chunk.copies;
            tile.flags = (chunk.big_endian ? VCZ_BIG_ENDIAN : 0) | (out.shared ? VCZ_SHARED : 0);
            tile.out_rows = chunk.out_rows;
            tile.status = status_offset + (u32)out.tiles.size();
            std::vector<u64> elements((size_t)tile_rows * tile.row_elements);
            for (u32 r = 0; r < tile_rows; ++r) {
                for (u32 s = 0; s < tile_samples; ++s) {
                    for (u32 c = 0; c < chunk.copies; ++c) {
                        const bool exists = r < tile.rows && s < tile.samples;
                        elements[(size_t)r * tile.row_elements + s * chunk.copies + c] =
                            exists ? chunk.at(row + r, sample + s, c) : padding();
                    }
                }
            }
            out.encoded.push_back(encode(elements, chunk.width, chunk.big_endian, chunk.kind, chunk.large));
            tile.block_elements = out.encoded.back().block_elements;
            out.tiles.push_back(tile);
        }
    }
    for (size_t i = 0; i < out.tiles.size(); ++i) out.tiles[i].blocks = (u64)out.encoded[i].blocks.data();
    return out;
}

template <class Kernel>
void launch_tiles(Kernel kernel, const Tiles& tiles, std::vector<u32>& status) {
    const u32 groups = (u32)between(1, 3);
    emulate::launch((u32)tiles.tiles.size() * groups, VCZ_THREADS,
                    [&] { kernel(tiles.tiles.data(), (u32)tiles.tiles.size(), groups, status.data()); });
}

using Set = std::vector<bool>;

Set random_set(u32 samples) {
    Set set(samples);
    const double p = chance(0.3) ? 1.0 : chance(0.1) ? 0.0 : (double)between(1, 99) / 100;
    for (u32 i = 0; i < samples; ++i) set[i] = chance(p);
    return set;
}

int reference_class(const std::vector<i64>& call) {
    std::vector<i64> copies;
    for (i64 code : call) {
        if (code != -2) copies.push_back(code);
    }
    if (copies.empty() || *std::min_element(copies.begin(), copies.end()) < 0) return 4;
    if (copies.size() == 1) return 3;
    if (std::set<i64>(copies.begin(), copies.end()).size() > 1) return 1;
    return copies[0] == 0 ? 0 : 2;
}

// Counts of 1, 2 or 4 bytes, aligned as a device's output is.
class Counts {
   public:
    Counts(const std::vector<i32>& counts, u32 bytes) : memory_((counts.size() * bytes + 15) / 8), size_(counts.size()), bytes_(bytes) {
        for (size_t i = 0; i < size_; ++i) {
            const std::vector<u8> x = stored_bytes((u64)counts[i], bytes, false);
            std::copy(x.begin(), x.end(), (u8*)memory_.data() + i * bytes);
        }
    }
    u64 address() const { return (u64)memory_.data(); }
    std::vector<i32> values() const {
        std::vector<i32> values(size_);
        for (size_t i = 0; i < size_; ++i) {
            u32 x = 0;
            std::memcpy(&x, (const u8*)memory_.data() + i * bytes_, bytes_);
            values[i] = (i32)x;
        }
        return values;
    }

   private:
    std::vector<u64> memory_;
    size_t size_;
    u32 bytes_;
};

// Few bytes that hold counts up to `most`; four where tiles share rows.
u32 count_bytes(u64 most, bool shared) {
    const u32 fewest = shared ? 4 : most < 256 ? 1 : most < 65536 ? 2 : 4;
    return chance(0.8) ? fewest : 4;
}

// The sets of these masks as VczCountSpec::sparse says.
std::vector<u64> sparse_sets(const std::vector<u32>& masks, u32 mask_words, u32 sets) {
    const u32 groups = (sets + 31) / 32;
    std::vector<std::vector<u64>> entries(32 * groups);
    std::vector<u32> sizes(32 * groups), starts(1);
    for (u32 set = 0; set < sets; ++set) {
        for (u32 word = 0; word < mask_words; ++word) {
            const u32 bits = masks[(size_t)(1 + set) * mask_words + word];
            sizes[set] += (u32)__builtin_popcount(bits);
            if (bits != 0) entries[set].push_back((u64)bits << 32 | word);
        }
    }
    std::vector<u64> steps;
    for (u32 group = 0; group < groups; ++group) {
        size_t most = 0;
        for (u32 lane = 0; lane < 32; ++lane) most = std::max(most, entries[32 * group + lane].size());
        for (size_t step = 0; step < most; ++step) {
            for (u32 lane = 0; lane < 32; ++lane) {
                const std::vector<u64>& of = entries[32 * group + lane];
                steps.push_back(step < of.size() ? of[step] : 0);
            }
        }
        starts.push_back((u32)(steps.size() / 32));
    }
    std::vector<u32> head = starts;
    head.insert(head.end(), sizes.begin(), sizes.end());
    if (head.size() % 2 != 0) head.push_back(0);
    std::vector<u64> table(head.size() / 2);
    std::memcpy(table.data(), head.data(), 4 * head.size());
    table.insert(table.end(), steps.begin(), steps.end());
    return table;
}

void compare(const std::vector<i32>& found, const std::vector<i32>& expected, const char* kernel) {
    for (size_t i = 0; i < expected.size(); ++i) {
        if (found[i] != expected[i]) {
            fail(std::string(kernel) + ": output " + str((i64)i) + " of " + str((i64)expected.size()) + ": expected " +
                 str(expected[i]) + ", found " + str(found[i]));
        }
    }
}

void test_counts() {
    Chunk chunk;
    const u32 ploidy = chance(0.5) ? 2 : (u32)between(1, 4);
    chunk.copies = ploidy + (chance(0.2) ? (u32)between(1, 2) : 0);
    chunk.rows = (u32)(chance(0.5) ? between(1, 12) : between(30, 90));
    chunk.samples = (u32)(chance(0.1) ? between(300, 900) : between(1, 120));
    chunk.width = chance(0.6) ? 1 : 1u << below(4);
    chunk.big_endian = chance(0.3);
    chunk.kind = chance(0.6) ? VCZ_BIT_SHUFFLED : (u32)below(3);
    u32 k = (u32)(chance(0.5) ? 2 : between(1, 9));
    u32 style = (u32)below(5);
    double rare = (double)between(0, 100) / 2000;
    chunk.large = chance(0.3);
    if (chunk.large) {
        // As default stores are: many rows in few bit-planes of a block, and hardly a code above 1.
        chunk.rows = (u32)between(30, 90);
        chunk.width = 1;
        chunk.kind = VCZ_BIT_SHUFFLED;
        k = (u32)(chance(0.15) ? 1 : between(2, chance(0.2) ? 9 : 4));
        style = chance(0.4) ? 2 : chance(0.3) ? 3 : 1;
        rare = style == 2 ? rare : 0;
    } else if (chance(0.05)) {
        k = (u32)between(100, 300);
        chunk.width = chance(0.5) ? 1 : 2;
    }
    chunk.row0 = (u32)below(5);
    chunk.out_rows = chunk.row0 + chunk.rows + (u32)below(4);
    const auto code = [&]() -> i64 {
        const i64 plain = chance(0.2) ? 1 % k : 0;
        switch (style) {
            case 0: return plain;                                                // biallelic and complete
            case 1: return chance(rare) ? (i64)below(k) : plain;                 // some multiallelic
            case 2: return chance(rare) ? -(i64)between(1, 3) : plain;           // some missing
            case 3: return chance(0.2) ? -(i64)between(1, 3) : (i64)below(k);    // anything
            default: return chance(0.3) ? -2 : chance(0.02) ? -(i64)between(1, 100) : (i64)below(k);
        }
    };
    const bool tidy = chunk.large || chance(0.5);  // padding that looks like the rest
    const auto padding = [&]() -> u64 {
        return masked(tidy ? (style < 2 ? 0 : -1) : (i64)between(0, 255) - 128, chunk.width);
    };
    chunk.elements.resize((size_t)chunk.rows * chunk.samples * chunk.copies);
    for (size_t i = 0; i < chunk.elements.size(); ++i) {
        chunk.elements[i] = i % chunk.copies < ploidy ? masked(code(), chunk.width) : padding();
    }
    // A place for a special code: often at an end of a row, where words straddle rows.
    const auto place_of = [&]() {
        const u64 sample = chance(0.5) ? chunk.samples - 1 : chance(0.2) ? 0 : below(chunk.samples);
        return (size_t)(below(chunk.rows) * chunk.samples + sample) * chunk.copies + below(ploidy);
    };
    for (u64 n = chunk.large ? below(12) : 0; n > 0; --n) chunk.elements[place_of()] = chance(0.2) ? below(k) : k - 1;
    // Codes that no allele has, of samples that are wanted or not.
    for (u64 n = chance(chunk.large ? 0.5 : 0.3) ? between(1, 2) : 0; n > 0; --n) {
        const size_t place = place_of();
        const i64 top = chunk.width == 1 ? 127 : chunk.width == 2 ? 32767 : 2000000000;
        const i64 bad = chance(0.5) ? k : chunk.large || chance(0.5) ? k + (i64)below(5) : top;
        if (bad <= top) chunk.elements[place] = masked(bad, chunk.width);
    }

    VczCountSpec spec = {};
    spec.n_alleles = k;
    spec.ploidy = ploidy;
    spec.allele_sets = (u32)(chance(0.1) ? between(5, 11) : chance(0.1) ? between(20, 70) : below(4));
    spec.genotype_sets = (u32)below(4);
    spec.zygosity_sets = (u32)below(4);
    const u32 call_sets = spec.genotype_sets + spec.zygosity_sets;
    if (spec.allele_sets + call_sets == 0) spec.allele_sets = 1;
    std::vector<Set> sets;
    for (u32 i = 0; i < spec.allele_sets + call_sets; ++i) sets.push_back(random_set(chunk.samples));
    spec.mask_words = (chunk.samples * chunk.copies + 31) / 32;
    spec.sample_words = (chunk.samples + 31) / 32;
    const size_t n_masks = 1 + spec.allele_sets;
    std::vector<u32> masks(n_masks * spec.mask_words + call_sets * (size_t)spec.sample_words + 2);
    for (u32 i = 0; i < sets.size(); ++i) {
        for (u32 sample = 0; sample < chunk.samples; ++sample) {
            if (!sets[i][sample]) continue;
            for (u32 copy = 0; copy < ploidy; ++copy) {
                const u32 bit = sample * chunk.copies + copy;
                masks[bit / 32] |= 1u << bit % 32;
                if (i < spec.allele_sets) masks[(size_t)(1 + i) * spec.mask_words + bit / 32] |= 1u << bit % 32;
            }
            if (i >= spec.allele_sets) {
                const size_t mask = n_masks * spec.mask_words + (size_t)(i - spec.allele_sets) * spec.sample_words;
                masks[mask + sample / 32] |= 1u << sample % 32;
            }
        }
    }
    spec.masks = (u64)masks.data();
    const std::vector<u64> sparse = sparse_sets(masks, spec.mask_words, spec.allele_sets);
    spec.sparse = (u64)sparse.data();

    const u32 status_offset = (u32)below(3);
    Tiles tiles = cut(chunk, padding, status_offset);
    spec.count_bytes = count_bytes((u64)chunk.samples * ploidy, tiles.shared);
    what = "counts of " + str(chunk.rows) + " x " + str(chunk.samples) + " x " + str(chunk.copies) + ", ploidy " + str(ploidy) +
           ", K " + str(k) + ", width " + str(chunk.width) + ", kind " + str(chunk.kind) + ", " + str((i64)tiles.tiles.size()) +
           " tiles, style " + str(style);

    const size_t alleles = (size_t)spec.allele_sets * chunk.out_rows * k;
    const size_t genotypes = (size_t)spec.genotype_sets * chunk.out_rows * VCZ_CLASSES, before_zygosity = alleles + genotypes;
    std::vector<i32> expected(before_zygosity + (size_t)spec.zygosity_sets * chunk.out_rows * 2 * k);
    std::vector<i32> blank(expected.size());
    if (!tiles.shared) {
        for (i32& x : blank) x = (i32)between(1, 255);
    }
    // Rows that no tile has stay as they are; the others were zeroed.
    for (size_t i = 0; i < expected.size(); ++i) {
        const size_t row = i < alleles           ? i / k % chunk.out_rows
                           : i < before_zygosity ? (i - alleles) / VCZ_CLASSES % chunk.out_rows
                                                 : (i - before_zygosity) / (2 * k) % chunk.out_rows;
        const bool counted = row >= chunk.row0 && row < chunk.row0 + chunk.rows;
        if (counted) blank[i] = 0;
        expected[i] = blank[i];
    }
    std::vector<u32> bad_alleles(status_offset + tiles.tiles.size()), bad_genotypes(bad_alleles.size());
    std::vector<u32> bad_zygosity(bad_alleles.size());
    bool any_bad = false;
    for (const VczTile& tile : tiles.tiles) {
        for (u32 r = 0; r < tile.rows; ++r) {
            const u32 row = tile.row0 + r;
            for (u32 s = tile.sample0; s < tile.sample0 + tile.samples; ++s) {
                std::vector<i64> call(ploidy);
                for (u32 c = 0; c < ploidy; ++c) call[c] = chunk.code(row - chunk.row0, s, c);
                const bool bad = *std::max_element(call.begin(), call.end()) >= (i64)k;
                for (u32 i = 0; i < sets.size(); ++i) {
                    if (!sets[i][s]) continue;
                    if (bad) {
                        any_bad = true;
                        bad_alleles[tile.status] = VCZ_BAD_CODE;
                        const bool of_zygosity = i >= spec.allele_sets + spec.genotype_sets;
                        if (i >= spec.allele_sets) (of_zygosity ? bad_zygosity : bad_genotypes)[tile.status] = VCZ_BAD_CODE;
                    }
                    if (i < spec.allele_sets) {
                        for (i64 code : call) {
                            if (code >= 0 && code < (i64)k) expected[((size_t)i * chunk.out_rows + row) * k + code] += 1;
                        }
                    } else if (i >= spec.allele_sets + spec.genotype_sets) {
                        const size_t set = i - spec.allele_sets - spec.genotype_sets;
                        std::vector<i64> copies;
                        std::copy_if(call.begin(), call.end(), std::back_inserter(copies), [](i64 code) { return code != -2; });
                        if (bad || copies.size() != 2 || std::min(copies[0], copies[1]) < 0) continue;
                        i32* out = &expected[before_zygosity + (set * chunk.out_rows + row) * 2 * k];
                        if (copies[0] == copies[1]) {
                            out[copies[0]] += 1;
                        } else {
                            for (i64 code : copies) out[k + code] += 1;
                        }
                    } else {
                        const size_t set = i - spec.allele_sets;
                        expected[alleles + (set * chunk.out_rows + row) * VCZ_CLASSES + reference_class(call)] += 1;
                    }
                }
            }
        }
    }

    for (u32 codes = 0; codes < 3; ++codes) {
        if (codes != 1 && (chunk.width != 1 || chunk.kind == VCZ_BYTE_SHUFFLED)) continue;
        if (codes == 2 && (tiles.shared || k == 1)) continue;
        const Counts out(blank, spec.count_bytes);
        for (VczTile& tile : tiles.tiles) {
            tile.out = out.address();
            tile.spec = (u64)&spec;
        }
        std::vector<u32> status(bad_alleles.size());
        if (spec.allele_sets > 0) {
            const char* name = codes == 0 ? "vcz_count_planes" : codes == 1 ? "vcz_count_codes" : "vcz_count_sparse";
            launch_tiles(codes == 0 ? vcz_count_planes : codes == 1 ? vcz_count_codes : vcz_count_sparse, tiles, status);
            if (status != bad_alleles) fail(std::string(name) + ": status");
        }
        status.assign(status.size(), 0);
        if (spec.genotype_sets > 0) {
            launch_tiles(vcz_count_genotypes, tiles, status);
            if (status != bad_genotypes) fail("vcz_count_genotypes: status");
        }
        status.assign(status.size(), 0);
        if (spec.zygosity_sets > 0) {
            launch_tiles(vcz_count_zygosity, tiles, status);
            if (status != bad_zygosity) fail("vcz_count_zygosity: status");
        }
        if (!any_bad) compare(out.values(), expected, codes == 0   ? "vcz_count_planes, _genotypes or _zygosity"
                                                         : codes == 1 ? "vcz_count_codes, _genotypes or _zygosity"
                                                                      : "vcz_count_sparse, _genotypes or _zygosity");
    }
}

void test_gather() {
    Chunk chunk;
    chunk.rows = (u32)between(1, 30);
    chunk.samples = (u32)(chance(0.1) ? between(200, 600) : between(1, 60));
    chunk.copies = (u32)between(1, 5);
    chunk.width = chance(0.4) ? 1 : 1u << below(4);
    chunk.big_endian = chance(0.3);
    chunk.kind = (u32)below(3);
    chunk.large = chance(0.2);
    chunk.row0 = (u32)below(3);
    chunk.out_rows = chunk.row0 + chunk.rows + (u32)below(3);
    const u32 style = (u32)below(3);
    const auto element = [&]() -> u64 {
        return masked(style == 0 ? (i64)chance(0.2) : style == 1 ? (i64)below(4) - 2 : (i64)rng(), chunk.width);
    };
    chunk.elements.resize((size_t)chunk.rows * chunk.samples * chunk.copies);
    for (u64& x : chunk.elements) x = element();
    Tiles tiles = cut(chunk, element, 0);

    const Set set = random_set(chunk.samples);
    std::vector<u32> samples;
    for (u32 s = 0; s < chunk.samples; ++s) {
        if (set[s]) samples.push_back(s);
    }
    VczGatherSpec spec;
    spec.samples = (u64)samples.data();
    spec.n_samples = (u32)samples.size();
    spec.inner = chance(0.6) ? chunk.copies : (u32)between(1, chunk.copies);
    what = "gathering " + str((i64)samples.size()) + " of " + str(chunk.rows) + " x " + str(chunk.samples) + " x " +
           str(chunk.copies) + ", width " + str(chunk.width) + ", kind " + str(chunk.kind) + ", " +
           str((i64)tiles.tiles.size()) + " tiles";

    const size_t row_bytes = samples.size() * spec.inner * chunk.width;
    const size_t bytes = row_bytes * chunk.out_rows;
    std::unique_ptr<u64[]> memory(new u64[bytes / 8 + 2]);  // aligned to 8
    u8* out = (u8*)memory.get();
    std::vector<u8> expected(bytes + 8);
    for (u8& x : expected) x = (u8)rng();
    std::copy(expected.begin(), expected.end(), out);
    for (u32 row = 0; row < chunk.rows; ++row) {
        for (size_t s = 0; s < samples.size(); ++s) {
            for (u32 i = 0; i < spec.inner; ++i) {
                const std::vector<u8> x = stored_bytes(chunk.at(row, samples[s], i), chunk.width, false);
                const size_t place = ((chunk.row0 + row) * samples.size() + s) * spec.inner + i;
                std::copy(x.begin(), x.end(), expected.begin() + (std::ptrdiff_t)(place * chunk.width));
            }
        }
    }
    for (VczTile& tile : tiles.tiles) {
        tile.out = (u64)out;
        tile.spec = (u64)&spec;
        const auto place = [&](u32 sample) { return (u32)(std::lower_bound(samples.begin(), samples.end(), sample) - samples.begin()); };
        tile.sel_begin = place(tile.sample0);
        tile.sel_count = place(tile.sample0 + tile.samples) - tile.sel_begin;
    }
    std::vector<u32> status(tiles.tiles.size());
    launch_tiles(vcz_gather, tiles, status);
    for (size_t i = 0; i < expected.size(); ++i) {
        if (out[i] != expected[i]) fail("byte " + str((i64)i) + " of " + str((i64)bytes) + ": expected " + str(expected[i]) + ", found " + str(out[i]));
    }
    if (status != std::vector<u32>(status.size())) fail("status");
}

void test_planes() {
    Chunk chunk;
    const u32 ploidy = chance(0.6) ? 2 : (u32)between(1, 4);
    chunk.copies = ploidy + (chance(0.2) ? (u32)between(1, 2) : 0);
    chunk.rows = (u32)between(1, 40);
    chunk.samples = (u32)(chance(0.1) ? between(200, 600) : between(1, 90));
    chunk.width = chance(0.6) ? 1 : 1u << below(4);
    chunk.big_endian = chance(0.3);
    chunk.kind = chance(0.7) ? VCZ_BIT_SHUFFLED : (u32)below(3);
    chunk.large = chance(0.3);
    chunk.row0 = (u32)below(3);
    chunk.out_rows = chunk.row0 + chunk.rows + (u32)below(3);
    const u32 k = (u32)(chance(0.5) ? 2 : chance(0.1) && chunk.width > 1 ? between(100, 300) : between(1, 9));
    const u32 style = (u32)below(4);
    const auto code = [&]() -> i64 {
        switch (style) {
            case 0: return chance(0.02) ? 1 % k : 0;
            case 1: return chance(0.1) ? -(i64)between(1, 2) : (i64)below(std::min(k, 2u));
            case 2: return chance(0.2) ? -(i64)between(1, 3) : (i64)below(k);
            default: return chance(0.001) ? -2 : chance(0.001) ? -1 : chance(0.01) ? (i64)below(k) : 0;
        }
    };
    chunk.elements.resize((size_t)chunk.rows * chunk.samples * chunk.copies);
    for (size_t i = 0; i < chunk.elements.size(); ++i) {
        chunk.elements[i] = masked(i % chunk.copies < ploidy ? code() : -1, chunk.width);
    }
    if (chance(0.2)) {
        const u64 call = below(chunk.rows) * chunk.samples + below(chunk.samples);
        chunk.elements[call * chunk.copies + below(ploidy)] = masked(chance(0.5) ? k : std::max(k, 100u), chunk.width);
    }
    const u32 status_offset = (u32)below(3);
    Tiles tiles = cut(chunk, [&]() { return masked(chance(0.5) ? 0 : -1, chunk.width); }, status_offset);
    const u32 n_tiles = (u32)tiles.tiles.size();
    what = "planes of " + str(chunk.rows) + " x " + str(chunk.samples) + " x " + str(chunk.copies) + ", ploidy " + str(ploidy) +
           ", K " + str(k) + ", width " + str(chunk.width) + ", kind " + str(chunk.kind) + ", " + str(n_tiles) + " tiles, style " + str(style);

    VczCountSpec spec = {};
    spec.n_alleles = k;
    spec.ploidy = ploidy;
    spec.allele_sets = (u32)below(3);
    spec.genotype_sets = (u32)below(2);
    spec.zygosity_sets = (u32)below(2);
    spec.plane_sets = (u32)between(1, 3);
    u32 code_planes = 1;
    while (code_planes < 30 && (k - 1) >> code_planes != 0) code_planes += 1;
    const u32 planes = code_planes + 2;
    std::vector<std::vector<u32>> sets(spec.plane_sets);
    std::vector<VczPlaneSet> described(spec.plane_sets);
    u64 before = 0;
    for (u32 i = 0; i < spec.plane_sets; ++i) {
        const Set set = random_set(chunk.samples);
        for (u32 s = 0; s < chunk.samples; ++s) {
            if (set[s]) sets[i].push_back(s);
        }
        VczPlaneSet& to = described[i];
        to.samples = (u64)sets[i].data();
        to.before = before;
        to.n_samples = (u32)sets[i].size();
        to.width = (to.n_samples * ploidy + 63) / 64;
        before += (u64)planes * to.width;
    }
    spec.planes = (u64)described.data();
    const size_t counts = ((size_t)spec.allele_sets * k + spec.genotype_sets * VCZ_CLASSES + spec.zygosity_sets * 2 * k) * chunk.out_rows;
    spec.count_bytes = count_bytes((u64)chunk.samples * ploidy, tiles.shared);
    const size_t first = (counts * spec.count_bytes + 7) / 8, data = first + (size_t)spec.plane_sets * chunk.out_rows;
    std::vector<u64> out(data + before * chunk.out_rows);
    // Rows of the lowest plane alone may stay on the device; or there is too little room for the others.
    const bool stays = !tiles.shared && planes < 8 && below(2) == 0;
    const u64 room = !tiles.shared && below(4) == 0 ? below(before * chunk.out_rows + 1) : before * chunk.out_rows;
    std::vector<u64> resident(before / planes * chunk.out_rows);

    std::vector<VczTile> of_sets;
    // One counter for all tiles: they are of one chunk.
    std::vector<u32> status(status_offset + n_tiles + 1), expected(status.size());
    const u32 used = status_offset + n_tiles;
    for (u32 i = 0; i < spec.plane_sets; ++i) {
        for (VczTile tile : tiles.tiles) {
            const auto place = [&](u32 sample) { return (u32)(std::lower_bound(sets[i].begin(), sets[i].end(), sample) - sets[i].begin()); };
            tile.out = (u64)out.data();
            tile.spec = (u64)&spec;
            tile.set = i;
            tile.used = used;
            tile.resident = stays ? (u64)resident.data() : 0;
            tile.room = (u32)room;
            tile.sel_begin = place(tile.sample0);
            tile.sel_count = place(tile.sample0 + tile.samples) - tile.sel_begin;
            if (tile.sel_count == 0) continue;
            of_sets.push_back(tile);
            for (u32 r = 0; r < tile.rows; ++r) {
                for (u32 s = tile.sel_begin; s < tile.sel_begin + tile.sel_count; ++s) {
                    for (u32 c = 0; c < ploidy; ++c) {
                        if (chunk.code(tile.row0 - chunk.row0 + r, sets[i][s], c) >= (i64)k) expected[tile.status] = VCZ_BAD_CODE;
                    }
                }
            }
        }
    }
    tiles.tiles = of_sets;
    if (of_sets.empty()) return;
    launch_tiles(vcz_gather_planes, tiles, status);
    const u32 taken = status[used];
    bool any_bad = false;
    // Rows that have no room are reported, and no others.
    const bool is_full = taken > room;
    bool full = false;
    for (u32 i = 0; i < used; ++i) {
        if ((status[i] & ~VCZ_FULL) != expected[i]) fail("vcz_gather_planes: status");
        any_bad = any_bad || expected[i] != 0;
        full = full || (status[i] & VCZ_FULL) != 0;
    }
    if (any_bad) return;
    if (full != is_full) fail("vcz_gather_planes: room");
    if (std::any_of(out.begin() + data + std::min(room, before * chunk.out_rows), out.end(), [](u64 word) { return word != 0; })) {
        fail("vcz_gather_planes: words after the room");
    }
    if (full) return;
    u64 words = 0;
    for (u32 i = 0; i < spec.plane_sets; ++i) {
        const u32 width = described[i].width;
        for (u32 row = 0; row < chunk.out_rows; ++row) {
            const u64 entry = out[first + (size_t)i * chunk.out_rows + row];
            const bool on_device = ((u32)entry & VCZ_RESIDENT) != 0 && stays;
            const u32 stored = on_device ? (u32)entry & (VCZ_RESIDENT - 1) : (u32)entry;
            const u64* from = on_device ? &resident[described[i].before / planes * chunk.out_rows + (size_t)row * width] : out.data() + data + (u32)(entry >> 32);
            if (on_device != (stays && stored == 1)) fail("vcz_gather_planes: row " + str(row) + " stays");
            if (on_device && (u32)(entry >> 32) != row * width) fail("vcz_gather_planes: place of row " + str(row));
            std::vector<std::vector<u64>> wanted(planes, std::vector<u64>(width));
            if (row >= chunk.row0 && row < chunk.row0 + chunk.rows) {
                for (u32 bit = 0; bit < described[i].n_samples * ploidy; ++bit) {
                    const i64 x = chunk.code(row - chunk.row0, sets[i][bit / ploidy], bit % ploidy);
                    for (u32 plane = 0; plane < planes; ++plane) {
                        const bool has = plane < code_planes ? x >= 0 && (x >> plane & 1) : plane == code_planes ? x < 0 && x != -2 : x == -2;
                        wanted[plane][bit / 64] |= (u64)has << bit % 64;
                    }
                }
            }
            for (u32 plane = 0; plane < planes; ++plane) {
                const bool empty = wanted[plane] == std::vector<u64>(width);
                if ((stored >> plane & 1) == 0) {
                    if (!empty) fail("vcz_gather_planes: row " + str(row) + " has no plane " + str(plane));
                    continue;
                }
                if (empty && !tiles.shared) fail("vcz_gather_planes: row " + str(row) + " has an empty plane " + str(plane));
                if (!std::equal(from, from + width, wanted[plane].begin())) fail("vcz_gather_planes: row " + str(row) + ", plane " + str(plane));
                if (on_device) {
                    u32 ones = 0;
                    for (u32 word = 0; word < width; ++word) ones += (u32)__builtin_popcountll(from[word]);
                    if ((u32)entry >> VCZ_RESIDENT_ONES != ones) fail("vcz_gather_planes: bits of row " + str(row));
                } else {
                    words += width;
                }
                from += width;
            }
        }
    }
    if (!tiles.shared && words != taken) fail("vcz_gather_planes: words taken");
}

// A value as the definition compares it, from its bits: an integer, or a number with the bits of a floating-point one.
bool passes(const VczCallFilter& filter, u64 bits) {
    if ((filter.flags & VCZ_HAS_NULLS) != 0 && (bits == filter.missing || bits == filter.fill)) return false;
    if (filter.order == VCZ_FLOAT && filter.width == 4) {
        const auto number = [](i64 key) {
            const u32 bits = key < 0 ? 0x80000000u | (u32)-key : (u32)key;
            float x;
            std::memcpy(&x, &bits, sizeof x);
            return x;
        };
        float x;
        const u32 low = (u32)bits;
        std::memcpy(&x, &low, sizeof x);
        return number(filter.low) <= x && x <= number(filter.high);
    }
    if (filter.order == VCZ_UNSIGNED) {
        const u64 sign = (u64)1 << 63;
        return ((u64)filter.low ^ sign) <= bits && bits <= ((u64)filter.high ^ sign);
    }
    const u32 unused = 64 - 8 * filter.width;
    const i64 x = (i64)(bits << unused) >> unused;
    return filter.low <= x && x <= filter.high;
}

// A filter by random values, and the values that pass.
VczCallFilter random_filter(u32 width) {
    VczCallFilter filter = {};
    filter.width = width;
    filter.order = width == 4 && chance(0.4) ? VCZ_FLOAT : (u32)below(2);
    i64 low, high;
    if (filter.order == VCZ_FLOAT) {
        const auto key = [](float x) {
            u32 bits;
            std::memcpy(&bits, &x, sizeof bits);
            return (bits >> 31) != 0 ? -(i64)(bits & 0x7fffffff) : (i64)bits;
        };
        low = key(((float)below(40) - 20) / 3);
        high = key(((float)below(40) - 20) / 3);
        if (chance(0.2)) high = 0x7f800000;  // infinity
    } else {
        low = (i64)below(20) - 10;
        high = low + (i64)below(20) - 2;
        if (filter.order == VCZ_UNSIGNED) {
            const i64 first = (i64)((u64)1 << 63);
            low = first + (low < 0 ? 0 : low);
            high = chance(0.3) ? (i64)(~(u64)0 >> 1) : first + (high < 0 ? 0 : high);
        }
    }
    filter.low = low;
    filter.high = high;
    if (filter.order != VCZ_UNSIGNED && chance(0.7)) {
        filter.flags = VCZ_HAS_NULLS;
        const bool is_float = filter.order == VCZ_FLOAT;
        filter.missing = is_float ? 0x7f800001 : masked(-1, width);
        filter.fill = is_float ? 0x7f800002 : masked(-2, width);
    }
    return filter;
}

u64 random_value(const VczCallFilter& filter) {
    if (filter.order == VCZ_FLOAT) {
        const u32 special[] = {0x7f800001, 0x7f800002, 0x7f800000, 0xff800000, 0x7fc00000, 0x80000000, 0};
        if (chance(0.2)) return special[below(std::size(special))];
        const float x = ((float)below(60) - 30) / 3;
        u32 bits;
        std::memcpy(&bits, &x, sizeof bits);
        return bits;
    }
    return masked(chance(0.1) ? (i64)rng() : (i64)below(30) - 12, filter.width);
}

// Tiles of genotypes and of the fields that filter their calls.
void test_filters() {
    const u32 n_tiles = (u32)between(1, 3), width = chance(0.6) ? 1 : 1u << below(4);
    const u32 copies = chance(0.6) ? 2 : (u32)between(1, 4);
    const bool big_endian = chance(0.3);
    const u32 n_filters = (u32)between(1, 3), style = (u32)below(3);
    what = "filters of " + str(n_tiles) + " tiles, copies " + str(copies) + ", width " + str(width) + ", " + str(n_filters) + " filters, style " + str(style);
    std::vector<Encoded> fields, genotypes;
    std::vector<std::vector<u64>> elements, expected;
    std::vector<std::vector<VczCallFilter>> filters(n_tiles);
    std::vector<std::unique_ptr<u32[]>> words;
    std::vector<VczCallTile> tiles;
    std::vector<std::vector<bool>> pass;
    for (u32 t = 0; t < n_tiles; ++t) {
        const u32 calls = (u32)(chance(0.3) ? between(1, 40) : between(1, chance(0.2) ? 9000 : 1500));
        pass.emplace_back(calls, true);
        for (u32 f = 0; f < n_filters; ++f) {
            VczCallFilter filter = random_filter(1u << below(4));
            filter.per_call = chance(0.6) ? 1 : (u32)between(2, 4);
            filter.at = (u32)below(filter.per_call);
            const bool big = chance(0.3);
            if (big) filter.flags |= VCZ_FIELD_BIG_ENDIAN;
            std::vector<u64> values((size_t)calls * filter.per_call);
            for (u64& x : values) x = random_value(filter);
            for (u32 c = 0; c < calls; ++c) {
                if (!passes(filter, values[(size_t)c * filter.per_call + filter.at])) pass[t][c] = false;
            }
            fields.push_back(encode(values, filter.width, big, (u32)below(3), chance(0.2)));
            filter.block_elements = fields.back().block_elements;
            filters[t].push_back(filter);
        }
        elements.emplace_back((size_t)calls * copies);
        for (u64& x : elements[t]) {
            const i64 code = style == 0 ? (i64)chance(0.2) : chance(0.2) ? -(i64)between(1, 3) : (i64)below(style == 1 ? 3 : 100);
            x = masked(code, width);
        }
        expected.push_back(elements[t]);
        for (size_t i = 0; i < expected[t].size(); ++i) {
            if (!pass[t][i / copies] && expected[t][i] != masked(-2, width)) expected[t][i] = masked(-1, width);
        }
        genotypes.push_back(encode(elements[t], width, big_endian, chance(0.7) ? VCZ_BIT_SHUFFLED : (u32)below(3), chance(0.3)));
        // A bit for each call and one word more, as the sanitizer checks.
        words.emplace_back(new u32[(calls + 31) / 32 + 1]);
        for (u32 i = 0; i <= (calls + 31) / 32; ++i) words.back()[i] = (u32)rng();
        VczCallTile tile = {};
        tile.passes = (u64)words.back().get();
        tile.n_filters = n_filters;
        tile.calls = calls;
        tiles.push_back(tile);
    }
    for (u32 t = 0; t < n_tiles; ++t) {
        for (u32 f = 0; f < n_filters; ++f) filters[t][f].blocks = (u64)fields[(size_t)t * n_filters + f].blocks.data();
        tiles[t].filters = (u64)filters[t].data();
    }
    const auto launch = [&](auto kernel, const auto& items) {
        const u32 groups = (u32)between(1, 3);
        emulate::launch((u32)items.size() * groups, VCZ_THREADS, [&] { kernel(items.data(), (u32)items.size(), groups, nullptr); });
    };
    launch(vcz_test_calls, tiles);
    for (u32 t = 0; t < n_tiles; ++t) {
        for (u32 c = 0; c < tiles[t].calls; ++c) {
            if ((words[t][c / 32] >> c % 32 & 1) != (pass[t][c] ? 1u : 0u)) fail("vcz_test_calls: call " + str(c) + " of tile " + str(t));
        }
    }

    std::vector<VczMaskedBlock> blocks;
    std::vector<std::unique_ptr<uint4[]>> copied;
    std::vector<VczBlock> copies_of;
    const u32 all = 8 * width;
    for (u32 t = 0; t < n_tiles; ++t) {
        u32 first = 0;
        for (const VczBlock& from : genotypes[t].blocks) {
            // As the host plans them (src/gpu/call_filter.rs).
            VczBlock to = from;
            to.flags = 0;
            to.planes = 1;
            if (from.kind == VCZ_BIT_SHUFFLED) {
                const bool repeats = (from.flags & VCZ_REPEATS) != 0;
                to.planes = width > 1 ? all : vcz_min(from.planes + (repeats ? 0 : 1), all);
                to.flags = to.planes < all ? VCZ_REPEATS : 0;
            }
            const size_t bytes = from.kind == VCZ_BIT_SHUFFLED ? (size_t)to.planes * (from.elements / 8) : (size_t)from.elements * width;
            copied.emplace_back(new uint4[bytes / 16 + 2]);
            std::memset(copied.back().get(), 0xa5, (bytes / 16 + 2) * 16);
            to.data = (u64)copied.back().get();
            VczMaskedBlock block = {};
            block.from = from;
            block.to = to.data;
            block.passes = tiles[t].passes;
            block.first = first;
            block.copies = copies;
            block.planes = to.planes;
            block.width = width;
            block.flags = big_endian ? VCZ_BIG_ENDIAN : 0;
            blocks.push_back(block);
            copies_of.push_back(to);
            first += from.elements;
        }
    }
    launch(vcz_mask_calls, blocks);
    size_t next = 0;
    for (u32 t = 0; t < n_tiles; ++t) {
        size_t i = 0;
        for (size_t b = 0; b < genotypes[t].blocks.size(); ++b, ++next) {
            const VczBlock& block = copies_of[next];
            for (u32 e = 0; e < block.elements; ++e, ++i) {
                const u64 found = vcz_element(block, e, width, width > 1 && big_endian);
                if (found != expected[t][i]) fail("vcz_mask_calls: element " + str((i64)i) + " of tile " + str(t) + ": expected " + str((i64)expected[t][i]) + ", found " + str((i64)found));
            }
            const size_t bytes = block.kind == VCZ_BIT_SHUFFLED ? (size_t)block.planes * (block.elements / 8) : (size_t)block.elements * width;
            const u8* end = (const u8*)block.data + bytes;
            for (u32 j = 0; j < 16; ++j) {
                if (end[j] != 0xa5) fail("vcz_mask_calls: written past the end of a block");
            }
        }
    }
}

void test_segments() {
    what = "segments";
    const size_t n = between(1, 6);
    std::vector<VczSegment> segments(n);
    std::vector<Bytes> sources;
    std::vector<std::vector<u8>> targets(n), expected(n);
    for (size_t i = 0; i < n; ++i) {
        const size_t len = chance(0.3) ? below(40) : below(9000), before = below(20);
        targets[i].resize(before + len + 1 + below(16));
        for (u8& x : targets[i]) x = (u8)rng();
        expected[i] = targets[i];
        std::vector<u8> bytes(len);
        const bool zero = chance(0.3);
        for (u8& x : bytes) x = zero ? 0 : (u8)rng();
        std::copy(bytes.begin(), bytes.end(), expected[i].begin() + (std::ptrdiff_t)before);
        segments[i].dst = (u64)targets[i].data() + before;
        segments[i].len = len;
        if (!zero) {
            sources.emplace_back(bytes);
            segments[i].src = sources.back().address();
        }
    }
    emulate::launch((u32)between(1, n), VCZ_THREADS, [&] { vcz_segments(segments.data(), (u32)n); });
    if (targets != expected) fail("bytes differ");
}

void test_frames() {
    what = "frame checks";
    const u32 n = (u32)between(1, 700);
    std::vector<i32> statuses(n);
    std::vector<u64> actual(n), expected(n);
    std::vector<u32> index(n), status(20), wanted(20);
    for (u32 i = 0; i < n; ++i) {
        expected[i] = actual[i] = rng();
        index[i] = (u32)below(20);
        if (chance(0.01)) statuses[i] = (i32)between(1, 9);
        if (chance(0.01)) actual[i] += chance(0.5) ? 1 : (u64)1 << 40;
        if (statuses[i] != 0 || actual[i] != expected[i]) wanted[index[i]] |= VCZ_BAD_FRAME;
    }
    emulate::launch((u32)between(1, 4), VCZ_THREADS, [&] {
        vcz_check_frames(statuses.data(), actual.data(), expected.data(), index.data(), n, status.data());
    });
    if (status != wanted) fail("status");
}

u32 reference_sum(const std::vector<u8>& bytes, u32 kind) {
    u32 a = 1, b = 0, crc = 0xffffffff;
    for (u8 byte : bytes) {
        a = (a + byte) % 65521;
        b = (b + a) % 65521;
        crc ^= byte;
        for (int i = 0; i < 8; ++i) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return kind == 0 ? b << 16 | a : ~crc;
}

void test_sums() {
    what = "checksums";
    const size_t n = between(1, 4);
    std::vector<VczCheck> checks(n);
    std::vector<Bytes> data;
    std::vector<u32> status(n + 1), wanted(n + 1);
    for (size_t i = 0; i < n; ++i) {
        checks[i].kind = (u32)below(3);
        checks[i].status = (u32)i + 1;
        std::vector<u8> bytes(chance(0.3) ? below(20) : below(chance(0.1) ? 300000 : 5000));
        if (checks[i].kind == 2) {
            checks[i].len = 1;
            bytes.assign(1, (u8)rng());
            checks[i].expected = (u8)(bytes[0] + below(2));
            wanted[i + 1] = checks[i].expected == bytes[0] ? 0 : VCZ_BAD_FRAME;
            data.emplace_back(bytes);
            checks[i].data = data.back().address();
            continue;
        }
        const bool full = chance(0.2);
        for (u8& x : bytes) x = full ? 255 : (u8)rng();
        checks[i].len = bytes.size();
        checks[i].expected = reference_sum(bytes, checks[i].kind);
        if (chance(0.3)) {
            if (bytes.empty() || chance(0.5)) {
                checks[i].expected ^= 1u << below(32);
            } else {
                bytes[below(bytes.size())] ^= (u8)(1 << below(8));
            }
            wanted[i + 1] = VCZ_BAD_SUM;
        }
        data.emplace_back(bytes);
        checks[i].data = data.back().address();
    }
    emulate::launch((u32)between(1, n), VCZ_THREADS, [&] { vcz_check_sums(checks.data(), (u32)n, status.data()); });
    if (status != wanted) fail("status");
}

}  // namespace

int main(int argc, char** argv) {
    const u64 cases = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 150;
    const u64 first = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
    for (seed = first; seed < first + cases; ++seed) {
        rng.seed(seed);
        test_counts();
        test_gather();
        test_planes();
        test_filters();
        test_segments();
        test_frames();
        test_sums();
    }
    std::printf("%llu cases of every kernel agree with the reference\n", cases);
}
