//! The server: it checks its configuration, listens, serves, and waits for running queries when it stops.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arrow_flight::flight_service_server::FlightServiceServer;
use datafusion::prelude::SessionContext;
use futures::stream;
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tonic::transport::{Identity as TlsIdentity, ServerTlsConfig};

use super::auth::Users;
use super::authentication::{Gate, Identity};
use super::config::{MAX_MESSAGE_BYTES, QUERY_STACK, ServerConfig, TlsFiles};
use super::connections::{ConnectionLimits, Connections};
use super::engine::QueryEngine;
use super::error::ServeError;
use super::front::Front;
use super::login::Logins;
use super::ops::{self, Accepting, Ops};
use super::service::Service;
use super::sessions::Sessions;
use super::tokens::Tokens;

/// How often expired values are removed.
const SWEEP: Duration = Duration::from_secs(10);
/// How often connections that have exceeded a time limit are closed.
const SWEEP_CONNECTIONS: Duration = Duration::from_secs(1);
/// Limits of the connections to the metrics port. Clients of metrics reconnect when a connection was closed.
const OPERATORS: ConnectionLimits = ConnectionLimits {
    most: 64,
    of_one: 32,
    begin: Duration::from_secs(10),
    idle: Duration::from_secs(10),
};
/// An idle connection is probed after this time, and closed if it does not answer within the timeout.
const KEEPALIVE: Duration = Duration::from_secs(30);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// Concurrent requests on one connection.
const MAX_STREAMS: u32 = 256;
/// Time limit of the TLS handshake.
const TLS_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest headers of a request, in bytes.
const MAX_HEADERS: u32 = 16 << 10;

/// A server that listens but does not accept requests yet.
pub struct Server {
    config: ServerConfig,
    engine: Arc<QueryEngine>,
    identity: Arc<Identity>,
    service: Service,
    tls: Option<ServerTlsConfig>,
    listener: TcpListener,
    metrics: Option<TcpListener>,
    /// The connections to the port of Flight SQL, and to that of metrics.
    connections: Arc<Connections>,
    operators: Arc<Connections>,
    threads: Runtime,
}

impl Server {
    /// Checks the configuration, publishes the tables of `ctx` and listens.
    ///
    /// # Errors
    /// An address in use, an invalid certificate, an invalid line in the file of users, or an unsafe configuration.
    pub async fn start(config: ServerConfig, ctx: &SessionContext) -> Result<Self, ServeError> {
        check_exposure(&config)?;
        let logins = match &config.auth_file {
            Some(file) => Some(Logins::new(Arc::new(Users::read(file)?))),
            None => None,
        };
        let tls = config.tls.as_ref().map(tls_of).transpose()?;
        let listener = listen(config.bind)?;
        let metrics = match config.metrics_bind {
            Some(address) => Some(listen(address)?),
            None => None,
        };
        let threads = Builder::new_multi_thread()
            .thread_name("vcz-query")
            .thread_stack_size(QUERY_STACK)
            // More threads than cores, so that operators that compute for long do not block the tasks of other queries.
            .worker_threads(cores().saturating_add(config.limits.max_queries))
            .enable_all()
            .build()
            .map_err(|error| ServeError::Stopped(format!("cannot start threads: {error}")))?;
        let engine = match QueryEngine::new(ctx, &config, threads.handle().clone()).await {
            Ok(engine) => Arc::new(engine),
            Err(error) => {
                threads.shutdown_background();
                return Err(error);
            }
        };
        let identity = Arc::new(Identity::new(
            logins,
            Tokens::new(config.limits.token_lifetime),
            Sessions::new(engine.defaults.clone()),
        ));
        let service = Service::new(Arc::clone(&engine), Arc::clone(&identity))
            .map_err(|status| ServeError::Stopped(status.message().to_string()))?;
        let connections = Connections::new("flight", config.limits.connections);
        let operators = Connections::new("metrics", OPERATORS);
        Ok(Self {
            connections,
            operators,
            config,
            engine,
            identity,
            service,
            tls,
            listener,
            metrics,
            threads,
        })
    }

