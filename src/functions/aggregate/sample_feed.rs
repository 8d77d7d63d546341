//! [`SampleFeed`]: the [`PairFeed`] of `sample_counts`, in front of the device that counts genotypes of individuals.
//!
//! A device counts rows that have stayed on it; all others are the accumulator's.

use std::sync::Arc;

use arrow::array::ArrayRef;
use datafusion::common::Result;
use parking_lot::Mutex;

use super::count_errors::counted;
use super::marked_rows::{MarkedRows, of_rows};
use super::pair_feed::PairFeed;
use super::planes_rows::{Lists, PlanesRows};
use super::statistic::SiteInput;
use crate::counts::pairs::{KeepsRows, PairDevice, SampleCounter};
use crate::counts::{CountError, ResidentPart, ResidentPlanes, Workers};
use crate::functions::interrupt;

/// A counter, which partitions share while they add rows.
type Opened = Arc<Box<dyn SampleCounter>>;

/// What a device has counted.
#[derive(Debug)]
pub(super) struct CountedOnDevice {
    pub(super) rows: u64,
    /// As [`SampleCounter::take`] gives them.
    pub(super) counts: Vec<u32>,
    /// Rows by the number of copies that have the allele.
    pub(super) by_copies: Vec<u64>,
}

/// Rows that were sent.
#[derive(Debug, Default)]
struct Sent {
    rows: u64,
    by_copies: Vec<u64>,
}

/// The feed of one accumulator.
#[derive(Debug)]
pub(super) struct SampleFeed {
    /// The function's SQL name.
    name: &'static str,
    /// Number of diploid individuals.
    samples: usize,
    device: Arc<dyn PairDevice>,
    counter: Mutex<Option<Opened>>,
    sent: Mutex<Sent>,
}

impl SampleFeed {
    pub(super) fn new(name: &'static str, samples: usize, device: &Arc<dyn PairDevice>) -> Self {
        Self {
            name,
            samples,
            device: Arc::clone(device),
            counter: Mutex::default(),
            sent: Mutex::default(),
        }
    }

    fn open_counter(&self) -> Result<bool, CountError> {
        let mut counter = self.counter.lock();
        if counter.is_none() {
            *counter = self.device.sample_counter(self.samples)?.map(Arc::new);
        }
        Ok(counter.is_some())
    }

    /// What the device has counted, which is then forgotten; `None` if it has counted nothing.
    pub(super) fn take(&self) -> Result<Option<CountedOnDevice>> {
        let Some(counter) = self.counter.lock().take() else {
            return Ok(None);
        };
        let counter = Arc::into_inner(counter).ok_or_else(|| {
            CountError::Device("rows are added while the counts are read".to_string())
        });
        let take = || counter.and_then(|counter| counter.take());
        let counts = counted(self.name, interrupt::long(usize::MAX, take))?;
        let Sent { rows, by_copies } = std::mem::take(&mut *self.sent.lock());
        Ok(Some(CountedOnDevice {
            rows,
            counts,
            by_copies,
        }))
    }

    /// Records rows before they are sent.
    fn record(&self, parts: &[ResidentPart]) -> Result<(), CountError> {
        // Outside of the lock, which all partitions take.
        let mut by_copies = vec![0; 2 * self.samples + 1];
        for row in parts.iter().flat_map(|part| &part.rows) {
            match by_copies.get_mut(row.ones as usize) {
                Some(rows) => *rows += 1,
                None => {
                    return Err(CountError::Device(format!(
                        "a row has {} copies of {} individuals",
                        row.ones, self.samples
                    )));
                }
            }
        }
        let mut sent = self.sent.lock();
        sent.by_copies.resize(by_copies.len(), 0);
        for (sum, rows) in sent.by_copies.iter_mut().zip(by_copies) {
            *sum += rows;
        }
        sent.rows += parts.iter().map(|part| part.rows.len() as u64).sum::<u64>();
        // Counts have 32 bits.
        match u32::try_from(sent.rows) {
            Ok(_) => Ok(()),
            Err(_) => Err(CountError::TooLarge(format!(
                "counts of {} rows",
                sent.rows
            ))),
        }
    }
}

impl PairFeed for SampleFeed {
    fn counts_resident(&self) -> Result<bool> {
        let open = || self.open_counter();
        counted(self.name, interrupt::long(usize::MAX, open))
    }

    fn keep_rows(&self) -> Option<Box<dyn KeepsRows>> {
        self.device.keep_rows()
    }

    fn open(&self) {}

    fn send(
        &self,
        arguments: Vec<ArrayRef>,
        resident: Option<&ResidentPlanes>,
    ) -> Result<Vec<ArrayRef>> {
        let Some(resident) = resident else {
            return Ok(arguments);
        };
        let input: PlanesRows<'_> = Lists::try_new(&arguments, 0)?;
        let mut marked = MarkedRows::new(self.name, resident, input.len());
        let mut others = vec![];
        for (row, words) in input.rows() {
            if !marked.take(words)? {
                others.push(row);
            }
        }
        let parts = marked.parts;
        if parts.is_empty() {
            return Ok(arguments);
        }
        let counter = self.counter.lock().clone();
        let send = |workers: &Workers<'_>| {
            self.record(&parts)?;
            match counter {
                Some(counter) => counter.add_resident(&parts, workers),
                None => Err(CountError::Device(
                    "there is no counter of rows that are on a GPU".into(),
                )),
            }
        };
        counted(self.name, interrupt::alone(send))?;
        of_rows(&arguments, input.len(), others.into_iter())
    }
}
