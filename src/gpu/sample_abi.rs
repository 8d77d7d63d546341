//! The struct that the kernel of individuals takes, as `kernels/pairs.cuh` declares it, and its constant.

use bytemuck::{Pod, Zeroable};

use super::abi::plain;

/// Rows of one plane in which the genotypes of diploid individuals are counted.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct SampleRows {
    /// Address of the addresses of rows, `u64`, none of which is inverted; bits 1 and 2 are the number of its bits, at most 3.
    pub from: u64,
    /// Address of the [`SAMPLE_COUNTS`](crate::counts::pairs::SAMPLE_COUNTS) of individuals, `u32`, added to: each of all individuals.
    pub counts: u64,
    /// Number of rows.
    pub n_rows: u32,
    /// 32-bit words of a row.
    pub width: u32,
    /// Number of individuals.
    pub n_samples: u32,
    /// Unused.
    pub pad: u32,
}

/// Rows that a thread counts for [`SampleRows`].
pub const COUNTER_ROWS: usize = 255;

plain!(SampleRows: 32);
