//! Whether a physical plan gives the rows of a VCZ table in the table's order, as writing a store needs it.

use std::sync::Arc;

use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning};

use crate::scan::VczSource;

/// Whether the rows of `plan` are those of one table, some of them perhaps, in its order, if nothing shuffles them.
pub fn keeps_order(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let mut at = plan;
    loop {
        if scan_of(at).is_some() {
            return true;
        }
        let children = at.children();
        let [child] = children[..] else {
            return false;
        };
        if !is_row_wise(at) {
            return false;
        }
        at = child;
    }
}

/// Whether the rows of `plan` are in an order that the query asks for.
pub fn is_ordered(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let mut at = plan;
    loop {
        if at.is::<SortExec>() {
            return true;
        }
        let children = at.children();
        let [child] = children[..] else {
            return false;
        };
        if !is_row_wise(at) {
            return false;
        }
        at = child;
    }
}

/// Whether `plan` has a row for each row of one table, in its order, if nothing shuffles them.
pub fn is_whole_table(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let mut at = plan;
    loop {
        if let Some(scan) = scan_of(at) {
            return scan.reads_all();
        }
        let children = at.children();
        let [child] = children[..] else {
            return false;
        };
        if !is_row_wise(at) || selects(at) {
            return false;
        }
        at = child;
    }
}

/// The scan of a VCZ table, if `plan` is one.
pub fn scan_of(plan: &Arc<dyn ExecutionPlan>) -> Option<&VczSource> {
    let source = plan.downcast_ref::<DataSourceExec>()?;
    source.data_source().downcast_ref::<VczSource>()
}

/// Whether an operator gives the rows of its only input in their order, but for partitions.
fn is_row_wise(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<ProjectionExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<CoalescePartitionsExec>()
        // Merges the partitions of a sorted scan, which may exchange rows of one position.
        || plan.is::<SortPreservingMergeExec>()
        || selects(plan)
        || is_round_robin(plan)
}

/// Whether an operator may leave out rows.
fn selects(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<FilterExec>()
        || plan.is::<GlobalLimitExec>()
        || plan.is::<LocalLimitExec>()
        || plan.fetch().is_some()
}

/// Whether an operator deals out the batches of its input to partitions.
pub fn is_round_robin(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let repartition = plan.downcast_ref::<RepartitionExec>();
    repartition.is_some_and(|repartition| {
        matches!(repartition.partitioning(), Partitioning::RoundRobinBatch(_))
    })
}
