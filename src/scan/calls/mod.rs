//! Functions on `call_genotype`: what they mean for a store, and how they are evaluated.
//!
//! * `function`: which functions there are; `genotype_udf`: the SQL functions, as DataFusion sees them.
//! * `context`: the samples, populations and alleles that calls refer to, and the field metadata that names them.
//! * `call`: a call with its samples resolved; `bound`: a call with its context.
//! * `results`: the results of calls as Arrow arrays; `population_pairs`, `planes`: those of `population_pair_counts` and `genotype_planes`.
//! * `evaluate`: a call on genotypes that are a column of a batch.
//! * `copies`: the number of copies N that counts carry in field metadata; `unlabelled`: columns without such metadata.

pub mod bound;
pub mod call;
pub mod context;
pub mod copies;
pub mod evaluate;
pub mod function;
pub mod genotype_udf;
pub mod planes;
pub mod population_pairs;
pub mod results;
pub mod unlabelled;
