//! The size of logical plans. A part that is used several times counts each time, but is visited only once.

use std::collections::HashMap;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{Expr, GroupingSet, LogicalPlan};

/// The maximum number of expressions of one filter after rules have replaced its columns by their expressions.
const MAX_FILTER: usize = 100_000;

/// The number of nodes and expressions of a plan, not counting literals.
pub fn size(plan: &LogicalPlan) -> usize {
    Sizes::default().of(plan).size
}

/// Checks that `plan` has at most `most` nodes and expressions, and that pushing filters down does not make filters too large.
///
/// # Errors
/// A planning error with the size and the limit.
pub fn check(plan: &LogicalPlan, most: usize) -> Result<()> {
    let mut sizes = Sizes::default();
    let size = sizes.of(plan).size;
    if size > most {
        return plan_err!(
            "the statement has {size} nodes and expressions when it is planned, more than the {most} allowed"
        );
    }
    if sizes.largest_filter > MAX_FILTER {
        return plan_err!(
            "a filter of the statement has {} expressions when each name is replaced by what it stands for, more than the \
             {MAX_FILTER} allowed",
            sizes.largest_filter
        );
    }
    Ok(())
}

/// The number of expressions of one node, without the plans of subqueries; counting stops above `most`.
pub fn expressions_of(plan: &LogicalPlan, most: usize) -> Result<usize> {
    let mut count = 0;
    plan.apply_expressions(|expr| {
        expr.apply(|_| {
            count += 1;
            Ok(if count > most {
                TreeNodeRecursion::Stop
            } else {
                TreeNodeRecursion::Continue
            })
        })
    })?;
    Ok(count)
}

/// Sizes of a part of a plan.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    /// Nodes and expressions.
    size: usize,
    /// Expressions of the largest column, with the names of input columns replaced by their expressions.
    column: usize,
}

/// The sizes of parts that were visited, by address, because parts are shared.
#[derive(Default)]
struct Sizes {
    parts: HashMap<*const LogicalPlan, Part>,
    largest_filter: usize,
}

impl Sizes {
    fn of(&mut self, plan: &LogicalPlan) -> Part {
        let address = std::ptr::from_ref(plan);
        if let Some(part) = self.parts.get(&address) {
            return *part;
        }
        let mut input = Part::default();
        for child in plan.inputs() {
            let child = self.of(child);
            input.size = input.size.saturating_add(child.size);
            input.column = input.column.max(child.column);
        }
        let (mut size, mut column, mut all) = (input.size.saturating_add(1), 1_usize, 0_usize);
        // The closure returns no error.
        let _ = plan.apply_expressions(|expr| {
            let (own, expanded) = self.of_expression(expr, input.column.max(1));
            size = size.saturating_add(own);
            column = column.max(expanded);
            all = all.saturating_add(expanded);
            Ok(TreeNodeRecursion::Continue)
        });
        let column = match plan {
            LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Values(_) => {
                column
            }
            LogicalPlan::Filter(_) | LogicalPlan::Join(_) => {
                self.largest_filter = self.largest_filter.max(all);
                input.column
            }
            _ => column.max(input.column),
        };
        let part = Part { size, column };
        self.parts.insert(address, part);
        part
    }

    /// The size of an expression with the plans of its subqueries, and its size if each name is replaced by an expression of size `column`.
    fn of_expression(&mut self, expr: &Expr, column: usize) -> (usize, usize) {
        let (mut size, mut expanded) = (0_usize, 0_usize);
        // The closure returns no error.
        let _ = expr.apply(|expr| {
            let (own, names) = match expr {
                Expr::ScalarSubquery(subquery) => (self.of(&subquery.subquery).size, 1),
                Expr::Exists(exists) => (self.of(&exists.subquery.subquery).size, 1),
                Expr::InSubquery(within) => (self.of(&within.subquery.subquery).size, 1),
                Expr::GroupingSet(sets) => (in_sets(sets), 1),
                Expr::Column(_) => (1, column),
                Expr::Literal(..) => (0, 1),
                _ => (1, 1),
            };
            size = size.saturating_add(own);
            expanded = expanded.saturating_add(names);
            Ok(TreeNodeRecursion::Continue)
        });
        (size, expanded)
    }
}

/// The number of expressions in all grouping sets.
fn in_sets(sets: &GroupingSet) -> usize {
    match sets {
        GroupingSet::Rollup(columns) => columns.len().saturating_mul(columns.len()),
        GroupingSet::Cube(columns) => {
            let sets = u32::try_from(columns.len())
                .ok()
                .and_then(|columns| 1_usize.checked_shl(columns));
            sets.unwrap_or(usize::MAX).saturating_mul(columns.len())
        }
        GroupingSet::GroupingSets(sets) => sets.iter().map(Vec::len).sum(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::logical_expr::{LogicalPlanBuilder, Union, col, lit};
    use datafusion::prelude::SessionContext;

    use super::*;

    #[test]
    fn shared_parts_count_each_time() {
        let one = LogicalPlanBuilder::empty(true)
            .project([lit(1).alias("a")])
            .unwrap()
            .build()
            .unwrap();
        let mut plan = one;
        for _ in 0..40 {
            let shared = Arc::new(plan);
            let union = Union::try_new(vec![Arc::clone(&shared), shared]).unwrap();
            plan = LogicalPlan::Union(union);
        }
        assert!(size(&plan) > 1 << 40);
        let error = check(&plan, 1000).unwrap_err().to_string();
        assert!(error.contains("more than the 1000 allowed"), "{error}");
    }

    #[tokio::test]
    async fn filters_are_expanded() {
        let ctx = SessionContext::new();
        let quadrupled = |levels: usize| {
            let open = "(SELECT concat(a, a, a, a) AS a FROM ".repeat(levels);
            format!(
                "SELECT * FROM {open} (SELECT 'x' AS a) {} WHERE a > 'y'",
                ")".repeat(levels)
            )
        };
        let plan = |sql: String| {
            let state = ctx.state();
            async move { state.create_logical_plan(&sql).await.unwrap() }
        };
        check(&plan(quadrupled(4)).await, 10_000).unwrap();
        let error = check(&plan(quadrupled(9)).await, 10_000).unwrap_err();
        assert!(error.to_string().contains("a filter"), "{error}");
        let twice = LogicalPlanBuilder::empty(true)
            .filter(col("a").and(col("a")))
            .err();
        assert!(twice.is_some(), "the column is unknown");
    }
}
