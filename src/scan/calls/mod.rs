//! Functions on `call_genotype`: binding them to samples, and evaluating them.
//!
//! * `function`: the list of functions; `genotype_udf`: the SQL functions, as DataFusion sees them.
//! * `context`: the samples, populations and alleles that calls refer to, and the field metadata that names them.
//! * `call`: a call with its samples resolved; `bound`: a call with its context.
//! * `results`: the results of calls as Arrow arrays; `population_pairs`, `planes`: those of
//!   `population_pair_counts` and `genotype_planes`; `counted`: the counts that calls need, and their results from counts;
//!   `elements`: Arrow arrays as store elements.
//! * `filter_calls`: the filter of calls by a FORMAT field; `format_field`: checks of that field; `filters`: filters as part of a scan;
//!   `call_value`: one of a field's values.
//! * `evaluate`: a call on genotypes that are a column of a batch.
//! * `copies`: the number of copies N in the field metadata of counts; `without_metadata`: columns without such metadata.

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
pub mod select_calls;
pub mod without_metadata;
