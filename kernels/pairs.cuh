// The units of pairs, and tiles of their pairs: what the kernels for products over pairs share.
//
// A *unit* is a row of bits, one bit for each site: of a copy, whether it has the allele; of an individual, whether it is heterozygous. The
// count of a pair of units is the number of sites at which both have a bit. Bits lie in *steps* of 1,024 sites: for each step, for each unit,
// 128 bytes. Of the eight parts of 16 bytes of unit u, part c is at place c ^ (u & 7), so that the parts c of eight units that follow each
// other are in different banks of shared memory, and as the tensor cores want them (the 128-byte swizzle).
#ifndef VCZ_PAIRS_CUH
#define VCZ_PAIRS_CUH
#include "vcz.cuh"

#define VCZ_STEP_ROWS 1024
#define VCZ_STEP_WORDS 32

// The units of a step: the allele bits of all copies; these, and then the bits of copies that are called; for individuals of two copies each,
// the bits of those that are heterozygous, and then of those that are homozygous for the allele; these, and then the bits of individuals of which
// both copies are called; or, for sums of weighted products of dosages, for eight individuals each the bits of those that are heterozygous, and
// then of those that are homozygous for the allele.
#define VCZ_UNITS_COPIES 0
#define VCZ_UNITS_COPIES_CALLED 1
#define VCZ_UNITS_DIPLOIDS 2
#define VCZ_UNITS_DIPLOIDS_CALLED 3
#define VCZ_UNITS_DIPLOID_BLOCKS 4

// Sites of a slice: those of one product of tensor cores. A step has four.
#define VCZ_SLICE_ROWS 256
#define VCZ_STEP_SLICES 4
// No row.
#define VCZ_NO_ROW 0xffffffffu

// Rows of bit-planes, one after the other: the words of the allele's plane, and where there are calls that are missing those of the plane
// of copies that are not called. Bits past the last copy are zero, and so are those of the allele of copies that are not called.
struct VczPairRows {
    u64 rows;
    u64 order;    // u32, n_rows: for each site of the units the row, or VCZ_NO_ROW; 0 if they are those of the rows
    u64 units;    // where the units go; the words of those past the last are zero and stay so
    u32 n_rows;
    u32 width;    // 32-bit words of a plane
    u32 copies;
    u32 kind;     // VCZ_UNITS_COPIES ...
    u32 stride;   // units of a step, with those past the last
    u32 tiles;    // CTAs for a step, each for 256 copies
};

// Rows of one plane to copy, so that they lie one after the other.
struct VczCopiedRows {
    u64 from;     // u64, n_rows: the address of each row; bit 0 is set where the bits of all copies are inverted; bits 1 and 2 as in VczSampleRows
    u64 to;
    u32 n_rows;
    u32 width;    // 64-bit words of a row
    u32 copies;   // of which a row has bits
    u32 pad;
};

// Rows of one plane in which the genotypes of diploid individuals are counted.
struct VczSampleRows {
    u64 from;       // u64, n_rows: the address of each row, which is not inverted; bits 1 and 2 are the number of its bits, at most 3
    u64 counts;     // u32, four times n_samples, added to: heterozygous, homozygous for the allele, with its only copy, with all its copies
    u32 n_rows;
    u32 width;      // 32-bit words of a row
    u32 n_samples;
    u32 pad;
};

// The most copies that have the allele in a rare row.
#define VCZ_RARE_COPIES 32

// Rows of one plane in which at most VCZ_RARE_COPIES copies have the allele, and whose weights depend on how many these are. They are added to the
// sums of VczWeightedGram and VczUnitSums.
struct VczRareRows {
    u64 rows;       // as in VczPairRows, without missing calls
    u64 order;      // u32, n_rows: the place of each row among the rows
    u64 weights;    // u64, four for each number of copies from 0 to VCZ_RARE_COPIES: two of pairs, and two of units
    u64 sums[2];    // those of pairs with either weight; 0 if all these weights are
    u64 unit_sums;  // those of VczUnitSums
    u32 n_rows;
    u32 width;      // 32-bit words of a row
    u32 n_samples;
    u32 pad;
};

// Pairs of units to count.
struct VczGram {
    u64 units;
    u64 counts;   // u32, stride * stride: that of units i <= j at i * stride + j, added to
    u64 tiles;    // VczPairTile*
    u32 n_tiles;
    u32 n_units;
    u32 stride;
    u32 steps;
    u32 splits;   // parts of the steps, each counted for every tile by itself; at most `steps`
    u32 pad;
};

// Sums of the counts of pairs of copies, or of individuals, i < j with i in [first, end):
//   VCZ_UNITS_COPIES           sites at which the copies differ
//   VCZ_UNITS_COPIES_CALLED    those at which both are called and differ; at which both are called
//   VCZ_UNITS_DIPLOIDS         those at which both are heterozygous; at which they are homozygous for different alleles; and for each i
//                              in [first, end) those at which it is heterozygous
//   VCZ_UNITS_DIPLOIDS_CALLED  the first two; those at which both are called; of these, at which i is heterozygous; at which j is
struct VczPairSums {
    u64 counts;   // those of VczGram
    u64 sums;     // u32: the first sum of all pairs, by i and then j; then the next sum; then the numbers of each i
    u32 kind;     // VCZ_UNITS_COPIES ...
    u32 stride;   // that of VczGram
    u32 n;        // copies, or individuals
    u32 first;
    u32 end;
    u32 across;   // CTAs for VCZ_WARPS first ones, each for 32 second ones
};

