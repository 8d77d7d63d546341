//! The configuration of a server: addresses, TLS, users and limits.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::Result;
use datafusion::execution::context::SessionState;

use super::connections::ConnectionLimits;

/// The longest SQL text that is planned, in bytes.
pub const MAX_SQL_BYTES: usize = 1 << 20;
/// The largest message that a client may send, in bytes. Larger than [`MAX_SQL_BYTES`], so that a statement that is too long gets its
/// own error, and parameters have room.
pub const MAX_MESSAGE_BYTES: usize = 16 << 20;
/// Default of `vcz.batch_bytes` on a server: batches are split into smaller messages, so larger ones only take memory.
pub const BATCH_BYTES: usize = 4 << 20;
/// Stack of a query thread, in bytes: enough to recurse over a statement as deep as `complexity` allows.
pub const QUERY_STACK: usize = 128 << 20;
/// Queries that may wait for a permit; more are rejected at once.
pub const MAX_WAITING: usize = 1024;
/// Queries of one client that may wait for a permit.
pub const MAX_WAITING_OF_ONE: usize = 128;
/// Results that one client may leave unread for each query that it may run. Their queries have released their permits.
pub const IDLE_PER_QUERY: usize = 8;
/// How long a planned query is kept for the client to fetch.
pub const TICKET_LIFETIME: Duration = Duration::from_secs(300);
/// How long a prepared statement, or the settings of a client, are kept without being used.
pub const IDLE_LIFETIME: Duration = Duration::from_secs(3600);
/// Planned queries and prepared statements that one user may have.
pub const MAX_HANDLES_PER_USER: usize = 256;
/// Planned queries and prepared statements of all users.
pub const MAX_HANDLES: usize = 2048;
/// Clients whose settings are kept.
pub const MAX_SESSIONS: usize = 4096;
/// Bearer tokens that one user may have.
pub const MAX_TOKENS_PER_USER: usize = 1024;
/// Bearer tokens of all users.
pub const MAX_TOKENS: usize = 16384;

/// A server's configuration.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// The address of Flight SQL; with port 0 the system chooses a free port.
    pub bind: SocketAddr,
    /// The address of `/healthz` and `/metrics`, over plain HTTP; `None` for none.
    pub metrics_bind: Option<SocketAddr>,
    /// The certificate; without one, connections are not encrypted.
    pub tls: Option<TlsFiles>,
    /// The file of users and tokens; without one, no login is needed.
    pub auth_file: Option<PathBuf>,
    /// Allow connections without encryption or login on addresses that other machines reach.
    pub insecure: bool,
    /// Allow CREATE and DROP of views and of tables in memory.
    pub allow_ddl: bool,
    /// Changes the session that statements start from.
    pub prepare: PrepareSession,
    /// The limits.
    pub limits: Limits,
}

/// Changes the session that statements start from, such as to one that runs queries on workers.
#[derive(Clone, Default)]
pub struct PrepareSession(pub Option<Arc<PrepareFn>>);

/// See [`PrepareSession`].
pub type PrepareFn = dyn Fn(SessionState) -> Result<SessionState> + Send + Sync;

impl fmt::Debug for PrepareSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PrepareSession")
            .field(&self.0.is_some())
            .finish()
    }
}

/// A certificate and its key, as PEM files.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The certificate, followed by its chain.
    pub cert: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// Limits of a server.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Queries that run at the same time.
    pub max_queries: usize,
    /// Queries of one user that run at the same time, or of one address if there is no login.
    pub max_queries_of_one: usize,
    /// The most relations and expressions of a statement when it is planned.
    pub plan_size: usize,
    /// How long a query keeps its permit while its client does not read.
    pub idle_timeout: Duration,
    /// Connections to the port of Flight SQL.
    pub connections: ConnectionLimits,
    /// Memory of all queries together, in bytes.
    pub memory: usize,
    /// Memory of one query, in bytes.
    pub query_memory: usize,
    /// Time of one query, from its start until its last row is sent.
    pub query_timeout: Duration,
    /// Time that a query waits for a permit.
    pub queue_timeout: Duration,
    /// Time that running queries have to finish when the server stops.
    pub shutdown_timeout: Duration,
    /// How long a bearer token is valid after login.
    pub token_lifetime: Duration,
    /// The most partitions that a query may ask for.
    pub max_partitions: usize,
}
