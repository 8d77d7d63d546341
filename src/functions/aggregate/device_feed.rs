//! [`DeviceFeed`]: the [`PairFeed`] of one accumulator, in front of the device that counts its pairs.

use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::ArrayRef;
use datafusion::common::Result;

use super::count_errors::counted;
use super::marked_rows::{MarkedRows, of_rows};
use super::pair_feed::PairFeed;
use super::planes_rows::{Lists, PlanesRows, planes_row};
use super::statistic::SiteInput;
use crate::counts::gathered::PlanesRow;
use crate::counts::pairs::{KeepsRows, OnDevice, PairMatrix, Shape};
use crate::counts::{CountError, ResidentPlanes, Workers};
use crate::functions::interrupt;

/// The feed of one accumulator.
#[derive(Debug)]
pub(super) struct DeviceFeed<M: PairMatrix> {
    /// The function's SQL name.
    name: &'static str,
    shape: Shape,
    options: M::Options,
    pub(super) device: OnDevice,
    /// Whether rows are sent: once the accumulator has sent those that came first.
    is_open: AtomicBool,
}

impl<M: PairMatrix> DeviceFeed<M> {
    pub(super) fn new(
        name: &'static str,
        shape: Shape,
        options: M::Options,
        device: OnDevice,
    ) -> Self {
        Self {
            name,
            shape,
            options,
            device,
            is_open: AtomicBool::new(false),
        }
    }

    /// Whether partitions send rows.
    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Sends rows; returns the numbers of those that devices do not count.
    pub(super) fn send_rows(&self, rows: &[PlanesRow<'_>]) -> Result<Vec<usize>> {
        let send =
            |workers: &Workers<'_>| M::send(self.shape, self.options, &self.device, rows, workers);
        let sent: Result<_, CountError> = match self.device.is_new() {
            true => interrupt::long(usize::MAX, || interrupt::alone(send)),
            false => interrupt::alone(send),
        };
        counted(self.name, sent)
    }
}

impl<M: PairMatrix> PairFeed for DeviceFeed<M> {
    fn counts_resident(&self) -> Result<bool> {
        let opened = || M::counts_resident(self.shape, self.options, &self.device);
        counted(self.name, interrupt::long(usize::MAX, opened))
    }

    fn keep_rows(&self) -> Option<Box<dyn KeepsRows>> {
        self.device.keep_rows()
    }

    fn open(&self) {
        self.is_open.store(true, Ordering::Release);
    }

    fn send(
        &self,
        arguments: Vec<ArrayRef>,
        resident: Option<&ResidentPlanes>,
    ) -> Result<Vec<ArrayRef>> {
        if !self.is_open() {
            return Ok(arguments);
        }
        let input: PlanesRows<'_> = Lists::try_new(&arguments, 0)?;
        let (mut rows, mut numbers) = (vec![], vec![]);
        let mut marked = resident.map(|planes| MarkedRows::new(self.name, planes, input.len()));
        for (row, words) in input.rows() {
            if let Some(marked) = &mut marked
                && marked.take(words)?
            {
                continue;
            }
            rows.push(planes_row(self.name, words, self.shape.copies())?);
            numbers.push(row);
        }
        if let Some(marked) = marked
            && !marked.parts.is_empty()
        {
            let send = |workers: &Workers<'_>| {
                M::send_resident(
                    self.shape,
                    self.options,
                    &self.device,
                    marked.parts,
                    workers,
                )
            };
            counted(self.name, interrupt::alone(send))?;
        }
        let others = self.send_rows(&rows)?;
        let others: Vec<_> = others
            .into_iter()
            .filter_map(|row| numbers.get(row).copied())
            .collect();
        of_rows(&arguments, input.len(), others.into_iter())
    }
}
