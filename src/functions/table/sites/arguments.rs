//! The arguments of table functions over sites: a table, a population unless it is left out, and numbers.

use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::Expr;

use crate::functions::table::resolve::text_argument;
use crate::scan::{PopulationArg, population_of};

/// The arguments of a call.
#[derive(Debug)]
pub(in crate::functions::table) struct Arguments {
    /// The table's name.
    pub(in crate::functions::table) table: String,
    /// The populations, as many as the function takes; every sample where the first is left out.
    pub(in crate::functions::table) populations: Vec<PopulationArg>,
    /// The numbers after them.
    pub(super) numbers: Vec<ScalarValue>,
}

/// The value of a constant argument: a literal, its negative, or a list of literals.
fn constant(expr: &Expr) -> Option<ScalarValue> {
    match expr {
        Expr::Literal(value, _) => Some(value.clone()),
        Expr::Negative(inner) => constant(inner)?.arithmetic_negate().ok(),
        Expr::Alias(alias) => constant(&alias.expr),
        Expr::ScalarFunction(call) if call.func.name() == "make_array" => {
            let items: Option<Vec<ScalarValue>> = call.args.iter().map(constant).collect();
            let items = items?;
            let data_type = items.first()?.data_type();
            let same = items.iter().all(|item| item.data_type() == data_type);
            same.then(|| ScalarValue::List(ScalarValue::new_list(&items, &data_type, true)))
        }
        _ => None,
    }
}

impl Arguments {
    /// Reads the arguments of `function`, which takes one population that may be left out, or, if `required`, so many that may not; and
    /// then at most `numbers` numbers. `usage` is for errors.
    pub(in crate::functions::table) fn try_new(
        function: &str,
        usage: &str,
        exprs: &[Expr],
        required: usize,
        numbers: usize,
    ) -> Result<Self> {
        let table = text_argument(function, exprs, 0, "a table's name or a path")?;
        let mut populations = vec![];
        let mut found = vec![];
        for (at, expr) in exprs.iter().enumerate().skip(1) {
            let Some(value) = constant(expr) else {
                return plan_err!(
                    "{function}: argument {} must be a constant, found {expr}: write {usage}",
                    at + 1
                );
            };
            let is_number = value.data_type().is_numeric();
            let wanted = required.max(1);
            if populations.len() < wanted && found.is_empty() && !is_number {
                populations.push(population_of(function, &value)?);
            } else if is_number && populations.len() >= required {
                found.push(value);
            } else {
                return plan_err!(
                    "{function}: argument {} must be {}, found {value}: write {usage}",
                    at + 1,
                    if is_number {
                        "a population"
                    } else {
                        "a number"
                    }
                );
            }
        }
        if found.len() > numbers {
            return plan_err!(
                "{function}: too many arguments, {}: write {usage}",
                exprs.len()
            );
        }
        if populations.len() < required {
            return plan_err!("{function}: it takes {required} populations: write {usage}");
        }
        if populations.is_empty() {
            populations.push(PopulationArg::Everyone);
        }
        Ok(Self {
            table,
            populations,
            numbers: found,
        })
    }

    /// Number `at` as a whole number of bases that is not negative; `None` if it is left out.
    pub(super) fn bases(&self, function: &str, at: usize, what: &str) -> Result<Option<i64>> {
        let Some(value) = self.numbers.get(at) else {
            return Ok(None);
        };
        let number = number(value).unwrap_or(-1.0);
        if number < 0.0 || number.fract() != 0.0 || number > 2f64.powi(62) {
            return plan_err!(
                "{function}: {what} must be a whole number of bases that is not negative, found {value}"
            );
        }
        Ok(Some(number as i64))
    }

    /// Number `at`, between `least` and `most`; `None` if it is left out.
    pub(in crate::functions::table) fn number(
        &self,
        function: &str,
        at: usize,
        what: &str,
        (least, most): (f64, f64),
    ) -> Result<Option<f64>> {
        let Some(value) = self.numbers.get(at) else {
            return Ok(None);
        };
        match number(value).filter(|number| (least..=most).contains(number)) {
            Some(number) => Ok(Some(number)),
            None if (least, most) == (f64::MIN, f64::MAX) => {
                plan_err!("{function}: {what} must be a finite number, found {value}")
            }
            None => plan_err!("{function}: {what} must be from {least} to {most}, found {value}"),
        }
    }
}

/// The value as a double; `None` where it is NULL.
fn number(value: &ScalarValue) -> Option<f64> {
    match value.cast_to(&arrow::datatypes::DataType::Float64) {
        Ok(ScalarValue::Float64(number)) => number,
        _ => None,
    }
}
