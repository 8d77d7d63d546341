//! Rows of [`HaplotypePairs`] that a device counts: those of two alleles.

use std::num::Wrapping;

use crate::counts::gathered::PlanesRow;
use crate::counts::{CountError, Workers};

use super::haplotypes::HaplotypePairs;
use super::matrix::zeros;
use super::on_device::{OnDevice, UnitCounts, Units};
use super::triangle::{Divided, Part, pairs_of};

impl HaplotypePairs {
    /// Adds rows that `device` counts; returns the others.
    pub(super) fn add_to<'a>(
        &mut self,
        device: &mut OnDevice,
        rows: &[PlanesRow<'a>],
        workers: &Workers<'_>,
    ) -> Result<Vec<PlanesRow<'a>>, CountError> {
        let copies = self.copies;
        let (mut complete, mut incomplete, mut others) = (vec![], vec![], vec![]);
        for &row in rows {
            let is_biallelic = row.only_low().is_some() || row.codes().next().is_none();
            match (is_biallelic, row.is_complete()) {
                (true, true) if row.is_all_reference() => self.complete += 1,
                (true, true) => complete.push(row),
                (true, false) => incomplete.push(row),
                (false, _) => others.push(row),
            }
        }
        match device.add(Units::Copies, &complete, copies, workers)? {
            true => self.complete += complete.len() as u64,
            false => others.append(&mut complete),
        }
        if !device.add(Units::CopiesCalled, &incomplete, copies, workers)? {
            others.append(&mut incomplete);
        }
        Ok(others)
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
