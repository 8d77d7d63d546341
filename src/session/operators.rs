//! [`Operator`]: this crate's operators without their inputs, as `cluster` sends them to other processes.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;

use super::grouping_sets::GroupingSetsInputExec;
use super::interrupt::InterruptibleExec;
use super::left_out::LeftOutExec;
use super::pairs::PairsExec;
use super::populations::{AggregatePopulationsExec, Populations};
use super::runs::AggregateRunsExec;
use super::unnest_lists::UnnestListsExec;
use super::window_memory::{ReserveWindowMemoryExec, WindowMemoryInputExec};

/// The plan with aggregates over pairs in two steps, the first of which other processes can run, and DataFusion's UNNEST of what they return.
///
/// # Errors
/// If an operator does not take its new input.
pub fn in_two_steps(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        if let Some(lists) = node.downcast_ref::<UnnestListsExec>() {
            return Ok(Transformed::yes(Arc::clone(lists.unnest()) as _));
        }
        let Some(pairs) = node.downcast_ref::<PairsExec>() else {
            return Ok(Transformed::no(node));
        };
        let steps = pairs.in_two_steps(|partial| Arc::new(InterruptibleExec::new(partial)))?;
        Ok(match steps {
            Some(steps) => Transformed::yes(steps),
            None => Transformed::no(node),
        })
    })
    .map(|transformed| transformed.data)
}

/// An operator without its input.
#[derive(Debug, Clone)]
pub enum Operator {
    /// Partial aggregation by runs of rows.
    Runs(Arc<AggregateExec>),
    /// Partial aggregation over pairs, without groups.
    Pairs(Arc<AggregateExec>),
    /// An aggregate with the sites that it left out among its metrics.
    LeftOut(Arc<AggregateExec>),
    /// Partial aggregation by population; the input of the aggregate is not run.
    ByPopulation(Arc<AggregateExec>, Arc<Populations>),
    /// Runs its input in a task of its own, which stops when the stream is dropped.
    Interruptible,
    /// Passes on rows of which nothing is known, to an aggregation over grouping sets.
    GroupingSetsInput,
    /// Reserves memory for rows of this many bytes, above a window operator.
    ReserveWindowMemory(usize),
    /// Reserves memory for rows of this many bytes, below a window operator.
    WindowMemoryInput(usize),
}

impl Operator {
    /// The operator that `plan` is, if it is of this crate and has one input.
    pub fn of(plan: &dyn ExecutionPlan) -> Option<Self> {
        if let Some(runs) = plan.downcast_ref::<AggregateRunsExec>() {
            Some(Self::Runs(Arc::new(runs.aggregate().clone())))
        } else if let Some(pairs) = plan.downcast_ref::<PairsExec>() {
            // States alone leave a process: see `in_two_steps`.
            (!pairs.computes_values()).then(|| Self::Pairs(Arc::new(pairs.aggregate().clone())))
        } else if let Some(left_out) = plan.downcast_ref::<LeftOutExec>() {
            Some(Self::LeftOut(Arc::clone(left_out.aggregate())))
        } else if let Some(populations) = plan.downcast_ref::<AggregatePopulationsExec>() {
            let (aggregate, populations) = populations.parts();
            Some(Self::ByPopulation(
                Arc::clone(aggregate),
                Arc::clone(populations),
            ))
        } else if plan.is::<InterruptibleExec>() {
            Some(Self::Interruptible)
        } else if plan.is::<GroupingSetsInputExec>() {
            Some(Self::GroupingSetsInput)
        } else if let Some(reserve) = plan.downcast_ref::<ReserveWindowMemoryExec>() {
            Some(Self::ReserveWindowMemory(reserve.row_bytes()))
        } else {
            let input = plan.downcast_ref::<WindowMemoryInputExec>()?;
            Some(Self::WindowMemoryInput(input.row_bytes()))
        }
    }

    /// The operator over `input`. An aggregate must have this input already, except where its input is not run.
    ///
    /// # Errors
    /// If the aggregate is of a mode that the operator does not run.
    pub fn over(self, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(match self {
            Self::Runs(aggregate) => Arc::new(AggregateRunsExec::try_new(aggregate)?),
            Self::Pairs(aggregate) => Arc::new(PairsExec::try_new(aggregate)?),
            Self::LeftOut(aggregate) => Arc::new(LeftOutExec::new(aggregate)),
            Self::ByPopulation(aggregate, populations) => Arc::new(
                AggregatePopulationsExec::try_new(aggregate, populations, input)?,
            ),
            Self::Interruptible => Arc::new(InterruptibleExec::new(input)),
            Self::GroupingSetsInput => Arc::new(GroupingSetsInputExec::new(input)),
            Self::ReserveWindowMemory(bytes) => {
                Arc::new(ReserveWindowMemoryExec::new(input, bytes))
            }
            Self::WindowMemoryInput(bytes) => Arc::new(WindowMemoryInputExec::new(input, bytes)),
        })
    }
}
