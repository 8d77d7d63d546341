//! Rows of [`HaplotypePairs`] that a device counts: those of two alleles.

use std::num::Wrapping;

use bytemuck::TransparentWrapper;

use crate::counts::gathered::PlanesRow;
use crate::counts::{CountError, Workers};

use super::haplotypes::HaplotypePairs;
use super::matrix::Shape;
use super::matrix::zeros;
use super::on_device::{OnDevice, RowKind};
use super::pair_device::{PairSums, Units};
use super::triangle::pairs_of;

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

    /// Adds sums of a device.
    pub(super) fn add_sums(
        &mut self,
        units: Units,
        sums: &PairSums<'_>,
        workers: &Workers<'_>,
    ) -> Result<(), CountError> {
        let differences = Wrapping::peel_slice_mut(&mut self.differences);
        if units != Units::CopiesCalled {
            return sums.add(vec![differences], vec![], workers);
        }
        if self.joint.is_empty() {
            self.joint = zeros(pairs_of(self.copies), self.copies)?;
        }
        sums.add(vec![differences, &mut self.joint], vec![], workers)
    }
}
