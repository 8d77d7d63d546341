//! The memory that the value of one group takes, for planning.

use arrow::array::new_empty_array;
use datafusion::common::Result;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;

use super::aggregate_arguments;

/// Bytes of the value of one group of `call`, if it is one of this crate's aggregates whose values may be large (spectra, counts of every
/// sample); else 0.
///
/// # Errors
/// If the call's accumulator does not take its own state.
pub fn value_size(call: &AggregateFunctionExpr) -> Result<usize> {
    if aggregate_arguments(call.fun()).is_none() {
        return Ok(0);
    }
    // If the accumulator cannot be created, running the plan returns the error.
    let Ok(mut accumulator) = call.create_accumulator() else {
        return Ok(0);
    };
    let states = call.state_fields()?;
    let states: Vec<_> = states
        .iter()
        .map(|field| new_empty_array(field.data_type()))
        .collect();
    // Once an accumulator has merged a state, its size includes the value that it will build.
    let without = accumulator.size();
    accumulator.merge_batch(&states)?;
    Ok(accumulator.size().saturating_sub(without))
}
