//! The state that all requests share: the session that every statement starts from, the tables, the limits, planned queries and
//! prepared statements. Queries run on threads of their own.

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::common::{Result, TableReference};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::SessionState;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::logical_expr::ExplainFormat;
use datafusion::prelude::{SessionConfig, SessionContext};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tonic::Status;

use super::admission::{Admission, QueryPermit};
use super::config::{BATCH_BYTES, IDLE_LIFETIME, Limits, ServerConfig, TICKET_LIFETIME};
use super::guards::Guards;
use super::handles::{Handles, WhenFull};
use super::metrics::Metrics;
use super::parameters::Prepared;
use super::planned::{Planned, StatementSource};
use super::pool::QueryPool;
use super::running::Running;
use super::sessions::ClientSession;
use super::settings::FlightSettings;
use super::{error, functions, tables};
use crate::scan::VczSettings;
use crate::session;

/// The state that all requests share.
pub struct QueryEngine {
    template: SessionState,
    /// The settings that a new client starts with.
    pub defaults: SessionConfig,
    /// The tables that the operator published.
    pub published: HashSet<TableReference>,
    /// Whether clients may create views and tables.
    pub allow_ddl: bool,
    /// The limits.
    pub limits: Limits,
    /// The memory pool of all queries.
    pub memory: Arc<dyn MemoryPool>,
    /// The permits of running queries.
    pub admission: Admission,
    /// Planned queries that were not fetched yet.
    pub tickets: Handles<Planned>,
    /// Prepared statements.
    pub statements: Handles<Arc<Prepared>>,
    /// Running queries.
    pub running: Running,
    /// Metrics for operators.
    pub metrics: Metrics,
    /// The threads that queries run on.
    pub threads: Handle,
    next_query: AtomicU64,
}

impl QueryEngine {
    /// An engine over the tables of `ctx`, with its settings as defaults, that runs queries on `threads`.
    ///
    /// # Errors
    /// If the tables of `ctx` cannot be read, or there are none.
    pub async fn new(
        ctx: &SessionContext,
        config: &ServerConfig,
        threads: Handle,
    ) -> Result<Self, error::ServeError> {
        let (catalogs, count) = tables::publish(ctx).await?;
        if count == 0 {
            return Err(error::ServeError::Configuration(
                "there are no tables to serve: give a store, or a file with CREATE EXTERNAL TABLE after --sql".to_string(),
            ));
        }
        let published = tables::list(&*catalogs)
            .into_iter()
            .map(|found| TableReference::full(found.catalog, found.schema, found.table))
            .collect();
        let limits = config.limits.clone();
        let mut defaults = ctx.copied_config().with_information_schema(true);
        let partitions = defaults.target_partitions().min(limits.max_partitions);
        defaults = defaults.with_target_partitions(partitions);
        let options = defaults.options_mut();
        // The command line shows plans as drawn trees, which are for terminals.
        options.explain.format = ExplainFormat::Indent;
        options.extensions.insert(FlightSettings::default());
        let mut vcz = VczSettings::of(options);
        vcz.batch_bytes = vcz.batch_bytes.min(BATCH_BYTES);
        options.extensions.insert(vcz);
        let memory: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(limits.memory));
        let runtime = RuntimeEnv {
            memory_pool: Arc::clone(&memory),
            ..ctx.runtime_env().as_ref().clone()
        };
        let mut template = session::closed(defaults, Arc::new(runtime), catalogs)?;
        functions::leave_out(&mut template)?;
        let template = SessionStateBuilder::new_from_existing(template)
            .with_physical_optimizer_rule(Arc::new(Guards))
            .build();
        Ok(Self {
            defaults: template.config().clone(),
            template,
            published,
            allow_ddl: config.allow_ddl,
            memory,
            admission: Admission::new(limits.max_queries, limits.queue_timeout),
            limits,
            tickets: Handles::new("planned query", TICKET_LIFETIME, WhenFull::RemoveOldest),
            statements: Handles::new("prepared statement", IDLE_LIFETIME, WhenFull::Refuse),
            running: Running::default(),
            metrics: Metrics::default(),
            threads,
            next_query: AtomicU64::new(1),
        })
    }

    /// The session state of one statement: the client's settings, and a memory pool with the query's limit.
    pub fn state(&self, config: SessionConfig) -> SessionState {
        let pool = QueryPool::new(Arc::clone(&self.memory), self.limits.query_memory);
        let runtime = RuntimeEnv {
            memory_pool: Arc::new(pool),
            ..self.template.runtime_env().as_ref().clone()
        };
        let mut state = SessionStateBuilder::new_from_existing(self.template.clone())
            .with_config(config)
            .with_runtime_env(Arc::new(runtime))
            .build();
        // The time that now() and current_date give.
        state.mark_start_execution();
        state
    }

    /// The session state that statements start from.
    pub fn template(&self) -> &SessionState {
        &self.template
    }

    /// A number that identifies a query in the log.
    pub fn next_query(&self) -> u64 {
        self.next_query.fetch_add(1, Ordering::Relaxed)
    }

    /// Plans a statement with a permit of its own, on the query threads and within the time limit.
    ///
    /// # Errors
    /// The status to send to the client.
    pub async fn plan_with_permit(
        self: &Arc<Self>,
        session: &Arc<ClientSession>,
        source: StatementSource,
    ) -> Result<Planned, Status> {
        let permit = self.admission.enter().await?;
        let (engine, session, user) = (
            Arc::clone(self),
            Arc::clone(session),
            Arc::clone(&session.user),
        );
        let planned = self
            .on_threads(permit, async move { engine.plan(&session, source).await })
            .await;
        planned.inspect_err(|status| {
            self.metrics.refused(status.code());
            log::info!(user = &*user, code:? = status.code(); "not planned: {:?}", status.message());
        })
    }

    /// Runs `work` on the query threads and holds `permit` until it ends. It stops when this future is dropped, or at the time limit.
    ///
    /// # Errors
    /// The error of `work`, or DEADLINE_EXCEEDED.
    pub async fn on_threads<T: Send + 'static>(
        &self,
        permit: QueryPermit,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T, Status> {
        let mut task = StopOnDrop(self.threads.spawn(async move {
            let result = work.await;
            drop(permit);
            result
        }));
        match tokio::time::timeout(self.limits.query_timeout, &mut task.0).await {
            Ok(Ok(result)) => result.map_err(|error| error::status(&error)),
            Ok(Err(failed)) => {
                log::error!("a statement could not be planned: {failed}");
                Err(Status::internal(
                    "planning failed; the server's log says why",
                ))
            }
            Err(_) => Err(self.too_late()),
        }
    }

    /// The status of a query that exceeded the time limit.
    pub fn too_late(&self) -> Status {
        Status::deadline_exceeded(format!(
            "the query took longer than {:?}, the time limit of this server",
            self.limits.query_timeout
        ))
    }
}

/// A task that is aborted when its result is no longer awaited.
struct StopOnDrop<T>(JoinHandle<T>);

impl<T> Drop for StopOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
