//! `vcz serve`: Arrow Flight SQL over registered tables, for clients that are not trusted. Above `session`, beside the command
//! line, which reads the arguments and calls [`Server::start`].
//!
//! A request passes, in this order:
//!
//! * `server`: TLS, the listener, shutdown; `linger`: connections that end without losing anything; `gate`: who is it? Nothing but the login is answered before that is known, by
//!   `auth` (the file of users), `login` (passwords, throttled), `tokens` and `sessions` (settings that persist).
//! * `front`, `service`: the protocol, `reply` its messages; `statements`: what is done with a statement; `metadata` and `info` answer what needs no query.
//! * `complexity`: how deep a statement may be; `policy`: which plans are run, deny by default; `settings`: which settings may be set; `functions`: which are left out.
//! * `planning`: SQL to a physical plan, once; `parameters`: prepared statements; `handles`: unguessable, bounded, bound to a user.
//! * `admission`, `pool` and `guards`: how many queries, how much memory; `running`: execution, timeouts, cancellation.
//! * `wire`: batches as clients can read them, cut to size.
//! * `metrics` and `ops`: numbers, `/healthz`, `/metrics`, a line of log for each query.
//!
//! Invariants: results are streamed, never collected; whatever is kept for a client is bounded in number and time; a query runs
//! on the query threads, so that the network threads always answer.

mod admission;
mod auth;
mod complexity;
mod config;
mod ddl;
mod engine;
mod error;
mod front;
mod functions;
mod gate;
mod guards;
mod handles;
mod info;
mod linger;
mod login;
mod metadata;
mod metrics;
mod ops;
mod parameters;
mod planning;
mod policy;
mod pool;
mod random;
mod reply;
mod running;
mod server;
mod service;
mod sessions;
mod settings;
mod statements;
mod tables;
mod tokens;
mod wire;

pub use auth::password_line;
pub use config::{Limits, ServerConfig, TlsFiles};
pub use error::ServeError;
pub use server::Server;
