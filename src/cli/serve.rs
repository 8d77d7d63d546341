//! `vcz serve`: reads its arguments, opens the stores, and runs the [server](crate::flight).

use std::fs;
use std::io::{self, BufRead, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use datafusion_cli::exec::exec_from_commands;
use datafusion_cli::print_format::PrintFormat;
use datafusion_cli::print_options::{MaxRows, PrintOptions};

use super::environment::{Environment, SessionArgs};
use super::workers::{self, WorkerArgs};
use super::{signals, sizes, stores};
use crate::cluster::WorkerConfig;
use crate::flight::{
    ConnectionLimits, Limits, PrepareSession, Server, ServerConfig, TlsFiles, descriptors,
    password_line,
};
use crate::scan::parse_duration;
use crate::session::message;

/// Connections that are open at the same time, unless the system or the operator says otherwise.
const MAX_CONNECTIONS: usize = 1024;

/// Stack of a worker's thread, in bytes: plans are trees, which are visited and dropped by recursion.
const WORKER_STACK: usize = 32 << 20;
/// Threads of a worker beyond two for each core.
const SPARE_THREADS: usize = 4;

/// The arguments of `vcz serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Stores to publish, each as the table named after it: 'data/1kg.chr1.vcz.zip' is the table "1kg.chr1". NAME=STORE names the
    /// table, and makes one table of several stores: genome='data/1kg.chr*.vcz.zip', a folder of stores, or NAME=STORE repeated
    #[arg(value_name = "[NAME=]STORE")]
    pub stores: Vec<String>,

    /// Populations of the samples of these stores: a TSV or CSV with the columns sample_id and population, or FILE:SAMPLE,POPULATION with the names of its columns
    #[arg(long, value_name = "FILE", requires = "stores")]
    pub populations: Option<String>,

    /// An option of these stores, as in CREATE EXTERNAL TABLE … OPTIONS, such as aws.region=eu-west-1; may be given several times.
    /// Others on this machine can see it: put keys into environment variables such as AWS_SECRET_ACCESS_KEY
    #[arg(short = 'o', long, value_name = "KEY=VALUE", value_parser = stores::option, requires = "stores")]
    pub option: Vec<(String, String)>,

    /// Run this file before serving: CREATE EXTERNAL TABLE, CREATE VIEW, SET defaults (of a worker: its vcz.gpu_… settings); may be given several times
    #[arg(long, value_name = "FILE")]
    pub sql: Vec<PathBuf>,

    /// Where to listen
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:50051", value_parser = address)]
    pub bind: SocketAddr,

    /// Where to answer /healthz and /metrics over plain HTTP; nowhere without
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    pub metrics_bind: Option<SocketAddr>,

    /// The certificate for TLS, as PEM, followed by those that sign it
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// The private key of the certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// Users who may log in, and static tokens: lines 'user NAME HASH' and 'token NAME TOKEN'; everyone may without
    #[arg(long, value_name = "FILE")]
    pub auth_file: Option<PathBuf>,

    /// Read a password from standard input, print its line for the file of users, and exit
    #[arg(long, value_name = "NAME", conflicts_with_all = ["stores", "sql", "auth_file", "tls_cert"])]
    pub hash_password: Option<String>,

    /// Allow plain text, and no users, on addresses that other machines reach
    #[arg(long)]
    pub insecure: bool,

    /// Allow clients CREATE VIEW, CREATE TABLE … AS and DROP of what they made; never files
    #[arg(long)]
    pub allow_ddl: bool,

    /// Queries that run at the same time [default: 2 for each core]
    #[arg(long, value_name = "NUMBER", value_parser = at_least_one)]
    pub max_queries: Option<usize>,

    /// Queries of one user, or of one address without users, that run at the same time [default: three quarters of all]
    #[arg(long, value_name = "NUMBER", value_parser = at_least_one)]
    pub max_queries_per_user: Option<usize>,

    /// The most relations and expressions of a statement when it is planned, copies included
    #[arg(long, value_name = "NUMBER", default_value = "20000", value_parser = at_least_one)]
    pub max_plan_size: usize,

    /// Time after which a query whose client does not read leaves its place to others; it goes on when the client reads
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub idle_result_timeout: Duration,

    /// Connections that are open at the same time [default: 1024, but at most half of the files that the process may open]
    #[arg(long, value_name = "NUMBER", value_parser = at_least_one)]
    pub max_connections: Option<usize>,

    /// Connections of one address [default: a quarter of all]
    #[arg(long, value_name = "NUMBER", value_parser = at_least_one)]
    pub max_connections_per_address: Option<usize>,

    /// Time that a connection has until its first request, TLS included
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub connection_timeout: Duration,

    /// Time after which a connection without requests is closed
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_duration)]
    pub idle_connection_timeout: Duration,

    /// Memory of all queries together
    #[arg(long, value_name = "SIZE", default_value = "4g", value_parser = sizes::parse)]
    pub memory_limit: usize,

    /// Memory of one query [default: half of that of all]
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    pub query_memory_limit: Option<usize>,

    /// Disk space for queries that spill [default: 100g]
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    pub disk_limit: Option<usize>,

    /// Time of one query until its last row is sent
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_duration)]
    pub query_timeout: Duration,

    /// Time that a query waits while others run
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    pub queue_timeout: Duration,

    /// Time that running queries have to end when the server is stopped
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    pub shutdown_timeout: Duration,

    /// How long a login is valid
    #[arg(long, value_name = "TIME", default_value = "12h", value_parser = parse_duration)]
    pub token_lifetime: Duration,

    /// Be a worker: run parts of other servers' queries, over stores that it opens itself. Clients are not served
    #[arg(long, conflicts_with_all = ["stores", "auth_file", "allow_ddl", "hash_password"])]
    pub worker: bool,

    /// Partitions of a scan that a worker runs at the same time [default: one for each core]
    #[arg(long, value_name = "NUMBER", value_parser = at_least_one, requires = "worker")]
    pub worker_partitions: Option<usize>,

    #[command(flatten)]
    pub workers: WorkerArgs,
}

