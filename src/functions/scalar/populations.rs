//! Shared by functions of the counts of one site in several populations: reading their arguments, and building results that are a
//! number or the two terms of a ratio.

use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType, Float64Array, StructArray};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};

use super::support::{Counts, Inputs, numbers};

/// The first `P` arguments as allele counts.
fn populations<const P: usize>(inputs: &Inputs) -> Result<[Counts<'_>; P]> {
    let counts = (0..P)
        .map(|at| inputs.counts(at))
        .collect::<Result<Vec<_>>>()?;
    <[Counts; P]>::try_from(counts)
        .or_else(|counts| exec_err!("{} arguments of counts, expected {P}", counts.len()))
}

/// The counts of each population at `row`; `None` where any are NULL.
#[inline]
fn site<'a, const P: usize>(
    populations: &'a [Counts<'_>; P],
    row: usize,
) -> Option<[&'a [i32]; P]> {
    let mut counts: [&[i32]; P] = [&[]; P];
    for (counts, population) in counts.iter_mut().zip(populations) {
        *counts = population.get(row)?;
    }
    Some(counts)
}

/// A number of each site with counts in `P` populations.
pub(super) fn map_populations<T: ArrowPrimitiveType, const P: usize>(
    function: &str,
    args: &ScalarFunctionArgs,
    value: impl Fn([&[i32]; P]) -> Result<Option<T::Native>>,
) -> Result<ColumnarValue> {
    let inputs = Inputs::new(function, args)?;
    let counts = populations::<P>(&inputs)?;
    inputs.finish(numbers::<T>(inputs.rows, |row| {
        site(&counts, row).map_or(Ok(None), &value)
    })?)
}

/// The type of the two terms of a ratio: Struct(num, den) Float64.
pub(super) fn ratio_type() -> DataType {
    DataType::Struct(ratio_fields())
}

fn ratio_fields() -> Fields {
    ["num", "den"]
        .map(|name| Field::new(name, DataType::Float64, true))
        .to_vec()
        .into()
}

/// The terms of a ratio, numerator and denominator, of each site with counts in `P` populations.
pub(super) fn map_ratios<const P: usize>(
    function: &str,
    args: &ScalarFunctionArgs,
    terms: impl Fn([&[i32]; P]) -> Option<(f64, f64)>,
) -> Result<ColumnarValue> {
    let inputs = Inputs::new(function, args)?;
    let counts = populations::<P>(&inputs)?;
    let mut numerators = Vec::with_capacity(inputs.rows);
    let mut denominators = Vec::with_capacity(inputs.rows);
    let mut valid = Vec::with_capacity(inputs.rows);
    for row in 0..inputs.rows {
        let terms = site(&counts, row).and_then(&terms);
        let (numerator, denominator) = terms.unwrap_or_default();
        numerators.push(numerator);
        denominators.push(denominator);
        valid.push(terms.is_some());
    }
    let nulls = Some(NullBuffer::from(valid)).filter(|nulls| nulls.null_count() > 0);
    // The fields of a NULL struct are NULL, too, because access to a field ignores the struct's validity.
    let part = |values: Vec<f64>| -> Result<ArrayRef> {
        Ok(Arc::new(Float64Array::try_new(
            ScalarBuffer::from(values),
            nulls.clone(),
        )?))
    };
    let parts = vec![part(numerators)?, part(denominators)?];
    inputs.finish(Arc::new(StructArray::try_new(
        ratio_fields(),
        parts,
        nulls.clone(),
    )?))
}
