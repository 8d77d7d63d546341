//! Functions on `call_genotype`: what they mean for a store, and how they are evaluated.
//!
//! * `function`: which functions there are; `genotype_udf`: the SQL functions, as DataFusion sees them.
//! * `context`: the samples, populations and alleles that calls refer to, and the field metadata that names them.
//! * `call`: a call with its samples resolved; `bound`: a call with its context.
//! * `results`: the results of calls as Arrow arrays; `population_pairs`, `planes`: those of
//!   `population_pair_counts` and `genotype_planes`; `counted`: what calls need
//!   counted, and their results from counts; `elements`: Arrow arrays as elements of a store.
//! * `filter_calls`: the filter of calls by a FORMAT field, `format_field`: what that may be; `filters`: filters as part of a scan;
//!   `call_value`: one of a field's values.
//! * `evaluate`: a call on genotypes that are a column of a batch.
//! * `copies`: the number of copies N that counts carry in field metadata; `without_metadata`: columns without such metadata.

pub mod bound;
pub mod call;
pub mod call_value;
pub mod context;
pub mod copies;
pub mod counted;
pub mod elements;
pub mod evaluate;
pub mod filter_calls;
pub mod filters;
pub mod format_field;
pub mod function;
pub mod genotype_udf;
pub mod planes;
pub mod population_pairs;
pub mod results;
pub mod without_metadata;
