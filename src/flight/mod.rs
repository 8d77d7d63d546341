//! `vcz serve`: Arrow Flight SQL over registered tables, for clients that are not trusted. Above `session`, below the command line,
//! which reads the arguments and calls [`Server::start`].
//!
//! A request passes, in this order:
//!
//! * `server`: TLS, the listener, shutdown. `connections`: limits on their number and time. `graceful_close`: closing them without losing data.
//! * `authentication`: authentication of every request but the login, with `auth` (the file of users), `login` (passwords, throttled), `tokens` and
//!   `sessions` (settings that persist).
//! * `front`, `commands`, `service`: the protocol. `reply`: its messages. `statements`: planning and execution of a statement. `metadata` and `info`
//!   answer requests that need no query.
//! * `logical`: SQL to a logical plan, with limits on length and depth (`complexity`), time (`parser`) and size (`expansion`,
//!   `plan_size`). `policy`: the plans that are run; all others are rejected. `settings`: the settings that clients may change.
//!   `functions`: the functions that are removed.
//! * `planning`: a logical to a physical plan (`planned`), once, on separate threads (`planners`), where it can be stopped (`stop`,
//!   `checked`). `widths`: the number of rows of a batch. `parameters`: prepared statements. `handles`: random, limited in number, valid
//!   for one user.
//! * `engine`: the state that all requests share. `locations`: hides where tables are stored. `admission`, `pool` and `guards`: limits on
//!   queries and memory. `execution` and `running`: execution, timeouts, cancellation.
//! * `wire`: batches in types that clients can read, split to size.
//! * `metrics` and `ops`: metrics, `/healthz`, `/metrics`, a log line for each query.
//!
//! Invariants: results are streamed, never collected; everything that is kept for a client is limited in number and time; queries
//! run on separate threads, so that the network threads always answer.

mod admission;
mod auth;
mod authentication;
mod checked;
mod commands;
mod complexity;
mod config;
mod connections;
mod ddl;
mod engine;
mod error;
mod execution;
mod expansion;
mod front;
mod functions;
mod graceful_close;
mod guards;
mod handles;
mod info;
mod locations;
mod logical;
mod login;
mod metadata;
mod metrics;
mod ops;
mod parameters;
mod parser;
mod plan_size;
mod planned;
mod planners;
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
mod stop;
mod tables;
mod tokens;
mod widths;
mod wire;

pub use auth::password_line;
pub use config::{Limits, PrepareFn, PrepareSession, ServerConfig, TlsFiles};
pub use connections::{ConnectionLimits, descriptors};
pub use error::ServeError;
pub use guards::HeldInputExec;
pub use server::{Server, listen, tls_of};
