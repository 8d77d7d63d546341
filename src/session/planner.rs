//! Arguments that are read while planning: a subquery that gives a population, and a mask, which is a BED file or a table. Each is
//! read once and replaced by its value. The plan is then optimised once more, so that calls whose population is now constant
//! are bound and pushed into the scan like any other.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::datasource::source_as_provider;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Explain, Expr, LogicalPlan, Subquery};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use futures::StreamExt;
use futures::future::BoxFuture;

use super::copy_secrets::without_secrets;
use super::copy_target;
use super::inserts::check_inserts;
use super::interrupt::interruptible;
use super::join_contigs::note_joins;
use super::repartition_rule;
use crate::functions::mask::Mask;
use crate::functions::{bind_mask, load_mask, needs_mask};
use crate::scan::{GenotypeUdf, VczSettings, VczTable};

/// Reads the arguments that must be read while planning, then passes the plan to the session's previous planner.
#[derive(Debug)]
pub struct VczQueryPlanner {
    inner: Option<Arc<dyn QueryPlanner + Send + Sync>>,
}

impl VczQueryPlanner {
    /// A planner that passes its plans to `inner`, or to DataFusion's own planner.
    pub fn new(inner: Option<Arc<dyn QueryPlanner + Send + Sync>>) -> Self {
        Self { inner }
    }
}

impl VczQueryPlanner {
    /// The physical plan.
    fn physical<'a>(
        &'a self,
        logical_plan: &'a LogicalPlan,
        session: &'a dyn Session,
    ) -> BoxFuture<'a, Result<Arc<dyn ExecutionPlan>>> {
        Box::pin(async move {
            let read = with_arguments_read(logical_plan, session).await?;
            let plan = read.as_ref().unwrap_or(logical_plan);
            let hidden = without_secrets(plan)?;
            let plan = hidden.as_ref().unwrap_or(plan);
            check_inserts(plan)?;
            copy_target::check(plan).await?;
            let notices = VczSettings::of(session.config_options()).notices;
            let told = note_joins(plan, &notices)?;
            let plan = told.as_ref().unwrap_or(plan);
            let bounded = repartition_rule::with_rule(session);
            let session = bounded
                .as_ref()
                .map_or(session, |state| state as &dyn Session);
            let planned = match &self.inner {
                Some(inner) => inner.create_physical_plan(plan, session).await,
                None => {
                    DefaultPhysicalPlanner::default()
                        .create_physical_plan(plan, session)
                        .await
                }
            };
            interruptible(planned?, &session.runtime_env().memory_pool)
        })
    }
}

impl QueryPlanner for VczQueryPlanner {
    boxed_methods! {
        fn create_physical_plan<'a, 'l, 's>(
            &'a self,
            logical_plan: &'l LogicalPlan,
            session: &'s dyn Session,
        ) -> Result<Arc<dyn ExecutionPlan>> = Self::physical;
    }
}

/// The plan with its arguments read, optimised again; `None` if there is nothing to read.
async fn with_arguments_read(
    plan: &LogicalPlan,
    session: &dyn Session,
) -> Result<Option<LogicalPlan>> {
    let target = match plan {
        LogicalPlan::Explain(explain) => explain.plan.as_ref(),
        other => other,
    };
    let arguments = arguments_of(target)?;
    if arguments.is_empty() {
        return Ok(None);
    }
    let contigs = contigs_of(target)?;
    let mut values = HashMap::with_capacity(arguments.len());
    for argument in arguments {
        let value = argument.read(session, &contigs).await?;
        values.insert(argument, value);
    }
    let replaced = target.clone().transform_up_with_subqueries(|node| {
        let names = NamePreserver::new(&node);
        let node = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let replaced = expr.transform_up(|expr| replace(expr, &values, &contigs))?;
            Ok(replaced.update_data(|expr| name.restore(expr)))
        })?;
        node.map_data(LogicalPlan::recompute_schema)
    })?;
    let replaced = match plan {
        LogicalPlan::Explain(explain) => LogicalPlan::Explain(Explain {
            plan: Arc::new(replaced.data),
            stringified_plans: vec![],
            logical_optimization_succeeded: false,
            ..explain.clone()
        }),
        _ => replaced.data,
    };
    session.optimize(&replaced).map(Some)
}

/// An argument that is read while planning.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Argument {
    /// The population of a call on genotypes: the one value of an uncorrelated subquery.
    Population(Subquery),
    /// The name of a mask.
    Mask(String),
}

/// What was read for an [`Argument`].
enum Value {
    Population(ScalarValue),
    Mask(Arc<Mask>),
}

