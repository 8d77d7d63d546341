//! [`IndividualPairs`]: for every pair of individuals the counts of `sample_pairs`.
//!
//! Rows are added in classes: complete biallelic diploid calls need two counts of a pair, those with missing calls five, and any other
//! calls twelve (`any_calls`). What a row's alleles and half-called or haploid calls change of the counts that pool all alleles other
//! than the reference is kept apart, as corrections.

use crate::counts::gathered::PlanesRow;
use crate::counts::{CountError, Lanes, Level};

use super::any_calls::{self, AnyCalls};
use super::diploids::{ALT, CALLED, DISTANCE_BITS, HET, fixed, pooled, quarters};
use super::matrix::{PairMatrix, Shape, Words, add_all, more_rows, save_optional, zeros};
use super::polyploid;
use super::products::{PairCounts, Panel, UnitStrip, for_each_pair, ones};
use super::site_rows::RowsPart;
use super::transposed::Transposed;
use super::triangle::{pairs_of, row_base};

/// Rows that are added at a time.
const ROWS: usize = 1 << 14;

/// Counts over pairs of individuals.
#[derive(Clone, Debug)]
pub(crate) struct IndividualPairs {
    shape: Shape,
    /// Rows.
    rows: u64,
    /// Rows at which every individual is a complete diploid and no allele has a code above 1.
    complete: u64,
    /// For each individual, those of these rows at which it is heterozygous.
    het: Vec<u32>,
    /// For each pair, rows at which both are heterozygous, alleles other than the reference pooled.
    both_het: Vec<u32>,
    /// For each pair, rows at which they are homozygous for different alleles, likewise pooled.
    opposite: Vec<u32>,
    /// Counts at rows that are not complete.
    missing: Missing,
    /// Corrections of the pooled counts for rows with further alleles or incomplete or non-diploid calls.
    corrections: Corrections,
}

/// For each pair, over rows that are not complete; empty if there are no such rows.
#[derive(Clone, Debug, Default)]
struct Missing {
    /// Both are complete diploids.
    sites: Vec<u32>,
    /// And the first is heterozygous.
    het1: Vec<u32>,
    /// And the second is.
    het2: Vec<u32>,
}

/// Exact counts minus pooled counts, for each pair; empty if there are no such rows.
#[derive(Clone, Debug, Default)]
struct Corrections {
    ibs0: Vec<i64>,
    ibs2: Vec<i64>,
    distance_sites: Vec<i64>,
    /// As a multiple of 2⁻⁹⁰.
    distance: Vec<i128>,
}

/// The counts of a pair of individuals, as `sample_pairs` gives them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct IndividualPair {
    /// Rows at which both are complete diploids.
    pub(crate) sites: i64,
    /// Those at which they share 0, 1 and 2 alleles.
    pub(crate) ibs: [i64; 3],
    /// Those at which both are heterozygous, alleles other than the reference pooled.
    pub(crate) het_het: i64,
    /// Those at which they are homozygous for different alleles, likewise pooled.
    pub(crate) opposite: i64,
    /// Those at which the first is heterozygous, and the second.
    pub(crate) het: [i64; 2],
    /// Rows at which both have a called copy.
    pub(crate) distance_sites: i64,
    /// Σ over these rows of the probability that a copy of the one differs from a copy of the other.
    pub(crate) distance: f64,
}

/// Complete biallelic diploid calls: both heterozygous, and opposite homozygotes.
#[derive(Clone, Copy)]
struct Complete;

impl PairCounts<2> for Complete {
    #[inline(always)]
    fn add<L: Lanes>(
        self,
        lanes: L,
        first: &UnitStrip<'_>,
        second: &UnitStrip<'_>,
        sums: &mut [L::Strip; 2],
    ) {
        let (het1, het2) = (first.plane(lanes, HET), second.plane(lanes, HET));
        let differ = lanes.xor(first.plane(lanes, ALT), second.plane(lanes, ALT));
        let opposite = lanes.and_not(lanes.and_not(differ, het1), het2);
        sums[0] = lanes.add(sums[0], lanes.counters(lanes.and(het1, het2)));
        sums[1] = lanes.add(sums[1], lanes.counters(opposite));
    }
}

