//! Cuts a plan into stages, and checks that they can be sent.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err, plan_err};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::{QueryPlanner, SessionState};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion_distributed::{
    DistributedCodec, DistributedExec, DistributedLeafExec, NetworkBoundaryExt,
    SessionStateBuilderExt,
};
use datafusion_proto::bytes::physical_plan_to_bytes_with_proto_converter;
use datafusion_proto::physical_plan::DeduplicatingProtoConverter;
use datafusion_proto::protobuf::PhysicalPlanNode;
use prost::Message;

use super::wire::frame::broken;

/// `plan`, which is portable, in stages. The crate's planner takes logical plans only, so it gets a planner that has the plan.
///
/// # Errors
/// If nothing of it is divided.
pub async fn cut(
    plan: Arc<dyn ExecutionPlan>,
    logical: &LogicalPlan,
    state: &SessionState,
) -> Result<Arc<dyn ExecutionPlan>> {
    let mut builder = SessionStateBuilder::new()
        .with_query_planner(Arc::new(FixedPlan(plan)))
        .with_distributed_planner();
    let Some(planner) = builder.query_planner().take() else {
        return internal_err!("there is no planner of distributed plans");
    };
    let cut = planner.create_physical_plan(logical, state).await?;
    let analyzes = cut
        .children()
        .iter()
        .any(|input| input.is::<DistributedExec>());
    match cut.is::<DistributedExec>() || analyzes && !cut.is::<AnalyzeExec>() {
        true => Ok(cut),
        false => plan_err!("no operator above its scans takes the rows of several tasks"),
    }
}

/// A planner that returns a plan that is there.
#[derive(Debug)]
struct FixedPlan(Arc<dyn ExecutionPlan>);

#[async_trait]
impl QueryPlanner for FixedPlan {
    async fn create_physical_plan(
        &self,
        _logical: &LogicalPlan,
        _session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::clone(&self.0))
    }
}

/// Encodes each stage as it will be sent. The crate reports such errors late, as a time-out.
///
/// # Errors
/// If a stage cannot be sent.
pub fn check_stages(plan: &Arc<dyn ExecutionPlan>, state: &SessionState) -> Result<()> {
    let codec = DistributedCodec::new_combined_with_user(state.config());
    plan.apply(|node| {
        if !node.is_network_boundary() {
            return Ok(TreeNodeRecursion::Continue);
        }
        for stage in node.children() {
            let bare = Arc::clone(stage).transform_up(|node| {
                let leaf = node.downcast_ref::<DistributedLeafExec>();
                let first = leaf.and_then(|leaf| leaf.variants().first().cloned());
                Ok(match first {
                    Some(first) => Transformed::yes(first),
                    None => Transformed::no(node),
                })
            })?;
            let converter = DeduplicatingProtoConverter::default();
            let bytes = physical_plan_to_bytes_with_proto_converter(bare.data, &codec, &converter)?;
            // Messages may be nested too deeply to be read again.
            PhysicalPlanNode::decode(bytes).map_err(broken)?;
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map(drop)
}
