//! Operators: this crate's own, and DataFusion's in a [`SerializableExec`]. An operator is encoded over empty inputs; its inputs are sent beside
//! it, since DataFusion encodes them itself.

use std::sync::Arc;

use datafusion::common::{Result, internal_err, plan_err};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions, replace_children_if_necessary,
};
use datafusion_proto::physical_plan::PhysicalPlanDecodeContext;
use datafusion_proto::protobuf::PhysicalPlanNode;

use super::by_population::{of_populations, to_populations};
use super::frame::{broken, required};
use super::messages::{Node, NodeKind, Nothing};
use super::scan::{Decoder, Encoder, of_scan, to_scan};
use crate::cluster::serializable::SerializableExec;
use crate::cluster::shuffle_input::ShuffleInputExec;
use crate::flight::HeldInputExec;
use crate::scan::VczSource;
use crate::scan::notices::Notices;
use crate::session::operators::Operator;

/// The message of `plan`, without its inputs.
///
/// # Errors
/// If it cannot be sent to another process.
pub fn of_operator(plan: &Arc<dyn ExecutionPlan>, to: Encoder) -> Result<Node> {
    let kind = if let Some(scan) = plan.downcast_ref::<DataSourceExec>() {
        let Some(source) = scan.data_source().downcast_ref::<VczSource>() else {
            return plan_err!("a source of rows of this process cannot be sent to another one");
        };
        NodeKind::Scan(of_scan(source, plan.as_ref(), to)?)
    } else if plan.is::<ShuffleInputExec>() {
        NodeKind::ShuffleInput(Nothing {})
    } else if let Some(carried) = plan.downcast_ref::<SerializableExec>() {
        of_carried(carried.inner(), to)?
    } else {
        return plan_err!(
            "the operator {} cannot be sent to another process",
            plan.name()
        );
    };
    Ok(Node { kind: Some(kind) })
}

fn of_carried(plan: &Arc<dyn ExecutionPlan>, to: Encoder) -> Result<NodeKind> {
    let aggregate = |aggregate: Arc<AggregateExec>| over_nothing(aggregate, to);
    Ok(match Operator::of(plan.as_ref()) {
        None if plan.is::<HeldInputExec>() => NodeKind::Held(Nothing {}),
        None => NodeKind::Stock(over_nothing(Arc::clone(plan), to)?),
        Some(Operator::Runs(of)) => NodeKind::Runs(aggregate(of)?),
        Some(Operator::Pairs(of)) => NodeKind::Pairs(aggregate(of)?),
        Some(Operator::LeftOut(of)) => NodeKind::LeftOut(aggregate(of)?),
        Some(Operator::ByPopulation(of, populations)) => {
            NodeKind::ByPopulation(of_populations(aggregate(of)?, &populations, to)?)
        }
        Some(Operator::Interruptible) => NodeKind::Interruptible(Nothing {}),
        Some(Operator::GroupingSetsInput) => NodeKind::GroupingSetsInput(Nothing {}),
        Some(Operator::ReserveWindowMemory(bytes)) => NodeKind::ReserveWindowMemory(bytes as u64),
        Some(Operator::WindowMemoryInput(bytes)) => NodeKind::WindowMemoryInput(bytes as u64),
    })
}

/// One of DataFusion's operators over empty inputs.
fn over_nothing(plan: Arc<dyn ExecutionPlan>, to: Encoder) -> Result<PhysicalPlanNode> {
    let empty = plan.children().into_iter();
    let empty = empty.map(|input| Arc::new(EmptyExec::new(input.schema())) as _);
    let bare = replace_children_if_necessary(Arc::clone(&plan), empty.collect())?;
    to.converter.execution_plan_to_proto(&bare, to.codec)
}

/// The operator of a message over `inputs`. `within` decodes what is in the message; functions that it decodes report to `notices`.
///
/// # Errors
/// If the message is broken, or the operator has another number of inputs.
pub fn to_operator(
    node: Node,
    inputs: &[Arc<dyn ExecutionPlan>],
    within: Decoder,
    notices: Arc<Notices>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let input = || match inputs {
        [input] => Ok(Arc::clone(input)),
        _ => Err(broken(format!("an operator of {} inputs", inputs.len()))),
    };
    let aggregate = |plan: &PhysicalPlanNode| -> Result<Arc<AggregateExec>> {
        let plan = plan_of(plan, within)?;
        match plan.downcast_ref::<AggregateExec>() {
            Some(aggregate) => Ok(Arc::new(aggregate.clone())),
            None => Err(broken("an operator that is no aggregate")),
        }
    };
    let over_input = |plan: &PhysicalPlanNode| -> Result<Arc<AggregateExec>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        let replaced = aggregate(plan)?.replace_children(vec![input()?], options)?;
        match replaced.downcast_ref::<AggregateExec>() {
            Some(aggregate) => Ok(Arc::new(aggregate.clone())),
            None => internal_err!("an aggregate with another input is {}", replaced.name()),
        }
    };
    let operator = match required(node.kind, "operator")? {
        NodeKind::Scan(scan) => return to_scan(scan, within),
        NodeKind::ShuffleInput(_) => return Ok(Arc::new(ShuffleInputExec::new(input()?))),
        NodeKind::Stock(plan) => {
            let plan = replace_children_if_necessary(plan_of(&plan, within)?, inputs.to_vec())?;
            return Ok(Arc::new(SerializableExec::new(plan, Some(notices))));
        }
        NodeKind::Held(_) => {
            let held = Arc::new(HeldInputExec::new(input()?));
            return Ok(Arc::new(SerializableExec::new(held, None)));
        }
        NodeKind::Runs(plan) => Operator::Runs(over_input(&plan)?),
        NodeKind::Pairs(plan) => Operator::Pairs(over_input(&plan)?),
        NodeKind::LeftOut(plan) => Operator::LeftOut(over_input(&plan)?),
        NodeKind::ByPopulation(message) => Operator::ByPopulation(
            aggregate(&message.aggregate)?,
            Arc::new(to_populations(&message, within)?),
        ),
        NodeKind::Interruptible(_) => Operator::Interruptible,
        NodeKind::GroupingSetsInput(_) => Operator::GroupingSetsInput,
        NodeKind::ReserveWindowMemory(bytes) => Operator::ReserveWindowMemory(bytes as usize),
        NodeKind::WindowMemoryInput(bytes) => Operator::WindowMemoryInput(bytes as usize),
    };
    let operator = operator.over(input()?)?;
    Ok(Arc::new(SerializableExec::new(operator, Some(notices))))
}

/// One of DataFusion's operators, over empty inputs.
fn plan_of(plan: &PhysicalPlanNode, from: Decoder) -> Result<Arc<dyn ExecutionPlan>> {
    let context = PhysicalPlanDecodeContext::new(from.task, from.codec);
    from.converter.proto_to_execution_plan(plan, &context)
}