/// Biallelic diploid calls, complete or missing: both heterozygous, opposite homozygotes, both called, and then the first or the second
/// heterozygous.
#[derive(Clone, Copy)]
struct Incomplete;

impl PairCounts<5> for Incomplete {
    #[inline(always)]
    fn add<L: Lanes>(
        self,
        lanes: L,
        first: &UnitStrip<'_>,
        second: &UnitStrip<'_>,
        sums: &mut [L::Strip; 5],
    ) {
        pooled(lanes, first, second, sums);
    }
}

/// The classes of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// Every copy has the reference.
    Reference,
    Complete,
    Incomplete,
    /// Any calls, with this many planes of codes.
    Any(usize),
}

impl IndividualPairs {
    /// The class of a row of diploid calls.
    fn class(&self, row: PlanesRow<'_>) -> Class {
        let planes = row.codes().count();
        if self.shape.ploidy != 2 {
            return Class::Any(planes);
        }
        if row.is_all_reference() {
            return Class::Reference;
        }
        let biallelic = planes == 0 || row.only_low().is_some();
        match biallelic {
            true if row.is_complete() => Class::Complete,
            true if !any_calls::has_half_calls(row) => Class::Incomplete,
            _ => Class::Any(planes),
        }
    }

    /// The counts of a pair, i < j.
    pub(crate) fn pair(&self, i: usize, j: usize) -> IndividualPair {
        let at = row_base(self.shape.samples, i).wrapping_add(j);
        let count = |of: &[u32]| of.get(at).map_or(0, |count| i64::from(*count));
        let more = |of: &[i64]| of.get(at).copied().unwrap_or(0);
        let het = |sample: usize| self.het.get(sample).map_or(0, |count| i64::from(*count));
        let (both_het, opposite) = (count(&self.both_het), count(&self.opposite));
        let sites = self.complete as i64 + count(&self.missing.sites);
        let het1 = het(i) + count(&self.missing.het1);
        let het2 = het(j) + count(&self.missing.het2);
        let ibs0 = opposite + more(&self.corrections.ibs0);
        let same = sites - het1 - het2 + 2 * both_het - opposite;
        let ibs2 = same + more(&self.corrections.ibs2);
        let distance = fixed(quarters(opposite, het1, het2, both_het));
        let correction = self.corrections.distance.get(at).copied().unwrap_or(0);
        IndividualPair {
            sites,
            ibs: [ibs0, sites - ibs0 - ibs2, ibs2],
            het_het: both_het,
            opposite,
            het: [het1, het2],
            distance_sites: sites + more(&self.corrections.distance_sites),
            distance: (distance + correction) as f64 / (1u128 << DISTANCE_BITS) as f64,
        }
    }

