//! [`elements`]: the values of a column as elements of its array.
//!
//! A NULL becomes VCZ's missing value, or fill if that is the value under it, as scans leave it. A value that readers would take for
//! missing or fill is an error.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray,
    StringViewArray,
};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    DataType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
};
use datafusion::common::{Result, exec_err};

use super::columns::{ColumnPlan, Role};
use super::names::WrittenNames;
use crate::codec::{ChunkData, StringChunk};
use crate::error::VczError;
use crate::scan::bits;
use crate::scan::codes::{Codes, FILL_TEXT};
use crate::scan::schema::time_type;
use crate::store::{ElementType, TimeType};

/// The elements of `column`, row-major.
///
/// # Errors
/// If a value has no place in the array: NULL where there is no missing value, a number that means missing, an unknown name.
pub fn elements(plan: &ColumnPlan, column: &ArrayRef, names: &WrittenNames) -> Result<ChunkData> {
    let array = &plan.array.name;
    match plan.role {
        Role::Contig => {
            let codes = contig_codes(array, column, names)?;
            Ok(ChunkData::Fixed(match plan.array.element {
                ElementType::Int8 => codes.iter().map(|&code| code as i8).collect(),
                ElementType::Int16 => codes.iter().map(|&code| code as i16).collect(),
                ElementType::Int32 => codes.iter().map(|&code| code as i32).collect(),
                _ => codes.iter().map(|&code| code as i64).collect(),
            }))
        }
        Role::Filter => filters(array, column, names),
        Role::List => lists(plan, column),
        Role::Position | Role::Genotype | Role::Scalar | Role::Nested => {
            let (leaf, nulls) = flat(column)?;
            leaf_elements(plan, &leaf, nulls.as_ref())
        }
    }
}

/// Indices of the contigs that `column` names.
///
/// # Errors
/// If a contig is NULL or unknown.
pub fn contig_codes(array: &str, column: &ArrayRef, names: &WrittenNames) -> Result<Vec<usize>> {
    let column = text(column)?;
    let mut codes = Vec::with_capacity(column.len());
    let mut last: Option<(&str, usize)> = None;
    for name in column.iter() {
        let Some(name) = name else {
            return exec_err!("column '{array}' has a NULL; every variant has a contig");
        };
        let code = match last {
            Some((known, code)) if known == name => code,
            _ => match names.contigs.get(name) {
                Some(code) => code,
                None => {
                    return exec_err!(
                        "column '{array}' has the contig '{name}', which is none of the {} contigs of the query's tables or of 'vcz.contigs'",
                        names.contigs.len()
                    );
                }
            },
        };
        last = Some((name, code));
        codes.push(code);
    }
    Ok(codes)
}

/// Rows of booleans: whether each filter applies.
fn filters(array: &str, column: &ArrayRef, names: &WrittenNames) -> Result<ChunkData> {
    let lists = list_of(column)?;
    let lists = lists.as_list::<i32>();
    let items = text(lists.values())?;
    let width = names.filters.len();
    let mut applies = vec![0u8; lists.len() * width];
    for (row, ends) in lists.value_offsets().windows(2).enumerate() {
        if lists.is_null(row) {
            continue;
        }
        for item in ends[0] as usize..ends[1] as usize {
            let name = if items.is_valid(item) {
                items.value(item)
            } else {
                "NULL"
            };
            let Some(at) = names.filters.get(name) else {
                return exec_err!(
                    "column '{array}' has the filter '{name}', which is none of the {width} filters of the query's tables or of 'vcz.filters'"
                );
            };
            applies[row * width + at] = 1;
        }
    }
    Ok(ChunkData::Fixed(Buffer::from_vec(applies)))
}

/// Rows of the array's width, padded with fill.
fn lists(plan: &ColumnPlan, column: &ArrayRef) -> Result<ChunkData> {
    let lists = list_of(column)?;
    let lists = lists.as_list::<i32>();
    let width = plan.array.row_elements();
    let ends: Vec<usize> = lists
        .value_offsets()
        .iter()
        .map(|&at| at as usize)
        .collect();
    let first = ends.first().copied().unwrap_or(0);
    let last = ends.last().copied().unwrap_or(0);
    let items = lists.values().slice(first, last - first);
    let spans = ends.windows(2).enumerate().map(|(row, ends)| {
        // A NULL may have values under it.
        let len = if lists.is_null(row) {
            0
        } else {
            ends[1] - ends[0]
        };
        (ends[0] - first, len, lists.is_null(row))
    });
    let spans: Vec<(usize, usize, bool)> = spans.collect();
    if let Some((_, len, _)) = spans.iter().find(|(_, len, _)| *len > width) {
        return exec_err!(
            "array '{}': a list has {len} values, more than {width}",
            plan.array.name
        );
    }
    match leaf_elements(plan, &items, items.logical_nulls().as_ref())? {
        ChunkData::Strings(strings) => {
            let mut padded = StringChunk::default();
            for (start, len, is_null) in spans {
                for at in 0..width {
                    let text = match at {
                        at if at < len => strings.get(start + at),
                        0 if is_null => ".",
                        _ => "",
                    };
                    padded.push(text).map_err(wrong(plan))?;
                }
            }
            Ok(ChunkData::Strings(padded))
        }
        ChunkData::Fixed(items) => {
            let (missing, fill) = codes_of(&plan.array.element);
            let size = plan.array.element.size().unwrap_or(1);
            let mut padded = Vec::with_capacity(spans.len() * width * size);
            for (start, len, is_null) in spans {
                if plan.array.element == ElementType::Bool && len < width {
                    return exec_err!(
                        "array '{}': lists of booleans have one length, found {len} and {width}; VCZ has no fill value of booleans",
                        plan.array.name
                    );
                }
                padded.extend_from_slice(&items[start * size..(start + len) * size]);
                for _ in len..width {
                    // An absent list is missing throughout, as bio2zarr has it.
                    padded.extend_from_slice(if is_null { &missing } else { &fill });
                }
            }
            Ok(ChunkData::Fixed(Buffer::from_vec(padded)))
        }
    }
}

