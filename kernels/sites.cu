// Sums over pairs of sites of one population by bins of distance, from the counts of tiles that `vcz_site_counts` leaves: r², D', and the
// unbiased estimators DD, Dz and pi2 of moments of linkage disequilibrium.
//
// Every sum is exact and of integers, so that neither the order of pairs nor who adds them shows. Whole numbers are those of
// src/functions/numeric/two_sites.rs, in 32 and 64 bits, which hold them for up to VCZ_MOST_COPIES copies. Quotients are the same doubles as
// there, and become multiples of 2^-90 as in src/functions/numeric/fixed_sum.rs.
//
// A warp adds up the pairs of some rows of a tile, bin after bin; each of its lanes takes some columns of some rows.
#include "pairs.cuh"

#define VCZ_MOST_COPIES 46340
// The most copies of which 64 bits hold the sum of the whole numbers that a warp adds up: they are at most n^4 / 16 + n^3, and there are at
// most 24 x 256 of them.
#define VCZ_NARROW_COPIES 8192

// Terms that are added up.
#define VCZ_TERM_R2 1
#define VCZ_TERM_D_PRIME 2
#define VCZ_TERM_DD 4
#define VCZ_TERM_DZ 8
#define VCZ_TERM_PI2 16
#define VCZ_TERM_MOMENTS (VCZ_TERM_DD | VCZ_TERM_DZ | VCZ_TERM_PI2)

// The sums of a bin: the number of pairs with an r²; the halves of the sums of r² and D', of which the first counts 2^-45 and the second 2^-90;
// and for each moment the whole numbers of pairs of sites without missing calls, and the halves of the quotients of others.
#define VCZ_SUM_DEFINED 0
#define VCZ_SUM_R2 1
#define VCZ_SUM_D_PRIME 3
#define VCZ_SUM_MOMENTS 5
#define VCZ_SITE_SUMS 14

// Bins whose sums a CTA keeps in shared memory, if there are no more.
#define VCZ_SHARED_BINS 64

// Tiles of pairs of sites. The first sites are `n_rows`; all sites have one numbering.
struct VczSitePairs {
    u64 tiles;       // VczPairTile*: its first site, and its first second site
    u64 counts;      // u16: the copies that carry an alternate at both sites, tile after tile. If calls are missing, at `matrix` counts each
                     // after these: those with an alternate at the first site that are called at the second; the reverse; those called at both.
    u64 alternates;  // u32, of each site: copies with another allele than the reference
    u64 inverses;    // f64, of each site: 1 / (a (n - a)); read if no call is missing
    u64 bounds;      // u32, n_edges for each first site: where bins begin and end among the second sites
    u64 bins;        // u32, of each first site: the place of its first bin in `sums`
    u64 sums;        // u64, two for each of VCZ_SITE_SUMS of a bin: the first and 2^32 times the second, which is signed, are added to
    u64 matrix;
    u32 n_tiles;
    u32 rows, columns;  // of a tile
    u32 n_rows;
    u32 n_edges;
    u32 n_bins;
    u32 copies;
    u32 pad;
};

// What sums over pairs need of sites.
struct VczSiteBounds {
    u64 positions;   // f64, of each site; ascending within a group
    u64 ends;        // u32, of each first site: the end of its group among the second sites
    u64 edges;       // f64, n_edges
    u64 alternates;  // as in VczSitePairs
    u64 inverses;    // set
    u64 bounds;      // set
    u32 n_sites;
    u32 n_rows;
    u32 n_edges;
    u32 first_column;  // the first of the second sites
    u32 copies;
    u32 pad;
};

static_assert(sizeof(VczSitePairs) == 96, "layout of VczSitePairs");
static_assert(sizeof(VczSiteBounds) == 72, "layout of VczSiteBounds");

// 1 / (a (n - a)), or 0 where the site does not vary.
VCZ_DEVICE double vcz_inverse_spread(i32 n, i32 a) {
    const i32 spread = a * (n - a);
    return spread > 0 ? 1.0 / (double)spread : 0.0;
}