    /// Adds biallelic rows of diploid calls without half-called ones.
    fn add_biallelic(
        &mut self,
        rows: &[PlanesRow<'_>],
        complete: bool,
        level: Level,
    ) -> Result<(), CountError> {
        let samples = self.shape.samples;
        let bits = Transposed::try_new(rows, self.shape.copies(), 1, !complete)?;
        let planes = if complete { 2 } else { 3 };
        let mut panel = Panel::try_new(samples, planes, rows.len())?;
        for sample in 0..samples {
            let copies = || {
                let (first, second) = (bits.of(0, 2 * sample), bits.of(0, 2 * sample + 1));
                first.iter().zip(second)
            };
            panel.set(sample, HET, copies().map(|(first, second)| first ^ second));
            panel.set(sample, ALT, copies().map(|(first, second)| first & second));
            if !complete {
                // Both copies are called, or neither.
                let called = bits.of(1, 2 * sample).iter().copied();
                panel.set(sample, CALLED, called);
            }
        }
        drop(bits);
        let (both_het, opposite) = (&mut self.both_het, &mut self.opposite);
        let mut pooled = |at: usize, het: u64, homozygous: u64| {
            // These fit: there are fewer than 2^32 rows.
            both_het[at] += het as u32;
            opposite[at] += homozygous as u32;
        };
        let at = |i: usize, j: usize| row_base(samples, i).wrapping_add(j);
        if complete {
            for (sample, het) in self.het.iter_mut().enumerate() {
                *het += ones(&panel, sample, HET) as u32;
            }
            let sink = |i: usize, j: usize, [het, opposite]: [u64; 2]| {
                pooled(at(i, j), het, opposite);
            };
            for_each_pair::<2, 4, _, _>(&panel, Complete, level, sink);
            return Ok(());
        }
        self.missing.reserve(samples)?;
        let missing = &mut self.missing;
        let sink = |i: usize, j: usize, counts: [u64; 5]| {
            let [het, opposite, called, het1, het2] = counts;
            let at = at(i, j);
            pooled(at, het, opposite);
            missing.add(at, called, het1, het2);
        };
        for_each_pair::<5, 2, _, _>(&panel, Incomplete, level, sink);
        Ok(())
    }

    /// Adds rows of any haploid or diploid calls.
    fn add_any(
        &mut self,
        rows: &[PlanesRow<'_>],
        planes: usize,
        level: Level,
    ) -> Result<(), CountError> {
        let samples = self.shape.samples;
        let panel = any_calls::panel(rows, self.shape, planes)?;
        self.missing.reserve(samples)?;
        self.corrections.reserve(samples)?;
        let (both_het, opposite) = (&mut self.both_het, &mut self.opposite);
        let (missing, corrections) = (&mut self.missing, &mut self.corrections);
        let sink = |i: usize, j: usize, counts: [u64; any_calls::COUNTS]| {
            let at = row_base(samples, i).wrapping_add(j);
            both_het[at] += counts[0] as u32;
            opposite[at] += counts[1] as u32;
            missing.add(at, counts[2], counts[3], counts[4]);
            corrections.add(at, counts.map(|count| count as i64));
        };
        for_each_pair::<{ any_calls::COUNTS }, 1, _, _>(&panel, AnyCalls { planes }, level, sink);
        Ok(())
    }

    /// Adds what one row with calls of more than two copies gives for a pair.
    fn add_polyploid(&mut self, at: usize, row: polyploid::PairOfCalls) {
        self.both_het[at] += u32::from(row.both_het);
        self.opposite[at] += u32::from(row.opposite);
        if let Some(het) = row.diploids {
            self.missing
                .add(at, 1, u64::from(het[0]), u64::from(het[1]));
        }
        let corrections = &mut self.corrections;
        corrections.ibs0[at] += row.ibs0;
        corrections.ibs2[at] += row.ibs2;
        corrections.distance_sites[at] += row.distance_sites;
        corrections.distance[at] += row.distance;
    }
}

impl Missing {
    fn reserve(&mut self, samples: usize) -> Result<(), CountError> {
        for counts in [&mut self.sites, &mut self.het1, &mut self.het2] {
            if counts.is_empty() {
                *counts = zeros(pairs_of(samples), samples)?;
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn add(&mut self, at: usize, sites: u64, het1: u64, het2: u64) {
        self.sites[at] += sites as u32;
        self.het1[at] += het1 as u32;
        self.het2[at] += het2 as u32;
    }
}

impl Corrections {
    fn reserve(&mut self, samples: usize) -> Result<(), CountError> {
        let pairs = pairs_of(samples);
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

    #[inline(always)]
    fn add(&mut self, at: usize, counts: [i64; any_calls::COUNTS]) {
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
}

impl PairMatrix for IndividualPairs {
    const KIND: u32 = 2;
    type Options = ();

    fn try_new(shape: Shape, (): ()) -> Result<Self, CountError> {
        let (samples, pairs) = (shape.samples, pairs_of(shape.samples));
        Ok(Self {
            shape,
            rows: 0,
            complete: 0,
            het: zeros(samples, samples)?,
            both_het: zeros(pairs, samples)?,
            opposite: zeros(pairs, samples)?,
            missing: Missing::default(),
            corrections: Corrections::default(),
        })
    }

    fn fold(&mut self, rows: RowsPart<'_>, level: Level) -> Result<(), CountError> {
        self.rows = more_rows(self.rows, rows.len() as u64)?;
        let mut classes: Vec<(Class, Vec<PlanesRow<'_>>)> = vec![];
        for row in rows.iter(self.shape.copies()) {
            let class = self.class(row);
            self.complete += u64::from(matches!(class, Class::Reference | Class::Complete));
            if class == Class::Reference {
                continue;
            }
            let at = match classes.iter().position(|(other, _)| *other == class) {
                Some(at) => at,
                None => {
                    classes.push((class, vec![]));
                    classes.len() - 1
                }
            };
            let (_, of_class) = &mut classes[at];
            of_class.push(row);
            if of_class.len() == ROWS {
                let full = std::mem::take(of_class);
                self.add_rows(&full, class, level)?;
            }
        }
        for (class, rows) in classes {
            if !rows.is_empty() {
                self.add_rows(&rows, class, level)?;
            }
        }
        Ok(())
    }

    fn merge(&mut self, other: &Self) -> Result<(), CountError> {
        self.rows = more_rows(self.rows, other.rows)?;
        self.complete += other.complete;
        add_all(&mut self.het, &other.het);
        add_all(&mut self.both_het, &other.both_het);
        add_all(&mut self.opposite, &other.opposite);
        add_all(&mut self.missing.sites, &other.missing.sites);
        add_all(&mut self.missing.het1, &other.missing.het1);
        add_all(&mut self.missing.het2, &other.missing.het2);
        let (to, from) = (&mut self.corrections, &other.corrections);
        add_all(&mut to.ibs0, &from.ibs0);
        add_all(&mut to.ibs2, &from.ibs2);
        add_all(&mut to.distance_sites, &from.distance_sites);
        add_all(&mut to.distance, &from.distance);
        Ok(())
    }

    fn save(&self, out: &mut Vec<u64>) {
        out.extend([self.rows, self.complete]);
        save_optional(&self.het, out);
        let Missing { sites, het1, het2 } = &self.missing;
        for counts in [&self.both_het, &self.opposite, sites, het1, het2] {
            save_optional(counts, out);
        }
        let of = &self.corrections;
        for counts in [&of.ibs0, &of.ibs2, &of.distance_sites] {
            save_optional(counts, out);
        }
        save_optional(&of.distance, out);
    }

    fn load(shape: Shape, (): (), words: &mut Words<'_>) -> Option<Self> {
        let (samples, pairs) = (shape.samples, pairs_of(shape.samples));
        let loaded = Self {
            shape,
            rows: words.next()?,
            complete: words.next()?,
            het: words.optional(samples)?,
            both_het: words.optional(pairs)?,
            opposite: words.optional(pairs)?,
            missing: Missing {
                sites: words.optional(pairs)?,
                het1: words.optional(pairs)?,
                het2: words.optional(pairs)?,
            },
            corrections: Corrections {
                ibs0: words.optional(pairs)?,
                ibs2: words.optional(pairs)?,
                distance_sites: words.optional(pairs)?,
                distance: words.optional(pairs)?,
            },
        };
        let counted = [loaded.both_het.len(), loaded.opposite.len()] == [pairs; 2];
        (counted && loaded.het.len() == samples).then_some(loaded)
    }

    fn heap_bytes(&self) -> usize {
        let Missing { sites, het1, het2 } = &self.missing;
        let of = &self.corrections;
        let narrow = [&self.het, &self.both_het, &self.opposite, sites, het1, het2];
        let narrow: usize = narrow.map(Vec::capacity).iter().sum();
        let wide = [&of.ibs0, &of.ibs2, &of.distance_sites];
        let wide: usize = wide.map(Vec::capacity).iter().sum();
        narrow * size_of::<u32>() + wide * size_of::<i64>() + of.distance.capacity() * 16
    }

    fn bytes_of(shape: Shape, (): ()) -> usize {
        pairs_of(shape.samples).saturating_mul(2 * size_of::<u32>())
    }
}

impl IndividualPairs {
    fn add_rows(
        &mut self,
        rows: &[PlanesRow<'_>],
        class: Class,
        level: Level,
    ) -> Result<(), CountError> {
        match class {
            Class::Reference => Ok(()),
            Class::Complete => self.add_biallelic(rows, true, level),
            Class::Incomplete => self.add_biallelic(rows, false, level),
            Class::Any(_) if self.shape.ploidy > 2 => {
                self.missing.reserve(self.shape.samples)?;
                self.corrections.reserve(self.shape.samples)?;
                polyploid::for_each_pair(rows, self.shape, |at, row| {
                    self.add_polyploid(at, row);
                });
                Ok(())
            }
            Class::Any(planes) => self.add_any(rows, planes, level),
        }
    }
}
