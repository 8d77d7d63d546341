//! [`sample_arrays`]: the rows of a query as new arrays over the samples of a store, each value in the place of its sample.

use std::collections::{HashMap, HashSet};

use arrow::array::{Array, AsArray, RecordBatch, UInt64Array};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Schema};
use datafusion::common::{Result, exec_err, plan_err};

use super::columns::{ColumnPlan, Layout, Role, plain_array, plan_columns};
use super::names::WrittenNames;
use super::other_arrays::WholeArray;
use super::plan_tables::PlanTables;
use super::values::elements;
use crate::error::VczError;

/// The column that says which sample a row is of.
pub const SAMPLE_ID: &str = "sample_id";

/// The columns of the query that become arrays: all but `sample_id`, under names that begin with `sample_`.
///
/// # Errors
/// If there is none, or one has more than one value a row.
pub fn sample_columns(schema: &Schema, n_samples: u64, layout: Layout) -> Result<Vec<ColumnPlan>> {
    let mut plans = plan_columns(schema, layout, &PlanTables::default())?;
    plans.retain(|plan| schema.field(plan.at).name() != SAMPLE_ID);
    if plans.is_empty() {
        return plan_err!("the query has no column beside '{SAMPLE_ID}' that could be a new array");
    }
    let mut names = HashSet::new();
    for plan in &mut plans {
        let column = schema.field(plan.at).name();
        if plan.role != Role::Scalar {
            return plan_err!(
                "column '{column}' must have one value for each sample, found {}",
                schema.field(plan.at).data_type()
            );
        }
        let name = match column.starts_with("sample_") {
            true => column.to_string(),
            false => format!("sample_{column}"),
        };
        if name == SAMPLE_ID || !names.insert(name.clone()) {
            return plan_err!(
                "column '{column}' would be the array '{name}', which is there already; give it another name with AS"
            );
        }
        let array = plain_array(&name, "samples", plan.array.element, n_samples, layout);
        plan.array = array
            .checked()
            .map_err(|reason| VczError::Invalid(format!("column '{column}': {reason}")))?;
    }
    Ok(plans)
}

/// The arrays of `plans` from all rows of the query, in the order of `samples`.
///
/// # Errors
/// If a sample has no row or several, or a row is of no sample of the store.
pub fn sample_arrays(
    plans: &[ColumnPlan],
    rows: &RecordBatch,
    samples: &[String],
    location: &str,
) -> Result<Vec<WholeArray>> {
    let ids = rows.schema().index_of(SAMPLE_ID)?;
    let ids = cast(rows.column(ids), &DataType::Utf8View)?;
    let ids = ids.as_string_view();
    let mut row_of: HashMap<&str, u64> = HashMap::with_capacity(samples.len());
    for (row, id) in ids.iter().enumerate() {
        let Some(id) = id else {
            return exec_err!("row {row} of the query has no {SAMPLE_ID}");
        };
        if row_of.insert(id, row as u64).is_some() {
            return exec_err!(
                "the query has several rows of sample '{id}'; each sample has one value"
            );
        }
    }
    let mut places = Vec::with_capacity(samples.len());
    for id in samples {
        match row_of.remove(id.as_str()) {
            Some(row) => places.push(row),
            None => {
                return exec_err!(
                    "the query has no row of sample '{id}' of store '{location}'; a new array has a value for each sample, which may be NULL"
                );
            }
        }
    }
    if let Some(id) = row_of.keys().min() {
        return exec_err!("store '{location}' has no sample '{id}', of which the query has a row");
    }
    let places = UInt64Array::from(places);
    let arrays = plans.iter().map(|plan| {
        let column = take(rows.column(plan.at), &places, None)?;
        Ok(WholeArray {
            elements: elements(plan, &column, &WrittenNames::default())?,
            array: plan.array.clone(),
            rows: column.len(),
        })
    });
    arrays.collect()
}
