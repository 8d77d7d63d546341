//! How rows are added to [`IndividualPairs`], by their classes.

use std::num::Wrapping;

use crate::counts::gathered::PlanesRow;
use crate::counts::{CountError, Lanes, Level, Workers};

use super::any_calls::{self, AnyCalls, FIRSTS};
use super::corrections::{CorrectionsOfPart, DividedCorrections, DividedMissing, MissingOfPart};
use super::diploids::{ALT, CALLED, HET, pooled};
use super::individual_class::{Class, SortedRows};
use super::individuals::IndividualPairs;
use super::matrix::Shape;
use super::polyploid;
use super::products::{PairCounts, Panel, UnitStrip, for_each_pair, ones};
use super::rare::{RareByUnit, rare_plane, words_of};
use super::transposed::Transposed;
use super::triangle::{Divided, Part};

/// Rows of calls of more than two copies that are added at a time.
const POLYPLOID_ROWS: usize = 64;
/// What an individual carries that is homozygous for a rare allele.
const HOMOZYGOUS: u8 = 2;

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

/// The class of a row; without `rare`, rows of which few copies have an allele are complete ones.
pub(super) fn class(row: PlanesRow<'_>, shape: Shape, rare: bool) -> Class {
    let planes = row.codes().count();
    if shape.ploidy != 2 {
        return Class::Any(planes);
    }
    if row.is_all_reference() {
        return Class::Reference;
    }
    let biallelic = planes == 0 || row.only_low().is_some();
    match biallelic {
        true if rare && rare_plane(row, shape.copies()).is_some() => Class::Rare,
        true if row.is_complete() => Class::Complete,
        true if !any_calls::has_half_calls(row) => Class::Incomplete,
        _ => Class::Any(planes),
    }
}

