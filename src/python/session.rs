//! A session: its stores and tables, and the statements that it runs. The session is that of the command line.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{RecordBatch, StringArray};
use datafusion::common::{Result, ScalarValue, TableReference, plan_err};
use datafusion::dataframe::DataFrame;
use datafusion::datasource::MemTable;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::sql::parser::Statement;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::batches;
use super::errors::{error, of_query, of_store};
use super::objects::parameter;
use super::progress::Watched;
use super::query::Query;
use super::running::{Source, finish};
use super::runtime::{wait, wait_on_thread};
use super::shared::Shared;
use datafusion_vcz::cli::environment::{Environment, SessionArgs};
use datafusion_vcz::cli::{self, sizes, statements, stores};
use datafusion_vcz::scan::progress::ProgressTracker;
use datafusion_vcz::session::{numbered, substitute};

/// A session.
#[pyclass(frozen, module = "vcz._vcz")]
pub struct Session {
    shared: Arc<Shared>,
}

#[pymethods]
impl Session {
    /// A session with these limits, as on the command line, and settings.
    #[new]
    #[pyo3(signature = (memory_limit, memory_pool, disk_limit, batch_size, settings))]
    fn new(
        py: Python<'_>,
        memory_limit: Option<&str>,
        memory_pool: Option<&str>,
        disk_limit: Option<&str>,
        batch_size: Option<usize>,
        settings: Vec<(String, String)>,
    ) -> PyResult<Self> {
        cli::start_log(cli::LOG, false);
        let size = |name: &str, text: Option<&str>| -> PyResult<Option<usize>> {
            let parsed = text.map(sizes::parse).transpose();
            parsed.map_err(|message| PyValueError::new_err(format!("{name}: {message}")))
        };
        let mut args = SessionArgs {
            memory_limit: size("memory_limit", memory_limit)?,
            disk_limit: size("disk_limit", disk_limit)?,
            ..SessionArgs::defaults()
        };
        if let Some(pool) = memory_pool {
            args.mem_pool_type = pool.parse().map_err(|_| {
                PyValueError::new_err(format!(
                    "memory_pool: expected 'greedy' or 'fair', found '{pool}'"
                ))
            })?;
        }
        if batch_size == Some(0) {
            return Err(PyValueError::new_err(
                "batch_size: expected a number of rows of at least 1, found 0",
            ));
        }
        args.batch_size = batch_size;
        let tracker = Arc::new(ProgressTracker::new(|| {}));
        let watched = Watched::new(Arc::clone(&tracker), None);
        let environment = wait(
            py,
            &watched,
            async move { Environment::new(&args, false).await },
        )?;
        let environment = environment.map_err(|failed| of_query(&failed))?;
        {
            let state = environment.ctx.state_ref();
            let mut state = state.write();
            let config = state.config_mut();
            config.set_extension(Arc::clone(&tracker));
            for (key, value) in &settings {
                let set = config.options_mut().set(key, value);
                set.map_err(|failed| of_query(&failed))?;
            }
        }
        environment.listen();
        let shared = Arc::new(Shared::new(environment, tracker));
        Ok(Self { shared })
    }

