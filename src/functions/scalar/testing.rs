//! For unit tests: arguments from literals, and calls in the steps of DataFusion (coerce, plan, run).

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, FixedSizeListArray, Float64Array, Int64Array, ListArray,
    ListBuilder, StringArray, StringBuilder, StringViewArray, StructArray,
};
use arrow::datatypes::{Field, Float64Type, Int32Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
};

/// A value that tests can compare.
#[derive(Clone, Debug)]
pub(super) struct Value(pub ColumnarValue);

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        matches!((&self.0, &other.0), (ColumnarValue::Array(a), ColumnarValue::Array(b)) if a == b)
            || matches!((&self.0, &other.0), (ColumnarValue::Scalar(a), ColumnarValue::Scalar(b)) if a == b)
    }
}

impl Value {
    pub(super) fn data_type(&self) -> arrow::datatypes::DataType {
        self.0.data_type()
    }

    /// The `count` rows from `from` on; a constant is returned unchanged.
    pub(super) fn slice(&self, from: usize, count: usize) -> Self {
        match &self.0 {
            ColumnarValue::Array(array) => column(array.slice(from, count)),
            scalar => Self(scalar.clone()),
        }
    }

    /// Row `row` as a constant.
    pub(super) fn row(&self, row: usize) -> Self {
        match &self.0 {
            ColumnarValue::Array(array) => Self(ColumnarValue::Scalar(
                ScalarValue::try_from_array(array, row).unwrap(),
            )),
            scalar => Self(scalar.clone()),
        }
    }
}

fn column(array: ArrayRef) -> Value {
    Value(ColumnarValue::Array(array))
}

pub(super) fn ints(values: &[Option<i64>]) -> Value {
    column(Arc::new(Int64Array::from(values.to_vec())))
}

pub(super) fn int(value: i64) -> Value {
    Value(ColumnarValue::Scalar(ScalarValue::Int64(Some(value))))
}

pub(super) fn floats(values: &[Option<f64>]) -> Value {
    column(Arc::new(Float64Array::from(values.to_vec())))
}

pub(super) fn bools(values: &[Option<bool>]) -> Value {
    column(Arc::new(BooleanArray::from(values.to_vec())))
}

pub(super) fn strings(values: &[Option<&str>]) -> Value {
    column(Arc::new(StringArray::from(values.to_vec())))
}

pub(super) fn string(value: &str) -> Value {
    Value(ColumnarValue::Scalar(ScalarValue::Utf8View(Some(
        value.to_string(),
    ))))
}

pub(super) fn null() -> Value {
    Value(ColumnarValue::Scalar(ScalarValue::Null))
}

fn counts_array(rows: impl Iterator<Item = Option<Vec<i32>>>) -> ArrayRef {
    let rows = rows.map(|row| row.map(|row| row.into_iter().map(Some).collect::<Vec<_>>()));
    Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(rows))
}

pub(super) fn counts(rows: &[Option<&[i32]>]) -> Value {
    column(counts_array(
        rows.iter().map(|row| row.map(<[i32]>::to_vec)),
    ))
}

/// Zygosity: copies and heterozygous carriers of each allele.
pub(super) fn diploids(rows: &[Option<[&[i32]; 2]>]) -> Value {
    let list = |at: usize| counts_array(rows.iter().map(|row| row.map(|row| row[at].to_vec())));
    let (ac, het) = (list(0), list(1));
    let field = |name: &str, of: &ArrayRef| Field::new(name, of.data_type().clone(), true);
    let fields = vec![field("ac", &ac), field("het", &het)].into();
    let nulls = rows.iter().map(Option::is_some).collect::<Vec<_>>().into();
    let array = StructArray::new(fields, vec![ac, het], Some(nulls));
    column(Arc::new(array))
}

pub(super) fn fixed_counts(width: i32, rows: &[Option<&[i32]>]) -> Value {
    let rows = rows
        .iter()
        .map(|row| row.map(|row| row.iter().copied().map(Some).collect::<Vec<_>>()));
    column(Arc::new(FixedSizeListArray::from_iter_primitive::<
        Int32Type,
        _,
        _,
    >(rows, width)))
}

pub(super) fn float_lists(rows: &[Option<&[Option<f64>]>]) -> Value {
    let rows = rows.iter().map(|row| row.map(<[_]>::to_vec));
    column(Arc::new(
        ListArray::from_iter_primitive::<Float64Type, _, _>(rows),
    ))
}

pub(super) fn lists(rows: &[Option<&[Option<&str>]>]) -> Value {
    let mut builder = ListBuilder::new(StringBuilder::new());
    for row in rows {
        match row {
            Some(row) => builder.append_value(row.iter().copied()),
            None => builder.append_null(),
        }
    }
    column(Arc::new(builder.finish()))
}

/// The same strings as Utf8View.
pub(super) fn views(values: &[Option<&str>]) -> Value {
    column(Arc::new(StringViewArray::from(values.to_vec())))
}

/// Rows as text.
pub(super) fn show(value: &Value) -> Vec<String> {
    let array = value.0.to_array(1).unwrap();
    let options = FormatOptions::default().with_null("NULL");
    let formatter = ArrayFormatter::try_new(array.as_ref(), &options).unwrap();
    (0..array.len())
        .map(|row| formatter.value(row).to_string())
        .collect()
}

pub(super) fn call(function: impl ScalarUDFImpl + 'static, args: &[Value]) -> Result<Value> {
    call_udf(&ScalarUDF::new_from_impl(function), args)
}

pub(super) fn call_udf(udf: &ScalarUDF, args: &[Value]) -> Result<Value> {
    let types: Vec<_> = args.iter().map(Value::data_type).collect();
    let types = udf.coerce_types(&types)?;
    let arg_fields: Vec<_> = types
        .iter()
        .map(|data_type| Arc::new(Field::new("arg", data_type.clone(), true)))
        .collect();
    let scalar_arguments: Vec<Option<&ScalarValue>> = args
        .iter()
        .map(|arg| match &arg.0 {
            ColumnarValue::Scalar(scalar) => Some(scalar),
            ColumnarValue::Array(_) => None,
        })
        .collect();
    let return_field = udf.return_field_from_args(ReturnFieldArgs {
        arg_fields: &arg_fields,
        scalar_arguments: &scalar_arguments,
    })?;
    let number_rows = args
        .iter()
        .find_map(|arg| match &arg.0 {
            ColumnarValue::Array(array) => Some(array.len()),
            ColumnarValue::Scalar(_) => None,
        })
        .unwrap_or(1);
    let args = args
        .iter()
        .zip(&types)
        .map(|(arg, data_type)| arg.0.cast_to(data_type, None))
        .collect::<Result<_>>()?;
    let config_options = Arc::new(ConfigOptions::default());
    let args = ScalarFunctionArgs {
        args,
        arg_fields,
        number_rows,
        return_field,
        config_options,
    };
    udf.invoke_with_args(args).map(Value)
}
