//! Refuses plans whose counts over pairs cannot fit into memory, before anything is read.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateOutputMode};

use super::pairs::PairsExec;
use super::runs::AggregateRunsExec;
use crate::functions::{compares_pairs, pairs_size, value_size};

/// Returns an error if the aggregates of `plan` that compare pairs need more than the limit of `pool`, however few rows they get.
pub(super) fn check_memory(
    plan: &Arc<dyn ExecutionPlan>,
    pool: &Arc<dyn MemoryPool>,
) -> Result<()> {
    let MemoryLimit::Finite(limit) = pool.memory_limit() else {
        return Ok(());
    };
    let (mut needed, mut largest) = (0usize, (0usize, String::new(), 1));
    plan.apply(|node| {
        let of_runs = || Some(node.downcast_ref::<AggregateRunsExec>()?.aggregate());
        let of_pairs = || Some(node.downcast_ref::<PairsExec>()?.aggregate());
        let aggregate = node.downcast_ref::<AggregateExec>();
        let aggregate = aggregate.or_else(of_runs).or_else(of_pairs);
        let calls = aggregate.map(|aggregate| (aggregate.mode(), aggregate.aggr_expr()));
        let pairs = node.downcast_ref::<PairsExec>();
        let partitions = match pairs {
            Some(_) => 1,
            None => node.properties().output_partitioning().partition_count(),
        };
        let computes_values = pairs.is_some_and(PairsExec::computes_values);
        if let Some((mode, calls)) = calls {
            for call in calls.iter().filter(|call| compares_pairs(call.fun())) {
                let mut bytes = pairs_size(call).saturating_mul(partitions);
                if computes_values {
                    // Of the matrix, and of its copy for rows that it does not have.
                    bytes = bytes.saturating_mul(2);
                }
                if computes_values || mode.output_mode() == AggregateOutputMode::Final {
                    bytes = bytes.saturating_add(value_size(call)?);
                }
                needed = needed.saturating_add(bytes);
                if bytes > largest.0 {
                    largest = (bytes, call.fun().name().to_string(), partitions);
                }
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if needed <= limit {
        return Ok(());
    }
    let (_, name, partitions) = largest;
    let (parts, fewer) = match partitions {
        1 => (String::new(), ""),
        _ => (
            format!(" in {partitions} partitions"),
            "lower datafusion.execution.target_partitions, ",
        ),
    };
    let streams = match name.as_str() {
        "sample_pairs" => {
            ", or read vcz_sample_pairs('table' [, population [, min_kinship]]), which streams"
        }
        _ => "",
    };
    Err(DataFusionError::ResourcesExhausted(format!(
        "{name}: the counts and values of pairs need {:.1} MB{parts}, and the memory limit is {:.1} MB: raise it, \
         {fewer}name a population of fewer samples{streams}",
        needed as f64 / 1e6,
        limit as f64 / 1e6
    )))
}
