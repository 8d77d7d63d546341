// Sums over pairs of sites of one population by bins of distance, from the counts of tiles that `vcz_site_counts` leaves: r², D', and the
// unbiased estimators DD, Dz and pi2 of moments of linkage disequilibrium.
//
// Every sum is exact and of integers, so that neither the order of pairs nor who adds them shows. Whole numbers are those of
// src/functions/numeric/two_sites.rs, in 32 and 64 bits, which hold them for up to VCZ_MOST_COPIES copies. Quotients are the same doubles as
// there, and become multiples of 2^-90 as in src/functions/numeric/fixed_sum.rs.
//
// A warp adds up the pairs of some rows of a tile, bin after bin; its lanes take pairs of a row.
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

// A lane's sums: halves of sums of quotients as doubles, which are exact for the 24 x 8 pairs of a tile that a lane has. `high` has the upper
// halves of whole numbers if there are more than VCZ_NARROW_COPIES copies.
struct VczLaneSums {
    u32 defined;
    double r2[2], d_prime[2], quotients[3][2];
    i64 whole[3], high[3];
};

// Adds a term in [-1, 1] as a multiple of 2^-90, truncated, in two halves.
VCZ_DEVICE void vcz_add_fixed(double (&sums)[2], double term) {
    const double whole = 6755399441055744.0;  // 1.5 * 2^52: a double of at most 2^51 is rounded by adding and subtracting it
    const double scale = 35184372088832.0;    // 2^45
    const double scaled = fabs(term) * scale, up = scaled + whole, high = up - whole;
    const double rest = (scaled - high) * scale, down = rest + whole;
    double low = down - whole;
    if (low > rest) low -= 1.0;
    sums[0] += term < 0.0 ? -high : high;
    sums[1] += term < 0.0 ? -low : low;
}

// Adds the whole number of a moment over n (n-1) (n-2) (n-3): as it is if all copies are called, else as a quotient.
VCZ_DEVICE void vcz_add_moment(VczLaneSums& to, u32 moment, i64 number, i32 n, u32 copies) {
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
    vcz_add_fixed(to.quotients[moment], fmax(-1.0, fmin(1.0, (double)number / below)));
}

// Adds a pair of sites: `n` copies are called at both, of which `a` and `b` carry an alternate at one, and `x` at both. `inverse` is 0 where a
// site does not vary among them.
template <u32 TERMS>
VCZ_DEVICE void vcz_add_pair_terms(VczLaneSums& to, i32 n, i32 a, i32 b, i32 x, double inverse, u32 copies) {
    const i32 delta = n * x - a * b;
    if (TERMS & VCZ_TERM_R2) {
        const double d = (double)delta;
        to.defined += inverse > 0.0;
        vcz_add_fixed(to.r2, fmin(d * d * inverse, 1.0));
    }
    if (TERMS & VCZ_TERM_D_PRIME) {
        const i32 one = delta >= 0 ? a * (n - b) : a * b, other = delta >= 0 ? b * (n - a) : (n - a) * (n - b);
        const i32 most = one < other ? one : other;
        vcz_add_fixed(to.d_prime, (double)delta / (double)(most > 1 ? most : 1));
    }
    if ((TERMS & VCZ_TERM_MOMENTS) && n >= 4) {
        const i32 q = a + b - 2 * x;
        const i64 u = x * (n - a - b + x);
        if (TERMS & VCZ_TERM_DD) vcz_add_moment(to, 0, (i64)delta * (delta + q - 1) - (n - 2) * u, n, copies);
        if (TERMS & VCZ_TERM_DZ) {
            const i32 factor = (n - 2 * a) * (n - 2 * b) + 2 * q - n - 2;
            vcz_add_moment(to, 1, (i64)delta * factor + 4 * u, n, copies);
        }
        if (TERMS & VCZ_TERM_PI2) {
            const i64 spreads = (i64)(a * (n - a)) * (b * (n - b));
            vcz_add_moment(to, 2, spreads + (i64)delta * (3 * n - 1 - 2 * q) - (4 * n - 2) * u, n, copies);
        }
    }
}

