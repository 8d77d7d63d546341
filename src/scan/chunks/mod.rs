//! Chunks of an array on their way from the store to whoever decodes them.
//!
//! * `prefetch`: reads encoded chunks ahead of their use.
//! * `gpu`, `gpu_request`: has chunks decoded by a GPU.
//! * `genotype_source`: either of the two, for genotypes.

pub mod genotype_source;
#[cfg(feature = "gpu")]
pub mod gpu;
#[cfg(feature = "gpu")]
pub mod gpu_request;
pub mod prefetch;
