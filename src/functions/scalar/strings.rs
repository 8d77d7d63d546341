//! Reads arguments that are strings or lists of strings, in any of Arrow's layouts, without copying.

use arrow::array::{Array, ArrayRef, AsArray, LargeStringArray, StringArray, StringViewArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use datafusion::common::{Result, internal_err};

use super::support::Inputs;

enum Layout<'a> {
    Utf8(&'a StringArray),
    Large(&'a LargeStringArray),
    View(&'a StringViewArray),
    AllNull,
}

impl<'a> Layout<'a> {
    fn try_new(array: &'a ArrayRef) -> Result<Self> {
        Ok(match array.data_type() {
            DataType::Utf8 => Self::Utf8(array.as_string()),
            DataType::LargeUtf8 => Self::Large(array.as_string()),
            DataType::Utf8View => Self::View(array.as_string_view()),
            DataType::Null => Self::AllNull,
            other => return internal_err!("expected strings, found {other}"),
        })
    }

    #[inline]
    fn get(&self, at: usize) -> Option<&'a str> {
        match self {
            Self::Utf8(array) => (!array.is_null(at)).then(|| array.value(at)),
            Self::Large(array) => (!array.is_null(at)).then(|| array.value(at)),
            Self::View(array) => (!array.is_null(at)).then(|| array.value(at)),
            Self::AllNull => None,
        }
    }
}

/// An argument of strings.
pub(super) struct Strings<'a> {
    layout: Layout<'a>,
    constant: bool,
}

impl<'a> Strings<'a> {
    /// Argument `position`.
    pub(super) fn try_new(inputs: &'a Inputs, position: usize) -> Result<Self> {
        let (array, constant) = inputs.array(position)?;
        Ok(Self {
            layout: Layout::try_new(array)?,
            constant,
        })
    }

    /// The string at `row`; `None` where it is NULL.
    #[inline]
    pub(super) fn get(&self, row: usize) -> Option<&'a str> {
        self.layout.get(if self.constant { 0 } else { row })
    }
}

enum Offsets<'a> {
    Fixed(usize),
    Small(&'a [i32]),
    Large(&'a [i64]),
    AllNull,
}

/// An argument of lists of strings.
pub(super) struct StringLists<'a> {
    values: Layout<'a>,
    offsets: Offsets<'a>,
    nulls: Option<&'a NullBuffer>,
    constant: bool,
}

impl<'a> StringLists<'a> {
    /// Argument `position`.
    pub(super) fn try_new(inputs: &'a Inputs, position: usize) -> Result<Self> {
        let (array, constant) = inputs.array(position)?;
        let (values, offsets) = match array.data_type() {
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                (
                    Layout::try_new(list.values())?,
                    Offsets::Small(list.value_offsets()),
                )
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                (
                    Layout::try_new(list.values())?,
                    Offsets::Large(list.value_offsets()),
                )
            }
            DataType::FixedSizeList(_, width) => {
                let list = array.as_fixed_size_list();
                (
                    Layout::try_new(list.values())?,
                    Offsets::Fixed(*width as usize),
                )
            }
            DataType::Null => (Layout::AllNull, Offsets::AllNull),
            other => return internal_err!("expected lists of strings, found {other}"),
        };
        Ok(Self {
            values,
            offsets,
            nulls: array.nulls(),
            constant,
        })
    }

    /// The strings at `row`, each `None` where it is NULL; `None` where the row is NULL.
    #[inline]
    pub(super) fn get(
        &self,
        row: usize,
    ) -> Option<impl ExactSizeIterator<Item = Option<&'a str>> + Clone + '_> {
        let row = if self.constant { 0 } else { row };
        if self.nulls.is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        let range = match self.offsets {
            Offsets::Fixed(width) => row * width..(row + 1) * width,
            Offsets::Small(offsets) => offsets[row] as usize..offsets[row + 1] as usize,
            Offsets::Large(offsets) => offsets[row] as usize..offsets[row + 1] as usize,
            Offsets::AllNull => return None,
        };
        Some(range.map(|at| self.values.get(at)))
    }
}
