//! Shared by all scalar functions: checking arguments while planning, reading arguments that are columns or constants, and
//! building results row by row.
//!
//! A constant is an array of one row that is read for every row; it is never expanded. If all arguments are constants, so is
//! the result.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, BooleanBufferBuilder,
    FixedSizeListArray, Int64Array, ListArray, NullBufferBuilder, PrimitiveArray,
};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{Result, ScalarValue, exec_err, internal_err, plan_err};
use datafusion::logical_expr::{ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs};

use crate::functions::counts_arg::{CountsView, expect_counts};
use crate::functions::documentation;
use crate::scan::is_genotype_type;

/// Defines the struct of a strict, immutable function with user-defined argument types.
macro_rules! function_struct {
    ($(#[$attribute:meta])* $name:ident) => {
        $(#[$attribute])*
        #[derive(Debug, PartialEq, Eq, Hash)]
        pub struct $name {
            signature: datafusion::logical_expr::Signature,
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }

        impl $name {
            /// The function, to be registered on a session.
            pub fn new() -> Self {
                let volatility = datafusion::logical_expr::Volatility::Immutable;
                Self { signature: datafusion::logical_expr::Signature::user_defined(volatility) }
            }
        }
    };
}

/// The methods that are the same in all of them: name, signature, strictness (NULL if any argument is NULL), and the
/// documentation, which the file defines as `fn documentation() -> Documentation`.
macro_rules! function_identity {
    ($name:literal) => {
        fn name(&self) -> &str {
            $name
        }

        fn signature(&self) -> &datafusion::logical_expr::Signature {
            &self.signature
        }

        fn is_strict(&self) -> bool {
            true
        }

        fn documentation(&self) -> Option<&datafusion::logical_expr::Documentation> {
            static DOCUMENTATION: std::sync::LazyLock<datafusion::logical_expr::Documentation> =
                std::sync::LazyLock::new(documentation);
            Some(&DOCUMENTATION)
        }
    };
}

pub(super) use {function_identity, function_struct};

/// The documentation of a function: what it does, how to call it, and what each argument is.
pub(super) fn document(
    description: &str,
    syntax: &str,
    example: &str,
    arguments: &[(&str, &str)],
) -> Documentation {
    let mut builder = documentation::document(description, syntax, example);
    for (name, description) in arguments {
        builder = builder.with_argument(*name, *description);
    }
    builder.build()
}

/// The documentation of an argument of counts.
pub(super) const COUNTS: (&str, &str) = (
    "ac",
    "Allele counts: a list of integers, as `allele_counts(call_genotype, 'POP')` gives them.",
);

// ---- while planning --------------------------------------------------------------------------------------------

/// Fails unless the number of arguments is in `min..=max`; `syntax` shows what was expected.
pub(super) fn check_arity(syntax: &str, types: &[DataType], min: usize, max: usize) -> Result<()> {
    if (min..=max).contains(&types.len()) {
        return Ok(());
    }
    // Aggregates take call_genotype; these functions do not.
    let hint = match types.first().is_some_and(is_genotype_type) {
        true => "; allele_counts(call_genotype, population) makes the counts of one population",
        false => "",
    };
    plan_err!(
        "wrong number of arguments: expected {syntax}, found {}{hint}",
        types.len()
    )
}

/// The type that argument `position` is coerced to, if it is allele counts; an untyped empty list is, too.
pub(super) fn coerce_counts(
    function: &str,
    position: usize,
    data_type: &DataType,
) -> Result<DataType> {
    let empty = |item: &FieldRef| item.data_type().is_null();
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _)
            if empty(item) =>
        {
            Ok(DataType::new_list(DataType::Int32, true))
        }
        _ => {
            expect_counts(
                function,
                position,
                &Arc::new(Field::new("counts", data_type.clone(), true)),
            )?;
            Ok(data_type.clone())
        }
    }
}

/// [`coerce_counts`] for functions whose arguments are all allele counts.
pub(super) fn coerce_all_counts(function: &str, types: &[DataType]) -> Result<Vec<DataType>> {
    types
        .iter()
        .enumerate()
        .map(|(position, data_type)| coerce_counts(function, position, data_type))
        .collect()
}

/// The type that argument `position` is coerced to, if it is an integer: Int64.
pub(super) fn coerce_integer(
    function: &str,
    position: usize,
    name: &str,
    data_type: &DataType,
) -> Result<DataType> {
    if data_type.is_integer() || data_type.is_null() {
        return Ok(DataType::Int64);
    }
    plan_err!(
        "{function}: argument {} ({name}) must be an integer, found {data_type}",
        position + 1
    )
}

/// The type that argument `position` is coerced to, if it is a string.
pub(super) fn coerce_string(
    function: &str,
    position: usize,
    name: &str,
    data_type: &DataType,
) -> Result<DataType> {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Ok(data_type.clone()),
        DataType::Null => Ok(DataType::Utf8),
        DataType::Dictionary(_, values) => coerce_string(function, position, name, values),
        _ => plan_err!(
            "{function}: argument {} ({name}) must be a string, found {data_type}",
            position + 1
        ),
    }
}

