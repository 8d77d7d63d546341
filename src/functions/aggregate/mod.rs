//! SQL aggregates over sites: a file for each function, and the code that they share.
//!
//! A function's file holds its `Definition` and its statistic: a function of sums over sites (`sums`) or of a histogram of
//! sites (`cells`). Functions of individuals or haplotypes take bit-planes of genotypes (`planes_udaf`). Every statistic implements the
//! trait of `statistic`, from which `accumulator` makes DataFusion's accumulators and `udaf` the aggregate function. `stages` splits a
//! call into the states of small groups (`state_of`) and the merge of these states (`merge_of`).
//!
//! Invariant: states are integers until they are evaluated. So the result has the same bits for any order, batches and
//! partitions of the rows, and after rows were retracted.

mod distinct;
mod divergence;
mod diversity;
mod exact_sum;
mod f2;
mod f3;
mod f4;
mod f_d;
mod fay_wu_h;
mod fay_wu_h_norm;
mod fst_hudson;
mod fst_nei;
mod fst_weir_cockerham;
mod fst_weir_cockerham_haploid;
mod fu_li_d;
mod fu_li_d_star;
mod fu_li_f;
mod fu_li_f_star;
mod garud_h;
mod grm;
mod haplotype_count;
mod haplotype_diversity;
mod haplotype_pairs;
mod inbreeding;
mod jackknife;
mod joint_of_group;
mod joint_sfs;
mod jost_d;
mod ld_decay;
mod ld_moments;
mod ld_moments_genotypes;
mod marked_rows;
mod mean_r2;
mod mean_r2_genotypes;
mod net_divergence;
mod patterson_d;
mod pbs;
mod pca;
mod private_alleles;
mod project_joint_sfs;
mod project_sfs;
mod sample_counts;
mod sample_feed;
mod sample_pairs;
mod segregating_sites;
mod sfs;
mod shared_polymorphism;
mod singletons;
mod tajimas_d;
mod theta_h;
mod theta_l;
mod theta_w;
mod zeng_e;

mod accumulator;
mod added;
mod arguments;
mod block_sums;
mod carriers;
mod cell_statistic;
mod cells;
mod cells_by_group;
#[cfg(test)]
mod changed_states;
mod checked_counts;
mod count_errors;
mod definition;
mod device_feed;
mod extend;
mod filtered_value;
mod frame_memory;
mod grid;
mod growing_value;
mod haplotype_state;
mod haplotype_windows;
#[cfg(test)]
mod harness;
mod histogram;
#[cfg(test)]
mod laws;
mod ld_bins;
#[cfg(test)]
mod ld_laws;
mod many_sites;
mod many_sums_of;
mod merge_of;
mod neutrality_test;
mod numbers;
mod pair_feed;
mod pair_limit;
mod pair_names;
mod pair_state;
#[cfg(test)]
mod plain_sites;
#[cfg(test)]
mod planes_laws;
mod planes_rows;
mod planes_udaf;
mod projection;
#[cfg(test)]
mod queries;
mod sample_state;
mod saved_cells;
mod saved_sites;
mod saved_sums;
mod site_genotype_sums;
mod site_pair_sums;
mod site_pairs;
mod site_sweep;
mod sites;
mod spectra;
mod spread;
mod stages;
mod state_of;
mod statistic;
mod sums;
mod sums_of;
mod udaf;
mod value_size;

use std::sync::Arc;

use datafusion::common::DataFusionError;
use datafusion::logical_expr::{Accumulator, AggregateUDF};

use self::definition::Definition;
use self::numbers::{NumbersAggregate, NumbersDefinition};
use self::planes_udaf::{PlanesAggregate, PlanesDefinition};
use self::udaf::CountsAggregate;
use super::site_argument::{SiteArgument, SiteArguments};
use crate::counts::pairs::PairDevice;
use crate::scan::GenotypeContext;
use crate::scan::notices::{NoticeSink, SiteTotals};
pub(crate) use marked_rows::{MarkedRows, of_rows};
pub(crate) use pair_feed::PairFeed;

pub use self::cell_statistic::{CellStatistic, aggregate_of_cells};
pub use self::extend::{SiteTerms, SumStatistic, aggregate_of_sums};
pub use self::filtered_value::{filtered_value, growing_values, grows};
pub use self::frame_memory::{COPIES_OF_VALUES, with_frame_memory};
pub use self::growing_value::value_bytes;
pub use self::stages::{
    Stages, is_exact, is_state, merge_of, merged, stages, state_of, state_source,
};
pub use self::udaf::Reports;
pub use self::value_size::{pairs_size, planes_size, value_size};

