//! Planning and starting the query of a result.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::StreamExt;

use super::shared::Shared;

/// Where the rows of a result come from.
#[derive(Clone)]
pub enum Source {
    /// A query.
    Plan(LogicalPlan),
    /// A statement that has run.
    Rows(SchemaRef, Vec<RecordBatch>),
}

impl Source {
    /// No rows and no columns.
    pub fn nothing() -> Self {
        Self::Rows(Arc::new(Schema::empty()), vec![])
    }
}

/// Runs a query and discards its rows.
///
/// # Errors
/// Those of the query.
pub async fn finish(shared: &Shared, source: Source) -> Result<()> {
    let Source::Plan(plan) = source else {
        return Ok(());
    };
    let mut rows = start(shared, planned(shared, &plan).await?)?;
    while let Some(batch) = rows.next().await {
        batch?;
    }
    Ok(())
}

/// The physical plan of a query.
///
/// # Errors
/// If it cannot be planned.
pub async fn planned(shared: &Shared, plan: &LogicalPlan) -> Result<Arc<dyn ExecutionPlan>> {
    shared.ctx().state().create_physical_plan(plan).await
}

/// Starts a query.
///
/// # Errors
/// If it cannot be started.
pub fn start(shared: &Shared, plan: Arc<dyn ExecutionPlan>) -> Result<SendableRecordBatchStream> {
    execute_stream(plan, shared.ctx().task_ctx())
}
