//! [`Binder`]: finds the samples that a call on genotypes uses, and binds the call to them; likewise for aggregates that return sample ids.

use std::sync::Arc;

use arrow::datatypes::Field;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue, plan_err};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    AggregateUDF, Expr, ExprSchemable, LogicalPlan, ScalarUDF, WindowFunctionDefinition,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;

use super::unions;
use crate::functions::bind_samples;
use crate::scan::{
    BoundCall, CallValue, FilterCalls, GenotypeContext, GenotypeFunction, GenotypeUdf,
    PopulationArg, SAMPLES_DEFERRED, SAMPLES_KEY, SelectCalls, VczTable, is_format_field,
    is_planes_type, population_of,
};

/// The function and its arguments, where `expr` is a call on genotypes.
pub fn genotype_call(expr: &Expr) -> Option<(&GenotypeUdf, &ScalarFunction)> {
    let Expr::ScalarFunction(call) = expr else {
        return None;
    };
    let udf = call.func.inner().downcast_ref::<GenotypeUdf>()?;
    Some((udf, call))
}

/// Whether `expr` is a function of genotypes that a scan computes, by itself or as part of another call.
pub fn is_of_calls(expr: &Expr) -> bool {
    genotype_call(expr).is_some() || call_filter(expr).is_some()
}

/// The arguments, where `expr` filters calls or chooses a value of each call.
pub fn call_filter(expr: &Expr) -> Option<&ScalarFunction> {
    let Expr::ScalarFunction(call) = expr else {
        return None;
    };
    let function = call.func.inner();
    (function.is::<FilterCalls>() || function.is::<CallValue>()).then_some(call)
}

/// Returns an error for a filter of calls whose bound is not constant.
fn check_bounds(call: &ScalarFunction) -> Result<()> {
    let constants = match call.func.inner().is::<FilterCalls>() {
        true => 2..,
        false => 1..,
    };
    let is_constant = |expr: &Expr| {
        let has_subquery = expr.exists(|expr| Ok(matches!(expr, Expr::ScalarSubquery(_))))?;
        Ok::<_, DataFusionError>(!has_subquery && !expr.any_column_refs() && !expr.contains_outer())
    };
    for bound in call.args.get(constants).unwrap_or_default() {
        if !is_constant(bound)? {
            return plan_err!(
                "{}: expected a constant, the same for every row, found {bound}",
                call.func.name()
            );
        }
    }
    Ok(())
}

/// The value of an expression of literals and immutable functions, such as `'YR' || 'I'`; `None` for any other.
fn constant(expr: &Expr) -> Result<Option<ScalarValue>> {
    let is_pending = expr.exists(|expr| {
        Ok(matches!(
            expr,
            Expr::ScalarSubquery(_) | Expr::Placeholder(_)
        ))
    })?;
    if is_pending || expr.any_column_refs() || expr.contains_outer() {
        return Ok(None);
    }
    let simplifier = ExprSimplifier::new(SimplifyContext::builder().build());
    let coerced = simplifier.coerce(expr.clone(), &DFSchema::empty())?;
    match simplifier.simplify(coerced)? {
        Expr::Literal(value, _) => Ok(Some(value)),
        _ => Ok(None),
    }
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
    /// Contexts of the query's tables and of the results of `select_samples`.
    contexts: Vec<Arc<GenotypeContext>>,
}

impl Binder {
    /// Binds to the VCZ tables of `plan`.
    pub fn of(plan: &LogicalPlan) -> Result<Self> {
        Ok(Self {
            contexts: tables_of(plan)?,
        })
    }

    /// `node` with its calls bound and its schema recomputed.
    pub fn bind_node(&mut self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
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
        // Also if only an input changed: the number of copies N and the number of selected samples are known only now.
        bound.map_data(|node| match node {
            LogicalPlan::Union(union) => unions::reconcile(union),
            other => other.recompute_schema(),
        })
    }

