//! The struct that the kernel of rare rows takes, as `kernels/pairs.cuh` declares it, and its constant.

use bytemuck::{Pod, Zeroable};

use super::abi::plain;

/// Rows of one plane in which at most [`RARE_COPIES`] copies have the allele, of which there are weighted sums.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct RareRows {
    /// Address of the rows, one after the other, as in [`PairRows`](super::abi::PairRows).
    pub rows: u64,
    /// Address of the place of each row among them, `u32`.
    pub order: u64,
    /// Address of the weights, [`RARE_WEIGHTS`] `u64` for each number of copies, from 0 on: two of pairs, and two of units.
    pub weights: u64,
    /// Address of the sums of pairs with either weight, as in [`WeightedGram`](super::abi::WeightedGram); 0 if all these weights are.
    pub sums: [u64; 2],
    /// Address of the sums of units, as in [`UnitSums`](super::abi::UnitSums).
    pub unit_sums: u64,
    /// Number of rows.
    pub n_rows: u32,
    /// 32-bit words of a row.
    pub width: u32,
    /// Number of individuals.
    pub n_samples: u32,
    /// Unused.
    pub pad: u32,
}

/// The most copies that have the allele in a rare row.
pub const RARE_COPIES: usize = 32;

/// Weights of a number of copies.
pub const RARE_WEIGHTS: usize = 4;

plain!(RareRows: 64);