extern "C" __global__ void __launch_bounds__(VCZ_THREADS) vcz_site_bounds(VczSiteBounds job) {
    const u32* const alternates = (const u32*)job.alternates;
    const double *const positions = (const double*)job.positions, *const edges = (const double*)job.edges;
    const u64 threads = (u64)gridDim.x * VCZ_THREADS, thread = (u64)blockIdx.x * VCZ_THREADS + threadIdx.x;
    for (u64 site = thread; site < job.n_sites; site += threads) {
        ((double*)job.inverses)[site] = vcz_inverse_spread((i32)job.copies, (i32)alternates[site]);
    }
    for (u64 at = thread; at < (u64)job.n_rows * job.n_edges; at += threads) {
        const u32 row = (u32)(at / job.n_edges);
        const double position = positions[row], edge = edges[at % job.n_edges];
        u32 begin = row + 1 > job.first_column ? row + 1 : job.first_column;
        u32 end = ((const u32*)job.ends)[row];
        // The first of them that is not nearer than the edge.
        while (begin < end) {
            const u32 middle = begin + (end - begin) / 2;
            if (positions[middle] - position < edge) {
                begin = middle + 1;
            } else {
                end = middle;
            }
        }
        ((u32*)job.bounds)[at] = begin;
    }
}

// A lane's sums: whole numbers, of which `high` has the upper halves if there are more than VCZ_NARROW_COPIES copies, and the halves of the
// sums of quotients.
struct VczLaneSums {
    u32 defined;
    i64 r2[2], d_prime[2], quotients[3][2];
    i64 whole[3], high[3];
};

#define VCZ_HALF_SCALE 35184372088832.0  // 2^45
// The sum of this, 1.5 * 2^52, and a number of at most 2^51 is rounded to a whole number.
#define VCZ_TO_WHOLE 6755399441055744.0
// The sum of this, 1.5 * 2^7, and a number of at most 2^6 is rounded to a multiple of 2^-45.
#define VCZ_TO_HALVES 192.0
// So many terms of 2^45 are 2^51.
#define VCZ_MOST_TERMS 64

// The bits of a double.
union VczBits {
    double number;
    i64 bits;
    struct {
        u32 low, high;
    } words;
};

// The sum of at most VCZ_MOST_TERMS terms in [-1, 1], as multiples of 2^-90: `high` counts 2^-45 and `low` 2^-90. Both hold a sum in the lowest
// bits of a double, so that adding a term also rounds it.
struct VczTermSum {
    double high, low;
};

// Adds a term, which is given times 2^45: truncated to a multiple of 2^-90. `rest` is exactly what the first sum leaves out; the second one
// truncates it.
template <bool IS_SIGNED>
VCZ_DEVICE void vcz_add_term(VczTermSum& sum, double scaled) {
    const double next = sum.high + scaled;
    const double rest = scaled - (next - sum.high);
    sum.high = next;
    sum.low = IS_SIGNED && scaled < 0.0 ? __dadd_ru(sum.low, rest) : __dadd_rd(sum.low, rest);
}

// Adds a sum of terms to the halves of another.
VCZ_DEVICE void vcz_add_terms(i64 (&to)[2], const VczTermSum& sum) {
    VczBits high, low, to_whole, to_halves;
    high.number = sum.high, low.number = sum.low, to_whole.number = VCZ_TO_WHOLE, to_halves.number = VCZ_TO_HALVES;
    to[0] += high.bits - to_whole.bits;
    to[1] += low.bits - to_halves.bits;
}

// x as a double. Conversions are slow.
VCZ_DEVICE double vcz_to_double(i32 x) {
    VczBits shifted;
    shifted.words.low = (u32)x ^ 0x80000000, shifted.words.high = 0x43300000;
    return shifted.number - 4503601774854144.0;  // 2^52 + 2^31
}

// A lane's sums of quotients over some rows.
struct VczTermSums {
    VczTermSum r2, d_prime, quotients[3];
};

VCZ_DEVICE void vcz_clear(VczTermSums& sums) {
    const VczTermSum none = {VCZ_TO_WHOLE, VCZ_TO_HALVES};
    sums = {none, none, {none, none, none}};
}

// Adds the whole number of a moment over n (n-1) (n-2) (n-3): as it is if all copies are called, else as a quotient.
VCZ_DEVICE void vcz_add_moment(VczLaneSums& to, VczTermSums& terms, u32 moment, i64 number, i32 n, u32 copies) {
    if ((u32)n == copies) {
        if (copies <= VCZ_NARROW_COPIES) {
            to.whole[moment] += number;
        } else {
            to.whole[moment] += (i64)(u32)number;
            to.high[moment] += number >> 32;
        }
        return;
    }
    const double all = (double)n, below = all * (all - 1.0) * ((all - 2.0) * (all - 3.0));
    vcz_add_term<true>(terms.quotients[moment], fmax(-1.0, fmin(1.0, (double)number / below)) * VCZ_HALF_SCALE);
}