VCZ_DEVICE i64 vcz_warp_sum_64(i64 x) {
#pragma unroll
    for (u32 step = 16; step > 0; step >>= 1) {
        const u32 from = vcz_lane() ^ step;
        const u32 low = __shfl_sync(VCZ_ALL_LANES, (u32)x, from), high = __shfl_sync(VCZ_ALL_LANES, (u32)((u64)x >> 32), from);
        x += (i64)((u64)high << 32 | low);
    }
    return x;
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
VCZ_DEVICE void vcz_flush_halves(u64* to, const double (&halves)[2]) {
    vcz_flush_sum(to, (i64)halves[0], 0, false);
    vcz_flush_sum(to + 2, (i64)halves[1], 0, false);
}

// Adds the sums of a warp to those of a bin.
template <u32 TERMS, bool MISSING>
VCZ_DEVICE void vcz_flush_sums(const VczLaneSums& from, u64* to, u32 copies) {
    if (TERMS & VCZ_TERM_R2) {
        vcz_flush_sum(to + 2 * VCZ_SUM_DEFINED, from.defined, 0, false);
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

// Rows of a tile whose pairs are added up together, so that loads are on their way at the same time.
#define VCZ_ROWS_AT_ONCE 4

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
    union {
        double x;
        u32 words[2];
    } number = {x};
    number.words[0] = __shfl_sync(VCZ_ALL_LANES, number.words[0], lane);
    number.words[1] = __shfl_sync(VCZ_ALL_LANES, number.words[1], lane);
    return number.x;
}

// Adds up the pairs of the rows from `of.at` on, at most VCZ_ROWS_AT_ONCE.
template <u32 TERMS, bool MISSING>
VCZ_DEVICE void vcz_add_rows(const VczSitePairs& job, VczPairTile tile, const VczBinRows& of, VczLaneSums& sums) {
    const u32* const alternates = (const u32*)job.alternates;
    const double* const inverses = (const double*)job.inverses;
    const u16* counts[VCZ_ROWS_AT_ONCE];
    u32 from[VCZ_ROWS_AT_ONCE], to[VCZ_ROWS_AT_ONCE], first = job.columns, last = 0;
    i32 a[VCZ_ROWS_AT_ONCE];
    double inverse[VCZ_ROWS_AT_ONCE];
#pragma unroll
    for (u32 i = 0; i < VCZ_ROWS_AT_ONCE; ++i) {
        const u32 row = vcz_min(of.at + i, of.end - 1);
        from[i] = __shfl_sync(VCZ_ALL_LANES, of.from, row);
        to[i] = __shfl_sync(VCZ_ALL_LANES, of.to, row);
        if (of.at + i >= of.end) to[i] = from[i];
        if (from[i] < to[i]) {
            first = vcz_min(first, from[i]);
            last = last > to[i] ? last : to[i];
        }
        counts[i] = (const u16*)job.counts + ((u64)of.index * job.rows + of.first_row + row) * job.columns;
        a[i] = MISSING ? 0 : (i32)__shfl_sync(VCZ_ALL_LANES, of.alternates, row);
        inverse[i] = MISSING || !(TERMS & VCZ_TERM_R2) ? 0.0 : vcz_of_lane(of.inverse, row);
    }
    for (u32 column = first + vcz_lane(); column < last; column += 32) {
        i32 x[VCZ_ROWS_AT_ONCE];
#pragma unroll
        for (u32 i = 0; i < VCZ_ROWS_AT_ONCE; ++i) x[i] = __ldg(counts[i] + column);
        if (MISSING) {
            i32 of_first[VCZ_ROWS_AT_ONCE], of_second[VCZ_ROWS_AT_ONCE], n[VCZ_ROWS_AT_ONCE];
#pragma unroll
            for (u32 i = 0; i < VCZ_ROWS_AT_ONCE; ++i) {
                of_first[i] = __ldg(counts[i] + job.matrix + column);
                of_second[i] = __ldg(counts[i] + 2 * job.matrix + column);
                n[i] = __ldg(counts[i] + 3 * job.matrix + column);
            }
#pragma unroll
            for (u32 i = 0; i < VCZ_ROWS_AT_ONCE; ++i) {
                if (column < from[i] || column >= to[i]) continue;
                const double both = TERMS & VCZ_TERM_R2 ? vcz_inverse_spread(n[i], of_first[i]) * vcz_inverse_spread(n[i], of_second[i]) : 0.0;
                vcz_add_pair_terms<TERMS>(sums, n[i], of_first[i], of_second[i], x[i], both, job.copies);
            }
        } else {
            const u32 second = tile.column + column;
            const i32 b = (i32)__ldg(alternates + second);
            const double of_second = TERMS & VCZ_TERM_R2 ? __ldg(inverses + second) : 0.0;
#pragma unroll
            for (u32 i = 0; i < VCZ_ROWS_AT_ONCE; ++i) {
                if (column < from[i] || column >= to[i]) continue;
                vcz_add_pair_terms<TERMS>(sums, (i32)job.copies, a[i], b, x[i], inverse[i] * of_second, job.copies);
            }
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
