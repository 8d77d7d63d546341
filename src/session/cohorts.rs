//! Subqueries that give populations get names of their own: DataFusion calls a subquery by its first column, so that two cohorts,
//! `(SELECT array_agg(sample_id) … WHERE sex = 'F')` and `… = 'M'`, would make two aggregates of one name, which it refuses.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawAggregateExpr};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Subquery};

use crate::functions::site_arguments;

/// Digits of the digest of a subquery in its name.
const DIGITS: usize = 8;

/// Names subqueries in the arguments of aggregates of this crate.
#[derive(Debug)]
pub struct CohortPlanner;

impl ExprPlanner for CohortPlanner {
    fn plan_aggregate(
        &self,
        mut expr: RawAggregateExpr,
    ) -> Result<PlannerResult<RawAggregateExpr>> {
        if site_arguments(expr.func.name()).is_some() {
            let named = expr.args.into_iter().map(|arg| {
                let named = arg.transform_up(|expr| match expr {
                    Expr::ScalarSubquery(subquery) => Ok(Transformed::yes(Expr::ScalarSubquery(
                        named_by_its_plan(subquery)?,
                    ))),
                    other => Ok(Transformed::no(other)),
                });
                named.map(|named| named.data)
            });
            expr.args = named.collect::<Result<_>>()?;
        }
        Ok(PlannerResult::Original(expr))
    }
}

/// The subquery with a column whose name is different for different subqueries, and the same for the same.
fn named_by_its_plan(subquery: Subquery) -> Result<Subquery> {
    let plan: &LogicalPlan = &subquery.subquery;
    let [field] = plan.schema().fields().as_ref() else {
        return Ok(subquery);
    };
    let (qualifier, _) = plan.schema().qualified_field(0);
    let text = plan.display_indent().to_string();
    let digest = blake3::hash(text.as_bytes()).to_hex();
    let name = format!("{} #{}", field.name(), &digest[..DIGITS]);
    let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
    let named = LogicalPlanBuilder::from(plan.clone())
        .project([column.alias(name)])?
        .build()?;
    Ok(Subquery {
        subquery: Arc::new(named),
        ..subquery
    })
}