/// The type that argument `position` is coerced to, if it is a list of strings.
pub(super) fn coerce_strings(
    function: &str,
    position: usize,
    name: &str,
    data_type: &DataType,
) -> Result<DataType> {
    match data_type {
        DataType::Null => Ok(DataType::new_list(DataType::Utf8, true)),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            match item.data_type() {
                DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Ok(data_type.clone()),
                DataType::Null => Ok(DataType::new_list(DataType::Utf8, true)),
                _ => plan_err!(
                    "{function}: argument {} ({name}) must be a list of strings, found {data_type}",
                    position + 1
                ),
            }
        }
        _ => plan_err!(
            "{function}: argument {} ({name}) must be a list of strings, found {data_type}",
            position + 1
        ),
    }
}

/// Returns a planning error if argument `position` is a constant that is not positive.
pub(super) fn check_positive_constant(
    function: &str,
    args: &ReturnFieldArgs,
    position: usize,
    name: &str,
) -> Result<()> {
    let Some(Some(constant)) = args.scalar_arguments.get(position) else {
        return Ok(());
    };
    match constant.cast_to(&DataType::Int64)? {
        ScalarValue::Int64(Some(value)) if value <= 0 => {
            plan_err!("{function}: {name} must be a positive number, found {value}")
        }
        _ => Ok(()),
    }
}

// ---- reading arguments -----------------------------------------------------------------------------------------

/// The arguments of one call as arrays; a constant is one row long.
pub(super) struct Inputs {
    function: String,
    arrays: Vec<ArrayRef>,
    constant: Vec<bool>,
    /// Number of rows to compute: 1 where all arguments are constants.
    pub rows: usize,
}

impl Inputs {
    pub(super) fn new(function: &str, args: &ScalarFunctionArgs) -> Result<Self> {
        let constant: Vec<bool> = args
            .args
            .iter()
            .map(|arg| matches!(arg, ColumnarValue::Scalar(_)))
            .collect();
        let arrays = args
            .args
            .iter()
            .map(|arg| match arg {
                ColumnarValue::Array(array) if array.len() == args.number_rows => {
                    Ok(Arc::clone(array))
                }
                ColumnarValue::Array(array) => {
                    internal_err!(
                        "{function}: {} rows in an argument, expected {}",
                        array.len(),
                        args.number_rows
                    )
                }
                ColumnarValue::Scalar(scalar) => scalar.to_array_of_size(1),
            })
            .collect::<Result<_>>()?;
        let rows = if constant.iter().all(|&constant| constant) {
            1
        } else {
            args.number_rows
        };
        Ok(Self {
            function: function.to_string(),
            arrays,
            constant,
            rows,
        })
    }

    fn get(&self, position: usize) -> Result<(&ArrayRef, bool)> {
        match (self.arrays.get(position), self.constant.get(position)) {
            (Some(array), Some(&constant)) => Ok((array, constant)),
            _ => internal_err!("{}: argument {} is missing", self.function, position + 1),
        }
    }

    /// Number of arguments.
    pub(super) fn len(&self) -> usize {
        self.arrays.len()
    }

    /// Argument `position` as allele counts.
    pub(super) fn counts(&self, position: usize) -> Result<Counts<'_>> {
        let (array, constant) = self.get(position)?;
        Ok(Counts {
            view: CountsView::try_new(array)?,
            constant,
        })
    }

    /// Argument `position` as integers.
    pub(super) fn integers(&self, position: usize) -> Result<Integers<'_>> {
        let (array, constant) = self.get(position)?;
        match array.as_primitive_opt::<Int64Type>() {
            Some(array) => Ok(Integers { array, constant }),
            None => internal_err!("{}: argument {} is not Int64", self.function, position + 1),
        }
    }

    /// Argument `position`, and whether it is a constant, for other readers.
    pub(super) fn array(&self, position: usize) -> Result<(&ArrayRef, bool)> {
        self.get(position)
    }

    /// The result, a constant if all arguments are constants.
    pub(super) fn finish(&self, array: ArrayRef) -> Result<ColumnarValue> {
        if self.constant.iter().all(|&constant| constant) {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(
                &array, 0,
            )?));
        }
        Ok(ColumnarValue::Array(array))
    }
}

/// An argument of allele counts.
pub(super) struct Counts<'a> {
    view: CountsView<'a>,
    constant: bool,
}

impl Counts<'_> {
    /// The counts at `row`; `None` where they are NULL.
    #[inline]
    pub(super) fn get(&self, row: usize) -> Option<&[i32]> {
        let row = if self.constant { 0 } else { row };
        (!self.view.is_null(row)).then(|| self.view.row(row))
    }
}

/// An argument of integers.
pub(super) struct Integers<'a> {
    array: &'a Int64Array,
    constant: bool,
}

impl Integers<'_> {
    /// The value at `row`; `None` where it is NULL.
    #[inline]
    pub(super) fn get(&self, row: usize) -> Option<i64> {
        let row = if self.constant { 0 } else { row };
        (!self.array.is_null(row)).then(|| self.array.value(row))
    }

    /// The values of all rows, unless it is a constant or holds NULL.
    pub(super) fn all(&self) -> Option<&[i64]> {
        (!self.constant && self.array.null_count() == 0).then(|| self.array.values().as_ref())
    }

    /// The value of a constant that is not NULL.
    pub(super) fn constant(&self) -> Option<i64> {
        if self.constant { self.get(0) } else { None }
    }
}

