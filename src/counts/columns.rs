//! [`CountColumns`]: the counts of several sample sets, each a column over the rows of a chunk, in one allocation.
//!
//! A row is counted in every set before the next row. So consecutive columns are an odd number of cache lines apart: the same rows of many
//! columns then lie in different sets of the cache, however many rows there are.
//!
//! Counts that are complete can be shared with the arrays of a batch, without a copy. Invariant: shared counts do not change; the next
//! chunk is counted in another allocation unless no array has them any more.

use std::ops::Range;

use arrow::buffer::{Buffer, ScalarBuffer};

use super::count_width::CountWidth;
use super::error::CountError;

/// Elements of a cache line.
const LINE: usize = 64 / size_of::<i32>();

/// Columns of counts, all of the same length.
#[derive(Debug, Clone, Default)]
pub struct CountColumns {
    /// The counts while they are made; empty once they are shared.
    values: Vec<i32>,
    shared: Option<ScalarBuffer<i32>>,
    columns: usize,
    /// Elements of a column.
    elements: usize,
    /// From the start of one column to that of the next.
    stride: usize,
}

impl CountColumns {
    /// Makes room for `columns` columns of `rows` rows of `width` counts, and sets them to zero; the allocation is reused.
    pub(super) fn reset(
        &mut self,
        columns: usize,
        rows: usize,
        width: usize,
    ) -> Result<(), CountError> {
        let too_large =
            || CountError::TooLarge(format!("the counts of {rows} rows with {width} classes"));
        let len = rows.checked_mul(width).ok_or_else(too_large)?;
        let stride = (len.div_ceil(LINE) | 1).checked_mul(LINE);
        let stride = stride.ok_or_else(too_large)?;
        let total = stride.checked_mul(columns).ok_or_else(too_large)?;
        self.reuse();
        self.values.clear();
        self.values
            .try_reserve_exact(total)
            .map_err(|_| too_large())?;
        self.values.resize(total, 0);
        (self.columns, self.elements, self.stride) = (columns, len, stride);
        Ok(())
    }

    /// Makes `values` the counts: `columns` columns of `elements` counts of this width, one after the other. Without a copy where they are
    /// of four bytes. Returns the bytes behind them; `None` if there are fewer.
    pub(super) fn set(
        &mut self,
        values: &Buffer,
        width: CountWidth,
        columns: usize,
        elements: usize,
    ) -> Option<Buffer> {
        let len = columns.checked_mul(elements)?;
        let bytes = len.checked_mul(width.bytes())?;
        let narrow = values.get(..bytes)?;
        self.reuse();
        self.values.clear();
        match width {
            CountWidth::One => self.values.extend(narrow.iter().map(|n| i32::from(*n))),
            CountWidth::Two => {
                let narrow: &[u16] = bytemuck::try_cast_slice(narrow).ok()?;
                self.values.extend(narrow.iter().map(|n| i32::from(*n)));
            }
            CountWidth::Four => {
                self.shared = Some(ScalarBuffer::new(
                    values.slice_with_length(0, bytes),
                    0,
                    len,
                ));
            }
        }
        (self.columns, self.elements, self.stride) = (columns, elements, elements);
        Some(values.slice(bytes))
    }

    /// Takes back the allocation of shared counts, unless an array has them: then they are left to it.
    fn reuse(&mut self) {
        if let Some(shared) = self.shared.take() {
            self.values = shared.into_inner().into_vec().unwrap_or_default();
        }
    }

    /// Lets arrays share the counts from now on, until they are reset.
    pub fn share(&mut self) {
        if self.shared.is_none() {
            self.shared = Some(std::mem::take(&mut self.values).into());
        }
    }

    /// The counts in `range` of a column, shared where [`share`](Self::share) allows it.
    pub fn part(&self, column: usize, range: Range<usize>) -> Option<ScalarBuffer<i32>> {
        match &self.shared {
            Some(shared) if range.start <= range.end && range.end <= self.elements => {
                let start = self.start(column, range.start)?;
                Some(shared.slice(start, range.len()))
            }
            Some(_) => None,
            None => Some(self.get(column)?.get(range)?.to_vec().into()),
        }
    }

    /// Number of columns.
    pub fn len(&self) -> usize {
        self.columns
    }

    /// Whether there are no columns.
    pub fn is_empty(&self) -> bool {
        self.columns == 0
    }

    /// A column.
    pub fn get(&self, column: usize) -> Option<&[i32]> {
        let start = self.start(column, 0)?;
        let values = self.shared.as_deref().unwrap_or(&self.values);
        values.get(start..start + self.elements)
    }