    /// `expr` over `schema` with its calls bound.
    pub fn bind(&mut self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        expr.transform_up(|expr| {
            if let Some(call) = call_filter(&expr) {
                check_bounds(call)?;
            }
            let expr = self.bind_aggregate(expr, schema)?;
            if expr.transformed {
                return Ok(expr);
            }
            let expr = expr.data;
            let Some((udf, call)) = genotype_call(&expr) else {
                return Ok(Transformed::no(expr));
            };
            if let Some(selected) = udf.bound().and_then(|bound| bound.selected()) {
                self.contexts.push(Arc::clone(selected));
            }
            let mut args = call.args.clone();
            let population = match args.get_mut(1) {
                None => PopulationArg::Everyone,
                Some(Expr::Literal(value, _)) => population_of(udf.function().name(), value)?,
                Some(population) => match constant(population)? {
                    Some(value) => {
                        let named = population_of(udf.function().name(), &value)?;
                        *population = Expr::Literal(value, None);
                        named
                    }
                    // A subquery or a parameter.
                    None => return Ok(Transformed::no(expr)),
                },
            };
            let (Some(genotypes), None) = (call.args.first(), udf.bound()) else {
                return Ok(Transformed::no(expr));
            };
            let field = genotypes.to_field(schema)?.1;
            if is_format_field(&field) {
                return Ok(match self.selection(&field, &population)? {
                    Some(selection) => Transformed::yes(selection.call(vec![genotypes.clone()])),
                    None => Transformed::no(expr),
                });
            }
            let context = match self.context_of(&field, udf.function(), &population) {
                Some(context) if !context.is_deferred() => context,
                _ => return Ok(Transformed::no(expr)),
            };
            let bound = BoundCall::try_new(udf.function(), &population, context)?;
            if let Some(selected) = bound.selected() {
                self.contexts.push(Arc::clone(selected));
            }
            let func = Arc::new(udf.bind(Arc::new(bound)));
            Ok(Transformed::yes(Expr::ScalarFunction(
                ScalarFunction::new_udf(func, args),
            )))
        })
    }

    /// `select_samples` of the FORMAT field `field` for `population`; `None` while the field's samples are not known.
    fn selection(
        &mut self,
        field: &Field,
        population: &PopulationArg,
    ) -> Result<Option<ScalarUDF>> {
        let samples = field.metadata().get(SAMPLES_KEY);
        if samples.is_some_and(|samples| samples == SAMPLES_DEFERRED) {
            return Ok(None);
        }
        let contexts = self.contexts.iter();
        let mut same = contexts.filter(|context| context.has_sample_ids_of(field));
        let Some(first) = same.next() else {
            return plan_err!(
                "select_samples: the samples of '{}' are not known: select them in the query that reads the VCZ table",
                field.name()
            );
        };
        // Tables of the same samples may have different populations.
        let resolved = match first.resolve(population) {
            Ok(samples) => (samples, Arc::clone(first)),
            Err(error) => {
                let mut others = same.filter_map(|other| {
                    let samples = other.resolve(population).ok()?;
                    Some((samples, Arc::clone(other)))
                });
                others.next().ok_or(error)?
            }
        };
        let (samples, context) = resolved;
        self.contexts.push(context.subset(&samples));
        Ok(Some(SelectCalls::udf(samples, &context)))
    }

    /// An aggregate that needs the samples of its genotypes, bound to them where they are known.
    fn bind_aggregate(&self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        let bound = |func: &Arc<AggregateUDF>, args: &[Expr]| -> Result<Option<AggregateUDF>> {
            let Some(planes) = args.first() else {
                return Ok(None);
            };
            if !is_planes_type(&planes.get_type(schema)?) {
                return Ok(None);
            }
            let field = planes.to_field(schema)?.1;
            let mut contexts = self.contexts.iter();
            let samples = contexts.find(|context| context.has_sample_ids_of(&field));
            Ok(samples.and_then(|samples| bind_samples(func, samples)))
        };
        match expr {
            Expr::AggregateFunction(mut call) => {
                match bound(&call.func, &call.params.args)? {
                    Some(func) => call.func = Arc::new(func),
                    None => return Ok(Transformed::no(Expr::AggregateFunction(call))),
                }
                Ok(Transformed::yes(Expr::AggregateFunction(call)))
            }
            Expr::WindowFunction(mut window) => {
                if let WindowFunctionDefinition::AggregateUDF(func) = &window.fun
                    && let Some(func) = bound(func, &window.params.args)?
                {
                    window.fun = WindowFunctionDefinition::AggregateUDF(Arc::new(func));
                    return Ok(Transformed::yes(Expr::WindowFunction(window)));
                }
                Ok(Transformed::no(Expr::WindowFunction(window)))
            }
            other => Ok(Transformed::no(other)),
        }
    }

    /// The context that `function` needs of the genotype column `field`: the table's, with its samples, and with its populations where
    /// the result depends on them. Without such a table, a context from the field's own metadata, which is enough for calls over all
    /// samples. `None` if `field` does not hold genotypes.
    fn context_of(
        &self,
        field: &Field,
        function: GenotypeFunction,
        population: &PopulationArg,
    ) -> Option<Arc<GenotypeContext>> {
        // The result of `select_samples` keeps the populations.
        let named = matches!(population, PopulationArg::Named(_))
            || matches!(
                function,
                GenotypeFunction::PopulationCounts
                    | GenotypeFunction::PopulationPairCounts
                    | GenotypeFunction::SelectSamples
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
