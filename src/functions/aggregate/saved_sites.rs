//! Saved states of aggregates over pairs of sites: for each state a list of words, its header and then records, and a list of binary views, of
//! which each is a part of whole records.
//!
//! A state that is saved alone, such as that of a partition without GROUP BY, has its parts as views, which are not copied. Rows of views keep the
//! buffers of all, so states that are saved together have all records among their words.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BinaryViewBuilder, ByteView, ListArray, UInt64Array,
};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, FieldRef, UInt64Type};
use datafusion::common::{Result, exec_datafusion_err, internal_err};

use super::statistic::column;
use crate::counts::sites::SiteRecords;

/// Bytes that views have in themselves, if there are no more.
const INLINE_BYTES: u32 = 12;

fn item(data_type: DataType) -> FieldRef {
    Arc::new(Field::new_list_field(data_type, false))
}

/// Names and types of the columns.
pub(super) fn state_columns() -> Vec<(String, DataType)> {
    let columns = [("sites", DataType::UInt64), ("parts", DataType::BinaryView)];
    let columns = columns.map(|(name, item_type)| (name.into(), DataType::List(item(item_type))));
    columns.into()
}

/// States that are being saved.
#[derive(Debug)]
pub(super) struct Saver {
    /// Whether there is one state.
    is_single: bool,
    words: Vec<u64>,
    /// Where the words of each state end.
    words_end: Vec<usize>,
    parts: Vec<ScalarBuffer<u64>>,
    parts_end: Vec<usize>,
}

impl Saver {
    /// Of so many states.
    pub(super) fn new(states: usize) -> Self {
        Self {
            is_single: states == 1,
            words: vec![],
            words_end: Vec::with_capacity(states),
            parts: vec![],
            parts_end: Vec::with_capacity(states),
        }
    }

    /// Saves a state.
    pub(super) fn push(&mut self, header: &[u64], sites: &SiteRecords) {
        let (shared, words) = sites.parts();
        self.words.extend_from_slice(header);
        for part in shared {
            match self.is_single {
                true => self.parts.push(part),
                false => self.words.extend_from_slice(&part),
            }
        }
        self.words.extend_from_slice(words);
        self.end_state();
    }

    /// Saves the state of nothing.
    pub(super) fn push_empty(&mut self) {
        self.end_state();
    }

    fn end_state(&mut self) {
        self.words_end.push(self.words.len());
        self.parts_end.push(self.parts.len());
    }

    /// The columns.
    ///
    /// # Errors
    /// If there are too many words.
    pub(super) fn finish(self) -> Result<Vec<ArrayRef>> {
        let mut views = BinaryViewBuilder::with_capacity(self.parts.len());
        for part in self.parts {
            let bytes = part.into_inner();
            let length = u32::try_from(bytes.len()).map_err(|_| too_many())?;
            let block = views.append_block(bytes);
            views.try_append_view(block, 0, length)?;
        }
        let words = UInt64Array::new(ScalarBuffer::from(self.words), None);
        Ok(vec![
            list(Arc::new(words), self.words_end)?,
            list(Arc::new(views.finish()), self.parts_end)?,
        ])
    }
}

fn too_many() -> datafusion::common::DataFusionError {
    exec_datafusion_err!(
        "the states of a batch of groups have more than 2^31 numbers; lower datafusion.execution.batch_size"
    )
}

fn list(values: ArrayRef, ends: Vec<usize>) -> Result<ArrayRef> {
    let mut offsets = vec![0i32];
    for end in ends {
        offsets.push(i32::try_from(end).map_err(|_| too_many())?);
    }
    Ok(Arc::new(ListArray::try_new(
        item(values.data_type().clone()),
        OffsetBuffer::new(ScalarBuffer::from(offsets)),
        values,
        None,
    )?))
}

/// A list column, and its values.
#[derive(Clone, Copy, Debug)]
struct Viewed<'a, V> {
    list: &'a ListArray,
    values: &'a V,
}

impl<V: Array> Viewed<'_, V> {
    /// Where the values of a row are; nowhere if it is NULL.
    fn range(&self, row: usize) -> std::ops::Range<usize> {
        let offsets = self.list.value_offsets();
        match offsets.get(row..row + 2) {
            // Offsets of lists are not negative and never decrease.
            Some(&[start, end]) if self.list.is_valid(row) => {
                start as usize..(end as usize).min(self.values.len())
            }
            _ => 0..0,
        }
    }
}

/// Saved states, viewed.
#[derive(Debug)]
pub(crate) struct SavedSites<'a> {
    words: Viewed<'a, UInt64Array>,
    parts: Viewed<'a, BinaryViewArray>,
}

impl<'a> SavedSites<'a> {
    /// State columns 0 and 1.
    pub(super) fn try_new(states: &'a [ArrayRef]) -> Result<Self> {
        let lists =
            [column(states, 0)?, column(states, 1)?].map(|column| column.as_list_opt::<i32>());
        if let [Some(words), Some(parts)] = lists
            && let Some(of_words) = words.values().as_primitive_opt::<UInt64Type>()
            && let Some(of_parts) = parts.values().as_binary_view_opt()
        {
            return Ok(Self {
                words: Viewed {
                    list: words,
                    values: of_words,
                },
                parts: Viewed {
                    list: parts,
                    values: of_parts,
                },
            });
        }
        internal_err!(
            "states of an aggregate over pairs of sites must be lists of numbers and of binary views"
        )
    }

