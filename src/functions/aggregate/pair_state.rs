//! Statistics over pairs of haplotypes or individuals: a group's rows are kept while they take less memory than a matrix of
//! counts over pairs, and are added to a matrix from then on.
//!
//! States are saved as words: a header with the layout's version, then rows, then the matrix if there is one. Merging joins rows and
//! adds matrices, all of them integers.

use std::borrow::Cow;
use std::fmt::Debug;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::{Result, internal_err};

use super::count_errors::counted;
use super::device_feed::DeviceFeed;
use super::pair_feed::PairFeed;
use super::planes_rows::{Lists, PlanesRows, list_type, lists, planes_row};
use super::statistic::{GroupState, SiteInput, Statistic};
use crate::counts::gathered::PlanesRow;
use crate::counts::pairs::{OnDevice, PairDevice, PairMatrix, Shape, SiteRows, Words, pairs_of};
use crate::counts::{CountError, Level, Workers};
use crate::functions::interrupt;

/// The version of saved states.
const VERSION: u64 = 3;
/// Words of the header: version and kind, samples, ploidy, words of the rows.
const HEADER: usize = 4;
/// Words of a saved matrix beside those of its numbers, at most.
const MATRIX_WORDS: usize = 64;
/// Threads that make what values have beside counts, while a device counts and the others read its counts.
const AHEAD_THREADS: usize = 4;
/// The fewest rows that are added to a matrix at a time.
const FEWEST_ROWS: usize = 512;
/// Bytes of planes of rows from which on a device gets them.
const DEVICE_BYTES: usize = 1 << 20;
/// The most rows that are kept once there is a matrix, and that are added to it at a time.
const MOST_ROWS: usize = 1 << 13;

/// What a function computes from the counts over pairs of each group.
pub(crate) trait PairValue: Debug + Send + Sync + 'static {
    /// The function's SQL name.
    const NAME: &'static str;
    /// The counts.
    type Matrix: PairMatrix;

    /// The values of groups, one row each.
    fn column<'a>(
        &self,
        groups: impl ExactSizeIterator<Item = Group<'a, Self>>,
    ) -> Result<ArrayRef>
    where
        Self: Sized;

    /// Makes what the value of one group has beside counts, while a device counts.
    fn make_ahead(&self, _workers: &Workers<'_>) -> Result<()> {
        Ok(())
    }

    /// Returns an error if the values of so many groups would be too large.
    fn check_groups(&self, _groups: usize) -> Result<()> {
        Ok(())
    }

    /// Bytes of the value of one group.
    fn size(&self) -> usize;
}

/// A group of which a value is computed.
#[derive(Debug)]
pub(crate) struct Group<'a, V: PairValue> {
    statistic: &'a PairsOf<V>,
    state: &'a PairState<V::Matrix>,
}

impl<'a, V: PairValue> Group<'a, V> {
    /// The counts of its rows, which may be computed now. They take much memory, so no group should keep them while those of the next are
    /// computed.
    pub(crate) fn counts(&self) -> Result<Cow<'a, V::Matrix>> {
        self.statistic.counts(self.state)
    }

    /// Bytes of counts, for which there is room.
    pub(crate) fn matrix_bytes(&self) -> usize {
        self.statistic.matrix_bytes()
    }

    /// Its rows, if they were too few to be added to a matrix. Without a device, which gets rows sooner, that depends on all rows of the group
    /// alone, not on how they came.
    pub(crate) fn few_rows(&self) -> Option<&'a SiteRows> {
        let rows = &self.state.rows;
        let is_few = size_of_val(rows.words()) < self.statistic.matrix_bytes();
        (self.state.matrix.is_none() && is_few).then_some(rows)
    }
}

/// The state of one group.
#[derive(Clone, Debug)]
pub(crate) struct PairState<M> {
    /// Rows that are not in the matrix.
    rows: SiteRows,
    matrix: Option<Box<M>>,
}

impl<M> Default for PairState<M> {
    fn default() -> Self {
        Self {
            rows: SiteRows::default(),
            matrix: None,
        }
    }
}

impl<M: PairMatrix> GroupState for PairState<M> {
    fn heap_size(&self) -> usize {
        let matrix = self.matrix.as_ref();
        self.rows.heap_bytes() + matrix.map_or(0, |matrix| size_of::<M>() + matrix.heap_bytes())
    }
}

