//! `COPY … TO 'file.csv'` writes nested columns as JSON text. DataFusion alone writes the header and then fails.
//!
//! ```text
//! CopyTo: format=csv                    CopyTo: format=csv
//!   Aggregate: sfs(…)            ->       Projection: vcz_json_text(sfs(…)) AS sfs(…)
//!                                           Aggregate: sfs(…)
//! ```

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::dml::CopyTo;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::AnalyzerRule;

use crate::functions::json_text::{is_json, json_text_udf};

/// The rule.
#[derive(Debug)]
pub struct FlatFiles;

impl AnalyzerRule for FlatFiles {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_down(|node| match node {
            LogicalPlan::Copy(copy) if is_flat(&copy) => {
                let input = with_json_text(copy.input.as_ref().clone())?;
                let copy = CopyTo::new(
                    Arc::new(input),
                    copy.output_url,
                    copy.partition_by,
                    copy.file_type,
                    copy.options,
                );
                Ok(Transformed::yes(LogicalPlan::Copy(copy)))
            }
            other => Ok(Transformed::no(other)),
        })
        .map(|transformed| transformed.data)
    }

    fn name(&self) -> &str {
        "vcz_flat_files"
    }
}

/// Whether the file's format cannot hold one of the columns, because it is nested.
fn is_flat(copy: &CopyTo) -> bool {
    let mut fields = copy.input.schema().fields().iter();
    copy.file_type.get_ext() == "csv" && fields.any(|field| is_json(field.data_type()))
}

fn with_json_text(input: LogicalPlan) -> Result<LogicalPlan> {
    let to_text = Arc::new(json_text_udf());
    let schema = Arc::clone(input.schema());
    let columns = schema.iter().map(|(qualifier, field)| {
        let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
        match is_json(field.data_type()) {
            true => to_text.call(vec![column]).alias(field.name()),
            false => column,
        }
    });
    LogicalPlanBuilder::from(input).project(columns)?.build()
}
