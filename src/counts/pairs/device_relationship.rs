//! Rows of [`Relationship`] that a device adds: those of complete diploids.
//!
//! Their coefficients depend only on the number of copies that have the allele, which is their class.

use crate::counts::gathered::PlanesRow;
use crate::counts::{CountError, ResidentPart, Workers};

use super::matrix::{Shape, add_all, more_rows};
use super::on_device::OnDevice;
use super::pair_device::{ClassWeights, WeightedSums};
use super::relationship::Relationship;
use super::weights::{Forms, covariance, grm};

impl Forms {
    /// The sums, by number, whose coefficients of pairs and of single individuals devices multiply by, where no call is missing. The others
    /// are totals alone.
    fn on_device(self) -> ([Option<usize>; 2], [Option<usize>; 2]) {
        match self {
            Self::Grm => (
                [Some(grm::GCTA), Some(grm::PRODUCTS)],
                [Some(grm::GCTA), Some(grm::CENTRE)],
            ),
            Self::Gcta => ([Some(grm::GCTA), None], [Some(grm::GCTA), None]),
            Self::Covariance => (
                [Some(covariance::PRODUCTS), None],
                [Some(covariance::CENTRE), Some(covariance::SINGLE)],
            ),
        }
    }

    /// The weights of rows of so many complete individuals, by the sum of their dosages.
    fn class_weights(self, samples: u64) -> Vec<ClassWeights> {
        let (pairs, singles) = self.on_device();
        let most = if self.flips() { samples } else { 2 * samples };
        let of_total = |total: u64| {
            if total == 0 {
                return ClassWeights::default();
            }
            let terms = self.terms(samples, total);
            // Coefficients are not negative.
            let coefficient = |at: Option<usize>, of: fn(&super::weights::Terms) -> i64| {
                let coefficient = at.and_then(|at| terms.get(at)).map_or(0, of);
                u64::try_from(coefficient).unwrap_or(0)
            };
            ClassWeights {
                pairs: pairs.map(|at| coefficient(at, |terms| terms.pair[0])),
                singles: singles.map(|at| coefficient(at, |terms| terms.single[1])),
            }
        };
        (0..=most).map(of_total).collect()
    }
}

/// Copies of a row that do not have the reference, if all are called.
fn other_copies(row: PlanesRow<'_>) -> u64 {
    let ones = |words: &[u64]| words.iter().map(|word| u64::from(word.count_ones())).sum();
    if let Some(plane) = row.only_low() {
        return ones(plane);
    }
    let word = |at: usize| row.codes().fold(0u64, |any, (_, plane)| any | plane[at]);
    let words = (0..row.width()).map(|at| u64::from(word(at).count_ones()));
    words.sum()
}

/// The class of a row of which so many copies, of diploids, do not have the reference, and whether the others are counted instead.
fn class_of(forms: Forms, samples: u64, total: u64) -> (u32, bool) {
    let flip = forms.flips() && total > samples;
    let class = if flip { 2 * samples - total } else { total };
    // At most the number of copies.
    (class as u32, flip)
}

/// Records rows of these classes, and rows without one of the alleles.
fn record(forms: Forms, device: &OnDevice, classes: &[u32], without_allele: u64) {
    device.record_classes(classes);
    // Where a row needs both alleles, one without is none.
    if forms == Forms::Covariance && without_allele > 0 {
        device.record(|sent| sent.merge_classes(&[without_allele]));
    }
}

impl Relationship {
    /// Sends rows that `device` adds; returns the numbers of the others.
    pub(super) fn send_rows(
        shape: Shape,
        forms: Forms,
        device: &OnDevice,
        rows: &[PlanesRow<'_>],
        workers: &Workers<'_>,
    ) -> Result<Vec<usize>, CountError> {
        if shape.ploidy != 2 || u32::try_from(shape.copies()).is_err() {
            return Ok((0..rows.len()).collect());
        }
        let samples = shape.samples as u64;
        let (mut sent, mut classes, mut numbers) = (vec![], vec![], vec![]);
        let (mut others, mut without_allele) = (vec![], 0);
        for (at, row) in rows.iter().enumerate() {
            if !row.is_complete() {
                others.push(at);
                continue;
            }
            match class_of(forms, samples, other_copies(*row)) {
                (0, _) => without_allele += 1,
                (class, flip) => {
                    sent.push((*row, flip));
                    classes.push(class);
                    numbers.push(at);
                }
            }
        }
        let weights = || forms.class_weights(samples);
        if !device.add_weighted(&sent, &classes, shape.samples, weights, workers)? {
            others.append(&mut numbers);
            others.sort_unstable();
            classes.clear();
        }
        record(forms, device, &classes, without_allele);
        Ok(others)
    }

    /// Whether `device` adds rows that are on it.
    pub(super) fn opens(shape: Shape, forms: Forms, device: &OnDevice) -> Result<bool, CountError> {
        if shape.ploidy != 2 || u32::try_from(shape.copies()).is_err() {
            return Ok(false);
        }
        device.open_weighted(shape.samples, || forms.class_weights(shape.samples as u64))
    }

    /// Sends rows that are on the device.
    pub(super) fn send_resident_rows(
        shape: Shape,
        forms: Forms,
        device: &OnDevice,
        mut parts: Vec<ResidentPart>,
        workers: &Workers<'_>,
    ) -> Result<(), CountError> {
        let samples = shape.samples as u64;
        let rows = parts.iter().map(|part| part.rows.len()).sum();
        let (mut classes, mut without_allele) = (Vec::with_capacity(rows), 0);
        for part in &mut parts {
            part.rows.retain_mut(|row| {
                let (class, flip) = class_of(forms, samples, u64::from(row.ones));
                row.is_inverted = flip;
                match class {
                    0 => without_allele += 1,
                    class => classes.push(class),
                }
                class != 0
            });
        }
        device.send_resident_weighted(&parts, &classes, workers)?;
        record(forms, device, &classes, without_allele);
        Ok(())
    }

    /// Adds the rows that were sent.
    pub(super) fn add_sent(
        &mut self,
        device: &OnDevice,
        workers: &Workers<'_>,
    ) -> Result<(), CountError> {
        let samples = self.shape.samples as u64;
        let sent = device.take_sent();
        for (total, rows) in (0u64..).zip(&sent.classes) {
            if *rows == 0 {
                continue;
            }
            self.rows = more_rows(self.rows, *rows)?;
            let terms = self.forms.terms(samples, total);
            for (sum, terms) in self.sums.iter_mut().zip(&terms) {
                sum.total += i128::from(terms.total) * i128::from(*rows);
            }
        }
        let Some(WeightedSums { pairs, singles }) = device.take_weighted(workers)? else {
            return Ok(());
        };
        let (of_pairs, of_singles) = self.forms.on_device();
        for (at, pairs) in of_pairs.into_iter().zip(pairs) {
            if let Some(sum) = at.and_then(|at| self.sums.get_mut(at)) {
                match sum.pairs.is_empty() {
                    true => sum.pairs = pairs,
                    false => add_all(&mut sum.pairs, &pairs),
                }
            }
        }
        for (at, singles) in of_singles.into_iter().zip(singles) {
            if let Some(sum) = at.and_then(|at| self.sums.get_mut(at)) {
                add_all(&mut sum.single, &singles);
            }
        }
        Ok(())
    }
}