/// The statistic of a population.
#[derive(Debug)]
pub(crate) struct PairsOf<V: PairValue> {
    shape: Shape,
    options: <V::Matrix as PairMatrix>::Options,
    value: V,
    level: Level,
    /// Whether all rows are kept, so that they can be removed.
    keeps_rows: bool,
    /// Sends rows to the device that counts pairs, for the only state.
    feed: Option<Arc<DeviceFeed<V::Matrix>>>,
}

impl<V: PairValue> PairsOf<V> {
    /// For the individuals of a population.
    pub(crate) fn new(shape: Shape, options: <V::Matrix as PairMatrix>::Options, value: V) -> Self {
        Self {
            shape,
            options,
            value,
            level: Level::detect(),
            keeps_rows: false,
            feed: None,
        }
    }

    /// The same for sliding frames.
    pub(crate) fn keeping_rows(self) -> Self {
        Self {
            keeps_rows: true,
            ..self
        }
    }

    fn matrix_bytes(&self) -> usize {
        <V::Matrix as PairMatrix>::bytes_of(self.shape, self.options)
    }

    fn new_matrix(&self) -> Result<V::Matrix> {
        counted(V::NAME, V::Matrix::try_new(self.shape, self.options))
    }

    /// Adds rows to a matrix, in parts, with the operator's threads.
    fn fold(&self, matrix: &mut V::Matrix, rows: &SiteRows) -> Result<()> {
        let copies = self.shape.copies();
        // A step of the host's instruction sets counts some hundred rows of a pair.
        let steps = pairs_of(copies).saturating_mul(rows.len() / 256);
        let fold = |workers: &Workers<'_>| {
            let mut parts = rows.parts(copies, MOST_ROWS);
            while let Some(part) = parts.next_part() {
                matrix.fold(&part, self.level, workers)?;
            }
            Ok(())
        };
        counted(
            V::NAME,
            interrupt::long(steps, || interrupt::with_workers(fold)),
        )
    }

    /// Sends rows to the device; what it does not count is added to `others`.
    fn send(
        feed: &DeviceFeed<V::Matrix>,
        rows: &[PlanesRow<'_>],
        others: &mut SiteRows,
    ) -> Result<()> {
        let left = feed.send_rows(rows)?;
        let left = left.into_iter().filter_map(|row| rows.get(row));
        left.for_each(|row| others.push_planes(*row));
        Ok(())
    }

    /// Adds the kept rows to the matrix, once they take as much memory, or are many for a device.
    fn fold_if_many(&self, state: &mut PairState<V::Matrix>) -> Result<()> {
        let rows = state.rows.len();
        if self.keeps_rows || rows < FEWEST_ROWS {
            return Ok(());
        }
        let is_many = match (&state.matrix, &self.feed) {
            (Some(_), _) => rows >= MOST_ROWS,
            (None, Some(_)) => rows.saturating_mul(self.shape.copies() / 8) >= DEVICE_BYTES,
            (None, None) => false,
        };
        if is_many || size_of_val(state.rows.words()) >= self.matrix_bytes() {
            self.fold_all(state)?;
        }
        Ok(())
    }

    /// Adds the kept rows to the matrix, which is made if there is none. Where a device counts pairs, those that it does not count are
    /// kept at first.
    fn fold_all(&self, state: &mut PairState<V::Matrix>) -> Result<()> {
        match (&mut state.matrix, &self.feed) {
            (Some(matrix), _) => {
                self.fold(matrix, &state.rows)?;
                state.rows.clear();
            }
            (none, None) => {
                let matrix = none.insert(Box::new(self.new_matrix()?));
                self.fold(matrix, &state.rows)?;
                state.rows.clear();
            }
            (none, Some(feed)) => {
                *none = Some(Box::new(self.new_matrix()?));
                let rows = std::mem::take(&mut state.rows);
                let mut parts = rows.parts(self.shape.copies(), MOST_ROWS);
                while let Some(part) = parts.next_part() {
                    Self::send(feed, &part, &mut state.rows)?;
                }
                feed.open();
            }
        }
        Ok(())
    }

    /// The counts of all rows of a state.
    fn counts<'a>(&self, state: &'a PairState<V::Matrix>) -> Result<Cow<'a, V::Matrix>> {
        let mut counts = match &state.matrix {
            Some(matrix) if state.rows.len() == 0 => return Ok(Cow::Borrowed(matrix)),
            Some(matrix) => V::Matrix::clone(matrix),
            None => self.new_matrix()?,
        };
        self.fold(&mut counts, &state.rows)?;
        Ok(Cow::Owned(counts))
    }

    fn header(&self, rows: usize) -> [u64; HEADER] {
        let kind = u64::from(<V::Matrix as PairMatrix>::KIND);
        let Shape { samples, ploidy } = self.shape;
        [
            kind << 32 | VERSION,
            samples as u64,
            ploidy as u64,
            rows as u64,
        ]
    }

    /// Reads a saved state; `None` if it is none of this statistic's.
    fn load(
        &self,
        words: &[u64],
        state: &mut PairState<V::Matrix>,
        workers: &Workers<'_>,
    ) -> Result<Option<Option<V::Matrix>>, CountError> {
        let mut words = Words::new(words, workers);
        let loaded = self.read(&mut words, state);
        words.check()?;
        Ok(loaded)
    }

    fn read(
        &self,
        words: &mut Words<'_>,
        state: &mut PairState<V::Matrix>,
    ) -> Option<Option<V::Matrix>> {
        let header = words.take(HEADER)?;
        let rows = usize::try_from(*header.last()?).ok()?;
        if *header != self.header(rows) {
            return None;
        }
        if !state
            .rows
            .extend(words.take(rows)?, self.shape.copies(), self.level)
        {
            return None;
        }
        if words.rest().is_empty() {
            return Some(None);
        }
        let matrix = V::Matrix::load(self.shape, self.options, words)?;
        words.rest().is_empty().then_some(Some(matrix))
    }
}

