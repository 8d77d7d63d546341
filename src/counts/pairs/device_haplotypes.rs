//! Rows of [`HaplotypePairs`] that a device counts: those of two alleles.

use std::num::Wrapping;

use crate::counts::gathered::PlanesRow;
use crate::counts::{CountError, Workers};

use super::haplotypes::HaplotypePairs;
use super::matrix::Shape;
use super::matrix::zeros;
use super::on_device::{OnDevice, RowKind};
use super::pair_device::{UnitCounts, Units};
use super::triangle::{Divided, Part, pairs_of};

impl HaplotypePairs {
    /// Sends rows that `device` counts; returns the numbers of the others.
    pub(super) fn send_rows(
        shape: Shape,
        device: &OnDevice,
        rows: &[PlanesRow<'_>],
        workers: &Workers<'_>,
    ) -> Result<Vec<usize>, CountError> {
        let units = [Units::Copies, Units::CopiesCalled];
        let kind = |row: PlanesRow<'_>| {
            let is_biallelic = row.only_low().is_some() || row.codes().next().is_none();
            match (is_biallelic, row.is_complete()) {
                (true, true) if row.is_all_reference() => RowKind::Reference,
                (true, true) => RowKind::Complete,
                (true, false) => RowKind::Incomplete,
                (false, _) => RowKind::OfHost,
            }
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
        let copies = self.copies;
        let has_missing = units == Units::CopiesCalled;
        if has_missing && self.joint.is_empty() {
            self.joint = zeros(pairs_of(copies), copies)?;
        }
        let mut of_parts = Divided::new(&mut self.differences);
        let mut joint_of_parts = Divided::new(&mut self.joint);
        let parts = Part::whole(copies, false).divide(1, workers);
        let parts = parts.into_iter().map(|part| {
            let (differences, joint) = (of_parts.next(&part), joint_of_parts.next(&part));
            (part, differences, joint)
        });
        // The units of copies that are called come after those of the allele.
        let called = |copy: usize| copies + copy;
        let allele = |i: usize, j: usize| Wrapping(counts.of(i, j));
        workers.each(parts, |(part, differences, joint)| {
            for i in part.firsts.clone() {
                workers.check()?;
                for j in i + 1..copies {
                    let at = part.at(i, j);
                    // Where both are called: the first has the allele, and the second.
                    let (first, second) = match has_missing {
                        false => (allele(i, i), allele(j, j)),
                        true => (allele(i, called(j)), allele(j, called(i))),
                    };
                    differences[at] += first + second - allele(i, j) * Wrapping(2);
                    if has_missing {
                        joint[at] += counts.of(called(i), called(j));
                    }
                }
            }
            Ok(())
        })
    }
}
