//! Values as Python objects, and Python objects as parameters of statements.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Float64Type, Int64Type, UInt64Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::ScalarValue;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use super::errors::of_query;

/// A column whose values become Python objects.
pub struct Objects {
    values: ArrayRef,
    kind: Kind,
}

enum Kind {
    Null,
    Truth,
    Integer,
    Unsigned,
    Real,
    Text,
    Binary,
    /// Lists of any kind.
    List,
    /// The names and columns of structs.
    Struct(Vec<(String, Objects)>),
    /// Anything else, as text.
    Shown,
}

impl Objects {
    /// A column.
    ///
    /// # Errors
    /// If it cannot be cast to the types that are read here.
    pub fn new(column: &ArrayRef) -> PyResult<Self> {
        let to = |data_type: DataType| {
            let cast = arrow::compute::cast(column, &data_type);
            cast.map_err(|failed| of_query(&failed.into()))
        };
        let (values, kind) = match column.data_type() {
            DataType::Null => (column.clone(), Kind::Null),
            DataType::Boolean => (column.clone(), Kind::Truth),
            DataType::UInt64 => (column.clone(), Kind::Unsigned),
            other if other.is_integer() => (to(DataType::Int64)?, Kind::Integer),
            other if other.is_floating() => (to(DataType::Float64)?, Kind::Real),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                (to(DataType::LargeUtf8)?, Kind::Text)
            }
            DataType::Dictionary(_, value)
                if matches!(
                    value.as_ref(),
                    DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
                ) =>
            {
                (to(DataType::LargeUtf8)?, Kind::Text)
            }
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
                (to(DataType::LargeBinary)?, Kind::Binary)
            }
            DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {
                (column.clone(), Kind::List)
            }
            DataType::Struct(fields) => {
                let columns = column.as_struct().columns();
                let named = fields.iter().zip(columns);
                let named = named
                    .map(|(field, column)| Ok((field.name().clone(), Self::new(column)?)))
                    .collect::<PyResult<_>>()?;
                (column.clone(), Kind::Struct(named))
            }
            _ => (column.clone(), Kind::Shown),
        };
        Ok(Self { values, kind })
    }

    /// The value at `row`.
    ///
    /// # Errors
    /// If it cannot be shown, or Python has no memory.
    pub fn get<'py>(&self, py: Python<'py>, row: usize) -> PyResult<Bound<'py, PyAny>> {
        let values = &self.values;
        if values.is_null(row) {
            return Ok(py.None().into_bound(py));
        }
        match &self.kind {
            // An array of NULLs has no bitmap of them.
            Kind::Null => Ok(py.None().into_bound(py)),
            Kind::Truth => values.as_boolean().value(row).into_bound_py_any(py),
            Kind::Integer => values
                .as_primitive::<Int64Type>()
                .value(row)
                .into_bound_py_any(py),
            Kind::Unsigned => values
                .as_primitive::<UInt64Type>()
                .value(row)
                .into_bound_py_any(py),
            Kind::Real => values
                .as_primitive::<Float64Type>()
                .value(row)
                .into_bound_py_any(py),
            Kind::Text => values.as_string::<i64>().value(row).into_bound_py_any(py),
            Kind::Binary => values.as_binary::<i64>().value(row).into_bound_py_any(py),
            Kind::List => {
                let inner = match values.data_type() {
                    DataType::List(_) => values.as_list::<i32>().value(row),
                    DataType::LargeList(_) => values.as_list::<i64>().value(row),
                    _ => values.as_fixed_size_list().value(row),
                };
                let objects = Self::new(&inner)?;
                let list = PyList::empty(py);
                for at in 0..inner.len() {
                    list.append(objects.get(py, at)?)?;
                }
                Ok(list.into_any())
            }
            Kind::Struct(fields) => {
                let object = PyDict::new(py);
                for (name, column) in fields {
                    object.set_item(name, column.get(py, row)?)?;
                }
                Ok(object.into_any())
            }
            Kind::Shown => {
                let options = FormatOptions::default();
                let formatter = ArrayFormatter::try_new(values, &options);
                let formatter = formatter.map_err(|failed| of_query(&failed.into()))?;
                formatter.value(row).to_string().into_bound_py_any(py)
            }
        }
    }
}

/// A parameter of a statement: None, a truth value, a number, a string, or a list of them. Scalars of numpy are taken for what they are.
///
/// # Errors
/// If it is of another type.
pub fn parameter(value: &Bound<'_, PyAny>) -> PyResult<ScalarValue> {
    if value.is_none() {
        return Ok(ScalarValue::Null);
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(ScalarValue::Boolean(Some(value.extract()?)));
    }
    if value.is_instance_of::<PyInt>() {
        return match value.extract::<i64>() {
            Ok(number) => Ok(ScalarValue::Int64(Some(number))),
            Err(_) => Ok(ScalarValue::UInt64(Some(value.extract()?))),
        };
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(ScalarValue::Float64(Some(value.extract()?)));
    }
    if value.is_instance_of::<PyString>() {
        return Ok(ScalarValue::Utf8(Some(value.extract()?)));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let values = value.try_iter()?.map(|item| parameter(&item?));
        let values: Vec<ScalarValue> = values.collect::<PyResult<_>>()?;
        let item = values.iter().find(|value| !value.is_null());
        let item = item.map_or(DataType::Null, ScalarValue::data_type);
        let list = values.iter().map(|value| match value.is_null() {
            true => ScalarValue::try_from(&item),
            false => value.cast_to(&item),
        });
        let list = list.collect::<datafusion::common::Result<Vec<_>>>();
        let list = list.map_err(|failed| of_query(&failed))?;
        let list = ScalarValue::new_list(&list, &item, true);
        return Ok(ScalarValue::List(list));
    }
    // numpy's integers are not Python's.
    if let Ok(item) = value.call_method0("item")
        && !item.get_type().is(value.get_type())
    {
        return parameter(&item);
    }
    if let Ok(list) = value.call_method0("tolist") {
        return parameter(&list);
    }
    Err(PyTypeError::new_err(format!(
        "a parameter is None, a bool, an int, a float, a str or a list of them, found {}",
        value.get_type().name()?
    )))
}
