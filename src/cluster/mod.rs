//! Queries on several machines, by the crate `datafusion-distributed`: a coordinator plans as always, cuts the physical plan into stages, and
//! workers run their tasks, each over its own rows of the tables. Above `session` and `flight`; below the command line.
//!
//! ```text
//! statement ─ VczQueryPlanner ─ plan ─► ClusterPlanner: distribute?  no ──► run here
//!                                          │ yes
//!                                       portable: operators in a form that can be sent
//!                                          │ datafusion-distributed cuts stages; `split` divides scans
//!                                       encode: each stage is encoded once before anything runs
//!                                          ▼
//!  ClusterExec ── stages ──► workers: decode ─ open the stores ─ scan, aggregate ──► states, rows
//! ```
//!
//! * `planner`: whether a plan is distributed, and how (`decision`); `portable`: plans in a form that can be sent; `cut`: its stages; `split`:
//!   how scans are divided; `route`: which worker runs which task; `explain`: what EXPLAIN says about it.
//! * `wire`: operators, functions and scans as bytes; `serializable`, `shuffle_input`, `stored_scan`: operators that only distributed plans have;
//!   `notices`: notices of workers.
//! * `exec`: runs a distributed plan, again without a worker that was lost, and collects notices.
//! * `workers`: which workers there are, and which answer; `channels`: connections to them; `settings`: what of a session they are told.
//! * `worker`: the worker's side; `worker_stores`: the tables that it has opened.
//!
//! Invariants: a worker gives the rows of exactly the stores that the coordinator has opened, or an error; results are the same bits as
//! without workers, except where DataFusion lets them depend on the order of rows.

mod channels;
mod config;
mod cut;
mod decision;
mod exec;
mod explain;
mod notices;
mod planner;
mod portable;
mod route;
mod serializable;
mod settings;
mod shown;
mod shuffle_input;
mod split;
mod stored_scan;
mod wire;
mod worker;
mod worker_stores;
mod workers;

pub use config::{ClusterConfig, TlsClient, WorkerConfig};
pub use planner::distribute;
pub use worker::WorkerServer;
pub use worker_stores::{OpenTable, OpenTableFn};
pub use workers::Workers;
