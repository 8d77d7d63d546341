//! What must be read before a plan is physical: subqueries that give populations are run and replaced by their value, and masks
//! are loaded and bound to the functions that use them. The plan is then optimised once more, so that calls with a now
//! constant population are carried into the scan like any other.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::datasource::source_as_provider;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Explain, Expr, LogicalPlan, Subquery, Union};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use futures::StreamExt;

use crate::functions::mask::Mask;
use crate::functions::{bind_mask, load_mask, needs_mask};
use crate::scan::copies::COPIES_KEY;
use crate::scan::{GENOTYPES_KEY, GenotypeUdf, VczTable};

/// Resolves populations and masks, then plans as the session did before.
#[derive(Debug)]
pub struct VczQueryPlanner {
    inner: Option<Arc<dyn QueryPlanner + Send + Sync>>,
}

impl VczQueryPlanner {
    /// A planner that hands resolved plans to `inner`, or to DataFusion's own planner.
    pub fn new(inner: Option<Arc<dyn QueryPlanner + Send + Sync>>) -> Self {
        Self { inner }
    }
}

#[async_trait]
impl QueryPlanner for VczQueryPlanner {
    async fn create_physical_plan(
        &self,
        logical_plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let resolved = resolve(logical_plan, session).await?;
        let plan = resolved.as_ref().unwrap_or(logical_plan);
        check_unions(plan)?;
        match &self.inner {
            Some(inner) => inner.create_physical_plan(plan, session).await,
            None => {
                DefaultPhysicalPlanner::default()
                    .create_physical_plan(plan, session)
                    .await
            }
        }
    }
}

