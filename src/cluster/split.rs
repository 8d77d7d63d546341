//! How scans are divided among workers: each task reads consecutive rows, cut between chunks, so that no chunk is decoded twice.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::Result;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_distributed::{
    DesiredTaskCountEvent, DesiredTaskCountEventResponse, DesiredTaskCountHandler,
    DistributedLeafExec, ScaleUpLeafNodeEvent, ScaleUpLeafNodeEventResponse,
    ScaleUpLeafNodeHandler,
};

use super::decision::Goal;
use super::workers::Workers;
use crate::scan::VczSource;

/// The scan of a VCZ table that `plan` is.
pub fn scan_of(plan: &dyn ExecutionPlan) -> Option<&VczSource> {
    let scan = plan.downcast_ref::<DataSourceExec>()?;
    scan.data_source().downcast_ref::<VczSource>()
}

/// Says how many tasks a scan is worth.
pub struct CountTasks;

#[async_trait]
impl DesiredTaskCountHandler for CountTasks {
    async fn handle(
        &self,
        event: DesiredTaskCountEvent<'_>,
    ) -> Option<Result<DesiredTaskCountEventResponse>> {
        let scan = scan_of(event.plan.as_ref())?;
        let goal = event.session_config.get_extension::<Goal>();
        let tasks = goal.map_or(1, |goal| goal.tasks);
        Some(Ok(match scan.is_divisible() {
            true => DesiredTaskCountEventResponse::desired(tasks),
            false => DesiredTaskCountEventResponse::maximum(1),
        }))
    }
}

/// Divides a scan.
pub struct DivideScan(pub Arc<Workers>);

impl ScaleUpLeafNodeHandler for DivideScan {
    fn handle(&self, event: ScaleUpLeafNodeEvent) -> Option<Result<ScaleUpLeafNodeEventResponse>> {
        let scan = scan_of(event.plan.as_ref())?;
        if event.task_count <= 1 || !scan.is_divisible() {
            return None;
        }
        let shares = scan.shares(event.task_count, self.0.partitions());
        let shares = shares
            .into_iter()
            .map(|share| DataSourceExec::from_data_source(share) as Arc<dyn ExecutionPlan>);
        let leaf = DistributedLeafExec::try_new(Arc::clone(event.plan), shares);
        Some(leaf.map(|leaf| ScaleUpLeafNodeEventResponse::new(Arc::new(leaf))))
    }
}
