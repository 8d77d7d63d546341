//! Parameters of statements, `$1` or `?`, as literals in the syntax tree: for statements whose planning needs the values, such as the names of
//! populations. Values are never inserted into the text.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::common::{Result, ScalarValue, plan_datafusion_err, plan_err};
use datafusion::logical_expr::{LogicalPlan, Prepare, Statement as PlanStatement};
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{Array, Expr, Statement, Value, visit_expressions_mut};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

/// The maximum number of parameters of a statement.
const MAX_PARAMETERS: usize = 1000;

/// `sql` with every `?` numbered as `$1`, `$2`, …, and the number of its parameters.
///
/// # Errors
/// If it cannot be tokenised, has parameters of both forms, or of another form.
pub fn numbered(sql: &str) -> Result<(String, usize)> {
    let tokens = Tokenizer::new(&GenericDialect {}, sql)
        .tokenize_with_location()
        .map_err(|error| plan_datafusion_err!("{error}"))?;
    let (mut marks, mut largest) = (Vec::new(), 0);
    for token in &tokens {
        let Token::Placeholder(name) = &token.token else {
            continue;
        };
        match name.strip_prefix('$').map(str::parse::<usize>) {
            _ if name == "?" => marks.push(token.span.start),
            Some(Ok(number)) if (1..=MAX_PARAMETERS).contains(&number) => {
                largest = largest.max(number)
            }
            _ => return plan_err!("a parameter is written ? or $1, $2, …, found {name}"),
        }
    }
    if marks.is_empty() {
        return Ok((sql.to_string(), largest));
    }
    if largest > 0 {
        return plan_err!("a statement has parameters written ? or written $1, not both");
    }
    if marks.len() > MAX_PARAMETERS {
        return plan_err!(
            "a statement has at most {MAX_PARAMETERS} parameters, found {}",
            marks.len()
        );
    }
    let (mut text, mut number, mut line, mut column) =
        (String::with_capacity(sql.len() + 16), 0, 1, 1);
    for c in sql.chars() {
        let is_mark = marks
            .get(number)
            .is_some_and(|mark| mark.line == line && mark.column == column);
        if is_mark && c == '?' {
            number += 1;
            text.push_str(&format!("${number}"));
        } else {
            text.push(c);
        }
        if c == '\n' {
            (line, column) = (line + 1, 1);
        } else {
            column += 1;
        }
    }
    if number != marks.len() {
        return plan_err!("cannot number the ? of this statement; write its parameters $1, $2, …");
    }
    Ok((text, number))
}

