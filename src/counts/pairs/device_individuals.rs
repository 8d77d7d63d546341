//! Rows of [`IndividualPairs`] that a device counts: biallelic ones of diploid calls without half-called ones.

use std::num::Wrapping;

use bytemuck::TransparentWrapper;

use crate::counts::gathered::PlanesRow;
use crate::counts::{CountError, Workers};

use super::corrections::Missing;
use super::individual_class::Class;
use super::individual_rows::class;
use super::individuals::IndividualPairs;
use super::matrix::Shape;
use super::on_device::{OnDevice, RowKind};
use super::pair_device::{PairSums, Units};

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

    /// Adds sums of a device, which are those of all pairs.
    pub(super) fn add_sums(
        &mut self,
        units: Units,
        sums: &PairSums<'_>,
        workers: &Workers<'_>,
    ) -> Result<(), CountError> {
        let both_het = self.both_het.as_mut_slice();
        let opposite = Wrapping::peel_slice_mut(&mut self.opposite);
        if units != Units::DiploidsCalled {
            return sums.add(vec![both_het, opposite], vec![&mut self.het], workers);
        }
        self.missing.reserve(&self.of)?;
        let Missing { sites, het1, het2 } = &mut self.missing;
        sums.add(vec![both_het, opposite, sites, het1, het2], vec![], workers)
    }
}
