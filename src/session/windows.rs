//! Overlapping windows in two steps: an aggregate over `unnest(genome_bins(position, size, step))` becomes an aggregate over bins of
//! width `step` and a merge of the bins' states, so that a site is aggregated once instead of once for each of its windows.
//!
//! ```text
//! Aggregate: contig, w; diversity(x)                   Aggregate: contig, w; diversity_merge(s)
//!   Unnest: w                                            Unnest: w
//!     Projection: contig, x,                      ->       Projection: contig, s, genome_bins(bin, size, step) AS w
//!         genome_bins(position, size, step) AS w             Aggregate: contig, bin; diversity_state(x) AS s
//!                                                              Projection: contig, x, genome_bin(position, step) AS bin
//! ```
//!
//! `size` must be a multiple of `step`: then the windows that contain a position are those that contain the start of its bin.
//! A plan of any other form, or with an aggregate whose states are not exact, is not changed.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result, ScalarValue, UnnestOptions};
use datafusion::functions::core::expr_fn::greatest;
use datafusion::logical_expr::expr::{AggregateFunction, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Aggregate, Expr, ExprSchemable, Filter, LogicalPlan, LogicalPlanBuilder, Projection, ScalarUDF,
    SubqueryAlias, Unnest, lit,
};
use datafusion::optimizer::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::functions::scalar::{GenomeBin, GenomeBins};
use crate::functions::stages;

/// The rule.
#[derive(Debug)]
pub struct TwoStepWindows;

impl OptimizerRule for TwoStepWindows {
    fn name(&self) -> &str {
        "vcz_two_step_windows"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Aggregate(aggregate) = &plan else {
            return Ok(Transformed::no(plan));
        };
        Ok(match two_steps(aggregate, config)? {
            Some(rewritten) => Transformed::yes(rewritten),
            None => Transformed::no(plan),
        })
    }
}

/// What is below the aggregate, with every row once: its bin in place of its windows.
struct Below {
    plan: LogicalPlan,
    /// The column of `plan` that holds the bin.
    bin: Column,
    /// Columns of the original plan that `plan` lacks because they depend on the window.
    windowed: HashMap<Column, Windowed>,
    /// Filters on the window.
    filters: Vec<Expr>,
    size: i64,
    step: i64,
    /// The column that will hold the window.
    window: Column,
    options: UnnestOptions,
}

/// An expression that uses the window.
#[derive(Clone)]
enum Windowed {
    /// Only the window and constants: the expression over [`Below::window`].
    Alone(Expr),
    /// Columns of the row, too.
    Mixed,
}

impl Below {
    /// How `expr`, over the original plan with this schema, uses the window; `None` if it does not.
    fn windowed(&self, expr: &Expr, schema: &DFSchema) -> Result<Option<Windowed>> {
        let (mut alone, mut free) = (true, true);
        let over_window = expr.clone().transform_up(|expr| {
            let Expr::Column(column) = &expr else {
                return Ok(Transformed::no(expr));
            };
            let field = schema.qualified_field(schema.index_of_column(column)?);
            match self.windowed.get(&Column::from(field)) {
                None => alone = false,
                Some(Windowed::Mixed) => (alone, free) = (false, false),
                Some(Windowed::Alone(over_window)) => {
                    free = false;
                    return Ok(Transformed::yes(over_window.clone()));
                }
            }
            Ok(Transformed::no(expr))
        })?;
        Ok(match (free, alone) {
            (true, _) => None,
            (false, true) => Some(Windowed::Alone(over_window.data.unalias())),
            (false, false) => Some(Windowed::Mixed),
        })
    }
}

/// Whether an expression gives the same value for the same row wherever it is computed.
fn is_plain(expr: &Expr) -> Result<bool> {
    let mut plain = true;
    expr.apply(|expr| {
        plain &= !expr.is_volatile_node()
            && !matches!(
                expr,
                Expr::ScalarSubquery(_)
                    | Expr::InSubquery(_)
                    | Expr::Exists(_)
                    | Expr::SetComparison(_)
                    | Expr::OuterReferenceColumn(..)
            );
        Ok(if plain {
            TreeNodeRecursion::Continue
        } else {
            TreeNodeRecursion::Stop
        })
    })?;
    Ok(plain)
}

