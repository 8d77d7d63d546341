//! SQL functions, one file each; [`counts_arg`] is how they all read their allele counts.
pub mod counts_arg;
pub mod mask;
pub mod numeric;
pub mod scalar;