/// The site arguments of `func`, an aggregate of this crate or one that another crate made by [`aggregate_of_sums`] or
/// [`aggregate_of_cells`]; `None` for any other.
pub fn aggregate_arguments(func: &AggregateUDF) -> Option<SiteArguments> {
    added::site_arguments(func).or_else(|| site_arguments(func.name()))
}

/// The error of `func` with DISTINCT; `None` for a function that is not of this crate, nor one that another crate made as above.
pub fn refused_distinct(func: &AggregateUDF) -> Option<DataFusionError> {
    let name = func.name();
    let of_numbers = [
        exact_sum::ExactSum::NAME,
        jackknife::JackknifeAggregate::NAME,
    ];
    if of_numbers.contains(&name) {
        return Some(distinct::refused_by_numbers(name));
    }
    aggregate_arguments(func).map(|arguments| distinct::refused_by_sites(name, arguments.of))
}

/// Registers the aggregates over counts, one line each.
macro_rules! aggregates {
    ($($definition:ty),+ $(,)?) => {
        /// Every aggregate of this crate.
        pub fn all() -> Vec<AggregateUDF> {
            let mut all = vec![
                $(AggregateUDF::from(CountsAggregate::<$definition>::new()),)+
                AggregateUDF::from(NumbersAggregate::<exact_sum::ExactSum>::new()),
                AggregateUDF::from(NumbersAggregate::<jackknife::JackknifeAggregate>::new()),
            ];
            all.extend(over_planes());
            all
        }

        /// `func` reporting the sites that it leaves out to `notices` and, if `analyzed`, to totals for EXPLAIN ANALYZE; `None` if it
        /// leaves none out, or is not of this crate.
        pub fn reporting(
            func: &AggregateUDF,
            notices: &NoticeSink,
            analyzed: bool,
        ) -> Option<AggregateUDF> {
            None$(.or_else(|| CountsAggregate::<$definition>::reporting(func, notices, analyzed)))+
        }

        /// To what `func` reports the sites that it leaves out; `None` if it reports none.
        pub fn reports(func: &AggregateUDF) -> Option<Reports> {
            None$(.or_else(|| CountsAggregate::<$definition>::reports(func)))+
        }

        /// The name of `func`, or of the function whose state it computes, and the sites that it leaves out; `None` if it leaves none
        /// out, or EXPLAIN ANALYZE does not show them.
        pub fn site_totals(func: &AggregateUDF) -> Option<(&str, &Arc<SiteTotals>)> {
            let func = state_of::inner(func).unwrap_or(func);
            let totals = None$(.or_else(|| CountsAggregate::<$definition>::totals(func)))+;
            totals.map(|totals| (func.name(), totals))
        }

        /// Whether the whole numbers of the aggregate of that name may be values of each site, not constants.
        pub fn numbers_vary(name: &str) -> bool {
            $(
                if name == <$definition>::NAME {
                    return <$definition>::NUMBERS_VARY;
                }
            )+
            false
        }

        /// Whether values of the aggregate of that name may take long to compute, though they are small.
        pub fn is_slow(name: &str) -> bool {
            $(
                if name == <$definition>::NAME {
                    return <$definition>::IS_SLOW;
                }
            )+
            false
        }

        /// The site arguments of the aggregate of that name; `None` for any other function. Whole numbers may follow them.
        pub fn site_arguments(name: &str) -> Option<SiteArguments> {
            $(
                if name == <$definition>::NAME {
                    let populations = <$definition>::arity();
                    return Some(SiteArguments { of: <$definition>::ARGUMENT, populations });
                }
            )+
            planes_arguments(name)
        }
    };
}

