//! The rule that makes what FILTER has in OVER an argument of functions whose values grow with their frames, so that they can account for
//! their values in every row: see `functions::aggregate::filtered_value`.
//!
//! ```text
//! array_agg(x) FILTER (WHERE p) OVER (…)    ->    _array_agg_filtered(x, p) OVER (…)
//! ```

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, WindowFunctionDefinition};
use datafusion::optimizer::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::functions::filtered_value;

/// The rule.
#[derive(Debug)]
pub struct FiltersAsArguments;

impl OptimizerRule for FiltersAsArguments {
    fn name(&self) -> &str {
        "vcz_filters_as_arguments"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        if !matches!(plan, LogicalPlan::Window(_)) {
            return Ok(Transformed::no(plan));
        }
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let rewritten = expr.transform_up(with_filter_as_argument)?;
            Ok(rewritten.update_data(|expr| name.restore(expr)))
        })
    }
}

fn with_filter_as_argument(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::WindowFunction(mut call) = expr else {
        return Ok(Transformed::no(expr));
    };
    let filtered = match &call.fun {
        WindowFunctionDefinition::AggregateUDF(function) if call.params.filter.is_some() => {
            filtered_value(function)
        }
        _ => None,
    };
    let Some(filtered) = filtered else {
        return Ok(Transformed::no(Expr::WindowFunction(call)));
    };
    call.fun = WindowFunctionDefinition::AggregateUDF(Arc::new(filtered));
    let filter = call.params.filter.take();
    call.params.args.extend(filter.map(|filter| *filter));
    Ok(Transformed::yes(Expr::WindowFunction(call)))
}
