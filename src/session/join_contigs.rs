//! Notices about joins on contigs (`a.variant_contig = b.variant_contig`, `variant_contig = genes.contig`) of tables that have no contig in
//! common, nearly always because of another spelling. Of VCZ tables the contigs are known while planning; an annotation file reports it
//! when it has been read. Part of [`planner`](super::planner), after the optimizer.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::{Distinct, Expr, Join, LogicalPlan, TableScan, TableSource};

use super::annotations::{AnnotationTable, JoinedContigs};
use crate::scan::notices::NoticeSink;
use crate::scan::{VczTable, contigs_in_common};

/// A side of a join.
enum Side<'a> {
    /// A VCZ table: its name, and the contigs that have variants.
    Store(String, Vec<String>),
    /// An annotation table.
    Annotations(&'a TableScan, Arc<AnnotationTable>),
}

/// Adds a notice for each join in `plan` of VCZ tables that have no contig in common. Returns the plan with
/// annotation tables that know the contigs they are joined with; `None` if there are none.
///
/// # Errors
/// If visiting the plan fails.
pub fn note_joins(plan: &LogicalPlan, notices: &NoticeSink) -> Result<Option<LogicalPlan>> {
    let mut informed: Vec<(Arc<dyn TableSource>, Arc<dyn TableSource>)> = vec![];
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Join(join) = node {
            for sides in join.on.iter().filter_map(|keys| sides(join, keys)) {
                match sides {
                    (Side::Store(one, contigs), Side::Store(other, others)) => {
                        let found = contigs_in_common((&one, &contigs), (&other, &others));
                        found.into_iter().for_each(|notice| notices.add(notice));
                    }
                    (Side::Store(store, contigs), Side::Annotations(scan, table))
                    | (Side::Annotations(scan, table), Side::Store(store, contigs)) => {
                        let joined = JoinedContigs {
                            annotations: scan.table_name.table().to_string(),
                            store,
                            contigs,
                        };
                        let table = table.joined_with(joined);
                        informed.push((
                            Arc::clone(&scan.source),
                            provider_as_source(Arc::new(table)),
                        ));
                    }
                    (Side::Annotations(..), Side::Annotations(..)) => {}
                }
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if informed.is_empty() {
        return Ok(None);
    }
    let rewritten = plan.clone().transform_up_with_subqueries(|node| {
        let LogicalPlan::TableScan(mut scan) = node else {
            return Ok(Transformed::no(node));
        };
        let mut known = informed.iter();
        match known.find(|(source, _)| Arc::ptr_eq(source, &scan.source)) {
            Some((_, informed)) => {
                scan.source = Arc::clone(informed);
                Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
            }
            None => Ok(Transformed::no(LogicalPlan::TableScan(scan))),
        }
    })?;
    Ok(Some(rewritten.data))
}

/// The sides of a join if `keys`, a pair of expressions that it compares, are contigs of tables.
fn sides<'a>(join: &'a Join, (left, right): &(Expr, Expr)) -> Option<(Side<'a>, Side<'a>)> {
    let side = |plan: &'a LogicalPlan, key: &Expr| {
        let (scan, column) = origin(plan, column_of(key)?)?;
        side(scan, &column)
    };
    Some((side(&join.left, left)?, side(&join.right, right)?))
}

/// The table of a scan, if `column` has its contigs.
fn side<'a>(scan: &'a TableScan, column: &str) -> Option<Side<'a>> {
    let provider = source_as_provider(&scan.source).ok()?;
    if let Some(table) = provider.downcast_ref::<VczTable>() {
        let name = scan.table_name.table().to_string();
        return (column == "variant_contig")
            .then(|| Side::Store(name, table.contigs_with_variants()));
    }
    let table = provider.downcast_ref::<AnnotationTable>()?.clone();
    (column == "contig").then(|| Side::Annotations(scan, Arc::new(table)))
}

/// The column that `expr` is, possibly renamed or of another type.
fn column_of(expr: &Expr) -> Option<&Column> {
    match expr {
        Expr::Column(column) => Some(column),
        Expr::Alias(alias) => column_of(&alias.expr),
        Expr::Cast(cast) => column_of(&cast.expr),
        _ => None,
    }
}

/// The scan that `column` of `plan` comes from unchanged, and its name there.
fn origin<'a>(plan: &'a LogicalPlan, column: &Column) -> Option<(&'a TableScan, String)> {
    let at = plan.schema().index_of_column(column).ok()?;
    match plan {
        LogicalPlan::TableScan(scan) => Some((scan, column.name.clone())),
        LogicalPlan::Projection(projection) => {
            origin(&projection.input, column_of(projection.expr.get(at)?)?)
        }
        LogicalPlan::Aggregate(aggregate) => {
            origin(&aggregate.input, column_of(aggregate.group_expr.get(at)?)?)
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let (qualifier, field) = alias.input.schema().qualified_field(at);
            origin(&alias.input, &Column::new(qualifier.cloned(), field.name()))
        }
        LogicalPlan::Join(join) => match join.left.schema().has_column(column) {
            true => origin(&join.left, column),
            false => origin(&join.right, column),
        },
        LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Repartition(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Unnest(_)
        | LogicalPlan::Distinct(Distinct::All(_)) => {
            let input = plan.inputs().into_iter().next()?;
            origin(input, column)
        }
        _ => None,
    }
}
