//! A result in memory, and Arrow streams into and out of Python.

use std::ptr::NonNull;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow::compute::concat;
use arrow::datatypes::SchemaRef;
use arrow::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
use datafusion::common::exec_datafusion_err;
use pyo3::exceptions::{PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};

use super::columns::{Buffer, Dense, dense};
use super::errors::of_query;
use super::objects::Objects;

/// The name that the standard gives to capsules of streams.
const STREAM: &std::ffi::CStr = c"arrow_array_stream";

/// A capsule of a stream.
///
/// # Errors
/// If Python has no memory.
pub fn export(
    py: Python<'_>,
    reader: Box<dyn RecordBatchReader + Send>,
) -> PyResult<Bound<'_, PyCapsule>> {
    // Dropping the capsule drops the stream, which releases it unless a consumer has moved it out.
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), STREAM)
}

/// The reader of a capsule's stream, which is moved out of the capsule.
///
/// # Errors
/// If it is not a capsule of a stream, or the stream cannot be read.
pub fn import(capsule: &Bound<'_, PyAny>) -> PyResult<ArrowArrayStreamReader> {
    let capsule = capsule.cast::<PyCapsule>().map_err(|_| {
        PyTypeError::new_err("__arrow_c_stream__ must return a capsule of an Arrow stream")
    })?;
    let stream: NonNull<FFI_ArrowArrayStream> = capsule.pointer_checked(Some(STREAM))?.cast();
    // SAFETY: a capsule of this name holds a valid stream, by the Arrow PyCapsule interface. The stream is moved out of it, so that the
    // capsule's destructor finds a released one.
    let reader = unsafe { ArrowArrayStreamReader::from_raw(stream.as_ptr()) };
    reader.map_err(|failed| of_query(&failed.into()))
}

/// All batches of a stream.
///
/// # Errors
/// The message of the stream.
pub fn read_all(reader: ArrowArrayStreamReader) -> Result<(SchemaRef, Vec<RecordBatch>), String> {
    let schema = reader.schema();
    let rows: Result<Vec<RecordBatch>, _> = reader.collect();
    Ok((schema, rows.map_err(|failed| failed.to_string())?))
}

/// A result in memory.
#[pyclass(frozen, module = "vcz._vcz")]
pub struct Batches {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Batches {
    /// Batches of these columns.
    pub fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self { schema, batches }
    }

    /// The batches.
    pub fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }

    /// The types of the columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The first `rows` rows, and whether there are more.
    pub fn first(&self, rows: usize) -> (Vec<RecordBatch>, bool) {
        let (mut left, mut kept) = (rows, vec![]);
        for batch in &self.batches {
            let wanted = batch.num_rows().min(left);
            if wanted > 0 {
                kept.push(batch.slice(0, wanted));
            }
            left -= wanted;
            if wanted < batch.num_rows() {
                return (kept, true);
            }
        }
        (kept, false)
    }

    fn index(&self, name: &str) -> PyResult<usize> {
        self.schema.index_of(name).map_err(|_| {
            let names: Vec<&str> = self
                .schema
                .fields()
                .iter()
                .map(|field| field.name().as_str())
                .collect();
            PyKeyError::new_err(format!(
                "there is no column '{name}'; the columns are {}",
                names.join(", ")
            ))
        })
    }
}

#[pymethods]
impl Batches {
    /// The rows as an Arrow C stream.
    pub fn stream<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let rows: Vec<_> = self.batches.iter().cloned().map(Ok).collect();
        let reader = RecordBatchIterator::new(rows, Arc::clone(&self.schema));
        export(py, Box::new(reader))
    }

    /// The same, under the name of the Arrow PyCapsule interface.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A consumer may ask for other types, and has to accept these.
        drop(requested_schema);
        self.stream(py)
    }

    /// Number of rows.
    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// Names of the columns.
    fn names(&self) -> Vec<String> {
        let fields = self.schema.fields().iter();
        fields.map(|field| field.name().clone()).collect()
    }

    /// A column for numpy: its element type, shape and bytes; None if it has no shape.
    fn dense(
        &self,
        py: Python<'_>,
        name: &str,
    ) -> PyResult<Option<(&'static str, Vec<usize>, Buffer)>> {
        let at = self.index(name)?;
        let columns: Vec<_> = self.batches.iter().map(|batch| batch.column(at)).collect();
        let data_type = self.schema.field(at).data_type().clone();
        let found = py.detach(|| {
            let whole = match columns.as_slice() {
                [] => arrow::array::new_empty_array(&data_type),
                [only] => Arc::clone(*only),
                several => {
                    let several: Vec<_> = several.iter().map(|column| column.as_ref()).collect();
                    concat(&several)?
                }
            };
            Ok(dense(&whole))
        });
        let found = found.map_err(|failed: arrow::error::ArrowError| of_query(&failed.into()))?;
        Ok(found.map(|Dense { kind, shape, bytes }| (kind, shape, Buffer::new(bytes))))
    }

    /// A column as a list of Python objects.
    fn objects<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let at = self.index(name)?;
        let list = PyList::empty(py);
        for batch in &self.batches {
            let objects = Objects::new(batch.column(at))?;
            for row in 0..batch.num_rows() {
                list.append(objects.get(py, row)?)?;
            }
        }
        Ok(list)
    }

    /// The rows as dictionaries.
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for batch in &self.batches {
            let columns = batch.columns().iter().map(Objects::new);
            let columns: Vec<Objects> = columns.collect::<PyResult<_>>()?;
            for row in 0..batch.num_rows() {
                let object = PyDict::new(py);
                for (field, column) in self.schema.fields().iter().zip(&columns) {
                    object.set_item(field.name(), column.get(py, row)?)?;
                }
                list.append(object)?;
            }
        }
        Ok(list)
    }

    /// The cell of the only row and column.
    fn only<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let rows = self.__len__();
        if rows != 1 || self.schema.fields().len() != 1 {
            return Err(PyValueError::new_err(format!(
                "expected one row of one column, found {rows} row(s) of {} column(s)",
                self.schema.fields().len()
            )));
        }
        match self.batches.iter().find(|batch| batch.num_rows() == 1) {
            Some(batch) => Objects::new(batch.column(0))?.get(py, 0),
            None => Err(of_query(&exec_datafusion_err!("a row is missing"))),
        }
    }
}
