//! Makes aggregates report the sites that they leave out to the session's notices, if it collects them, and in EXPLAIN ANALYZE count them
//! for [`left_out`](super::left_out). Not in OVER, where a site would be counted in each frame. Groups that are lists of windows, and counts
//! that are copied to a new store of other samples, are reported, too.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::dml::CopyTo;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use super::vcz_format::is_vcz;
use crate::functions::reporting;
use crate::scan::VczSettings;

/// The rule.
#[derive(Debug)]
pub struct ReportLeftOut;

impl AnalyzerRule for ReportLeftOut {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let notices = VczSettings::of(config).notices;
        let analyzed = matches!(plan, LogicalPlan::Analyze(_));
        if let LogicalPlan::Copy(copy) = &plan
            && let Some(notice) = stale_counts(copy)
        {
            notices.add(notice);
        }
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

/// The INFO fields of VCF that count samples or copies of alleles.
const COUNTS: [&str; 4] = ["variant_AC", "variant_AN", "variant_AF", "variant_NS"];

/// What is told of INFO fields that are copied to a new store whose calls are not those that they count.
fn stale_counts(copy: &CopyTo) -> Option<String> {
    if !is_vcz(copy.file_type.as_ref()) {
        return None;
    }
    let mut node = copy.input.as_ref();
    let columns = loop {
        node = match node {
            LogicalPlan::Projection(projection) => break &projection.expr,
            LogicalPlan::Filter(filter) => &filter.input,
            LogicalPlan::Sort(sort) => &sort.input,
            LogicalPlan::Limit(limit) => &limit.input,
            LogicalPlan::SubqueryAlias(alias) => &alias.input,
            _ => return None,
        };
    };
    let changes = |column: &Expr| {
        column.exists(|expr| {
            Ok(matches!(expr, Expr::ScalarFunction(call)
                if ["select_samples", "filter_calls"].contains(&call.name())))
        })
    };
    if !columns
        .iter()
        .any(|column| changes(column).unwrap_or(false))
    {
        return None;
    }
    let is_copied = |name: &&str| {
        columns
            .iter()
            .any(|column| matches!(column, Expr::Column(column) if column.name == *name))
    };
    let copied: Vec<&str> = COUNTS.iter().copied().filter(is_copied).collect();
    (!copied.is_empty()).then(|| {
        format!(
            "{} are written as in the table, and are not those of the samples and calls that are written; leave them out (SELECT * \
             EXCLUDE (…)) or compute them, as allele_number(allele_counts(call_genotype, …)) AS variant_AN",
            copied.join(", ")
        )
    })
}

const LIST_OF_WINDOWS: &str = "GROUP BY genome_bins(…) makes a group of each list of windows, not of each window: write SELECT …, \
     unnest(genome_bins(…)) AS window_start FROM … in a subquery, and group by window_start";

/// Whether a group is the list of the windows that a position is in.
fn is_list_of_windows(group: &Expr) -> bool {
    matches!(group, Expr::ScalarFunction(call) if call.name() == "genome_bins")
}