/// Runs `vcz serve`.
///
/// # Errors
/// A message, if a store cannot be opened, a statement of --sql fails, or the server cannot start.
pub async fn run(args: ServeArgs) -> Result<(), String> {
    if let Some(name) = &args.hash_password {
        return hash_password(name);
    }
    if args.worker {
        return work(&args).await;
    }
    let environment = publish(&args).await?;
    let mut config = config(&args);
    if let Some(workers) = args.workers.connect().await? {
        config.prepare = PrepareSession(Some(workers::preparing(workers)));
    }
    let server = Server::start(config, &environment.ctx)
        .await
        .map_err(|error| error.to_string())?;
    let address = server.address().map_err(|error| error.to_string())?;
    let scheme = if args.tls_cert.is_some() {
        "grpc+tls"
    } else {
        "grpc+tcp"
    };
    log::info!(address:% = address; "Flight SQL at {scheme}://{address}");
    if let Some(address) = server
        .metrics_address()
        .map_err(|error| error.to_string())?
    {
        log::info!(address:% = address; "http://{address}/healthz and /metrics");
    }
    let served = server.run(asked_to_stop()?).await;
    // Queries that did not end in time still have spill files.
    signals::remove_spill_files(&environment.ctx.runtime_env().disk_manager);
    served.map_err(|error| error.to_string())
}

/// Runs the files of `--sql`.
async fn run_files(args: &ServeArgs, environment: &Environment) -> Result<(), String> {
    let cli = environment.cli();
    for file in &args.sql {
        let shown = file.display();
        let sql =
            fs::read_to_string(file).map_err(|error| format!("cannot read '{shown}': {error}"))?;
        let silent = PrintOptions {
            format: PrintFormat::Automatic,
            quiet: true,
            maxrows: MaxRows::Limited(0),
            color: false,
            instrumented_registry: environment.stores.clone(),
        };
        exec_from_commands(&cli, vec![sql], &silent)
            .await
            .map_err(|error| format!("'{shown}': {}", message(&error)))?;
    }
    Ok(())
}

/// Runs a worker.
async fn work(args: &ServeArgs) -> Result<(), String> {
    let session = SessionArgs {
        disk_limit: args.disk_limit,
        memory_limit: Some(args.memory_limit),
        ..SessionArgs::defaults()
    };
    let environment = Environment::new(&session, false)
        .await
        .map_err(|error| message(&error))?;
    run_files(args, &environment).await?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let config = WorkerConfig {
        bind: args.bind,
        metrics_bind: args.metrics_bind,
        tls: tls(args),
        insecure: args.insecure,
        partitions: args.worker_partitions.unwrap_or(cores),
        cluster: args.workers.config(),
    };
    let disk = Arc::clone(&environment.ctx.runtime_env().disk_manager);
    let worker = workers::start(config, environment).await?;
    let address = worker.address().map_err(|error| error.to_string())?;
    log::info!(address:% = address; "worker at {address}");
    let metrics = worker.metrics_address();
    if let Some(address) = metrics.map_err(|error| error.to_string())? {
        log::info!(address:% = address; "http://{address}/healthz and /metrics");
    }
    // More threads than cores, so that connections are answered while tasks compute.
    let threads = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.saturating_mul(2) + SPARE_THREADS)
        .thread_name("vcz-worker")
        .thread_stack_size(WORKER_STACK)
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start threads: {error}"))?;
    let served = threads.spawn(worker.run(asked_to_stop()?)).await;
    threads.shutdown_background();
    signals::remove_spill_files(&disk);
    let served = served.map_err(|error| error.to_string())?;
    served.map_err(|error| error.to_string())
}

