//! SQL functions, one file each; [`counts_arg`] is how they all read their allele counts.
//!
//! * `genotype`: on `call_genotype`, computed by the scan.
//! * `scalar`: on counts, sites, positions and masks.
//! * `aggregate`: spectra and sums over sites.
//! * `table`: metadata and windows.
//!
//! A new statistic is one new file and one line in its folder's `all()`.

pub mod aggregate;
mod bed;
pub mod counts_arg;
mod documentation;
pub mod genotype;
pub mod mask;
mod mask_source;
pub mod numeric;
pub mod scalar;
pub mod table;

use std::sync::Arc;

use datafusion::catalog::TableFunctionImpl;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};

pub use aggregate::{Stages, is_state, stages, sugar_arity, value_size};
pub use mask_source::{bind_mask, load_mask, needs_mask};

/// Every scalar function.
pub fn scalar_functions() -> Vec<ScalarUDF> {
    let mut all = genotype::all();
    all.extend(scalar::all());
    all
}

/// Every aggregate function; each works in OVER as well.
pub fn aggregate_functions() -> Vec<AggregateUDF> {
    aggregate::all()
}

/// Every table function by name.
pub fn table_functions() -> Vec<(&'static str, Arc<dyn TableFunctionImpl>)> {
    table::all()
}

/// `allele_counts`, which sugar is rewritten to.
pub fn allele_counts_udf() -> ScalarUDF {
    genotype::allele_counts_udf()
}
