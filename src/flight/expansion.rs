//! Estimates from a syntax tree how large the statement's plan will be. DataFusion copies a common table expression or a view wherever
//! it is named, an expression wherever its alias is used, and the columns of GROUP BY into each grouping set.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::execution::context::SessionState;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, GroupByWithModifier, ObjectName, OrderByKind, Query, Select, SelectItem,
    SetExpr, Statement, Visit, Visitor, WindowType, visit_relations,
};

use super::plan_size;

/// The maximum number of columns of a SELECT.
const MAX_COLUMNS: usize = 8192;
/// The maximum number of grouping sets of a GROUP BY, and of columns in all of them.
const MAX_GROUPING_SETS: usize = 1024;
const MAX_GROUPING_COLUMNS: usize = 8192;
/// The maximum number of tables that a statement may name, because each join makes the plan deeper.
const MAX_TABLES: usize = 200;

/// Checks that a statement's plan has at most `most` relations and expressions, not counting literals.
///
/// # Errors
/// If it names too many tables, or becomes larger than the limits; the message has both numbers.
pub async fn check(state: &SessionState, statement: &Parsed, most: usize) -> Result<()> {
    let Some(statement) = innermost(statement) else {
        return Ok(());
    };
    let mut names = HashMap::new();
    let mut tables = 0;
    // The closure never breaks, so the result is empty.
    let _ = visit_relations(statement, |name| {
        tables += 1;
        names.insert(name.to_string(), 1);
        ControlFlow::<()>::Continue(())
    });
    if tables > MAX_TABLES {
        return plan_err!(
            "the statement names {tables} tables, more than the {MAX_TABLES} allowed"
        );
    }
    for (name, size) in &mut names {
        *size = size_of_view(state, name).await;
    }
    let mut estimate = Estimate {
        most,
        views: names,
        ..Estimate::default()
    };
    match statement.visit(&mut estimate) {
        ControlFlow::Break(refused) => Err(plan_datafusion_err!("{refused}")),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// The statement inside any EXPLAINs; `None` for DataFusion's own statements, which have no queries.
fn innermost(statement: &Parsed) -> Option<&Statement> {
    match statement {
        Parsed::Statement(statement) => Some(statement),
        Parsed::Explain(explain) => innermost(&explain.statement),
        _ => None,
    }
}

/// The size of the view's plan, or 1 for any other table.
async fn size_of_view(state: &SessionState, name: &str) -> usize {
    let Ok(schema) = state.schema_for_ref(name) else {
        return 1;
    };
    let table = datafusion::common::TableReference::from(name);
    match schema.table(table.table()).await {
        Ok(Some(table)) => table
            .get_logical_plan()
            .map_or(1, |plan| plan_size::size(&plan)),
        _ => 1,
    }
}

/// A query that is being visited.
#[derive(Default)]
struct Frame {
    size: usize,
    /// The sizes of its common table expressions.
    ctes: HashMap<String, usize>,
}

/// Visits a statement and breaks with the reason why it is too large.
#[derive(Default)]
struct Estimate {
    /// Most relations and expressions.
    most: usize,
    views: HashMap<String, usize>,
    frames: Vec<Frame>,
    /// The names of the common table expressions that will be visited, by the address of their query.
    named: HashMap<*const Query, String>,
}

type Refusal = ControlFlow<String>;

impl Estimate {
    fn add(&mut self, size: usize) -> Refusal {
        let Some(frame) = self.frames.last_mut() else {
            return ControlFlow::Continue(());
        };
        frame.size = frame.size.saturating_add(size);
        let size = frame.size;
        refuse_above(
            "relations and expressions when it is planned",
            size,
            self.most,
        )
    }

    /// Breaks if replacing each of `names` by an expression of size `size` would make the statement too large.
    fn substituted(&self, names: usize, size: usize) -> Refusal {
        // Most names are not aliases, so this limit is higher than that for certain copies.
        let most = self.most.saturating_mul(5);
        let size = names.saturating_mul(size);
        refuse_above(
            "expressions when each name is replaced by what it stands for",
            size,
            most,
        )
    }

    /// The size of the table, view or common table expression with this name.
    fn size_of(&self, name: &ObjectName) -> usize {
        let text = match name.0.as_slice() {
            [part] => part.as_ident().map(|ident| ident.value.clone()),
            _ => None,
        };
        text.and_then(|text| {
            let mut frames = self.frames.iter().rev();
            frames.find_map(|frame| frame.ctes.get(&text)).copied()
        })
        .or_else(|| self.views.get(&name.to_string()).copied())
        .unwrap_or(1)
    }
}

fn refuse_above(what: &str, found: usize, most: usize) -> Refusal {
    if found > most {
        let found = if found == usize::MAX {
            "too many to count".to_string()
        } else {
            format!("at least {found}")
        };
        return ControlFlow::Break(format!(
            "the statement has {found} {what}, more than the {most} allowed"
        ));
    }
    ControlFlow::Continue(())
}

impl Visitor for Estimate {
    type Break = String;

    fn pre_visit_query(&mut self, query: &Query) -> Refusal {
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            let name = cte.alias.name.value.clone();
            self.named.insert(std::ptr::from_ref(&*cte.query), name);
        }
        self.frames.push(Frame::default());
        if let (SetExpr::Select(select), Some(order)) = (&*query.body, &query.order_by)
            && let OrderByKind::Expressions(keys) = &order.kind
        {
            let keys = keys.iter().map(|key| expressions(&key.expr).0).sum();
            return self.substituted(keys, largest_item(select));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &Query) -> Refusal {
        let size = self.frames.pop().map_or(0, |frame| frame.size);
        match (
            self.named.remove(&std::ptr::from_ref(query)),
            self.frames.last_mut(),
        ) {
            (Some(name), Some(parent)) => {
                parent.ctes.insert(name, size.saturating_add(1));
                ControlFlow::Continue(())
            }
            _ => self.add(size),
        }
    }

    fn pre_visit_relation(&mut self, name: &ObjectName) -> Refusal {
        let size = self.size_of(name);
        self.add(size)
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> Refusal {
        match expr {
            Expr::Value(_) => ControlFlow::Continue(()),
            _ => self.add(1),
        }
    }

    fn pre_visit_select(&mut self, select: &Select) -> Refusal {
        refuse_above(
            "columns in one SELECT",
            select.projection.len(),
            MAX_COLUMNS,
        )?;
        self.add(select.projection.len())?;
        let (sets, columns) = grouping_sets(&select.group_by);
        refuse_above("grouping sets", sets, MAX_GROUPING_SETS)?;
        let in_sets = sets.saturating_mul(columns);
        refuse_above("columns in grouping sets", in_sets, MAX_GROUPING_COLUMNS)?;
        // Aliases of the SELECT are replaced by their expressions in these clauses.
        let clauses = [&select.having, &select.qualify];
        let aliases = clauses
            .into_iter()
            .flatten()
            .map(|clause| expressions(clause).0);
        let aliases = aliases.sum::<usize>().saturating_add(columns);
        self.substituted(aliases, largest_item(select))?;
        let windows = select
            .named_window
            .iter()
            .map(|window| expressions(window).0)
            .max();
        match windows {
            Some(size) => self.add(expressions(&select.projection).1.saturating_mul(size)),
            None => ControlFlow::Continue(()),
        }
    }
}

/// The size of the largest expression of a SELECT.
fn largest_item(select: &Select) -> usize {
    let of_item = |item: &SelectItem| expressions(item).0;
    select.projection.iter().map(of_item).max().unwrap_or(0)
}

/// The number of expressions in `part`, not counting literals, and the number of named windows.
fn expressions(part: &impl Visit) -> (usize, usize) {
    struct Count(usize, usize);
    impl Visitor for Count {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Value(_) => {}
                Expr::Function(call) if matches!(call.over, Some(WindowType::NamedWindow(_))) => {
                    self.0 += 1;
                    self.1 += 1;
                }
                _ => self.0 += 1,
            }
            ControlFlow::Continue(())
        }
    }
    let mut count = Count(0, 0);
    // The visitor never breaks.
    let _ = part.visit(&mut count);
    (count.0, count.1)
}

/// The number of grouping sets, and of expressions in GROUP BY.
fn grouping_sets(group_by: &GroupByExpr) -> (usize, usize) {
    let two_to = |columns: usize| {
        1_usize
            .checked_shl(columns.try_into().unwrap_or(u32::MAX))
            .unwrap_or(usize::MAX)
    };
    let (expressions, modifiers) = match group_by {
        GroupByExpr::All(modifiers) => (&[][..], modifiers),
        GroupByExpr::Expressions(expressions, modifiers) => (expressions.as_slice(), modifiers),
    };
    let (mut sets, mut columns) = (1_usize, 0_usize);
    let mut add = |expression: &Expr| {
        let (own, items) = match expression {
            Expr::GroupingSets(items) => (items.len(), items),
            Expr::Cube(items) => (two_to(items.len()), items),
            Expr::Rollup(items) => (items.len() + 1, items),
            _ => {
                columns += 1;
                return;
            }
        };
        sets = sets.saturating_mul(own.max(1));
        columns += items.iter().map(Vec::len).sum::<usize>();
    };
    expressions.iter().for_each(&mut add);
    for modifier in modifiers {
        if let GroupByWithModifier::GroupingSets(expression) = modifier {
            add(expression);
        }
    }
    for modifier in modifiers {
        match modifier {
            GroupByWithModifier::Cube => sets = sets.saturating_mul(two_to(columns)),
            GroupByWithModifier::Rollup => sets = sets.saturating_mul(columns + 1),
            GroupByWithModifier::Totals | GroupByWithModifier::GroupingSets(_) => {}
        }
    }
    // The items of GROUPING SETS are usually the same few columns, so only the longest counts.
    let columns = match expressions {
        [Expr::GroupingSets(items)] => items.iter().map(Vec::len).max().unwrap_or(0),
        _ => columns,
    };
    (sets, columns)
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    use super::super::complexity::parse;
    use super::*;

    async fn checked(ctx: &SessionContext, sql: &str) -> Result<()> {
        let state = ctx.state();
        check(&state, &parse(&state, sql)?, 20_000).await
    }

    fn doubled(levels: usize) -> String {
        let mut sql = "WITH t0 AS (SELECT 1 AS a)".to_string();
        for level in 1..levels {
            let below = level - 1;
            sql +=
                &format!(", t{level} AS (SELECT * FROM t{below} UNION ALL SELECT * FROM t{below})");
        }
        format!("{sql} SELECT * FROM t{}", levels - 1)
    }

    #[tokio::test]
    async fn copies_are_counted() {
        let ctx = SessionContext::new();
        checked(&ctx, &doubled(8)).await.unwrap();
        for levels in [20, 30, 90] {
            let error = checked(&ctx, &doubled(levels)).await.unwrap_err();
            assert!(
                error.to_string().contains("more than the 20000 allowed"),
                "{error}"
            );
            let explain = format!("EXPLAIN {}", doubled(levels));
            assert!(checked(&ctx, &explain).await.is_err());
            let inside = format!("SELECT ({})", doubled(levels));
            assert!(checked(&ctx, &inside).await.is_err());
        }
        // An inner name hides an outer one.
        let hidden = format!(
            "{} WHERE (WITH t19 AS (SELECT 1) SELECT 1 FROM t19) = 1",
            doubled(8)
        );
        checked(&ctx, &hidden).await.unwrap();
    }

    #[tokio::test]
    async fn views_are_counted() {
        let ctx = SessionContext::new();
        ctx.sql("CREATE VIEW v0 AS SELECT 1 AS a").await.unwrap();
        for level in 1..=8 {
            let below = level - 1;
            let sql = format!(
                "CREATE VIEW v{level} AS SELECT * FROM v{below} UNION ALL SELECT * FROM v{below}"
            );
            ctx.sql(&sql).await.unwrap();
        }
        checked(&ctx, "SELECT * FROM v8").await.unwrap();
        let many = vec!["v8"; 100].join(", ");
        assert!(
            checked(&ctx, &format!("SELECT 1 FROM {many}"))
                .await
                .is_err()
        );
    }

    #[tokio::test]
    async fn clauses() {
        let ctx = SessionContext::new();
        let many = |item: &str, times: usize| vec![item; times].join(", ");
        let columns: Vec<String> = (0..14).map(|n| format!("a + {n}")).collect();
        for (good, bad) in [
            (many("a", 8000), many("a", 8193)),
            (
                format!(
                    "count(*) FROM t GROUP BY CUBE ({})",
                    columns[..8].join(", ")
                ),
                format!("count(*) FROM t GROUP BY CUBE ({})", columns.join(", ")),
            ),
            (
                "count(*) FROM t GROUP BY CUBE (a, b), CUBE (a, b)".to_string(),
                format!("count(*) FROM t GROUP BY {}", many("CUBE (a, b)", 6)),
            ),
            (
                format!(
                    "count(*) FROM t GROUP BY GROUPING SETS ({})",
                    many("(a)", 1000)
                ),
                format!(
                    "count(*) FROM t GROUP BY GROUPING SETS ({})",
                    many("(a)", 5000)
                ),
            ),
            (
                format!("f({}) AS b FROM t GROUP BY a HAVING b > 1", many("a", 5000)),
                format!(
                    "f({}) AS b FROM t GROUP BY a HAVING f({})",
                    many("a", 5000),
                    many("b", 5000)
                ),
            ),
            (
                format!("f({}) AS b FROM t ORDER BY b", many("a", 5000)),
                format!(
                    "f({}) AS b FROM t ORDER BY f({})",
                    many("a", 5000),
                    many("b", 5000)
                ),
            ),
            (
                format!(
                    "sum(a) OVER w FROM t WINDOW w AS (PARTITION BY {})",
                    many("a", 1000)
                ),
                format!(
                    "{} FROM t WINDOW w AS (PARTITION BY {})",
                    many("sum(a) OVER w", 3000),
                    many("a", 1000)
                ),
            ),
        ] {
            checked(&ctx, &format!("SELECT {good}")).await.unwrap();
            let error = checked(&ctx, &format!("SELECT {bad}")).await.unwrap_err();
            assert!(error.to_string().contains("allowed"), "{error}");
        }
        let values = (0..50_000)
            .map(|n| format!("({n}, 'x')"))
            .collect::<Vec<_>>()
            .join(", ");
        checked(&ctx, &format!("SELECT * FROM (VALUES {values}) AS t(a, b)"))
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn tables_are_counted() {
        let ctx = SessionContext::new();
        let from = |tables: usize| format!("SELECT 1 FROM {}", vec!["t"; tables].join(", "));
        checked(&ctx, &from(MAX_TABLES)).await.unwrap();
        assert!(checked(&ctx, &from(MAX_TABLES + 1)).await.is_err());
        let explain = format!("EXPLAIN {}", from(MAX_TABLES + 1));
        assert!(checked(&ctx, &explain).await.is_err());
    }
}