// ---- building results ------------------------------------------------------------------------------------------

/// A column of numbers: `value(row)` for each row.
pub(super) fn numbers<T: ArrowPrimitiveType>(
    rows: usize,
    mut value: impl FnMut(usize) -> Result<Option<T::Native>>,
) -> Result<ArrayRef> {
    let mut values = Vec::with_capacity(rows);
    let mut nulls = NullBufferBuilder::new(rows);
    for row in 0..rows {
        let value = value(row)?;
        nulls.append(value.is_some());
        values.push(value.unwrap_or_default());
    }
    Ok(Arc::new(PrimitiveArray::<T>::try_new(
        ScalarBuffer::from(values),
        nulls.finish(),
    )?))
}

/// A column of booleans: `value(row)` for each row.
pub(super) fn booleans(rows: usize, mut value: impl FnMut(usize) -> Option<bool>) -> ArrayRef {
    let mut values = BooleanBufferBuilder::new(rows);
    let mut nulls = NullBufferBuilder::new(rows);
    for row in 0..rows {
        let value = value(row);
        nulls.append(value.is_some());
        values.append(value.unwrap_or_default());
    }
    Arc::new(BooleanArray::new(values.finish(), nulls.finish()))
}

/// A function of one row of counts.
pub(super) fn map_counts<T: ArrowPrimitiveType>(
    function: &str,
    args: &ScalarFunctionArgs,
    value: impl Fn(&[i32]) -> Result<Option<T::Native>>,
) -> Result<ColumnarValue> {
    let inputs = Inputs::new(function, args)?;
    let counts = inputs.counts(0)?;
    inputs.finish(numbers::<T>(inputs.rows, |row| {
        counts.get(row).map_or(Ok(None), &value)
    })?)
}

/// Builder of a column of lists of the planned type.
pub(super) struct Lists<T: ArrowPrimitiveType> {
    item: FieldRef,
    /// Width of a FixedSizeList; `None` for a List.
    width: Option<usize>,
    values: Vec<T::Native>,
    offsets: Vec<i32>,
    nulls: NullBufferBuilder,
}

impl<T: ArrowPrimitiveType> Lists<T> {
    pub(super) fn new(data_type: &DataType, rows: usize) -> Result<Self> {
        let (item, width) = match data_type {
            DataType::List(item) => (item, None),
            DataType::FixedSizeList(item, width) => (item, usize::try_from(*width).ok()),
            other => return internal_err!("the planned type of a list is {other}"),
        };
        let values = Vec::with_capacity(rows.saturating_mul(width.unwrap_or(2)));
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        Ok(Self {
            item: Arc::clone(item),
            width,
            values,
            offsets,
            nulls: NullBufferBuilder::new(rows),
        })
    }

    /// Number of values so far, over all rows.
    pub(super) fn total(&self) -> usize {
        self.values.len()
    }

    /// Number of values that there is room for.
    pub(super) fn capacity(&self) -> usize {
        self.values.capacity()
    }

    /// Makes room for `capacity` values, and no more.
    pub(super) fn make_room(&mut self, capacity: usize) {
        let more = capacity.saturating_sub(self.values.len());
        self.values.reserve_exact(more);
    }

    pub(super) fn push(&mut self, row: impl IntoIterator<Item = T::Native>) -> Result<()> {
        let before = self.values.len();
        self.values.extend(row);
        self.end_row(before, true)
    }

    pub(super) fn push_null(&mut self) -> Result<()> {
        self.end_row(self.values.len(), false)
    }

    fn end_row(&mut self, before: usize, valid: bool) -> Result<()> {
        match self.width {
            Some(width) if self.values.len() - before > width => {
                return internal_err!(
                    "a row of {} values in lists of {width}",
                    self.values.len() - before
                );
            }
            Some(width) => self.values.resize(before + width, T::Native::default()),
            None => match i32::try_from(self.values.len()) {
                Ok(offset) => self.offsets.push(offset),
                Err(_) => {
                    return exec_err!("a batch of lists would hold more than {} values", i32::MAX);
                }
            },
        }
        self.nulls.append(valid);
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<ArrayRef> {
        let values = Arc::new(PrimitiveArray::<T>::try_new(
            ScalarBuffer::from(self.values),
            None,
        )?);
        let (rows, nulls) = (self.nulls.len(), self.nulls.finish());
        Ok(match self.width {
            Some(width) => {
                let width = i32::try_from(width).unwrap_or(i32::MAX);
                Arc::new(FixedSizeListArray::try_new_with_length(
                    self.item, width, values, nulls, rows,
                )?)
            }
            None => {
                let offsets = OffsetBuffer::new(ScalarBuffer::from(self.offsets));
                Arc::new(ListArray::try_new(self.item, offsets, values, nulls)?)
            }
        })
    }
}
