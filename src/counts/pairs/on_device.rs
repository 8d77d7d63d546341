//! Counts over pairs that a device keeps: [`PairDevice`] and [`UnitCounter`], which `gpu` implements, and [`OnDevice`], what a matrix has there.
//!
//! A device counts for every pair of *units* the rows at which both have a bit. What the counts of a matrix are in these follows from
//! [`Units`]. Invariant: everything is an integer, so the host may count some rows and devices others.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use crate::counts::gathered::{ABSENT, PlanesRow, UNCALLED, plane_words};
use crate::counts::{CountError, Workers};

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

/// Words that a thread copies at least: fewer take no longer than starting it.
const PART_WORDS: usize = 1 << 17;

/// Sets the words of some rows, which are given by their numbers: for each row those of its planes.
pub(crate) type SetRows<'a> = dyn FnMut(Range<usize>, &mut [u64]) -> Result<(), CountError> + 'a;

/// Counts pairs of units.
pub(crate) trait UnitCounter: Debug + Send {
    /// Adds this many rows, whose words `set` gives. Bits past the last copy are zero, and so are those of the allele of copies that are
    /// not called.
    ///
    /// # Errors
    /// [`CountError::Device`], and those of `set`. The counter must not be used after.
    fn add(&mut self, rows: usize, set: &mut SetRows<'_>) -> Result<(), CountError>;

    /// The counts of all rows that were added.
    ///
    /// # Errors
    /// [`CountError::Device`], or [`CountError::TooLarge`] if they do not fit in memory.
    fn take(self: Box<Self>) -> Result<UnitCounts, CountError>;
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

/// One or more devices that count pairs.
pub(crate) trait PairDevice: Debug + Send + Sync {
    /// A counter of the pairs of units of so many copies; `None` if the host is to count them.
    ///
    /// # Errors
    /// [`CountError::Device`] if there can be none and the session demands one.
    fn counter(
        &self,
        units: Units,
        copies: usize,
    ) -> Result<Option<Box<dyn UnitCounter>>, CountError>;
}

/// The counters of a matrix.
#[derive(Debug)]
pub(crate) struct OnDevice {
    device: Arc<dyn PairDevice>,
    /// `None` for units that the host counts.
    counters: BTreeMap<Units, Option<Box<dyn UnitCounter>>>,
}

impl OnDevice {
    /// No counts, on this device.
    pub(crate) fn new(device: Arc<dyn PairDevice>) -> Self {
        Self {
            device,
            counters: BTreeMap::new(),
        }
    }

    /// Whether no counter was opened: that of the first rows takes long.
    pub(crate) fn is_new(&self) -> bool {
        self.counters.is_empty()
    }

    /// Adds biallelic rows of `copies` copies; `false` if the host must.
    pub(super) fn add(
        &mut self,
        units: Units,
        rows: &[PlanesRow<'_>],
        copies: usize,
        workers: &Workers<'_>,
    ) -> Result<bool, CountError> {
        if rows.is_empty() {
            return Ok(true);
        }
        if !self.counters.contains_key(&units) {
            let counter = self.device.counter(units, copies)?;
            self.counters.insert(units, counter);
        }
        let Some(Some(counter)) = self.counters.get_mut(&units) else {
            return Ok(false);
        };
        let width = plane_words(copies);
        let row_words = width * units.planes();
        counter.add(rows.len(), &mut |range, words| {
            let rows = rows.get(range).unwrap_or_default();
            let fewest = PART_WORDS / row_words.max(1);
            let some = rows.len().div_ceil(workers.parts()).max(fewest).max(1);
            let parts = rows.chunks(some).zip(words.chunks_mut(some * row_words));
            workers.each(parts, |(rows, words)| {
                for (row, words) in rows.iter().zip(words.chunks_exact_mut(row_words)) {
                    let (allele, uncalled) = words.split_at_mut(width);
                    set_plane(allele, row.plane(0), None);
                    if !uncalled.is_empty() {
                        set_plane(uncalled, row.plane(UNCALLED), row.plane(ABSENT));
                    }
                }
                Ok(())
            })
        })?;
        Ok(true)
    }

    /// The counts of some of the rows that were added, which are then no longer here; `None` if there are none left.
    pub(super) fn take(&mut self) -> Result<Option<(Units, UnitCounts)>, CountError> {
        while let Some((units, counter)) = self.counters.pop_first() {
            if let Some(counter) = counter {
                return Ok(Some((units, counter.take()?)));
            }
        }
        Ok(None)
    }

    /// Bytes of the counts that [`take`](Self::take) returns at a time, of so many copies; saturating.
    pub(crate) fn heap_bytes(&self, copies: usize) -> usize {
        let counted = self
            .counters
            .iter()
            .filter(|(_, counter)| counter.is_some());
        let bytes = counted.map(|(units, _)| {
            let units = units.number(copies);
            units.saturating_mul(units).saturating_mul(size_of::<u32>())
        });
        bytes.max().unwrap_or(0)
    }
}

/// Sets the words of a plane to those that have a bit in either of two.
fn set_plane(words: &mut [u64], one: Option<&[u64]>, other: Option<&[u64]>) {
    match one.or(other) {
        Some(plane) => words.copy_from_slice(plane),
        None => words.fill(0),
    }
    if let (Some(_), Some(other)) = (one, other) {
        for (word, other) in words.iter_mut().zip(other) {
            *word |= other;
        }
    }
}