/// The plan with populations and masks resolved and optimised again; `None` where there is nothing to resolve.
async fn resolve(plan: &LogicalPlan, session: &dyn Session) -> Result<Option<LogicalPlan>> {
    let target = match plan {
        LogicalPlan::Explain(explain) => explain.plan.as_ref(),
        other => other,
    };
    let Some(wanted) = Wanted::find(target)? else {
        return Ok(None);
    };
    let mut values: HashMap<Subquery, ScalarValue> = HashMap::new();
    for subquery in wanted.subqueries {
        let value = run(&subquery, session).await?;
        values.insert(subquery, value);
    }
    let mut masks: HashMap<String, Arc<Mask>> = HashMap::new();
    for name in wanted.masks {
        let mask = load_mask(session, &name).await?;
        if !wanted.contigs.is_empty() {
            mask.check_shares(&wanted.contigs)?;
        }
        masks.insert(name, Arc::new(mask));
    }
    let replaced = target.clone().transform_up_with_subqueries(|node| {
        let names = NamePreserver::new(&node);
        let node = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let replaced = expr.transform_up(|expr| replace(expr, &values, &masks))?;
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

/// Refuses calls on genotypes above a UNION of tables with different samples: DataFusion merges the metadata of the branches, so a
/// population would be looked up in one table for the rows of all. Calls that were carried into the branches are right. Counts
/// with different numbers of copies cannot be united either, since a spectrum over them has no one axis.
fn check_unions(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Union(union) = node
            && conflicts(union, COPIES_KEY)
        {
            return plan_err!(
                "UNION of allele counts with different numbers of copies; aggregate in each branch of the UNION, \
                 or project_sfs in each branch to the same number of copies"
            );
        }
        let calls = node.expressions().iter().any(|expr| {
            expr.exists(|expr| {
                Ok(matches!(expr, Expr::ScalarFunction(call) if call.func.inner().is::<GenotypeUdf>()))
            })
            .unwrap_or(false)
        });
        if !calls {
            return Ok(TreeNodeRecursion::Continue);
        }
        node.apply_children(|child| {
            child.apply(|below| match below {
                LogicalPlan::Union(union) if conflicts(union, GENOTYPES_KEY) => plan_err!(
                    "UNION of call_genotype of tables with different samples or populations; \
                     call allele_counts(call_genotype, …) in each branch of the UNION"
                ),
                _ => Ok(TreeNodeRecursion::Continue),
            })
        })
    })
    .map(drop)
}

/// Whether the branches of a UNION disagree on a field's metadata `key`.
fn conflicts(union: &Union, key: &str) -> bool {
    (0..union.schema.fields().len()).any(|at| {
        let mut values = union
            .inputs
            .iter()
            .filter_map(|branch| branch.schema().fields().get(at))
            .map(|field| field.metadata().get(key));
        let first = values.next().flatten();
        values.any(|value| value != first)
    })
}

/// What a plan needs before it can be made physical.
#[derive(Default)]
struct Wanted {
    subqueries: Vec<Subquery>,
    masks: Vec<String>,
    /// Contigs of the VCZ tables in the plan.
    contigs: Vec<String>,
}

impl Wanted {
    fn find(plan: &LogicalPlan) -> Result<Option<Self>> {
        let mut wanted = Self::default();
        plan.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node
                && let Ok(provider) = source_as_provider(&scan.source)
                && let Some(table) = provider.downcast_ref::<VczTable>()
            {
                wanted.contigs.extend(table.contigs_with_variants());
            }
            node.apply_expressions(|expr| {
                expr.apply(|expr| {
                    wanted.look_at(expr)?;
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        })?;
        let nothing = wanted.subqueries.is_empty() && wanted.masks.is_empty();
        Ok((!nothing).then_some(wanted))
    }

    fn look_at(&mut self, expr: &Expr) -> Result<()> {
        let Expr::ScalarFunction(call) = expr else {
            return Ok(());
        };
        if let Some(subquery) = population_subquery(call) {
            if !subquery.outer_ref_columns.is_empty() {
                return plan_err!(
                    "{}: the subquery that gives the population must not depend on the rows around it",
                    call.func.name()
                );
            }
            if !self.subqueries.contains(subquery) {
                self.subqueries.push(subquery.clone());
            }
        }
        if needs_mask(&call.func) {
            match call.args.last() {
                Some(Expr::Literal(value, _)) if value.try_as_str().flatten().is_some() => {
                    let name = value.try_as_str().flatten().unwrap_or_default().to_string();
                    if !self.masks.contains(&name) {
                        self.masks.push(name);
                    }
                }
                other => {
                    return plan_err!(
                        "{}: the mask must be a constant, the path of a BED file or the name of a registered table; found {}",
                        call.func.name(),
                        other.map_or("nothing".to_string(), |expr| expr.to_string())
                    );
                }
            }
        }
        Ok(())
    }
}

fn population_subquery(call: &ScalarFunction) -> Option<&Subquery> {
    if !call.func.inner().is::<GenotypeUdf>() {
        return None;
    }
    let mut argument = call.args.get(1)?;
    while let Expr::Cast(cast) = argument {
        argument = &cast.expr;
    }
    match argument {
        Expr::ScalarSubquery(subquery) => Some(subquery),
        _ => None,
    }
}

fn replace(
    expr: Expr,
    values: &HashMap<Subquery, ScalarValue>,
    masks: &HashMap<String, Arc<Mask>>,
) -> Result<Transformed<Expr>> {
    let Expr::ScalarFunction(mut call) = expr else {
        return Ok(Transformed::no(expr));
    };
    if let Some(value) = population_subquery(&call).and_then(|subquery| values.get(subquery)) {
        call.args[1] = Expr::Literal(value.clone(), None);
        return Ok(Transformed::yes(Expr::ScalarFunction(call)));
    }
    if needs_mask(&call.func)
        && let Some(Expr::Literal(value, _)) = call.args.last()
        && let Some(mask) = value
            .try_as_str()
            .flatten()
            .and_then(|name| masks.get(name))
    {
        call.func = Arc::new(bind_mask(&call.func, Arc::clone(mask)));
        return Ok(Transformed::yes(Expr::ScalarFunction(call)));
    }
    Ok(Transformed::no(Expr::ScalarFunction(call)))
}

/// Runs an uncorrelated scalar subquery. No row is NULL, which the function then refuses; a second row is an error as soon as
/// it comes, so that a long result is not collected.
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
    Ok(value)
}
