//! [`OnDevice`]: the rows of one matrix that devices count. What their sums are to the matrix follows from [`Units`] and [`ClassWeights`].

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::pair_device::{
    ClassWeights, KeepsRows, PairDevice, PairSums, UnitCounter, Units, WeightedCounter,
    WeightedSums,
};
use crate::counts::gathered::{ABSENT, PlanesRow, UNCALLED, plane_words};
use crate::counts::{CountError, ResidentPart, Workers};

/// Words that a thread copies at least: fewer take no longer than waking it.
const PART_WORDS: usize = 1 << 15;

/// Rows whose classes are counted together.
const MOST_UNCOUNTED: usize = 1 << 15;

/// How a row of pairs of units is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowKind {
    /// Every copy has the reference: no unit has a bit.
    Reference,
    /// Two alleles, no missing call.
    Complete,
    /// Two alleles, and missing calls that units have bits for.
    Incomplete,
    /// Any other.
    OfHost,
}

/// Rows of a matrix that devices count.
#[derive(Debug, Default)]
pub(super) struct SentRows {
    pub(super) rows: u64,
    /// Those of them without a missing call.
    pub(super) complete: u64,
    /// Rows of each class, where there are classes.
    pub(super) classes: Vec<u64>,
}

impl SentRows {
    /// Adds a row of each of these classes.
    fn add_classes(&mut self, classes: &[u32]) {
        let number = classes.iter().max().map_or(0, |class| *class as usize + 1);
        self.classes.resize(number.max(self.classes.len()), 0);
        for class in classes {
            if let Some(rows) = self.classes.get_mut(*class as usize) {
                *rows += 1;
            }
        }
    }

    /// Adds so many rows of each class, from 0 on.
    pub(super) fn merge_classes(&mut self, of_classes: &[u64]) {
        let number = of_classes.len().max(self.classes.len());
        self.classes.resize(number, 0);
        for (rows, others) in self.classes.iter_mut().zip(of_classes) {
            *rows += others;
        }
    }
}

/// A counter once it was asked for; `None` if there is none and the host counts.
type Opened<C> = Option<Arc<Box<C>>>;

/// The rows of a matrix that devices count.
#[derive(Debug)]
pub(crate) struct OnDevice {
    device: Arc<dyn PairDevice>,
    counters: Mutex<BTreeMap<Units, Opened<dyn UnitCounter>>>,
    weighted: Mutex<Option<Opened<dyn WeightedCounter>>>,
    sent: Mutex<SentRows>,
    /// Classes of rows that were sent and that `sent` does not have yet: they are counted outside of the locks.
    classes: Mutex<Vec<u32>>,
    /// Whether no rows were sent.
    is_new: AtomicBool,
}

impl OnDevice {
    /// No rows, on this device.
    pub(crate) fn new(device: Arc<dyn PairDevice>) -> Self {
        Self {
            device,
            counters: Mutex::default(),
            weighted: Mutex::default(),
            sent: Mutex::default(),
            classes: Mutex::default(),
            is_new: AtomicBool::new(true),
        }
    }

