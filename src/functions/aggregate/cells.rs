//! Statistics that are functions of a [`Histogram`] of cells: spectra and their projections.
//!
//! A state is saved as lists, one list of 64-bit words for each word of the key and one of counts, so that a row that
//! stands for one site costs one list entry, not a spectrum.

use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray, UInt64Array};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, Int64Type, UInt64Type};
use datafusion::common::{Result, internal_err, resources_err};

use super::histogram::{Histogram, Key};
use super::sites::{Sites, Visit};
use super::statistic::{SiteInput, Statistic, column};

/// A statistic that is a function of the number of sites in each cell.
pub(crate) trait SiteCells<const P: usize>: Debug + Send + Sync + 'static {
    /// Identifies a cell.
    type Key: Key;

    /// The cell of a site with these counts in each population; `None` for a site that does not count.
    fn cell(&self, counts: [&[i32]; P]) -> Result<Option<Self::Key>>;
    /// Number of possible cells; 0 where that is not known.
    fn domain(&self) -> usize {
        0
    }
    /// Whether a cell of a saved state is possible.
    fn is_valid(&self, cell: Self::Key) -> bool;
    /// The values of groups, one row each.
    fn evaluate(&mut self, groups: &[Histogram<Self::Key>]) -> Result<ArrayRef>;
    /// Fails, before any row is looked at, where this many groups are too many.
    fn check_groups(&self, _groups: usize) -> Result<()> {
        Ok(())
    }
    /// Number of cells of a group's value where it is a list; 0 where it is a number.
    fn value_cells(&self) -> usize {
        0
    }
    /// Bytes on the heap of tables that are kept from one evaluation to the next.
    fn heap_size(&self) -> usize {
        0
    }
}

/// The [`Statistic`] of a [`SiteCells`].
#[derive(Debug)]
pub(crate) struct CellsOf<T, const P: usize>(pub(crate) T);

/// Saved histograms, viewed.
pub(crate) struct SavedCells<'a> {
    rows: &'a ListArray,
    words: Vec<&'a [u64]>,
    lists: Vec<&'a ListArray>,
    counts: &'a [i64],
}

/// Builds the columns that hold saved states.
struct Saver<K> {
    offsets: Vec<i32>,
    cells: Vec<K>,
    counts: Vec<i64>,
}

impl<K: Key> Saver<K> {
    fn new(rows: usize, cells: usize) -> Self {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        Self {
            offsets,
            cells: Vec::with_capacity(cells),
            counts: Vec::with_capacity(cells),
        }
    }

    fn push(&mut self, cell: K, count: i64) {
        self.cells.push(cell);
        self.counts.push(count);
    }

    fn end_row(&mut self) -> Result<()> {
        let Ok(offset) = i32::try_from(self.cells.len()) else {
            return resources_err!(
                "the state of a spectrum holds more than {} cells in one batch; \
                 group into fewer groups, or project to fewer copies",
                i32::MAX
            );
        };
        self.offsets.push(offset);
        Ok(())
    }

    fn finish(self) -> Vec<ArrayRef> {
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.offsets));
        let list = |data_type, values: ArrayRef| -> ArrayRef {
            let field = Arc::new(Field::new_list_field(data_type, true));
            Arc::new(ListArray::new(field, offsets.clone(), values, None))
        };
        let word = |at| UInt64Array::from_iter_values(self.cells.iter().map(|cell| cell.word(at)));
        let mut columns: Vec<ArrayRef> = (0..K::WORDS)
            .map(|at| list(DataType::UInt64, Arc::new(word(at))))
            .collect();
        columns.push(list(
            DataType::Int64,
            Arc::new(Int64Array::from(self.counts)),
        ));
        columns
    }
}

/// A histogram that sites are added to.
struct Added<'a, T: SiteCells<P>, const P: usize> {
    cells: &'a T,
    state: &'a mut Histogram<T::Key>,
    times: i64,
    domain: usize,
}

impl<T: SiteCells<P>, const P: usize> Visit<P> for Added<'_, T, P> {
    #[inline(always)]
    fn visit(&mut self, counts: [&[i32]; P]) -> Result<()> {
        match self.cells.cell(counts)? {
            Some(cell) => self.state.add(cell, self.times, self.domain),
            None => Ok(()),
        }
    }
}

impl<T: SiteCells<P>, const P: usize> CellsOf<T, P> {
    #[inline]
    fn add_times(
        &self,
        state: &mut Histogram<T::Key>,
        input: &Sites<'_, P>,
        rows: impl Iterator<Item = usize>,
        times: i64,
    ) -> Result<()> {
        let mut added = Added {
            cells: &self.0,
            state,
            times,
            domain: self.0.domain(),
        };
        input.try_for_each(rows, &mut added)
    }
}

