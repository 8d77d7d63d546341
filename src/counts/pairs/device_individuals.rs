//! Rows of [`IndividualPairs`] that a device counts: biallelic ones of diploid calls without half-called ones.

use std::num::Wrapping;

use crate::counts::gathered::PlanesRow;
use crate::counts::{CountError, Workers};

use super::individual_class::Class;
use super::individual_rows::class;
use super::individuals::IndividualPairs;
use super::matrix::Shape;
use super::on_device::{OnDevice, RowKind};
use super::pair_device::{UnitCounts, Units};
use super::triangle::Divided;

impl IndividualPairs {
    /// Sends rows that `device` counts; returns the numbers of the others.
    pub(super) fn send_rows(
        shape: Shape,
        device: &OnDevice,
        rows: &[PlanesRow<'_>],
        workers: &Workers<'_>,
    ) -> Result<Vec<usize>, CountError> {
        let units = [Units::Diploids, Units::DiploidsCalled];
        let kind = |row: PlanesRow<'_>| match class(row, shape, false) {
            Class::Reference => RowKind::Reference,
            Class::Complete | Class::Rare => RowKind::Complete,
            Class::Incomplete => RowKind::Incomplete,
            Class::Any(_) => RowKind::OfHost,
        };
        device.send(units, rows, kind, shape.copies(), workers)
    }

    /// Adds the counts of a device.
    pub(super) fn add_counts(
        &mut self,
        units: Units,
        counts: &UnitCounts,
        workers: &Workers<'_>,
    ) -> Result<(), CountError> {
        let samples = self.shape.samples;
        let has_missing = units == Units::DiploidsCalled;
        if has_missing {
            self.missing.reserve(&self.of)?;
        } else {
            for (sample, het) in self.het.iter_mut().enumerate() {
                *het += counts.of(sample, sample);
            }
        }
        let mut both_het = Divided::new(&mut self.both_het);
        let mut opposite = Divided::new(&mut self.opposite);
        let mut missing = self.missing.divided();
        let parts = self.of.divide(1, workers);
        let parts = parts.into_iter().map(|part| {
            let (both_het, opposite) = (both_het.next(&part), opposite.next(&part));
            let missing = missing.next(&part);
            (part, both_het, opposite, missing)
        });
        // The units of individuals that are heterozygous, then homozygous for the allele, then called.
        let (hom, called) = (|i: usize| samples + i, |i: usize| 2 * samples + i);
        let of = |i: usize, j: usize| Wrapping(counts.of(i, j));
        workers.each(parts, |(part, both_het, opposite, mut missing)| {
            for firsts in part.blocks() {
                workers.check()?;
                let pairs = firsts.start + 1..samples;
                let pairs =
                    pairs.flat_map(|j| (firsts.start..firsts.end.min(j)).map(move |i| (i, j)));
                for (i, j) in pairs {
                    let at = part.at(i, j);
                    // Where both are called: the first is homozygous for the allele, and the second.
                    let (first, second) = match has_missing {
                        false => (of(hom(i), hom(i)), of(hom(j), hom(j))),
                        true => (of(hom(i), called(j)), of(hom(j), called(i))),
                    };
                    let with_het = of(i, hom(j)) + of(j, hom(i));
                    let both = of(hom(i), hom(j));
                    both_het[at] += counts.of(i, j);
                    opposite[at] += first + second - with_het - both * Wrapping(2);
                    if has_missing {
                        let of_pair = [(called(i), called(j)), (i, called(j)), (j, called(i))];
                        let [sites, het1, het2] = of_pair.map(|(i, j)| u64::from(counts.of(i, j)));
                        missing.add(at, sites, het1, het2);
                    }
                }
            }
            Ok(())
        })
    }
}
