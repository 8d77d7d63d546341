//! The physical rule that reserves memory for spectra, and for the genotypes of sliding frames, where DataFusion does not.
//!
//! * In OVER: the nodes of [`window_memory`](super::window_memory) around the window operator. Spectra there are of one size. Frames of
//!   genotypes, and values that grow with their frames (`array_agg`), reserve what they take themselves, with what the upper node gives them.
//! * Aggregates without GROUP BY in one step: DataFusion reserves what an accumulator holds after each batch, but an accumulator
//!   does not know whether its state or its value will be requested, and a spectrum's value can be much larger. In two steps,
//!   only the accumulator of the second, which merges states, builds a value, and says so in its size. `pairs` reserves memory for values itself.
//!
//! GROUP BY needs no rule: groups report the size of their values while they accumulate, and DataFusion spills them or fails.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, plan_err};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};

use super::pairs::PairsExec;
use super::runs_rule::split;
use super::window_calls::{aggregate_of, window_calls};
use super::window_memory::{ReserveWindowMemoryExec, WindowMemoryInputExec};
use crate::functions::{grows, numbers_vary, planes_size, site_arguments, value_size};

/// The rule.
#[derive(Debug)]
pub struct ReserveSpectra;

impl PhysicalOptimizerRule for ReserveSpectra {
    fn name(&self) -> &str {
        "vcz_reserve_spectra"
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
            let reserved = match node.downcast_ref::<AggregateExec>() {
                Some(aggregate) => in_two_steps(aggregate)?,
                None => around_window(&node, window_calls(&node))?,
            };
            Ok(match reserved {
                Some(reserved) => Transformed::yes(reserved),
                None => Transformed::no(node),
            })
        })
        .map(|transformed| transformed.data)
    }
}

/// The window operator with both nodes around it, only the upper one if nothing has one size; `None` if DataFusion's accounting is enough.
fn around_window(
    window: &Arc<dyn ExecutionPlan>,
    calls: &[Arc<dyn WindowExpr>],
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let mut row_bytes = 0usize;
    let mut any_grows = false;
    let input = window.children().first().map(|input| input.schema());
    for call in calls {
        if let Some(call) = aggregate_of(call.as_ref()) {
            if number_varies(call) {
                return plan_err!(
                    "{}: the whole number after the counts must be a constant in OVER; use GROUP BY",
                    call.fun().name()
                );
            }
            row_bytes = row_bytes.saturating_add(value_size(call)?);
            any_grows |= grows(call.fun());
            if let Some(schema) = &input {
                row_bytes = row_bytes.saturating_add(planes_size(call, schema)?);
            }
        }
    }
    if row_bytes == 0 && !any_grows {
        return Ok(None);
    }
    if row_bytes == 0 {
        let reserves = ReserveWindowMemoryExec::new(Arc::clone(window), row_bytes);
        return Ok(Some(Arc::new(reserves)));
    }
    let inputs = window.children().into_iter().map(|input| {
        let input = WindowMemoryInputExec::new(Arc::clone(input), row_bytes);
        Arc::new(input) as Arc<dyn ExecutionPlan>
    });
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
    let window = Arc::clone(window).replace_children(inputs.collect(), options)?;
    Ok(Some(Arc::new(ReserveWindowMemoryExec::new(
        window, row_bytes,
    ))))
}

/// The most bytes that the values of this crate's aggregates take in one row of an operator of `plan`.
///
/// # Errors
/// If an accumulator cannot be asked.
pub fn largest_values(plan: &Arc<dyn ExecutionPlan>) -> Result<usize> {
    let mut largest = 0;
    plan.apply(|node| {
        let mut row = 0usize;
        let pairs = node.downcast_ref::<PairsExec>().map(PairsExec::aggregate);
        if let Some(aggregate) = node.downcast_ref::<AggregateExec>().or(pairs) {
            for call in aggregate.aggr_expr() {
                row = row.saturating_add(value_size(call)?);
            }
        } else if let Some(memory) = node.downcast_ref::<ReserveWindowMemoryExec>() {
            row = memory.row_bytes();
        }
        largest = largest.max(row);
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(largest)
}

/// Whether the sizes of values differ by row, because the whole number after the counts does: `sfs(ac, n)`.
fn number_varies(call: &AggregateFunctionExpr) -> bool {
    let numbers = call.expressions();
    let name = call.fun().name();
    let counts = site_arguments(name).map_or(1, |arguments| *arguments.populations.start());
    numbers_vary(name)
        && numbers
            .iter()
            .skip(counts)
            .any(|number| !collect_columns(number).is_empty())
}

/// An aggregate without GROUP BY in two steps; `None` if it has no spectra, or two steps already.
fn in_two_steps(aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let one_step = matches!(
        aggregate.mode(),
        AggregateMode::Single | AggregateMode::SinglePartitioned
    );
    if !one_step || !aggregate.group_expr().is_true_no_grouping() {
        return Ok(None);
    }
    for call in aggregate.aggr_expr() {
        if value_size(call)? > 0 {
            let steps = split(aggregate, |first| Ok(Arc::new(first)))?;
            return Ok(Some(Arc::new(steps)));
        }
    }
    Ok(None)
}
