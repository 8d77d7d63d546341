//! Nested values as JSON text, for formats without nested values (CSV, TSV): lists become arrays, structs objects, and a NULL inside of
//! a value `null`; a value that is NULL stays NULL. Used for the command line's output and, as a function, for `COPY … TO 'file.csv'`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, StringBuilder};
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use arrow::json::writer::{EncoderOptions, make_encoder};
use datafusion::common::{Result, exec_datafusion_err, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// Whether values of this type are written as JSON text.
pub fn is_json(data_type: &DataType) -> bool {
    data_type.is_nested()
}

/// Each value of `array`, whose field is `field`, as JSON.
///
/// # Errors
/// If JSON has no form for the type.
pub fn json_text(field: &FieldRef, array: &ArrayRef) -> Result<ArrayRef> {
    let options = EncoderOptions::default().with_explicit_nulls(true);
    let mut encoder = make_encoder(field, array.as_ref(), &options)?;
    let mut texts = StringBuilder::new();
    let mut bytes = Vec::new();
    for row in 0..array.len() {
        if array.is_null(row) {
            texts.append_null();
            continue;
        }
        bytes.clear();
        encoder.encode(row, &mut bytes);
        let text = std::str::from_utf8(&bytes)
            .map_err(|error| exec_datafusion_err!("JSON of '{}': {error}", field.name()))?;
        texts.append_value(text);
    }
    Ok(Arc::new(texts.finish()))
}

/// `batch` with its nested columns as JSON text.
///
/// # Errors
/// As [`json_text`].
pub fn with_json_text(batch: &RecordBatch) -> Result<RecordBatch> {
    let schema = batch.schema();
    let mut fields: Vec<FieldRef> = vec![];
    let mut columns: Vec<ArrayRef> = vec![];
    for (field, column) in schema.fields().iter().zip(batch.columns()) {
        if is_json(field.data_type()) {
            fields.push(Arc::new(Field::new(field.name(), DataType::Utf8, true)));
            columns.push(json_text(field, column)?);
        } else {
            fields.push(Arc::clone(field));
            columns.push(Arc::clone(column));
        }
    }
    Ok(RecordBatch::try_new(
        Arc::new(Schema::new(fields)),
        columns,
    )?)
}

/// [`json_text`] as a function, which `COPY` to flat formats puts around nested columns.
#[derive(Debug, PartialEq, Eq, Hash)]
struct JsonText {
    signature: Signature,
}

impl ScalarUDFImpl for JsonText {
    fn name(&self) -> &str {
        "vcz_json_text"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let ([value], [field]) = (args.args.as_slice(), args.arg_fields.as_slice()) else {
            return internal_err!("{} takes one argument", self.name());
        };
        let array = value.to_array(args.number_rows)?;
        Ok(ColumnarValue::Array(json_text(field, &array)?))
    }
}

/// The function.
pub fn json_text_udf() -> ScalarUDF {
    ScalarUDF::new_from_impl(JsonText {
        signature: Signature::any(1, Volatility::Immutable),
    })
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Int64Array, ListArray, StructArray};
    use arrow::datatypes::Int64Type;

    use super::*;

    #[test]
    fn lists_and_structs() {
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>([
            Some(vec![Some(1), None, Some(3)]),
            None,
            Some(vec![]),
        ]));
        let field = Arc::new(Field::new("ac", lists.data_type().clone(), true));
        let texts = json_text(&field, &lists).unwrap();
        let texts: Vec<_> = texts.as_string::<i32>().iter().collect();
        assert_eq!(texts, [Some("[1,null,3]"), None, Some("[]")]);

        let inner = Arc::new(Field::new("h1", DataType::Int64, true));
        let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None]));
        let structs: ArrayRef = Arc::new(StructArray::from(vec![(inner, values)]));
        let field = Arc::new(Field::new("h", structs.data_type().clone(), true));
        let texts = json_text(&field, &structs).unwrap();
        let texts: Vec<_> = texts.as_string::<i32>().iter().collect();
        assert_eq!(texts, [Some(r#"{"h1":7}"#), Some(r#"{"h1":null}"#)]);
    }
}
