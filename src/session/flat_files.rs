//! `COPY … TO 'file.csv'` writes nested columns as JSON text: DataFusion alone writes the header and then fails. And `COPY … TO
//! 'file.csv.gz' STORED AS CSV` compresses the file as its ending says: DataFusion alone writes plain text, which it cannot read back.
//!
//! ```text
//! CopyTo: format=csv                    CopyTo: format=csv
//!   Aggregate: sfs(…)            ->       Projection: vcz_json_text(sfs(…)) AS sfs(…)
//!                                           Aggregate: sfs(…)
//! ```

use std::path::Path;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::dml::CopyTo;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::AnalyzerRule;

use super::tab_separated::EXTENSION;
use crate::functions::json_text::{is_json, json_text_udf};

/// The rule.
#[derive(Debug)]
pub struct FlatFiles;

impl AnalyzerRule for FlatFiles {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_down(|node| match node {
            LogicalPlan::Copy(copy) => {
                let (flat, compression) = (is_flat(&copy), compression_of(&copy));
                if !flat && compression.is_none() {
                    return Ok(Transformed::no(LogicalPlan::Copy(copy)));
                }
                let input = match flat {
                    true => Arc::new(with_json_text(copy.input.as_ref().clone())?),
                    false => copy.input,
                };
                let mut options = copy.options;
                if let Some(compression) = compression {
                    options.insert(COMPRESSION.to_string(), compression.to_string());
                }
                let copy = CopyTo::new(
                    input,
                    copy.output_url,
                    copy.partition_by,
                    copy.file_type,
                    options,
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

/// The option of COPY for the compression of a text file.
const COMPRESSION: &str = "format.compression";

/// The compression that the file's ending names, if it is a text file and no option says which.
fn compression_of(copy: &CopyTo) -> Option<&'static str> {
    let is_text = ["csv", EXTENSION, "json"].contains(&copy.file_type.get_ext().as_str());
    if !is_text || copy.options.contains_key(COMPRESSION) {
        return None;
    }
    match Path::new(&copy.output_url).extension()?.to_str()? {
        "gz" => Some("gzip"),
        "bz2" => Some("bzip2"),
        "xz" => Some("xz"),
        "zst" => Some("zstd"),
        _ => None,
    }
}

/// Whether the file's format cannot hold one of the columns, because it is nested.
fn is_flat(copy: &CopyTo) -> bool {
    let mut fields = copy.input.schema().fields().iter();
    let is_csv = ["csv", EXTENSION].contains(&copy.file_type.get_ext().as_str());
    is_csv && fields.any(|field| is_json(field.data_type()))
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
