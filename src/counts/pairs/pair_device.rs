//! What `gpu` implements: [`PairDevice`], which counts pairs of rows, with [`UnitCounter`] and [`WeightedCounter`].
//!
//! A device counts for every pair of *units* the rows at which both have a bit, and gives sums of these counts for pairs of copies or of
//! individuals; or it adds up weighted products of dosages. Rows may be sent by several threads at a time. Invariant: everything is an integer,
//! so the host may count some rows and devices others.

use std::fmt::Debug;
use std::ops::Range;

use super::sample_counter::SampleCounter;
use crate::counts::{CountError, ResidentPart, Workers};

/// Numbers that a thread adds at a time: fewer take no longer than starting it.
const PART_NUMBERS: usize = 1 << 16;

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
    /// Planes of a row: that of the allele, and that of copies that are not called.
    pub(crate) fn planes(self) -> usize {
        match self {
            Self::Copies | Self::Diploids => 1,
            Self::CopiesCalled | Self::DiploidsCalled => 2,
        }
    }
}

#[cfg(any(test, feature = "gpu"))]
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

    /// Number of those whose pairs have sums: copies, or individuals.
    pub(crate) fn paired(self, copies: usize) -> usize {
        match self {
            Self::Copies | Self::CopiesCalled => copies,
            Self::Diploids | Self::DiploidsCalled => copies / 2,
        }
    }

    /// Sums of each pair, and numbers of each copy or individual, see [`PairSums`].
    pub(crate) fn sums(self) -> [usize; 2] {
        match self {
            Self::Copies => [1, 0],
            Self::CopiesCalled => [2, 0],
            Self::Diploids => [2, 1],
            Self::DiploidsCalled => [5, 0],
        }
    }

    /// How many numbers the sums of a piece are.
    pub(crate) fn numbers(self, piece: &PairPiece) -> usize {
        let [of_pair, of_each] = self.sums();
        of_pair * piece.pairs.len() + of_each * piece.firsts.len()
    }

    /// Pieces of all pairs of so many copies, or of their individuals, which have `most` numbers at most, but those of one first one at least.
    pub(crate) fn pieces(self, copies: usize, most: usize) -> impl Iterator<Item = PairPiece> {
        let n = self.paired(copies);
        let (mut first, mut pair) = (0, 0);
        std::iter::from_fn(move || {
            let mut piece = PairPiece {
                firsts: first..first,
                pairs: pair..pair,
            };
            while piece.firsts.end < n {
                let more = PairPiece {
                    firsts: first..piece.firsts.end + 1,
                    pairs: pair..piece.pairs.end + (n - 1 - piece.firsts.end),
                };
                if !piece.firsts.is_empty() && self.numbers(&more) > most {
                    break;
                }
                piece = more;
            }
            (first, pair) = (piece.firsts.end, piece.pairs.end);
            (!piece.firsts.is_empty()).then_some(piece)
        })
    }
}

/// The pairs i < j of copies or individuals with some first ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PairPiece {
    /// The first ones.
    pub(crate) firsts: Range<usize>,
    /// The places of the pairs among all, ordered by i and then j.
    pub(crate) pairs: Range<usize>,
}

/// Sums over rows for the pairs of a piece, u32. Those of a pair i < j are rows
///
/// * of [`Units::Copies`]: at which the copies differ;
/// * of [`Units::CopiesCalled`]: at which both are called and differ; at which both are called;
/// * of [`Units::Diploids`]: at which both are heterozygous; at which they are homozygous for different alleles. And for each of the first ones,
///   those at which it is heterozygous;
/// * of [`Units::DiploidsCalled`]: these of a pair; those at which both are called; and of these, at which i is heterozygous; at which j is.
#[derive(Debug)]
pub(crate) struct PairSums<'a> {
    pub(crate) piece: PairPiece,
    /// The first sum of all pairs, then the next, and so on, and then the numbers of the first ones; divided into slices anywhere.
    pub(crate) numbers: &'a [&'a [u32]],
}

/// Adds the sums of a piece.
pub(crate) type AddSums<'a> = dyn FnMut(&PairSums<'_>) -> Result<(), CountError> + 'a;

impl PairSums<'_> {
    /// Adds each sum to the numbers of all pairs, and those of the first ones to the numbers of all copies or individuals; they wrap around.
    ///
    /// # Errors
    /// [`CountError::Stopped`], and [`CountError::Device`] if these are other sums or of other pairs.
    pub(super) fn add(
        &self,
        of_pairs: Vec<&mut [u32]>,
        of_each: Vec<&mut [u32]>,
        workers: &Workers<'_>,
    ) -> Result<(), CountError> {
        let of_pairs = of_pairs.into_iter().map(|all| (all, &self.piece.pairs));
        let of_each = of_each.into_iter().map(|all| (all, &self.piece.firsts));
        let others = || CountError::Device("a GPU gives the sums of other pairs".into());
        let (mut parts, mut from) = (vec![], 0);
        for (all, places) in of_pairs.chain(of_each) {
            let to = all.get_mut(places.clone()).ok_or_else(others)?;
            let begins = (from..).step_by(PART_NUMBERS);
            parts.extend(begins.zip(to.chunks_mut(PART_NUMBERS)));
            from += places.len();
        }
        if self.numbers.iter().map(|some| some.len()).sum::<usize>() != from {
            return Err(others());
        }
        workers.each(parts, |(from, to)| {
            self.add_numbers(from, to);
            Ok(())
        })
    }

    /// Adds the numbers from `from` on.
    fn add_numbers(&self, mut from: usize, mut to: &mut [u32]) {
        for some in self.numbers {
            let (before, some) = some.split_at(from.min(some.len()));
            from -= before.len();
            let (now, later) = to.split_at_mut(some.len().min(to.len()));
            for (to, number) in now.iter_mut().zip(some) {
                *to = to.wrapping_add(*number);
            }
            to = later;
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

    /// Gives the sums of all rows that were added: those of some pieces, which have every pair at least once.
    ///
    /// # Errors
    /// [`CountError::Device`], and those of `add`.
    fn take(self: Box<Self>, add: &mut AddSums<'_>) -> Result<(), CountError>;
}

/// What rows of a class, which is the number of copies that have the allele, are multiplied by: w in sums of w x x′ over rows for pairs of
/// individuals, and in sums of w x for each individual, with x the dosage of an individual. Two sums of each kind. Every w x x′ is at most 2³³
/// times the number of individuals, and every w x below 2⁵⁴.
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
    /// Adds a row of each of `classes`; `set` gives the words of the allele's plane. The class is the number of its bits; no call is missing, and bits
    /// past the last copy are zero.
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
