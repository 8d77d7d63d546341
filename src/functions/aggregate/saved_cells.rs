//! The columns that save a [`Histogram`] of cells: a list of 64-bit words for each word of the key, and a list of counts. A state
//! of one site is then one list entry, not a spectrum.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray, UInt64Array};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, Int64Type, UInt64Type};
use datafusion::common::{Result, internal_err, resources_err};

use super::histogram::{Histogram, Key};
use super::statistic::column;

/// Names and types of the columns.
pub(super) fn state_columns<K: Key>() -> Vec<(String, DataType)> {
    let list = |item| DataType::List(Arc::new(Field::new_list_field(item, true)));
    let words = (0..K::WORDS).map(|i| (format!("cell{i}"), list(DataType::UInt64)));
    words
        .chain([("sites".to_string(), list(DataType::Int64))])
        .collect()
}

/// Builds the columns that hold saved states.
pub(super) struct Saver<K> {
    offsets: Vec<i32>,
    cells: Vec<K>,
    counts: Vec<i64>,
}

impl<K: Key> Saver<K> {
    pub(super) fn new(rows: usize, cells: usize) -> Self {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        Self {
            offsets,
            cells: Vec::with_capacity(cells),
            counts: Vec::with_capacity(cells),
        }
    }

    pub(super) fn push(&mut self, cell: K, count: i64) {
        self.cells.push(cell);
        self.counts.push(count);
    }

    pub(super) fn end_row(&mut self) -> Result<()> {
        let Ok(offset) = i32::try_from(self.cells.len()) else {
            return resources_err!(
                "a state holds more than {} cells in one batch; \
                 group into fewer groups, or project to fewer copies",
                i32::MAX
            );
        };
        self.offsets.push(offset);
        Ok(())
    }

    pub(super) fn finish(self) -> Vec<ArrayRef> {
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

/// Saves histograms, one row each.
pub(super) fn save<K: Key>(states: &[Histogram<K>]) -> Result<Vec<ArrayRef>> {
    let mut saver = Saver::new(states.len(), states.len());
    for state in states {
        state.for_each(|cell, count| saver.push(cell, count));
        saver.end_row()?;
    }
    Ok(saver.finish())
}

/// Saved histograms, viewed.
pub(crate) struct SavedCells<'a> {
    rows: &'a ListArray,
    words: Vec<&'a [u64]>,
    lists: Vec<&'a ListArray>,
    counts: &'a [i64],
}

impl<'a> SavedCells<'a> {
    /// Views the columns.
    pub(super) fn try_new<K: Key>(states: &'a [ArrayRef]) -> Result<Self> {
        let list = |at| match column(states, at)?.as_list_opt::<i32>() {
            Some(list) => Ok(list),
            None => internal_err!("state column {at} of a spectrum must be a list"),
        };
        let rows = list(K::WORDS)?;
        let Some(counts) = rows.values().as_primitive_opt::<Int64Type>() else {
            return internal_err!("the counts of a spectrum's state must be Int64");
        };
        let mut saved = Self {
            rows,
            words: Vec::with_capacity(K::WORDS),
            lists: Vec::with_capacity(K::WORDS),
            counts: counts.values(),
        };
        for at in 0..K::WORDS {
            let words = list(at)?;
            let Some(values) = words.values().as_primitive_opt::<UInt64Type>() else {
                return internal_err!("the cells of a spectrum's state must be UInt64");
            };
            saved.words.push(values.values());
            saved.lists.push(words);
        }
        Ok(saved)
    }

    /// Adds the saved cells of `row`, at most `domain` different ones (0 if that is not known); an invalid cell is an error.
    pub(super) fn merge_into<K: Key>(
        &self,
        state: &mut Histogram<K>,
        row: usize,
        domain: usize,
        is_valid: impl Fn(K) -> bool,
    ) -> Result<()> {
        if self.rows.is_null(row) {
            return Ok(());
        }
        let range = |list: &ListArray| -> std::ops::Range<usize> {
            let offsets = list.value_offsets();
            offsets[row] as usize..offsets[row + 1] as usize
        };
        let counts = &self.counts[range(self.rows)];
        if !counts.is_empty() {
            state.expect(counts.len(), domain)?;
        }
        for (i, &count) in counts.iter().enumerate() {
            let mut cell = K::default();
            for (list, words) in self.lists.iter().zip(&self.words) {
                let Some(&word) = words[range(list)].get(i) else {
                    return internal_err!("a spectrum's state holds {} counts", counts.len());
                };
                cell = cell.push(word);
            }
            if count <= 0 || !is_valid(cell) {
                return internal_err!("a spectrum's state holds {count} sites of cell {cell:?}");
            }
            state.add(cell, count, domain)?;
        }
        Ok(())
    }
}