/// The bytes of the missing and of the fill value.
fn codes_of(element: &ElementType) -> (Vec<u8>, Vec<u8>) {
    fn bytes<T: Codes + bytemuck::Pod>() -> (Vec<u8>, Vec<u8>) {
        let of = |code: Option<T>| code.map_or(vec![], |code| bytemuck::bytes_of(&code).to_vec());
        (of(T::MISSING), of(T::FILL))
    }
    match element {
        ElementType::Int8 => bytes::<i8>(),
        ElementType::Int16 => bytes::<i16>(),
        ElementType::Int32 => bytes::<i32>(),
        ElementType::Int64 => bytes::<i64>(),
        // A half float has the bits of an integer of two bytes.
        ElementType::Float16 => {
            let of = |code: Option<half::f16>| {
                code.map_or(vec![], |code| code.to_bits().to_ne_bytes().to_vec())
            };
            (of(half::f16::MISSING), of(half::f16::FILL))
        }
        ElementType::Float32 => bytes::<f32>(),
        ElementType::Float64 => bytes::<f64>(),
        ElementType::Time(_) => {
            let none = TimeType::NONE.to_ne_bytes().to_vec();
            (none.clone(), none)
        }
        _ => (vec![], vec![]),
    }
}

/// The values inside nested lists of fixed sizes, and which of them are NULL, themselves or because of a list around them.
fn flat(column: &ArrayRef) -> Result<(ArrayRef, Option<NullBuffer>)> {
    let mut at = Arc::clone(column);
    let mut outer: Option<NullBuffer> = None;
    while let Some(lists) = at.as_fixed_size_list_opt() {
        let size = usize::try_from(lists.value_length()).unwrap_or(0);
        let nulls = NullBuffer::union(outer.as_ref(), lists.nulls());
        outer = nulls.map(|nulls| nulls.expand(size));
        let items = Arc::clone(lists.values());
        at = items;
    }
    // Those of a dictionary's values, too.
    let nulls = NullBuffer::union(outer.as_ref(), at.logical_nulls().as_ref());
    Ok((at, nulls))
}

fn leaf_elements(
    plan: &ColumnPlan,
    leaf: &ArrayRef,
    nulls: Option<&NullBuffer>,
) -> Result<ChunkData> {
    macro_rules! numbers {
        ($type:ty) => {{
            let leaf = as_type(leaf, &<$type as ArrowPrimitiveType>::DATA_TYPE)?;
            numbers(plan, leaf.as_primitive::<$type>(), nulls).map(ChunkData::Fixed)
        }};
    }
    match plan.array.element {
        ElementType::Bool => booleans(plan, as_type(leaf, &DataType::Boolean)?.as_boolean(), nulls)
            .map(ChunkData::Fixed),
        ElementType::Int8 => numbers!(Int8Type),
        ElementType::Int16 => numbers!(Int16Type),
        ElementType::Int32 => numbers!(Int32Type),
        ElementType::Int64 => numbers!(Int64Type),
        ElementType::Float16 => numbers!(Float16Type),
        ElementType::Float32 => numbers!(Float32Type),
        ElementType::Float64 => numbers!(Float64Type),
        ElementType::Time(ref time) => {
            let counts = as_type(&as_type(leaf, &time_type(time))?, &DataType::Int64)?;
            let counts = counts.as_primitive::<Int64Type>().values();
            let is_null = |at: usize| nulls.is_some_and(|nulls| nulls.is_null(at));
            let counts = counts
                .iter()
                .enumerate()
                .map(|(at, &count)| match is_null(at) {
                    true => TimeType::NONE,
                    false => count,
                });
            Ok(ChunkData::Fixed(Buffer::from_vec(
                counts.collect::<Vec<_>>(),
            )))
        }
        ElementType::String => strings(plan, &text(leaf)?, nulls).map(ChunkData::Strings),
        ref element => exec_err!("array '{}': {element} is not written", plan.array.name),
    }
}