    /// A column, which is not shared.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self, column: usize) -> Option<&mut [i32]> {
        let start = self.start(column, 0)?;
        self.values.get_mut(start..start + self.elements)
    }

    /// Row `row` of a column of rows of `width` counts.
    #[inline(always)]
    pub(super) fn row_mut(
        &mut self,
        column: usize,
        row: usize,
        width: usize,
    ) -> Option<&mut [i32]> {
        let start = self.start(column, row * width)?;
        self.values.get_mut(start..start + width)
    }

    /// Where element `at` of a column is.
    #[inline(always)]
    fn start(&self, column: usize, at: usize) -> Option<usize> {
        (column < self.columns && at <= self.elements).then_some(column * self.stride + at)
    }

    /// Every column.
    pub fn iter(&self) -> impl Iterator<Item = &[i32]> {
        (0..self.columns).filter_map(|column| self.get(column))
    }

    /// Every column.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut [i32]> {
        let len = self.elements;
        let columns = self.values.chunks_exact_mut(self.stride.max(1));
        columns.filter_map(move |column| column.get_mut(..len))
    }
}

impl PartialEq for CountColumns {
    fn eq(&self, other: &Self) -> bool {
        self.columns == other.columns && self.iter().eq(other.iter())
    }
}

impl Eq for CountColumns {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_apart() {
        let mut columns = CountColumns::default();
        assert!(columns.is_empty() && columns.get(0).is_none());
        for (n, rows, width) in [(3, 5, 2), (2, 16, 2), (1, 0, 3), (0, 4, 2)] {
            columns.reset(n, rows, width).unwrap();
            assert_eq!(columns.len(), n);
            assert_eq!((columns.stride / LINE) % 2, 1);
            for (at, column) in columns.iter_mut().enumerate() {
                assert_eq!(column, vec![0; rows * width]);
                column.fill(at as i32 + 1);
            }
            for column in 0..n {
                let filled = vec![column as i32 + 1; rows * width];
                assert_eq!(columns.get(column).unwrap(), filled);
                assert_eq!(columns.get_mut(column).unwrap(), filled);
                for row in 0..rows {
                    let row = columns.row_mut(column, row, width).unwrap();
                    assert_eq!(row, vec![column as i32 + 1; width]);
                }
            }
            assert!(columns.get(n).is_none() && columns.row_mut(n, 0, width).is_none());
        }
        assert!(columns.reset(2, usize::MAX, 2).is_err());
    }

    #[test]
    fn shared_counts_do_not_change() {
        let mut columns = CountColumns::default();
        columns.reset(2, 3, 2).unwrap();
        columns.get_mut(1).unwrap().fill(7);
        assert_eq!(columns.part(1, 2..4).unwrap(), vec![7; 2], "a copy");
        columns.share();
        let part = columns.part(1, 2..4).unwrap();
        assert_eq!(part, vec![7; 2]);
        assert_eq!(part.as_ptr(), columns.get(1).unwrap()[2..].as_ptr());
        assert!(columns.part(1, 2..7).is_none() && columns.part(2, 0..1).is_none());
        columns.reset(2, 3, 2).unwrap();
        columns.get_mut(1).unwrap().fill(1);
        assert_eq!(part, vec![7; 2]);
        // Nobody has these, so that the allocation is used again.
        let before = columns.get(0).unwrap().as_ptr();
        columns.share();
        columns.reset(2, 3, 2).unwrap();
        assert_eq!(columns.get(0).unwrap().as_ptr(), before);
        assert_eq!(columns.get(1).unwrap(), vec![0; 6]);
    }

    #[test]
    fn columns_of_others_are_shared() {
        let bytes = Buffer::from_vec(vec![1i32, 2, 3, 4, 5]);
        let mut columns = CountColumns::default();
        let rest = columns.set(&bytes, CountWidth::Four, 2, 2).unwrap();
        assert_eq!(rest.typed_data::<i32>(), [5]);
        assert_eq!(columns.iter().collect::<Vec<_>>(), [[1, 2], [3, 4]]);
        assert_eq!(
            columns.part(1, 0..2).unwrap().as_ptr(),
            bytes.typed_data()[2..].as_ptr()
        );
        assert_eq!(columns.set(&bytes, CountWidth::Four, 2, 3), None);
        let narrow = Buffer::from_vec(vec![1u16, 2, 3]);
        let rest = columns.set(&narrow, CountWidth::Two, 1, 2).unwrap();
        assert_eq!(rest.typed_data::<u16>(), [3]);
        assert_eq!(columns.get(0).unwrap(), [1, 2]);
        columns.reset(1, 2, 1).unwrap();
        assert_eq!(columns.get(0).unwrap(), [0, 0]);
        assert_eq!(bytes.typed_data::<i32>(), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn equal_columns_are_equal() {
        let made = |n, rows, value| {
            let mut columns = CountColumns::default();
            columns.reset(n, rows, 1).unwrap();
            columns.iter_mut().for_each(|column| column.fill(value));
            columns
        };
        assert_eq!(made(2, 3, 1), made(2, 3, 1));
        assert_ne!(made(2, 3, 1), made(2, 3, 2));
        assert_ne!(made(2, 3, 1), made(2, 4, 1));
        assert_ne!(made(2, 3, 1), made(3, 3, 1));
    }
}
