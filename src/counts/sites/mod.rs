//! Pairs of sites of a population, from rows of bit-planes as [`gathered`](super::gathered) lays them out. Alleles are pooled to the reference
//! and the others.
//!
//! * [`SiteBits`]: a row's copies that carry another allele than the reference, and those that are called; or the same of its complete
//!   diploids.
//! * [`SiteRecords`]: sites that are kept, of one population or of two.
//! * [`Block`]: up to 64 sites in strips of 512 bits, and [`joint_counts`] of all pairs of two blocks, with the host's best instruction set.
//! * [`SiteDevice`]: devices that sum over pairs of sites, of which they get [`SitePairs`].
//! * [`SiteWindow`]: sites that follow one another along a contig, each of which is compared with those before it.

mod bits;
mod block;
mod joint;
mod on_device;
mod records;
#[cfg(test)]
mod tests;
mod window;

pub(crate) use bits::SiteBits;
pub(crate) use block::{BLOCK, Block};
pub(crate) use joint::{JointCounts, Ranges, joint_counts};
pub(crate) use on_device::{PairTotals, SiteDevice, SitePairs, SiteTerms};
pub(crate) use records::{Copies, SiteRecord, SiteRecords, records};
pub(crate) use window::{SiteWindow, Threshold, r2_of};
