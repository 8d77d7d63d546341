//! Saved states of aggregates over pairs of sites: for each state a list of binary views, the header and then parts of whole records, all of
//! 64-bit words. Large parts are not copied, neither when they are saved nor when rows of states are.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BinaryViewBuilder, ByteView, ListArray,
};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, exec_datafusion_err, internal_err};

use super::statistic::column;
use crate::counts::sites::SiteRecords;

/// Bytes of parts that are copied into one buffer: views have offsets of 32 bits.
const BUFFER_BYTES: usize = 1 << 30;
/// Bytes that views have in themselves, if there are no more.
const INLINE_BYTES: u32 = 12;

fn item() -> FieldRef {
    Arc::new(Field::new_list_field(DataType::BinaryView, false))
}

/// The type of the column.
pub(super) fn state_type() -> DataType {
    DataType::List(item())
}

/// A part of a state.
enum Part {
    Shared(ScalarBuffer<u64>),
    /// In the copies: which, and where.
    Copied {
        buffer: usize,
        start: usize,
        words: usize,
    },
}

/// States that are being saved.
#[derive(Default)]
pub(super) struct Saver {
    parts: Vec<Part>,
    copies: Vec<Vec<u64>>,
    /// How many parts each state has, after those before it.
    ends: Vec<usize>,
}

impl Saver {
    /// Saves a state.
    pub(super) fn push(&mut self, header: &[u64], sites: &SiteRecords) {
        let (shared, words) = sites.parts();
        self.copy(header);
        self.parts.extend(shared.map(Part::Shared));
        self.copy(words);
        self.ends.push(self.parts.len());
    }

    /// Saves the state of nothing.
    pub(super) fn push_empty(&mut self) {
        self.ends.push(self.parts.len());
    }

    fn copy(&mut self, words: &[u64]) {
        if words.is_empty() {
            return;
        }
        let bytes = |words: &[u64]| size_of_val(words);
        let has_room = |last: &Vec<u64>| bytes(last) + bytes(words) <= BUFFER_BYTES;
        if !self.copies.last().is_some_and(has_room) {
            self.copies.push(vec![]);
        }
        let buffer = self.copies.len() - 1;
        if let Some(copies) = self.copies.last_mut() {
            let start = copies.len();
            copies.extend_from_slice(words);
            self.parts.push(Part::Copied {
                buffer,
                start,
                words: words.len(),
            });
        }
    }

    /// The column.
    ///
    /// # Errors
    /// If there are too many parts, or one is too long.
    pub(super) fn finish(self) -> Result<ArrayRef> {
        let too_many = || {
            exec_datafusion_err!(
                "the states of a batch of groups have more than 2^31 parts; lower datafusion.execution.batch_size"
            )
        };
        let mut views = BinaryViewBuilder::with_capacity(self.parts.len());
        let copies = self.copies.into_iter().map(Buffer::from_vec);
        let copies: Vec<u32> = copies.map(|copies| views.append_block(copies)).collect();
        for part in self.parts {
            let (block, start, words) = match part {
                Part::Shared(words) => {
                    let length = words.len();
                    (views.append_block(words.into_inner()), 0, length)
                }
                Part::Copied {
                    buffer,
                    start,
                    words,
                } => (copies.get(buffer).copied().unwrap_or(0), start, words),
            };
            let bytes = |words: usize| u32::try_from(words * size_of::<u64>());
            let (Ok(start), Ok(length)) = (bytes(start), bytes(words)) else {
                return Err(too_many());
            };
            views.try_append_view(block, start, length)?;
        }
        let mut offsets = vec![0i32];
        for end in self.ends {
            offsets.push(i32::try_from(end).map_err(|_| too_many())?);
        }
        Ok(Arc::new(ListArray::try_new(
            item(),
            OffsetBuffer::new(ScalarBuffer::from(offsets)),
            Arc::new(views.finish()),
            None,
        )?))
    }
}

/// Saved states, viewed.
pub(crate) struct SavedSites<'a> {
    list: &'a ListArray,
    parts: &'a BinaryViewArray,
}

