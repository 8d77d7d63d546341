//! The physical rule that keeps the rows of a table in their order on the way into a VCZ store.
//!
//! A scan with several partitions gives rows in any order, which does for most statements. A VCZ store has variants in order, so where
//! [`VczSink`] is fed by a scan through operators that work row by row, the scan gets one partition and nothing shuffles its rows. The
//! chunks that are written are encoded in parallel, which takes longer than reading. The rule runs after DataFusion's own.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};

use super::row_order::{is_round_robin, keeps_order, scan_of};
use super::vcz_format::VczSink;

/// The rule.
#[derive(Debug)]
pub struct KeepStoreOrder;

impl PhysicalOptimizerRule for KeepStoreOrder {
    fn name(&self) -> &str {
        "vcz_keep_store_order"
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
            let Some(sink) = node.downcast_ref::<DataSinkExec>() else {
                return Ok(Transformed::no(node));
            };
            if !sink.sink().is::<VczSink>() || !keeps_order(sink.input()) {
                return Ok(Transformed::no(node));
            }
            let input = in_order(Arc::clone(sink.input()))?;
            with_children(node, vec![input]).map(Transformed::yes)
        })
        .map(|transformed| transformed.data)
    }
}

/// The plan with one partition, without repartitioning.
fn in_order(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        if let Some(scan) = scan_of(&node) {
            let one = DataSourceExec::from_data_source(scan.in_one_partition());
            return Ok(Transformed::yes(one as Arc<dyn ExecutionPlan>));
        }
        let is_merge = node.is::<SortPreservingMergeExec>() && node.fetch().is_none();
        match node.children()[..] {
            [child] if is_round_robin(&node) || is_merge => Ok(Transformed::yes(Arc::clone(child))),
            _ => Ok(Transformed::no(node)),
        }
    })
    .map(|transformed| transformed.data)
}

fn with_children(
    node: Arc<dyn ExecutionPlan>,
    children: Vec<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    node.replace_children(children, options)
}
