//! [`FilteredValue`]: `array_agg` and `string_agg` with FILTER in OVER, which is their last argument here; and all functions whose values grow with
//! their frames, to be registered.
//!
//! DataFusion gives an accumulator only the rows that FILTER keeps, but every row of a partition gets a copy of the value of a frame that is the
//! whole partition. To account for the copies ([`GrowingValue`]), the accumulator must see the other rows, too.
//! `session`'s rule `filtered_windows` makes these calls.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray};
use arrow::compute::filter;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_datafusion_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ReversedUDAF, Signature, Volatility,
};

use super::growing_value::{GrowingValue, accounted_values, in_place_of_stock};

/// The functions whose values grow with their frames, to be registered in place of those of DataFusion, and what they are with FILTER in OVER.
pub fn growing_values() -> [AggregateUDF; 4] {
    let [lists, texts] = in_place_of_stock();
    let [filtered_lists, filtered_texts] = [&lists, &texts].map(FilteredValue::of);
    [lists, texts, filtered_lists, filtered_texts]
}

/// Whether the values of a function grow with their frames.
pub fn grows(function: &AggregateUDF) -> bool {
    function.inner().is::<GrowingValue>() || function.inner().is::<FilteredValue>()
}

/// The function of the same rows whose last argument is what FILTER has in OVER; `None` for a function whose values do not grow.
pub fn filtered_value(function: &AggregateUDF) -> Option<AggregateUDF> {
    let grows = function.inner().is::<GrowingValue>();
    grows.then(|| FilteredValue::of(function))
}

/// A [`GrowingValue`] of the rows for which the last argument is true.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct FilteredValue {
    name: String,
    /// The [`GrowingValue`].
    inner: AggregateUDF,
    signature: Signature,
}

impl FilteredValue {
    /// Of a function that is a [`GrowingValue`].
    fn of(inner: &AggregateUDF) -> AggregateUDF {
        AggregateUDF::new_from_impl(Self {
            name: format!("_{}_filtered", inner.name()),
            inner: inner.clone(),
            signature: Signature::variadic_any(Volatility::Immutable),
        })
    }
}

/// All arguments but the last, which is what FILTER had.
fn without_filter<T>(arguments: &[T]) -> Result<&[T]> {
    match arguments.split_last() {
        Some((_, arguments)) => Ok(arguments),
        None => Err(internal_datafusion_err!(
            "a function with FILTER has no arguments"
        )),
    }
}

impl AggregateUDFImpl for FilteredValue {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        // Whoever writes the name of this function in SQL may give it anything.
        match arguments {
            [inner @ .., DataType::Boolean] if !inner.is_empty() => self.inner.return_type(inner),
            _ => {
                let (own, name) = (&self.name, self.inner.name());
                plan_err!(
                    "the function {own} is what {name} with FILTER in OVER becomes: write {name}(…) FILTER (WHERE …) OVER (…)"
                )
            }
        }
    }

    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let arguments = AccumulatorArgs {
            exprs: without_filter(arguments.exprs)?,
            expr_fields: without_filter(arguments.expr_fields)?,
            ..arguments
        };
        let inner = self.inner.inner().downcast_ref::<GrowingValue>();
        let stock = inner.map_or(&self.inner, GrowingValue::stock);
        let filtered = Filtered(stock.accumulator(arguments)?);
        Ok(accounted_values(
            self.inner.name().to_string(),
            Box::new(filtered),
        ))
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(StateFieldsArgs {
            input_fields: without_filter(arguments.input_fields)?,
            ..arguments
        })
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.inner.reverse_udf() {
            ReversedUDAF::Reversed(function) => {
                ReversedUDAF::Reversed(Arc::new(Self::of(&function)))
            }
            other => other,
        }
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.inner.supports_null_handling_clause()
    }
}

/// Takes the rows for which the last argument is true.
#[derive(Debug)]
struct Filtered(Box<dyn Accumulator>);

/// The other arguments in the rows for which the last is true.
fn kept(values: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
    let Some((keeps, values)) = values.split_last() else {
        return Ok(vec![]);
    };
    let keeps: &BooleanArray = keeps
        .as_boolean_opt()
        .ok_or_else(|| internal_datafusion_err!("FILTER is not a boolean"))?;
    // Leaves out the rows where it is NULL, too.
    let kept = values.iter().map(|column| Ok(filter(column, keeps)?));
    kept.collect()
}

impl Accumulator for Filtered {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.update_batch(&kept(values)?)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.retract_batch(&kept(values)?)
    }

    fn supports_retract_batch(&self) -> bool {
        self.0.supports_retract_batch()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.0.evaluate()
    }

    fn size(&self) -> usize {
        self.0.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge_batch(states)
    }
}
