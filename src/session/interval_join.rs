//! Turns joins of positions with intervals into equijoins on bins. Otherwise DataFusion compares every site of a contig with every gene.
//!
//! ```text
//! Inner Join: t.contig = g.contig                      Projection: t.contig, t.position, g.contig, g.start, g.stop
//!     Filter: t.position BETWEEN g.start AND g.stop      Inner Join: t.contig = g.contig, bin = bins  Filter: as before
//!   t                                            ->        Projection: t.*, vcz_join_bin(t.position) AS bin
//!   g                                                        t
//!                                                          Unnest: bins
//!                                                            Projection: g.*, vcz_join_bins(g.start, g.stop) AS bins
//!                                                              g
//! ```
//!
//! A position is in one bin, so no pair of rows is repeated. The filter stays, so no pair is added.
//!
//! A side whose rows are returned without pairs too (LEFT, EXISTS, NOT EXISTS and their mirror images) must not be unnested. If that is
//! the intervals' side, an interval has one bin, the smallest of several sizes that it is inside of (`vcz_join_level`), and the
//! positions' side is unnested into one row a size (`vcz_join_levels`). FULL JOIN stays as it is.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, JoinType, NullEquality, Result};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Join, LogicalPlan, LogicalPlanBuilder, Operator, cast,
};
use datafusion::optimizer::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::functions::join_bins::{join_bin, join_bins, join_level, join_levels};

/// Names of the bin columns that are added to the two sides.
const POINT_BIN: &str = "__vcz_point_bin";
const INTERVAL_BIN: &str = "__vcz_interval_bin";

/// The rule.
#[derive(Debug)]
pub struct IntervalJoin;

impl OptimizerRule for IntervalJoin {
    fn name(&self) -> &str {
        "vcz_interval_join"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(join) = &plan else {
            return Ok(Transformed::no(plan));
        };
        Ok(match binned(join)? {
            Some(rewritten) => Transformed::yes(rewritten),
            None => Transformed::no(plan),
        })
    }
}

/// A position of one side and an interval of the other: `start <= position` and `position <= stop`, or `<`.
struct Between {
    position: Expr,
    start: Expr,
    stop: Expr,
    position_is_left: bool,
}

/// The join on bins; `None` if `join` is not of positions with intervals, or is on bins already.
fn binned(join: &Join) -> Result<Option<LogicalPlan>> {
    let is_done = join.on.iter().any(|(left, right)| {
        [left, right].iter().any(|key| {
            matches!(key, Expr::Column(column) if column.name == POINT_BIN || column.name == INTERVAL_BIN)
        })
    });
    if join.join_type == JoinType::Full
        // NOT IN, which has one key.
        || join.null_aware
        || join.null_equality != NullEquality::NullEqualsNothing
        || is_done
    {
        return Ok(None);
    }
    let Some(between) = between(join)? else {
        return Ok(None);
    };
    let position_is_unnested = match join.join_type {
        JoinType::Inner | JoinType::Full => false,
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
            !between.position_is_left
        }
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
            between.position_is_left
        }
    };
    let int64 = |expr: &Expr| cast(expr.clone(), DataType::Int64);
    let points = |plan: &Arc<LogicalPlan>| {
        let function = if position_is_unnested {
            join_levels()
        } else {
            join_bin()
        };
        let bins = function.call(vec![int64(&between.position)]);
        with_bins(plan, bins.alias(POINT_BIN), position_is_unnested)
    };
    let intervals = |plan: &Arc<LogicalPlan>| {
        let function = if position_is_unnested {
            join_level()
        } else {
            join_bins()
        };
        let bins = function.call(vec![int64(&between.start), int64(&between.stop)]);
        with_bins(plan, bins.alias(INTERVAL_BIN), !position_is_unnested)
    };
    let column = |name: &str| Expr::Column(Column::new_unqualified(name));
    let (left, right, keys) = match between.position_is_left {
        true => (
            points(&join.left)?,
            intervals(&join.right)?,
            (column(POINT_BIN), column(INTERVAL_BIN)),
        ),
        false => (
            intervals(&join.left)?,
            points(&join.right)?,
            (column(INTERVAL_BIN), column(POINT_BIN)),
        ),
    };
    let mut on = join.on.clone();
    on.push(keys);
    let on_bins = Join::try_new(
        Arc::new(left),
        Arc::new(right),
        on,
        join.filter.clone(),
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    LogicalPlanBuilder::from(LogicalPlan::Join(on_bins))
        .project(columns_of(&join.schema))?
        .build()
        .map(Some)
}

