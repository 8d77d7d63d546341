//! Prepared statements: their parameters (`$1` or `?`), the parameters' types if they are known, and the values that a client binds.
//!
//! A statement is planned when it is prepared, and values replace the placeholders of its plan when it runs. If planning needs the values
//! (the arguments of a table function), they become literals in the syntax tree instead, and the statement is planned again. Values are
//! never inserted into the text.

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow_flight::decode::FlightRecordBatchStream;
use datafusion::common::{ParamValues, Result, ScalarValue, plan_err};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::LogicalPlan;
use futures::TryStreamExt;
use parking_lot::Mutex;
use tonic::Status;

use super::{complexity, logical, stop};
use crate::session::{numbered, substitute};

/// The maximum number of rows of values, because the statement is planned for each.
const MAX_ROWS: usize = 1000;
/// The maximum number of bytes of the values, which are kept with the statement.
const MAX_BOUND_BYTES: usize = 1 << 20;

/// A prepared statement.
#[derive(Debug)]
pub struct Prepared {
    sql: String,
    /// The plan with its placeholders; `None` where planning needs the values.
    plan: Option<LogicalPlan>,
    /// The type of each parameter, where the statement determines it.
    types: Vec<Option<DataType>>,
    /// Rows of values.
    bound: Mutex<Option<Vec<Vec<ScalarValue>>>>,
}

impl Prepared {
    /// Prepares `sql`, which becomes no larger than `most` when it is planned.
    ///
    /// # Errors
    /// If it cannot be parsed, or cannot be planned although it has no parameters.
    pub async fn new(state: &SessionState, sql: &str, most: usize) -> Result<Self> {
        let (sql, count) = numbered(sql)?;
        let parsed = complexity::parse(state, &sql)?;
        let plan = match logical::of_statement(state, parsed, most).await {
            Ok(plan) => Some(plan),
            // Planning may need the values. Any other error is reported when the statement runs.
            Err(_) if count > 0 && stop::check().is_ok() => None,
            Err(error) => return Err(error),
        };
        let known = match &plan {
            Some(plan) => plan.get_parameter_types()?,
            None => Default::default(),
        };
        let types = (1..=count)
            .map(|number| known.get(&format!("${number}")).cloned().flatten())
            .collect();
        Ok(Self {
            sql,
            plan,
            types,
            bound: Mutex::new(None),
        })
    }

    /// The plan with placeholders, unless planning needs the values.
    pub fn plan(&self) -> Option<&LogicalPlan> {
        self.plan.as_ref()
    }

    /// Whether it has parameters.
    pub fn takes_parameters(&self) -> bool {
        !self.types.is_empty()
    }

    /// The parameters as clients see them. One of unknown type is shown as a string and takes any value.
    pub fn parameters(&self) -> SchemaRef {
        let field = |(at, data_type): (usize, &Option<DataType>)| {
            let data_type = data_type.clone().unwrap_or(DataType::Utf8);
            Field::new(format!("${}", at + 1), data_type, true)
        };
        let fields: Vec<Field> = self.types.iter().enumerate().map(field).collect();
        super::wire::wire_schema(&Schema::new(fields))
    }

    /// Binds rows of values for later executions, each of which returns the results of all rows, in their order.
    ///
    /// # Errors
    /// If there are no rows or too many, a row does not have a value for every parameter, or a value is not of the parameter's type.
    pub fn bind(&self, batches: &[RecordBatch]) -> Result<()> {
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        if rows == 0 || rows > MAX_ROWS {
            return plan_err!(
                "a statement is run with 1 to {MAX_ROWS} rows of parameters, found {rows}"
            );
        }
        let bytes: usize = batches.iter().map(RecordBatch::get_array_memory_size).sum();
        if bytes > MAX_BOUND_BYTES {
            return plan_err!(
                "the parameters have {bytes} bytes, more than the {MAX_BOUND_BYTES} allowed"
            );
        }
        let mut bound = Vec::with_capacity(rows);
        for batch in batches {
            for row in 0..batch.num_rows() {
                bound.push(self.values_of(batch, row)?);
            }
        }
        *self.bound.lock() = Some(bound);
        Ok(())
    }

    /// The values of a row, cast to the parameters' types. A number that is not one of the type, such as 1.5 of an integer, stays as it is, so
    /// that the statement compares with it.
    fn values_of(&self, batch: &RecordBatch, row: usize) -> Result<Vec<ScalarValue>> {
        if batch.num_columns() != self.types.len() {
            return plan_err!(
                "the statement has {} parameters, found {} values",
                self.types.len(),
                batch.num_columns()
            );
        }
        let columns = batch.columns().iter().zip(&self.types).enumerate();
        columns
            .map(|(at, (column, data_type))| {
                let value = ScalarValue::try_from_array(column, row)?;
                match data_type {
                    Some(data_type) => match value.cast_to(data_type) {
                        Ok(cast) if is_same_number(&value, &cast) => Ok(cast),
                        _ if value.data_type().is_numeric() && data_type.is_numeric() => Ok(value),
                        Ok(cast) => Ok(cast),
                        Err(error) => {
                            let expected = format!("parameter ${}: expected {data_type}", at + 1);
                            Err(error.context(expected))
                        }
                    },
                    None => Ok(value),
                }
            })
            .collect()
    }

