//! Predicates over per-variant columns, evaluated inside the scan before arrays over samples are read or counted.

use std::sync::Arc;

use arrow::array::Array as _;
use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::prep_null_mask_filter;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::cast::as_boolean_array;
use datafusion::common::{Result, exec_err};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};

/// A conjunction over some columns of the table.
pub struct SiteFilter {
    predicates: Vec<Arc<dyn PhysicalExpr>>,
    /// Table columns that the predicates read, ascending.
    columns: Vec<usize>,
    schema: SchemaRef,
}

impl SiteFilter {
    /// A filter of `predicates`, which are over the table's `schema`. `None` if there are none.
    pub fn try_new(predicates: &[Arc<dyn PhysicalExpr>], schema: &Schema) -> Result<Option<Self>> {
        if predicates.is_empty() {
            return Ok(None);
        }
        let mut columns: Vec<usize> = predicates
            .iter()
            .flat_map(collect_columns)
            .map(|column| column.index())
            .collect();
        columns.sort_unstable();
        columns.dedup();
        let narrow = Arc::new(schema.project(&columns)?);
        let predicates = predicates
            .iter()
            .map(|predicate| reassign_expr_columns(Arc::clone(predicate), &narrow))
            .collect::<Result<_>>()?;
        Ok(Some(Self {
            predicates,
            columns,
            schema: narrow,
        }))
    }

    /// Table columns that [`Self::select`] needs, in this order.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The mask of the `rows` rows that pass; NULL does not pass.
    pub fn select(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<BooleanArray> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        let mut selected: Option<BooleanArray> = None;
        for predicate in &self.predicates {
            let values = predicate.evaluate(&batch)?.into_array(rows)?;
            let mask = as_boolean_array(&values)?;
            let mask = if mask.nulls().is_some() {
                prep_null_mask_filter(mask)
            } else {
                mask.clone()
            };
            let both = match selected {
                Some(before) => arrow::compute::and(&before, &mask)?,
                None => mask,
            };
            if both.true_count() == 0 {
                return Ok(both);
            }
            selected = Some(both);
        }
        match selected {
            Some(selected) => Ok(selected),
            None => exec_err!("a filter without predicates cannot select rows"),
        }
    }
}
