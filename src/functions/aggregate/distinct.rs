//! The errors of statistics that are called with DISTINCT.
//!
//! Planning returns them, because DataFusion makes a GROUP BY of DISTINCT where all aggregates have the same argument; the aggregate then does not
//! see it. Accumulators return them in sessions that lack the planning rules.

use datafusion::common::{DataFusionError, plan_datafusion_err};

use crate::functions::site_argument::SiteArgument;

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
