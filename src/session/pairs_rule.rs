//! The physical rule that aggregates over pairs without GROUP BY with [`PairsExec`], in place of `AggregateExec`s; and over individuals, directly
//! above a scan of many rows, if there are GPUs that count them.
//!
//! All calls of an operator are computed by it or none, so none may be ordered or DISTINCT. Where all partitions have one state, the merge of
//! states goes, too; otherwise an aggregate of one step becomes two, this one and a merge. The rule runs after DataFusion's own.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};

use super::pairs::PairsExec;
use super::runs_rule::in_two_steps;
use crate::functions::{
    compares_pairs, device_bytes, is_on_device, keeps_matrix, would_be_on_device,
};
use crate::scan::{Backend, VczSettings, may_keep_rows};

/// The rule.
#[derive(Debug)]
pub struct AggregatePairs;

impl PhysicalOptimizerRule for AggregatePairs {
    fn name(&self) -> &str {
        "vcz_aggregate_pairs"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let backend = VczSettings::of(config).backend;
        plan.transform_up(|plan| {
            let partial = match plan.downcast_ref::<AggregateExec>() {
                Some(aggregate) if is_of_pairs(aggregate) || is_on_gpu(aggregate, backend) => {
                    in_two_steps(aggregate, |partial| {
                        let pairs = PairsExec::try_new(Arc::new(partial))?;
                        Ok(Arc::new(pairs.with_backend(backend)))
                    })?
                }
                _ => None,
            };
            let merge = partial.as_ref().unwrap_or(&plan);
            let merge = merge.downcast_ref::<AggregateExec>();
            let single = merge.and_then(PairsExec::in_one_step);
            let single = single.map(|single| Arc::new(single) as _);
            Ok(match single.or(partial) {
                Some(pairs) => Transformed::yes(pairs),
                None => Transformed::no(plan),
            })
        })
        .map(|transformed| transformed.data)
    }
}

/// Whether an aggregate without groups takes rows, not states, and any number of them in any order.
fn is_of_rows(aggregate: &AggregateExec) -> bool {
    aggregate.mode().input_mode() == AggregateInputMode::Raw
        && aggregate.group_expr().is_true_no_grouping()
        && aggregate.aggr_expr().iter().all(|call| {
            !call.is_distinct()
                && call.order_sensitivity() == AggregateOrderSensitivity::Insensitive
        })
}

/// Whether it keeps a matrix of pairs.
fn is_of_pairs(aggregate: &AggregateExec) -> bool {
    let mut calls = aggregate.aggr_expr().iter();
    is_of_rows(aggregate) && calls.any(|call| keeps_matrix(call.fun()))
}

/// Whether GPUs would count individuals for it.
fn is_on_gpu(aggregate: &AggregateExec, backend: Backend) -> bool {
    let calls = aggregate.aggr_expr();
    let mut of_gpu = calls.iter().filter(|call| is_on_device(call.fun()));
    is_of_rows(aggregate)
        && calls.iter().all(|call| !compares_pairs(call.fun()))
        && of_gpu.any(|call| would_be_on_device(backend, device_bytes(call)))
        && may_keep_rows(aggregate.input(), backend)
}
