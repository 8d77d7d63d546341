//! Estimates from the plan the bytes that a row of a query's operators takes. DataFusion's operators build batches of a fixed number of
//! rows, however wide these are, so the number is chosen by the width. Rows that would not fit the memory of a query are an error.
//!
//! Lists of windows count by the largest number of windows that one position can be in. Their memory is reserved when they are made, so
//! they are no error here, and a batch may have more of them.

use std::collections::HashMap;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result, ScalarValue, plan_err};
use datafusion::logical_expr::{Expr, GroupingSet, LogicalPlan};

use crate::functions::scalar::GenomeBins;

/// The assumed bytes of a value of variable length: a short string or list.
const VALUE: usize = 16;
/// Values of fixed width may be computed from long strings. Only strings of at least this many bytes count.
const LONG: usize = 64 << 10;
/// A batch may have lists of windows of this many times the bytes of other columns.
const LISTS_OF_BATCH: usize = 8;
/// Functions whose result may be as long as the product of the lengths of their arguments. The result of any other function that clients
/// can call is at most as long as their sum.
const MULTIPLYING: [&str; 12] = [
    "array_join",
    "array_replace",
    "array_replace_all",
    "array_replace_n",
    "array_to_string",
    "list_join",
    "list_replace",
    "list_replace_all",
    "list_replace_n",
    "list_to_string",
    "regexp_replace",
    "replace",
];

/// The width in bytes of the widest rows that an operator of `plan` may buffer. Scans are left out, because they limit the bytes of their
/// batches themselves, and most genotype columns in their schema are only counted.
///
/// # Errors
/// A planning error if a row may take more than `most` bytes.
pub fn widest(plan: &LogicalPlan, most: usize) -> Result<usize> {
    let mut widths = Widths::default();
    plan.apply_with_subqueries(|node| {
        widths.of(node);
        Ok(TreeNodeRecursion::Continue)
    })?;
    if widths.longest > most {
        return plan_err!(
            "one row of the query may take {} bytes, more than the {most} that one query has on this server: strings or lists are \
             joined too often",
            widths.longest
        );
    }
    Ok(widths.widest.max(widths.lists / LISTS_OF_BATCH))
}

/// The widths of a plan's nodes, by their address.
#[derive(Default)]
struct Widths {
    columns: HashMap<*const LogicalPlan, Vec<usize>>,
    /// The widest row, in bytes.
    widest: usize,
    /// The longest strings and lists of a row.
    longest: usize,
    /// The most bytes of lists of windows that one operator makes for a row.
    lists: usize,
}

impl Widths {
    /// The width of each column of `plan` that has no fixed width; 0 for the others.
    fn of(&mut self, plan: &LogicalPlan) -> Vec<usize> {
        let address = std::ptr::from_ref(plan);
        if let Some(columns) = self.columns.get(&address) {
            return columns.clone();
        }
        let mut known = HashMap::new();
        let mut inputs = Vec::new();
        for child in plan.inputs() {
            let columns = self.of(child);
            known.extend(
                child
                    .schema()
                    .columns()
                    .into_iter()
                    .zip(columns.iter().copied()),
            );
            inputs.push(columns);
        }
        let fields = plan.schema().fields();
        let made = |expr: &Expr| made_of(expr, &known);
        let (columns, made): (Vec<usize>, Vec<usize>) = match plan {
            LogicalPlan::Projection(projection) => {
                let made: Vec<usize> = projection.expr.iter().map(made).collect();
                (made.clone(), made)
            }
            LogicalPlan::Aggregate(aggregate) => {
                let sets = sets_of(&aggregate.group_expr);
                let all = aggregate.group_expr.iter().chain(&aggregate.aggr_expr);
                let made: Vec<usize> = all.map(|expr| made(expr).saturating_mul(sets)).collect();
                let longest = made.iter().copied().max().unwrap_or(0);
                let columns = if made.len() == fields.len() {
                    made.clone()
                } else {
                    vec![longest; fields.len()]
                };
                let keys = VALUE
                    .saturating_mul(sets)
                    .saturating_mul(aggregate.group_expr.len());
                self.widest = self.widest.max(if sets > 1 { keys } else { 0 });
                (columns, made)
            }
            LogicalPlan::Window(window) => {
                let made: Vec<usize> = window.window_expr.iter().map(made).collect();
                let all = inputs.concat().into_iter().chain(made.iter().copied());
                (all.collect(), made)
            }
            LogicalPlan::Union(_) => {
                let most = |at: usize| inputs.iter().filter_map(|input| input.get(at)).max();
                let columns = (0..fields.len()).map(|at| most(at).copied().unwrap_or(VALUE));
                (columns.collect(), vec![])
            }
            LogicalPlan::Values(values) => {
                let rows = values.values.iter().flatten().map(made);
                (vec![rows.max().unwrap_or(0); fields.len()], vec![])
            }
            _ => (inputs.concat(), vec![]),
        };
        let longest = columns.iter().copied().max().unwrap_or(VALUE).max(VALUE);
        let columns: Vec<usize> = if columns.len() == fields.len() {
            columns
        } else {
            // Semi joins, UNNEST and others.
            vec![longest; fields.len()]
        };
        let columns: Vec<usize> = fields
            .iter()
            .zip(columns)
            .map(|(field, width)| if is_fixed(field) { 0 } else { width.max(VALUE) })
            .collect();
        self.lists = self.lists.max(windows_in(plan));
        let is_scan = matches!(plan, LogicalPlan::TableScan(_));
        if !is_scan {
            let fixed = fields.iter().map(|field| width_of(field.data_type()));
            let fixed = fixed.fold(0, usize::saturating_add);
            let inside = made.iter().filter(|made| **made > LONG);
            let inside = inside.fold(0_usize, |sum, made| sum.saturating_add(*made));
            let kept = columns
                .iter()
                .fold(0_usize, |sum, width| sum.saturating_add(*width));
            let strings = inside.max(kept);
            self.longest = self.longest.max(strings);
            self.widest = self.widest.max(fixed.saturating_add(strings));
        }
        self.columns.insert(address, columns.clone());
        columns
    }
}

