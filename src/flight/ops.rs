//! The port for operators: `/healthz` tells whether queries are accepted, `/metrics` returns metrics. Plain HTTP without a login;
//! it shows neither statements nor users.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use axum::serve::Listener;
use tokio::net::TcpListener;

use super::authentication::Identity;
use super::connections::{Connections, Guarded};
use super::engine::QueryEngine;
use super::metrics::resident_bytes;

/// The state behind the port.
#[derive(Clone)]
pub struct Ops {
    /// The engine.
    pub engine: Arc<QueryEngine>,
    /// The logins, of which only the number is shown.
    pub identity: Arc<Identity>,
    /// The connections to the port of Flight SQL.
    pub connections: Arc<Connections>,
    /// Whether the server is stopping.
    pub stopping: Arc<AtomicBool>,
}

impl Ops {
    /// The gauges: name, help and current value.
    fn now(&self) -> [(&'static str, &'static str, usize); 14] {
        let (engine, identity) = (&self.engine, &self.identity);
        let threads = engine.threads.metrics();
        [
            (
                "queries_running",
                "Queries that are planned or run",
                engine.admission.running(),
            ),
            (
                "queries_waiting",
                "Queries that wait for others to end",
                engine.admission.waiting(),
            ),
            (
                "queries_idle",
                "Queries whose clients do not read, and that have given up their place",
                engine.idle.running(),
            ),
            (
                "planning_threads",
                "Threads that plan, of abandoned statements too",
                engine.planners.running(),
            ),
            (
                "queries_sending",
                "Queries whose rows are being sent",
                engine.running.len(),
            ),
            (
                "tickets",
                "Planned queries that wait to be fetched",
                engine.tickets.len(),
            ),
            (
                "prepared_statements",
                "Prepared statements",
                engine.statements.len(),
            ),
            (
                "clients",
                "Clients whose settings are kept",
                identity.sessions.len(),
            ),
            (
                "connections",
                "Connections to the port of Flight SQL",
                self.connections.len(),
            ),
            (
                "tokens",
                "Valid bearer tokens of logins",
                identity.tokens.len(),
            ),
            (
                "memory_reserved_bytes",
                "Memory that queries have reserved",
                engine.memory.reserved(),
            ),
            (
                "memory_limit_bytes",
                "Memory that queries may reserve",
                engine.limits.memory,
            ),
            (
                "query_tasks",
                "Tasks on the query threads",
                threads.num_alive_tasks(),
            ),
            (
                "resident_memory_bytes",
                "Memory of the process",
                resident_bytes(),
            ),
        ]
    }
}

/// A listener whose connections are within limits.
pub struct Accepting {
    listener: TcpListener,
    connections: Arc<Connections>,
}

impl Accepting {
    /// Accepts connections of `listener` that are within the limits of `connections`.
    pub fn new(listener: TcpListener, connections: Arc<Connections>) -> Self {
        Self {
            listener,
            connections,
        }
    }
}

impl Listener for Accepting {
    type Io = Guarded;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Guarded, SocketAddr) {
        self.connections.accept(&self.listener).await
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Answers on `listener` until `stop`.
///
/// # Errors
/// What the operating system says, if listening fails.
pub async fn serve(
    listener: Accepting,
    ops: Ops,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let router = Router::new()
        .route("/healthz", get(health))
        .route("/metrics", get(metrics))
        .with_state(ops);
    axum::serve(listener, router)
        .with_graceful_shutdown(stop)
        .await
}

async fn health(State(ops): State<Ops>) -> impl IntoResponse {
    if ops.stopping.load(Ordering::Relaxed) {
        (StatusCode::SERVICE_UNAVAILABLE, "stopping\n")
    } else {
        (StatusCode::OK, "ok\n")
    }
}

async fn metrics(State(ops): State<Ops>) -> impl IntoResponse {
    let text = ops.engine.metrics.text(&ops.now());
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], text)
}
