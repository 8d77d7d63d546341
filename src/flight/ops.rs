//! The second port, for operators: `/healthz` says whether queries are answered, `/metrics` gives numbers. Plain HTTP without a
//! login; it shows neither statements nor users.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;

use super::engine::Engine;
use super::gate::Identity;

/// What the port shows.
#[derive(Clone)]
pub struct Ops {
    /// The engine.
    pub engine: Arc<Engine>,
    /// Who is logged in: only how many.
    pub identity: Arc<Identity>,
    /// Whether the server is stopping.
    pub stopping: Arc<AtomicBool>,
}

/// Answers on `listener` until `stop`.
///
/// # Errors
/// What the operating system says, if listening fails.
pub async fn serve(
    listener: TcpListener,
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
    let text = ops.engine.metrics.text(&ops.engine, &ops.identity);
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], text)
}
