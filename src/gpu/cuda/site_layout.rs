//! [`SiteLayout`]: the sizes of a [`SiteSums`](super::site_sums::SiteSums).

use super::device::CudaDevice;
use crate::counts::sites::{SitePairs, SiteTerms};
use crate::gpu::abi;
use crate::gpu::site_abi::{MOST_COPIES, SITE_MATRICES, SITE_SUMS};

/// Bytes of the bits of a job's sites.
const UNITS_BYTES: usize = 64 << 20;
/// Bytes of the bounds of a job's bins.
const BOUNDS_BYTES: usize = 64 << 20;
/// Bytes of the counts of the tiles that are counted at a time: they should stay in the cache, and be some for each multiprocessor.
const COUNTS_BYTES: usize = 26 << 20;
/// Bytes of the sums.
const SUMS_BYTES: usize = 256 << 20;
/// Sites past the last that a tile may read.
const PADDING: usize = 256;
/// Bytes of device memory for rounding buffers up.
const OTHER_BYTES: usize = 8 << 20;

/// The sizes of a job at most.
#[derive(Clone, Copy, Debug)]
pub struct SiteLayout {
    pub(super) terms: SiteTerms,
    pub(super) copies: usize,
    /// First and second sites of a tile.
    pub(super) tile: [usize; 2],
    /// Steps of 1,024 copies.
    pub(super) steps: usize,
    /// Whether calls are missing at some site.
    pub(super) has_missing: bool,
    pub(super) rows: usize,
    pub(super) sites: usize,
    /// Tiles that are counted at a time.
    pub(super) tiles: usize,
    pub(super) n_edges: usize,
    /// Bins of all groups.
    pub(super) n_bins: usize,
}

impl SiteLayout {
    /// For jobs of about so many first sites; `None` if the numbers are beyond what kernels take.
    pub fn try_new(pairs: &SitePairs<'_>, rows: usize, device: &CudaDevice) -> Option<Self> {
        let tile = match device.pair_kernels() {
            Ok(kernels) if kernels.hopper.is_some() => abi::HOPPER_TILE,
            _ => abi::GRAM_TILE,
        };
        Self::of_tiles(pairs, rows, tile, device.multiprocessors as usize)
    }

    fn of_tiles(
        pairs: &SitePairs<'_>,
        rows: usize,
        tile: [usize; 2],
        multiprocessors: usize,
    ) -> Option<Self> {
        let (copies, n_edges) = (pairs.copies, pairs.edges.len());
        if copies == 0 || copies > MOST_COPIES || n_edges < 2 {
            return None;
        }
        let n_bins = pairs.bins().checked_mul(pairs.ends.len())?;
        let sums = n_bins.checked_mul(SITE_SUMS * abi::SUM_BYTES)?;
        if sums > SUMS_BYTES {
            return None;
        }
        let has_missing = pairs.sites.iter().any(|site| site.called[0].is_some());
        let (planes, matrices) = if has_missing {
            (2, SITE_MATRICES)
        } else {
            (1, 1)
        };
        let steps = copies.div_ceil(abi::STEP_ROWS);
        let sites = UNITS_BYTES / (steps * abi::UNIT_BYTES * planes);
        let most_rows = (sites / 2).min(BOUNDS_BYTES / (n_edges * size_of::<u32>()));
        let total = pairs.sites.len();
        let rows = rows.min(most_rows).min(total).max(1);
        let rows = rows.next_multiple_of(tile[0]);
        let sites = sites.min(rows + total + PADDING).max(2 * rows + PADDING);
        let tile_bytes = tile[0] * tile[1] * size_of::<u16>() * matrices;
        let most_tiles = (rows / tile[0]).checked_mul(sites / tile[1] + 2)?;
        let tiles = (COUNTS_BYTES / tile_bytes).min(most_tiles);
        // As many for each multiprocessor.
        let tiles = (tiles / multiprocessors.max(1)).max(1) * multiprocessors.max(1);
        Some(Self {
            terms: pairs.terms,
            copies,
            tile,
            steps,
            has_missing,
            rows,
            sites: sites.next_multiple_of(PADDING),
            tiles,
            n_edges,
            n_bins,
        })
    }