fn columns_of(schema: &DFSchema) -> Vec<Expr> {
    let columns = schema.iter();
    columns
        .map(|(qualifier, field)| Expr::Column(Column::new(qualifier.cloned(), field.name())))
        .collect()
}

/// `plan` with one more column, of a bin, or of lists of bins with a row for each.
fn with_bins(plan: &Arc<LogicalPlan>, bins: Expr, are_lists: bool) -> Result<LogicalPlan> {
    let (_, name) = bins.qualified_name();
    let mut columns = columns_of(plan.schema());
    columns.push(bins);
    let plan = LogicalPlanBuilder::from(plan.as_ref().clone()).project(columns)?;
    match are_lists {
        true => plan.unnest_column(Column::new_unqualified(name))?.build(),
        false => plan.build(),
    }
}

/// A lower and an upper bound of the same position, both from the other side, among the conditions of a join.
fn between(join: &Join) -> Result<Option<Between>> {
    let Some(filter) = &join.filter else {
        return Ok(None);
    };
    let mut lower: Vec<(Expr, Expr)> = vec![];
    let mut upper: Vec<(Expr, Expr)> = vec![];
    for condition in split_conjunction(filter) {
        match condition {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let (left, right) = (left.as_ref().clone(), right.as_ref().clone());
                match op {
                    // Either side may be the position.
                    Operator::GtEq | Operator::Gt => {
                        lower.push((left.clone(), right.clone()));
                        upper.push((right, left));
                    }
                    Operator::LtEq | Operator::Lt => {
                        upper.push((left.clone(), right.clone()));
                        lower.push((right, left));
                    }
                    _ => {}
                }
            }
            Expr::Between(between) if !between.negated => {
                let position = between.expr.as_ref().clone();
                lower.push((position.clone(), between.low.as_ref().clone()));
                upper.push((position, between.high.as_ref().clone()));
            }
            _ => {}
        }
    }
    let (left, right) = (join.left.schema(), join.right.schema());
    for (position_is_left, points, intervals) in [(true, left, right), (false, right, left)] {
        for (position, start) in &lower {
            for (same, stop) in &upper {
                if without_casts(position) == without_casts(same)
                    && is_integer_of(position, points)?
                    && is_integer_of(start, intervals)?
                    && is_integer_of(stop, intervals)?
                {
                    return Ok(Some(Between {
                        position: without_casts(position).clone(),
                        start: start.clone(),
                        stop: stop.clone(),
                        position_is_left,
                    }));
                }
            }
        }
    }
    Ok(None)
}

/// `expr` without the casts to integers that type coercion added. What is below them is an integer, too, see [`is_integer_of`].
fn without_casts(expr: &Expr) -> &Expr {
    match expr {
        Expr::Cast(cast) if cast.field.data_type().is_integer() => without_casts(&cast.expr),
        other => other,
    }
}

/// Whether `expr` and what it casts are integers that fit Int64; it uses only columns of `schema`, and is not volatile.
fn is_integer_of(expr: &Expr, schema: &DFSchema) -> Result<bool> {
    let columns = expr.column_refs();
    if columns.is_empty()
        || expr.is_volatile()
        || !columns.iter().all(|column| schema.has_column(column))
    {
        return Ok(false);
    }
    // A cast may be to a floating-point or decimal type.
    let fits = |expr: &Expr| -> Result<bool> {
        let data_type = expr.get_type(schema)?;
        Ok(data_type.is_integer() && data_type != DataType::UInt64)
    };
    Ok(fits(expr)? && fits(without_casts(expr))?)
}
