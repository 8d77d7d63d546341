//! [`WorkerServer`]: a worker. It runs the tasks that coordinators send it, over stores that it opens itself.
//!
//! Invariants: without TLS and a token it listens on loopback addresses only, unless it is told to; tasks of a query that was abandoned
//! are stopped at the next check, four times a second.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderValue, StatusCode, header};
use axum::routing::get;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::prelude::SessionConfig;
use datafusion_distributed::{
    DistributedExt, ExecuteTaskRequest, ProducerHead, TaskKey, Worker, WorkerQueryContext,
};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::service::interceptor::InterceptedService;
use tonic::{Request, Status};

use super::channels::{Channels, token};
use super::config::WorkerConfig;
use super::settings;
use super::wire::codec::VczCodec;
use super::wire::functions::registered;
use super::worker_stores::{OpenTable, WorkerStores};
use super::workers::version;
use crate::flight::{ServeError, listen, tls_of};
use crate::scan::{VczSettings, warm_up};

/// Time between two looks for tasks that were abandoned.
const TICK: Duration = Duration::from_millis(250);
/// Time after which a silent connection is asked whether it is there, and time that it has to answer.
const KEEPALIVE: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(20)];
/// The largest message, such as a batch of rows or a plan.
const MOST_MESSAGE_BYTES: usize = 2 << 30;
/// Time that running tasks have to end when the worker is stopped.
const SHUTDOWN: Duration = Duration::from_secs(10);

/// A worker that listens but does not run tasks yet.
pub struct WorkerServer {
    worker: Worker,
    token: Option<HeaderValue>,
    tls: Option<tonic::transport::ServerTlsConfig>,
    listener: TcpListener,
    metrics: Option<TcpListener>,
    runtime: Arc<RuntimeEnv>,
    /// Number of tasks so far.
    tasks: Arc<AtomicU64>,
}

impl WorkerServer {
    /// Checks the configuration and listens. Tasks run with the settings of `config`, and memory and files of `runtime`.
    ///
    /// # Errors
    /// An address in use, an invalid certificate or token, or an unsafe configuration.
    pub async fn start(
        worker: WorkerConfig,
        config: SessionConfig,
        runtime: Arc<RuntimeEnv>,
        open: OpenTable,
    ) -> std::result::Result<Self, ServeError> {
        check_exposure(&worker)?;
        let configured =
            |error: DataFusionError| ServeError::Configuration(error.strip_backtrace());
        let token_file = worker.cluster.token_file.as_deref();
        let token = token_file.map(token).transpose().map_err(configured)?;
        let tls = worker.tls.as_ref().map(tls_of).transpose()?;
        let channels = Arc::new(Channels::new(&worker.cluster).map_err(configured)?);
        warm_up(&VczSettings::of(config.options()));
        let stores = Arc::new(WorkerStores::new(open));
        let listener = listen(worker.bind)?;
        let metrics = match worker.metrics_bind {
            Some(address) => Some(listen(address)?),
            None => None,
        };
        let tasks = Arc::<AtomicU64>::default();
        let counted = Arc::clone(&tasks);
        let builder = move |context: WorkerQueryContext| {
            counted.fetch_add(1, Ordering::Relaxed);
            let (channels, stores, own) =
                (Arc::clone(&channels), Arc::clone(&stores), config.clone());
            async move { state(context, &own, channels, stores) }
        };
        let worker = Worker::from_session_builder(builder)
            .with_runtime_env(Arc::clone(&runtime))
            .with_max_message_size(MOST_MESSAGE_BYTES)
            .with_version(version(worker.partitions));
        Ok(Self {
            worker,
            token,
            tls,
            listener,
            metrics,
            runtime,
            tasks,
        })
    }

