//! Expands short forms: a function of genotypes and populations becomes the function of their allele counts, zygosity counts or
//! bit-planes. The output name stays. That holds for scalar functions, and for aggregates with GROUP BY and in OVER.
//!
//! ```text
//! sfs(call_genotype, 'first')                   ->  sfs(allele_counts(call_genotype, 'first'))
//! joint_sfs(call_genotype, 'first', 'second')   ->  joint_sfs(allele_counts(…, 'first'), allele_counts(…, 'second'))
//! f3(call_genotype, 'c', 'a', 'b')              ->  f3(allele_counts(…, 'c'), allele_counts(…, 'a'), allele_counts(…, 'b'))
//! project_sfs(call_genotype, 'first', 20)       ->  project_sfs(allele_counts(call_genotype, 'first'), 20)
//! hwe_exact(call_genotype, 'first')             ->  hwe_exact(zygosity_counts(call_genotype, 'first'))
//! garud_h(call_genotype, 'first')               ->  garud_h(genotype_planes(call_genotype, 'first'))
//! ld_decay(call_genotype, variant_position, edges)  ->  ld_decay(genotype_planes(call_genotype), variant_position, edges, variant_contig)
//! sfs(p['ac'])                                  ->  sfs(p['ac'], p['copies'])      (p of population_counts; with GROUP BY)
//! joint_sfs(p['ac1'], p['ac2'])                 ->  joint_sfs(p['ac1'], p['ac2'], p['copies1'], p['copies2'])   (p of population_pair_counts)
//! is_complete(p['ac'])                          ->  is_complete(p['ac'], p['copies'])
//! ```

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, ExprSchema, Result, plan_err};
use datafusion::functions::core::getfield::GetFieldFunc;
use datafusion::logical_expr::expr::{AggregateFunction, ScalarFunction, WindowFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, WindowFunctionDefinition};
use datafusion::optimizer::AnalyzerRule;
use datafusion::prelude::lit;

use super::list_literal::list_of_strings;
use crate::functions::{
    SiteArgument, SiteArguments, aggregate_arguments, numbers_vary, refused_distinct,
    site_arguments, takes_contig,
};
use crate::scan::copies::{COPIES_BESIDE_KEY, copies_of};
use crate::scan::{FIELD_KEY, GenotypeUdf, is_genotype_type, is_population_type};

/// The column of contigs.
const CONTIG: &str = "variant_contig";

/// The rule.
#[derive(Debug, Default)]
pub struct ExpandShortForms;

impl AnalyzerRule for ExpandShortForms {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| self.rewrite_node(node))
            .map(|transformed| transformed.data)
    }

    fn name(&self) -> &str {
        "vcz_expand_short_forms"
    }
}