impl<T: SiteCells<P>, const P: usize> Statistic for CellsOf<T, P> {
    type State = Histogram<T::Key>;
    type Input<'a> = Sites<'a, P>;
    type Saved<'a> = SavedCells<'a>;

    fn state_columns() -> Vec<(String, DataType)> {
        let list = |item| DataType::List(Arc::new(Field::new_list_field(item, true)));
        let words = (0..T::Key::WORDS).map(|i| (format!("cell{i}"), list(DataType::UInt64)));
        words
            .chain([("sites".to_string(), list(DataType::Int64))])
            .collect()
    }

    fn input(values: &[ArrayRef]) -> Result<Self::Input<'_>> {
        Sites::try_new(values)
    }

    #[inline]
    fn add(
        &self,
        state: &mut Self::State,
        input: &Sites<'_, P>,
        rows: impl Iterator<Item = usize>,
    ) -> Result<()> {
        self.add_times(state, input, rows, 1)
    }

    #[inline]
    fn remove(
        &self,
        state: &mut Self::State,
        input: &Sites<'_, P>,
        rows: impl Iterator<Item = usize>,
    ) -> Result<()> {
        self.add_times(state, input, rows, -1)
    }

    fn saved(states: &[ArrayRef]) -> Result<SavedCells<'_>> {
        let list = |at| match column(states, at)?.as_list_opt::<i32>() {
            Some(list) => Ok(list),
            None => internal_err!("state column {at} of a spectrum must be a list"),
        };
        let rows = list(T::Key::WORDS)?;
        let Some(counts) = rows.values().as_primitive_opt::<Int64Type>() else {
            return internal_err!("the counts of a spectrum's state must be Int64");
        };
        let mut saved = SavedCells {
            rows,
            words: Vec::with_capacity(T::Key::WORDS),
            lists: Vec::with_capacity(T::Key::WORDS),
            counts: counts.values(),
        };
        for at in 0..T::Key::WORDS {
            let words = list(at)?;
            let Some(values) = words.values().as_primitive_opt::<UInt64Type>() else {
                return internal_err!("the cells of a spectrum's state must be UInt64");
            };
            saved.words.push(values.values());
            saved.lists.push(words);
        }
        Ok(saved)
    }

    fn merge(&self, state: &mut Self::State, saved: &SavedCells<'_>, row: usize) -> Result<()> {
        if saved.rows.is_null(row) {
            return Ok(());
        }
        let domain = self.0.domain();
        let range = |list: &ListArray| -> std::ops::Range<usize> {
            let offsets = list.value_offsets();
            offsets[row] as usize..offsets[row + 1] as usize
        };
        let counts = &saved.counts[range(saved.rows)];
        if !counts.is_empty() {
            state.expect(counts.len(), domain)?;
        }
        for (i, &count) in counts.iter().enumerate() {
            let mut cell = T::Key::default();
            for (list, words) in saved.lists.iter().zip(&saved.words) {
                let Some(&word) = words[range(list)].get(i) else {
                    return internal_err!("a spectrum's state holds {} counts", counts.len());
                };
                cell = cell.push(word);
            }
            if count <= 0 || !self.0.is_valid(cell) {
                return internal_err!("a spectrum's state holds {count} sites of cell {cell:?}");
            }
            state.add(cell, count, domain)?;
        }
        Ok(())
    }

    fn save(&self, states: &[Self::State]) -> Result<Vec<ArrayRef>> {
        let mut saver = Saver::new(states.len(), states.len());
        for state in states {
            state.for_each(|cell, count| saver.push(cell, count));
            saver.end_row()?;
        }
        Ok(saver.finish())
    }

    fn save_rows(
        &self,
        input: &Sites<'_, P>,
        kept: impl Fn(usize) -> bool,
    ) -> Result<Vec<ArrayRef>> {
        let mut saver = Saver::new(input.len(), input.len());
        for row in 0..input.len() {
            if kept(row)
                && !input.is_null(row)
                && let Some(cell) = self.0.cell(input.counts(row))?
            {
                saver.push(cell, 1);
            }
            saver.end_row()?;
        }
        Ok(saver.finish())
    }

    fn evaluate(&mut self, states: &[Self::State]) -> Result<ArrayRef> {
        self.0.evaluate(states)
    }

    fn check_groups(&self, groups: usize) -> Result<()> {
        self.0.check_groups(groups)
    }

    fn value_size(&self) -> usize {
        self.0.value_cells().saturating_mul(size_of::<u64>())
    }

    fn heap_size(&self) -> usize {
        self.0.heap_size()
    }
}
