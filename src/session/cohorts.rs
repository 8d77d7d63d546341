//! Gives subqueries that select populations distinct names. DataFusion names a subquery after its first column, so that two cohorts,
//! `(SELECT array_agg(sample_id) … WHERE sex = 'F')` and `… = 'M'`, would make two aggregates of the same name, which is an error.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawAggregateExpr};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Subquery};

use crate::functions::aggregate_arguments;
use crate::functions::table::call_of;

/// Hexadecimal digits of a subquery's digest that its name has.
const DIGITS: usize = 8;

/// Renames subqueries in the arguments of this crate's aggregates.
#[derive(Debug)]
pub struct CohortPlanner;

impl ExprPlanner for CohortPlanner {
    fn plan_aggregate(
        &self,
        mut expr: RawAggregateExpr,
    ) -> Result<PlannerResult<RawAggregateExpr>> {
        if aggregate_arguments(&expr.func).is_some() {
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

/// The subquery with its column renamed: different plans get different names, and equal plans the same name.
fn named_by_its_plan(subquery: Subquery) -> Result<Subquery> {
    let plan: &LogicalPlan = &subquery.subquery;
    let [field] = plan.schema().fields().as_ref() else {
        return Ok(subquery);
    };
    let (qualifier, _) = plan.schema().qualified_field(0);
    let mut text = plan.display_indent().to_string();
    // Calls of table functions are displayed without their arguments.
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(table) = source_as_provider(&scan.source)
            && let Some(call) = call_of(table.as_ref())
        {
            text.push_str(call);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
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