/// Whether all of `exprs` are.
fn all_plain<'a>(exprs: impl IntoIterator<Item = &'a Expr>) -> Result<bool> {
    for expr in exprs {
        if !is_plain(expr)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn two_steps(aggregate: &Aggregate, config: &dyn OptimizerConfig) -> Result<Option<LogicalPlan>> {
    let grouping_sets = aggregate
        .group_expr
        .iter()
        .any(|expr| matches!(expr, Expr::GroupingSet(_)));
    if aggregate.aggr_expr.is_empty()
        || grouping_sets
        || !all_plain(aggregate.group_expr.iter().chain(&aggregate.aggr_expr))?
    {
        return Ok(None);
    }
    let Some(below) = below(&aggregate.input, config)? else {
        return Ok(None);
    };
    let name = |prefix: &str| config.alias_generator().next(prefix);

    // Keys: those on the window are for the second step, the others for both.
    let mut first_keys = Vec::new();
    let mut keys = Vec::with_capacity(aggregate.group_expr.len());
    let names = NamePreserver::new_for_projection();
    for key in &aggregate.group_expr {
        keys.push(match below.windowed(key, aggregate.input.schema())? {
            None => {
                first_keys.push(key.clone());
                let (relation, name) = key.qualified_name();
                Expr::Column(Column::new(relation, name))
            }
            Some(Windowed::Alone(over_window)) => names.save(key).restore(over_window),
            Some(Windowed::Mixed) => return Ok(None),
        });
    }
    if first_keys.len() == keys.len() {
        return Ok(None);
    }
    let carried = keys
        .iter()
        .filter(|key| matches!(key, Expr::Column(column) if *column != below.window))
        .cloned()
        .collect::<Vec<_>>();
    let bin = name("__vcz_bin");
    first_keys.push(Expr::Column(below.bin.clone()).alias(&bin));

    let mut states = Vec::with_capacity(aggregate.aggr_expr.len());
    let mut merges = Vec::with_capacity(aggregate.aggr_expr.len());
    for expr in &aggregate.aggr_expr {
        let Expr::AggregateFunction(call) = expr.clone().unalias_nested().data else {
            return Ok(None);
        };
        if below.windowed(expr, aggregate.input.schema())?.is_some() {
            return Ok(None);
        }
        let Some(stages) = stages(&call, below.plan.schema())? else {
            return Ok(None);
        };
        let state = name("__vcz_state");
        states.push(stages.state.alias(&state));
        let merge = AggregateFunction::new_udf(
            stages.merge,
            vec![Expr::Column(Column::new_unqualified(state))],
            false,
            None,
            vec![],
            None,
        );
        merges.push(names.save(expr).restore(Expr::AggregateFunction(merge)));
    }

    let first = Aggregate::try_new(Arc::new(below.plan), first_keys, states)?;
    let state_columns = first
        .schema
        .iter()
        .skip(first.group_expr.len())
        .map(Expr::from)
        .collect::<Vec<_>>();
    let windows = call(
        ScalarUDF::new_from_impl(GenomeBins::new()),
        vec![
            Expr::Column(Column::new_unqualified(bin)),
            lit(below.size),
            lit(below.step),
        ],
    );
    let lists = std::iter::once(windows.alias(&below.window.name));
    let exprs = lists.chain(carried).chain(state_columns).collect();
    let lists = Projection::try_new(exprs, Arc::new(LogicalPlan::Aggregate(first)))?;
    let mut builder = LogicalPlanBuilder::from(LogicalPlan::Projection(lists))
        .unnest_columns_with_options(vec![below.window.clone()], below.options)?;
    if let Some(predicate) = conjunction(below.filters) {
        builder = builder.filter(predicate)?;
    }
    let second = Aggregate::try_new(Arc::new(builder.build()?), keys, merges)?;
    Ok(same_schema(&second.schema, &aggregate.schema).then_some(LogicalPlan::Aggregate(second)))
}

/// Whether two schemas agree in names, types, nullability and metadata.
fn same_schema(a: &DFSchema, b: &DFSchema) -> bool {
    a.iter().eq(b.iter())
}

fn call(function: ScalarUDF, args: Vec<Expr>) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), args))
}

/// `plan` without its unnest of windows; `None` where it is not projections, filters and aliases over just that.
fn below(plan: &LogicalPlan, config: &dyn OptimizerConfig) -> Result<Option<Below>> {
    match plan {
        LogicalPlan::Unnest(unnest) => unnested(unnest, config),
        LogicalPlan::Projection(projection) => match below(&projection.input, config)? {
            Some(below) => through_projection(projection, below),
            None => Ok(None),
        },
        LogicalPlan::Filter(filter) => match below(&filter.input, config)? {
            Some(below) => through_filter(filter, below),
            None => Ok(None),
        },
        LogicalPlan::SubqueryAlias(alias) => match below(&alias.input, config)? {
            Some(below) => through_alias(alias, below).map(Some),
            None => Ok(None),
        },
        _ => Ok(None),
    }
}

fn through_projection(projection: &Projection, mut below: Below) -> Result<Option<Below>> {
    if !all_plain(&projection.expr)? {
        return Ok(None);
    }
    let mut exprs = Vec::with_capacity(projection.expr.len() + 1);
    let mut windowed = HashMap::new();
    for (expr, (relation, field)) in projection.expr.iter().zip(projection.schema.iter()) {
        match below.windowed(expr, projection.input.schema())? {
            Some(over_window) => {
                windowed.insert(Column::from((relation, field)), over_window);
            }
            None => exprs.push(expr.clone()),
        }
    }
    exprs.push(Expr::Column(below.bin.clone()));
    below.plan = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(below.plan))?);
    below.windowed = windowed;
    Ok(Some(below))
}

