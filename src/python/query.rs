//! The result of a statement. A query runs when its result is read, and again when it is read again.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::logical_expr::{ExplainFormat, LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::ExecutionPlan;
use futures::TryStreamExt;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::batches::{Batches, export};
use super::errors::of_query;
use super::running::{Source, planned, start};
use super::runtime::wait;
use super::shared::Shared;
use super::stream::Reader;
use datafusion_vcz::cli::cells;

/// A result.
#[pyclass(frozen, module = "vcz._vcz")]
pub struct Query {
    shared: Arc<Shared>,
    source: Source,
    /// The types of the columns, once they are known.
    schema: Mutex<Option<SchemaRef>>,
    /// A plan that was made for the types and did not run yet.
    ready: Arc<Mutex<Option<Arc<dyn ExecutionPlan>>>>,
}

impl Query {
    /// The result of a statement.
    pub fn new(shared: Arc<Shared>, source: Source) -> Self {
        Self {
            shared,
            source,
            schema: Mutex::default(),
            ready: Arc::default(),
        }
    }

    /// Where its rows come from.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The session.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The types of the columns: those of the physical plan, which the batches have.
    fn types(&self, py: Python<'_>) -> PyResult<SchemaRef> {
        let plan = match &self.source {
            Source::Rows(schema, _) => return Ok(Arc::clone(schema)),
            Source::Plan(plan) => plan.clone(),
        };
        if let Some(known) = &*self.schema.lock() {
            return Ok(Arc::clone(known));
        }
        let shared = Arc::clone(&self.shared);
        let watched = self.shared.watched(None);
        let physical = wait(py, &watched, async move { planned(&shared, &plan).await })?;
        let physical = physical.map_err(|failed| of_query(&failed))?;
        let schema = physical.schema();
        *self.schema.lock() = Some(Arc::clone(&schema));
        *self.ready.lock() = Some(physical);
        Ok(schema)
    }

    /// The rows of `plan`, collected.
    fn rows(
        &self,
        py: Python<'_>,
        plan: LogicalPlan,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Batches> {
        let shared = Arc::clone(&self.shared);
        let watched = self.shared.watched(progress);
        let collected = wait(py, &watched, async move {
            let physical = planned(&shared, &plan).await?;
            let schema = physical.schema();
            let rows: Vec<RecordBatch> = start(&shared, physical)?.try_collect().await?;
            Ok((schema, rows))
        })?;
        let (schema, rows) = collected.map_err(|failed| of_query(&failed))?;
        Ok(Batches::new(schema, rows))
    }
}

#[pymethods]
impl Query {
    /// The names and types of the columns.
    fn columns(&self, py: Python<'_>) -> PyResult<Vec<(String, String)>> {
        self.shared.check_open()?;
        let schema = self.types(py)?;
        let fields = schema.fields().iter();
        Ok(fields
            .map(|field| (field.name().clone(), field.data_type().to_string()))
            .collect())
    }

    /// An Arrow C stream, which runs the query from the first batch on.
    fn stream<'py>(
        &self,
        py: Python<'py>,
        progress: Option<Py<PyAny>>,
        notify: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        self.shared.check_open()?;
        let schema = self.types(py)?;
        match &self.source {
            Source::Rows(schema, rows) => Batches::new(Arc::clone(schema), rows.clone()).stream(py),
            Source::Plan(plan) => {
                let reader = Reader::new(
                    Arc::clone(&self.shared),
                    schema,
                    plan.clone(),
                    Arc::clone(&self.ready),
                    self.shared.watched(progress),
                    notify,
                );
                export(py, Box::new(reader))
            }
        }
    }

    /// All rows, in memory.
    fn collect(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<Batches> {
        self.shared.check_open()?;
        match &self.source {
            Source::Rows(schema, rows) => Ok(Batches::new(Arc::clone(schema), rows.clone())),
            Source::Plan(plan) => self.rows(py, plan.clone(), progress),
        }
    }

    /// The first rows, in memory.
    fn head(&self, py: Python<'_>, rows: usize, progress: Option<Py<PyAny>>) -> PyResult<Batches> {
        self.shared.check_open()?;
        let plan = match &self.source {
            Source::Rows(schema, batches) => {
                return Ok(Batches::new(Arc::clone(schema), batches.clone()));
            }
            // These have few rows, and no plan above them.
            Source::Plan(plan @ (LogicalPlan::Explain(_) | LogicalPlan::Analyze(_))) => {
                plan.clone()
            }
            Source::Plan(plan) => LogicalPlanBuilder::from(plan.clone())
                .limit(0, Some(rows))
                .and_then(LogicalPlanBuilder::build)
                .map_err(|failed| of_query(&failed))?,
        };
        self.rows(py, plan, progress)
    }

    /// The query's plan as text; with `analyze` the query is run, and the plan has what was measured.
    fn explain(
        &self,
        py: Python<'_>,
        analyze: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        self.shared.check_open()?;
        let Source::Plan(plan) = &self.source else {
            return Ok(String::from("the statement has run, and has no plan"));
        };
        let config = self.shared.ctx().copied_config();
        let explain = datafusion::logical_expr::ExplainOption::default()
            .with_analyze(analyze)
            .with_format(match analyze {
                // What was measured has no other form.
                true => ExplainFormat::Indent,
                false => config.options().explain.format.clone(),
            });
        let plan = LogicalPlanBuilder::from(plan.clone())
            .explain_option_format(explain)
            .and_then(LogicalPlanBuilder::build)
            .map_err(|failed| of_query(&failed))?;
        let rows = self.rows(py, plan, progress)?;
        let shown = |failed: arrow::error::ArrowError| of_query(&failed.into());
        let options = FormatOptions::default();
        let mut text = String::new();
        for batch in rows.batches() {
            let (Some(kind), Some(shape)) = (batch.columns().first(), batch.columns().get(1))
            else {
                continue;
            };
            let kinds = ArrayFormatter::try_new(kind, &options).map_err(shown)?;
            let plans = ArrayFormatter::try_new(shape, &options).map_err(shown)?;
            for row in 0..batch.num_rows() {
                text += &format!("{}\n{}\n", kinds.value(row), plans.value(row));
            }
        }
        Ok(text)
    }

    /// A table of at most `rows` rows as text, for a terminal of `width` columns if there is one.
    fn table(
        &self,
        py: Python<'_>,
        rows: usize,
        width: Option<usize>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<(String, bool)> {
        let head = self.head(py, rows.saturating_add(1), progress)?;
        let (shown, more) = head.first(rows);
        let format = self.shared.ctx().copied_config().options().format.clone();
        let shown = match shown.is_empty() {
            true => vec![RecordBatch::new_empty(Arc::clone(head.schema()))],
            false => shown,
        };
        let table = cells::table(&shown, &format, width);
        let table = table.map_err(|failed| of_query(&failed))?;
        Ok((table, more))
    }
}
