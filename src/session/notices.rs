//! Makes aggregates report the sites that they leave out to the session's notices, if it collects them, and in EXPLAIN ANALYZE count them
//! for [`left_out`](super::left_out). Not in OVER, where a site would be counted in each frame. Groups that are lists of windows are
//! reported, too.

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
            let LogicalPlan::Aggregate(aggregate) = &node else {
                return Ok(Transformed::no(node));
            };
            if aggregate.group_expr.iter().any(is_list_of_windows) {
                notices.add(LIST_OF_WINDOWS.to_string());
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

const LIST_OF_WINDOWS: &str = "GROUP BY genome_bins(…) makes a group of each list of windows, not of each window: write SELECT …, \
     unnest(genome_bins(…)) AS window_start FROM … in a subquery, and group by window_start";

/// Whether a group is the list of the windows that a position is in.
fn is_list_of_windows(group: &Expr) -> bool {
    matches!(group, Expr::ScalarFunction(call) if call.name() == "genome_bins")
}
