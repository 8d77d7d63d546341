//! What pairs of individuals need beside the counts that pool all alleles other than the reference: [`Missing`], counts over rows that are
//! not complete, and [`Corrections`].

use crate::counts::{CountError, Workers};

use super::any_calls::COUNTS;
use super::diploids::{fixed, quarters};
use super::matrix::{Words, add_all, save_optional, zeros};
use super::polyploid::PairOfCalls;
use super::triangle::{Divided, Part};

/// For each pair, over rows that are not complete; empty if there are no such rows.
#[derive(Clone, Debug, Default)]
pub(super) struct Missing {
    /// Both are complete diploids.
    pub(super) sites: Vec<u32>,
    /// And the first is heterozygous.
    pub(super) het1: Vec<u32>,
    /// And the second is.
    pub(super) het2: Vec<u32>,
}

/// Exact counts minus pooled counts, for each pair; empty if there are no such rows.
#[derive(Clone, Debug, Default)]
pub(super) struct Corrections {
    pub(super) ibs0: Vec<i64>,
    pub(super) ibs2: Vec<i64>,
    pub(super) distance_sites: Vec<i64>,
    /// As a multiple of 2⁻⁹⁰.
    pub(super) distance: Vec<i128>,
}

/// [`Missing`], to be divided into parts.
pub(super) struct DividedMissing<'a> {
    sites: Divided<'a, u32>,
    het1: Divided<'a, u32>,
    het2: Divided<'a, u32>,
}

/// [`Missing`] of a part's pairs.
pub(super) struct MissingOfPart<'a> {
    sites: &'a mut [u32],
    het1: &'a mut [u32],
    het2: &'a mut [u32],
}

/// [`Corrections`], to be divided into parts.
pub(super) struct DividedCorrections<'a> {
    ibs0: Divided<'a, i64>,
    ibs2: Divided<'a, i64>,
    distance_sites: Divided<'a, i64>,
    distance: Divided<'a, i128>,
}

/// [`Corrections`] of a part's pairs.
pub(super) struct CorrectionsOfPart<'a> {
    ibs0: &'a mut [i64],
    ibs2: &'a mut [i64],
    distance_sites: &'a mut [i64],
    distance: &'a mut [i128],
}

impl Missing {
    /// Makes room for the pairs of a part, if there is none.
    pub(super) fn reserve(&mut self, of: &Part) -> Result<(), CountError> {
        for counts in [&mut self.sites, &mut self.het1, &mut self.het2] {
            if counts.is_empty() {
                *counts = zeros(of.pairs(), of.units())?;
            }
        }
        Ok(())
    }

    pub(super) fn divided(&mut self) -> DividedMissing<'_> {
        DividedMissing {
            sites: Divided::new(&mut self.sites),
            het1: Divided::new(&mut self.het1),
            het2: Divided::new(&mut self.het2),
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        add_all(&mut self.sites, &other.sites);
        add_all(&mut self.het1, &other.het1);
        add_all(&mut self.het2, &other.het2);
    }

    pub(super) fn save(&self, out: &mut Vec<u64>, workers: &Workers<'_>) -> Result<(), CountError> {
        let mut counts = [&self.sites, &self.het1, &self.het2].into_iter();
        counts.try_for_each(|counts| save_optional(counts, out, workers))
    }

    pub(super) fn load(pairs: usize, words: &mut Words<'_>) -> Option<Self> {
        Some(Self {
            sites: words.optional(pairs)?,
            het1: words.optional(pairs)?,
            het2: words.optional(pairs)?,
        })
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let counts = [&self.sites, &self.het1, &self.het2];
        counts.map(Vec::capacity).iter().sum::<usize>() * size_of::<u32>()
    }
}

impl<'a> DividedMissing<'a> {
    pub(super) fn next(&mut self, part: &Part) -> MissingOfPart<'a> {
        MissingOfPart {
            sites: self.sites.next(part),
            het1: self.het1.next(part),
            het2: self.het2.next(part),
        }
    }
}