    /// The plans with the bound values in them, one for each row.
    ///
    /// # Errors
    /// If values are missing, or the statement cannot be planned with them.
    pub async fn filled(&self, state: &SessionState, most: usize) -> Result<Vec<LogicalPlan>> {
        let rows = self.bound.lock().clone();
        let rows = match rows {
            Some(rows) => rows,
            None if self.types.is_empty() => vec![vec![]],
            None => {
                return plan_err!(
                    "the statement has {} parameters and no values are bound to them",
                    self.types.len()
                );
            }
        };
        let mut plans = Vec::with_capacity(rows.len());
        for values in rows {
            stop::check()?;
            plans.push(match &self.plan {
                Some(plan) if values.is_empty() => plan.clone(),
                Some(plan) => plan
                    .clone()
                    .replace_params_with_values(&ParamValues::from(values))?,
                None => {
                    let mut parsed = complexity::parse(state, &self.sql)?;
                    substitute(&mut parsed, &|name| {
                        let number = name.parse::<usize>().ok()?;
                        values.get(number.checked_sub(1)?).cloned()
                    })?;
                    logical::of_statement(state, parsed, most).await?
                }
            });
        }
        Ok(plans)
    }
}

/// Whether a number is the same after it was cast to another type.
fn is_same_number(value: &ScalarValue, cast: &ScalarValue) -> bool {
    cast.cast_to(&value.data_type())
        .is_ok_and(|back| back == *value)
}

/// The batches of a stream, read only up to the limits on bound values.
pub async fn rows_to_bind(mut values: FlightRecordBatchStream) -> Result<Vec<RecordBatch>, Status> {
    let (mut batches, mut rows, mut bytes) = (Vec::new(), 0, 0);
    while let Some(batch) = values.try_next().await.map_err(Status::from)? {
        rows += batch.num_rows();
        bytes += batch.get_array_memory_size();
        if batch.num_rows() > 0 {
            batches.push(batch);
        }
        if rows > MAX_ROWS || bytes > MAX_BOUND_BYTES {
            break;
        }
    }
    Ok(batches)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray};
    use datafusion::prelude::SessionContext;

    use super::*;

    fn row(columns: Vec<ArrayRef>) -> RecordBatch {
        let columns = columns.into_iter().enumerate();
        RecordBatch::try_from_iter(columns.map(|(at, column)| (format!("{at}"), column))).unwrap()
    }

    async fn answer(ctx: &SessionContext, prepared: &Prepared) -> Result<String> {
        let mut batches = Vec::new();
        for plan in prepared.filled(&ctx.state(), 1000).await? {
            batches.extend(ctx.execute_logical_plan(plan).await?.collect().await?);
        }
        Ok(arrow::util::pretty::pretty_format_batches(&batches)?.to_string())
    }

    #[tokio::test]
    async fn values_are_bound() {
        let ctx = SessionContext::new();
        let prepared = Prepared::new(
            &ctx.state(),
            "SELECT a FROM (VALUES (1, 'x'), (2, 'y')) AS t(a, b) WHERE b = ? AND a < ?",
            1000,
        )
        .await
        .unwrap();
        let types: Vec<DataType> = prepared
            .parameters()
            .fields()
            .iter()
            .map(|f| f.data_type().clone())
            .collect();
        assert_eq!(types, [DataType::Utf8, DataType::Int64]);
        assert!(
            answer(&ctx, &prepared)
                .await
                .unwrap_err()
                .to_string()
                .contains("no values are bound")
        );
        let text = |text: &str| -> ArrayRef { Arc::new(StringArray::from(vec![text.to_string()])) };
        let number = |number| -> ArrayRef { Arc::new(Int64Array::from(vec![number])) };
        prepared.bind(&[row(vec![text("y"), number(5)])]).unwrap();
        assert!(answer(&ctx, &prepared).await.unwrap().contains("| 2 |"));
        // A string that is a number is accepted, any other string is not.
        prepared.bind(&[row(vec![text("x"), text("5")])]).unwrap();
        assert!(answer(&ctx, &prepared).await.unwrap().contains("| 1 |"));
        assert!(
            prepared
                .bind(&[row(vec![text("x"), text("five")])])
                .is_err()
        );
        assert!(prepared.bind(&[row(vec![text("x")])]).is_err());
        assert!(prepared.bind(&[]).is_err());
        let names: ArrayRef = Arc::new(StringArray::from(vec!["y", "x"]));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![5, 6]));
        prepared.bind(&[row(vec![names, numbers])]).unwrap();
        let both = answer(&ctx, &prepared).await.unwrap();
        let (second, first) = (both.find("| 2 |").unwrap(), both.find("| 1 |").unwrap());
        assert!(second < first, "in the order of the rows: {both}");
        let many: ArrayRef = Arc::new(Int64Array::from(vec![1; MAX_ROWS + 1]));
        assert!(
            prepared
                .bind(&[row(vec![Arc::clone(&many), many])])
                .is_err()
        );
    }

    #[tokio::test]
    async fn where_a_plan_needs_values_they_are_literals() {
        let ctx = SessionContext::new();
        let prepared = Prepared::new(
            &ctx.state(),
            "SELECT count(*) AS n FROM generate_series(1, ?) WHERE ? = 'it''s'",
            1000,
        )
        .await
        .unwrap();
        let number: ArrayRef = Arc::new(Int64Array::from(vec![7]));
        let text: ArrayRef = Arc::new(StringArray::from(vec!["it's"]));
        prepared
            .bind(&[row(vec![Arc::clone(&number), text])])
            .unwrap();
        assert!(answer(&ctx, &prepared).await.unwrap().contains("| 7 |"));
        let hostile: ArrayRef = Arc::new(StringArray::from(vec!["' OR '1' = '1"]));
        prepared.bind(&[row(vec![number, hostile])]).unwrap();
        assert!(answer(&ctx, &prepared).await.unwrap().contains("| 0 |"));
    }
}
