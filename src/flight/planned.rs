//! The types of a statement before and after planning.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;

use super::parameters::Prepared;
use super::settings::FlightSettings;

/// A planned statement, whose rows a client may fetch once.
pub struct Planned {
    /// The schema of the rows as the client sees them.
    pub schema: SchemaRef,
    /// The rows.
    pub rows: Rows,
    /// The settings by which they are sent.
    pub settings: FlightSettings,
}

/// The rows of a planned statement.
pub enum Rows {
    /// The plan of a query, which is executed when the client fetches.
    Plan(Arc<dyn ExecutionPlan>, Arc<TaskContext>),
    /// The result of a statement that ran when it was planned.
    Batch(RecordBatch),
}

/// A statement as a client sends it.
pub enum StatementSource {
    /// SQL.
    Sql(String),
    /// A prepared statement and its parameters.
    Prepared(Arc<Prepared>),
}
