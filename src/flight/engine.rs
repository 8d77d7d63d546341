//! The state that all requests share: the session that every statement starts from, the tables, the limits, planned queries and
//! prepared statements. There are separate threads for running queries and for planning.

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
use tonic::Status;

use super::admission::Admission;
use super::checked::checked;
use super::config::{
    BATCH_BYTES, IDLE_LIFETIME, IDLE_PER_QUERY, Limits, PrepareSession, ServerConfig,
    TICKET_LIFETIME,
};
use super::guards::Guards;
use super::handles::{Handles, WhenFull};
use super::locations::Locations;
use super::metrics::Metrics;
use super::parameters::Prepared;
use super::planned::{Planned, StatementSource};
use super::planners::Planners;
use super::pool::{QueryPool, Shares};
use super::running::Running;
use super::sessions::ClientSession;
use super::settings::FlightSettings;
use super::{error, functions, tables};
use crate::scan::notices::NoticeSink;
use crate::scan::{QueryMemory, VczSettings};
use crate::session;

/// Planned queries of one user, and prepared statements of one user, may each take 1/`KEPT_SHARE` of the memory of all queries.
const KEPT_SHARE: usize = 32;

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
    /// What each user's queries have reserved of it.
    shares: Shares,
    /// The permits of running queries.
    pub admission: Admission,
    /// The permits of queries that are idle because their client does not read.
    pub idle: Admission,
    /// The threads that plan.
    pub planners: Planners,
    /// Planned queries that were not fetched yet.
    pub tickets: Handles<Planned>,
    /// Prepared statements.
    pub statements: Handles<Arc<Prepared>>,
    /// Running queries.
    pub running: Running,
    /// The locations of tables, which are hidden from clients.
    pub locations: Arc<Locations>,
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
        let locations = Arc::new(Locations::of(catalogs.as_ref()).await);
        locations.hide_in_definitions(catalogs.as_ref()).await?;
        let limits = config.limits.clone();
        let mut defaults = ctx.copied_config().with_information_schema(true);
        let partitions = defaults.target_partitions().min(limits.max_partitions);
        defaults = defaults.with_target_partitions(partitions);
        let options = defaults.options_mut();
        // The command line's default, plans drawn as trees, is for terminals.
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
        let mut template = checked(template, limits.plan_size);
        if let PrepareSession(Some(prepare)) = &config.prepare {
            template = prepare(template)?;
        }
        let (queries, share) = (limits.max_queries, limits.max_queries_of_one);
        let kept = limits.memory / KEPT_SHARE;
        Ok(Self {
            defaults: template.config().clone(),
            template,
            published,
            allow_ddl: config.allow_ddl,
            memory,
            shares: Shares::new((limits.memory / 4 * 3).max(limits.query_memory)),
            admission: Admission::new(queries, share, limits.queue_timeout),
            idle: Admission::new(
                queries.saturating_mul(IDLE_PER_QUERY),
                share.saturating_mul(IDLE_PER_QUERY),
                limits.queue_timeout,
            ),
            planners: Planners::new(threads.clone(), queries, share, limits.query_timeout),
            limits,
            tickets: Handles::new(
                "planned query",
                TICKET_LIFETIME,
                WhenFull::RemoveOldest,
                kept,
            ),
            statements: Handles::new("prepared statement", IDLE_LIFETIME, WhenFull::Refuse, kept),
            running: Running::default(),
            locations,
            metrics: Metrics::default(),
            threads,
            next_query: AtomicU64::new(1),
        })
    }

    /// The session state of one statement: the client's settings, a memory pool with the query's limit, and its own notices, which are
    /// sent and logged when it has run.
    fn state(&self, mut config: SessionConfig, share: &Arc<str>) -> SessionState {
        let share = self.shares.of(share);
        let pool = QueryPool::new(Arc::clone(&self.memory), share, self.limits.query_memory);
        let pool: Arc<dyn MemoryPool> = Arc::new(pool);
        let extensions = &mut config.options_mut().extensions;
        if let Some(settings) = extensions.get_mut::<VczSettings>() {
            settings.notices = NoticeSink(Some(Arc::default()));
            settings.memory = QueryMemory::of(&pool);
        }
        let runtime = RuntimeEnv {
            memory_pool: pool,
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

    /// Plans a statement with its own permit, on a planning thread and within the time limit. Also returns the bytes that the plan takes.
    ///
    /// # Errors
    /// The status to send to the client.
    pub async fn plan_with_permit(
        self: &Arc<Self>,
        session: &Arc<ClientSession>,
        source: StatementSource,
    ) -> Result<(Planned, usize), Status> {
        let (engine, client) = (Arc::clone(self), Arc::clone(session));
        let planned = self
            .with_planner(session, |state| async move {
                engine.plan(&client, state, source).await
            })
            .await;
        planned.inspect_err(|status| {
            log::info!(user = &*session.user, code:? = status.code(); "not planned: {:?}", status.message());
        })
    }

    /// Runs a client's `work` with the state of one statement, with a permit, on a planning thread. It stops when this future is
    /// dropped, or at the time limit. Also returns the bytes that the result takes.
    ///
    /// # Errors
    /// The error of `work`, DEADLINE_EXCEEDED, or UNAVAILABLE.
    pub async fn with_planner<T, W>(
        &self,
        session: &ClientSession,
        work: impl FnOnce(SessionState) -> W,
    ) -> Result<(T, usize), Status>
    where
        T: Send + 'static,
        W: Future<Output = Result<T>> + Send + 'static,
    {
        let _permit = self.admission.enter(&session.share).await?;
        let state = self.state(session.config(), &session.share);
        let pool = Arc::clone(&state.runtime_env().memory_pool);
        self.planners
            .run(&session.share, &pool, work(state))
            .await
            .inspect_err(|status| self.metrics.refused(status.code()))
            .map_err(|status| self.locations.hide_in_status(status))
    }
}
