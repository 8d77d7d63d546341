//! Populations from a query (`'vcz.populations' 'SELECT sample_id, region FROM meta'`), which is run once when the table is opened and
//! read like a file.

use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use bytes::Bytes;
use datafusion::catalog::Session;
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::execute_stream;
use futures::StreamExt;

/// The maximum size of populations and mask files, in bytes.
pub(super) const MAX_SIDE_FILE: u64 = 1 << 30;

/// Whether the value of the option is a query, not the location of a file.
pub fn is_query(value: &str) -> bool {
    let mut words = value.split_whitespace();
    let first = words.next().unwrap_or_default();
    let is_one_of = |keywords: &[&str]| keywords.iter().any(|k| k.eq_ignore_ascii_case(first));
    words.next().is_some() && is_one_of(&["SELECT", "WITH", "TABLE", "VALUES"])
}

/// The rows of `query` as CSV. Where options do not name the columns (`columns_are_named`), those of sample ids and populations get
/// the names `sample_id` and `population`: see [`name_columns`].
///
/// # Errors
/// If it is not a query, has fewer than two columns, or fails.
pub async fn csv(state: &dyn Session, query: &str, columns_are_named: bool) -> Result<Bytes> {
    let Some(session) = state.as_any().downcast_ref::<SessionState>() else {
        return plan_err!("populations cannot be queried in this kind of session");
    };
    let logical = session.create_logical_plan(query).await?;
    if matches!(
        logical,
        LogicalPlan::Ddl(_)
            | LogicalPlan::Dml(_)
            | LogicalPlan::Copy(_)
            | LogicalPlan::Statement(_)
    ) {
        return plan_err!("'vcz.populations': expected a query, found '{query}'");
    }
    let plan = session.create_physical_plan(&logical).await?;
    let schema = plan.schema();
    let mut names: Vec<&str> = schema
        .fields()
        .iter()
        .map(|field| field.name().as_str())
        .collect();
    if names.len() < 2 {
        return plan_err!(
            "'vcz.populations': expected a query of sample ids and populations, found the columns {names:?}"
        );
    }
    if !columns_are_named {
        name_columns(&mut names);
    }
    let failed = |error: csv::Error| DataFusionError::External(Box::new(error));
    let mut writer = csv::Writer::from_writer(vec![]);
    writer.write_record(&names).map_err(failed)?;
    let mut batches = execute_stream(plan, session.task_ctx())?;
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        let texts = batch
            .columns()
            .iter()
            .map(|column| cast(column, &DataType::Utf8))
            .collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            let fields = texts.iter().map(|column| match column.is_null(row) {
                true => "",
                false => column.as_string::<i32>().value(row),
            });
            writer.write_record(fields).map_err(failed)?;
        }
        if writer.get_ref().len() as u64 > MAX_SIDE_FILE {
            return plan_err!(
                "'vcz.populations': the query gives more than the {MAX_SIDE_FILE} bytes allowed"
            );
        }
    }
    match writer.into_inner() {
        Ok(text) => Ok(Bytes::from(text)),
        Err(error) => Err(DataFusionError::IoError(error.into_error())),
    }
}

/// Names the columns of sample ids and populations: those of the names `sample_id` and `population`, in any case. A column without its
/// name is the first of the others.
fn name_columns(names: &mut [&str]) {
    const NAMES: [&str; 2] = ["sample_id", "population"];
    let place = |wanted: &str| {
        names
            .iter()
            .position(|name| name.eq_ignore_ascii_case(wanted))
    };
    let found = NAMES.map(place);
    let mut others = (0..names.len()).filter(|at| !found.contains(&Some(*at)));
    let places = found.map(|at| at.or_else(|| others.next()));
    for (at, wanted) in places.into_iter().zip(NAMES) {
        if let Some(name) = at.and_then(|at| names.get_mut(at)) {
            *name = wanted;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_named_by_their_names_and_then_in_order() {
        for (given, expected) in [
            (["a", "b", "c"], ["sample_id", "population", "c"]),
            (
                ["region", "sample_id", "c"],
                ["population", "sample_id", "c"],
            ),
            (["a", "b", "population"], ["sample_id", "b", "population"]),
            (
                ["c", "POPULATION", "Sample_ID"],
                ["c", "population", "sample_id"],
            ),
        ] {
            let mut names = given;
            name_columns(&mut names);
            assert_eq!(names, expected);
        }
    }

    #[test]
    fn queries_are_told_from_files() {
        for query in [
            "SELECT a, b FROM t",
            "  with x as (select 1) table x",
            "TABLE meta",
        ] {
            assert!(is_query(query), "{query}");
        }
        for file in ["pops.tsv", "select", "/data/select me.tsv", "s3://b/with"] {
            assert!(!is_query(file), "{file}");
        }
    }
}