// Adds a pair of sites: `n` copies are called at both, of which `a` and `b` carry an alternate at one, and `x` at both. `inverse` is that of
// a (n - a) b (n - b) times 2^45, or 0 where a site does not vary among them.
template <u32 TERMS>
VCZ_DEVICE void vcz_add_pair_terms(VczLaneSums& to, VczTermSums& terms, i32 n, i32 a, i32 b, i32 x, double inverse, u32 copies) {
    const i32 delta = n * x - a * b;
    const double d = vcz_to_double(delta);
    if (TERMS & VCZ_TERM_R2) {
        VczBits scaled;
        // Rounded here: it must not become a part of the sum below.
        scaled.number = __dmul_rn(d * d, inverse);
        // At most 2^45, which rounding may have passed by some units in the last place.
        if (scaled.words.high >= 0x42c00000) scaled.words.low = 0;
        vcz_add_term<false>(terms.r2, scaled.number);
    }
    if (TERMS & VCZ_TERM_D_PRIME) {
        const i32 one = delta >= 0 ? a * (n - b) : a * b, other = delta >= 0 ? b * (n - a) : (n - a) * (n - b);
        const i32 most = one < other ? one : other;
        vcz_add_term<true>(terms.d_prime, d / vcz_to_double(most > 1 ? most : 1) * VCZ_HALF_SCALE);
    }
    if ((TERMS & VCZ_TERM_MOMENTS) && n >= 4) {
        const i32 q = a + b - 2 * x;
        const i64 u = x * (n - a - b + x);
        if (TERMS & VCZ_TERM_DD) vcz_add_moment(to, terms, 0, (i64)delta * (delta + q - 1) - (n - 2) * u, n, copies);
        if (TERMS & VCZ_TERM_DZ) {
            const i32 factor = (n - 2 * a) * (n - 2 * b) + 2 * q - n - 2;
            vcz_add_moment(to, terms, 1, (i64)delta * factor + 4 * u, n, copies);
        }
        if (TERMS & VCZ_TERM_PI2) {
            const i64 spreads = (i64)(a * (n - a)) * (b * (n - b));
            vcz_add_moment(to, terms, 2, spreads + (i64)delta * (3 * n - 1 - 2 * q) - (4 * n - 2) * u, n, copies);
        }
    }
}

// The sum of every lane's x, which 64 bits hold.
VCZ_DEVICE i64 vcz_warp_sum_64(i64 x) {
    const i32 low = vcz_warp_sum((i32)(x & 0x3ffffff)), middle = vcz_warp_sum((i32)(x >> 26 & 0x3ffffff));
    return (i64)low + ((i64)middle << 26) + (i64)((u64)vcz_warp_sum((i32)(x >> 52)) << 52);
}

// Adds the sum of every lane's x, and 2^32 times that of every lane's high, to a sum of a bin.
VCZ_DEVICE void vcz_flush_sum(u64* to, i64 x, i64 high, bool has_high) {
    x = vcz_warp_sum_64(x);
    high = has_high ? vcz_warp_sum_64(high) : 0;
    if (vcz_lane() == 0 && (x != 0 || high != 0)) {
        atomicAdd(to, (u64)x & 0xffffffff);
        atomicAdd(to + 1, (u64)((x >> 32) + high));
    }
}

// The same of both halves.
VCZ_DEVICE void vcz_flush_halves(u64* to, const i64 (&halves)[2]) {
    vcz_flush_sum(to, halves[0], 0, false);
    vcz_flush_sum(to + 2, halves[1], 0, false);
}

// Adds the sums of a warp to those of a bin.
template <u32 TERMS, bool MISSING>
VCZ_DEVICE void vcz_flush_sums(const VczLaneSums& from, u64* to, u32 copies) {
    if (TERMS & VCZ_TERM_R2) {
        const u32 defined = (u32)vcz_warp_sum((i32)from.defined);
        if (vcz_lane() == 0) atomicAdd(to + 2 * VCZ_SUM_DEFINED, (u64)defined);
        vcz_flush_halves(to + 2 * VCZ_SUM_R2, from.r2);
    }
    if (TERMS & VCZ_TERM_D_PRIME) vcz_flush_halves(to + 2 * VCZ_SUM_D_PRIME, from.d_prime);
#pragma unroll
    for (u32 moment = 0; moment < 3; ++moment) {
        if ((TERMS & VCZ_TERM_DD << moment) == 0) continue;
        u64* const of_moment = to + 2 * (VCZ_SUM_MOMENTS + 3 * moment);
        vcz_flush_sum(of_moment, from.whole[moment], from.high[moment], copies > VCZ_NARROW_COPIES);
        if (MISSING) vcz_flush_halves(of_moment + 2, from.quotients[moment]);
    }
}

