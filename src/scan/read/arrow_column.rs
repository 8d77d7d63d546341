//! Converts decoded rows of an array to an Arrow column: VCZ's missing and fill values become NULLs and shorter lists.
//!
//! Invariant: the stored value is kept under each NULL. Kernels that move rows keep it, too, so that writing the rows as VCZ
//! tells fill from missing (`scan::write`). Nothing else depends on it.

use std::ops::Range;
use std::sync::Arc;

use super::dense::Dense;
use crate::codec::StringChunk;
use crate::scan::bits;
use crate::scan::codes::{Codes, FILL_TEXT};
use crate::scan::schema::{ColumnKind, ColumnSpec, time_type};
use crate::scan::value_error::ValueError;
use crate::store::{ElementType, TimeType};
use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, FixedSizeListArray, Int32Array, Int64Array,
    ListArray, ListBuilder, NullBufferBuilder, PrimitiveArray, StringBuilder, StringViewArray,
    StringViewBuilder, make_array,
};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{
    DataType, Field, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};

/// The names that a store's indices refer to.
#[derive(Debug, Default)]
pub struct Names {
    /// `contig_id`
    pub contigs: Vec<String>,
    /// `filter_id`
    pub filters: Vec<String>,
}

/// Evaluates `$body` with `$T` the Arrow type of a fixed-width numeric element.
macro_rules! for_number {
    ($element:expr, $T:ident => $body:expr, _ => $other:expr) => {
        match $element {
            ElementType::Int8 => {
                type $T = Int8Type;
                $body
            }
            ElementType::Int16 => {
                type $T = Int16Type;
                $body
            }
            ElementType::Int32 => {
                type $T = Int32Type;
                $body
            }
            ElementType::Int64 => {
                type $T = Int64Type;
                $body
            }
            ElementType::UInt8 => {
                type $T = UInt8Type;
                $body
            }
            ElementType::UInt16 => {
                type $T = UInt16Type;
                $body
            }
            ElementType::UInt32 => {
                type $T = UInt32Type;
                $body
            }
            ElementType::UInt64 => {
                type $T = UInt64Type;
                $body
            }
            ElementType::Float16 => {
                type $T = Float16Type;
                $body
            }
            ElementType::Float32 => {
                type $T = Float32Type;
                $body
            }
            ElementType::Float64 => {
                type $T = Float64Type;
                $body
            }
            _ => $other,
        }
    };
}