impl IndividualPairs {
    /// Sorts rows.
    pub(super) fn sorted<'a>(&self, rows: &[PlanesRow<'a>]) -> SortedRows<'a> {
        let copies = self.shape.copies();
        let mut sorted = SortedRows::default();
        for row in rows {
            let class = class(*row, self.shape, true);
            let complete = [Class::Reference, Class::Rare, Class::Complete].contains(&class);
            sorted.complete += u64::from(complete);
            match class {
                Class::Reference => {}
                Class::Rare => {
                    if let Some((plane, set)) = rare_plane(*row, copies) {
                        sorted.rare.push(carriers_of(words_of(plane, set, copies)));
                    }
                }
                class => sorted.classes.entry(class).or_default().push(*row),
            }
        }
        sorted
    }

    /// Adds rows of a class.
    pub(super) fn add_rows(
        &mut self,
        rows: &[PlanesRow<'_>],
        class: Class,
        on: (Level, &Workers<'_>),
    ) -> Result<(), CountError> {
        match class {
            // Rare rows are added by `add_rare`.
            Class::Reference | Class::Rare => Ok(()),
            Class::Complete => self.add_biallelic(rows, true, on),
            Class::Incomplete => self.add_biallelic(rows, false, on),
            Class::Any(_) if self.shape.ploidy > 2 => self.add_polyploid(rows, on.1),
            Class::Any(planes) => self.add_any(rows, planes, on),
        }
    }

    /// Adds biallelic rows of diploid calls without half-called ones.
    fn add_biallelic(
        &mut self,
        rows: &[PlanesRow<'_>],
        complete: bool,
        (level, workers): (Level, &Workers<'_>),
    ) -> Result<(), CountError> {
        let samples = self.shape.samples;
        let bits = Transposed::try_new(rows, self.shape.copies(), 1, !complete, workers)?;
        let planes = if complete { 2 } else { 3 };
        let mut panel = Panel::try_new(samples, planes, rows.len())?;
        panel.fill(workers, |sample, unit| {
            let copies = || {
                let (first, second) = (bits.of(0, 2 * sample), bits.of(0, 2 * sample + 1));
                first.iter().zip(second)
            };
            unit.set(HET, copies().map(|(first, second)| first ^ second));
            unit.set(ALT, copies().map(|(first, second)| first & second));
            if !complete {
                // Both copies are called, or neither.
                let called = bits.of(1, 2 * sample).iter().copied();
                unit.set(CALLED, called);
            }
        })?;
        drop(bits);
        let parts = self.of.divide(1, workers);
        let mut both_het = Divided::new(&mut self.both_het);
        let mut opposite = Divided::new(&mut self.opposite);
        let (panel, on) = (&panel, (level, workers));
        if complete {
            for (sample, het) in self.het.iter_mut().enumerate() {
                *het += ones(panel, sample, HET) as u32;
            }
            let parts = parts.into_iter().map(|part| {
                let (both_het, opposite) = (both_het.next(&part), opposite.next(&part));
                (part, both_het, opposite)
            });
            return workers.each(parts, |(part, both_het, opposite)| {
                let sink = |at: usize, [het, homozygous]: [u64; 2]| {
                    // These fit: there are fewer than 2^32 rows.
                    both_het[at] += het as u32;
                    opposite[at] += homozygous as u32;
                };
                for_each_pair::<2, 4, _, _>(panel, &part, Complete, on, sink)
            });
        }
        self.missing.reserve(&self.of)?;
        let mut missing = self.missing.divided();
        let parts = parts.into_iter().map(|part| {
            let (both_het, opposite) = (both_het.next(&part), opposite.next(&part));
            let missing = missing.next(&part);
            (part, both_het, opposite, missing)
        });
        workers.each(parts, |(part, both_het, opposite, mut missing)| {
            let sink = |at: usize, counts: [u64; 5]| {
                let [het, homozygous, called, het1, het2] = counts;
                both_het[at] += het as u32;
                opposite[at] += homozygous as u32;
                missing.add(at, called, het1, het2);
            };
            for_each_pair::<5, 2, _, _>(panel, &part, Incomplete, on, sink)
        })
    }

    /// Adds rows of which few copies have one of two alleles. An individual that is homozygous for it is opposite to all but the carriers.
    pub(super) fn add_rare(
        &mut self,
        rare: &[RareByUnit],
        workers: &Workers<'_>,
    ) -> Result<(), CountError> {
        for (sample, carries) in rare.iter().flat_map(RareByUnit::carriers) {
            let counts = match *carries {
                HOMOZYGOUS => &mut self.carried,
                _ => &mut self.het,
            };
            counts[*sample as usize] += 1;
        }
        let mut both_het = Divided::new(&mut self.both_het);
        let mut opposite = Divided::new(&mut self.opposite);
        let parts = self.of.divide(1, workers);
        let parts = parts.into_iter().map(|part| {
            let (both_het, opposite) = (both_het.next(&part), opposite.next(&part));
            (part, both_het, opposite)
        });
        workers.each(parts, |(part, both_het, opposite)| {
            for rows in rare {
                rows.for_each_pair(&part, |at, first, second| {
                    // Mostly neither is homozygous.
                    match u32::from(first == HOMOZYGOUS) + u32::from(second == HOMOZYGOUS) {
                        0 => both_het[at] += 1,
                        homozygous => opposite[at] -= homozygous,
                    }
                });
            }
            Ok(())
        })
    }

    /// Adds rows of any haploid or diploid calls.
    fn add_any(
        &mut self,
        rows: &[PlanesRow<'_>],
        planes: usize,
        (level, workers): (Level, &Workers<'_>),
    ) -> Result<(), CountError> {
        let panel = any_calls::panel(rows, self.shape, planes, workers)?;
        self.missing.reserve(&self.of)?;
        self.corrections.reserve(&self.of)?;
        let parts = self.of.divide(1, workers);
        let mut of_parts = self.divided();
        let parts = parts.into_iter().map(|part| {
            let numbers = of_parts.next(&part);
            (part, numbers)
        });
        let (panel, on) = (&panel, (level, workers));
        workers.each(parts, |(part, mut numbers)| {
            let sink = |at: usize, counts: [u64; any_calls::COUNTS]| {
                numbers.both_het[at] += counts[0] as u32;
                numbers.opposite[at] += counts[1] as u32;
                numbers.missing.add(at, counts[2], counts[3], counts[4]);
                numbers
                    .corrections
                    .add(at, counts.map(|count| count as i64));
            };
            let any = AnyCalls { planes };
            for_each_pair::<{ any_calls::COUNTS }, 1, _, _>(panel, &part, any, on, sink)
        })
    }

    /// Adds rows of calls of more than two copies.
    fn add_polyploid(
        &mut self,
        rows: &[PlanesRow<'_>],
        workers: &Workers<'_>,
    ) -> Result<(), CountError> {
        self.missing.reserve(&self.of)?;
        self.corrections.reserve(&self.of)?;
        for rows in rows.chunks(POLYPLOID_ROWS) {
            let calls: Vec<_> = rows
                .iter()
                .map(|row| polyploid::calls(*row, self.shape))
                .collect();
            let parts = self.of.divide(1, workers);
            let mut of_parts = self.divided();
            let parts = parts.into_iter().map(|part| {
                let numbers = of_parts.next(&part);
                (part, numbers)
            });
            workers.each(parts, |(part, mut numbers)| {
                calls.iter().try_for_each(|row| {
                    workers.check()?;
                    polyploid::for_each_pair(row, &part, |at, pair| {
                        numbers.add_polyploid(at, pair)
                    });
                    Ok(())
                })
            })?;
        }
        Ok(())
    }

    fn divided(&mut self) -> DividedNumbers<'_> {
        DividedNumbers {
            both_het: Divided::new(&mut self.both_het),
            opposite: Divided::new(&mut self.opposite),
            missing: self.missing.divided(),
            corrections: self.corrections.divided(),
        }
    }
}

/// The numbers of pairs, to be divided into those of parts.
struct DividedNumbers<'a> {
    both_het: Divided<'a, u32>,
    opposite: Divided<'a, Wrapping<u32>>,
    missing: DividedMissing<'a>,
    corrections: DividedCorrections<'a>,
}

/// The numbers of a part.
struct Numbers<'a> {
    both_het: &'a mut [u32],
    opposite: &'a mut [Wrapping<u32>],
    missing: MissingOfPart<'a>,
    corrections: CorrectionsOfPart<'a>,
}

impl<'a> DividedNumbers<'a> {
    fn next(&mut self, part: &Part) -> Numbers<'a> {
        Numbers {
            both_het: self.both_het.next(part),
            opposite: self.opposite.next(part),
            missing: self.missing.next(part),
            corrections: self.corrections.next(part),
        }
    }
}

impl Numbers<'_> {
    /// Adds what one row with calls of more than two copies gives for a pair.
    fn add_polyploid(&mut self, at: usize, row: polyploid::PairOfCalls) {
        self.both_het[at] += u32::from(row.both_het);
        self.opposite[at] += u32::from(row.opposite);
        if let Some([het1, het2]) = row.diploids {
            self.missing.add(at, 1, u64::from(het1), u64::from(het2));
        }
        self.corrections.add_polyploid(at, &row);
    }
}

/// The carriers of a row: individuals whose pair of bits is not 0, and whether both bits are set.
fn carriers_of(words: impl Iterator<Item = (usize, u64)>) -> impl Iterator<Item = (u32, u8)> {
    words.flat_map(|(at, word)| {
        let mut any = (word | word >> 1) & FIRSTS;
        std::iter::from_fn(move || {
            let bit = (any != 0).then(|| any.trailing_zeros())?;
            any &= any - 1;
            let carries = (word >> bit & 3).count_ones() as u8;
            Some(((at as u32 * 64 + bit) / 2, carries))
        })
    })
}
