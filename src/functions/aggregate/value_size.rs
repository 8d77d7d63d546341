//! The memory that the value of one group takes, and that of a row of genotypes, for planning.

use arrow::array::new_empty_array;
use arrow::datatypes::Schema;
use datafusion::common::Result;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;

use super::aggregate_arguments;
use super::definition::Copies;
use crate::counts::gathered::plane_words;
use crate::functions::site_argument::SiteArgument;

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

/// Bytes that `call` needs for counts over pairs, in each partition, whatever rows it gets.
pub fn pairs_size(call: &AggregateFunctionExpr) -> usize {
    // If the accumulator cannot be created, running the plan returns the error.
    let accumulator = call.create_accumulator();
    accumulator.map_or(0, |accumulator| accumulator.size())
}

/// Bytes of a row of the bit-planes that `call` takes, if it is an aggregate over genotypes; else 0. They are those of a biallelic site
/// where every copy is called: of the header and one plane.
///
/// # Errors
/// If an argument has no type in `schema`, that of the call's input.
pub fn planes_size(call: &AggregateFunctionExpr, schema: &Schema) -> Result<usize> {
    match aggregate_arguments(call.fun()) {
        Some(arguments) if matches!(arguments.of, SiteArgument::GenotypePlanes) => {}
        _ => return Ok(0),
    }
    let Some(planes) = call.expressions().into_iter().next() else {
        return Ok(0);
    };
    // If the number of copies is not known, running the plan returns the error.
    let copies = Copies::of(planes.return_field(schema)?.as_ref())?.known();
    let Some(copies) = copies.and_then(|copies| usize::try_from(copies).ok()) else {
        return Ok(0);
    };
    let words = plane_words(copies).saturating_add(1);
    Ok(words
        .saturating_mul(size_of::<u64>())
        .saturating_add(size_of::<i32>()))
}