/// Registers the aggregates over genotypes, which take bit-planes.
macro_rules! aggregates_over_planes {
    ($($definition:ty),+ $(,)?) => {
        fn over_planes() -> Vec<AggregateUDF> {
            vec![$(AggregateUDF::from(PlanesAggregate::<$definition>::new(None)),)+]
        }

        /// The arguments of the aggregate over bit-planes of that name: one for each population.
        fn planes_arguments(name: &str) -> Option<SiteArguments> {
            $(
                if name == <$definition as PlanesDefinition>::NAME {
                    return Some(SiteArguments {
                        of: SiteArgument::GenotypePlanes,
                        populations: 1..=<$definition as PlanesDefinition>::POPULATIONS,
                    });
                }
            )+
            None
        }

        /// Whether the aggregate of that name compares variants by their positions, and takes the contig after its other arguments.
        pub fn takes_contig(name: &str) -> bool {
            false$(
                || <$definition as PlanesDefinition>::TAKES_CONTIG && name == <$definition as PlanesDefinition>::NAME
            )+
        }

        /// `func` bound to its samples, if it is an aggregate that needs them and is not bound.
        pub fn bind_samples(
            func: &AggregateUDF,
            samples: &Arc<GenotypeContext>,
        ) -> Option<AggregateUDF> {
            $(
                if let Some(bound) = PlanesAggregate::<$definition>::bind(func, samples) {
                    return Some(bound);
                }
            )+
            None
        }

        /// The samples that `func` is bound to; `None` if there are none.
        pub fn bound_samples(func: &AggregateUDF) -> Option<&Arc<GenotypeContext>> {
            None$(.or_else(|| PlanesAggregate::<$definition>::samples(func)))+
        }

        /// Whether `func`, or the function whose states it computes or merges, compares all pairs of something, which may take long.
        pub fn compares_pairs(func: &AggregateUDF) -> bool {
            let func = state_of::inner(func).or_else(|| merge_of::inner(func)).unwrap_or(func);
            false$(|| PlanesAggregate::<$definition>::compares_pairs(func))+
        }

        /// Whether `func`, or the function whose states it merges, sums over pairs of sites, which devices can.
        pub(crate) fn compares_sites(func: &AggregateUDF) -> bool {
            let func = merge_of::inner(func).unwrap_or(func);
            false$(|| PlanesAggregate::<$definition>::compares_sites(func))+
        }

        /// Whether a state of `func` with many rows is a matrix of all pairs.
        pub fn keeps_matrix(func: &AggregateUDF) -> bool {
            false$(|| PlanesAggregate::<$definition>::keeps_matrix(func))+
        }

        /// Whether devices count pairs for `func`.
        pub(crate) fn is_on_device(func: &AggregateUDF) -> bool {
            false$(|| PlanesAggregate::<$definition>::is_on_device(func))+
        }

        /// Lets `device` count pairs for an accumulator without rows, if it is one of an aggregate for which devices do.
        pub(crate) fn use_pair_device(
            accumulator: &mut dyn Accumulator,
            device: &Arc<dyn PairDevice>,
        ) -> Option<Arc<dyn PairFeed>> {
            None$(.or_else(|| PlanesAggregate::<$definition>::use_device(accumulator, device)))+
        }

        /// Whether `func` is bound or needs no binding; `None` if it does not take bit-planes.
        fn is_bound(func: &AggregateUDF) -> Option<bool> {
            None$(.or_else(|| PlanesAggregate::<$definition>::is_bound(func)))+
        }
    };
}

aggregates_over_planes!(
    sample_counts::SampleCounts,
    garud_h::GarudH,
    haplotype_diversity::HaplotypeDiversity,
    haplotype_count::HaplotypeCount,
    sample_pairs::SamplePairs,
    haplotype_pairs::HaplotypePairsAggregate,
    grm::Grm,
    pca::Pca,
    mean_r2::MeanR2,
    mean_r2_genotypes::MeanR2Genotypes,
    ld_decay::LdDecay,
    ld_moments::LdMoments,
    ld_moments_genotypes::LdMomentsGenotypes,
);

aggregates!(
    sfs::Sfs,
    sfs::SfsFolded,
    project_sfs::ProjectSfs,
    project_sfs::ProjectSfsFolded,
    joint_sfs::JointSfs,
    joint_sfs::JointSfsFolded,
    project_joint_sfs::ProjectJointSfs,
    project_joint_sfs::ProjectJointSfsFolded,
    diversity::Diversity,
    divergence::Divergence,
    theta_w::ThetaW,
    segregating_sites::SegregatingSites,
    tajimas_d::TajimasD,
    fst_hudson::FstHudson,
    theta_h::ThetaH,
    theta_l::ThetaL,
    fay_wu_h::FayWuH,
    fay_wu_h_norm::FayWuHNorm,
    zeng_e::ZengE,
    fu_li_d::FuLiD,
    fu_li_f::FuLiF,
    fu_li_d_star::FuLiDStar,
    fu_li_f_star::FuLiFStar,
    singletons::Singletons,
    singletons::SingletonsFolded,
    net_divergence::NetDivergence,
    f2::F2,
    f3::F3,
    f3::F3Normalized,
    f4::F4,
    patterson_d::PattersonD,
    f_d::Fd,
    fst_nei::FstNei,
    jost_d::JostD,
    pbs::Pbs,
    pbs::PbsN1,
    shared_polymorphism::SharedPolymorphism,
    private_alleles::PrivateAlleles,
    inbreeding::Inbreeding,
    fst_weir_cockerham::FstWeirCockerham,
    fst_weir_cockerham_haploid::FstWeirCockerhamHaploid,
);
