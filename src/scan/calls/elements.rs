//! Arrow arrays of numbers as store elements, and genotype codes as the nested lists of their column.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, FixedSizeListArray};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::{
    DataType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::{Result, exec_err};

use crate::store::ElementType;

/// The elements of an array of numbers, native-endian, including those under NULLs; `None` for other arrays.
pub fn elements_of(array: &ArrayRef) -> Option<(ElementType, &[u8])> {
    macro_rules! bytes {
        ($($Type:ident => $element:ident),*) => {
            match array.data_type() {
                $(DataType::$element => {
                    let values = array.as_primitive::<$Type>().values();
                    Some((ElementType::$element, values.inner().as_slice()))
                })*
                _ => None,
            }
        };
    }
    bytes!(
        Int8Type => Int8, Int16Type => Int16, Int32Type => Int32, Int64Type => Int64, UInt8Type => UInt8, UInt16Type => UInt16,
        UInt32Type => UInt32, UInt64Type => UInt64, Float16Type => Float16, Float32Type => Float32, Float64Type => Float64
    )
}

/// Codes, row-major `[rows × samples × ploidy]`, as genotypes of type `data_type`.
///
/// # Errors
/// If `data_type` is not that of genotypes, or the number of codes does not match it.
pub fn genotypes_array(
    data_type: &DataType,
    codes: Buffer,
    rows: usize,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let DataType::FixedSizeList(call, samples) = data_type else {
        return exec_err!("expected genotypes, found {data_type}");
    };
    let DataType::FixedSizeList(code, ploidy) = call.data_type() else {
        return exec_err!("expected genotypes, found {data_type}");
    };
    let calls = rows.checked_mul(*samples as usize);
    let copies = calls.and_then(|calls| calls.checked_mul(*ploidy as usize));
    let (Some(n_calls), Some(copies)) = (calls, copies) else {
        return exec_err!("{rows} rows of {data_type} do not fit in memory");
    };
    let codes = arrow::array::ArrayData::builder(code.data_type().clone())
        .len(copies)
        .add_buffer(codes)
        .build()?;
    let codes = arrow::array::make_array(codes);
    let calls =
        FixedSizeListArray::try_new_with_length(Arc::clone(code), *ploidy, codes, None, n_calls)?;
    Ok(Arc::new(FixedSizeListArray::try_new_with_length(
        Arc::clone(call),
        *samples,
        Arc::new(calls),
        nulls,
        rows,
    )?))
}
