//! Numerical code that scalar functions and aggregates share, so that a per-site term has the same bits in every function and a
//! sum the same bits in every order. Uses neither Arrow nor DataFusion.
pub mod bit_counters;
pub mod blocks;
pub mod carrier_lists;
mod copy_words;
mod dosage_rows;
pub(crate) mod eigen;
pub mod exact;
pub mod fixed_sum;
pub mod grid;
pub mod haplotypes;
pub mod hardy_weinberg;
pub mod harmonic;
pub mod jackknife;
pub mod kinship;
pub(crate) mod krylov;
pub(crate) mod lines;
pub(crate) mod local_relationship;
pub mod many_blocks;
mod orthogonal_blocks;
pub mod partition;
pub mod populations;
pub mod site;
pub mod spectrum;
pub mod spectrum_variance;
mod spin_barrier;
mod tridiagonalise;
pub mod two_dosages;
pub mod two_populations;
pub mod two_sites;
mod vectors;
pub mod zygosity;

pub use exact::ExactSum;
pub use fixed_sum::FixedSum;
