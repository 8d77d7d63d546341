//! The configuration of a cluster: where the workers are, and how they are reached.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::flight::TlsFiles;

/// The workers of a coordinator.
#[derive(Debug, Clone, Default)]
pub struct ClusterConfig {
    /// Where workers are: `HOST:PORT`; `dns:HOST:PORT` for every address of a name; `file:PATH` for a file with one of these on each line,
    /// which is read again and again.
    pub workers: Vec<String>,
    /// Connections with TLS; without it they are plain.
    pub tls: Option<TlsClient>,
    /// The file of the token that workers ask for.
    pub token_file: Option<PathBuf>,
}

/// How the certificates of workers are checked.
#[derive(Debug, Clone)]
pub struct TlsClient {
    /// The certificates of those who sign them, as PEM.
    pub ca: PathBuf,
}

/// The configuration of a worker.
#[derive(Debug, Clone)]
pub struct WorkerConfig {
    /// The address that coordinators and other workers reach; with port 0 the system chooses a free port.
    pub bind: SocketAddr,
    /// The address of `/healthz` and `/metrics`, over plain HTTP; `None` for none.
    pub metrics_bind: Option<SocketAddr>,
    /// The certificate; without one, connections are not encrypted.
    pub tls: Option<TlsFiles>,
    /// Allow connections without encryption or token on addresses that other machines reach.
    pub insecure: bool,
    /// How many partitions of a scan it runs at the same time.
    pub partitions: usize,
    /// How other workers are reached, and the token that is asked for.
    pub cluster: ClusterConfig,
}