// Rows of a tile whose pairs are added up together, so that loads are on their way at the same time: LANE_ROWS of them by each lane, as many as
// it has registers for. A row has few lanes, since a bin has few columns, and with more of them many would have no pair.
#define VCZ_ROWS_AT_ONCE 24
#define VCZ_LANE_ROWS(terms) ((terms) & VCZ_TERM_D_PRIME ? 3 : 6)
#define VCZ_ROW_LANES(lane_rows) (32 * (lane_rows) / VCZ_ROWS_AT_ONCE)

// Pairs of a bin in some rows of a tile.
struct VczBinRows {
    u32 index;           // of the tile
    u32 first_row;       // of the warp in the tile
    u32 at, end;         // rows of the warp
    u32 from, to;        // of a lane's row, the columns of the bin
    u32 alternates;      // of a lane's row
    double inverse;      // of a lane's row
};

// The value of x in another lane.
VCZ_DEVICE double vcz_of_lane(double x, u32 lane) {
    VczBits of;
    of.number = x;
    of.words.low = __shfl_sync(VCZ_ALL_LANES, of.words.low, lane);
    of.words.high = __shfl_sync(VCZ_ALL_LANES, of.words.high, lane);
    return of.number;
}

// The rows of a lane among VCZ_ROWS_AT_ONCE.
template <u32 LANE_ROWS>
struct VczLaneRows {
    u32 at[LANE_ROWS];                       // where the counts of a row begin
    u32 from[LANE_ROWS], length[LANE_ROWS];  // columns of the bin
    i32 alternates[LANE_ROWS];
    double inverses[LANE_ROWS];  // times 2^45
    u32 varying;                 // rows with an inverse
};

// Adds a column's pairs with the rows of a lane; all are of the bin, or those that `rows` says.
template <u32 TERMS, u32 LANE_ROWS>
VCZ_DEVICE void vcz_add_column(const VczSitePairs& job, u32 site, const u16* counts, u32 column, bool is_whole, const VczLaneRows<LANE_ROWS>& rows,
                               VczLaneSums& sums, VczTermSums& terms) {
    i32 x[LANE_ROWS];
#pragma unroll
    for (u32 i = 0; i < LANE_ROWS; ++i) x[i] = __ldg(counts + (rows.at[i] + column));
    const i32 n = (i32)job.copies, b = (i32)__ldg((const u32*)job.alternates + site);
    const double inverse = TERMS & VCZ_TERM_R2 ? __ldg((const double*)job.inverses + site) : 0.0;
    if (is_whole) {
        if (inverse > 0.0) sums.defined += rows.varying;
#pragma unroll
        for (u32 i = 0; i < LANE_ROWS; ++i) {
            vcz_add_pair_terms<TERMS>(sums, terms, n, rows.alternates[i], b, x[i], rows.inverses[i] * inverse, job.copies);
        }
        return;
    }
#pragma unroll
    for (u32 i = 0; i < LANE_ROWS; ++i) {
        if (column - rows.from[i] >= rows.length[i]) continue;
        const double both = rows.inverses[i] * inverse;
        sums.defined += both > 0.0;
        vcz_add_pair_terms<TERMS>(sums, terms, n, rows.alternates[i], b, x[i], both, job.copies);
    }
}

// The same where calls are missing.
template <u32 TERMS, u32 LANE_ROWS>
VCZ_DEVICE void vcz_add_missing_column(const VczSitePairs& job, const u16* counts, u32 column, const VczLaneRows<LANE_ROWS>& rows, VczLaneSums& sums,
                                       VczTermSums& terms) {
    i32 x[LANE_ROWS], a[LANE_ROWS], b[LANE_ROWS], n[LANE_ROWS];
#pragma unroll
    for (u32 i = 0; i < LANE_ROWS; ++i) {
        const u16* const of_pair = counts + (rows.at[i] + column);
        x[i] = __ldg(of_pair);
        a[i] = __ldg(of_pair + job.matrix);
        b[i] = __ldg(of_pair + 2 * job.matrix);
        n[i] = __ldg(of_pair + 3 * job.matrix);
    }
#pragma unroll
    for (u32 i = 0; i < LANE_ROWS; ++i) {
        if (column - rows.from[i] >= rows.length[i]) continue;
        double both = 0.0;
        if (TERMS & VCZ_TERM_R2) both = vcz_inverse_spread(n[i], a[i]) * VCZ_HALF_SCALE * vcz_inverse_spread(n[i], b[i]);
        sums.defined += both > 0.0;
        vcz_add_pair_terms<TERMS>(sums, terms, n[i], a[i], b[i], x[i], both, job.copies);
    }
}

