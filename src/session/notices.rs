//! Makes aggregates report the sites that they leave out to the session's notices, if it collects them, and in EXPLAIN ANALYZE count them
//! for [`left_out`](super::left_out). Not in OVER, where a site would be counted in each frame.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use crate::functions::reporting;
use crate::scan::VczSettings;

/// The rule.
#[derive(Debug)]
pub struct ReportLeftOut;

impl AnalyzerRule for ReportLeftOut {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let notices = VczSettings::of(config).notices;
        let analyzed = matches!(plan, LogicalPlan::Analyze(_));
        if notices.0.is_none() && !analyzed {
            return Ok(plan);
        }
        let rewritten = plan.transform_up_with_subqueries(|node| {
            if !matches!(node, LogicalPlan::Aggregate(_)) {
                return Ok(Transformed::no(node));
            }
            node.map_expressions(|expr| {
                expr.transform_up(|expr| match expr {
                    Expr::AggregateFunction(mut call) => {
                        match reporting(&call.func, &notices, analyzed) {
                            Some(func) => {
                                call.func = Arc::new(func);
                                Ok(Transformed::yes(Expr::AggregateFunction(call)))
                            }
                            None => Ok(Transformed::no(Expr::AggregateFunction(call))),
                        }
                    }
                    other => Ok(Transformed::no(other)),
                })
            })
        })?;
        Ok(rewritten.data)
    }

    fn name(&self) -> &str {
        "vcz_report_left_out"
    }
}
