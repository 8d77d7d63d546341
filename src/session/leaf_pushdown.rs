//! DataFusion's `PushDownLeafProjections`, kept from crossing UNION.
//!
//! DataFusion 55 pushes an expression such as `s['x']` through a UNION into its branches. If one branch has a filter or a LIMIT, the
//! branches then have their columns in different orders. A UNION matches columns by position, so values end up in the wrong columns.
//! Here the rule sees a UNION as a leaf. [`union_calls`](super::union_calls) pushes calls on genotypes into the branches.
//!
//! If the rule fails because it would give one column two names ("ambiguous"), the plan is left as it was, which is correct.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, DataFusionError, Result};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};
use datafusion::optimizer::optimizer::{OptimizerConfig, OptimizerRule};

/// Name of DataFusion's rule.
pub const NAME: &str = "push_down_leaf_projections";

/// Rewrites a plan by `rule`, which sees each UNION as a leaf.
pub fn rewrite(
    rule: &dyn OptimizerRule,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    if !matches!(plan, LogicalPlan::Projection(_)) {
        return rule.rewrite(plan, config);
    }
    if !plan.exists(|node| Ok(matches!(node, LogicalPlan::Union(_))))? {
        return pushed(rule, plan, config);
    }
    let hidden = plan.transform_down(|node| {
        Ok(match node {
            LogicalPlan::Union(_) => {
                let node = Arc::new(HiddenUnion { union: node });
                let node = LogicalPlan::Extension(Extension { node });
                Transformed::new(node, true, TreeNodeRecursion::Jump)
            }
            other => Transformed::no(other),
        })
    })?;
    let rewritten = pushed(rule, hidden.data, config)?;
    let changed = rewritten.transformed;
    let shown = rewritten.data.transform_down(|node| {
        Ok(match &node {
            LogicalPlan::Extension(extension) => {
                match extension.node.as_any().downcast_ref::<HiddenUnion>() {
                    Some(hidden) => {
                        Transformed::new(hidden.union.clone(), true, TreeNodeRecursion::Jump)
                    }
                    None => Transformed::no(node),
                }
            }
            _ => Transformed::no(node),
        })
    })?;
    Ok(Transformed::new_transformed(shown.data, changed))
}

fn pushed(
    rule: &dyn OptimizerRule,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    match rule.rewrite(plan.clone(), config) {
        Err(DataFusionError::SchemaError(error, _)) => {
            log::debug!("{NAME} leaves a projection where it is: {error}");
            Ok(Transformed::no(plan))
        }
        rewritten => rewritten,
    }
}

/// Hides a UNION from the rule: a leaf node with the same schema.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Hash)]
struct HiddenUnion {
    union: LogicalPlan,
}

impl UserDefinedLogicalNodeCore for HiddenUnion {
    fn name(&self) -> &str {
        "HiddenUnion"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.union.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![]
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "HiddenUnion")
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, _: Vec<LogicalPlan>) -> Result<Self> {
        Ok(self.clone())
    }
}