    /// The header of a state and its records among the words; nothing for NULL.
    pub(super) fn words(&self, row: usize) -> ScalarBuffer<u64> {
        let range = self.words.range(row);
        match range.is_empty() {
            true => ScalarBuffer::default(),
            false => self.words.values.values().slice(range.start, range.len()),
        }
    }

    /// The other records of a state. `None` for a part that is not of whole words.
    pub(super) fn parts(&self, row: usize) -> impl Iterator<Item = Option<ScalarBuffer<u64>>> {
        self.parts.range(row).map(|at| self.part(at))
    }

    fn part(&self, at: usize) -> Option<ScalarBuffer<u64>> {
        let all = self.parts.values;
        let bytes = all.value(at);
        if !bytes.len().is_multiple_of(size_of::<u64>()) {
            return None;
        }
        let view = ByteView::from(*all.views().get(at)?);
        let is_aligned = bytes.as_ptr().align_offset(size_of::<u64>()) == 0;
        if view.length <= INLINE_BYTES || !is_aligned {
            let words = bytes.as_chunks().0.iter();
            return Some(words.map(|word| u64::from_le_bytes(*word)).collect());
        }
        let buffer = all.data_buffers().get(view.buffer_index as usize)?;
        let part = buffer.slice_with_length(view.offset as usize, view.length as usize);
        Some(ScalarBuffer::from(part))
    }
}

#[cfg(test)]
mod tests {
    use arrow::compute::{concat, take};

    use super::*;
    use crate::counts::sites::{Copies, SiteBits};

    const COPIES: Copies = Copies {
        first: 10_000,
        second: None,
    };

    fn sites(rows: usize) -> SiteRecords {
        let mut sites = SiteRecords::default();
        let words = COPIES.first.div_ceil(64);
        let bits = SiteBits {
            alternate: vec![1; words],
            called: vec![],
            n: COPIES.first,
            d: words,
        };
        (0..rows).for_each(|row| sites.push(row as f64, std::slice::from_ref(&bits)));
        sites
    }

    fn saved(states: &[&SiteRecords]) -> Vec<ArrayRef> {
        let mut saver = Saver::new(states.len() + 1);
        if states.len() == 1 {
            saver = Saver::new(1);
        }
        states.iter().for_each(|sites| saver.push(&[7, 8], sites));
        if states.len() > 1 {
            saver.push_empty();
        }
        saver.finish().unwrap()
    }

    fn all_words(sites: &SiteRecords) -> Vec<u64> {
        let (shared, words) = sites.parts();
        let mut all: Vec<u64> = shared.flat_map(|part| part.to_vec()).collect();
        all.extend_from_slice(words);
        all
    }

    fn assert_is(found: &SavedSites<'_>, row: usize, expected: Option<&SiteRecords>) {
        let words = found.words(row);
        let Some(expected) = expected else {
            assert!(words.is_empty() && found.parts(row).next().is_none());
            return;
        };
        assert_eq!(words[..2], [7, 8]);
        let mut read = SiteRecords::default();
        for part in found.parts(row) {
            assert!(read.extend(part.unwrap(), COPIES));
        }
        assert!(read.extend(words.slice(2, words.len() - 2), COPIES));
        assert_eq!(read.len(), expected.len());
        assert_eq!(all_words(&read), all_words(expected));
    }

    #[test]
    fn states_come_back() {
        let all = [&sites(3), &sites(0), &sites(7_000)];
        let columns = saved(&all);
        let types: Vec<_> = columns.iter().map(|of| of.data_type().clone()).collect();
        let expected: Vec<_> = state_columns().into_iter().map(|(_, of)| of).collect();
        assert_eq!(types, expected);
        let rows = UInt64Array::from(vec![3, 2, 1, 0]);
        let both = |column: &ArrayRef| {
            let taken = take(column, &rows, None).unwrap();
            concat(&[column, &taken]).unwrap()
        };
        let columns: Vec<ArrayRef> = columns.iter().map(both).collect();
        let found = SavedSites::try_new(&columns).unwrap();
        for (row, at) in [0usize, 1, 2, 3, 3, 2, 1, 0].into_iter().enumerate() {
            assert_is(&found, row, all.get(at).copied());
        }
    }

    /// A state that is saved alone is not copied.
    #[test]
    fn one_state_is_shared() {
        let state = sites(7_000);
        let columns = saved(&[&state]);
        let found = SavedSites::try_new(&columns).unwrap();
        assert_is(&found, 0, Some(&state));
        let first = state.parts().0.next().unwrap();
        let part = found.parts(0).next().unwrap().unwrap();
        assert_eq!((part.as_ptr(), part.len()), (first.as_ptr(), first.len()));
    }

    #[test]
    fn other_columns_are_refused() {
        let other: ArrayRef = Arc::new(arrow::array::Int64Array::from(vec![1]));
        assert!(SavedSites::try_new(&[Arc::clone(&other), other]).is_err());
        assert!(SavedSites::try_new(&[]).is_err());
    }
}
