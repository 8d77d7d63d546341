//! Rejects INSERT where a column's metadata in the table differ from those of the rows: genotypes of other samples, counts of another
//! number of copies. The table keeps its own metadata, so genotypes would be counted with the wrong samples, and spectra would leave
//! the counts out.

use arrow::datatypes::Field;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, plan_err};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{LogicalPlan, WriteOp};

use super::unions::{differs, is_null};
use crate::scan::copies::COPIES_KEY;
use crate::scan::{SAMPLES_KEY, is_genotype_type};

/// Returns an error if inserted columns disagree with their table.
pub fn check_inserts(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        match node {
            LogicalPlan::Dml(dml) if matches!(dml.op, WriteOp::Insert(_)) => {
                let table = source_as_provider(&dml.target)?.schema();
                let rows = dml.input.schema().fields();
                for (at, (table, rows)) in table.fields().iter().zip(rows).enumerate() {
                    if !is_null(&dml.input, at) {
                        check_insert(&dml.table_name.to_string(), table, rows)?;
                    }
                }
            }
            // The rows of every step get the metadata of the first.
            LogicalPlan::RecursiveQuery(query) => {
                let terms = [&query.static_term, &query.recursive_term];
                let columns = 0..query.static_term.schema().fields().len();
                if let Some(at) = columns.into_iter().find(|&at| differs(&terms, at)) {
                    return plan_err!(
                        "recursive query '{}': column '{}' is of other samples, or of another number of copies, in its second \
                         term than in its first",
                        query.name,
                        query.static_term.schema().field(at).name()
                    );
                }
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map(drop)
}

fn check_insert(name: &str, table: &Field, rows: &Field) -> Result<()> {
    let value = |field: &Field, key: &str| field.metadata().get(key).cloned();
    let (expected, found) = (value(table, COPIES_KEY), value(rows, COPIES_KEY));
    if expected.is_some() && expected != found {
        let found = found.unwrap_or("an unknown number of".to_string());
        return plan_err!(
            "INSERT of allele counts with {found} copies into column '{}' of table '{name}', whose counts have {} copies: \
             counts of different numbers of copies cannot be in one spectrum; keep them in another table, or project_sfs before they are stored",
            table.name(),
            expected.unwrap_or_default()
        );
    }
    let samples = (value(table, SAMPLES_KEY), value(rows, SAMPLES_KEY));
    let is_labelled = is_genotype_type(table.data_type()) || samples.0.is_some();
    if is_labelled && samples.0 != samples.1 {
        return plan_err!(
            "INSERT of calls of other samples into column '{}' of table '{name}': the table's metadata would assign its rows \
             to the table's samples; keep them in another table, or store counts",
            table.name()
        );
    }
    Ok(())
}