// A tile of pairs: its first unit, and its first second unit.
struct VczPairTile {
    u32 row, column;
};

// Sums over sites of w x x', with a weight w for each slice, and x the dosage of an individual: 0, 1 or 2. The units are of the kind
// VCZ_UNITS_DIPLOID_BLOCKS.
//
// Counts are not cleared between slices. With A(s) the products up to slice s, the sum of w(s) (A(s) - A(s - 1)) is that of (w(s) - w(s + 1)) A(s), with 0 for
// the weight after the last slice: there is something to add only where the weight changes, and the products without weights come with it.
struct VczWeightedGram {
    VczGram gram;
    u64 weights;   // u64, one for each slice
    u64 sums;      // u64, two for each pair i <= j of individuals, by i and then j: low + 2^32 high is added to the sum low + 2^32 high
    u64 products;  // likewise, for the sums of x x'; 0 if they are not wanted
    u32 n_samples;
    u32 pad;
};

// The counts of tiles of pairs of sites, whose units are sites with one bit for each copy. The counts of gram, u16, are those of one tile after
// the other, by row; its splits are 1.
struct VczSiteCounts {
    VczGram gram;
    u64 seconds;  // the second units
};

// Sums over sites of w b, with a weight w for each slice, and b the bit of a unit: two sums with weights of their own.
struct VczUnitSums {
    u64 units;
    u64 weights;  // u64, two for each slice
    u64 sums;     // u64, four for each unit: low and high of each sum, as above
    u32 n_units;
    u32 stride;
    u32 steps;
    u32 pad;
};

static_assert(sizeof(VczPairRows) == 48, "layout of VczPairRows");
static_assert(sizeof(VczCopiedRows) == 32, "layout of VczCopiedRows");
static_assert(sizeof(VczSampleRows) == 32, "layout of VczSampleRows");
static_assert(sizeof(VczWeightedGram) == 80, "layout of VczWeightedGram");
static_assert(sizeof(VczSiteCounts) == 56, "layout of VczSiteCounts");
static_assert(sizeof(VczUnitSums) == 40, "layout of VczUnitSums");
static_assert(sizeof(VczRareRows) == 64, "layout of VczRareRows");
static_assert(sizeof(VczGram) == 48, "layout of VczGram");
static_assert(sizeof(VczPairSums) == 40, "layout of VczPairSums");
static_assert(sizeof(VczPairTile) == 8, "layout of VczPairTile");

// Word `word` of unit `unit` of a tile in shared memory.
VCZ_DEVICE u32 vcz_unit_word(const u32* tile, u32 unit, u32 word) {
    return tile[unit * VCZ_STEP_WORDS + ((((word >> 2) ^ (unit & 7)) << 2) | (word & 3))];
}

// A tile and the steps of one part.
struct VczPairJob {
    VczPairTile tile;
    u32 begin, end;
};

VCZ_DEVICE VczPairJob vcz_pair_job(const VczGram& gram, u32 index) {
    VczPairJob job;
    const u32 part = index / gram.n_tiles;
    job.tile = ((const VczPairTile*)gram.tiles)[index - part * gram.n_tiles];
    job.begin = (u32)((u64)gram.steps * part / gram.splits);
    job.end = (u32)((u64)gram.steps * (part + 1) / gram.splits);
    return job;
}

// Adds the count of a pair, if it is one of i <= j.
VCZ_DEVICE void vcz_add_pair(const VczGram& gram, u32 i, u32 j, i32 count) {
    if (i <= j && j < gram.n_units && count != 0) atomicAdd((u32*)gram.counts + ((u64)i * gram.stride + j), (u32)count);
}

// Stores two counts, one after the other.
VCZ_DEVICE void vcz_put_counts(u16* to, i32 count, i32 next) { *(u32*)to = (u32)count | (u32)next << 16; }

// Adds to a sum that is kept as low + 2^32 high. Each part is below 2^64 after 2^32 additions.
VCZ_DEVICE void vcz_add_to_sum(u64* sum, u64 x) {
    if ((x & 0xffffffff) != 0) atomicAdd(sum, x & 0xffffffff);
    if (x >> 32 != 0) atomicAdd(sum + 1, x >> 32);
}

// Adds to the sum of a pair i <= j of n individuals.
VCZ_DEVICE void vcz_add_pair_sum(u64 sums, u32 n, u32 i, u32 j, u64 x) {
    const u64 before = (u64)i * (2 * (u64)n - i + 1) / 2;
    vcz_add_to_sum((u64*)sums + 2 * (before + j - i), x);
}

// Adds the sum of a pair of individuals to `sums`, if it is one of i <= j.
VCZ_DEVICE void vcz_add_weighted(u64 sums, u32 n, u32 i, u32 j, u64 sum) {
    if (i > j || j >= n || sum == 0) return;
    vcz_add_pair_sum(sums, n, i, j, sum);
}

// The weight of slice `slice` less that of the next: the factor of the products up to it.
VCZ_DEVICE u64 vcz_weight_change(const u64* weights, u32 slice, bool is_last) {
    return __ldg(weights + slice) - (is_last ? 0 : __ldg(weights + slice + 1));
}

// The sum of x x' over less than 2^30 sites, from the counts of both individuals' units: heterozygous or homozygous for the allele.
VCZ_DEVICE u32 vcz_dosage_products(i32 het_het, i32 hom_het, i32 het_hom, i32 hom_hom) {
    return (u32)het_het + 2 * ((u32)hom_het + (u32)het_hom) + 4 * (u32)hom_hom;
}

#endif