    /// The address that Flight SQL listens on.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The address that `/healthz` and `/metrics` are served on.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn metrics_address(&self) -> io::Result<Option<SocketAddr>> {
        self.metrics
            .as_ref()
            .map(TcpListener::local_addr)
            .transpose()
    }

    /// Serves until `stop`; then waits for running queries, for at most `shutdown_timeout`.
    ///
    /// # Errors
    /// If serving fails.
    pub async fn run(
        self,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), ServeError> {
        let (stop_sender, stopped) = watch::channel(false);
        let wait = |mut stopped: watch::Receiver<bool>| async move {
            // An error means that the sender was dropped, which stops the server too.
            let _ = stopped.wait_for(|stopped| *stopped).await;
        };
        let stopping = Arc::new(AtomicBool::new(false));
        let sweeper = tokio::spawn(sweep(
            Arc::clone(&self.engine),
            Arc::clone(&self.identity),
            vec![Arc::clone(&self.connections), Arc::clone(&self.operators)],
        ));
        let (ended_sender, ended) = watch::channel(false);
        let operators = self.metrics.map(|listener| {
            let ops = Ops {
                engine: Arc::clone(&self.engine),
                identity: Arc::clone(&self.identity),
                connections: Arc::clone(&self.connections),
                stopping: Arc::clone(&stopping),
            };
            let listener = Accepting::new(listener, Arc::clone(&self.operators));
            tokio::spawn(ops::serve(listener, ops, wait(ended)))
        });
        let flight = FlightServiceServer::new(Front(self.service))
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(usize::MAX);
        let mut server = tonic::transport::Server::builder()
            .http2_keepalive_interval(Some(KEEPALIVE))
            .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
            .http2_max_header_list_size(MAX_HEADERS)
            .max_concurrent_streams(MAX_STREAMS);
        if let Some(tls) = self.tls {
            server = server
                .tls_config(tls)
                .map_err(|error| ServeError::Stopped(describe(&error)))?;
        }
        let listening = (self.listener, Arc::clone(&self.connections));
        let incoming = stream::unfold(listening, |(listener, connections)| async move {
            let (accepted, _) = connections.accept(&listener).await;
            Some((Ok::<_, io::Error>(accepted), (listener, connections)))
        });
        let serving = server
            .add_service(Gate::new(flight, Arc::clone(&self.identity)))
            .serve_with_incoming_shutdown(incoming, wait(stopped.clone()));
        let mut serving = std::pin::pin!(serving);
        let result = tokio::select! {
            result = &mut serving => result.map_err(|error| ServeError::Stopped(describe(&error))),
            () = stop => {
                stopping.store(true, Ordering::Relaxed);
                let limit = self.config.limits.shutdown_timeout;
                log::info!(running = self.engine.admission.running(); "stopping; running queries have {limit:?} to end");
                // Sending cannot fail: the receivers are held above.
                let _ = stop_sender.send(true);
                match tokio::time::timeout(limit, &mut serving).await {
                    Ok(result) => result.map_err(|error| ServeError::Stopped(describe(&error))),
                    Err(_) => {
                        log::warn!(running = self.engine.admission.running(); "queries that did not end are cancelled");
                        self.engine.admission.close();
                        self.engine.running.cancel_all();
                        // Cancelled queries still report their error to their clients.
                        let _ = tokio::time::timeout(Duration::from_secs(2), &mut serving).await;
                        Ok(())
                    }
                }
            }
        };
        sweeper.abort();
        let _ = ended_sender.send(true);
        if let Some(operators) = operators {
            // An open connection to the metrics port does not delay shutdown.
            let _ = tokio::time::timeout(Duration::from_secs(1), operators).await;
        }
        self.threads.shutdown_background();
        result
    }
}

/// Returns an error for configurations that would expose data or passwords to a network.
fn check_exposure(config: &ServerConfig) -> Result<(), ServeError> {
    if config.bind.ip().is_loopback() || config.insecure {
        return Ok(());
    }
    let address = config.bind;
    if config.tls.is_none() {
        return Err(ServeError::Configuration(format!(
            "{address} is reached by other machines, and without TLS data and passwords can be read on the network: give \
             --tls-cert and --tls-key, or bind to 127.0.0.1, or allow it with --insecure"
        )));
    }
    if config.auth_file.is_none() {
        return Err(ServeError::Configuration(format!(
            "{address} is reached by other machines, and without users anyone can read the tables: give \
             --auth-file, or bind to 127.0.0.1, or allow it with --insecure"
        )));
    }
    Ok(())
}

/// The TLS of a server with these files.
///
/// # Errors
/// If a file cannot be read, or has no certificate or key.
pub fn tls_of(files: &TlsFiles) -> Result<ServerTlsConfig, ServeError> {
    let read = |what, path: &std::path::Path| {
        std::fs::read(path).map_err(|source| ServeError::File {
            what,
            path: path.to_path_buf(),
            source,
        })
    };
    // Several crypto providers are compiled in, so one has to be chosen; an error means that one was chosen already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let cert = read("certificate", &files.cert)?;
    let key = read("private key", &files.key)?;
    let config = ServerTlsConfig::new()
        .identity(TlsIdentity::from_pem(cert, key))
        .timeout(TLS_TIMEOUT);
    // Checked here, because a later error would not name the files.
    match tonic::transport::Server::builder().tls_config(config.clone()) {
        Ok(_) => Ok(config),
        Err(error) => Err(ServeError::Certificate {
            cert: files.cert.clone(),
            key: files.key.clone(),
            reason: describe(&error),
        }),
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Connections that may wait until they are accepted, as far as the system allows it. When the queue is full Linux drops the first packet of a
/// connection, and a client waits a second before it tries again.
const WAITING: u32 = 4096;

/// Listens on an address.
///
/// # Errors
/// If it is in use, or not of this machine.
pub fn listen(address: SocketAddr) -> Result<TcpListener, ServeError> {
    let listening = || {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        // Elsewhere the option would let two programs listen on one address.
        #[cfg(unix)]
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(WAITING)
    };
    listening().map_err(|source| ServeError::Listen { address, source })
}

/// An error with its causes, which `Display` of some libraries leaves out.
fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

async fn sweep(
    engine: Arc<QueryEngine>,
    identity: Arc<Identity>,
    connections: Vec<Arc<Connections>>,
) {
    let mut interval = tokio::time::interval(SWEEP_CONNECTIONS);
    let mut swept = Instant::now();
    loop {
        interval.tick().await;
        connections.iter().for_each(|of_port| of_port.sweep());
        if swept.elapsed() < SWEEP {
            continue;
        }
        swept = Instant::now();
        engine.tickets.sweep();
        engine.statements.sweep();
        identity.tokens.sweep();
        identity.sessions.sweep();
    }
}
