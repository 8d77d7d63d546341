//! Binds calls on genotypes to the samples of their column, before a plan is optimised.
//!
//! ```text
//! Projection: allele_counts(call_genotype, 'p')          Projection: allele_counts(call_genotype, 'p')  bound: samples 0, 4, 7 of 10
//!   TableScan: x                                   ->      TableScan: x
//! ```
//! The samples are those of the table in the same query whose metadata the column carries: a column that comes from elsewhere
//! (Parquet, a table made by CREATE TABLE AS) has a table here only where the digests of samples and populations agree. A call
//! whose population is a subquery stays unbound until [`planner`](super::planner) has read it; the rule then runs again.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use super::union_calls::{self, Aliases};
use super::unions;
use crate::scan::{
    BoundCall, GenotypeContext, GenotypeUdf, PopulationArg, VczTable, population_of,
};

/// The rule.
#[derive(Debug)]
pub struct BindCalls;

impl AnalyzerRule for BindCalls {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        if !concerns(&plan)? {
            return Ok(plan);
        }
        let mut binder = Binder {
            contexts: tables_of(&plan)?,
        };
        let mut aliases = Aliases::unused_in(&plan)?;
        let bound = plan.transform_up_with_subqueries(|node| {
            let node = union_calls::push(node, &mut binder, &mut aliases)?;
            binder.bind_node(node.data)
        })?;
        Ok(bound.data)
    }

    fn name(&self) -> &str {
        "vcz_bind_calls"
    }
}

/// Whether `plan` calls a function on genotypes, or unites columns that may be of different samples.
fn concerns(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= matches!(node, LogicalPlan::Union(_));
        node.apply_expressions(|expr| {
            found |= expr.exists(|expr| Ok(genotype_call(expr).is_some()))?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

/// The function and its arguments, where `expr` is a call on genotypes.
pub fn genotype_call(expr: &Expr) -> Option<(&GenotypeUdf, &ScalarFunction)> {
    let Expr::ScalarFunction(call) = expr else {
        return None;
    };
    let udf = call.func.inner().downcast_ref::<GenotypeUdf>()?;
    Some((udf, call))
}

/// The contexts of all VCZ tables in `plan`.
fn tables_of(plan: &LogicalPlan) -> Result<Vec<Arc<GenotypeContext>>> {
    let mut contexts: Vec<Arc<GenotypeContext>> = vec![];
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(provider) = source_as_provider(&scan.source)
            && let Some(table) = provider.downcast_ref::<VczTable>()
            && !contexts.contains(table.context())
        {
            contexts.push(Arc::clone(table.context()));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(contexts)
}

/// Binds calls to one of the contexts of a query.
#[derive(Debug)]
pub struct Binder {
    /// Of the query's tables, and of what `select_samples` gives.
    contexts: Vec<Arc<GenotypeContext>>,
}

impl Binder {
    /// `node` with its calls bound and its schema worked out again.
    fn bind_node(&mut self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let mut schema = merge_schema(&node.inputs());
        if let LogicalPlan::TableScan(scan) = &node {
            schema.merge(&DFSchema::try_from_qualified_schema(
                scan.table_name.clone(),
                &scan.source.schema(),
            )?);
        }
        let names = NamePreserver::new(&node);
        let bound = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let bound = self.bind(expr, &schema)?;
            Ok(bound.update_data(|expr| name.restore(expr)))
        })?;
        // Also where only an input changed: what N is, and how many samples are selected, is known only now.
        bound.map_data(|node| match node {
            LogicalPlan::Union(union) => unions::reconcile(union),
            other => other.recompute_schema(),
        })
    }

    /// `expr` over `schema` with its calls bound.
    pub fn bind(&mut self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        expr.transform_up(|expr| {
            let Some((udf, call)) = genotype_call(&expr) else {
                return Ok(Transformed::no(expr));
            };
            if let Some(selected) = udf.bound().and_then(|bound| bound.selected()) {
                self.contexts.push(Arc::clone(selected));
            }
            let population = match call.args.get(1) {
                None => PopulationArg::Everyone,
                Some(Expr::Literal(value, _)) => population_of(udf.function().name(), value)?,
                // A subquery or a parameter.
                Some(_) => return Ok(Transformed::no(expr)),
            };
            let (Some(genotypes), None) = (call.args.first(), udf.bound()) else {
                return Ok(Transformed::no(expr));
            };
            let field = genotypes.to_field(schema)?.1;
            let context = match self.context_of(&field, &population) {
                Some(context) if !context.is_deferred() => context,
                _ => return Ok(Transformed::no(expr)),
            };
            let bound = BoundCall::try_new(udf.function(), &population, context)?;
            if let Some(selected) = bound.selected() {
                self.contexts.push(Arc::clone(selected));
            }
            let func = Arc::new(udf.bind(Arc::new(bound)));
            let args = call.args.clone();
            Ok(Transformed::yes(Expr::ScalarFunction(
                ScalarFunction::new_udf(func, args),
            )))
        })
    }

    /// What the genotype column `field` means: the context with its samples, and with its populations where a population is
    /// named. Else what the field itself says, which is enough for calls over all samples. `None` if it is not of genotypes.
    fn context_of(
        &self,
        field: &arrow::datatypes::Field,
        population: &PopulationArg,
    ) -> Option<Arc<GenotypeContext>> {
        let named = !matches!(
            population,
            PopulationArg::Samples(_) | PopulationArg::Everyone
        );
        let same_samples = || {
            let contexts = self.contexts.iter();
            contexts.filter(|context| context.has_samples_of(field))
        };
        let found = same_samples()
            .find(|context| context.has_populations_of(field))
            .or_else(|| same_samples().next().filter(|_| !named));
        match found {
            Some(context) => Some(context.with_alleles_of(field)),
            None => GenotypeContext::detached(field),
        }
    }
}
