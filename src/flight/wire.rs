//! Batches for clients: without view types and dictionaries, which not every client supports, and split between rows into messages of
//! limited size. Every message has the schema that the client got when the statement was planned.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, RecordBatch, RecordBatchOptions, StructArray,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use arrow::error::ArrowError;

/// The schema that clients see for rows of `schema`.
pub fn wire_schema(schema: &Schema) -> SchemaRef {
    let fields: Fields = schema.fields().iter().map(wire_field).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn wire_field(field: &FieldRef) -> FieldRef {
    let data_type = wire_type(field.data_type());
    if data_type == *field.data_type() {
        return Arc::clone(field);
    }
    let plain = Field::new(field.name(), data_type, field.is_nullable());
    Arc::new(plain.with_metadata(field.metadata().clone()))
}

/// The type that clients get for `data_type`: strings and binaries for view types, lists for list views, values for dictionaries.
fn wire_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::Dictionary(_, value) => wire_type(value),
        DataType::RunEndEncoded(_, values) => wire_type(values.data_type()),
        DataType::List(item) | DataType::ListView(item) => DataType::List(wire_field(item)),
        DataType::LargeList(item) | DataType::LargeListView(item) => {
            DataType::LargeList(wire_field(item))
        }
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(wire_field(item), *size),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(wire_field).collect()),
        DataType::Map(entries, sorted) => DataType::Map(wire_field(entries), *sorted),
        other => other.clone(),
    }
}

/// Splits `batch` into batches of at most `bytes` each, or of one row where a row is wider, in the types of `schema`.
///
/// # Errors
/// If a column is not of the type that was planned.
pub fn pieces(
    batch: &RecordBatch,
    schema: &SchemaRef,
    bytes: usize,
) -> Result<Vec<RecordBatch>, ArrowError> {
    let rows = batch.num_rows();
    let mut cuts = Vec::new();
    cut(batch, 0, rows, bytes.max(1), &mut cuts);
    cuts.into_iter()
        .map(|(from, rows)| to_wire(&batch.slice(from, rows), schema))
        .collect()
}

/// Ranges of rows, as (first, number), of at most `bytes`. Their length follows from the mean row width and is halved while a range is too
/// large.
fn cut(
    batch: &RecordBatch,
    from: usize,
    rows: usize,
    bytes: usize,
    into: &mut Vec<(usize, usize)>,
) {
    if rows == 0 {
        return;
    }
    let size: usize = batch
        .columns()
        .iter()
        .map(|column| bytes_of(&column.slice(from, rows)))
        .sum();
    if rows == 1 || size <= bytes {
        into.push((from, rows));
        return;
    }
    let parts = size.div_ceil(bytes).min(rows);
    let per_part = (rows / parts).max(1);
    if per_part == rows {
        into.push((from, rows));
        return;
    }
    let mut at = 0;
    while at < rows {
        let count = per_part.min(rows - at);
        cut(batch, from + at, count, bytes, into);
        at += count;
    }
}

/// Bytes that the rows of `array` take in a message, without the unused parts of its buffers.
fn bytes_of(array: &dyn Array) -> usize {
    let validity = if array.nulls().is_some() {
        array.len().div_ceil(8)
    } else {
        0
    };
    // A view holds the length of its value in the lowest 32 bits.
    let viewed =
        |views: &[u128]| -> usize { views.iter().map(|view| *view as u32 as usize + 4).sum() };
    let list = |offsets: (usize, usize), values: &ArrayRef, width: usize| {
        let (first, last) = offsets;
        bytes_of(&values.slice(first, last - first)) + (array.len() + 1) * width
    };
    validity
        + match array.data_type() {
            DataType::Null => 0,
            DataType::Boolean => array.len().div_ceil(8),
            DataType::Utf8View => viewed(array.as_string_view().views()),
            DataType::BinaryView => viewed(array.as_binary_view().views()),
            DataType::List(_) => {
                let array = array.as_list::<i32>();
                let offsets = array.offsets();
                let (first, last) = (offsets.first(), offsets.last());
                list(
                    (
                        first.map_or(0, |at| *at as usize),
                        last.map_or(0, |at| *at as usize),
                    ),
                    array.values(),
                    4,
                )
            }
            DataType::LargeList(_) => {
                let array = array.as_list::<i64>();
                let offsets = array.offsets();
                let (first, last) = (offsets.first(), offsets.last());
                list(
                    (
                        first.map_or(0, |at| *at as usize),
                        last.map_or(0, |at| *at as usize),
                    ),
                    array.values(),
                    8,
                )
            }
            DataType::FixedSizeList(..) => bytes_of(array.as_fixed_size_list().values()),
            DataType::Struct(_) => array
                .as_struct()
                .columns()
                .iter()
                .map(|column| bytes_of(column))
                .sum(),
            other => match other.primitive_width() {
                Some(width) => width * array.len(),
                None => array
                    .to_data()
                    .get_slice_memory_size()
                    .unwrap_or_else(|_| array.get_buffer_memory_size()),
            },
        }
}

/// `batch` in the types of `schema`.
fn to_wire(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns = batch
        .columns()
        .iter()
        .zip(schema.fields())
        .map(|(column, field)| to_type(column, field.data_type()))
        .collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
}

