//! The calls of a window operator, of which DataFusion has two. Used by the rules of `session` and `cluster` that look at calls in OVER.

use std::sync::Arc;

use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::window::{
    PlainAggregateWindowExpr, SlidingAggregateWindowExpr, WindowExpr,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};

/// The calls of a window operator; none of any other.
pub fn window_calls(node: &Arc<dyn ExecutionPlan>) -> &[Arc<dyn WindowExpr>] {
    if let Some(window) = node.downcast_ref::<WindowAggExec>() {
        window.window_expr()
    } else if let Some(window) = node.downcast_ref::<BoundedWindowAggExec>() {
        window.window_expr()
    } else {
        &[]
    }
}

/// The aggregate that a window function is, if it is one.
pub fn aggregate_of(call: &dyn WindowExpr) -> Option<&AggregateFunctionExpr> {
    let call = call.as_any();
    let plain = call.downcast_ref::<PlainAggregateWindowExpr>();
    let sliding = call.downcast_ref::<SlidingAggregateWindowExpr>();
    plain
        .map(PlainAggregateWindowExpr::get_aggregate_expr)
        .or(sliding.map(SlidingAggregateWindowExpr::get_aggregate_expr))
}
