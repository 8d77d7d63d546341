//! SQL functions, one file each; [`counts_arg`] is how they all read their allele counts.
pub mod aggregate;
pub mod counts_arg;
pub mod numeric;
