//! Plans lists of strings such as `['HG1', 'HG2']` as literals, so that a population given as a list is known when types are
//! computed.

use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult};

/// Plans array literals whose elements are all string literals.
#[derive(Debug)]
pub struct ListLiteralPlanner;

impl ExprPlanner for ListLiteralPlanner {
    fn plan_array_literal(
        &self,
        exprs: Vec<Expr>,
        _schema: &DFSchema,
    ) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(match list_of_strings(&exprs) {
            Some(list) => PlannerResult::Planned(list),
            None => PlannerResult::Original(exprs),
        })
    }
}

/// A literal list of `exprs`, if they are all string literals (and there is at least one).
pub fn list_of_strings(exprs: &[Expr]) -> Option<Expr> {
    let texts: Option<Vec<ScalarValue>> = exprs
        .iter()
        .map(|expr| match expr {
            Expr::Literal(value, _) => {
                Some(ScalarValue::Utf8(Some(value.try_as_str()??.to_string())))
            }
            _ => None,
        })
        .collect();
    let texts = texts.filter(|texts| !texts.is_empty())?;
    let list = ScalarValue::new_list(&texts, &arrow::datatypes::DataType::Utf8, true);
    Some(Expr::Literal(ScalarValue::List(list), None))
}
