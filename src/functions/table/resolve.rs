//! Resolves the first argument of a table function to a VCZ table.
//!
//! A name means the same as in `FROM`: it is looked up in the session's catalogs, so a path or URL works only in sessions that
//! allow those in `FROM` (not on a server, which has registered tables only).

use std::any::Any;
use std::sync::Arc;

use datafusion::catalog::{CatalogProviderList, Session, TableProvider};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue, TableReference, plan_err};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{Expr, LogicalPlan};

use crate::scan::VczTable;

/// A call of a table function as text, such as `vcz_samples('ag')`.
pub fn call_text(function: &str, exprs: &[Expr]) -> String {
    let arguments: Vec<String> = exprs
        .iter()
        .map(|expr| match expr {
            Expr::Literal(value, _) => match value.try_as_str().flatten() {
                Some(text) => format!("'{text}'"),
                None => value.to_string(),
            },
            other => other.to_string(),
        })
        .collect();
    format!("{function}({})", arguments.join(", "))
}

/// The text of argument `position` (0 is the first) of the table function `function`: a string, or a quoted or plain
/// identifier.
///
/// # Errors
/// A planning error that names the function if there is no such argument, or it is NULL or no string.
pub fn text_argument(
    function: &str,
    exprs: &[Expr],
    position: usize,
    what: &str,
) -> Result<String> {
    let ordinal = position + 1;
    let found = match exprs.get(position) {
        Some(Expr::Literal(value, _)) => match value.try_as_str() {
            Some(Some(text)) => return Ok(text.to_string()),
            _ if value.is_null() => "NULL".to_string(),
            _ => describe(value),
        },
        Some(Expr::Column(column)) => {
            return Ok(match &column.relation {
                Some(relation) => format!("{relation}.{}", column.name),
                None => column.name.clone(),
            });
        }
        Some(other) => format!("the expression {other}"),
        None => "nothing".to_string(),
    };
    plan_err!("{function}: argument {ordinal} must be {what} as a string, found {found}")
}

fn describe(value: &ScalarValue) -> String {
    format!("{value} ({})", value.data_type())
}

/// The argument of a function that takes a table and nothing else.
///
/// # Errors
/// A planning error that names the function if there is not exactly one argument, or it is no string.
pub fn only_table_argument(function: &str, exprs: &[Expr]) -> Result<String> {
    if exprs.len() > 1 {
        return plan_err!(
            "{function} takes one argument, a table's name or a path, found {}",
            exprs.len()
        );
    }
    text_argument(function, exprs, 0, "a table's name or a path")
}

/// The VCZ table called `name`: a registered table (`ag`, `1kg.chr1`, `"1kg.chr1"`, `schema.table`), or the path or URL of a
/// store where the session opens those. A view gives the VCZ tables that it reads, with all of their rows and samples.
///
/// The literal name is looked up first, so that a table `1kg.chr1` is found without quotes; then the name parsed as a SQL
/// identifier; then the path.
///
/// # Errors
/// A planning error if nothing is found or it is not a VCZ table; the error of opening a path.
pub async fn vcz_table(state: &dyn Session, name: &str) -> Result<Arc<VczTable>> {
    as_vcz(table(state, name).await?, name).await
}

/// The same for functions of variants, for which a view must have every row of the tables that it reads.
///
/// # Errors
/// Those of [`vcz_table`], and a planning error for a view that selects or joins rows.
pub async fn whole_vcz_table(state: &dyn Session, name: &str) -> Result<Arc<VczTable>> {
    let table = table(state, name).await?;
    if let Some(plan) = table.get_logical_plan()
        && let Some(node) = selects_rows(&plan)?
    {
        return plan_err!(
            "'{name}' is a view with other rows than the tables that it reads ({node}), and a table function would compare all of these: \
             call it with the table, and select from its result, for example WHERE (contig, position) are in the view; or write the rows to a \
             store of their own: COPY (SELECT * FROM {name}) TO '{name}.vcz' STORED AS VCZ"
        );
    }
    as_vcz(table, name).await
}

