//! SQL functions, one file each; [`counts_arg`] is how they all read their allele counts, [`zygosity_arg`] their zygosity.
//!
//! * `genotype`: on `call_genotype`, computed by the scan.
//! * `scalar`: on counts, sites, positions and masks.
//! * `aggregate`: spectra and sums over sites.
//! * `table`: metadata and windows. `annotations`: rows of GFF3, GTF and BED files.
//! * `join_bins`: bins of joins with intervals. `json_text`: nested values for flat formats.
//!
//! A new statistic is one new file and one line in its folder's `all()`.

pub mod aggregate;
pub mod annotations;
mod bed;
pub mod counts_arg;
mod documentation;
pub mod genotype;
pub mod join_bins;
pub mod json_text;
pub mod mask;
mod mask_source;
pub mod numeric;
pub mod scalar;
pub mod site_argument;
pub mod table;
mod text_lines;
pub mod zygosity_arg;

use std::sync::Arc;

use datafusion::catalog::TableFunctionImpl;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};

pub use aggregate::{Stages, bind_samples, is_exact, is_state, reporting, stages, value_size};
pub use mask_source::{bind_mask, load_mask, needs_mask};
pub use site_argument::{SiteArgument, SiteArguments};

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

/// The site arguments of the function of that name, an aggregate or a scalar function that may be called with `call_genotype` and
/// populations in their place; `None` for any other.
///
/// In that form follow, for one argument, at most one population (a name, a list of sample ids or a subquery that gives one), and for
/// more, as many populations; then the function's other arguments. Such a call has its type, but cannot be run: rewrite each population
/// to a call of [`SiteArgument::udf`](site_argument::SiteArgument::udf).
pub fn site_arguments(name: &str) -> Option<SiteArguments> {
    aggregate::site_arguments(name).or_else(|| scalar::site_arguments(name))
}