impl<'a> SavedSites<'a> {
    /// State column 0.
    pub(super) fn try_new(states: &'a [ArrayRef]) -> Result<Self> {
        let found = column(states, 0)?;
        let list = found.as_list_opt::<i32>();
        match list.and_then(|list| Some((list, list.values().as_binary_view_opt()?))) {
            Some((list, parts)) => Ok(Self { list, parts }),
            None => internal_err!(
                "a state of an aggregate over pairs of sites must be a list of binary views, found {}",
                found.data_type()
            ),
        }
    }

    /// The parts of a state; none of NULL. `None` for a part that is not of whole words.
    pub(super) fn parts(&self, row: usize) -> impl Iterator<Item = Option<ScalarBuffer<u64>>> {
        let offsets = self.list.value_offsets();
        let range = match offsets.get(row..row + 2) {
            // Offsets of lists are not negative and never decrease.
            Some(&[start, end]) if self.list.is_valid(row) => start as usize..end as usize,
            _ => 0..0,
        };
        range.map(|at| self.part(at))
    }

    fn part(&self, at: usize) -> Option<ScalarBuffer<u64>> {
        let bytes = (at < self.parts.len()).then(|| self.parts.value(at))?;
        if !bytes.len().is_multiple_of(size_of::<u64>()) {
            return None;
        }
        let view = ByteView::from(*self.parts.views().get(at)?);
        let is_aligned = bytes.as_ptr().align_offset(size_of::<u64>()) == 0;
        if view.length <= INLINE_BYTES || !is_aligned {
            let words = bytes.as_chunks().0.iter();
            return Some(words.map(|word| u64::from_le_bytes(*word)).collect());
        }
        let buffer = self.parts.data_buffers().get(view.buffer_index as usize)?;
        let part = buffer.slice_with_length(view.offset as usize, view.length as usize);
        Some(ScalarBuffer::from(part))
    }
}

#[cfg(test)]
mod tests {
    use arrow::compute::{concat, take};

    use super::*;
    use crate::counts::sites::{Copies, SiteBits};

    fn sites(copies: usize, rows: usize) -> SiteRecords {
        let mut sites = SiteRecords::default();
        let bits = SiteBits {
            alternate: vec![1; copies.div_ceil(64)],
            called: vec![],
            n: copies,
            d: copies.div_ceil(64),
        };
        (0..rows).for_each(|row| sites.push(row as f64, std::slice::from_ref(&bits)));
        sites
    }

    /// States come back, also where rows of them were taken; those of many words without being copied.
    #[test]
    fn states_come_back() {
        let copies = 10_000;
        let all = [sites(copies, 3), sites(copies, 0), sites(copies, 7_000)];
        let mut saver = Saver::default();
        all.iter().for_each(|sites| saver.push(&[7, 8], sites));
        saver.push_empty();
        let column = saver.finish().unwrap();
        assert_eq!(*column.data_type(), state_type());
        let rows = arrow::array::UInt64Array::from(vec![3, 2, 1, 0]);
        let taken = take(&column, &rows, None).unwrap();
        let both = concat(&[&column, &taken]).unwrap();
        let columns = [both];
        let saved = SavedSites::try_new(&columns).unwrap();
        let of = Copies {
            first: copies,
            second: None,
        };
        for (row, at) in [0usize, 1, 2, 3, 3, 2, 1, 0].into_iter().enumerate() {
            let mut parts = saved.parts(row);
            let Some(expected) = all.get(at) else {
                assert!(parts.next().is_none());
                continue;
            };
            assert_eq!(parts.next().unwrap().unwrap().as_ref(), [7, 8]);
            let mut read = SiteRecords::default();
            for part in parts {
                assert!(read.extend(part.unwrap(), of));
            }
            assert_eq!(read.len(), expected.len());
            let words = |sites: &SiteRecords| {
                let (shared, words) = sites.parts();
                let mut all: Vec<u64> = shared.flat_map(|part| part.to_vec()).collect();
                all.extend_from_slice(words);
                all
            };
            assert_eq!(words(&read), words(expected));
            let first = |sites: &SiteRecords| sites.parts().0.next().map(|part| part.as_ptr());
            assert_eq!(first(&read), first(expected), "{row}");
        }
    }

    #[test]
    fn other_columns_are_refused() {
        let other: [ArrayRef; 1] = [Arc::new(arrow::array::Int64Array::from(vec![1]))];
        assert!(SavedSites::try_new(&other).is_err());
        assert!(SavedSites::try_new(&[]).is_err());
    }
}