fn numbers<T: ArrowPrimitiveType>(
    plan: &ColumnPlan,
    values: &PrimitiveArray<T>,
    nulls: Option<&NullBuffer>,
) -> Result<Buffer>
where
    T::Native: Codes,
{
    let is_negative = |value: T::Native| value.is_lt(T::Native::ZERO);
    let name = &plan.array.name;
    let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
    if matches!(plan.role, Role::Genotype | Role::Position) {
        return match nulls {
            None if plan.role == Role::Position
                && values.values().iter().any(|&value| is_negative(value)) =>
            {
                exec_err!("column '{name}' has a negative number, and positions begin at 1")
            }
            None => Ok(values.values().inner().clone()),
            Some(_) if plan.role == Role::Position => {
                exec_err!("column '{name}' has a NULL; every variant has a position")
            }
            Some(_) => exec_err!(
                "column '{name}' has a NULL; a row without genotypes, such as one of an outer join, cannot be written: filter it with \
                 {name} IS NOT NULL"
            ),
        };
    }
    // A scan leaves a fill value in a column of one value a row as it is; floats are NaNs that no computation gives.
    let means_missing =
        |value: T::Native| value.is_missing() || (value.is_fill() && plan.role != Role::Scalar);
    let is_integer = T::DATA_TYPE.is_integer();
    let mut out: Vec<T::Native> = Vec::with_capacity(values.len());
    match nulls {
        None => {
            if is_integer && values.values().iter().any(|&value| means_missing(value)) {
                return reserved(plan);
            }
            return Ok(values.values().inner().clone());
        }
        Some(nulls) => {
            let Some(missing) = T::Native::MISSING else {
                return exec_err!("array '{name}': {} has no missing value", T::DATA_TYPE);
            };
            for (at, &value) in values.values().iter().enumerate() {
                if nulls.is_valid(at) {
                    if is_integer && means_missing(value) {
                        return reserved(plan);
                    }
                    out.push(value);
                } else {
                    let is_fill = value.is_fill() && plan.role == Role::Nested;
                    out.push(if is_fill { value } else { missing });
                }
            }
        }
    }
    Ok(Buffer::from_vec(out))
}

fn reserved<T>(plan: &ColumnPlan) -> Result<T> {
    let codes = match plan.role {
        Role::Scalar => "-1, which means missing",
        _ => "-1 or -2, which mean missing and fill",
    };
    exec_err!(
        "column '{}' has the number {codes} in VCZ; write NULL for missing values, and other numbers as DOUBLE",
        plan.array.name
    )
}

fn booleans(
    plan: &ColumnPlan,
    values: &BooleanArray,
    nulls: Option<&NullBuffer>,
) -> Result<Buffer> {
    if nulls.is_some_and(|nulls| nulls.null_count() > 0) {
        return exec_err!(
            "column '{0}' has a NULL, and booleans have no missing value in VCZ; write coalesce({0}, false)",
            plan.array.name
        );
    }
    Ok(Buffer::from_vec(bits::to_bytes(values.values())))
}

fn strings(
    plan: &ColumnPlan,
    values: &StringViewArray,
    nulls: Option<&NullBuffer>,
) -> Result<StringChunk> {
    let mut out = StringChunk::default();
    for at in 0..values.len() {
        let text = match nulls {
            Some(nulls) if nulls.is_null(at) => {
                match plan.role == Role::Nested && values.value(at) == FILL_TEXT {
                    true => "",
                    false => ".",
                }
            }
            _ => values.value(at),
        };
        out.push(text).map_err(wrong(plan))?;
    }
    Ok(out)
}

/// `array` as `target`, exactly.
fn as_type(array: &ArrayRef, target: &DataType) -> Result<ArrayRef> {
    if array.data_type() == target {
        return Ok(Arc::clone(array));
    }
    let exact = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    Ok(cast_with_options(array, target, &exact)?)
}

fn text(array: &ArrayRef) -> Result<StringViewArray> {
    Ok(as_type(array, &DataType::Utf8View)?
        .as_string_view()
        .clone())
}

/// Lists of any kind as lists with 32-bit offsets.
fn list_of(column: &ArrayRef) -> Result<ArrayRef> {
    match column.data_type() {
        DataType::List(_) => Ok(Arc::clone(column)),
        DataType::LargeList(item) | DataType::ListView(item) | DataType::LargeListView(item) => {
            as_type(column, &DataType::List(Arc::clone(item)))
        }
        other => exec_err!("expected lists, found {other}"),
    }
}

fn wrong(plan: &ColumnPlan) -> impl Fn(crate::codec::CodecError) -> VczError {
    let name = plan.array.name.clone();
    move |reason| VczError::Invalid(format!("array '{name}': {reason}"))
}