// Adds up the pairs of the rows from `of.at` on, at most VCZ_ROWS_AT_ONCE.
template <u32 TERMS, bool MISSING>
VCZ_DEVICE void vcz_add_rows(const VczSitePairs& job, VczPairTile tile, const VczBinRows& of, VczLaneSums& sums) {
    const u32 last_row = vcz_min(of.at + VCZ_ROWS_AT_ONCE, of.end) - 1;
    const u16* const counts = (const u16*)job.counts + ((u64)of.index * job.rows + of.first_row) * job.columns;
    constexpr u32 LANE_ROWS = VCZ_LANE_ROWS(TERMS), ROW_LANES = VCZ_ROW_LANES(LANE_ROWS);
    VczLaneRows<LANE_ROWS> rows;
    rows.varying = 0;
#pragma unroll
    for (u32 i = 0; i < LANE_ROWS; ++i) {
        const u32 wanted = of.at + i * (32 / ROW_LANES) + vcz_lane() / ROW_LANES, row = vcz_min(wanted, last_row);
        const u32 from = __shfl_sync(VCZ_ALL_LANES, of.from, row), to = __shfl_sync(VCZ_ALL_LANES, of.to, row);
        rows.at[i] = row * job.columns;
        rows.from[i] = from;
        rows.length[i] = wanted == row ? to - from : 0;
        rows.alternates[i] = MISSING ? 0 : (i32)__shfl_sync(VCZ_ALL_LANES, of.alternates, row);
        rows.inverses[i] = MISSING || !(TERMS & VCZ_TERM_R2) ? 0.0 : vcz_of_lane(of.inverse, row) * VCZ_HALF_SCALE;
        rows.varying += rows.inverses[i] > 0.0;
    }
    // Where a bin begins and ends ascends by row: columns of it in some row, and in all rows.
    const u32 some_from = __shfl_sync(VCZ_ALL_LANES, of.from, of.at), some_to = __shfl_sync(VCZ_ALL_LANES, of.to, last_row);
    const u32 all_from = __shfl_sync(VCZ_ALL_LANES, of.from, last_row), first_to = __shfl_sync(VCZ_ALL_LANES, of.to, of.at);
    const u32 all_to = last_row - of.at + 1 == VCZ_ROWS_AT_ONCE ? first_to : 0;
    for (u32 begin = some_from; begin < some_to;) {
        const u32 end = vcz_min(some_to, begin + VCZ_MOST_TERMS / LANE_ROWS * ROW_LANES);
        VczTermSums terms;
        vcz_clear(terms);
        for (; begin < end; begin += ROW_LANES) {
            const u32 column = begin + vcz_lane() % ROW_LANES;
            const bool is_whole = begin >= all_from && begin + ROW_LANES <= all_to;
            if (!is_whole && column >= end) continue;
            if (MISSING) {
                vcz_add_missing_column<TERMS>(job, counts, column, rows, sums, terms);
            } else {
                vcz_add_column<TERMS>(job, tile.column + column, counts, column, is_whole, rows, sums, terms);
            }
        }
        if (TERMS & VCZ_TERM_R2) vcz_add_terms(sums.r2, terms.r2);
        if (TERMS & VCZ_TERM_D_PRIME) vcz_add_terms(sums.d_prime, terms.d_prime);
#pragma unroll
        for (u32 moment = 0; moment < 3; ++moment) {
            if (MISSING && (TERMS & VCZ_TERM_DD << moment)) vcz_add_terms(sums.quotients[moment], terms.quotients[moment]);
        }
    }
    __syncwarp();
}

