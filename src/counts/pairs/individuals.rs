//! [`IndividualPairs`]: for every pair of individuals the counts of `sample_pairs`.
//!
//! Rows are added in classes (`individual_rows`): complete biallelic diploid calls need two counts of a pair, or only those of pairs of
//! carriers where an allele is rare (`rare`); those with missing calls need five, and any other calls twelve (`any_calls`). What a row's
//! alleles and half-called or haploid calls change of the counts that pool all alleles other than the reference is kept apart, as
//! corrections.

use std::collections::BTreeMap;
use std::num::Wrapping;
use std::ops::Range;

use crate::counts::gathered::PlanesRow;
use crate::counts::{CountError, Level, ResidentPart, Unset, Workers};

use super::corrections::{Corrections, Missing};
use super::diploids::{DISTANCE_BITS, fixed, quarters};
use super::individual_class::SortedRows;
use super::matrix::{PairMatrix, Shape, Words, add_all, more_rows, save_optional, zeros};
use super::on_device::OnDevice;
use super::pair_device::Units;
use super::triangle::{Part, pairs_of};

/// Rows that are added at a time.
const ROWS: usize = 1 << 14;

/// Counts over pairs of individuals.
#[derive(Clone, Debug)]
pub(crate) struct IndividualPairs {
    pub(super) shape: Shape,
    /// The pairs that are counted.
    pub(super) of: Part,
    /// Rows.
    pub(super) rows: u64,
    /// Rows at which every individual is a complete diploid and no allele has a code above 1.
    pub(super) complete: u64,
    /// For each individual, those of these rows at which it is heterozygous.
    pub(super) het: Vec<u32>,
    /// For each pair, rows at which both are heterozygous, alleles other than the reference pooled.
    pub(super) both_het: Vec<u32>,
    /// For each pair, rows at which they are homozygous for different alleles, likewise pooled; where an allele is rare, less the rows of
    /// [`carried`](Self::carried).
    pub(super) opposite: Vec<Wrapping<u32>>,
    /// For each individual, rows at which it is homozygous for a rare allele.
    pub(super) carried: Vec<u32>,
    /// Counts at rows that are not complete.
    pub(super) missing: Missing,
    /// Corrections of the pooled counts for rows with further alleles or incomplete or non-diploid calls.
    pub(super) corrections: Corrections,
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

impl IndividualPairs {
    /// Counts over no rows of the pairs whose first individuals are these.
    ///
    /// # Errors
    /// [`CountError::TooLarge`] if they do not fit in memory.
    pub(crate) fn of_firsts(shape: Shape, firsts: Range<usize>) -> Result<Self, CountError> {
        let samples = shape.samples;
        let of = Part::of(samples, false, firsts);
        let pairs = of.pairs();
        Ok(Self {
            shape,
            of,
            rows: 0,
            complete: 0,
            het: zeros(samples, samples)?,
            both_het: zeros(pairs, samples)?,
            opposite: zeros(pairs, samples)?,
            carried: zeros(samples, samples)?,
            missing: Missing::default(),
            corrections: Corrections::default(),
        })
    }

    /// The counts of KING of a pair, i < j: both heterozygous, opposite, the first heterozygous, and the second.
    #[inline]
    pub(crate) fn king(&self, i: usize, j: usize) -> [i64; 4] {
        let at = self.of.at(i, j);
        let count = |of: &[u32]| of.get(at).map_or(0, |count| i64::from(*count));
        let of_sample = |of: &[u32], sample: usize| of.get(sample).copied().unwrap_or(0);
        let carried = [i, j].map(|sample| Wrapping(of_sample(&self.carried, sample)));
        let opposite = self.opposite.get(at).copied().unwrap_or_default();
        let opposite = opposite + carried[0] + carried[1];
        let [het1, het2] = [i, j].map(|sample| i64::from(of_sample(&self.het, sample)));
        [
            count(&self.both_het),
            i64::from(opposite.0),
            het1 + count(&self.missing.het1),
            het2 + count(&self.missing.het2),
        ]
    }

    /// The counts of a pair, i < j.
    pub(crate) fn pair(&self, i: usize, j: usize) -> IndividualPair {
        let at = self.of.at(i, j);
        let count = |of: &[u32]| of.get(at).map_or(0, |count| i64::from(*count));
        let more = |of: &[i64]| of.get(at).copied().unwrap_or(0);
        let [both_het, opposite, het1, het2] = self.king(i, j);
        let sites = self.complete as i64 + count(&self.missing.sites);
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
}

impl IndividualPairs {
    /// `counts` of every pair i < j, in order, as columns, and their distances.
    ///
    /// # Errors
    /// [`CountError::TooLarge`] and [`CountError::Stopped`].
    pub(crate) fn read_pairs<const N: usize>(
        &self,
        workers: &Workers<'_>,
        counts: impl Fn(&IndividualPair) -> [i64; N] + Sync,
    ) -> Result<(Vec<Vec<i64>>, Vec<f64>), CountError> {
        let pairs = self.of.pairs();
        let columns = (0..N).map(|_| Unset::try_new(pairs, "counts of pairs"));
        let mut columns: Vec<_> = columns.collect::<Result<_, _>>()?;
        let mut distances = Unset::try_new(pairs, "distances of pairs")?;
        let parts = self.of.divide(1, workers);
        let lens = || parts.iter().map(Part::pairs);
        let mut of_columns: Vec<_> = columns
            .iter_mut()
            .map(|column| column.setters(lens()).into_iter())
            .collect();
        let jobs = parts.iter().zip(distances.setters(lens()));
        let jobs: Vec<_> = jobs
            .map(|(part, distances)| {
                let columns = of_columns.iter_mut().filter_map(Iterator::next);
                (part, columns.collect::<Vec<_>>(), distances)
            })
            .collect();
        workers.each(jobs, |(part, mut columns, mut distances)| {
            for i in part.firsts.clone() {
                workers.check()?;
                for j in i + 1..part.units() {
                    let pair = self.pair(i, j);
                    for (column, count) in columns.iter_mut().zip(counts(&pair)) {
                        column.push(count);
                    }
                    distances.push(pair.distance);
                }
            }
            Ok(())
        })?;
        drop(of_columns);
        let columns = columns.into_iter().map(Unset::finish);
        Ok((columns.collect(), distances.finish()))
    }
}

impl PairMatrix for IndividualPairs {
    const KIND: u32 = 2;
    type Options = ();

