//! The layout of a call's arguments: counts and then integers, or `call_genotype`, populations and then integers. An analyzer rule
//! rewrites the second form into the first.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr_common::physical_expr::fmt_sql;
use datafusion::physical_plan::PhysicalExpr;

use super::definition::Definition;
use crate::scan::found_type;

/// Where the counts of a call come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// They are arguments.
    Counts {
        /// Number of them.
        populations: usize,
    },
    /// They are counted from `call_genotype`, which populations follow.
    Genotypes {
        /// Number of populations named.
        populations: usize,
    },
}

impl Form {
    /// Index of the first whole number.
    pub(crate) fn numbers_at(self) -> usize {
        match self {
            Self::Counts { populations } => populations,
            Self::Genotypes { populations } => 1 + populations,
        }
    }
}

/// Whether `data_type` is that of `call_genotype`: for each sample, the codes of its copies.
pub(crate) fn is_genotypes(data_type: &DataType) -> bool {
    let DataType::FixedSizeList(sample, _) = data_type else {
        return false;
    };
    matches!(sample.data_type(), DataType::FixedSizeList(copy, _) if copy.data_type().is_integer())
}

fn is_string(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => true,
        DataType::Dictionary(_, value) => is_string(value),
        _ => false,
    }
}

/// Whether a population can have this type: its name, or a list of sample ids. NULL is accepted; looking the population up rejects it.
fn is_population(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => is_string(item.data_type()),
        other => is_string(other),
    }
}

/// The syntax of a call, for errors.
fn usage<D: Definition>() -> String {
    let argument = D::ARGUMENT.name();
    let (counts, populations) = match (D::COUNTS, D::VARIADIC) {
        (1, false) => (argument.to_string(), " [, population]".to_string()),
        (counts, variadic) => {
            let numbered = |name: &str| {
                let names: Vec<String> = (1..=counts).map(|at| format!("{name}{at}")).collect();
                names.join(", ") + if variadic { ", …" } else { "" }
            };
            (numbered(argument), format!(", {}", numbered("population")))
        }
    };
    let required = D::NUMBERS.len().saturating_sub(D::OPTIONAL);
    let (required, optional) = D::NUMBERS.split_at(required);
    let numbers: String = required
        .iter()
        .map(|name| format!(", {name}"))
        .chain(optional.iter().map(|name| format!(" [, {name}]")))
        .collect();
    let name = D::NAME;
    format!("write {name}({counts}{numbers}) or {name}(call_genotype{populations}{numbers})")
}

/// The layout of a call with arguments of these types; an error shows the syntax.
pub(crate) fn form<D: Definition>(types: &[&DataType]) -> Result<Form> {
    let (name, usage, arity) = (D::NAME, usage::<D>(), D::arity());
    let Some((first, rest)) = types.split_first() else {
        return plan_err!("{name} needs arguments: {usage}");
    };
    let form = if is_genotypes(first) {
        let named = rest
            .iter()
            .take(*arity.end())
            .take_while(|other| is_population(other))
            .count();
        if *arity.end() > 1 && named < D::COUNTS {
            let (least, or_more) = (D::COUNTS, if D::VARIADIC { " or more" } else { "" });
            return plan_err!(
                "{name} compares {least}{or_more} populations, so call_genotype must be followed \
                 by that many (each a name or a list of sample ids), found {named}: {usage}"
            );
        }
        Form::Genotypes { populations: named }
    } else {
        let populations = types
            .iter()
            .take(*arity.end())
            .take_while(|other| D::ARGUMENT.is(other))
            .count();
        if populations < D::COUNTS {
            let position = populations + 1;
            return match types.get(populations) {
                Some(other) => plan_err!(
                    "{name}: argument {position} must be {}, found {}: {usage}",
                    D::ARGUMENT.expected(),
                    found_type(other)
                ),
                None => plan_err!("{name}: argument {position} is missing: {usage}"),
            };
        }
        Form::Counts { populations }
    };
    let first_number = form.numbers_at();
    let numbers = types.get(first_number..).unwrap_or_default();
    for (position, data_type) in numbers.iter().enumerate() {
        let Some(argument) = D::NUMBERS.get(position) else {
            return plan_err!(
                "{name}: unexpected argument {} ({data_type}): {usage}",
                first_number + position + 1
            );
        };
        if !data_type.is_integer() && !data_type.is_null() {
            return plan_err!(
                "{name}: {argument} must be a whole number, found {data_type}: {usage}"
            );
        }
    }
    if let Some(missing) = D::NUMBERS
        .get(numbers.len())
        .filter(|_| numbers.len() + D::OPTIONAL < D::NUMBERS.len())
    {
        return plan_err!("{name}: {missing} is missing: {usage}");
    }
    Ok(form)
}

/// The types that the arguments are to be cast to: whole numbers to Int64, the others as they are.
pub(crate) fn coerce<D: Definition>(types: &[DataType]) -> Result<Vec<DataType>> {
    let form = form::<D>(&types.iter().collect::<Vec<_>>())?;
    let numbers_at = form.numbers_at();
    Ok(types
        .iter()
        .enumerate()
        .map(|(at, other)| {
            if at < numbers_at {
                other.clone()
            } else {
                DataType::Int64
            }
        })
        .collect())
}

/// The value of an expression that is a constant, also within casts and arithmetic; `None` for any other.
pub(crate) fn constant_value(expr: &dyn PhysicalExpr) -> Result<Option<ScalarValue>> {
    // Evaluated over no columns, which works for constants.
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let batch = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options)?;
    Ok(match expr.evaluate(&batch) {
        Ok(ColumnarValue::Scalar(value)) => Some(value),
        Ok(ColumnarValue::Array(values)) if values.len() == 1 => {
            Some(ScalarValue::try_from_array(&values, 0)?)
        }
        _ => None,
    })
}

/// The value of a whole number that must be constant.
pub(crate) fn constant(function: &str, argument: &str, expr: &dyn PhysicalExpr) -> Result<i64> {
    let Some(value) = constant_value(expr)? else {
        return exec_err!(
            "{function}: {argument} must be a constant whole number, found {}",
            fmt_sql(expr)
        );
    };
    match value.cast_to(&DataType::Int64) {
        Ok(ScalarValue::Int64(Some(number))) => Ok(number),
        _ => exec_err!("{function}: {argument} must be a constant whole number, found {value}"),
    }
}