impl<V: PairValue> Statistic for PairsOf<V> {
    type State = PairState<V::Matrix>;
    type Input<'a> = PlanesRows<'a>;
    type Saved<'a> = PlanesRows<'a>;
    const COMPARES_PAIRS: bool = true;
    const KEEPS_MATRIX: bool = true;
    const ON_DEVICE: bool = true;

    fn use_device(&mut self, device: &Arc<dyn PairDevice>) -> Option<Arc<dyn PairFeed>> {
        if self.keeps_rows {
            return None;
        }
        let device = OnDevice::new(Arc::clone(device));
        let feed = Arc::new(DeviceFeed::new(V::NAME, self.shape, self.options, device));
        self.feed = Some(Arc::clone(&feed));
        Some(feed)
    }

    fn finish(&self, state: &mut Self::State) -> Result<()> {
        let Some(feed) = &self.feed else {
            return Ok(());
        };
        if state.matrix.is_none() && (feed.is_open() || state.rows.len() >= FEWEST_ROWS) {
            self.fold_all(state)?;
        }
        let Some(matrix) = &mut state.matrix else {
            return Ok(());
        };
        // A count takes some nanoseconds.
        let steps = self.matrix_bytes();
        let take = |workers: &Workers<'_>| matrix.add_counted(&feed.device, workers);
        let taken = interrupt::long(steps, || interrupt::with_workers(take));
        counted(V::NAME, taken)
    }

    fn finish_for_value(&self, state: &mut Self::State) -> Result<()> {
        if self.feed.is_none() {
            return self.finish(state);
        }
        // Before the other threads are taken to read the counts.
        interrupt::with_some_workers(AHEAD_THREADS, |workers| {
            thread::scope(|scope| {
                let make = || self.value.make_ahead(workers);
                let ahead = thread::Builder::new().spawn_scoped(scope, make);
                self.finish(state)?;
                match ahead {
                    Ok(ahead) => ahead.join().unwrap_or_else(|panic| resume_unwind(panic)),
                    // It is made with the value.
                    Err(_) => Ok(()),
                }
            })
        })
    }

    fn state_columns() -> Vec<(String, DataType)> {
        vec![("pairs".to_string(), list_type(DataType::UInt64))]
    }

