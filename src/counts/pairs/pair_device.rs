//! What `gpu` implements: [`PairDevice`], which counts pairs of rows, with [`UnitCounter`] and [`WeightedCounter`].
//!
//! A device counts for every pair of *units* the rows at which both have a bit, or adds up weighted products of dosages. Rows may be sent by
//! several threads at a time. Invariant: everything is an integer, so the host may count some rows and devices others.

use std::fmt::Debug;
use std::ops::Range;

use super::sample_counter::SampleCounter;
use crate::counts::{CountError, ResidentPart, Workers};

/// What has a bit at a row, as `kernels/pairs.cuh` numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub(crate) enum Units {
    /// Copies that have the allele.
    Copies = 0,
    /// These, and then copies that are called.
    CopiesCalled = 1,
    /// Individuals with two copies that are heterozygous, and then those that are homozygous for the allele.
    Diploids = 2,
    /// These, and then individuals of which both copies are called.
    DiploidsCalled = 3,
}

impl Units {
    /// The units of so many copies; saturating.
    pub(crate) fn number(self, copies: usize) -> usize {
        match self {
            Self::Copies => copies,
            Self::CopiesCalled => copies.saturating_mul(2),
            Self::Diploids => (copies / 2).saturating_mul(2),
            Self::DiploidsCalled => (copies / 2).saturating_mul(3),
        }
    }

    /// Planes of a row: that of the allele, and that of copies that are not called.
    pub(crate) fn planes(self) -> usize {
        match self {
            Self::Copies | Self::Diploids => 1,
            Self::CopiesCalled | Self::DiploidsCalled => 2,
        }
    }
}

/// Sets the words of some rows, which are given by their numbers: for each row those of its planes.
pub(crate) type SetRows<'a> = dyn FnMut(Range<usize>, &mut [u64]) -> Result<(), CountError> + 'a;

/// Counts pairs of units.
pub(crate) trait UnitCounter: Debug + Send + Sync {
    /// Adds this many rows, whose words `set` gives. Bits past the last copy are zero, and so are those of the allele of copies that are
    /// not called.
    ///
    /// # Errors
    /// [`CountError::Device`], [`CountError::Stopped`] while it waits for the device, and those of `set`. The counter must not be used after.
    fn add(
        &self,
        rows: usize,
        set: &mut SetRows<'_>,
        workers: &Workers<'_>,
    ) -> Result<(), CountError>;

    /// Adds rows that are on the devices. Only for units that need one plane of a row.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    fn add_resident(&self, parts: &[ResidentPart], workers: &Workers<'_>)
    -> Result<(), CountError>;

    /// The counts of all rows that were added.
    ///
    /// # Errors
    /// [`CountError::Device`], or [`CountError::TooLarge`] if they do not fit in memory.
    fn take(self: Box<Self>, workers: &Workers<'_>) -> Result<UnitCounts, CountError>;
}

/// For pairs of units the number of rows at which both have a bit.
#[derive(Debug)]
pub(crate) struct UnitCounts {
    stride: usize,
    counts: Vec<u32>,
}

impl UnitCounts {
    /// Those of units `i <= j` at `i * stride + j`.
    #[cfg(any(test, feature = "gpu"))]
    pub(crate) fn new(stride: usize, counts: Vec<u32>) -> Self {
        Self { stride, counts }
    }

    /// That of units `i <= j`.
    #[inline(always)]
    pub(super) fn of(&self, i: usize, j: usize) -> u32 {
        self.counts[i * self.stride + j]
    }
}

/// What rows of a class are multiplied by: w in sums of w x x′ over rows for pairs of individuals, and in sums of w x for each individual, with
/// x the dosage of an individual. Two sums of each kind. Every w x x′ is at most 2³³ times the number of individuals, and every w x below 2⁵⁴.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClassWeights {
    pub(crate) pairs: [u64; 2],
    pub(crate) singles: [u64; 2],
}

/// Sums over rows with the weights of their classes.
#[derive(Debug, Default)]
pub(crate) struct WeightedSums {
    /// For pairs of individuals i ≤ j, ordered by i and then j; empty if all weights are 0.
    pub(crate) pairs: [Vec<i128>; 2],
    /// For each individual.
    pub(crate) singles: [Vec<i128>; 2],
}

/// Adds up weighted products of the dosages of diploid individuals.
pub(crate) trait WeightedCounter: Debug + Send + Sync {
    /// Adds a row of each of `classes`; `set` gives the words of the allele's plane. No call is missing, and bits past the last copy are zero.
    ///
    /// # Errors
    /// As [`UnitCounter::add`].
    fn add(
        &self,
        classes: &[u32],
        set: &mut SetRows<'_>,
        workers: &Workers<'_>,
    ) -> Result<(), CountError>;

    /// Adds rows that are on the devices, a row of each of `classes`.
    ///
    /// # Errors
    /// As [`UnitCounter::add`].
    fn add_resident(
        &self,
        classes: &[u32],
        parts: &[ResidentPart],
        workers: &Workers<'_>,
    ) -> Result<(), CountError>;

    /// The sums over all rows that were added.
    ///
    /// # Errors
    /// [`CountError::Device`], or [`CountError::TooLarge`] if they do not fit in memory.
    fn take(self: Box<Self>, workers: &Workers<'_>) -> Result<WeightedSums, CountError>;
}

/// Memory of devices for rows that stay there, until it is dropped.
pub(crate) trait KeepsRows: Debug + Send + Sync {
    /// The devices, as bits.
    fn devices(&self) -> u64;

    /// Bytes of each of them.
    fn bytes(&self) -> usize;
}

/// One or more devices that count pairs.
pub(crate) trait PairDevice: Debug + Send + Sync {
    /// Lets rows that the devices decode stay there until their pairs are counted; `None` if there is too little memory.
    fn keep_rows(&self) -> Option<Box<dyn KeepsRows>>;

    /// A counter of the pairs of units of so many copies; `None` if the host is to count them.
    ///
    /// # Errors
    /// [`CountError::Device`] if there can be none and the session demands one.
    fn counter(
        &self,
        units: Units,
        copies: usize,
    ) -> Result<Option<Box<dyn UnitCounter>>, CountError>;

    /// A counter for so many diploid individuals, with the weights of each class; `None` if the host is to add the rows.
    ///
    /// # Errors
    /// As [`counter`](Self::counter).
    fn weighted_counter(
        &self,
        samples: usize,
        classes: Vec<ClassWeights>,
    ) -> Result<Option<Box<dyn WeightedCounter>>, CountError>;

    /// A counter of the genotypes of so many diploid individuals; `None` if the host is to count them.
    ///
    /// # Errors
    /// As [`counter`](Self::counter).
    fn sample_counter(&self, samples: usize) -> Result<Option<Box<dyn SampleCounter>>, CountError>;
}