impl MissingOfPart<'_> {
    /// Adds counts, which fit: there are fewer than 2³² rows.
    #[inline(always)]
    pub(super) fn add(&mut self, at: usize, sites: u64, het1: u64, het2: u64) {
        self.sites[at] += sites as u32;
        self.het1[at] += het1 as u32;
        self.het2[at] += het2 as u32;
    }
}

impl Corrections {
    /// Makes room for the pairs of a part, if there is none.
    pub(super) fn reserve(&mut self, of: &Part) -> Result<(), CountError> {
        let (pairs, samples) = (of.pairs(), of.units());
        for counts in [&mut self.ibs0, &mut self.ibs2, &mut self.distance_sites] {
            if counts.is_empty() {
                *counts = zeros(pairs, samples)?;
            }
        }
        if self.distance.is_empty() {
            self.distance = zeros(pairs, samples)?;
        }
        Ok(())
    }

    pub(super) fn divided(&mut self) -> DividedCorrections<'_> {
        DividedCorrections {
            ibs0: Divided::new(&mut self.ibs0),
            ibs2: Divided::new(&mut self.ibs2),
            distance_sites: Divided::new(&mut self.distance_sites),
            distance: Divided::new(&mut self.distance),
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        add_all(&mut self.ibs0, &other.ibs0);
        add_all(&mut self.ibs2, &other.ibs2);
        add_all(&mut self.distance_sites, &other.distance_sites);
        add_all(&mut self.distance, &other.distance);
    }

    pub(super) fn save(&self, out: &mut Vec<u64>, workers: &Workers<'_>) -> Result<(), CountError> {
        for counts in [&self.ibs0, &self.ibs2, &self.distance_sites] {
            save_optional(counts, out, workers)?;
        }
        save_optional(&self.distance, out, workers)
    }

    pub(super) fn load(pairs: usize, words: &mut Words<'_>) -> Option<Self> {
        Some(Self {
            ibs0: words.optional(pairs)?,
            ibs2: words.optional(pairs)?,
            distance_sites: words.optional(pairs)?,
            distance: words.optional(pairs)?,
        })
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let counts = [&self.ibs0, &self.ibs2, &self.distance_sites];
        let counts: usize = counts.map(Vec::capacity).iter().sum();
        counts * size_of::<i64>() + self.distance.capacity() * size_of::<i128>()
    }
}

impl<'a> DividedCorrections<'a> {
    pub(super) fn next(&mut self, part: &Part) -> CorrectionsOfPart<'a> {
        CorrectionsOfPart {
            ibs0: self.ibs0.next(part),
            ibs2: self.ibs2.next(part),
            distance_sites: self.distance_sites.next(part),
            distance: self.distance.next(part),
        }
    }
}

impl CorrectionsOfPart<'_> {
    /// Adds what the counts of [`any_calls`](super::any_calls) change.
    #[inline(always)]
    pub(super) fn add(&mut self, at: usize, counts: [i64; COUNTS]) {
        let [
            both_het,
            opposite,
            sites,
            het1,
            het2,
            ibs0,
            ibs2,
            any,
            same @ ..,
        ] = counts;
        self.ibs0[at] += ibs0 - opposite;
        self.ibs2[at] += ibs2 - (sites - het1 - het2 + 2 * both_het - opposite);
        self.distance_sites[at] += any - sites;
        let exact = 4 * any - same.iter().sum::<i64>();
        self.distance[at] += fixed(exact - quarters(opposite, het1, het2, both_het));
    }

    /// Adds what one row with calls of more than two copies changes.
    pub(super) fn add_polyploid(&mut self, at: usize, row: &PairOfCalls) {
        self.ibs0[at] += row.ibs0;
        self.ibs2[at] += row.ibs2;
        self.distance_sites[at] += row.distance_sites;
        self.distance[at] += row.distance;
    }
}
