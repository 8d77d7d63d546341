//! DataFusion's `CommonSubexprEliminate`, kept from taking subqueries out of the calls on genotypes whose population they give.
//!
//! `sfs(g, (SELECT …)), inbreeding(g, (SELECT …))` becomes two calls on genotypes with one subquery. The rule would make the subquery a
//! column of a projection below, so that the population is no longer a constant that [`planner`](super::planner) can read. Here the
//! rule sees such a subquery as a variable, which it leaves in its place. Calls that are equal are still computed once.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};
use datafusion::optimizer::optimizer::{OptimizerConfig, OptimizerRule};

use crate::scan::GenotypeUdf;

/// Name of DataFusion's rule.
pub const NAME: &str = "common_sub_expression_eliminate";
/// First part of the names of variables that stand for subqueries.
const VARIABLE: &str = "vcz cohort";

/// Rewrites a plan by `rule`, which sees variables in the places of these subqueries.
pub fn rewrite(
    rule: &dyn OptimizerRule,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    if !has_cohorts(&plan)? {
        return rule.rewrite(plan, config);
    }
    let mut cohorts = vec![];
    let hidden = hide(plan.clone(), &mut cohorts)?;
    let rewritten = rule.rewrite(hidden, config)?;
    match rewritten.transformed {
        true => show(rewritten.data, &cohorts).map(Transformed::yes),
        false => Ok(Transformed::no(plan)),
    }
}

/// The population of a call on genotypes, below its casts.
fn population(call: &mut ScalarFunction) -> Option<&mut Expr> {
    if !call.func.inner().is::<GenotypeUdf>() {
        return None;
    }
    let mut population = call.args.get_mut(1)?;
    while let Expr::Cast(cast) = population {
        population = &mut cast.expr;
    }
    Some(population)
}

fn has_cohorts(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::ScalarFunction(call) = expr
                    && call.func.inner().is::<GenotypeUdf>()
                    && let Some(population) = call.args.get(1)
                {
                    found |=
                        population.exists(|expr| Ok(matches!(expr, Expr::ScalarSubquery(_))))?;
                }
                Ok(match found {
                    true => TreeNodeRecursion::Stop,
                    false => TreeNodeRecursion::Continue,
                })
            })
        })
    })?;
    Ok(found)
}

/// `plan` with a variable in the place of each of these subqueries, which are added to `cohorts`. Expressions keep their names.
fn hide(plan: LogicalPlan, cohorts: &mut Vec<Subquery>) -> Result<LogicalPlan> {
    let hidden = plan.transform_up_with_subqueries(|node| {
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            let hidden = expr.transform_up(|mut expr| {
                let population = match &mut expr {
                    Expr::ScalarFunction(call) => population(call),
                    _ => None,
                };
                let Some(population) = population else {
                    return Ok(Transformed::no(expr));
                };
                let Expr::ScalarSubquery(subquery) = population else {
                    return Ok(Transformed::no(expr));
                };
                let field = Arc::clone(subquery.subquery.schema().field(0));
                let known = cohorts.iter().position(|cohort| cohort == subquery);
                let at = known.unwrap_or_else(|| {
                    cohorts.push(subquery.clone());
                    cohorts.len() - 1
                });
                *population =
                    Expr::ScalarVariable(field, vec![VARIABLE.to_string(), at.to_string()]);
                Ok(Transformed::yes(expr))
            })?;
            Ok(hidden.update_data(|expr| name.restore(expr)))
        })
    })?;
    Ok(hidden.data)
}

/// `plan` with the subqueries in the places of their variables again.
fn show(plan: LogicalPlan, cohorts: &[Subquery]) -> Result<LogicalPlan> {
    let shown = plan.transform_up_with_subqueries(|node| {
        let shown = node.map_expressions(|expr| {
            expr.transform_up(|mut expr| {
                let population = match &mut expr {
                    Expr::ScalarFunction(call) => population(call),
                    _ => None,
                };
                let Some(population) = population else {
                    return Ok(Transformed::no(expr));
                };
                let Expr::ScalarVariable(_, name) = population else {
                    return Ok(Transformed::no(expr));
                };
                let [first, at] = name.as_slice() else {
                    return Ok(Transformed::no(expr));
                };
                if first != VARIABLE {
                    return Ok(Transformed::no(expr));
                }
                let cohort = at.parse::<usize>().ok().and_then(|at| cohorts.get(at));
                let cohort = cohort.ok_or_else(|| {
                    DataFusionError::Internal(format!("variable {at} has no subquery"))
                })?;
                *population = Expr::ScalarSubquery(cohort.clone());
                Ok(Transformed::yes(expr))
            })
        })?;
        Ok(shown)
    })?;
    Ok(shown.data)
}
