//! Reads arguments that are allele counts, for all functions: any list of integers, as slices of the child buffer, without building an
//! array per row.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, FieldRef, Int32Type};
use datafusion::common::{Result, exec_err, plan_err};

pub use crate::scan::copies::{
    COPIES_BESIDE_KEY, COPIES_DEFERRED, COPIES_KEY, copies_of, with_copies,
};
use crate::scan::found_type;

/// Whether `data_type` is a list of integers, the type of allele counts.
pub fn is_counts_type(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            item.data_type().is_integer()
        }
        DataType::Null => true,
        _ => false,
    }
}

/// Fails with a message that names the function and its argument unless `field` is a list of integers.
pub fn expect_counts(function: &str, position: usize, field: &FieldRef) -> Result<()> {
    if is_counts_type(field.data_type()) {
        return Ok(());
    }
    plan_err!(
        "{function}: argument {} must be allele counts (a list of integers), found {}; \
         make them with allele_counts(call_genotype [, population])",
        position + 1,
        found_type(field.data_type())
    )
}

enum Layout<'a> {
    Fixed(usize),
    Offsets32(&'a [i32]),
    Offsets64(&'a [i64]),
    AllNull,
}

/// Allele counts of a batch: row `i` is a slice of the child buffer.
pub struct CountsView<'a> {
    values: ScalarBuffer<i32>,
    layout: Layout<'a>,
    nulls: Option<NullBuffer>,
    len: usize,
}

impl<'a> CountsView<'a> {
    /// Views `array`, any list of integers. Int32 values (as of `allele_counts`) are shared; others are cast once, and only those
    /// of this array's rows, since it may be a small slice of a large one. A value that does not fit Int32, or is NULL or
    /// negative, is an error.
    pub fn try_new(array: &'a ArrayRef) -> Result<Self> {
        let len = array.len();
        let (child, layout) = match array.data_type() {
            DataType::FixedSizeList(_, width) => {
                let list = array.as_fixed_size_list();
                (Arc::clone(list.values()), Layout::Fixed(*width as usize))
            }
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                let (first, last) = (
                    list.value_offsets()[0] as usize,
                    list.value_offsets()[len] as usize,
                );
                (
                    list.values().slice(first, last - first),
                    Layout::Offsets32(list.value_offsets()),
                )
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                let (first, last) = (
                    list.value_offsets()[0] as usize,
                    list.value_offsets()[len] as usize,
                );
                (
                    list.values().slice(first, last - first),
                    Layout::Offsets64(list.value_offsets()),
                )
            }
            DataType::Null => {
                let nulls = Some(NullBuffer::new_null(len));
                return Ok(Self {
                    values: ScalarBuffer::default(),
                    layout: Layout::AllNull,
                    nulls,
                    len,
                });
            }
            other => return exec_err!("allele counts must be a list of integers, found {other}"),
        };
        let values = match child.data_type() {
            DataType::Int32 => child.as_primitive::<Int32Type>().values().clone(),
            data_type if data_type.is_integer() => {
                let options = arrow::compute::CastOptions {
                    safe: false,
                    ..Default::default()
                };
                let cast = arrow::compute::cast_with_options(&child, &DataType::Int32, &options)?;
                cast.as_primitive::<Int32Type>().values().clone()
            }
            other => {
                return exec_err!(
                    "allele counts must be a list of integers, found a list of {other}"
                );
            }
        };
        let view = Self {
            values,
            layout,
            nulls: array.nulls().cloned(),
            len,
        };
        let child_nulls = child.nulls().filter(|nulls| nulls.null_count() > 0);
        if child_nulls.is_some() || view.has_negatives() {
            view.check_rows(child_nulls)?;
        }
        Ok(view)
    }

    /// Whether any value is negative, those of NULL rows included.
    fn has_negatives(&self) -> bool {
        // Without an early exit the loop is vectorised; the sign bit is tested once at the end.
        self.values.iter().fold(0, |all, &count| all | count) < 0
    }

    /// The exact check, row by row: NULL and negative values are errors only in rows that are not NULL.
    fn check_rows(&self, child_nulls: Option<&NullBuffer>) -> Result<()> {
        for row in (0..self.len).filter(|&row| !self.is_null(row)) {
            for at in self.range(row) {
                if child_nulls.is_some_and(|nulls| nulls.is_null(at)) {
                    return exec_err!(
                        "allele counts must not hold NULL; row {row} of the batch does"
                    );
                }
                if self.values[at] < 0 {
                    return exec_err!(
                        "allele counts must not be negative; row {row} of the batch holds {}",
                        self.values[at]
                    );
                }
            }
        }
        Ok(())
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether row `row` is NULL. Such a row has no counts, and every aggregate skips it.
    #[inline(always)]
    pub fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// Whether any row is NULL.
    pub fn has_nulls(&self) -> bool {
        self.nulls.is_some()
    }

    #[inline(always)] // called for every row and statistic
    fn range(&self, row: usize) -> std::ops::Range<usize> {
        match self.layout {
            Layout::Fixed(width) => row * width..(row + 1) * width,
            Layout::Offsets32(offsets) => {
                (offsets[row] - offsets[0]) as usize..(offsets[row + 1] - offsets[0]) as usize
            }
            Layout::Offsets64(offsets) => {
                (offsets[row] - offsets[0]) as usize..(offsets[row + 1] - offsets[0]) as usize
            }
            Layout::AllNull => 0..0,
        }
    }

    /// All rows, if each has exactly `K` counts by its type.
    #[inline(always)]
    pub fn of_width<const K: usize>(&self) -> Option<&[[i32; K]]> {
        match self.layout {
            Layout::Fixed(width) if width == K => Some(self.values.as_chunks().0),
            _ => None,
        }
    }

    /// The counts of allele 0, 1, … at row `row`; none is negative.
    #[inline(always)]
    pub fn row(&self, row: usize) -> &[i32] {
        &self.values[self.range(row)]
    }
}
