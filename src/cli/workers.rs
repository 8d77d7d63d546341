//! Workers on the command line: `--workers` of `vcz sql` and `vcz serve`, and the worker itself, `vcz serve --worker`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Args;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result, TableReference, exec_err};
use datafusion::execution::SessionState;
use tokio::runtime::Handle;

use super::environment::Environment;
use super::stores::{self, StoreTable};
use crate::cluster::{
    ClusterConfig, OpenTable, TlsClient, WorkerConfig, WorkerServer, Workers, distribute,
};
use crate::scan::{TableOrigin, VczTable};
use crate::session::message;

/// The arguments that name workers.
#[derive(Debug, Clone, Default, Args)]
pub struct WorkerArgs {
    /// Workers that queries with much work run on: HOST:PORT, separated by commas or given several times; dns:HOST:PORT is every address
    /// of a name, file:PATH a file with one of these on each line, which is read again when it changes
    #[arg(long, value_name = "HOST:PORT")]
    pub workers: Vec<String>,

    /// Reach workers with TLS, and check their certificates with those in this file, as PEM
    #[arg(long, value_name = "FILE")]
    pub workers_ca: Option<PathBuf>,

    /// The file of the token that workers ask for
    #[arg(long, value_name = "FILE")]
    pub worker_token_file: Option<PathBuf>,
}

impl WorkerArgs {
    /// The configuration.
    pub fn config(&self) -> ClusterConfig {
        ClusterConfig {
            workers: self.workers.clone(),
            tls: self.workers_ca.clone().map(|ca| TlsClient { ca }),
            token_file: self.worker_token_file.clone(),
        }
    }

    /// The workers, if there are some.
    ///
    /// # Errors
    /// A message, if the configuration is not valid.
    pub async fn connect(&self) -> Result<Option<Arc<Workers>>, String> {
        if self.workers.is_empty() {
            return Ok(None);
        }
        let workers = Workers::connect(&self.config()).await;
        workers.map(Some).map_err(|error| message(&error))
    }

    /// Lets the queries of `environment` run on the workers, if there are some.
    ///
    /// # Errors
    /// A message, if the configuration is not valid.
    pub async fn distribute(&self, environment: &Environment) -> Result<(), String> {
        if let Some(workers) = self.connect().await? {
            let state = environment.ctx.state();
            let distributed = distribute(state, workers).map_err(|error| message(&error))?;
            *environment.ctx.state_ref().write() = distributed;
        }
        Ok(())
    }
}

/// A function that lets the queries of a session run on `workers`.
pub fn preparing(
    workers: Arc<Workers>,
) -> Arc<dyn Fn(SessionState) -> Result<SessionState> + Send + Sync> {
    Arc::new(move |state| distribute(state, Arc::clone(&workers)))
}

/// A worker with the settings, memory and object stores of `environment`.
///
/// # Errors
/// A message, if it cannot start.
pub async fn start(config: WorkerConfig, environment: Environment) -> Result<WorkerServer, String> {
    let session = environment.ctx.copied_config();
    let runtime = environment.ctx.runtime_env();
    let environment = Arc::new(environment);
    let number = Arc::new(AtomicU64::new(0));
    let open = OpenTable(Arc::new(move |origin| {
        let (environment, number) = (Arc::clone(&environment), Arc::clone(&number));
        Box::pin(async move {
            let number = number.fetch_add(1, Ordering::Relaxed);
            let handle = Handle::current();
            // The CLI crate's statements stay on one thread.
            let opening = SpawnedTask::spawn_blocking(move || {
                handle.block_on(open(&environment, number, origin))
            });
            let opened = opening.join().await;
            opened.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?
        })
    }));
    let started = WorkerServer::start(config, session, runtime, open).await;
    started.map_err(|error| error.to_string())
}

/// Opens a table as `CREATE EXTERNAL TABLE` does, with the credentials of this process.
async fn open(
    environment: &Environment,
    number: u64,
    origin: TableOrigin,
) -> Result<Arc<VczTable>> {
    let name = format!("vcz_worker_table_{number}");
    let table = StoreTable::of_stores(&name, origin.locations);
    stores::register(environment, &table, &origin.options)
        .await
        .map_err(DataFusionError::Execution)?;
    let provider = environment
        .ctx
        .deregister_table(TableReference::bare(name.as_str()))?;
    let found = provider
        .as_ref()
        .and_then(|table| table.downcast_ref::<VczTable>());
    match found {
        Some(table) => Ok(Arc::new(table.clone())),
        None => exec_err!("the table of {} was not created", table.shown()),
    }
}