    /// Opens stores as tables, each argument as on the command line: `STORE` or `NAME=STORE`. Returns the tables' names.
    fn open(
        &self,
        py: Python<'_>,
        arguments: Vec<String>,
        populations: Option<String>,
        options: Vec<(String, String)>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Vec<String>> {
        self.shared.check_open()?;
        let tables = stores::tables(&arguments).map_err(of_store)?;
        let options = stores::options(populations.as_deref(), &options);
        let names = tables.iter().map(|table| table.name.clone()).collect();
        let shared = Arc::clone(&self.shared);
        let watched = self.shared.watched(progress);
        wait_on_thread(py, &watched, move || async move {
            stores::register_all(&shared.environment, &tables, &options, |_| {}).await
        })?
        .map_err(of_store)?;
        Ok(names)
    }

    /// Registers what has `__arrow_c_stream__` as a table, read now.
    fn register_stream(
        &self,
        py: Python<'_>,
        name: &str,
        capsule: &Bound<'_, PyAny>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        self.shared.check_open()?;
        let reader = batches::import(capsule)?;
        let watched = self.shared.watched(progress);
        let read = wait(py, &watched, async move {
            // The stream may run Python code, or a query of another session, so it is not read by a thread of the runtime.
            let read = tokio::task::spawn_blocking(move || batches::read_all(reader));
            read.await.map_err(|failed| failed.to_string())
        })?;
        let (schema, rows) = read
            .and_then(|read| read)
            .map_err(|failed| error(format!("the table '{name}' could not be read: {failed}")))?;
        self.replace(name, MemTable::try_new(schema, vec![rows]))
    }

    /// Registers columns of strings as a table.
    fn register_strings(&self, name: &str, columns: Vec<(String, Vec<String>)>) -> PyResult<()> {
        self.shared.check_open()?;
        let columns = columns.into_iter().map(|(name, texts)| {
            let column: arrow::array::ArrayRef = Arc::new(StringArray::from(texts));
            (name, column)
        });
        let batch = RecordBatch::try_from_iter(columns);
        let table = batch
            .map_err(Into::into)
            .and_then(|batch| MemTable::try_new(batch.schema(), vec![vec![batch]]));
        self.replace(name, table)
    }

    /// Registers a result of this session as a view.
    fn register_query(&self, name: &str, query: &Query) -> PyResult<()> {
        self.shared.check_open()?;
        match query.source() {
            Source::Plan(plan) => {
                let frame = DataFrame::new(self.shared.ctx().state(), plan.clone());
                self.replace_with(name, frame.into_view())
            }
            Source::Rows(schema, rows) => self.replace(
                name,
                MemTable::try_new(Arc::clone(schema), vec![rows.clone()]),
            ),
        }
    }

    /// Whether `query` is of this session.
    fn owns(&self, query: &Query) -> bool {
        Arc::ptr_eq(&self.shared, query.shared())
    }

    /// Removes a table. Returns whether there was one.
    fn deregister(&self, name: &str) -> PyResult<bool> {
        self.shared.check_open()?;
        let removed = self
            .shared
            .ctx()
            .deregister_table(TableReference::bare(name));
        let removed = removed.map_err(|failed| of_query(&failed))?;
        Ok(removed.is_some())
    }

    /// The names of the session's tables.
    fn tables(&self) -> PyResult<Vec<String>> {
        self.shared.check_open()?;
        let ctx = self.shared.ctx();
        let config = ctx.copied_config();
        let defaults = &config.options().catalog;
        let schema = ctx
            .catalog(&defaults.default_catalog)
            .and_then(|catalog| catalog.schema(&defaults.default_schema));
        let mut names = schema
            .map(|schema| schema.table_names())
            .unwrap_or_default();
        names.sort();
        Ok(names)
    }

    /// Runs all statements but the last, and the last unless it is a query, which runs when it is read.
    fn sql(
        &self,
        py: Python<'_>,
        text: String,
        parameters: Option<&Bound<'_, PyAny>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Query> {
        self.shared.check_open()?;
        let values = parameters.map(Values::new).transpose()?;
        let shared = Arc::clone(&self.shared);
        let watched = self.shared.watched(progress);
        let source = wait_on_thread(py, &watched, move || async move {
            run(&shared, &text, values.as_ref()).await
        })?;
        let source = source.map_err(|failed| of_query(&failed))?;
        Ok(Query::new(Arc::clone(&self.shared), source))
    }

    /// What statements have reported since this was last called.
    fn notices(&self) -> Vec<String> {
        self.shared.environment.notices.take()
    }

    /// Scan partitions that are being read, and the variants of them that were read or skipped, and all.
    fn progress(&self) -> (u64, u64, u64) {
        let now = self.shared.tracker.now();
        (now.running, now.done, now.total)
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.shared.is_closed()
    }

    /// Lets no more statements run, and forgets the tables.
    fn close(&self) -> PyResult<()> {
        if self.closed() {
            return Ok(());
        }
        for name in self.tables()? {
            let table = TableReference::bare(name);
            let removed = self.shared.ctx().deregister_table(table);
            removed.map_err(|failed| of_query(&failed))?;
        }
        self.shared.close();
        Ok(())
    }
}

impl Session {
    fn replace(&self, name: &str, table: Result<MemTable>) -> PyResult<()> {
        let table = table.map_err(|failed| of_query(&failed))?;
        self.replace_with(name, Arc::new(table))
    }

