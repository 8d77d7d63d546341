//! Columns as numpy arrays without a copy: the bytes of numbers, in lists of equal lengths too, with the shape that they have.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use arrow::buffer::Buffer as ArrowBuffer;
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

/// A column that numpy can have.
pub struct Dense {
    /// The type of its elements, as numpy names it.
    pub kind: &'static str,
    /// Rows, then the lengths of lists.
    pub shape: Vec<usize>,
    /// The elements.
    pub bytes: ArrowBuffer,
}

/// The column as numpy can have it: numbers, truth values, or lists of them that all have the same length. NULL becomes NaN; lists with NULL
/// and other types have no such form.
pub fn dense(column: &ArrayRef) -> Option<Dense> {
    let mut shape = vec![column.len()];
    let mut values = Arc::clone(column);
    loop {
        let (length, inner) = match values.data_type() {
            _ if values.null_count() > 0 => break,
            DataType::FixedSizeList(..) => {
                let lists = values.as_fixed_size_list();
                let length = usize::try_from(lists.value_length()).ok()?;
                let first = length.checked_mul(lists.offset())?;
                let elements = length.checked_mul(lists.len())?;
                // The offset of a sliced list is that of its values.
                let first = if lists.values().len() == elements {
                    0
                } else {
                    first
                };
                (length, lists.values().slice(first, elements))
            }
            DataType::List(_) => {
                let lists = values.as_list::<i32>();
                let offsets: Vec<usize> = lists
                    .value_offsets()
                    .iter()
                    .map(|at| *at as usize)
                    .collect();
                (equal_lengths(&offsets)?, of_lists(&offsets, lists.values()))
            }
            DataType::LargeList(_) => {
                let lists = values.as_list::<i64>();
                let offsets: Vec<usize> = lists
                    .value_offsets()
                    .iter()
                    .map(|at| *at as usize)
                    .collect();
                (equal_lengths(&offsets)?, of_lists(&offsets, lists.values()))
            }
            _ => break,
        };
        shape.push(length);
        values = inner;
    }
    if values.null_count() > 0 {
        values = with_nan(&values)?;
    }
    let (kind, bytes) = numbers(&values)?;
    Some(Dense { kind, shape, bytes })
}

/// The length that all lists have, 0 if there are none.
fn equal_lengths(offsets: &[usize]) -> Option<usize> {
    let mut lengths = offsets.windows(2).map(|pair| pair[1] - pair[0]);
    let first = lengths.next().unwrap_or(0);
    lengths.all(|length| length == first).then_some(first)
}

fn of_lists(offsets: &[usize], values: &ArrayRef) -> ArrayRef {
    let first = offsets.first().copied().unwrap_or(0);
    let last = offsets.last().copied().unwrap_or(0);
    values.slice(first, last - first)
}

/// Numbers as Float64, with NaN for NULL.
fn with_nan(values: &ArrayRef) -> Option<ArrayRef> {
    if !values.data_type().is_numeric() {
        return None;
    }
    let numbers = cast(values, &DataType::Float64).ok()?;
    let numbers = numbers.as_primitive::<Float64Type>();
    let filled: Float64Array = numbers
        .iter()
        .map(|number| Some(number.unwrap_or(f64::NAN)))
        .collect();
    Some(Arc::new(filled))
}

fn numbers(values: &ArrayRef) -> Option<(&'static str, ArrowBuffer)> {
    let kind = match values.data_type() {
        DataType::Boolean => {
            let truths = values.as_boolean().iter();
            let bytes: Vec<u8> = truths.map(|truth| u8::from(truth == Some(true))).collect();
            return Some(("|b1", ArrowBuffer::from_vec(bytes)));
        }
        DataType::Int8 => "|i1",
        DataType::Int16 => "<i2",
        DataType::Int32 => "<i4",
        DataType::Int64 => "<i8",
        DataType::UInt8 => "|u1",
        DataType::UInt16 => "<u2",
        DataType::UInt32 => "<u4",
        DataType::UInt64 => "<u8",
        DataType::Float16 => "<f2",
        DataType::Float32 => "<f4",
        DataType::Float64 => "<f8",
        _ => return None,
    };
    macro_rules! bytes_of {
        ($($kind:ty),*) => {
            $(if let Some(numbers) = values.as_primitive_opt::<$kind>() {
                return Some((kind, numbers.values().inner().clone()));
            })*
        };
    }
    bytes_of!(
        Int8Type,
        Int16Type,
        Int32Type,
        Int64Type,
        UInt8Type,
        UInt16Type,
        UInt32Type,
        UInt64Type,
        Float16Type,
        Float32Type,
        Float64Type
    );
    None
}

/// Bytes that Python reads in place; they live as long as any reader.
#[pyclass(frozen, module = "vcz._vcz")]
pub struct Buffer {
    bytes: ArrowBuffer,
}

impl Buffer {
    /// These bytes.
    pub fn new(bytes: ArrowBuffer) -> Self {
        Self { bytes }
    }
}

#[pymethods]
impl Buffer {
    /// Number of bytes.
    fn __len__(&self) -> usize {
        self.bytes.len()
    }

    /// # Safety
    /// `view` is null or a `Py_buffer` to be filled, as Python's buffer protocol says.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("there is no view to fill"));
        }
        // SAFETY: by the protocol the view may be written, and its `obj` must be NULL after an error.
        unsafe { (*view).obj = ptr::null_mut() };
        if flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
            return Err(PyBufferError::new_err(
                "the bytes of a result are read-only",
            ));
        }
        let (start, length) = {
            let bytes = &slf.get().bytes;
            let length = isize::try_from(bytes.len())
                .map_err(|_| PyBufferError::new_err("there are too many bytes"))?;
            (bytes.as_ptr().cast_mut(), length)
        };
        let format = match flags & ffi::PyBUF_FORMAT == ffi::PyBUF_FORMAT {
            true => c"B".as_ptr().cast_mut(),
            false => ptr::null_mut(),
        };
        // SAFETY: the view may be written, and is not used by anyone else meanwhile. Its pointers are to its own fields, or to bytes that
        // live as long as `obj`, whose reference it owns; the format is static.
        unsafe {
            (*view).buf = start.cast::<c_void>();
            (*view).len = length;
            (*view).readonly = 1;
            (*view).itemsize = 1;
            (*view).format = format;
            (*view).ndim = 1;
            (*view).shape = match flags & ffi::PyBUF_ND == ffi::PyBUF_ND {
                true => &raw mut (*view).len,
                false => ptr::null_mut(),
            };
            (*view).strides = match flags & ffi::PyBUF_STRIDES == ffi::PyBUF_STRIDES {
                true => &raw mut (*view).itemsize,
                false => ptr::null_mut(),
            };
            (*view).suboffsets = ptr::null_mut();
            (*view).internal = ptr::null_mut();
            (*view).obj = slf.into_ptr();
        }
        Ok(())
    }
}