template <u32 TERMS, bool MISSING>
VCZ_DEVICE void vcz_sum_site_pairs(const VczSitePairs& job) {
    __shared__ u64 shared[VCZ_SHARED_BINS * 2 * VCZ_SITE_SUMS];
    const u32 warp = vcz_warp(), lane = vcz_lane(), rows_of_warp = job.rows / VCZ_WARPS, n_shared = job.n_bins * 2 * VCZ_SITE_SUMS;
    const bool is_shared = job.n_bins <= VCZ_SHARED_BINS;
    const u32* const bounds = (const u32*)job.bounds;
    if (is_shared) {
        for (u32 at = threadIdx.x; at < n_shared; at += VCZ_THREADS) shared[at] = 0;
        __syncthreads();
    }
    u64* const sums = is_shared ? shared : (u64*)job.sums;
    for (u32 index = blockIdx.x; index < job.n_tiles; index += gridDim.x) {
        const VczPairTile tile = ((const VczPairTile*)job.tiles)[index];
        const u32 first = tile.row + warp * rows_of_warp;
        const u32 rows = first < job.n_rows ? vcz_min(rows_of_warp, job.n_rows - first) : 0;
        const u32 row = first + lane, n_edges = job.n_edges;
        // The first bin of a lane's row; rows of the same group follow each other.
        const u32 bins = lane < rows ? __ldg((const u32*)job.bins + row) : VCZ_ALL_LANES;
        const u32 alternates = lane < rows ? __ldg((const u32*)job.alternates + row) : 0;
        const double inverse = lane < rows ? __ldg((const double*)job.inverses + row) : 0.0;
        for (u32 done = 0; done < rows;) {
            const u32 group = __shfl_sync(VCZ_ALL_LANES, bins, done);
            const bool is_of_group = bins == group;
            const u32 end_of_group = done + __popc(__ballot_sync(VCZ_ALL_LANES, is_of_group));
            const u32* const of_row = bounds + (u64)row * n_edges;
            // Where a bin begins among the columns, and all further ones.
            u32 begin = is_of_group ? __ldg(of_row) : VCZ_ALL_LANES;
            for (u32 bin = 0; bin + 1 < n_edges; ++bin) {
                const u32 end = is_of_group ? __ldg(of_row + bin + 1) : VCZ_ALL_LANES;
                const u32 from = begin > tile.column ? vcz_min(begin - tile.column, job.columns) : 0;
                const u32 to = end > tile.column ? vcz_min(end - tile.column, job.columns) : 0;
                begin = end;
                if (!__any_sync(VCZ_ALL_LANES, from < to)) {
                    if (!__any_sync(VCZ_ALL_LANES, from < job.columns)) break;
                    continue;
                }
                VczLaneSums of_lane = {};
                for (u32 at = done; at < end_of_group; at += VCZ_ROWS_AT_ONCE) {
                    const VczBinRows of = {index, warp * rows_of_warp, at, end_of_group, from, to, alternates, inverse};
                    vcz_add_rows<TERMS, MISSING>(job, tile, of, of_lane);
                }
                vcz_flush_sums<TERMS, MISSING>(of_lane, sums + (u64)(group + bin) * 2 * VCZ_SITE_SUMS, job.copies);
            }
            done = end_of_group;
        }
    }
    if (is_shared) {
        __syncthreads();
        for (u32 at = threadIdx.x; at < n_shared; at += VCZ_THREADS) {
            if (shared[at] != 0) atomicAdd((u64*)job.sums + at, shared[at]);
        }
    }
}

#define VCZ_SITE_KERNEL(name, terms, missing) \
    extern "C" __global__ void __launch_bounds__(VCZ_THREADS, 2) name(VczSitePairs job) { vcz_sum_site_pairs<terms, missing>(job); }

// Of mean_r2, ld_decay and ld_moments.
VCZ_SITE_KERNEL(vcz_site_r2, VCZ_TERM_R2, false)
VCZ_SITE_KERNEL(vcz_site_r2_missing, VCZ_TERM_R2, true)
VCZ_SITE_KERNEL(vcz_site_decay, VCZ_TERM_R2 | VCZ_TERM_D_PRIME | VCZ_TERM_DD | VCZ_TERM_PI2, false)
VCZ_SITE_KERNEL(vcz_site_decay_missing, VCZ_TERM_R2 | VCZ_TERM_D_PRIME | VCZ_TERM_DD | VCZ_TERM_PI2, true)
VCZ_SITE_KERNEL(vcz_site_moments, VCZ_TERM_MOMENTS, false)
VCZ_SITE_KERNEL(vcz_site_moments_missing, VCZ_TERM_MOMENTS, true)