    fn replace_with(
        &self,
        name: &str,
        table: Arc<dyn datafusion::catalog::TableProvider>,
    ) -> PyResult<()> {
        let ctx = self.shared.ctx();
        let place = || TableReference::bare(name);
        let replaced = ctx
            .deregister_table(place())
            .and_then(|_| ctx.register_table(place(), table));
        replaced.map(drop).map_err(|failed| of_query(&failed))
    }
}

/// Values of parameters, by position or by name.
enum Values {
    Listed(Vec<ScalarValue>),
    Named(HashMap<String, ScalarValue>),
}

impl Values {
    fn new(given: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(named) = given.extract::<HashMap<String, Bound<'_, PyAny>>>() {
            let values = named
                .into_iter()
                .map(|(name, value)| Ok((name, parameter(&value)?)));
            return Ok(Self::Named(values.collect::<PyResult<_>>()?));
        }
        let values = given.try_iter()?.map(|value| parameter(&value?));
        Ok(Self::Listed(values.collect::<PyResult<_>>()?))
    }

    fn get(&self, name: &str) -> Option<ScalarValue> {
        match self {
            Self::Named(values) => values.get(name).cloned(),
            Self::Listed(values) => {
                let number: usize = name.parse().ok()?;
                values.get(number.checked_sub(1)?).cloned()
            }
        }
    }
}

/// Runs the statements of `text`.
async fn run(shared: &Shared, text: &str, values: Option<&Values>) -> Result<Source> {
    let environment = &shared.environment;
    let text = match values {
        Some(Values::Listed(values)) => {
            let (text, count) = numbered(text)?;
            if count != values.len() {
                return plan_err!(
                    "the statement has {count} parameter(s), and {} value(s) were given",
                    values.len()
                );
            }
            text
        }
        _ => text.to_string(),
    };
    let mut last = None;
    for (text, mut statement) in statements::parse(environment, &text)? {
        if let Some(source) = last.take() {
            finish(shared, source).await?;
        }
        if let Some(values) = values {
            substitute(&mut statement, &|name| values.get(name))?;
        }
        last = Some(one(shared, text, statement).await?);
    }
    match last {
        Some(source) => Ok(source),
        None => plan_err!("there is no statement to run"),
    }
}

/// Plans a query, or runs another statement.
async fn one(shared: &Shared, text: &str, statement: Statement) -> Result<Source> {
    let environment = &shared.environment;
    let plan = statements::plan(shared.ctx(), statement).await?;
    let target = match &plan {
        // With a scheme it may need an object store, which the CLI crate makes; otherwise the number of rows is the result.
        LogicalPlan::Copy(copy) if !copy.output_url.contains("://") => {
            Some(statements::NewFile::of(copy))
        }
        LogicalPlan::Copy(_) | LogicalPlan::Ddl(DdlStatement::CreateExternalTable(_)) => {
            if statements::run_of_files(environment, &environment.silent(), text, &plan).await? {
                return Ok(Source::nothing());
            }
            None
        }
        LogicalPlan::Ddl(_) | LogicalPlan::Dml(_) | LogicalPlan::Statement(_) => None,
        _ => return Ok(Source::Plan(plan)),
    };
    let done = run_now(shared, plan).await;
    if let (Err(_), Some(target)) = (&done, target) {
        target.remove();
    }
    done
}

async fn run_now(shared: &Shared, plan: LogicalPlan) -> Result<Source> {
    let frame = shared.ctx().execute_logical_plan(plan).await?;
    let schema = Arc::new(frame.schema().as_arrow().clone());
    Ok(Source::Rows(schema, frame.collect().await?))
}