/// The maximum number of bytes of a string or list that `expr` computes from the columns `known`.
fn made_of(expr: &Expr, known: &HashMap<Column, usize>) -> usize {
    match expr {
        // A number may become a string.
        Expr::Column(column) => known.get(column).copied().unwrap_or(0).max(VALUE),
        Expr::Literal(value, _) => literal(value),
        Expr::OuterReferenceColumn(..) | Expr::ScalarSubquery(_) => VALUE,
        _ => {
            let function = match expr {
                Expr::ScalarFunction(call) => call.func.name(),
                _ => "",
            };
            let (mut sum, mut product) = (0_usize, 1_usize);
            let (mut first, mut count) = (0_usize, 0_usize);
            // The closure returns no error.
            let _ = expr.apply_children(|child| {
                let width = made_of(child, known);
                sum = sum.saturating_add(width);
                product = product.saturating_mul(width.max(1));
                if count == 0 {
                    first = width;
                }
                count += 1;
                Ok(TreeNodeRecursion::Continue)
            });
            match function {
                // The first argument is inserted between all others.
                "concat_ws" => sum.saturating_add(count.saturating_mul(first)),
                _ if MULTIPLYING.contains(&function) => sum.max(product),
                _ => sum,
            }
        }
    }
}

/// Bytes of the lists of windows that the expressions of a node make for one row, as far as their sizes are constants.
fn windows_in(plan: &LogicalPlan) -> usize {
    let mut bytes = 0_usize;
    // The closures return no errors.
    let _ = plan.apply_expressions(|expr| {
        expr.apply(|expr| {
            if let Expr::ScalarFunction(call) = expr
                && call.func.inner().is::<GenomeBins>()
            {
                let constant = |at: usize| call.args.get(at).and_then(integer);
                let step = constant(2).or(constant(1)).unwrap_or(1).max(1);
                let windows = constant(1).map_or(1, |size| size.div_ceil(step));
                let windows = usize::try_from(windows).unwrap_or(usize::MAX);
                bytes = bytes.saturating_add(windows.saturating_mul(size_of::<i64>()));
            }
            Ok(TreeNodeRecursion::Continue)
        })
    });
    bytes
}

/// The integer that is a constant, if it is one and not negative.
fn integer(expr: &Expr) -> Option<u64> {
    match expr {
        Expr::Literal(value, _) => match value.cast_to(&DataType::Int64).ok()? {
            ScalarValue::Int64(Some(value)) => u64::try_from(value).ok(),
            _ => None,
        },
        Expr::Cast(cast) => integer(&cast.expr),
        _ => None,
    }
}

fn literal(value: &ScalarValue) -> usize {
    match value.try_as_str() {
        Some(text) => text.map_or(0, str::len),
        None if value.data_type().is_nested() => value.size(),
        None => 0,
    }
}

