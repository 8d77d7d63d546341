//! The structs that the kernels of pairs of sites take, as `kernels/pairs.cuh` and `kernels/sites.cu` declare them, and their constants.

use bytemuck::{Pod, Zeroable};

use super::abi::{Gram, plain};

/// Tiles of pairs of sites to count.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct SiteCounts {
    /// The first sites and the tiles; the counts are `u16`, tile after tile.
    pub gram: Gram,
    /// Address of the second sites.
    pub seconds: u64,
}

/// What sums over pairs need of sites.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct SiteBounds {
    /// Address of the position of each site, `f64`.
    pub positions: u64,
    /// Address of the end of the group of each first site among the second ones, `u32`.
    pub ends: u64,
    /// Address of the bounds of bins, `f64`.
    pub edges: u64,
    /// Address of the copies of each site with another allele than the reference, `u32`.
    pub alternates: u64,
    /// Address of the inverse spread of each site, `f64`; set.
    pub inverses: u64,
    /// Address of `n_edges` bounds for each first site, `u32`: where bins begin and end among the second sites; set.
    pub bounds: u64,
    /// Number of sites.
    pub n_sites: u32,
    /// Number of first sites, which come first.
    pub n_rows: u32,
    /// Number of bounds of bins.
    pub n_edges: u32,
    /// The first of the second sites.
    pub first_column: u32,
    /// Copies of a site.
    pub copies: u32,
    /// Unused.
    pub pad: u32,
}

/// Tiles of pairs of sites to sum over.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct SitePairs {
    /// Address of the [`PairTile`](super::abi::PairTile)s.
    pub tiles: u64,
    /// Address of the counts of alternates at both sites; if calls are missing, three further matrices follow.
    pub counts: u64,
    /// As in [`SiteBounds`].
    pub alternates: u64,
    /// As in [`SiteBounds`].
    pub inverses: u64,
    /// As in [`SiteBounds`].
    pub bounds: u64,
    /// Address of the place of the first bin of each first site in the sums, `u32`.
    pub bins: u64,
    /// Address of the sums, [`SITE_SUMS`] of two `u64` for each bin: the sum is the first and 2^32 times the second, which is signed.
    pub sums: u64,
    /// Counts from one matrix to the next.
    pub matrix: u64,
    /// Number of tiles.
    pub n_tiles: u32,
    /// First sites of a tile.
    pub rows: u32,
    /// Second sites of a tile.
    pub columns: u32,
    /// Number of first sites.
    pub n_rows: u32,
    /// Number of bounds of bins.
    pub n_edges: u32,
    /// Number of bins of all groups.
    pub n_bins: u32,
    /// Copies of a site.
    pub copies: u32,
    /// Unused.
    pub pad: u32,
}

/// The most copies that the kernels take: products of two numbers of copies are below 2^31.
pub const MOST_COPIES: usize = 46_340;
/// The sums of a bin: pairs with an r²; two halves of r² and of D'; for each of three moments whole numbers, and two halves of quotients.
pub const SITE_SUMS: usize = 14;
/// Matrices of counts if calls are missing.
pub const SITE_MATRICES: usize = 4;

plain!(SiteCounts: 56, SiteBounds: 72, SitePairs: 96);