    fn input(values: &[ArrayRef]) -> Result<PlanesRows<'_>> {
        Lists::try_new(values, 0)
    }

    fn add(
        &self,
        state: &mut Self::State,
        input: &PlanesRows<'_>,
        rows: impl Iterator<Item = usize>,
    ) -> Result<()> {
        let copies = self.shape.copies();
        let mut views = rows.map(|row| planes_row(V::NAME, input.row(row), copies));
        while self.feed.is_none() || state.matrix.is_none() {
            let Some(row) = views.next() else {
                return Ok(());
            };
            match state.matrix {
                Some(_) => state.rows.push_planes(row?),
                None => state.rows.push(row?, self.level),
            }
            self.fold_if_many(state)?;
        }
        if let Some(feed) = &self.feed {
            let rows: Vec<_> = views.collect::<Result<_>>()?;
            Self::send(feed, &rows, &mut state.rows)?;
        }
        self.fold_if_many(state)
    }

    fn remove(
        &self,
        state: &mut Self::State,
        input: &PlanesRows<'_>,
        mut rows: impl Iterator<Item = usize>,
    ) -> Result<()> {
        // Rows leave a frame in the order in which they were added.
        let copies = self.shape.copies();
        match rows.all(|row| state.rows.remove_first(input.row(row), copies, self.level)) {
            true => Ok(()),
            false => internal_err!("{}: a row leaves its frame out of order", V::NAME),
        }
    }

    fn saved(states: &[ArrayRef]) -> Result<PlanesRows<'_>> {
        Lists::try_new(states, 0)
    }

    fn merge(&self, state: &mut Self::State, saved: &PlanesRows<'_>, row: usize) -> Result<()> {
        let words = saved.row(row);
        if words.is_empty() {
            return Ok(());
        }
        let load = |workers: &Workers<'_>| self.load(words, state, workers);
        let loaded = counted(V::NAME, interrupt::with_workers(load))?;
        let Some(matrix) = loaded else {
            return internal_err!(
                "{}: a saved state is not of {} samples, or of another version",
                V::NAME,
                self.shape.samples
            );
        };
        match (&mut state.matrix, matrix) {
            (_, None) => {}
            (Some(to), Some(from)) => counted(V::NAME, to.merge(&from))?,
            (none, Some(from)) => *none = Some(Box::new(from)),
        }
        self.fold_if_many(state)
    }

    fn save(&self, states: &[Self::State]) -> Result<Vec<ArrayRef>> {
        let save = |state: &Self::State| {
            let rows = state.rows.words();
            let of_matrix = state
                .matrix
                .as_ref()
                .map_or(0, |matrix| matrix.heap_bytes());
            // A matrix has some words beside those of its numbers.
            let most = HEADER + rows.len() + of_matrix / size_of::<u64>() + MATRIX_WORDS;
            let mut words = vec![];
            let reserved = words.try_reserve_exact(most);
            let too_large = |_| CountError::TooLarge(format!("{most} words of a saved state"));
            counted(V::NAME, reserved.map_err(too_large))?;
            words.extend_from_slice(&self.header(rows.len()));
            words.extend_from_slice(rows);
            if let Some(matrix) = &state.matrix {
                let save = |workers: &Workers<'_>| matrix.save(&mut words, workers);
                counted(V::NAME, interrupt::with_workers(save))?;
            }
            Ok(words)
        };
        let saved = states.iter().map(save).collect::<Result<Vec<_>>>()?;
        Ok(vec![lists::<UInt64Type>(
            DataType::UInt64,
            saved.into_iter(),
        )?])
    }

    fn save_rows(
        &self,
        input: &PlanesRows<'_>,
        kept: impl Fn(usize) -> bool,
    ) -> Result<Vec<ArrayRef>> {
        let rows = (0..input.len()).map(|row| {
            if !kept(row) || input.is_null(row) {
                return vec![];
            }
            let words = input.row(row);
            [&self.header(words.len())[..], words].concat()
        });
        Ok(vec![lists::<UInt64Type>(DataType::UInt64, rows)?])
    }

    fn evaluate(&mut self, states: &[Self::State]) -> Result<ArrayRef> {
        self.check_groups(states.len())?;
        let groups = states.iter().map(|state| Group {
            statistic: self,
            state,
        });
        self.value.column(groups)
    }

    fn check_groups(&self, groups: usize) -> Result<()> {
        self.value.check_groups(groups)
    }

    fn value_size(&self) -> usize {
        self.value.size()
    }

    fn heap_size(&self) -> usize {
        // Rows are added to a matrix, and a state's may be copied, for one group at a time.
        self.matrix_bytes()
    }
}