/// The number of grouping sets.
fn sets_of(group: &[Expr]) -> usize {
    match group {
        [Expr::GroupingSet(GroupingSet::GroupingSets(sets))] => sets.len().max(1),
        [Expr::GroupingSet(GroupingSet::Rollup(columns))] => columns.len() + 1,
        [Expr::GroupingSet(GroupingSet::Cube(columns))] => {
            let sets = u32::try_from(columns.len())
                .ok()
                .and_then(|columns| 1_usize.checked_shl(columns));
            sets.unwrap_or(usize::MAX)
        }
        _ => 1,
    }
}

/// Whether all values of a field have the same width.
fn is_fixed(field: &FieldRef) -> bool {
    match field.data_type() {
        DataType::FixedSizeList(item, _) => is_fixed(item),
        DataType::Struct(fields) => fields.iter().all(is_fixed),
        DataType::Boolean | DataType::Null => true,
        other => other.primitive_width().is_some(),
    }
}

/// Bytes of a value of a fixed-width type; 0 for other types.
fn width_of(data_type: &DataType) -> usize {
    match data_type {
        DataType::FixedSizeList(item, size) => {
            width_of(item.data_type()).saturating_mul(usize::try_from(*size).unwrap_or(0))
        }
        DataType::Struct(fields) => fields.iter().map(|field| width_of(field.data_type())).sum(),
        DataType::Boolean => 1,
        other => other.primitive_width().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::Field;
    use datafusion::logical_expr::ScalarUDF;
    use datafusion::prelude::SessionContext;

    use super::*;

    #[test]
    fn of_types() {
        let list = |item: DataType, size| {
            DataType::FixedSizeList(Arc::new(Field::new_list_field(item, false)), size)
        };
        assert_eq!(width_of(&list(list(DataType::Int8, 2), 500_000)), 1_000_000);
        assert_eq!(width_of(&DataType::Int64), 8);
        assert_eq!(width_of(&DataType::new_list(DataType::Int8, true)), 0);
        assert_eq!(
            width_of(&list(DataType::Int64, i32::MAX)),
            8 * i32::MAX as usize
        );
    }

    #[tokio::test]
    async fn of_plans() {
        let ctx = SessionContext::new();
        ctx.sql("CREATE TABLE t AS SELECT 1 AS n, 'x' AS s")
            .await
            .unwrap();
        let width = |sql: String| {
            let state = ctx.state();
            async move {
                let plan = state.create_logical_plan(&sql).await.unwrap();
                widest(&plan, 1 << 30)
            }
        };
        let doubled = |levels: usize, join: &str| {
            let open = format!("(SELECT {join} AS s FROM ").repeat(levels);
            format!("SELECT length(s) FROM {open} t {}", ")".repeat(levels))
        };
        let literal = "y".repeat(5000);
        for (sql, least, most) in [
            ("SELECT n + 1, n * n FROM t".to_string(), 16, 64),
            ("SELECT s FROM t".to_string(), 16, 64),
            (format!("SELECT concat(s, '{literal}') FROM t"), 5000, 6000),
            (doubled(10, "concat(s, s)"), 16 << 10, 64 << 10),
            (doubled(10, "s || s"), 16 << 10, 64 << 10),
            (
                format!("SELECT length(replace('{literal}', 'y', '{literal}')) FROM t"),
                5000 * 5000,
                6000 * 6000,
            ),
            (
                "SELECT count(*) FROM t GROUP BY CUBE (n, s, n + 1, n + 2, n + 3)".to_string(),
                32 * 16,
                1 << 16,
            ),
        ] {
            let found = width(sql.clone()).await.unwrap();
            assert!((least..=most).contains(&found), "{sql}: {found}");
        }
        ctx.register_udf(ScalarUDF::new_from_impl(GenomeBins::new()));
        for (call, windows) in [
            ("genome_bins(n, 8000, 1)", 8000),
            ("genome_bins(n, 8000, 1), genome_bins(n, 4000)", 8001),
            ("cardinality(genome_bins(n, 1000, 300))", 4),
            ("genome_bins(n, n, 1)", 1),
        ] {
            let found = width(format!("SELECT {call} FROM t")).await.unwrap();
            let expected = 8 * windows / LISTS_OF_BATCH;
            assert!(
                (expected..expected.max(64) + 1).contains(&found),
                "{call}: {found}"
            );
        }
        let error = width(doubled(10, "concat(s, s, s, s, s, s, s, s)"))
            .await
            .unwrap_err();
        assert!(
            error.to_string().contains("one row of the query may take"),
            "{error}"
        );
    }
}
