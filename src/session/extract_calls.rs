//! Moves calls on genotypes to where DataFusion's leaf pushdown can push them into the scan: out of OVER, and below windows and UNNEST of
//! other columns.
//!
//! ```text
//! Window: diversity(allele_counts(g, 'p')) OVER (…)      Projection: *, …
//!   TableScan                                        ->    Window: diversity(x) OVER (…)
//!                                                            Projection: *, allele_counts(g, 'p') AS x
//!                                                              TableScan
//!
//! Projection: allele_counts(g, 'p'), row_number() …      Projection: x, row_number() …
//!   Window: row_number() OVER (…)                    ->    Window: row_number() OVER (…)
//!     TableScan                                              Projection: *, allele_counts(g, 'p') AS x
//!                                                              TableScan
//!
//! Projection: allele_counts(g, 'p'), w                   Projection: x, w
//!   Unnest: w                                        ->    Unnest: w
//!     Projection: g, genome_bins(…) AS w                     Projection: *, allele_counts(g, 'p') AS x
//!                                                              Projection: g, genome_bins(…) AS w
//! ```

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Expr, ExpressionPlacement, LogicalPlan, LogicalPlanBuilder, Projection, Unnest, Window,
};
use datafusion::optimizer::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use super::binder::is_of_calls;

/// Prefix of the aliases that DataFusion's own extraction makes. Its pushdown rule only pushes columns with this prefix.
const EXTRACTED: &str = "__datafusion_extracted";

/// The rule.
#[derive(Debug)]
pub struct ExtractCalls;

impl OptimizerRule for ExtractCalls {
    fn name(&self) -> &str {
        "vcz_extract_calls"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Window(window) => out_of_over(window, config),
            LogicalPlan::Projection(projection) => match projection.input.as_ref() {
                LogicalPlan::Unnest(unnest) => {
                    let unnest = unnest.clone();
                    below_unnest(projection, unnest, config)
                }
                LogicalPlan::Window(window) => {
                    let window = window.clone();
                    below_window(projection, window, config)
                }
                _ => Ok(Transformed::no(LogicalPlan::Projection(projection))),
            },
            other => Ok(Transformed::no(other)),
        }
    }
}

/// Calls taken out of expressions, each once, with its alias.
struct Extracted<'a> {
    calls: Vec<(Expr, String)>,
    config: &'a dyn OptimizerConfig,
}

impl Extracted<'_> {
    /// `expr` with every call on genotypes that `movable` accepts replaced by a column.
    fn take(&mut self, expr: Expr, movable: &dyn Fn(&Expr) -> bool) -> Result<Transformed<Expr>> {
        expr.transform_down(|expr| {
            let is_call =
                is_of_calls(&expr) && expr.placement() == ExpressionPlacement::MoveTowardsLeafNodes;
            if !is_call || !movable(&expr) {
                return Ok(Transformed::no(expr));
            }
            let alias = match self.calls.iter().find(|(known, _)| *known == expr) {
                Some((_, alias)) => alias.clone(),
                None => {
                    let alias = self.config.alias_generator().next(EXTRACTED);
                    self.calls.push((expr, alias.clone()));
                    alias
                }
            };
            let column = Expr::Column(Column::new_unqualified(alias));
            Ok(Transformed::new(column, true, TreeNodeRecursion::Jump))
        })
    }

    /// A projection of the calls and of all columns of `input`.
    fn below(self, input: Arc<LogicalPlan>) -> Result<LogicalPlan> {
        let calls = self
            .calls
            .into_iter()
            .map(|(call, alias)| call.alias(alias));
        let columns: Vec<Expr> = input.schema().iter().map(Expr::from).collect();
        let exprs = calls.chain(columns).collect();
        Ok(LogicalPlan::Projection(Projection::try_new(exprs, input)?))
    }
}

fn out_of_over(window: Window, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
    let mut extracted = Extracted {
        calls: vec![],
        config,
    };
    let original = Arc::clone(&window.schema);
    let names = NamePreserver::new_for_projection();
    let mut exprs = Vec::with_capacity(window.window_expr.len());
    for expr in window.window_expr.clone() {
        let name = names.save(&expr);
        exprs.push(name.restore(extracted.take(expr, &|_| true)?.data));
    }
    if extracted.calls.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Window(window)));
    }
    let input = extracted.below(window.input)?;
    let window = LogicalPlan::Window(Window::try_new(exprs, Arc::new(input))?);
    let columns: Vec<Expr> = original.iter().map(Expr::from).collect();
    Ok(Transformed::yes(
        LogicalPlanBuilder::from(window).project(columns)?.build()?,
    ))
}

fn below_window(
    projection: Projection,
    window: Window,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    let Window {
        input, window_expr, ..
    } = window;
    let again = |input| Ok(LogicalPlan::Window(Window::try_new(window_expr, input)?));
    below(projection, &input, &|_| true, again, config)
}

fn below_unnest(
    projection: Projection,
    unnest: Unnest,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    let Unnest {
        input,
        exec_columns,
        options,
        ..
    } = unnest;
    let stays = |column: &Column| !exec_columns.contains(column);
    let again = |input: Arc<LogicalPlan>| {
        LogicalPlanBuilder::from(input)
            .unnest_columns_with_options(exec_columns.clone(), options)?
            .build()
    };
    below(projection, &input, &stays, again, config)
}

/// The projection with its calls computed below the node that separates it from `input`. Only calls on columns that this node passes
/// on unchanged are moved. `again` rebuilds the node over another input.
fn below(
    projection: Projection,
    input: &Arc<LogicalPlan>,
    is_same: &dyn Fn(&Column) -> bool,
    again: impl FnOnce(Arc<LogicalPlan>) -> Result<LogicalPlan>,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    let mut extracted = Extracted {
        calls: vec![],
        config,
    };
    let movable = |call: &Expr| {
        let mut columns = call.column_refs().into_iter();
        columns.all(|column| input.schema().has_column(column) && is_same(column))
    };
    let names = NamePreserver::new_for_projection();
    let mut exprs = Vec::with_capacity(projection.expr.len());
    for expr in projection.expr.clone() {
        let name = names.save(&expr);
        exprs.push(name.restore(extracted.take(expr, &movable)?.data));
    }
    if extracted.calls.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Projection(projection)));
    }
    let node = again(Arc::new(extracted.below(Arc::clone(input))?))?;
    Ok(Transformed::yes(LogicalPlan::Projection(
        Projection::try_new(exprs, Arc::new(node))?,
    )))
}
