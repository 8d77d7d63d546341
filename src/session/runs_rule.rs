//! The physical rule that aggregates windows by runs of rows with [`AggregateRunsExec`], in place of partial `AggregateExec`s.
//!
//! It applies to the first step of overlapping windows ([`windows`](super::windows)), and to groups by functions of contig and position
//! such as `genome_bin`. An aggregate of one step becomes two: one by runs, and a merge. The rule runs after DataFusion's own.
//! Invariant: the result keeps its partitions and order.

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

/// The rule.
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
                Some(aggregate) if is_first_step(aggregate) || is_by_windows(aggregate) => {
                    in_two_steps(aggregate, by_runs)?
                }
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

/// A partial aggregate by runs.
fn by_runs(aggregate: AggregateExec) -> Result<Arc<dyn ExecutionPlan>> {
    let mut aggregate = Arc::new(aggregate);
    if let Some(input) = before_shuffling(aggregate.input())? {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        let replaced = aggregate.replace_children(vec![input], options)?;
        aggregate = match replaced.downcast_ref::<AggregateExec>() {
            Some(aggregate) => Arc::new(aggregate.clone()),
            None => {
                return internal_err!("an aggregate with other children is {}", replaced.name());
            }
        };
    }
    Ok(Arc::new(AggregateRunsExec::try_new(aggregate)?))
}

/// The sorted input of a round-robin repartitioning whose output is sorted again in the same order. Aggregating rows by runs is
/// cheaper than repartitioning and sorting them.
pub(super) fn before_shuffling(
    input: &Arc<dyn ExecutionPlan>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(sort) = input.downcast_ref::<SortExec>() else {
        return Ok(None);
    };
    let Some(repartition) = sort.input().downcast_ref::<RepartitionExec>() else {
        return Ok(None);
    };
    let plain = sort.fetch().is_none()
        && sort.preserve_partitioning()
        && matches!(repartition.partitioning(), Partitioning::RoundRobinBatch(_));
    let ordering = sort.expr().iter().cloned();
    let was_sorted = repartition
        .input()
        .equivalence_properties()
        .ordering_satisfy(ordering)?;
    Ok((plain && was_sorted).then(|| Arc::clone(repartition.input())))
}

/// Whether an aggregate takes rows, not states, in groups, and its groups can be kept in a
/// [`GroupTable`](super::runs_table::GroupTable).
pub(super) fn takes_rows(aggregate: &AggregateExec) -> bool {
    let raw = matches!(
        aggregate.mode(),
        AggregateMode::Partial | AggregateMode::Single | AggregateMode::SinglePartitioned
    );
    let group_by = aggregate.group_expr();
    // Without aggregates (DISTINCT) there are no states.
    raw && !aggregate.aggr_expr().is_empty()
        && group_by.is_single()
        && !group_by.is_empty()
        && aggregate.limit_options().is_none()
        && aggregate
            .aggr_expr()
            .iter()
            .all(|call| call.groups_accumulator_supported())
}

/// Whether all calls compute states, which `windows` merges.
fn is_first_step(aggregate: &AggregateExec) -> bool {
    takes_rows(aggregate)
        && aggregate
            .aggr_expr()
            .iter()
            .all(|call| is_state(call.fun()))
}

/// Whether the groups are windows: bins, or other functions of contig and position, but not the position itself. Columns are
/// recognised by their names, which is enough because only speed depends on it.
fn is_by_windows(aggregate: &AggregateExec) -> bool {
    let keys = aggregate.group_expr().expr();
    takes_rows(aggregate)
        && keys.iter().all(|(key, _)| is_bin(key) || is_of_site(key))
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

fn is_of_site(key: &Arc<dyn PhysicalExpr>) -> bool {
    let bare = key.downcast_ref::<Column>().is_some();
    collect_columns(key)
        .iter()
        .all(|column| column.name() == CONTIG || column.name() == POSITION && !bare)
}

/// The aggregate with its partial step built by `first` and, if it has only one step, a merge. `None` if that would change its order or
/// partitions.
pub(super) fn in_two_steps(
    aggregate: &AggregateExec,
    first: impl FnOnce(AggregateExec) -> Result<Arc<dyn ExecutionPlan>>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    match aggregate.mode() {
        AggregateMode::Partial => return first(aggregate.clone()).map(Some),
        AggregateMode::Single => {}
        _ => return Ok(None),
    }
    let merged = split(aggregate, first)?;
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

/// An aggregate of one step as two steps: `first` builds the operator of the first step from a partial aggregate.
pub(super) fn split(
    aggregate: &AggregateExec,
    first: impl FnOnce(AggregateExec) -> Result<Arc<dyn ExecutionPlan>>,
) -> Result<AggregateExec> {
    let calls = aggregate.aggr_expr().to_vec();
    let group_by = aggregate.group_expr();
    let partial = AggregateExec::try_new(
        AggregateMode::Partial,
        group_by.clone(),
        calls.clone(),
        aggregate.filter_expr().to_vec(),
        Arc::clone(aggregate.input()),
        aggregate.input_schema(),
    )?;
    let filters = vec![None; calls.len()];
    AggregateExec::try_new(
        AggregateMode::Final,
        group_by.as_final(),
        calls,
        filters,
        first(partial)?,
        aggregate.input_schema(),
    )
}
