//! Aggregates in two stages: [`stages`] splits a call into one that returns the state of each small group and one that merges
//! states into the value of a larger group.
//!
//! Only calls with exact states are split, so that the two stages give the same bits as the call: aggregates of this crate, whose
//! states are integers, and of DataFusion's `count`, `bool_and`, `bool_or`, `sum` and bit operations of integers, and `min` and `max` of
//! integers, strings, times and booleans.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::functions_aggregate::bit_and_or_xor::{bit_and_udaf, bit_or_udaf, bit_xor_udaf};
use datafusion::functions_aggregate::bool_and_or::{bool_and_udaf, bool_or_udaf};
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{AggregateUDF, Expr, ExprSchemable};

use super::definition::Copies;
use super::merge_of::{Argument, MergeOf};
use super::state_of::StateOf;

/// A call in two stages.
#[derive(Clone, Debug)]
pub struct Stages {
    /// The first: the state of a group, a struct. It takes the call's arguments and its FILTER.
    pub state: Expr,
    /// The second: merges a column of such states into the value.
    pub merge: Arc<AggregateUDF>,
}

/// `call`, over rows of `input`, in two stages; `None` if its states are not exact, it has DISTINCT or ORDER BY, or its constants are
/// not known yet.
///
/// # Errors
/// If an argument has no type over `input`.
pub fn stages(call: &AggregateFunction, input: &DFSchema) -> Result<Option<Stages>> {
    let params = &call.params;
    if params.distinct || !params.order_by.is_empty() || params.null_treatment.is_some() {
        return Ok(None);
    }
    let fields = params
        .args
        .iter()
        .map(|arg| Ok(arg.to_field(input)?.1))
        .collect::<Result<Vec<_>>>()?;
    let splits =
        is_ours(&call.func) && ours_splits(call, &fields) || stock_is_exact(&call.func, &fields);
    if !splits {
        return Ok(None);
    }
    let arguments = params
        .args
        .iter()
        .zip(fields)
        .map(|(arg, field)| Argument {
            field,
            constant: match arg {
                Expr::Literal(value, _) => Some(value.clone()),
                _ => None,
            },
        })
        .collect();
    let merge = MergeOf::try_new(Arc::clone(&call.func), arguments)?;
    let mut state = call.clone();
    state.func = Arc::new(AggregateUDF::from(StateOf::new(Arc::clone(&call.func))));
    Ok(Some(Stages {
        state: Expr::AggregateFunction(state),
        merge: Arc::new(AggregateUDF::from(merge)),
    }))
}

/// Whether an aggregate is the first of two stages.
pub fn is_state(func: &AggregateUDF) -> bool {
    func.inner().is::<StateOf>()
}

/// The aggregate whose states `func` computes, if it is the first of two stages.
pub fn state_source(func: &AggregateUDF) -> Option<&Arc<AggregateUDF>> {
    func.inner().downcast_ref::<StateOf>().map(StateOf::source)
}

/// The first stage of `source`.
pub fn state_of(source: Arc<AggregateUDF>) -> AggregateUDF {
    AggregateUDF::from(StateOf::new(source))
}

/// An argument of a call: its field, and its value if it is a constant.
pub type StageArgument = (FieldRef, Option<ScalarValue>);

/// The aggregate whose states `func` merges, if it is the second of two stages, and the arguments of the call that the states come from.
pub fn merged(func: &AggregateUDF) -> Option<(&Arc<AggregateUDF>, Vec<StageArgument>)> {
    let merge = func.inner().downcast_ref::<MergeOf>()?;
    let arguments = merge.arguments().iter();
    let arguments = arguments.map(|of| (Arc::clone(&of.field), of.constant.clone()));
    Some((merge.source(), arguments.collect()))
}

/// The second stage of a call of `source` with these arguments.
///
/// # Errors
/// If it takes no such arguments.
pub fn merge_of(source: Arc<AggregateUDF>, arguments: Vec<StageArgument>) -> Result<AggregateUDF> {
    let arguments = arguments.into_iter();
    let arguments = arguments.map(|(field, constant)| Argument { field, constant });
    Ok(AggregateUDF::from(MergeOf::try_new(
        source,
        arguments.collect(),
    )?))
}

/// Whether the states of `func`, over arguments of these fields, are exact: then its value does not depend on the order of its rows, nor
/// on how they are divided.
pub fn is_exact(func: &AggregateUDF, fields: &[FieldRef]) -> bool {
    is_ours(func) || stock_is_exact(func, fields)
}

/// Every aggregate of this crate.
static OURS: LazyLock<Vec<AggregateUDF>> = LazyLock::new(super::all);

/// Whether an aggregate is of this crate, or made by it of another crate's statistic, and does not still have to be bound to samples.
fn is_ours(func: &AggregateUDF) -> bool {
    let is_made = || super::added::site_arguments(func).is_some() || OURS.contains(func);
    super::is_bound(func).unwrap_or_else(is_made)
}

/// Whether a call of this crate's is on counts, its integers are constants, and no population's number of copies is deferred.
fn ours_splits(call: &AggregateFunction, fields: &[FieldRef]) -> bool {
    let Some(arguments) = super::aggregate_arguments(&call.func) else {
        return true;
    };
    let (least, most) = arguments.populations.into_inner();
    let is_counts = |field: &&FieldRef| arguments.of.is(field.data_type());
    let counts: Vec<_> = fields.iter().take(most).take_while(is_counts).collect();
    let known =
        |field: &&FieldRef| Copies::of(field).is_ok_and(|copies| copies != Copies::Deferred);
    let mut numbers = call.params.args.iter().skip(counts.len());
    counts.len() >= least
        && counts.iter().all(known)
        && numbers.all(|arg| matches!(arg, Expr::Literal(..)))
}

/// Whether a call of one of DataFusion's aggregates has exact states. Those on floating point numbers have not: sums depend on the
/// order, and comparisons take 0 and -0 as equal.
fn stock_is_exact(func: &AggregateUDF, fields: &[FieldRef]) -> bool {
    let all = |is: fn(&DataType) -> bool| fields.iter().all(|field| is(field.data_type()));
    let is_one_of = |others: &[Arc<AggregateUDF>]| others.iter().any(|other| **other == *func);
    if is_one_of(&[count_udaf(), bool_and_udaf(), bool_or_udaf()]) {
        return true;
    }
    if is_one_of(&[sum_udaf(), bit_and_udaf(), bit_or_udaf(), bit_xor_udaf()]) {
        return all(DataType::is_integer);
    }
    is_one_of(&[min_udaf(), max_udaf()])
        && all(|data_type| {
            data_type.is_integer()
                || data_type.is_string()
                || data_type.is_temporal()
                || *data_type == DataType::Boolean
        })
}
