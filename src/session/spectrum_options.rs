//! Options of files of spectra that the query itself tells: the populations' names, whether the spectrum is folded, and of how many copies.
//!
//! ```text
//! COPY (SELECT joint_sfs_folded(call_genotype, 'a', 'b') FROM t) TO 'x.fs'
//!   ->  OPTIONS ('spectrum.populations' 'a,b', 'spectrum.folded' 'true')
//! ```
//!
//! An option that is given is kept. A name is found where the population is a constant; where a query has several spectra, or computes
//! something of one, nothing is added.

use std::collections::HashMap;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::dml::CopyTo;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Aggregate, Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use crate::functions::counts_arg::copies_of;
use crate::functions::spectrum_file::{PREFIX, SpectrumFormat};

/// The spectra, with the number of their arguments that are counts.
const SPECTRA: [(&str, usize); 8] = [
    ("sfs", 1),
    ("sfs_folded", 1),
    ("project_sfs", 1),
    ("project_sfs_folded", 1),
    ("joint_sfs", 2),
    ("joint_sfs_folded", 2),
    ("project_joint_sfs", 2),
    ("project_joint_sfs_folded", 2),
];

/// The rule.
#[derive(Debug)]
pub struct DescribeSpectra;

impl AnalyzerRule for DescribeSpectra {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_down(|node| match node {
            LogicalPlan::Copy(copy) if SpectrumFormat::named(&copy.file_type.get_ext()).is_ok() => {
                let mut options = described(&copy.input)?;
                options.extend(copy.options.clone());
                let copy = CopyTo::new(
                    copy.input,
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
        "vcz_describe_spectra"
    }
}

/// The options that the plan tells.
fn described(plan: &LogicalPlan) -> Result<HashMap<String, String>> {
    let mut options = HashMap::new();
    let Some((call, aggregate)) = only_spectrum(plan) else {
        return Ok(options);
    };
    let name = call.func.name();
    let Some((_, counts)) = SPECTRA.iter().find(|(known, _)| *known == name) else {
        return Ok(options);
    };
    let mut set = |key: &str, value: String| {
        options.insert(format!("{PREFIX}.{key}"), value);
    };
    let arguments: Vec<&Expr> = call.params.args.iter().take(*counts).collect();
    let names: Option<Vec<String>> = arguments
        .iter()
        .map(|argument| population(argument, &aggregate.input))
        .collect();
    if let Some(names) = names
        && names.iter().all(|name| !name.contains(','))
    {
        set("populations", names.join(","));
    }
    if name.ends_with("_folded") {
        set("folded", "true".to_string());
        let projected = name.starts_with("project_");
        let copies = match (&*call.params.args, projected) {
            ([_, Expr::Literal(number, _)], true) => number.to_string().parse().ok(),
            ([counts, ..], false) => copies(counts, aggregate.input.schema())?,
            _ => None,
        };
        if let (1, Some(copies)) = (counts, copies) {
            set("copies", copies.to_string());
        }
    }
    Ok(options)
}

/// The call of the only aggregate of the query, if its value is what is written.
fn only_spectrum(plan: &LogicalPlan) -> Option<(&AggregateFunction, &Aggregate)> {
    let mut node = plan;
    loop {
        node = match node {
            LogicalPlan::Projection(projection) => {
                let [expr] = &*projection.expr else {
                    return None;
                };
                if !matches!(bare(expr), Expr::Column(_)) {
                    return None;
                }
                &projection.input
            }
            LogicalPlan::SubqueryAlias(alias) => &alias.input,
            LogicalPlan::Sort(sort) => &sort.input,
            LogicalPlan::Limit(limit) => &limit.input,
            LogicalPlan::Filter(filter) => &filter.input,
            LogicalPlan::Aggregate(aggregate) => {
                return match &*aggregate.aggr_expr {
                    [expr] => match bare(expr) {
                        Expr::AggregateFunction(call) => Some((call, aggregate)),
                        _ => None,
                    },
                    _ => None,
                };
            }
            _ => return None,
        };
    }
}

fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => bare(&alias.expr),
        other => other,
    }
}

/// The population that counts are of: the constant in `allele_counts(…, 'p')`, here or in a projection below.
fn population(counts: &Expr, input: &LogicalPlan) -> Option<String> {
    match bare(counts) {
        Expr::ScalarFunction(call) if call.name() == "allele_counts" => match &*call.args {
            [_, Expr::Literal(name, _)] => name.try_as_str().flatten().map(str::to_string),
            _ => None,
        },
        Expr::ScalarFunction(call) if call.name() == "polarize" => {
            population(call.args.first()?, input)
        }
        Expr::Column(column) => match input {
            LogicalPlan::Projection(projection) => {
                let at = projection.schema.maybe_index_of_column(column)?;
                population(projection.expr.get(at)?, &projection.input)
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let at = alias.schema.maybe_index_of_column(column)?;
                let (qualifier, field) = alias.input.schema().qualified_field(at);
                let inner = datafusion::common::Column::new(qualifier.cloned(), field.name());
                population(&Expr::Column(inner), &alias.input)
            }
            LogicalPlan::Filter(filter) => population(counts, &filter.input),
            LogicalPlan::Sort(sort) => population(counts, &sort.input),
            _ => None,
        },
        _ => None,
    }
}

/// The number of copies that counts are of.
fn copies(counts: &Expr, input: &DFSchema) -> Result<Option<u64>> {
    let (_, field) = counts.to_field(input)?;
    Ok(copies_of(&field)?.flatten())
}
