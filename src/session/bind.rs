//! Binds calls on genotypes to the samples of their column, before a plan is optimised.
//!
//! ```text
//! Projection: allele_counts(call_genotype, 'p')          Projection: allele_counts(call_genotype, 'p')  bound: samples 0, 4, 7 of 10
//!   TableScan: x                                   ->      TableScan: x
//! ```
//! The samples are those of the table in the same query whose metadata the column carries: a column that comes from elsewhere
//! (Parquet, a table made by CREATE TABLE AS) has a table here only where the digests of samples and populations agree. A call
//! whose population is a subquery stays unbound until [`planner`](super::planner) has read it; the rule then runs again.

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::AnalyzerRule;

use super::binder::{Binder, is_of_calls};
use super::union_calls::{self, Aliases};
use super::unions;

/// The rule.
#[derive(Debug)]
pub struct BindCalls;

impl AnalyzerRule for BindCalls {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        if !concerns(&plan)? {
            return Ok(plan);
        }
        let mut binder = Binder::of(&plan)?;
        let mut aliases = Aliases::unused_in(&plan)?;
        let bound = plan.transform_up_with_subqueries(|node| {
            let node = union_calls::push(node, &mut binder, &mut aliases)?;
            binder.bind_node(node.data)
        })?;
        // Once all calls have been moved into the branches.
        let stored = bound.data.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Union(union) => unions::same_metadata(union).map(Transformed::yes),
            other => Ok(Transformed::no(other)),
        })?;
        Ok(stored.data)
    }

    fn name(&self) -> &str {
        "vcz_bind_calls"
    }
}

/// Whether `plan` calls a function on genotypes, or unites columns that may be of different samples.
fn concerns(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= matches!(node, LogicalPlan::Union(_));
        node.apply_expressions(|expr| {
            found |= expr.exists(|expr| Ok(is_of_calls(expr)))?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}
