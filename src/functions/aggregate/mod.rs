//! SQL aggregates over sites: one file each for what they compute, and the machinery that they share.
//!
//! A function's file holds its `Definition` and its statistic, a function of sums
//! (`sums`) or of a histogram (`cells`). `statistic` is what both come down to; `one` and `groups` run it;
//! `udaf` shows it to DataFusion. `stages` splits a call in two, the states of small groups (`state_of`) and their merging
//! (`merge_of`).
//!
//! Invariant: states are integers until a value is asked for, so the result has the same bits in whatever order,
//! batches and partitions the rows come, and after rows were taken out again.

mod divergence;
mod diversity;
mod exact_sum;
mod fst_hudson;
mod joint_sfs;
mod project_joint_sfs;
mod project_sfs;
mod segregating_sites;
mod sfs;
mod tajimas_d;
mod theta_w;

mod arguments;
mod block_sums;
mod cells;
mod definition;
mod grid;
mod groups;
#[cfg(test)]
mod harness;
mod histogram;
#[cfg(test)]
mod laws;
mod merge_of;
mod one;
mod places;
mod projection;
#[cfg(test)]
mod queries;
mod sites;
mod spread;
mod stages;
mod state_of;
mod statistic;
mod sums;
mod udaf;

use datafusion::logical_expr::AggregateUDF;

use self::definition::Definition;
use self::udaf::CountsAggregate;

pub use self::stages::{Stages, is_state, stages};

/// The register: one line for each aggregate over counts.
macro_rules! aggregates {
    ($($definition:ty),+ $(,)?) => {
        /// Every aggregate of this crate.
        pub fn all() -> Vec<AggregateUDF> {
            vec![
                $(AggregateUDF::from(CountsAggregate::<$definition>::new()),)+
                AggregateUDF::from(exact_sum::ExactSum::new()),
            ]
        }

        /// How many counts arguments an aggregate takes, 1 or 2, or `None` for any other function.
        ///
        /// Such an aggregate may be called with `call_genotype` in place of counts; then follow, for one counts
        /// argument, at most one population (a name, a list of sample ids or a subquery that gives one), and for two,
        /// two populations; then whole numbers. A call in that form has the type and nullability of the form on
        /// counts, but cannot be run: rewrite each population to `allele_counts(call_genotype [, population])`.
        pub fn sugar_arity(name: &str) -> Option<usize> {
            $(
                if name == <$definition>::NAME {
                    return Some(<$definition>::COUNTS);
                }
            )+
            None
        }
    };
}

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
);