    /// Whether calls are missing at some site.
    pub fn has_missing(&self) -> bool {
        self.has_missing
    }

    /// First sites of a job at most.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Sites of a job at most.
    pub fn sites(&self) -> usize {
        self.sites
    }

    /// Sites from one step to the next.
    pub(super) fn stride(&self) -> usize {
        self.sites + PADDING
    }

    /// Bytes of the bits of all sites.
    pub(super) fn units_bytes(&self) -> usize {
        self.stride() * self.steps * abi::UNIT_BYTES
    }

    /// Counts of a matrix.
    pub(super) fn matrix(&self) -> usize {
        self.tiles * self.tile[0] * self.tile[1]
    }

    /// Bytes of the counts of tiles that are counted at a time.
    pub(super) fn counts_bytes(&self) -> usize {
        let matrices = if self.has_missing { SITE_MATRICES } else { 1 };
        self.matrix() * size_of::<u16>() * matrices
    }

    /// Bytes of the tables of a job: positions and copies of sites, ends and bins of first sites, bounds of bins, and tiles.
    pub(super) fn tables_bytes(&self) -> usize {
        let tiles = self.rows.div_ceil(self.tile[0]) * (self.sites / self.tile[1] + 2);
        let words = self.sites + 2 + self.n_edges + tiles + self.sites.div_ceil(2) + self.rows + 2;
        words * size_of::<u64>()
    }

    /// Bytes of the inverse spreads of sites and of the bounds of bins.
    pub(super) fn derived_bytes(&self) -> usize {
        self.sites * size_of::<f64>() + self.rows * self.n_edges * size_of::<u32>()
    }

    /// Bytes of the sums.
    pub(super) fn sums_bytes(&self) -> usize {
        self.n_bins * SITE_SUMS * abi::SUM_BYTES
    }

    /// Bytes of device memory at most, as buffers are rounded up.
    pub fn device_bytes(&self) -> usize {
        let planes = if self.has_missing { 2 } else { 1 };
        let buffers = [
            self.units_bytes() * planes,
            self.counts_bytes(),
            self.tables_bytes(),
            self.derived_bytes(),
            self.sums_bytes(),
        ];
        let bytes: usize = buffers.iter().sum();
        bytes + bytes / 8 + OTHER_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::sites::SiteRecord;
    use crate::gpu::site_jobs::{jobs, tiles};

    #[test]
    fn jobs_have_room() {
        let site = |at: usize| SiteRecord {
            position: at as f64,
            alternate: [None; 2],
            called: [(at == 7).then_some(&[][..]), None],
            words: &[],
        };
        let sites: Vec<SiteRecord<'_>> = (0..30_000).map(site).collect();
        let many: Vec<f64> = (0..1000).map(f64::from).collect();
        for copies in [1, 2_940, MOST_COPIES] {
            for edges in [&[0.0, f64::INFINITY][..], &[1.0, 10.0, 900.0], &many] {
                let pairs = SitePairs {
                    copies,
                    terms: SiteTerms::R2,
                    sites: &sites,
                    ends: &[20_000, 30_000],
                    edges,
                };
                for tile in [abi::HOPPER_TILE, abi::GRAM_TILE] {
                    let layout = SiteLayout::of_tiles(&pairs, 9_000, tile, 132).unwrap();
                    assert!(layout.has_missing && layout.tiles.is_multiple_of(132));
                    let room = layout.tables_bytes();
                    for job in jobs(&pairs, layout.rows, layout.sites) {
                        assert!(job.rows.len() <= layout.rows && job.len() <= layout.sites);
                        let tiles = tiles(&pairs, &job, tile).len();
                        let words = job.len()
                            + edges.len()
                            + tiles
                            + job.len().div_ceil(2)
                            + job.rows.len()
                            + 2;
                        assert!(words * size_of::<u64>() <= room, "{copies} {edges:?}");
                    }
                }
            }
        }
        let pairs = SitePairs {
            copies: MOST_COPIES + 1,
            terms: SiteTerms::R2,
            sites: &sites,
            ends: &[30_000],
            edges: &[0.0, 1.0],
        };
        assert!(SiteLayout::of_tiles(&pairs, 9_000, abi::GRAM_TILE, 1).is_none());
    }
}