    /// Whether no rows were sent: the first ones open a counter, which takes long.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new.load(Ordering::Relaxed)
    }

    /// Lets rows that the device decodes stay there, see [`PairDevice::keep_rows`].
    pub(crate) fn keep_rows(&self) -> Option<Box<dyn KeepsRows>> {
        self.device.keep_rows()
    }

    /// Opens the counter of rows without missing calls; `false` if the host counts them.
    pub(super) fn open(&self, units: Units, copies: usize) -> Result<bool, CountError> {
        Ok(self.counter(units, copies)?.is_some())
    }

    /// Adds rows that are on the device, with the counter that [`open`](Self::open) has opened.
    pub(super) fn send_resident(
        &self,
        units: Units,
        copies: usize,
        parts: &[ResidentPart],
        workers: &Workers<'_>,
    ) -> Result<(), CountError> {
        let Some(counter) = self.counter(units, copies)? else {
            return Err(CountError::Device(
                "there is no counter of rows that are on a GPU".into(),
            ));
        };
        counter.add_resident(parts, workers)?;
        let rows: usize = parts.iter().map(|part| part.rows.len()).sum();
        self.record(|sent| {
            sent.complete += rows as u64;
            sent.rows += rows as u64;
        });
        Ok(())
    }

    /// Opens the counter of [`add_weighted`](Self::add_weighted); `false` if the host adds the rows.
    pub(super) fn open_weighted(
        &self,
        samples: usize,
        weights: impl FnOnce() -> Vec<ClassWeights>,
    ) -> Result<bool, CountError> {
        Ok(self.weighted_counter(samples, weights)?.is_some())
    }

    /// Adds rows that are on the device, with the counter that [`open_weighted`](Self::open_weighted) has opened.
    pub(super) fn send_resident_weighted(
        &self,
        parts: &[ResidentPart],
        classes: &[u32],
        workers: &Workers<'_>,
    ) -> Result<(), CountError> {
        // Not within the `match`, which would hold the lock while rows are added.
        let counter = self.weighted.lock().clone().flatten();
        match counter {
            Some(counter) => counter.add_resident(classes, parts, workers),
            None => Err(CountError::Device(
                "there is no counter of rows that are on a GPU".into(),
            )),
        }
    }

    fn weighted_counter(
        &self,
        samples: usize,
        weights: impl FnOnce() -> Vec<ClassWeights>,
    ) -> Result<Opened<dyn WeightedCounter>, CountError> {
        let mut weighted = self.weighted.lock();
        if let Some(counter) = &*weighted {
            return Ok(counter.clone());
        }
        let counter = self.device.weighted_counter(samples, weights())?;
        Ok(weighted.insert(counter.map(Arc::new)).clone())
    }

    /// Changes the numbers of rows that were sent.
    pub(super) fn record(&self, change: impl FnOnce(&mut SentRows)) {
        change(&mut self.sent.lock());
        self.is_new.store(false, Ordering::Relaxed);
    }

    /// Records rows of these classes.
    pub(super) fn record_classes(&self, classes: &[u32]) {
        self.is_new.store(false, Ordering::Relaxed);
        let many = {
            let mut uncounted = self.classes.lock();
            uncounted.extend_from_slice(classes);
            if uncounted.len() < MOST_UNCOUNTED {
                return;
            }
            std::mem::take(&mut *uncounted)
        };
        let mut counted = SentRows::default();
        counted.add_classes(&many);
        self.record(|sent| sent.merge_classes(&counted.classes));
    }

    /// Sends rows of `copies` copies, as units for those without and with missing calls; returns the numbers of those that the host counts.
    pub(super) fn send(
        &self,
        [of_complete, of_incomplete]: [Units; 2],
        rows: &[PlanesRow<'_>],
        kind: impl Fn(PlanesRow<'_>) -> RowKind,
        copies: usize,
        workers: &Workers<'_>,
    ) -> Result<Vec<usize>, CountError> {
        let (mut complete, mut incomplete, mut others) = (vec![], vec![], vec![]);
        let mut references = 0;
        for (at, row) in rows.iter().enumerate() {
            match kind(*row) {
                RowKind::Reference => references += 1,
                RowKind::Complete => complete.push((at, *row)),
                RowKind::Incomplete => incomplete.push((at, *row)),
                RowKind::OfHost => others.push(at),
            }
        }
        let mut of_host = |rows: &mut Vec<(usize, PlanesRow<'_>)>| {
            others.extend(rows.drain(..).map(|(at, _)| at));
        };
        if !self.add(of_complete, &complete, copies, workers)? {
            of_host(&mut complete);
        }
        if !self.add(of_incomplete, &incomplete, copies, workers)? {
            of_host(&mut incomplete);
        }
        others.sort_unstable();
        self.record(|sent| {
            sent.complete += references + complete.len() as u64;
            sent.rows += (rows.len() - others.len()) as u64;
        });
        Ok(others)
    }

    /// Adds biallelic rows of `copies` copies, which have numbers; `false` if the host must.
    fn add(
        &self,
        units: Units,
        rows: &[(usize, PlanesRow<'_>)],
        copies: usize,
        workers: &Workers<'_>,
    ) -> Result<bool, CountError> {
        if rows.is_empty() {
            return Ok(true);
        }
        let Some(counter) = self.counter(units, copies)? else {
            return Ok(false);
        };
        let width = plane_words(copies);
        let row_words = width * units.planes();
        let mut set = |range: Range<usize>, words: &mut [u64]| {
            let rows = rows.get(range).unwrap_or_default();
            set_rows(rows, words, row_words, workers, |(_, row), words| {
                let (allele, uncalled) = words.split_at_mut(width);
                set_plane(allele, row.plane(0), None);
                if !uncalled.is_empty() {
                    set_plane(uncalled, row.plane(UNCALLED), row.plane(ABSENT));
                }
            })
        };
        counter.add(rows.len(), &mut set, workers)?;
        Ok(true)
    }

    fn counter(&self, units: Units, copies: usize) -> Result<Opened<dyn UnitCounter>, CountError> {
        let mut counters = self.counters.lock();
        if let Some(counter) = counters.get(&units) {
            return Ok(counter.clone());
        }
        let counter = self.device.counter(units, copies)?.map(Arc::new);
        counters.insert(units, counter.clone());
        Ok(counter)
    }

    /// Adds rows of `samples` complete diploids, each with its class and whether the copies that have the reference are counted instead of the
    /// others; `false` if the host must. `weights` gives the weights of all classes.
    pub(super) fn add_weighted(
        &self,
        rows: &[(PlanesRow<'_>, bool)],
        classes: &[u32],
        samples: usize,
        weights: impl FnOnce() -> Vec<ClassWeights>,
        workers: &Workers<'_>,
    ) -> Result<bool, CountError> {
        if rows.is_empty() {
            return Ok(true);
        }
        let Some(counter) = self.weighted_counter(samples, weights)? else {
            return Ok(false);
        };
        let copies = 2 * samples;
        let row_words = plane_words(copies);
        let mut set = |range: Range<usize>, words: &mut [u64]| {
            let rows = rows.get(range).unwrap_or_default();
            set_rows(rows, words, row_words, workers, |(row, flip), words| {
                words.fill(0);
                for (_, plane) in row.codes() {
                    for (word, of_code) in words.iter_mut().zip(plane) {
                        *word |= of_code;
                    }
                }
                if *flip {
                    let past = copies.next_multiple_of(64) - copies;
                    words.iter_mut().for_each(|word| *word = !*word);
                    if let Some(last) = words.last_mut() {
                        *last &= u64::MAX >> past;
                    }
                }
            })
        };
        counter.add(classes, &mut set, workers)?;
        Ok(true)
    }

    /// The numbers of the rows that were sent, which are then forgotten.
    pub(super) fn take_sent(&self) -> SentRows {
        let classes = std::mem::take(&mut *self.classes.lock());
        let mut sent = std::mem::take(&mut *self.sent.lock());
        sent.add_classes(&classes);
        sent
    }

    /// Gives the sums of the rows that were added, which are then no longer here.
    pub(super) fn take(
        &self,
        mut add: impl FnMut(Units, &PairSums<'_>) -> Result<(), CountError>,
    ) -> Result<(), CountError> {
        let counters = std::mem::take(&mut *self.counters.lock());
        for (units, counter) in counters {
            if let Some(counter) = counter {
                closed(counter)?.take(&mut |sums| add(units, sums))?;
            }
        }
        Ok(())
    }

    /// The weighted sums of the rows that were added, which are then no longer here; `None` if there are none.
    pub(super) fn take_weighted(
        &self,
        workers: &Workers<'_>,
    ) -> Result<Option<WeightedSums>, CountError> {
        let counter = self.weighted.lock().take().flatten();
        match counter {
            Some(counter) => closed(counter)?.take(workers).map(Some),
            None => Ok(None),
        }
    }
}

/// A counter that no thread uses any more.
fn closed<C: ?Sized>(counter: Arc<Box<C>>) -> Result<Box<C>, CountError> {
    Arc::into_inner(counter).ok_or_else(|| {
        CountError::Device("rows are added while the counts of pairs are read".into())
    })
}

/// Sets the words of rows, by several threads if they are many.
fn set_rows<R: Sync>(
    rows: &[R],
    words: &mut [u64],
    row_words: usize,
    workers: &Workers<'_>,
    set: impl Fn(&R, &mut [u64]) + Sync,
) -> Result<(), CountError> {
    let row_words = row_words.max(1);
    let fewest = PART_WORDS / row_words;
    let some = rows.len().div_ceil(workers.parts()).max(fewest).max(1);
    let parts = rows.chunks(some).zip(words.chunks_mut(some * row_words));
    workers.each(parts, |(rows, words)| {
        for (row, words) in rows.iter().zip(words.chunks_exact_mut(row_words)) {
            set(row, words);
        }
        Ok(())
    })
}

/// Sets the words of a plane to those that have a bit in either of two.
fn set_plane(words: &mut [u64], one: Option<&[u64]>, other: Option<&[u64]>) {
    match one.or(other) {
        Some(plane) => words.copy_from_slice(plane),
        None => words.fill(0),
    }
    if let (Some(_), Some(other)) = (one, other) {
        for (word, other) in words.iter_mut().zip(other) {
            *word |= other;
        }
    }
}
