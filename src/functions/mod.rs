//! SQL functions, one file each. [`counts_arg`] reads arguments that are allele counts, [`zygosity_arg`] those that are zygosity.
//!
//! * `genotype`: on `call_genotype`, computed by the scan.
//! * `scalar`: on counts, sites, positions and masks.
//! * `aggregate`: spectra and sums over sites.
//! * `table`: metadata and windows. `annotations`: rows of GFF3, GTF and BED files.
//! * `interrupt`: how aggregates that compute for long are stopped. `pair_device`: whether GPUs count pairs.
//! * `join_bins`: bins for joins with intervals. `json_text`: nested values as text, for CSV and TSV. `spectrum_file`: spectra as files.
//!
//! A new statistic needs a new file and an entry in its folder's `mod.rs`; CONTRIBUTING.md has the steps.
//! In another crate, a statistic is an implementation of [`SumStatistic`] or [`CellStatistic`].

pub mod aggregate;
pub mod annotations;
mod bed;
pub mod counts_arg;
mod documentation;
pub mod genotype;
pub mod interrupt;
pub mod join_bins;
pub mod json_text;
pub mod mask;
mod mask_source;
pub mod numeric;
mod pair_device;
pub mod scalar;
pub mod site_argument;
pub mod spectrum_file;
pub mod table;
mod text_lines;
pub mod zygosity_arg;

use std::sync::Arc;

use datafusion::catalog::TableFunctionImpl;
use datafusion::logical_expr::{AggregateUDF, Documentation, ScalarUDF};

use crate::scan::without_metadata_udf;

pub use aggregate::{
    COPIES_OF_VALUES, Reports, Stages, aggregate_arguments, bind_samples, bound_samples,
    compares_pairs, filtered_value, growing_values, grows, is_exact, is_slow, is_state,
    keeps_matrix, merge_of, merged, numbers_vary, pairs_size, planes_size, refused_distinct,
    reporting, reports, site_totals, stages, state_of, state_source, takes_contig, value_bytes,
    value_size, with_frame_memory,
};
pub use aggregate::{CellStatistic, aggregate_of_cells};
pub(crate) use aggregate::{PairFeed, compares_sites, is_on_device, use_pair_device};
pub use aggregate::{SiteTerms, SumStatistic, aggregate_of_sums};
pub use mask_source::{bind_mask, bound_mask, load_mask, needs_mask};
pub(crate) use pair_device::{device_bytes, device_for, device_for_sites, would_be_on_device};
pub use site_argument::{SiteArgument, SiteArguments};

/// Every scalar function.
pub fn scalar_functions() -> Vec<ScalarUDF> {
    let mut all = genotype::all();
    all.extend(scalar::all());
    all
}

/// Scalar functions that planning adds to queries, and that SQL has no names for.
pub fn helper_functions() -> Vec<Arc<ScalarUDF>> {
    vec![
        Arc::new(join_bins::join_bin()),
        Arc::new(join_bins::join_bins()),
        Arc::new(join_bins::join_level()),
        Arc::new(join_bins::join_levels()),
        Arc::new(json_text::json_text_udf()),
        Arc::new(genotype::genotype_planes_udf()),
        without_metadata_udf(),
    ]
}

/// Every aggregate function; each works in OVER as well.
pub fn aggregate_functions() -> Vec<AggregateUDF> {
    aggregate::all()
}

/// Every table function by name.
pub fn table_functions() -> Vec<(&'static str, Arc<dyn TableFunctionImpl>)> {
    let all = table::all().into_iter();
    all.map(|(name, function, _)| (name, function)).collect()
}

/// The documentation of the table function of that name; `None` for any other.
pub fn table_function_documentation(name: &str) -> Option<Documentation> {
    let mut all = table::all().into_iter();
    all.find(|(of, ..)| *of == name)
        .map(|(.., documentation)| documentation)
}

/// The site arguments of the function of that name, an aggregate or a scalar function that may be called with `call_genotype` and
/// populations in their place; `None` for any other.
///
/// In the form with `call_genotype`, a function of one site argument takes at most one population (a name, a list of sample ids or a
/// subquery that gives one), and a function of several takes as many populations; then its other arguments follow. Such a call can be
/// planned but not run: replace each population by a call of [`SiteArgument::udf`](site_argument::SiteArgument::udf).
pub fn site_arguments(name: &str) -> Option<SiteArguments> {
    aggregate::site_arguments(name).or_else(|| scalar::site_arguments(name))
}