fn through_filter(filter: &Filter, mut below: Below) -> Result<Option<Below>> {
    if !is_plain(&filter.predicate)? {
        return Ok(None);
    }
    let mut kept = Vec::new();
    for predicate in split_conjunction_owned(filter.predicate.clone()) {
        match below.windowed(&predicate, filter.input.schema())? {
            None => kept.push(predicate),
            Some(Windowed::Alone(over_window)) => below.filters.push(over_window),
            Some(Windowed::Mixed) => return Ok(None),
        }
    }
    if let Some(predicate) = conjunction(kept) {
        below.plan = LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(below.plan))?);
    }
    Ok(Some(below))
}

fn through_alias(alias: &SubqueryAlias, mut below: Below) -> Result<Below> {
    let renamed = |column: &Column| Column::new(Some(alias.alias.clone()), column.name.clone());
    below.bin = renamed(&below.bin);
    below.windowed = below
        .windowed
        .iter()
        .map(|(column, over_window)| (renamed(column), over_window.clone()))
        .collect();
    let aliased = SubqueryAlias::try_new(Arc::new(below.plan), alias.alias.clone())?;
    below.plan = LogicalPlan::SubqueryAlias(aliased);
    Ok(below)
}

/// The input of `unnest` with bins in place of lists of windows.
fn unnested(unnest: &Unnest, config: &dyn OptimizerConfig) -> Result<Option<Below>> {
    let ([list], [(at, unnested)]) = (&unnest.exec_columns[..], &unnest.list_type_columns[..])
    else {
        return Ok(None);
    };
    let Some(output) = unnest
        .dependency_indices
        .iter()
        .position(|input| input == at)
        .filter(|_| unnested.depth == 1 && unnest.struct_type_columns.is_empty())
    else {
        return Ok(None);
    };
    let bin = config.alias_generator().next("__vcz_bin");
    let Some(binned) = binned(&unnest.input, list, &bin)? else {
        return Ok(None);
    };
    let window = Column::new_unqualified(config.alias_generator().next("__vcz_window"));
    let itself = Windowed::Alone(Expr::Column(window.clone()));
    Ok(Some(Below {
        plan: binned.plan,
        bin: Column::new_unqualified(bin),
        windowed: HashMap::from([(Column::from(unnest.schema.qualified_field(output)), itself)]),
        filters: vec![],
        size: binned.size,
        step: binned.step,
        window,
        options: UnnestOptions {
            recursions: vec![],
            ..unnest.options.clone()
        },
    }))
}

/// A plan with bins, and the windows that it had.
struct Binned {
    plan: LogicalPlan,
    size: i64,
    step: i64,
}

/// `plan` with a column `bin`, of the bins of one step, in place of its column `list`, of lists of windows; `None` where
/// that is not what the column holds, or something else uses it.
fn binned(plan: &LogicalPlan, list: &Column, bin: &str) -> Result<Option<Binned>> {
    let LogicalPlan::Projection(projection) = plan else {
        return Ok(None);
    };
    let Ok(at) = projection.schema.index_of_column(list) else {
        return Ok(None);
    };
    let mut exprs = projection.expr.clone();
    let defined = exprs[at].clone().unalias_nested().data;
    match defined {
        Expr::Column(inner) => {
            let others = exprs.iter().enumerate();
            if others
                .into_iter()
                .any(|(other, expr)| other != at && expr.column_refs().contains(&inner))
            {
                return Ok(None);
            }
            let Some(binned) = binned(&projection.input, &inner, bin)? else {
                return Ok(None);
            };
            exprs[at] = Expr::Column(Column::new_unqualified(bin));
            let plan = Projection::try_new(exprs, Arc::new(binned.plan))?;
            Ok(Some(Binned {
                plan: LogicalPlan::Projection(plan),
                ..binned
            }))
        }
        Expr::ScalarFunction(windows) if windows.func.inner().is::<GenomeBins>() => {
            let [position, size, step] = &windows.args[..] else {
                return Ok(None);
            };
            let (Some(size), Some(step)) = (constant(size), constant(step)) else {
                return Ok(None);
            };
            // With one window per site there is nothing to gain.
            if step < 1 || size <= step || size % step != 0 || !is_plain(position)? {
                return Ok(None);
            }
            let position = in_range(position, projection.input.schema())?;
            let start = call(
                ScalarUDF::new_from_impl(GenomeBin::new()),
                vec![position, lit(step)],
            );
            exprs[at] = start.alias(bin);
            let plan = Projection::try_new(exprs, Arc::clone(&projection.input))?;
            Ok(Some(Binned {
                plan: LogicalPlan::Projection(plan),
                size,
                step,
            }))
        }
        _ => Ok(None),
    }
}

/// The value of an integer literal.
fn constant(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Literal(ScalarValue::Int64(number), _) => *number,
        _ => None,
    }
}

/// `position`, but at least 0: no window contains a smaller one, and the bin of a very small one would start below the range of i64.
/// Integers of fewer bits are in range and are left as they are, which keeps their order.
fn in_range(position: &Expr, schema: &DFSchema) -> Result<Expr> {
    if let Expr::Cast(cast) = position {
        let given = cast.expr.get_type(schema)?;
        if given.is_integer() && given.primitive_width() < Some(8) {
            return Ok(position.clone());
        }
    }
    Ok(greatest(vec![position.clone(), lit(0i64)]))
}
