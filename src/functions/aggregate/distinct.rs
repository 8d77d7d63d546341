//! [`refused_distinct`]: the error of a statistic that is called with DISTINCT.
//!
//! Planning asks for it, because DataFusion makes a GROUP BY of DISTINCT where all aggregates have the same argument; the aggregate then does not
//! see it. Accumulators return it in sessions that lack the planning rules.

use datafusion::common::{DataFusionError, plan_datafusion_err};
use datafusion::logical_expr::AggregateUDF;

use super::numbers::NumbersDefinition;
use super::{aggregate_arguments, exact_sum, jackknife};
use crate::functions::site_argument::SiteArgument;

/// The error of `func` with DISTINCT; `None` for a function that is not of this crate, or not added by [`super::extend`].
pub fn refused_distinct(func: &AggregateUDF) -> Option<DataFusionError> {
    let name = func.name();
    let of_numbers = [
        exact_sum::ExactSum::NAME,
        jackknife::JackknifeAggregate::NAME,
    ];
    if of_numbers.contains(&name) {
        return Some(refused_by_numbers(name));
    }
    aggregate_arguments(func).map(|arguments| refused_by_sites(name, arguments.of))
}

/// The error of a statistic of sites.
pub(super) fn refused_by_sites(name: &str, argument: SiteArgument) -> DataFusionError {
    let what = match argument {
        SiteArgument::AlleleCounts => "allele counts",
        SiteArgument::Zygosity => "zygosity counts",
        SiteArgument::GenotypePlanes => "genotypes",
    };
    plan_datafusion_err!(
        "{name}(DISTINCT …) would drop sites that happen to have the same {what}; leave DISTINCT out, or select the distinct rows in a subquery"
    )
}

/// The error of an aggregate of numbers.
pub(super) fn refused_by_numbers(name: &str) -> DataFusionError {
    plan_datafusion_err!("{name} does not take DISTINCT; select the distinct rows in a subquery")
}
