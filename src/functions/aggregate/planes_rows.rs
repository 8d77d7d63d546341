//! Bit-planes of genotypes as arguments and in saved states: rows of words, viewed in a list column.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, ListArray, PrimitiveArray};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, UInt64Type};
use datafusion::common::{Result, exec_datafusion_err, internal_err};

use super::statistic::{SiteInput, column};
use crate::counts::gathered::PlanesRow;

/// A list column of numbers, viewed.
pub(crate) struct Lists<'a, T: ArrowPrimitiveType> {
    list: &'a ListArray,
    values: &'a ScalarBuffer<T::Native>,
}

impl<'a, T: ArrowPrimitiveType> Lists<'a, T> {
    /// Argument or state column `at`.
    pub(crate) fn try_new(columns: &'a [ArrayRef], at: usize) -> Result<Self> {
        let found = column(columns, at)?;
        let list = found.as_list_opt::<i32>();
        let values = list.and_then(|list| Some((list, list.values().as_primitive_opt::<T>()?)));
        match values {
            Some((list, values)) => Ok(Self {
                list,
                values: values.values(),
            }),
            None => internal_err!(
                "column {at} of an aggregate must be a list of {}, found {}",
                T::DATA_TYPE,
                found.data_type()
            ),
        }
    }

    /// The numbers of a row; none where it is NULL.
    #[inline]
    pub(crate) fn row(&self, row: usize) -> &'a [T::Native] {
        self.values.get(self.range(row)).unwrap_or_default()
    }

    /// The rows that are not NULL: their places, and their numbers.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (usize, &'a [T::Native])> + '_ {
        let nulls = self.list.nulls();
        let bounds = self.list.value_offsets().windows(2).enumerate();
        bounds
            .filter(move |(row, _)| nulls.is_none_or(|nulls| nulls.is_valid(*row)))
            .map(|(row, bounds)| {
                // As below.
                let numbers = self.values.get(bounds[0] as usize..bounds[1] as usize);
                (row, numbers.unwrap_or_default())
            })
    }

    /// Where the numbers of a row are.
    #[inline]
    fn range(&self, row: usize) -> Range<usize> {
        let offsets = self.list.value_offsets();
        match offsets.get(row..row + 2) {
            // Offsets of lists are not negative, never decrease, and end among the values.
            Some(&[start, end]) if self.list.is_valid(row) => start as usize..end as usize,
            _ => 0..0,
        }
    }
}

/// A batch of genotypes as bit-planes.
pub(crate) type PlanesRows<'a> = Lists<'a, UInt64Type>;

impl SiteInput for PlanesRows<'_> {
    fn len(&self) -> usize {
        self.list.len()
    }

    fn is_null(&self, row: usize) -> bool {
        self.list.is_null(row)
    }

    fn has_nulls(&self) -> bool {
        self.list.null_count() > 0
    }
}

/// `words` as the bit-planes of a row with `copies` copies.
///
/// # Errors
/// If they are not bit-planes of that many copies.
#[inline(always)]
pub(crate) fn planes_row<'a>(name: &str, words: &'a [u64], copies: usize) -> Result<PlanesRow<'a>> {
    PlanesRow::try_new(words, copies).ok_or_else(|| {
        exec_datafusion_err!(
            "{name}: expected bit-planes of {copies} copies as the scan gives them, found {} words; write {name}(call_genotype [, population])",
            words.len()
        )
    })
}

/// The type of lists of numbers.
pub(crate) fn list_type(number: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(number, true)))
}

/// A list column; `number` is the type of its numbers.
pub(crate) fn lists<T: ArrowPrimitiveType>(
    number: DataType,
    rows: impl ExactSizeIterator<Item = Vec<T::Native>>,
) -> Result<ArrayRef> {
    let append = |values: &mut Vec<T::Native>, row: Vec<T::Native>| match values.is_empty() {
        // One row is not copied.
        true => *values = row,
        false => values.extend_from_slice(&row),
    };
    let mut offsets = Vec::with_capacity(rows.len() + 1);
    offsets.push(0i32);
    let mut values: Vec<T::Native> = vec![];
    for row in rows {
        append(&mut values, row);
        let end = i32::try_from(values.len()).map_err(|_| {
            exec_datafusion_err!(
                "the states of a batch of groups have more than 2^31 numbers; lower datafusion.execution.batch_size"
            )
        })?;
        offsets.push(end);
    }
    let values =
        PrimitiveArray::<T>::new(ScalarBuffer::from(values), None).with_data_type(number.clone());
    Ok(Arc::new(ListArray::try_new(
        Arc::new(Field::new_list_field(number, true)),
        OffsetBuffer::new(ScalarBuffer::from(offsets)),
        Arc::new(values),
        None,
    )?))
}
