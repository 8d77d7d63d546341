//! `spectrum_rows(spectrum)`: a spectrum as a list of structs, which `unnest` turns into rows.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Builder, ListArray, StructArray, UInt32Builder};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, internal_err, plan_err};
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl};

use super::support::{check_arity, document, function_identity, function_struct};

const SYNTAX: &str = "spectrum_rows(spectrum)";

function_struct! {
    /// `spectrum_rows(spectrum)` → List(Struct): `bin` (Int64, from 0) and `sites` of each bin of a spectrum; or `i`, `j` and `sites` of
    /// each cell of a joint spectrum, row by row. `sites` is Int64, or Float64 where the spectrum's elements are.
    SpectrumRows
}

fn documentation() -> Documentation {
    document(
        "A spectrum as rows: a list with a struct for each bin (fields bin, sites), or for each cell of a joint spectrum (fields i, j, sites). unnest makes rows of it.",
        SYNTAX,
        "SELECT r['bin'] AS bin, r['sites'] AS sites FROM (SELECT unnest(spectrum_rows(sfs(call_genotype))) AS r FROM t);",
        &[(
            "spectrum",
            "What sfs, joint_sfs or one of their projections gives: a list of numbers, or a list of such lists.",
        )],
    )
}

/// The elements of a list type.
fn element(data_type: &DataType) -> Option<&DataType> {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            Some(item.data_type())
        }
        _ => None,
    }
}

/// The type that a spectrum of this type is coerced to; `None` if the type is not that of a spectrum.
fn read_as(spectrum: &DataType) -> Option<DataType> {
    let list = |item| DataType::new_list(item, true);
    let number = |item: &DataType| match item {
        item if item.is_integer() => Some(DataType::Int64),
        item if item.is_floating() => Some(DataType::Float64),
        _ => None,
    };
    if spectrum.is_null() {
        return Some(list(DataType::Int64));
    }
    let item = element(spectrum)?;
    match number(item) {
        Some(number) => Some(list(number)),
        None => Some(list(list(number(element(item)?)?))),
    }
}

/// The struct of a row, for a spectrum that was coerced to this type.
fn row_fields(spectrum: &DataType) -> Option<Fields> {
    let field = |name: &str, data_type: &DataType| Field::new(name, data_type.clone(), true);
    let (index, item) = (&DataType::Int64, element(spectrum)?);
    Some(match element(item) {
        None => vec![field("bin", index), field("sites", item)].into(),
        Some(cell) => vec![field("i", index), field("j", index), field("sites", cell)].into(),
    })
}

impl ScalarUDFImpl for SpectrumRows {
    function_identity!("spectrum_rows");

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        check_arity(SYNTAX, types, 1, 1)?;
        match read_as(&types[0]) {
            Some(coerced) => Ok(vec![coerced]),
            None => plan_err!(
                "spectrum_rows: expected a spectrum, a list of numbers or a list of such lists, found {}",
                types[0]
            ),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types.first().and_then(row_fields) {
            Some(fields) => Ok(DataType::new_list(DataType::Struct(fields), true)),
            None => internal_err!("spectrum_rows of {types:?}"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = args.args.as_slice() else {
            return internal_err!("spectrum_rows takes one argument");
        };
        let spectra = value.to_array(match value {
            ColumnarValue::Array(_) => args.number_rows,
            ColumnarValue::Scalar(_) => 1,
        })?;
        let Some(fields) = row_fields(spectra.data_type()) else {
            return internal_err!("spectrum_rows of {}", spectra.data_type());
        };
        let rows = match fields.len() {
            2 => bins(spectra.as_list::<i32>(), fields)?,
            _ => cells(spectra.as_list::<i32>(), fields)?,
        };
        Ok(match value {
            ColumnarValue::Array(_) => ColumnarValue::Array(rows),
            ColumnarValue::Scalar(_) => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&rows, 0)?)
            }
        })
    }
}

/// Lists of structs with `lengths` elements.
fn lists(
    fields: Fields,
    columns: Vec<ArrayRef>,
    lengths: Vec<usize>,
    nulls: Option<&NullBuffer>,
) -> Result<ArrayRef> {
    // The offsets of a list are 32 bits wide.
    let total = lengths
        .iter()
        .try_fold(0usize, |sum, &len| sum.checked_add(len));
    if total.is_none_or(|total| i32::try_from(total).is_err()) {
        return Err(exec_datafusion_err!(
            "spectrum_rows: the spectra of a batch have more than 2^31 - 1 cells; set a smaller datafusion.execution.batch_size"
        ));
    }
    let structs = StructArray::try_new(fields.clone(), columns, None)?;
    let item = Arc::new(Field::new_list_field(DataType::Struct(fields), true));
    Ok(Arc::new(ListArray::try_new(
        item,
        OffsetBuffer::from_lengths(lengths),
        Arc::new(structs),
        nulls.cloned(),
    )?))
}

/// The length of list `row`, 0 where it is NULL.
fn length(list: &ListArray, row: usize) -> usize {
    match list.is_null(row) {
        true => 0,
        // Offsets never decrease.
        false => list.value_length(row) as usize,
    }
}

/// The index of the first value of list `row`.
fn start(list: &ListArray, row: usize) -> u32 {
    // Offsets are not negative.
    list.value_offsets()[row] as u32
}

/// Adds the indices of the values of list `row` to `places`, and their positions in the list, from 0, to `numbers`.
fn push_list(list: &ListArray, row: usize, places: &mut UInt32Builder, numbers: &mut Int64Builder) {
    for (number, at) in (0i64..).zip(0..length(list, row)) {
        places.append_value(start(list, row) + at as u32);
        numbers.append_value(number);
    }
}

fn bins(spectra: &ListArray, fields: Fields) -> Result<ArrayRef> {
    let (mut places, mut bins) = (UInt32Builder::new(), Int64Builder::new());
    let mut lengths = Vec::with_capacity(spectra.len());
    for row in 0..spectra.len() {
        push_list(spectra, row, &mut places, &mut bins);
        lengths.push(length(spectra, row));
    }
    let sites = take(spectra.values(), &places.finish(), None)?;
    let columns = vec![Arc::new(bins.finish()) as ArrayRef, sites];
    lists(fields, columns, lengths, spectra.nulls())
}

fn cells(spectra: &ListArray, fields: Fields) -> Result<ArrayRef> {
    let rows = spectra.values().as_list::<i32>();
    let (mut i, mut j) = (Int64Builder::new(), Int64Builder::new());
    let mut places = UInt32Builder::new();
    let mut lengths = Vec::with_capacity(spectra.len());
    for spectrum in 0..spectra.len() {
        let mut cells = 0usize;
        for (number, at) in (0i64..).zip(0..length(spectra, spectrum)) {
            let row = start(spectra, spectrum) as usize + at;
            let len = length(rows, row);
            i.append_value_n(number, len);
            push_list(rows, row, &mut places, &mut j);
            cells = cells.saturating_add(len);
        }
        lengths.push(cells);
    }
    let sites = take(rows.values(), &places.finish(), None)?;
    let columns = vec![
        Arc::new(i.finish()) as ArrayRef,
        Arc::new(j.finish()) as ArrayRef,
        sites,
    ];
    lists(fields, columns, lengths, spectra.nulls())
}