/// The part of a plan that makes its rows others than those of the tables that it reads, as EXPLAIN shows it.
fn selects_rows(plan: &LogicalPlan) -> Result<Option<String>> {
    let mut found = None;
    plan.apply(|node| {
        let keeps_rows = match node {
            LogicalPlan::TableScan(scan) => {
                let view = source_as_provider(&scan.source).ok();
                let view = view.and_then(|table| Some(table.get_logical_plan()?.into_owned()));
                if let Some(view) = view {
                    found = selects_rows(&view)?;
                }
                scan.filters.is_empty() && scan.fetch.is_none()
            }
            // An optimized plan has ORDER BY … LIMIT in one node.
            LogicalPlan::Sort(sort) => sort.fetch.is_none(),
            LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Union(_) => {
                true
            }
            _ => false,
        };
        if !keeps_rows {
            found = Some(node.display().to_string());
        }
        Ok(match found {
            Some(_) => TreeNodeRecursion::Stop,
            None => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

async fn table(state: &dyn Session, name: &str) -> Result<Arc<dyn TableProvider>> {
    let catalogs = state.catalog_list();
    let keep_case = !state.config_options().sql_parser.enable_ident_normalization;
    let bare = TableReference::bare(name);
    let parsed = TableReference::parse_str_normalized(name, keep_case);
    for reference in [&bare, &parsed] {
        if let Some(table) = registered(state, &*catalogs, reference).await? {
            return Ok(table);
        }
    }
    match find(state, &*catalogs, &bare, false).await? {
        Some(table) => Ok(table),
        None => plan_err!(
            "no table '{name}', and no store that this session can open there; \
             register it with CREATE EXTERNAL TABLE … STORED AS VCZ LOCATION …"
        ),
    }
}

/// The table registered under this name; paths are not tried.
async fn registered(
    state: &dyn Session,
    catalogs: &dyn CatalogProviderList,
    reference: &TableReference,
) -> Result<Option<Arc<dyn TableProvider>>> {
    find(state, catalogs, reference, true).await
}

/// Looks a table up in the catalogs. Schema providers that open paths accept any name, so with `must_exist` the name must be
/// registered.
async fn find(
    state: &dyn Session,
    catalogs: &dyn CatalogProviderList,
    reference: &TableReference,
    must_exist: bool,
) -> Result<Option<Arc<dyn TableProvider>>> {
    let defaults = &state.config_options().catalog;
    let full = reference
        .clone()
        .resolve(&defaults.default_catalog, &defaults.default_schema);
    let schema = catalogs
        .catalog(&full.catalog)
        .and_then(|catalog| catalog.schema(&full.schema));
    match schema {
        Some(schema) if !must_exist || schema.table_exist(&full.table) => {
            schema.table(&full.table).await
        }
        _ => Ok(None),
    }
}

async fn as_vcz(table: Arc<dyn TableProvider>, name: &str) -> Result<Arc<VczTable>> {
    let kind = table.table_type();
    let of_view = match table.get_logical_plan() {
        Some(plan) => tables_of(&plan)?,
        None => vec![],
    };
    let any: Arc<dyn Any + Send + Sync> = match of_view.as_slice() {
        [] => table,
        [only] => Arc::clone(only) as _,
        tables => {
            let any = tables
                .iter()
                .map(|table| table.as_ref() as &dyn TableProvider);
            let tables: Vec<&VczTable> = any.filter_map(|table| table.downcast_ref()).collect();
            return Ok(Arc::new(VczTable::of_tables(name, &tables).await?));
        }
    };
    match any.downcast::<VczTable>() {
        Ok(table) => Ok(table),
        Err(_) => plan_err!(
            "'{name}' is not a VCZ table: it is another kind of table ({kind:?}); \
             give a table that was created with STORED AS VCZ, a view of such tables, or the path of a store"
        ),
    }
}

/// The VCZ tables that a view reads, each once, in the order of its plan; those of views that it reads, too.
fn tables_of(plan: &LogicalPlan) -> Result<Vec<Arc<dyn TableProvider>>> {
    let mut tables: Vec<Arc<dyn TableProvider>> = vec![];
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(provider) = source_as_provider(&scan.source)
        {
            let found = match provider.get_logical_plan() {
                Some(view) => tables_of(&view)?,
                None if provider.is::<VczTable>() => vec![Arc::clone(&provider)],
                None => vec![],
            };
            for table in found {
                if !tables.iter().any(|known| Arc::ptr_eq(known, &table)) {
                    tables.push(table);
                }
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(tables)
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::logical_expr::{LogicalPlanBuilder, col, table_scan};

    use super::*;

    #[test]
    fn a_sort_with_a_limit_selects_rows() {
        let schema = Schema::new(vec![Field::new("position", DataType::Int64, false)]);
        let sorted = |most: Option<usize>| {
            let scan: LogicalPlanBuilder = table_scan(Some("t"), &schema, None).unwrap();
            let sorted = scan.sort_with_limit([col("position").sort(true, false)], most);
            selects_rows(&sorted.unwrap().build().unwrap()).unwrap()
        };
        assert_eq!(sorted(None), None);
        let found = sorted(Some(5)).unwrap();
        assert!(
            found.contains("Sort:") && found.contains("fetch=5"),
            "{found}"
        );
    }
}
