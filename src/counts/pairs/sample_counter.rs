//! [`SampleCounter`]: what `gpu` implements to count genotypes of individuals at rows that are on devices.

use std::fmt::Debug;

use crate::counts::{CountError, ResidentPart, Workers};

/// Numbers of rows of an individual: heterozygous; homozygous for the allele; with the only copy of the allele; with all its copies, however
/// many.
pub(crate) const SAMPLE_COUNTS: usize = 4;

/// Counts genotypes of diploid individuals at rows of two alleles without missing calls.
pub(crate) trait SampleCounter: Debug + Send + Sync {
    /// Adds rows that are on the devices, at most 2³² − 1 in all.
    ///
    /// # Errors
    /// [`CountError::Device`], [`CountError::Stopped`] while it waits for the device. The counter must not be used after.
    fn add_resident(&self, parts: &[ResidentPart], workers: &Workers<'_>)
    -> Result<(), CountError>;

    /// The [`SAMPLE_COUNTS`] numbers of rows, each of all individuals.
    ///
    /// # Errors
    /// [`CountError::Device`].
    fn take(self: Box<Self>) -> Result<Vec<u32>, CountError>;
}
