//! The rule that has aggregates over windows run by runs of rows, in [`runs`](super::runs): which they are, and in how many steps.
//!
//! After `windows` and DataFusion's own rules, on physical plans. Invariant: what comes out in the end is in the same partitions and order,
//! and whatever is given out more than once is merged above.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, ExecutionPlanProperties, Partitioning, PhysicalExpr,
    ReplaceChildrenOptions,
};

use super::runs::AggregateRunsExec;
use crate::functions::is_state;
use crate::functions::scalar::GenomeBin;

const CONTIG: &str = "variant_contig";
const POSITION: &str = "variant_position";

/// The rule that puts [`AggregateRunsExec`] in the place of `AggregateExec`.
#[derive(Debug)]
pub struct AggregateByRuns;

impl PhysicalOptimizerRule for AggregateByRuns {
    fn name(&self) -> &str {
        "vcz_aggregate_by_runs"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            let by_runs = match plan.downcast_ref::<AggregateExec>() {
                Some(aggregate) if is_first_step(aggregate) => Some(by_runs(aggregate.clone())?),
                Some(aggregate) if is_by_windows(aggregate) => in_two_steps(aggregate)?,
                _ => None,
            };
            Ok(match by_runs {
                Some(by_runs) => Transformed::yes(by_runs),
                None => Transformed::no(plan),
            })
        })
        .map(|transformed| transformed.data)
    }
}

fn by_runs(aggregate: AggregateExec) -> Result<Arc<dyn ExecutionPlan>> {
    let mut aggregate = Arc::new(aggregate);
    if *aggregate.mode() == AggregateMode::Partial
        && let Some(input) = before_shuffling(aggregate.input())?
    {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        let replaced = aggregate.replace_children(vec![input], options)?;
        aggregate = match replaced.downcast_ref::<AggregateExec>() {
            Some(aggregate) => Arc::new(aggregate.clone()),
            None => {
                return internal_err!("an aggregate with other children is {}", replaced.name());
            }
        };
    }
    Ok(Arc::new(AggregateRunsExec::new(aggregate)))
}

/// What is dealt out to more partitions and sorted again, though it came in that order. Rows are cheaper to aggregate by runs than
/// to deal out and sort.
fn before_shuffling(input: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(sort) = input.downcast_ref::<SortExec>() else {
        return Ok(None);
    };
    let Some(dealt) = sort.input().downcast_ref::<RepartitionExec>() else {
        return Ok(None);
    };
    let plain = sort.fetch().is_none()
        && sort.preserve_partitioning()
        && matches!(dealt.partitioning(), Partitioning::RoundRobinBatch(_));
    let ordering = sort.expr().iter().cloned();
    let came_so = dealt
        .input()
        .equivalence_properties()
        .ordering_satisfy(ordering)?;
    Ok((plain && came_so).then(|| Arc::clone(dealt.input())))
}

/// Whether rows go into groups here, one by one, in a way that [`AggregateRunsExec`] can take over.
fn takes_rows(aggregate: &AggregateExec) -> bool {
    let raw = matches!(
        aggregate.mode(),
        AggregateMode::Partial | AggregateMode::Single | AggregateMode::SinglePartitioned
    );
    let group_by = aggregate.group_expr();
    // Groups without aggregates (DISTINCT) are not merged by anyone.
    raw && !aggregate.aggr_expr().is_empty()
        && group_by.is_single()
        && !group_by.is_empty()
        && aggregate.limit_options().is_none()
        && aggregate
            .aggr_expr()
            .iter()
            .all(|call| call.groups_accumulator_supported())
}

/// Whether all that is computed are states that are merged later.
fn is_first_step(aggregate: &AggregateExec) -> bool {
    takes_rows(aggregate)
        && aggregate
            .aggr_expr()
            .iter()
            .all(|call| is_state(call.fun()))
}

/// Whether the groups are windows: bins, or other functions of the contig and the position, but not the position itself. By their
/// names, since no more than speed depends on it.
fn is_by_windows(aggregate: &AggregateExec) -> bool {
    let keys = aggregate.group_expr().expr();
    takes_rows(aggregate)
        && keys.iter().all(|(key, _)| is_bin(key) || is_of_place(key))
        && keys
            .iter()
            .any(|(key, _)| is_bin(key) || uses(key, POSITION))
        && aggregate
            .aggr_expr()
            .iter()
            .all(|call| call.order_sensitivity() == AggregateOrderSensitivity::Insensitive)
}

fn is_bin(key: &Arc<dyn PhysicalExpr>) -> bool {
    key.downcast_ref::<ScalarFunctionExpr>()
        .is_some_and(|call| call.fun().inner().is::<GenomeBin>())
}

fn uses(key: &Arc<dyn PhysicalExpr>, name: &str) -> bool {
    collect_columns(key)
        .iter()
        .any(|column| column.name() == name)
}

fn is_of_place(key: &Arc<dyn PhysicalExpr>) -> bool {
    let bare = key.downcast_ref::<Column>().is_some();
    collect_columns(key)
        .iter()
        .all(|column| column.name() == CONTIG || column.name() == POSITION && !bare)
}

/// The aggregate with its rows taken by runs, and what these give merged, unless that is done above already. `None` where the
/// result would not come in the same order or partitions.
fn in_two_steps(aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    match aggregate.mode() {
        AggregateMode::Partial => return by_runs(aggregate.clone()).map(Some),
        AggregateMode::Single => {}
        _ => return Ok(None),
    }
    let calls = aggregate.aggr_expr().to_vec();
    let group_by = aggregate.group_expr();
    let first = AggregateExec::try_new(
        AggregateMode::Partial,
        group_by.clone(),
        calls.clone(),
        aggregate.filter_expr().to_vec(),
        Arc::clone(aggregate.input()),
        aggregate.input_schema(),
    )?;
    let filters = vec![None; calls.len()];
    let merged = AggregateExec::try_new(
        AggregateMode::Final,
        group_by.as_final(),
        calls,
        filters,
        by_runs(first)?,
        aggregate.input_schema(),
    )?;
    let same_order = match aggregate.properties().output_ordering() {
        Some(ordering) => merged
            .properties()
            .equivalence_properties()
            .ordering_satisfy(ordering.iter().cloned())?,
        None => true,
    };
    Ok((same_order && merged.schema() == aggregate.schema())
        .then(|| Arc::new(merged) as Arc<dyn ExecutionPlan>))
}