    /// The address that coordinators reach.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The address that `/healthz` and `/metrics` are served on.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn metrics_address(&self) -> std::io::Result<Option<SocketAddr>> {
        self.metrics
            .as_ref()
            .map(TcpListener::local_addr)
            .transpose()
    }

    /// Runs tasks until `stop`.
    ///
    /// # Errors
    /// If serving fails.
    pub async fn run(
        self,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> std::result::Result<(), ServeError> {
        let failed = |error: tonic::transport::Error| ServeError::Stopped(error.to_string());
        let (stopping, stopped) = watch::channel(false);
        let wait = |mut stopped: watch::Receiver<bool>| async move {
            // An error means that the sender was dropped, which stops the worker too.
            let _ = stopped.wait_for(|stopped| *stopped).await;
        };
        let ticking = tokio::spawn(tick(self.worker.clone()));
        if let Some(listener) = self.metrics {
            let app = operators(Arc::clone(&self.runtime), self.tasks);
            let serving = axum::serve(listener, app).with_graceful_shutdown(wait(stopped.clone()));
            tokio::spawn(serving.into_future());
        }
        let mut server = tonic::transport::Server::builder()
            .http2_keepalive_interval(Some(KEEPALIVE[0]))
            .http2_keepalive_timeout(Some(KEEPALIVE[1]));
        if let Some(tls) = self.tls {
            server = server.tls_config(tls).map_err(failed)?;
        }
        let token = self.token;
        let check = move |request: Request<()>| match &token {
            Some(token) if !has_token(&request, token) => Err(Status::unauthenticated(
                "the token of the cluster is missing or wrong",
            )),
            _ => Ok(request),
        };
        let service = InterceptedService::new(self.worker.into_worker_server(), check);
        // Small messages are sent at once: Nagle's algorithm would hold them for tens of milliseconds.
        let incoming =
            tonic::transport::server::TcpIncoming::from(self.listener).with_nodelay(Some(true));
        let serving = server
            .add_service(service)
            .serve_with_incoming_shutdown(incoming, wait(stopped));
        let mut serving = std::pin::pin!(serving);
        let result = tokio::select! {
            result = &mut serving => result.map_err(failed),
            () = stop => {
                // Sending cannot fail: receivers are held above.
                let _ = stopping.send(true);
                match tokio::time::timeout(SHUTDOWN, &mut serving).await {
                    Ok(result) => result.map_err(failed),
                    Err(_) => Ok(()),
                }
            }
        };
        ticking.abort();
        result
    }
}

/// Whether a request has the token, compared in a time that does not depend on where they differ.
fn has_token(request: &Request<()>, token: &HeaderValue) -> bool {
    use subtle::ConstantTimeEq;
    let found = request.metadata().get(header::AUTHORIZATION.as_str());
    found.is_some_and(|found| found.as_encoded_bytes().ct_eq(token.as_bytes()).into())
}

/// The session of a task.
fn state(
    context: WorkerQueryContext,
    own: &SessionConfig,
    channels: Arc<Channels>,
    stores: Arc<WorkerStores>,
) -> Result<datafusion::execution::SessionState> {
    let headers = settings::passed_on(&context.headers);
    let mut builder = context.builder;
    let config = builder.config().get_or_insert_default();
    let extensions = &mut config.options_mut().extensions;
    extensions.insert(VczSettings::of(own.options()));
    settings::apply(config, &headers)?;
    settings::apply_names(&headers, &channels)?;
    config.set_extension(stores);
    let (scalars, aggregates) = registered();
    Ok(builder
        .with_scalar_functions(scalars)
        .with_aggregate_functions(aggregates)
        .with_distributed_passthrough_headers(headers)?
        .with_distributed_channel_resolver(
            channels as Arc<dyn datafusion_distributed::ChannelResolver + Send + Sync>,
        )
        .with_distributed_user_codec(VczCodec::default())
        .build())
}

/// Lets go of abandoned tasks: the crate's cache of tasks does so only when it is used.
async fn tick(worker: Worker) {
    loop {
        tokio::time::sleep(TICK).await;
        let none = ExecuteTaskRequest {
            task_key: TaskKey {
                query_id: Default::default(),
                stage_id: 0,
                task_number: 0,
            },
            target_partition_start: 0,
            target_partition_end: 0,
            producer_head: ProducerHead::None,
        };
        // There is no such task, so that it would be waited for.
        let _ = tokio::time::timeout(Duration::from_millis(1), worker.execute_task(none)).await;
    }
}

/// The port for operators.
fn operators(runtime: Arc<RuntimeEnv>, tasks: Arc<AtomicU64>) -> Router {
    let metrics = move || {
        let reserved = runtime.memory_pool.reserved();
        let tasks = tasks.load(Ordering::Relaxed);
        let text = format!(
            "# HELP vcz_worker_tasks Tasks of queries that were received\n\
             # TYPE vcz_worker_tasks counter\n\
             vcz_worker_tasks_total {tasks}\n\
             # HELP vcz_worker_memory_reserved_bytes Memory that tasks have reserved\n\
             # TYPE vcz_worker_memory_reserved_bytes gauge\n\
             vcz_worker_memory_reserved_bytes {reserved}\n# EOF\n"
        );
        async move { text }
    };
    Router::new()
        .route("/healthz", get(|| async { (StatusCode::OK, "ok\n") }))
        .route("/metrics", get(metrics))
}

/// Returns an error for configurations that would let strangers read files of this machine.
fn check_exposure(config: &WorkerConfig) -> std::result::Result<(), ServeError> {
    if config.bind.ip().is_loopback() || config.insecure {
        return Ok(());
    }
    let address = config.bind;
    let missing = match (&config.tls, &config.cluster.token_file) {
        (None, _) => {
            "without TLS the data can be read on the network: give --tls-cert and --tls-key"
        }
        (_, None) => "without a token anyone can have it read files: give --worker-token-file",
        _ => return Ok(()),
    };
    Err(ServeError::Configuration(format!(
        "{address} is reached by other machines, and {missing}, or bind to 127.0.0.1, or allow it with --insecure"
    )))
}
