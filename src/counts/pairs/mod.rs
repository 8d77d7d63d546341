//! Counts over pairs of haplotypes and of individuals, from rows of bit-planes as [`gathered`](super::gathered) lays them out.
//!
//! * [`SiteRows`]: rows that are kept, those with few bits as a `listed_row`. [`Shape`]: the individuals of a population and the copies of their calls.
//! * [`PairMatrix`]: what rows are added to once there are many: [`HaplotypePairs`], [`IndividualPairs`] and [`Relationship`].
//! * `rare`: rows of which few units carry an allele, for all of them. `read_rows`: rows as the last of them adds them.
//! * [`CentredRows`]: a few rows less their means, for products with a matrix that is not made.
//! * `triangle`: parts of all pairs, which several threads add to. `transposed`: the bits of rows by copy. `products`: counts over all pairs, with the host's best instruction set.
//!   `gemm`: exact sums of products of whole numbers.
//! * [`PairDevice`]: the trait of devices; `on_device`: counts that they keep; `device_haplotypes`, `device_individuals`,
//!   `device_relationship`: what goes there.
//!
//! Invariant: everything is an integer, so rows and matrices may be added in any order.

mod any_calls;
mod centred_rows;
mod corrections;
mod device_haplotypes;
mod device_individuals;
mod device_relationship;
mod diploids;
mod dosages;
mod gemm;
mod grm_row;
mod haplotypes;
mod individual_class;
mod individual_rows;
mod individuals;
mod listed_row;
mod matrix;
mod on_device;
mod pair_device;
mod polyploid;
mod products;
mod rare;
mod read_rows;
mod relationship;
mod sample_counter;
mod site_rows;
mod transposed;
mod triangle;
mod weights;

#[cfg(test)]
mod device_tests;
#[cfg(test)]
mod tests;

pub(crate) use centred_rows::{CentredRow, CentredRows};
pub(crate) use grm_row::{GrmPair, GrmRows};
pub(crate) use haplotypes::HaplotypePairs;
pub(crate) use individuals::{IndividualPair, IndividualPairs};
pub(crate) use matrix::{PairMatrix, Shape, Words};
pub(crate) use on_device::OnDevice;
#[cfg(any(test, feature = "gpu"))]
pub(crate) use pair_device::{
    AddSums, ClassWeights, PairPiece, PairSums, SetRows, UnitCounter, Units, WeightedCounter,
    WeightedSums,
};
pub(crate) use pair_device::{KeepsRows, PairDevice};
pub(crate) use relationship::Relationship;
pub(crate) use sample_counter::{SAMPLE_COUNTS, SampleCounter};
pub(crate) use site_rows::SiteRows;
pub(crate) use triangle::pairs_of;
pub(crate) use weights::Forms;
