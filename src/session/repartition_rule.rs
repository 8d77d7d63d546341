//! The physical rule that gives repartitioning one input where memory is bounded, because DataFusion 55 can hang otherwise.
//!
//! A `RepartitionExec` that gets no memory writes its batches to files. With several inputs, two of these files can be open at once;
//! its reader then waits for the older one while the batch that it needs is in the newer one, and the writers wait for the reader
//! (apache/datafusion#24883, fixed after 55.2 by #24891). One input has one open file. What it costs is the parallelism of
//! hashing rows, which is why sessions with unbounded memory, which never write these files, are left alone.
//! With DataFusion 56 this rule can go.
//!
//! Functions of plans that are made in such a session count the memory of what they return (`QueryMemory`).

use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions,
};

use crate::scan::{QueryMemory, VczSettings};

/// The rule.
#[derive(Debug)]
pub struct RepartitionOneInput;

/// `session` with the rule, and with its memory in its settings, if queries may be refused memory there. It is looked at for each plan, because
/// `SET datafusion.runtime.memory_limit` changes it.
pub fn with_rule(session: &dyn Session) -> Option<SessionState> {
    let limit = session.runtime_env().memory_pool.memory_limit();
    if matches!(limit, MemoryLimit::Infinite) {
        return None;
    }
    let state = session.as_any().downcast_ref::<SessionState>()?;
    let builder = SessionStateBuilder::new_from_existing(state.clone())
        .with_session_id(state.session_id().to_string())
        .with_physical_optimizer_rule(Arc::new(RepartitionOneInput));
    let mut bounded = builder.build();
    let options = bounded.config_mut().options_mut();
    if let Some(settings) = options.extensions.get_mut::<VczSettings>() {
        settings.memory = QueryMemory::of(&session.runtime_env().memory_pool);
    }
    let options = Arc::clone(bounded.config_options());
    bounded.execution_props_mut().config_options = Some(options);
    Some(bounded)
}

impl PhysicalOptimizerRule for RepartitionOneInput {
    fn name(&self) -> &str {
        "vcz_repartition_one_input"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let Some(repartition) = node.downcast_ref::<RepartitionExec>() else {
                return Ok(Transformed::no(node));
            };
            let input = repartition.input();
            if repartition.preserve_order() || input.output_partitioning().partition_count() <= 1 {
                return Ok(Transformed::no(node));
            }
            let one = Arc::new(CoalescePartitionsExec::new(Arc::clone(input)));
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            node.replace_children(vec![one], options)
                .map(Transformed::yes)
        })
        .map(|transformed| transformed.data)
    }
}
