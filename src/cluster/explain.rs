//! What EXPLAIN shows of distributed plans: the stages and their tasks, or why a query runs here.

use std::sync::Arc;

use datafusion::common::display::{PlanType, StringifiedPlan};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::explain::ExplainExec;
use datafusion_distributed::display_plan_ascii;

use super::decision::Decision;
use super::exec::ClusterExec;

/// EXPLAIN's rows, in `shown`, for `plan`.
pub fn explained(
    shown: Arc<dyn ExecutionPlan>,
    plan: &Arc<dyn ExecutionPlan>,
    decision: &Decision,
) -> Arc<dyn ExecutionPlan> {
    let Some(explain) = shown.downcast_ref::<ExplainExec>() else {
        return shown;
    };
    let line = described(decision);
    let rows = explain.stringified_plans().iter().map(|row| {
        // A plan as JSON stays JSON.
        if row.plan_type != PlanType::FinalPhysicalPlan || row.plan.starts_with('[') {
            return row.clone();
        }
        let own = match plan.downcast_ref::<ClusterExec>() {
            Some(exec) => display_plan_ascii(exec.stages().as_ref(), false),
            None => row.plan.to_string(),
        };
        StringifiedPlan::new(row.plan_type.clone(), format!("{line}\n{own}"))
    });
    let rows = rows.collect();
    let schema = explain.schema();
    Arc::new(ExplainExec::new(schema, rows, explain.verbose()))
}

/// One line about how a query runs.
pub fn described(decision: &Decision) -> String {
    match decision {
        Decision::Local(reason) => format!("runs on this machine alone: {reason}"),
        Decision::Distributed {
            tasks,
            workers,
            bytes,
        } => {
            let megabytes = bytes.div_ceil(1 << 20);
            let asked = tasks.min(workers);
            format!("runs on {asked} of {workers} workers: {megabytes} MiB to decode")
        }
    }
}