impl ExpandShortForms {
    fn rewrite_node(&self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let mut schema = merge_schema(&node.inputs());
        if let LogicalPlan::TableScan(scan) = &node {
            schema.merge(&DFSchema::try_from_qualified_schema(
                scan.table_name.clone(),
                &scan.source.schema(),
            )?);
        }
        let names = NamePreserver::new(&node);
        let rewritten = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let rewritten = expr.transform_up(|expr| self.rewrite(expr, &schema))?;
            Ok(rewritten.update_data(|expr| name.restore(expr)))
        })?;
        if rewritten.transformed {
            rewritten.map_data(LogicalPlan::recompute_schema)
        } else {
            Ok(rewritten)
        }
    }

    fn rewrite(&self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        match expr {
            Expr::AggregateFunction(AggregateFunction { func, mut params }) => {
                if params.distinct
                    && let Some(error) = refused_distinct(&func)
                {
                    return Err(error);
                }
                let arguments = aggregate_arguments(&func);
                let expanded = match self.counts_of(func.name(), arguments, &params.args, schema)? {
                    Some(args) => Some(args),
                    None => with_copies(func.name(), &params.args, schema)?,
                };
                match expanded {
                    Some(args) => {
                        params.args = args;
                        Ok(Transformed::yes(Expr::AggregateFunction(
                            AggregateFunction { func, params },
                        )))
                    }
                    None => Ok(Transformed::no(Expr::AggregateFunction(
                        AggregateFunction { func, params },
                    ))),
                }
            }
            Expr::WindowFunction(mut window) => {
                let WindowFunction { fun, params } = window.as_mut();
                let WindowFunctionDefinition::AggregateUDF(func) = fun else {
                    return Ok(Transformed::no(Expr::WindowFunction(window)));
                };
                let arguments = aggregate_arguments(func);
                match self.counts_of(func.name(), arguments, &params.args, schema)? {
                    Some(args) => {
                        params.args = args;
                        Ok(Transformed::yes(Expr::WindowFunction(window)))
                    }
                    None => Ok(Transformed::no(Expr::WindowFunction(window))),
                }
            }
            Expr::ScalarFunction(mut call) if call.func.inner().is::<GenotypeUdf>() => {
                let Some(folded) = call.args.get(1).and_then(constant_list) else {
                    return Ok(Transformed::no(Expr::ScalarFunction(call)));
                };
                call.args[1] = folded;
                Ok(Transformed::yes(Expr::ScalarFunction(call)))
            }
            Expr::ScalarFunction(mut call) => {
                if takes_counts(call.func.name()) {
                    call.args
                        .iter()
                        .try_for_each(|arg| refuse_field(call.func.name(), arg, schema))?;
                }
                let arguments = site_arguments(call.func.name());
                let expanded =
                    match self.counts_of(call.func.name(), arguments, &call.args, schema)? {
                        Some(args) => Some(args),
                        None => with_copies(call.func.name(), &call.args, schema)?,
                    };
                match expanded {
                    Some(args) => {
                        call.args = args;
                        Ok(Transformed::yes(Expr::ScalarFunction(call)))
                    }
                    None => Ok(Transformed::no(Expr::ScalarFunction(call))),
                }
            }
            other => Ok(Transformed::no(other)),
        }
    }

    /// The counts, or bit-planes, that the arguments of a short form of the function `name` are expanded to; `None` if `args` are not of a
    /// short form. `arguments` are its site arguments, if it takes any.
    fn counts_of(
        &self,
        name: &str,
        arguments: Option<SiteArguments>,
        args: &[Expr],
        schema: &DFSchema,
    ) -> Result<Option<Vec<Expr>>> {
        let (Some(arguments), Some(genotypes)) = (arguments, args.first()) else {
            return Ok(None);
        };
        let SiteArguments { of, populations } = arguments;
        args.iter()
            .try_for_each(|arg| refuse_field(name, arg, schema))?;
        if !is_genotype_type(&genotypes.get_type(schema)?) {
            return Ok(None);
        }
        let is_population = |expr: &Expr| {
            Ok::<_, datafusion::common::DataFusionError>(is_population_type(
                &expr.get_type(schema)?,
            ))
        };
        let mut given = 0;
        let (least, most) = populations.into_inner();
        // Bit-planes of every sample, if no population is named.
        let least = if of == SiteArgument::GenotypePlanes {
            0
        } else {
            least
        };
        while given < most && args.len() > 1 + given && is_population(&args[1 + given])? {
            given += 1;
        }
        if most > 1 && given < least {
            return plan_err!(
                "{name}: {given} populations after call_genotype are too few, {least} are needed"
            );
        }
        let udf = of.udf();
        let counts = |population: Option<&Expr>| {
            let population =
                population.map(|expr| constant_list(expr).unwrap_or_else(|| expr.clone()));
            let args = std::iter::once(genotypes.clone())
                .chain(population)
                .collect();
            Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&udf), args))
        };
        let mut rewritten: Vec<Expr> = match given {
            0 => vec![counts(None)],
            _ => args[1..=given]
                .iter()
                .map(|population| counts(Some(population)))
                .collect(),
        };
        rewritten.extend(args[1 + given..].iter().cloned());
        // The contig may be given, after position and edges.
        if takes_contig(name) && args.len() < 1 + given + 3 {
            let Some(contig) = contig_beside(genotypes, schema) else {
                return plan_err!(
                    "{name}: it compares variants of one contig, and the column {CONTIG} of these genotypes is not in the query around the \
                     call: select it there, too, or give the contig as the last argument, after edges"
                );
            };
            rewritten.push(contig);
        }
        Ok(Some(rewritten))
    }
}