/// Rows `rows` of a dense chunk as an array of the column's type. Returns the reason if values contradict the metadata.
pub fn to_arrow(
    spec: &ColumnSpec,
    dense: &Dense,
    rows: Range<usize>,
    names: &Names,
) -> Result<ArrayRef, ValueError> {
    let per_row = spec.row_elements();
    let elements = rows.start * per_row..rows.end * per_row;
    match (spec.kind, dense) {
        (ColumnKind::Contig, Dense::Fixed(buffer)) => {
            contig_names(&contig_runs(&spec.array.element, buffer, elements)?, names)
        }
        // Int32 positions share the buffer.
        (ColumnKind::Position, Dense::Fixed(buffer))
            if spec.array.element == ElementType::Int32 =>
        {
            let values = ScalarBuffer::new(buffer.clone(), elements.start, elements.len());
            Ok(Arc::new(Int32Array::new(values, None)))
        }
        (ColumnKind::Position, Dense::Fixed(buffer)) => positions(
            &integers(&spec.array.element, buffer, elements)?,
            &spec.data_type,
        ),
        (ColumnKind::Filter, Dense::Fixed(buffer)) => {
            filters(&buffer.as_slice()[elements], per_row, rows.len(), names)
        }
        (ColumnKind::Scalar, Dense::Fixed(buffer)) => {
            values(spec, buffer, elements, Nulls::Missing)
        }
        (ColumnKind::Scalar, Dense::Strings(strings)) => Ok(string_views(strings, elements, false)),
        (ColumnKind::List, Dense::Fixed(buffer)) => {
            lists(spec, buffer, elements, per_row, rows.len())
        }
        (ColumnKind::List, Dense::Strings(strings)) => Ok(string_lists(
            strings,
            elements,
            per_row,
            rows.len(),
            spec.array.name == "variant_allele",
        )),
        (ColumnKind::Genotype, Dense::Fixed(buffer)) => nest(
            values(spec, buffer, elements, Nulls::Never)?,
            &spec.data_type,
            rows.len(),
        ),
        (ColumnKind::Nested, Dense::Fixed(buffer)) => nest(
            values(spec, buffer, elements, Nulls::MissingAndFill)?,
            &spec.data_type,
            rows.len(),
        ),
        (ColumnKind::Nested, Dense::Strings(strings)) => nest(
            string_views(strings, elements, true),
            &spec.data_type,
            rows.len(),
        ),
        (kind, Dense::Strings(_)) => Err(format!("strings cannot be shown as {kind:?}").into()),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Nulls {
    Never,
    Missing,
    MissingAndFill,
}

/// Elements as an Arrow array of their own type, without copying numbers.
fn values(
    spec: &ColumnSpec,
    buffer: &Buffer,
    range: Range<usize>,
    nulls: Nulls,
) -> Result<ArrayRef, ValueError> {
    let element = &spec.array.element;
    if *element == ElementType::Bool {
        let values = bits::from_bytes(&buffer.as_slice()[range]);
        return Ok(Arc::new(BooleanArray::new(values, None)));
    }
    if let ElementType::Time(time) = element {
        return times(time, buffer, range);
    }
    let nan = spec.nan_is_missing;
    for_number!(element, T => Ok(Arc::new(numbers::<T>(buffer, range, nulls, nan))), _ => Err(format!("{element} is not a number").into()))
}

/// Points in time, or spans; NaT is NULL.
fn times(time: &TimeType, buffer: &Buffer, range: Range<usize>) -> Result<ArrayRef, ValueError> {
    let stored = ScalarBuffer::<i64>::new(buffer.clone(), range.start, range.len());
    let mut validity = NullBufferBuilder::new(stored.len());
    let mut values = Vec::with_capacity(stored.len());
    for &count in stored.iter() {
        let is_time = count != TimeType::NONE;
        validity.append(is_time);
        values.push(match is_time {
            true => count.checked_mul(time.ticks.into()).ok_or_else(|| {
                format!("the time {count}, as {time}, does not fit 64 bits in Arrow's units")
            })?,
            false => count,
        });
    }
    let values = Int64Array::new(values.into(), validity.finish());
    let data = values.into_data().into_builder().data_type(time_type(time));
    data.build()
        .map(make_array)
        .map_err(|error| error.to_string().into())
}

fn numbers<T: ArrowPrimitiveType>(
    buffer: &Buffer,
    range: Range<usize>,
    nulls: Nulls,
    nan: bool,
) -> PrimitiveArray<T>
where
    T::Native: Codes,
{
    let values = ScalarBuffer::<T::Native>::new(buffer.clone(), range.start, range.len());
    let is_null = |value: &T::Native| match nulls {
        Nulls::Never => false,
        Nulls::Missing => value.is_missing() || nan && value.is_not_a_number(),
        Nulls::MissingAndFill => {
            value.is_missing() || value.is_fill() || nan && value.is_not_a_number()
        }
    };
    let validity = values.iter().any(is_null).then(|| {
        let mut builder = NullBufferBuilder::new(values.len());
        values
            .iter()
            .for_each(|value| builder.append(!is_null(value)));
        builder.finish()
    });
    PrimitiveArray::new(values, validity.flatten())
}

/// Wraps a flat array in the fixed-size lists of `data_type`.
fn nest(flat: ArrayRef, data_type: &DataType, rows: usize) -> Result<ArrayRef, ValueError> {
    let DataType::FixedSizeList(field, size) = data_type else {
        return Ok(flat);
    };
    let items = rows
        .checked_mul(*size as usize)
        .ok_or("a batch of this many elements does not fit in memory")?;
    let child = nest(flat, field.data_type(), items)?;
    let array =
        FixedSizeListArray::try_new_with_length(Arc::clone(field), *size, child, None, rows);
    array
        .map(|array| Arc::new(array) as ArrayRef)
        .map_err(|e| e.to_string().into())
}

/// Consecutive variants of one contig: its index and their number.
pub type ContigRun = (i64, usize);

/// Runs of the same contig, none of them empty. Usually a whole chunk is one run, which a comparison of bytes finds quickly.
pub fn contig_runs(
    element: &ElementType,
    buffer: &Buffer,
    range: Range<usize>,
) -> Result<Vec<ContigRun>, ValueError> {
    let width = element.size().unwrap_or_default();
    let bytes = buffer
        .get(range.start * width..range.end * width)
        .unwrap_or_default();
    if width > 0 && bytes.len() > width && bytes[width..] == bytes[..bytes.len() - width] {
        let one = integers(element, buffer, range.start..range.start + 1)?;
        return Ok(vec![(one[0], range.len())]);
    }
    Ok(integers(element, buffer, range)?
        .chunk_by(|a, b| a == b)
        .map(|run| (run[0], run.len()))
        .collect())
}

/// A value of `variant_contig` as an index into `contig_id`.
///
/// # Errors
/// The reason, if the code is not that of one of the store's `n_contigs` contigs.
pub fn contig_at(code: i64, n_contigs: usize) -> Result<usize, ValueError> {
    usize::try_from(code)
        .ok()
        .filter(|at| *at < n_contigs)
        .ok_or_else(|| {
            format!("the contig index {code} is outside contig_id, which has {n_contigs} contigs")
                .into()
        })
}

/// Integer elements of any width as Int64.
pub fn integers(
    element: &ElementType,
    buffer: &Buffer,
    range: Range<usize>,
) -> Result<Vec<i64>, ValueError> {
    macro_rules! widen {
        ($native:ty) => {
            ScalarBuffer::<$native>::new(buffer.clone(), range.start, range.len())
                .iter()
                .map(|&v| i64::from(v))
                .collect()
        };
    }
    Ok(match element {
        ElementType::Int8 => widen!(i8),
        ElementType::Int16 => widen!(i16),
        ElementType::Int32 => widen!(i32),
        ElementType::Int64 => widen!(i64),
        ElementType::UInt8 => widen!(u8),
        ElementType::UInt16 => widen!(u16),
        ElementType::UInt32 => widen!(u32),
        ElementType::UInt64 => {
            let values = ScalarBuffer::<u64>::new(buffer.clone(), range.start, range.len());
            let wide: Result<Vec<i64>, ValueError> = values
                .iter()
                .map(|&v| {
                    i64::try_from(v).map_err(|_| {
                        format!("the value {v} does not fit a signed 64-bit integer").into()
                    })
                })
                .collect();
            wide?
        }
        other => return Err(format!("expected integers, found {other}").into()),
    })
}

/// The names of contigs. The name is looked up once per run, and its view is repeated.
fn contig_names(runs: &[ContigRun], names: &Names) -> Result<ArrayRef, ValueError> {
    let mut distinct = StringViewBuilder::new();
    for (code, _) in runs {
        distinct.append_value(&names.contigs[contig_at(*code, names.contigs.len())?]);
    }
    let distinct = distinct.finish();
    let mut views = Vec::with_capacity(runs.iter().map(|(_, len)| len).sum());
    for (view, (_, len)) in distinct.views().iter().zip(runs) {
        views.resize(views.len() + len, *view);
    }
    let buffers = distinct.data_buffers().to_vec();
    // SAFETY: each view is copied from an array with the same buffers.
    let names = unsafe { StringViewArray::new_unchecked(views.into(), buffers, None) };
    Ok(Arc::new(names))
}

fn positions(values: &[i64], data_type: &DataType) -> Result<ArrayRef, ValueError> {
    if *data_type == DataType::Int64 {
        return Ok(Arc::new(Int64Array::from(values.to_vec())));
    }
    let narrow: Result<Vec<i32>, ValueError> = values
        .iter()
        .map(|&v| {
            i32::try_from(v)
                .map_err(|_| format!("the position {v} does not fit a 32-bit integer").into())
        })
        .collect();
    Ok(Arc::new(Int32Array::from(narrow?)))
}

fn filters(
    bytes: &[u8],
    per_row: usize,
    rows: usize,
    names: &Names,
) -> Result<ArrayRef, ValueError> {
    if per_row > names.filters.len() {
        return Err(format!(
            "variant_filter has {per_row} filters, but filter_id names {}",
            names.filters.len()
        )
        .into());
    }
    let mut builder = ListBuilder::new(StringBuilder::new());
    for row in 0..rows {
        let applies = &bytes[row * per_row..(row + 1) * per_row];
        for (name, _) in names
            .filters
            .iter()
            .zip(applies)
            .filter(|(_, applies)| **applies != 0)
        {
            builder.values().append_value(name);
        }
        builder.append(true);
    }
    Ok(Arc::new(builder.finish()))
}

fn lists(
    spec: &ColumnSpec,
    buffer: &Buffer,
    range: Range<usize>,
    per_row: usize,
    rows: usize,
) -> Result<ArrayRef, ValueError> {
    let element = &spec.array.element;
    if *element == ElementType::Bool {
        let values = bits::from_bytes(&buffer.as_slice()[range]);
        let values = BooleanArray::new(values, None);
        let offsets = OffsetBuffer::from_repeated_length(per_row, rows);
        let field = Arc::new(Field::new_list_field(DataType::Boolean, true));
        return Ok(Arc::new(ListArray::new(
            field,
            offsets,
            Arc::new(values),
            None,
        )));
    }
    let nan = spec.nan_is_missing;
    for_number!(element, T => Ok(number_lists::<T>(buffer, range, per_row, rows, nan)), _ => Err(format!("{element} is not a number").into()))
}

fn number_lists<T: ArrowPrimitiveType>(
    buffer: &Buffer,
    range: Range<usize>,
    per_row: usize,
    rows: usize,
    nan: bool,
) -> ArrayRef
where
    T::Native: Codes,
{
    let values = ScalarBuffer::<T::Native>::new(buffer.clone(), range.start, range.len());
    let mut items = Vec::with_capacity(values.len());
    let mut lengths = Vec::with_capacity(rows);
    for row in 0..rows {
        let row = &values[row * per_row..(row + 1) * per_row];
        let len = row
            .iter()
            .rposition(|value| !value.is_fill())
            .map_or(0, |last| last + 1);
        items.extend_from_slice(&row[..len]);
        lengths.push(len);
    }
    let mut validity = NullBufferBuilder::new(items.len());
    for value in &items {
        validity.append(!(value.is_missing() || value.is_fill() || nan && value.is_not_a_number()));
    }
    let items = PrimitiveArray::<T>::new(items.into(), validity.finish());
    let field = Arc::new(Field::new_list_field(T::DATA_TYPE, true));
    let offsets = OffsetBuffer::from_lengths(lengths);
    Arc::new(ListArray::new(field, offsets, Arc::new(items), None))
}

fn string_views(strings: &StringChunk, range: Range<usize>, fill_is_null: bool) -> ArrayRef {
    let mut builder = StringViewBuilder::with_capacity(range.len());
    let mut validity = NullBufferBuilder::new(range.len());
    for at in range {
        let text = strings.get(at);
        let is_fill = fill_is_null && text.is_empty();
        builder.append_value(if is_fill { FILL_TEXT } else { text });
        validity.append(!(is_fill || text == "."));
    }
    let (views, buffers, _) = builder.finish().into_parts();
    // SAFETY: the views and buffers are those of a valid array, and a NULL's view is valid, too.
    let array = unsafe { StringViewArray::new_unchecked(views, buffers, validity.finish()) };
    Arc::new(array)
}

fn string_lists(
    strings: &StringChunk,
    range: Range<usize>,
    per_row: usize,
    rows: usize,
    alleles: bool,
) -> ArrayRef {
    let mut builder = ListBuilder::new(StringBuilder::new());
    for row in 0..rows {
        let first = range.start + row * per_row;
        let len = (0..per_row)
            .rev()
            .find(|&i| !strings.get(first + i).is_empty())
            .map_or(0, |last| last + 1);
        for at in first..first + len {
            match strings.get(at) {
                "." if !alleles => builder.values().append_null(),
                text => builder.values().append_value(text),
            }
        }
        builder.append(true);
    }
    Arc::new(builder.finish())
}
