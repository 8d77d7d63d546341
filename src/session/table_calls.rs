//! Names scans of this crate's table functions by their calls: `vcz_samples('a')` in place of DataFusion's `vcz_samples()`.
//!
//! DataFusion takes scans of the same name and columns as equal, and a subquery that is equal to another one is run once. Without the
//! arguments in the name, `(SELECT count(*) FROM vcz_samples('b'))` would be given the value of the same subquery of `'a'`.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, TableReference};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::AnalyzerRule;

use crate::functions::table::call_of;

/// The rule. Columns keep their qualifiers.
#[derive(Debug)]
pub struct NameTableCalls;

impl AnalyzerRule for NameTableCalls {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| {
            let LogicalPlan::TableScan(scan) = &node else {
                return Ok(Transformed::no(node));
            };
            let Ok(table) = source_as_provider(&scan.source) else {
                return Ok(Transformed::no(node));
            };
            let call = match call_of(table.as_ref()) {
                Some(call) if call != scan.table_name.table() => TableReference::bare(call),
                _ => return Ok(Transformed::no(node)),
            };
            let scan = scan.clone();
            let named = LogicalPlanBuilder::scan_with_filters_fetch(
                call,
                scan.source,
                scan.projection,
                scan.filters,
                scan.fetch,
            )?;
            named.alias(scan.table_name)?.build().map(Transformed::yes)
        })
        .map(|transformed| transformed.data)
    }

    fn name(&self) -> &str {
        "vcz_name_table_calls"
    }
}