/// The files of TLS, if they are given.
fn tls(args: &ServeArgs) -> Option<TlsFiles> {
    match (&args.tls_cert, &args.tls_key) {
        (Some(cert), Some(key)) => Some(TlsFiles {
            cert: cert.clone(),
            key: key.clone(),
        }),
        _ => None,
    }
}

/// The operator's session, with every table that is published.
async fn publish(args: &ServeArgs) -> Result<Environment, String> {
    let tables = stores::tables(&args.stores)?;
    let session = SessionArgs {
        disk_limit: args.disk_limit,
        ..SessionArgs::defaults()
    };
    let environment = Environment::new(&session, false)
        .await
        .map_err(|error| message(&error))?;
    let options = stores::options(args.populations.as_deref(), &args.option);
    stores::register_all(&environment, &tables, &options, |table| {
        let name = stores::quoted(&table.name);
        log::info!(table = table.name.as_str(); "{} is the table {name}", table.shown());
    })
    .await?;
    run_files(args, &environment).await?;
    Ok(environment)
}

fn config(args: &ServeArgs) -> ServerConfig {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let max_queries = args.max_queries.unwrap_or(2 * cores);
    let half = descriptors().map_or(MAX_CONNECTIONS, |most| (most / 2).max(1));
    let max_connections = args.max_connections.unwrap_or(MAX_CONNECTIONS.min(half));
    ServerConfig {
        bind: args.bind,
        metrics_bind: args.metrics_bind,
        tls: tls(args),
        auth_file: args.auth_file.clone(),
        insecure: args.insecure,
        allow_ddl: args.allow_ddl,
        prepare: PrepareSession::default(),
        limits: Limits {
            max_queries,
            // With two or more, at least one is left to other users.
            max_queries_of_one: args
                .max_queries_per_user
                .unwrap_or(max_queries - max_queries.div_ceil(4))
                .clamp(1, max_queries),
            plan_size: args.max_plan_size,
            idle_timeout: args.idle_result_timeout,
            connections: ConnectionLimits {
                most: max_connections,
                of_one: args
                    .max_connections_per_address
                    .unwrap_or(max_connections.div_ceil(4)),
                begin: args.connection_timeout,
                idle: args.idle_connection_timeout,
            },
            memory: args.memory_limit,
            query_memory: args
                .query_memory_limit
                .unwrap_or((args.memory_limit / 2).max(1)),
            query_timeout: args.query_timeout,
            queue_timeout: args.queue_timeout,
            shutdown_timeout: args.shutdown_timeout,
            token_lifetime: args.token_lifetime,
            max_partitions: 2 * cores,
        },
    }
}

/// Completes on SIGINT (Ctrl-C) or SIGTERM.
#[cfg(unix)]
fn asked_to_stop() -> Result<impl Future<Output = ()> + Send + 'static, String> {
    use tokio::signal::unix::{SignalKind, signal};
    let failed = |error: io::Error| format!("cannot listen to signals: {error}");
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Completes on Ctrl-C.
#[cfg(not(unix))]
fn asked_to_stop() -> Result<impl Future<Output = ()> + Send + 'static, String> {
    Ok(async {
        // Without Ctrl-C, the process has to be killed.
        let _ = tokio::signal::ctrl_c().await;
    })
}

fn hash_password(name: &str) -> Result<(), String> {
    let mut password = String::new();
    io::stdin()
        .lock()
        .read_line(&mut password)
        .map_err(|error| format!("cannot read standard input: {error}"))?;
    let line = password_line(name, password.trim_end_matches(['\n', '\r']))?;
    writeln!(io::stdout(), "{line}").map_err(|error| format!("cannot print: {error}"))
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let expected = "expected an address and a port, such as 127.0.0.1:50051";
    let mut found = text
        .to_socket_addrs()
        .map_err(|error| format!("{expected}: {error}"))?;
    found.next().ok_or_else(|| expected.to_string())
}

fn at_least_one(number: &str) -> Result<usize, String> {
    match number.parse::<usize>() {
        Ok(number) if (1..=100_000).contains(&number) => Ok(number),
        _ => Err("expected a whole number of at least 1".to_string()),
    }
}
