//! Rules of DataFusion's optimizer that run in functions of this crate, which show them another plan or handle their errors. A rule keeps its
//! name and its place among the others.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// Rewrites a plan with the help of DataFusion's rule.
pub type Rewrite =
    fn(&dyn OptimizerRule, LogicalPlan, &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>>;

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

#[derive(Debug)]
struct WrappedRule {
    inner: Rule,
    rewrite: Rewrite,
}

/// Replaces the rule called `name` by one that runs `rewrite` with it.
pub fn wrap(rules: &mut [Rule], name: &str, rewrite: Rewrite) {
    for rule in rules.iter_mut().filter(|rule| rule.name() == name) {
        let inner = Arc::clone(rule);
        *rule = Arc::new(WrappedRule { inner, rewrite });
    }
}

impl OptimizerRule for WrappedRule {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.inner.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        (self.rewrite)(self.inner.as_ref(), plan, config)
    }
}