/// Replaces the placeholders of a parsed statement with literals: `$1` with `value("1")`.
///
/// # Errors
/// If there is no value of that name, it cannot be a literal, or the statement is not a query.
pub fn substitute(parsed: &mut Parsed, value: &dyn Fn(&str) -> Option<ScalarValue>) -> Result<()> {
    let statement = match parsed {
        Parsed::Statement(statement) => statement,
        Parsed::Explain(explain) => return substitute(&mut explain.statement, value),
        _ => return plan_err!("only queries take parameters"),
    };
    let replaced = visit_expressions_mut(statement, |expr| {
        let Expr::Value(found) = expr else {
            return ControlFlow::Continue(());
        };
        let Value::Placeholder(name) = &found.value else {
            return ControlFlow::Continue(());
        };
        let literal = match name.strip_prefix('$').and_then(value) {
            Some(bound) => literal(&bound),
            None => plan_err!("no value is bound to the parameter {name}"),
        };
        match literal {
            Ok(literal) => {
                *expr = literal;
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    });
    match replaced {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Whether a statement is a PREPARE that names no types of its parameters.
pub fn is_untyped_prepare(parsed: &Parsed) -> bool {
    let Parsed::Statement(statement) = parsed else {
        return false;
    };
    matches!(statement.as_ref(), Statement::Prepare { data_types, .. } if data_types.is_empty())
}

/// The plan of PREPARE without the types of its parameters. DataFusion infers some if the statement names none, and casts values to them, a
/// number with a fraction to an integer without a word; without types, values stay as they are, and comparisons widen.
pub fn without_types(plan: LogicalPlan) -> LogicalPlan {
    match plan {
        LogicalPlan::Statement(PlanStatement::Prepare(prepare)) => {
            LogicalPlan::Statement(PlanStatement::Prepare(Prepare {
                fields: vec![],
                ..prepare
            }))
        }
        other => other,
    }
}

/// A value as a literal of the syntax tree.
fn literal(value: &ScalarValue) -> Result<Expr> {
    if value.is_null() {
        return Ok(Expr::value(Value::Null));
    }
    if let Some(Some(text)) = value.try_as_str() {
        return Ok(Expr::value(Value::SingleQuotedString(text.to_string())));
    }
    if let ScalarValue::Boolean(Some(truth)) = value {
        return Ok(Expr::value(Value::Boolean(*truth)));
    }
    if let ScalarValue::Float64(Some(number)) = value {
        // With a fraction, so that 3.0 stays a floating-point number.
        return match number.is_finite() {
            true => Ok(Expr::value(Value::Number(format!("{number:?}"), false))),
            false => plan_err!("a parameter here must be a finite number, found {number}"),
        };
    }
    let data_type = value.data_type();
    if data_type.is_integer() || data_type.is_floating() {
        return Ok(Expr::value(Value::Number(value.to_string(), false)));
    }
    let list: Option<Arc<dyn arrow::array::Array>> = match value {
        ScalarValue::List(list) => Some(list.value(0)),
        ScalarValue::LargeList(list) => Some(list.value(0)),
        ScalarValue::FixedSizeList(list) => Some(list.value(0)),
        _ => None,
    };
    match list {
        Some(items) => {
            let elem = (0..items.len())
                .map(|at| literal(&ScalarValue::try_from_array(&items, at)?))
                .collect::<Result<Vec<_>>>()?;
            Ok(Expr::Array(Array { elem, named: false }))
        }
        None => plan_err!(
            "a parameter here must be a string, number, truth value or list, found {data_type}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_marks_are_numbered() {
        let cases = [
            ("SELECT 1", "SELECT 1", 0),
            ("SELECT ? + ?", "SELECT $1 + $2", 2),
            (
                "SELECT '?', \"?\", ? -- ?\n, ?",
                "SELECT '?', \"?\", $1 -- ?\n, $2",
                2,
            ),
            ("SELECT 'it''s é?',\n\t?", "SELECT 'it''s é?',\n\t$1", 1),
            ("SELECT $2, $1, $2", "SELECT $2, $1, $2", 2),
        ];
        for (sql, expected, count) in cases {
            assert_eq!(
                numbered(sql).unwrap(),
                (expected.to_string(), count),
                "{sql}"
            );
        }
        for bad in [
            "SELECT ? + $1",
            "SELECT $0",
            "SELECT $name",
            "SELECT $99999999",
            "SELECT 'open",
        ] {
            assert!(numbered(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn values_become_literals() {
        let sql = "SELECT sfs(g, $population), $half, $three FROM t WHERE c IN ($list)";
        let mut parsed = datafusion::sql::parser::DFParser::parse_sql(sql).unwrap();
        let mut statement = parsed.pop_front().unwrap();
        let value = |name: &str| match name {
            "population" => Some(ScalarValue::from("it's")),
            "half" => Some(ScalarValue::from(-0.5)),
            "three" => Some(ScalarValue::from(3.0)),
            "list" => Some(ScalarValue::Null),
            _ => None,
        };
        substitute(&mut statement, &value).unwrap();
        assert_eq!(
            statement.to_string(),
            "SELECT sfs(g, 'it''s'), -0.5, 3.0 FROM t WHERE c IN (NULL)"
        );
        let mut parsed = datafusion::sql::parser::DFParser::parse_sql("SELECT $1").unwrap();
        let mut statement = parsed.pop_front().unwrap();
        let error = substitute(&mut statement, &value).unwrap_err();
        assert!(error.to_string().contains("parameter $1"), "{error}");
    }
}
