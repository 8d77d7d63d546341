//! `exact_sum(x)`: the sum of any numbers, rounded once, and so the same in any order.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, Float64Array, GenericBinaryBuilder};
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{DataFusionError, Result, ScalarValue, internal_err};
use datafusion::logical_expr::Documentation;

use super::numbers::NumbersDefinition;
use super::statistic::{GroupState, SiteInput, Statistic, column};
use crate::functions::documentation::document;
use crate::functions::numeric::ExactSum as Sum;

/// One group's sum; allocated when the first number is added.
#[derive(Debug, Default)]
pub(crate) struct LazySum(Option<Sum>);

impl GroupState for LazySum {
    fn heap_size(&self) -> usize {
        self.0.as_ref().map_or(0, |_| Sum::HEAP_SIZE)
    }
}

/// The statistic behind `exact_sum`.
#[derive(Debug)]
pub(crate) struct Exact;

impl SiteInput for &Float64Array {
    fn len(&self) -> usize {
        Array::len(self)
    }

    #[inline]
    fn is_null(&self, row: usize) -> bool {
        Array::is_null(self, row)
    }

    fn has_nulls(&self) -> bool {
        self.null_count() > 0
    }
}

/// The column that saves states.
fn saved_column<'a>(states: impl ExactSizeIterator<Item = &'a LazySum>) -> Vec<ArrayRef> {
    let mut bytes = GenericBinaryBuilder::<i32>::with_capacity(states.len(), 0);
    for state in states {
        bytes.append_value(state.0.as_ref().map(Sum::to_bytes).unwrap_or_default());
    }
    vec![Arc::new(bytes.finish())]
}

impl Statistic for Exact {
    type State = LazySum;
    type Input<'a> = &'a Float64Array;
    type Saved<'a> = &'a BinaryArray;

    fn state_columns() -> Vec<(String, DataType)> {
        vec![("sum".to_string(), DataType::Binary)]
    }

    fn input(values: &[ArrayRef]) -> Result<&Float64Array> {
        match column(values, 0)?.as_primitive_opt::<Float64Type>() {
            Some(values) => Ok(values),
            None => internal_err!("exact_sum: its argument must have been cast to Float64"),
        }
    }

    #[inline]
    fn add(
        &self,
        state: &mut LazySum,
        input: &&Float64Array,
        rows: impl Iterator<Item = usize>,
    ) -> Result<()> {
        let sum = state.0.get_or_insert_default();
        rows.for_each(|row| sum.add(input.value(row)));
        Ok(())
    }

    #[inline]
    fn remove(
        &self,
        state: &mut LazySum,
        input: &&Float64Array,
        rows: impl Iterator<Item = usize>,
    ) -> Result<()> {
        let sum = state.0.get_or_insert_default();
        rows.for_each(|row| sum.sub(input.value(row)));
        Ok(())
    }

    fn saved(states: &[ArrayRef]) -> Result<&BinaryArray> {
        match column(states, 0)?.as_binary_opt::<i32>() {
            Some(states) => Ok(states),
            None => internal_err!("the state of exact_sum must be Binary"),
        }
    }

    fn merge(&self, state: &mut LazySum, saved: &&BinaryArray, row: usize) -> Result<()> {
        if saved.is_null(row) || saved.value(row).is_empty() {
            return Ok(());
        }
        let other = Sum::from_bytes(saved.value(row))
            .map_err(|error| DataFusionError::External(Box::new(error)))?;
        state.0.get_or_insert_default().merge(&other);
        Ok(())
    }

    fn save(&self, states: &[LazySum]) -> Result<Vec<ArrayRef>> {
        Ok(saved_column(states.iter()))
    }

    fn save_rows(
        &self,
        input: &&Float64Array,
        kept: impl Fn(usize) -> bool,
    ) -> Result<Vec<ArrayRef>> {
        let mut bytes = GenericBinaryBuilder::<i32>::with_capacity(SiteInput::len(input), 0);
        for row in 0..SiteInput::len(input) {
            let mut sum = Sum::new();
            if kept(row) && !SiteInput::is_null(input, row) {
                sum.add(input.value(row));
            }
            bytes.append_value(sum.to_bytes());
        }
        Ok(vec![Arc::new(bytes.finish())])
    }

    fn evaluate(&mut self, states: &[LazySum]) -> Result<ArrayRef> {
        let sums = states
            .iter()
            .map(|state| state.0.as_ref().map_or(0.0, Sum::to_f64));
        Ok(Arc::new(Float64Array::from_iter_values(sums)))
    }
}

/// `exact_sum`.
#[derive(Debug)]
pub(crate) struct ExactSum;

impl NumbersDefinition for ExactSum {
    type Statistic = Exact;
    const NAME: &'static str = "exact_sum";
    const ARGUMENTS: &'static [(&'static str, DataType)] = &[("x", DataType::Float64)];

    fn default_value() -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(Some(0.0)))
    }

    fn statistic() -> Exact {
        Exact
    }

    fn documentation() -> Documentation {
        document(
            "The sum of numbers, computed exactly and rounded once, so that it is the same in \
             whatever order, partitions or sliding frames the numbers come. For statistics of \
             your own. NULLs are skipped; 0 over no rows.",
            "exact_sum(x)",
            "SELECT exact_sum(site_diversity(ac1) * site_diversity(ac2)) FROM counts",
        )
        .with_argument("x", "Any number; it is cast to Float64.")
        .build()
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Field;

    use super::*;
    use crate::functions::aggregate::harness::Call;

    fn sum(numbers: &[Option<f64>]) -> ScalarValue {
        let call = Call::on(
            "exact_sum",
            vec![Field::new("x", DataType::Float64, true)],
            &[],
        );
        call.unwrap()
            .value(&[Arc::new(Float64Array::from(numbers.to_vec()))])
            .unwrap()
    }

    #[test]
    fn rounds_once() {
        assert_eq!(
            sum(&[Some(1e300), Some(1.0), None, Some(-1e300)]),
            1.0.into()
        );
        assert_eq!(sum(&[Some(0.1); 10]), 1.0.into());
        assert_eq!(sum(&[None]), 0.0.into());
    }
}