/// The contigs of the variants of `genotypes`, in the table that its columns are of; `None` if the query has dropped or renamed them.
fn contig_beside(genotypes: &Expr, schema: &DFSchema) -> Option<Expr> {
    let columns = genotypes.column_refs();
    let of_table = columns
        .into_iter()
        .find_map(|column| column.relation.clone());
    let contig = Column::new(of_table, CONTIG);
    let (qualifier, field) = schema.qualified_field_from_column(&contig).ok()?;
    field
        .data_type()
        .is_string()
        .then(|| Expr::Column(Column::new(qualifier.cloned(), CONTIG)))
}

/// How many counts a function takes that needs N of each, as whole numbers after them if the counts do not carry it; 0 for any other
/// function.
fn counts_with_copies(name: &str) -> usize {
    match name {
        "is_complete" => 1,
        _ if numbers_vary(name) => {
            site_arguments(name).map_or(0, |arguments| *arguments.populations.start())
        }
        _ => 0,
    }
}

/// The arguments of a function that needs N, with the copies of the same struct as its counts, `p['copies']` after `p['ac']`; `None` if N
/// is given, or none of the counts has one.
fn with_copies(name: &str, args: &[Expr], schema: &DFSchema) -> Result<Option<Vec<Expr>>> {
    let counts = counts_with_copies(name);
    if counts == 0 || args.len() != counts {
        return Ok(None);
    }
    let mut copies = Vec::with_capacity(counts);
    let mut any_beside = false;
    for counts in args {
        let (_, field) = counts.to_field(schema)?;
        if let Some(Some(known)) = copies_of(&field)? {
            copies.push(lit(i64::try_from(known).unwrap_or(i64::MAX)));
            continue;
        }
        let Some(beside) = field.metadata().get(COPIES_BESIDE_KEY) else {
            return Ok(None);
        };
        any_beside = true;
        let Some(of_row) = field_beside(counts, beside) else {
            return plan_err!(
                "{name}: the populations of these counts may differ in their number of copies; give it after the counts, as in \
                 sfs(p['ac'], p['copies']), with p of population_counts"
            );
        };
        copies.push(of_row);
    }
    Ok(any_beside.then(|| args.iter().cloned().chain(copies).collect()))
}

/// The field `name` of the struct that `expr` is a field of: `p['copies']` for `p['ac']`; `None` if `expr` is not a field of a struct.
fn field_beside(expr: &Expr, name: &str) -> Option<Expr> {
    let Expr::ScalarFunction(call) = expr else {
        return None;
    };
    if !call.func.inner().is::<GetFieldFunc>() {
        return None;
    }
    let mut beside = call.clone();
    *beside.args.last_mut()? = lit(name);
    Some(Expr::ScalarFunction(beside))
}

/// Whether a scalar function is one of this crate's that take counts, or no lists.
fn takes_counts(name: &str) -> bool {
    static NAMES: LazyLock<HashSet<String>> = LazyLock::new(|| {
        let all = crate::functions::scalar::all();
        all.iter()
            .map(|function| function.name().to_string())
            .collect()
    });
    NAMES.contains(name)
}

/// Returns an error if the argument of a function on sites is a column of an INFO or FORMAT field: a list of integers that are not
/// allele counts.
fn refuse_field(function: &str, arg: &Expr, schema: &DFSchema) -> Result<()> {
    let Expr::Column(column) = arg else {
        return Ok(());
    };
    let field = schema.field_from_column(column);
    let Some(vcf) = field.ok().and_then(|field| field.metadata().get(FIELD_KEY)) else {
        return Ok(());
    };
    plan_err!(
        "{function}: {} holds the values of {vcf}, not allele counts; write {function}(call_genotype …) or \
         {function}(allele_counts(call_genotype [, population]) …)",
        column.name
    )
}

/// `make_array('a', 'b')` as a literal list.
fn constant_list(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::ScalarFunction(call) if call.func.name() == "make_array" => {
            list_of_strings(&call.args)
        }
        _ => None,
    }
}
