//! Wraps DataFusion's rules: each checks between its steps whether planning must [stop](super::stop), and limits the size of the plan.
//! Invariant: the rules' names, order and results are those of DataFusion.

use std::fmt::Debug;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, plan_err};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::planner::{
    RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{AnalyzerRule, OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::{PhysicalOptimizerContext, PhysicalOptimizerRule};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::sqlparser::ast::TableFactor;

use super::{plan_size, stop};

/// The factor by which rules may make a plan larger, because a call on genotypes becomes several expressions.
const GROWTH: usize = 10;

/// `state` with all its rules checked; a plan of `most` nodes and expressions may grow tenfold.
pub fn checked(state: SessionState, most: usize) -> SessionState {
    let most = most.saturating_mul(GROWTH);
    let analyzer = state.analyzer().rules.iter();
    let analyzer = analyzer
        .map(|rule| Arc::new(Checked(Arc::clone(rule), most)) as _)
        .collect();
    let optimizer = state.optimizer().rules.iter();
    let optimizer = optimizer
        .map(|rule| Arc::new(Checked(Arc::clone(rule), most)) as _)
        .collect();
    let physical = state.physical_optimizers().iter();
    let physical = physical
        .map(|rule| Arc::new(Checked(Arc::clone(rule), most)) as _)
        .collect();
    let mut relations = state.relation_planners().to_vec();
    relations.insert(0, Arc::new(CheckedRelations));
    SessionStateBuilder::new_from_existing(state)
        .with_analyzer_rules(analyzer)
        .with_optimizer_rules(optimizer)
        .with_physical_optimizer_rules(physical)
        .with_relation_planners(relations)
        .build()
}

/// A rule, and the most nodes and expressions of a plan.
#[derive(Debug)]
struct Checked<R: ?Sized>(Arc<R>, usize);

impl AnalyzerRule for Checked<dyn AnalyzerRule + Send + Sync> {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        stop::check()?;
        let plan = self.0.analyze(plan, config)?;
        stop::check()?;
        plan_size::check(&plan, self.1)?;
        Ok(plan)
    }

    fn name(&self) -> &str {
        self.0.name()
    }
}

impl OptimizerRule for Checked<dyn OptimizerRule + Send + Sync> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        stop::check()?;
        let rewritten = self.0.rewrite(plan, config)?;
        if !rewritten.transformed {
            return Ok(rewritten);
        }
        match self.apply_order() {
            // Without an order the rule has rewritten the whole plan.
            None => plan_size::check(&rewritten.data, self.1)?,
            Some(_) => {
                let expressions = plan_size::expressions_of(&rewritten.data, self.1)?;
                if expressions > self.1 {
                    return plan_err!(
                        "the statement has more than {} expressions in one place when it is optimised, which is too many",
                        self.1
                    );
                }
            }
        }
        Ok(rewritten)
    }
}

impl PhysicalOptimizerRule for Checked<dyn PhysicalOptimizerRule + Send + Sync> {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        stop::check()?;
        self.0.optimize(plan, config)
    }

    fn optimize_with_context(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        stop::check()?;
        self.0.optimize_with_context(plan, context)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// Called for each table of a statement while its logical plan is built, to check whether to stop; other planners plan the table.
#[derive(Debug)]
struct CheckedRelations;

impl RelationPlanner for CheckedRelations {
    fn plan_relation(
        &self,
        relation: TableFactor,
        _context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        stop::check()?;
        Ok(RelationPlanning::Original(Box::new(relation)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, UnboundedMemoryPool};
    use datafusion::prelude::SessionContext;

    use super::*;

    #[tokio::test]
    async fn the_same_plans() {
        let state = SessionContext::new().state();
        let other = checked(state.clone(), 1000);
        for sql in [
            "SELECT a, count(*) FROM (VALUES (1), (2)) AS t(a) WHERE a + 1 > 2 GROUP BY a ORDER BY 2",
        ] {
            let plan = state.create_logical_plan(sql).await.unwrap();
            let (one, two) = (
                state.optimize(&plan).unwrap(),
                other.optimize(&plan).unwrap(),
            );
            assert_eq!(one, two);
            let physical = other.create_physical_plan(&one).await.unwrap();
            let shown = |plan| {
                datafusion::physical_plan::displayable(plan)
                    .indent(true)
                    .to_string()
            };
            let expected = state.create_physical_plan(&one).await.unwrap();
            assert_eq!(shown(physical.as_ref()), shown(expected.as_ref()));
        }
    }

    #[tokio::test]
    async fn each_stage_stops() {
        let state = checked(SessionContext::new().state(), 1000);
        let plan = state
            .create_logical_plan("SELECT 1 + 2 AS a")
            .await
            .unwrap();
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let memory = MemoryConsumer::new("planning").register(&pool);
        stop::within(stop::Stop::at(Instant::now()), memory, || {
            assert!(
                state
                    .optimize(&plan)
                    .unwrap_err()
                    .to_string()
                    .contains("time limit")
            );
            let built = futures::executor::block_on(state.create_logical_plan("SELECT * FROM x"));
            assert!(built.unwrap_err().to_string().contains("time limit"));
        });
    }
}
