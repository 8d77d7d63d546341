//! Functions on `call_genotype`: what they mean for a store, and how they are evaluated.
//!
//! * `call`: a call with its samples resolved, and its results as Arrow arrays.
//! * `context`: the samples, populations and alleles that calls refer to.
//! * `genotype_udf`: the SQL functions.
//! * `copies`: the number of copies N that counts carry in field metadata.

pub mod call;
pub mod context;
pub mod copies;
pub mod genotype_udf;