impl Argument {
    /// The argument of `call` that is still to be read.
    fn of(call: &ScalarFunction) -> Result<Option<Self>> {
        let name = call.func.name();
        if call.func.inner().is::<GenotypeUdf>() {
            let mut population = call.args.get(1);
            while let Some(Expr::Cast(cast)) = population {
                population = Some(&cast.expr);
            }
            return match population {
                Some(Expr::ScalarSubquery(subquery)) if subquery.outer_ref_columns.is_empty() => {
                    Ok(Some(Self::Population(subquery.clone())))
                }
                Some(Expr::ScalarSubquery(_)) => plan_err!(
                    "{name}: the subquery that gives the population must not depend on the rows around it"
                ),
                _ => Ok(None),
            };
        }
        if !needs_mask(&call.func) {
            return Ok(None);
        }
        let constant = match call.args.last() {
            Some(Expr::Literal(value, _)) => value.try_as_str().flatten(),
            _ => None,
        };
        match constant {
            Some(mask) => Ok(Some(Self::Mask(mask.to_string()))),
            None => plan_err!(
                "{name}: the mask must be a constant, the path of a BED file or the name of a registered table; found {}",
                call.args
                    .last()
                    .map_or("nothing".to_string(), |expr| expr.to_string())
            ),
        }
    }

    /// Reads the argument. `contigs` are those of the VCZ tables in the plan: a mask must share one.
    async fn read(&self, session: &dyn Session, contigs: &[String]) -> Result<Value> {
        Ok(match self {
            Self::Population(subquery) => Value::Population(run(subquery, session).await?),
            Self::Mask(name) => {
                let mask = load_mask(session, name).await?;
                if !contigs.is_empty() {
                    mask.check_shares(contigs)?;
                }
                Value::Mask(Arc::new(mask))
            }
        })
    }
}

/// The arguments of `plan` that are to be read, each once.
fn arguments_of(plan: &LogicalPlan) -> Result<Vec<Argument>> {
    let mut arguments: Vec<Argument> = vec![];
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::ScalarFunction(call) = expr
                    && let Some(argument) = Argument::of(call)?
                    && !arguments.contains(&argument)
                {
                    arguments.push(argument);
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(arguments)
}

/// Contigs of the VCZ tables in `plan`.
fn contigs_of(plan: &LogicalPlan) -> Result<Vec<String>> {
    let mut contigs = vec![];
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(provider) = source_as_provider(&scan.source)
            && let Some(table) = provider.downcast_ref::<VczTable>()
        {
            contigs.extend(table.contigs_with_variants());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(contigs)
}

/// `expr` with its argument's value in place: a population as a constant, a mask bound to its function. `contigs` are those of the
/// VCZ tables in the plan.
fn replace(
    expr: Expr,
    values: &HashMap<Argument, Value>,
    contigs: &[String],
) -> Result<Transformed<Expr>> {
    let Expr::ScalarFunction(mut call) = expr else {
        return Ok(Transformed::no(expr));
    };
    let value = Argument::of(&call)?.and_then(|argument| values.get(&argument));
    match value {
        Some(Value::Population(value)) => call.args[1] = Expr::Literal(value.clone(), None),
        Some(Value::Mask(mask)) => {
            if let Some(Expr::Literal(contig, _)) = call.args.first()
                && let Some(contig) = contig.try_as_str().flatten()
            {
                mask.check_knows(contig, contigs)?;
            }
            call.func = Arc::new(bind_mask(&call.func, Arc::clone(mask)));
        }
        None => return Ok(Transformed::no(Expr::ScalarFunction(call))),
    }
    Ok(Transformed::yes(Expr::ScalarFunction(call)))
}

/// Runs an uncorrelated scalar subquery, which must find samples. A second row is an error as soon
/// as it arrives, so that a long result is not collected.
async fn run(subquery: &Subquery, session: &dyn Session) -> Result<ScalarValue> {
    let plan = session.create_physical_plan(&subquery.subquery).await?;
    let mut value = ScalarValue::try_from(plan.schema().field(0).data_type())?;
    let mut batches = execute_stream(plan, session.task_ctx())?;
    let mut found = false;
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        if batch.num_rows() > 1 || (found && batch.num_rows() > 0) {
            return plan_err!(
                "a subquery that gives a population must give one value, found more rows; collect sample ids with array_agg"
            );
        }
        if batch.num_rows() == 1 {
            value = ScalarValue::try_from_array(batch.column(0), 0)?;
            found = true;
        }
    }
    if value.is_null() {
        return plan_err!(
            "the subquery that gives the population found no samples: its value is NULL{}",
            if found { "" } else { ", since it has no row" }
        );
    }
    Ok(value)
}
