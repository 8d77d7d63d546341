//! The types of a statement before and after planning.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, plan_err};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;

use super::parameters::Prepared;
use super::settings::FlightSettings;
use crate::scan::notices::NoticeSink;

/// A planned statement, whose rows a client may fetch once.
pub struct Planned {
    /// The schema of the rows as the client sees them.
    pub schema: SchemaRef,
    /// The rows.
    pub rows: Rows,
    /// How long planning took, which the time limit of the query includes.
    pub planning: Duration,
    /// Whether the rows show plans, which name locations of tables.
    pub shows_plans: bool,
    /// The settings by which they are sent.
    pub settings: FlightSettings,
    /// The statement's own notices, to which planning and execution add.
    pub notices: NoticeSink,
}

/// The rows of a planned statement.
pub enum Rows {
    /// The plans of a query, one for each row of parameters, which are executed one after the other when the client fetches.
    Plans(Vec<(Arc<dyn ExecutionPlan>, Arc<TaskContext>)>),
    /// The results of a statement that ran when it was planned.
    Batches(Vec<RecordBatch>),
}

impl Planned {
    /// Appends the rows for another row of parameters.
    ///
    /// # Errors
    /// If they have other columns: types may depend on a parameter, as the widths of lists depend on a population.
    pub fn append(&mut self, (schema, rows): (SchemaRef, Rows)) -> Result<()> {
        if schema != self.schema {
            return plan_err!(
                "the rows of parameters give different columns; run the statement once for each row"
            );
        }
        match (&mut self.rows, rows) {
            (Rows::Plans(plans), Rows::Plans(more)) => plans.extend(more),
            (Rows::Batches(batches), Rows::Batches(more)) => batches.extend(more),
            _ => {
                return plan_err!(
                    "only queries and statements of one kind take several rows of parameters"
                );
            }
        }
        Ok(())
    }
}

/// A statement as a client sends it.
pub enum StatementSource {
    /// SQL.
    Sql(String),
    /// A prepared statement and its parameters.
    Prepared(Arc<Prepared>),
}
