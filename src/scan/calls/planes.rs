//! The results of `genotype_planes` as Arrow arrays: the genotypes of a population as bit-planes, for aggregates over individuals and
//! haplotypes. Only planning rules insert calls of it; it is not registered for SQL.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, ListArray, UInt64Array};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, exec_err};

use crate::counts::gathered::GatheredPlanes;

fn word() -> FieldRef {
    Arc::new(Field::new_list_field(DataType::UInt64, false))
}

/// `List(UInt64)`: the words of a row, as [`gathered`](crate::counts::gathered) lays them out.
pub fn genotype_planes_type() -> DataType {
    DataType::List(word())
}

/// Whether `data_type` is that of bit-planes of genotypes.
pub fn is_planes_type(data_type: &DataType) -> bool {
    matches!(data_type, DataType::List(word) if *word.data_type() == DataType::UInt64)
}

/// The rows `rows`, each as a list of words.
///
/// # Errors
/// If there are more words than 32-bit list offsets can address.
pub fn genotype_planes_array(
    planes: &GatheredPlanes,
    rows: Range<usize>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let total = planes.words(rows.clone());
    if i32::try_from(total).is_err() {
        return exec_err!(
            "the bit-planes of {} rows of genotypes overflow one batch; lower datafusion.execution.batch_size",
            rows.len()
        );
    }
    let mut words = Vec::with_capacity(total);
    let mut offsets = Vec::with_capacity(rows.len() + 1);
    offsets.push(0i32);
    for row in rows {
        planes.push_row(row, &mut words);
        // `total` fits.
        offsets.push(words.len() as i32);
    }
    let words = UInt64Array::new(ScalarBuffer::from(words), None);
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    Ok(Arc::new(ListArray::try_new(
        word(),
        offsets,
        Arc::new(words),
        nulls,
    )?))
}