fn to_type(column: &ArrayRef, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    if column.data_type() == data_type {
        return Ok(Arc::clone(column));
    }
    match (column.data_type(), data_type) {
        // Arrow's cast does not keep the names and metadata of these types' fields.
        (DataType::FixedSizeList(..), DataType::FixedSizeList(item, size)) => {
            let list = column.as_fixed_size_list();
            let values = to_type(list.values(), item.data_type())?;
            let array = FixedSizeListArray::try_new_with_length(
                Arc::clone(item),
                *size,
                values,
                list.nulls().cloned(),
                list.len(),
            )?;
            Ok(Arc::new(array))
        }
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let array = column.as_struct();
            let columns = array
                .columns()
                .iter()
                .zip(fields)
                .map(|(column, field)| to_type(column, field.data_type()))
                .collect::<Result<Vec<_>, _>>()?;
            let array = StructArray::try_new_with_length(
                fields.clone(),
                columns,
                array.nulls().cloned(),
                array.len(),
            )?;
            Ok(Arc::new(array))
        }
        _ => {
            let options = CastOptions {
                safe: false,
                ..CastOptions::default()
            };
            cast_with_options(column, data_type, &options)
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        DictionaryArray, Int8Array, Int32Array, ListArray, ListBuilder, StringArray,
        StringViewArray, StringViewBuilder,
    };
    use arrow::datatypes::Int32Type;

    use super::*;

    fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        RecordBatch::try_from_iter(columns).unwrap()
    }

    #[test]
    fn views_and_dictionaries_become_plain_everywhere() {
        let views: StringViewArray = ["a", "a string that is too long to be inlined"]
            .into_iter()
            .map(Some)
            .collect();
        let mut lists = ListBuilder::new(StringViewBuilder::new());
        lists.append_value([Some("x"), None]);
        lists.append_null();
        let dictionary: DictionaryArray<Int32Type> = ["p", "q"].into_iter().collect();
        let item = Arc::new(Field::new_list_field(DataType::Utf8View, true));
        let fixed = FixedSizeListArray::new(item, 1, Arc::new(views.clone()), None);
        let fields = Fields::from(vec![Field::new("s", DataType::Utf8View, true)]);
        let nested = StructArray::new(fields, vec![Arc::new(views.clone())], None);
        let batch = batch(vec![
            ("views", Arc::new(views)),
            ("lists", Arc::new(lists.finish())),
            ("dictionary", Arc::new(dictionary)),
            ("fixed", Arc::new(fixed)),
            ("nested", Arc::new(nested)),
            ("number", Arc::new(Int32Array::from(vec![1, 2]))),
        ]);
        let schema = wire_schema(&batch.schema());
        let types: Vec<String> = schema
            .fields()
            .iter()
            .map(|f| f.data_type().to_string())
            .collect();
        assert!(
            types
                .iter()
                .all(|t| !t.contains("View") && !t.contains("Dictionary")),
            "{types:?}"
        );
        let sent = pieces(&batch, &schema, 1 << 20).unwrap();
        assert_eq!(sent.len(), 1);
        assert_eq!(sent[0].schema(), schema);
        assert_eq!(
            sent[0].column(2).as_string::<i32>(),
            &StringArray::from(vec!["p", "q"])
        );
        assert_eq!(
            sent[0]
                .column(1)
                .as_list::<i32>()
                .value(0)
                .as_string::<i32>()
                .value(0),
            "x"
        );
    }

    #[test]
    fn batches_are_cut_between_rows() {
        let wide = |rows: usize, width: i32| -> ArrayRef {
            let values = Int8Array::from(vec![1i8; rows * width as usize]);
            let item = Arc::new(Field::new_list_field(DataType::Int8, false));
            Arc::new(FixedSizeListArray::new(item, width, Arc::new(values), None))
        };
        let batch = batch(vec![("g", wide(100, 1000))]);
        let schema = wire_schema(&batch.schema());
        let cut = pieces(&batch, &schema, 10_000).unwrap();
        assert_eq!(cut.len(), 10);
        assert!(cut.iter().all(|piece| piece.num_rows() == 10));
        // For a slice only its own rows count.
        assert_eq!(
            pieces(&batch.slice(50, 10), &schema, 10_000).unwrap().len(),
            1
        );
        // A row that is wider than a message is sent alone.
        assert_eq!(pieces(&batch, &schema, 10).unwrap().len(), 100);
        assert!(pieces(&batch.slice(0, 0), &schema, 10).unwrap().is_empty());
    }

    #[test]
    fn uneven_rows_are_cut_where_they_are_wide() {
        let mut lists: Vec<Option<Vec<Option<i32>>>> = vec![Some(vec![Some(1)]); 1000];
        lists[500] = Some(vec![Some(7); 10_000]);
        let array = ListArray::from_iter_primitive::<Int32Type, _, _>(lists);
        let batch = batch(vec![("l", Arc::new(array))]);
        let schema = wire_schema(&batch.schema());
        let cut = pieces(&batch, &schema, 8_000).unwrap();
        assert_eq!(cut.iter().map(RecordBatch::num_rows).sum::<usize>(), 1000);
        for piece in &cut {
            let bytes = bytes_of(piece.column(0));
            assert!(bytes <= 8_000 || piece.num_rows() == 1, "{bytes}");
        }
        assert!(cut.len() < 40, "{}", cut.len());
    }
}