    fn try_new(shape: Shape, (): ()) -> Result<Self, CountError> {
        Self::of_firsts(shape, 0..shape.samples)
    }

    fn fold(
        &mut self,
        rows: &[PlanesRow<'_>],
        level: Level,
        workers: &Workers<'_>,
    ) -> Result<(), CountError> {
        self.rows = more_rows(self.rows, rows.len() as u64)?;
        for rows in rows.chunks(ROWS) {
            let sorted = workers.parts_of(rows, |rows| {
                let SortedRows {
                    complete,
                    rare,
                    classes,
                } = self.sorted(rows);
                Ok((complete, rare.by_unit(self.shape.samples)?, classes))
            })?;
            let (mut all_rare, mut all_classes) = (vec![], BTreeMap::<_, Vec<_>>::new());
            for (complete, rare, classes) in sorted {
                self.complete += complete;
                all_rare.extend((!rare.is_empty()).then_some(rare));
                for (class, rows) in classes {
                    all_classes.entry(class).or_default().extend(rows);
                }
            }
            for (class, rows) in all_classes {
                self.add_rows(&rows, class, (level, workers))?;
            }
            if !all_rare.is_empty() {
                self.add_rare(&all_rare, workers)?;
            }
        }
        Ok(())
    }

    fn send(
        shape: Shape,
        (): (),
        device: &OnDevice,
        rows: &[PlanesRow<'_>],
        workers: &Workers<'_>,
    ) -> Result<Vec<usize>, CountError> {
        Self::send_rows(shape, device, rows, workers)
    }

    fn counts_resident(shape: Shape, (): (), device: &OnDevice) -> Result<bool, CountError> {
        Ok(shape.ploidy == 2 && device.open(Units::Diploids, shape.copies())?)
    }

    fn send_resident(
        shape: Shape,
        (): (),
        device: &OnDevice,
        parts: Vec<ResidentPart>,
        workers: &Workers<'_>,
    ) -> Result<(), CountError> {
        device.send_resident(Units::Diploids, shape.copies(), &parts, workers)
    }

    fn add_counted(&mut self, device: &OnDevice, workers: &Workers<'_>) -> Result<(), CountError> {
        let sent = device.take_sent();
        self.rows = more_rows(self.rows, sent.rows)?;
        self.complete += sent.complete;
        device.take(|units, sums| self.add_sums(units, sums, workers))
    }

    fn merge(&mut self, other: &Self) -> Result<(), CountError> {
        self.rows = more_rows(self.rows, other.rows)?;
        self.complete += other.complete;
        add_all(&mut self.het, &other.het);
        add_all(&mut self.both_het, &other.both_het);
        add_all(&mut self.opposite, &other.opposite);
        add_all(&mut self.carried, &other.carried);
        self.missing.merge(&other.missing);
        self.corrections.merge(&other.corrections);
        Ok(())
    }

    fn save(&self, out: &mut Vec<u64>, workers: &Workers<'_>) -> Result<(), CountError> {
        out.extend([self.rows, self.complete]);
        save_optional(&self.het, out, workers)?;
        save_optional(&self.both_het, out, workers)?;
        save_optional(&self.opposite, out, workers)?;
        save_optional(&self.carried, out, workers)?;
        self.missing.save(out, workers)?;
        self.corrections.save(out, workers)
    }

    fn load(shape: Shape, (): (), words: &mut Words<'_>) -> Option<Self> {
        let (samples, pairs) = (shape.samples, pairs_of(shape.samples));
        let loaded = Self {
            shape,
            of: Part::whole(samples, false),
            rows: words.next()?,
            complete: words.next()?,
            het: words.optional(samples)?,
            both_het: words.optional(pairs)?,
            opposite: words.optional(pairs)?,
            carried: words.optional(samples)?,
            missing: Missing::load(pairs, words)?,
            corrections: Corrections::load(pairs, words)?,
        };
        let of_pairs = [loaded.both_het.len(), loaded.opposite.len()];
        let of_samples = [loaded.het.len(), loaded.carried.len()];
        (of_pairs == [pairs; 2] && of_samples == [samples; 2]).then_some(loaded)
    }

    fn heap_bytes(&self) -> usize {
        let of_samples = self.het.capacity() + self.carried.capacity();
        let numbers = of_samples + self.both_het.capacity() + self.opposite.capacity();
        numbers * size_of::<u32>() + self.missing.heap_bytes() + self.corrections.heap_bytes()
    }

    fn bytes_of(shape: Shape, (): ()) -> usize {
        pairs_of(shape.samples).saturating_mul(2 * size_of::<u32>())
    }
}
