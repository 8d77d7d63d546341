//! [`Channels`]: connections to workers, with TLS, the token, and limits on the time that a worker may be silent. Errors name the worker.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use axum::http::{HeaderMap, HeaderValue, Request, header};
use datafusion::common::{DataFusionError, Result, config_datafusion_err, exec_datafusion_err};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_distributed::{
    ChannelResolver, CoordinatorToWorkerMsg, ExecuteTaskRequest, GetWorkerInfoRequest,
    GetWorkerInfoResponse, SetPlanRequest, WorkerChannel, WorkerToCoordinatorMsg, grpc,
};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use url::Url;

use super::config::ClusterConfig;
use super::shown::shown;

/// Time to connect, with TLS.
const CONNECT: Duration = Duration::from_secs(5);
/// Time after which a silent worker is asked whether it is there, and time that it has to answer.
const KEEPALIVE: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(5)];

/// Time that a worker has to begin a task.
const ANSWER: Duration = Duration::from_secs(30);

/// Connections to workers.
pub struct Channels {
    tls: Option<ClientTlsConfig>,
    token: Option<HeaderValue>,
    open: Mutex<HashMap<Url, Channel>>,
    /// The names that certificates must have, of workers that were found by an address of a name.
    names: Mutex<HashMap<Url, String>>,
}

impl std::fmt::Debug for Channels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Channels").finish_non_exhaustive()
    }
}

/// The value of the header that carries the token in a file.
///
/// # Errors
/// If the file cannot be read, or has no token.
pub fn token(path: &Path) -> Result<HeaderValue> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        config_datafusion_err!("cannot read the token '{}': {error}", path.display())
    })?;
    let token = text.trim();
    let value = HeaderValue::from_str(&format!("Bearer {token}"));
    match value {
        Ok(mut value) if token.len() >= 16 => {
            value.set_sensitive(true);
            Ok(value)
        }
        _ => Err(config_datafusion_err!(
            "'{}' is not a token: expected one line of at least 16 printable characters",
            path.display()
        )),
    }
}

impl Channels {
    /// No connections yet.
    ///
    /// # Errors
    /// If a file of the configuration cannot be read.
    pub fn new(config: &ClusterConfig) -> Result<Self> {
        let tls = config.tls.as_ref().map(|tls| {
            let pem = std::fs::read(&tls.ca).map_err(|error| {
                let path = tls.ca.display();
                config_datafusion_err!("cannot read the certificates '{path}': {error}")
            })?;
            // Several crypto providers are compiled in, so one has to be chosen; an error means that one was chosen already.
            let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
            Ok::<_, DataFusionError>(
                ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)),
            )
        });
        let token = config.token_file.as_deref().map(token).transpose()?;
        Ok(Self {
            tls: tls.transpose()?,
            token,
            open: Mutex::default(),
            names: Mutex::default(),
        })
    }

    /// Says which name the certificate of a worker must have, instead of its address.
    pub fn expect_name(&self, url: &Url, name: &str) {
        self.names.lock().insert(url.clone(), name.to_string());
    }

    /// The names that certificates must have.
    pub fn names(&self) -> Vec<(Url, String)> {
        let names = self.names.lock();
        names
            .iter()
            .map(|(url, name)| (url.clone(), name.clone()))
            .collect()
    }

    /// Closes the connection to a worker, so that the next request opens another.
    pub fn forget(&self, url: &Url) {
        self.open.lock().remove(url);
    }

    async fn channel(&self, url: &Url) -> Result<Channel> {
        if let Some(channel) = self.open.lock().get(url) {
            return Ok(channel.clone());
        }
        let failed = |error: String| exec_datafusion_err!("worker {}: {error}", shown(url));
        let mut endpoint = Endpoint::from_shared(url.to_string())
            .map_err(|error| failed(error.to_string()))?
            .connect_timeout(CONNECT)
            .http2_keep_alive_interval(KEEPALIVE[0])
            .keep_alive_timeout(KEEPALIVE[1])
            .keep_alive_while_idle(true);
        if let Some(tls) = &self.tls {
            let tls = match self.names.lock().get(url) {
                Some(name) => tls.clone().domain_name(name),
                None => tls.clone(),
            };
            let configured = endpoint.tls_config(tls);
            endpoint = configured.map_err(|error| failed(error.to_string()))?;
        }
        // A process that was stopped accepts connections and then is silent.
        let channel = match tokio::time::timeout(CONNECT, endpoint.connect()).await {
            Ok(connected) => connected.map_err(|error| failed(described(&error)))?,
            Err(_) => return Err(failed(format!("no connection within {CONNECT:?}"))),
        };
        self.open.lock().insert(url.clone(), channel.clone());
        Ok(channel)
    }
}

/// An error with its causes.
fn described(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[async_trait]
impl ChannelResolver for Channels {
    async fn get_worker_client_for_url(&self, url: &Url) -> Result<Box<dyn WorkerChannel>> {
        let channel = WithToken {
            inner: self.channel(url).await?,
            token: self.token.clone(),
        };
        let client = grpc::create_worker_client(grpc::BoxCloneSyncChannel::new(channel));
        Ok(Box::new(NamedWorker {
            client,
            name: Arc::from(shown(url)),
        }))
    }
}

/// Sends the token with each request.
#[derive(Clone)]
struct WithToken<S> {
    inner: S,
    token: Option<HeaderValue>,
}

impl<S: Service<Request<Body>>> Service<Request<Body>> for WithToken<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<std::result::Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> S::Future {
        if let Some(token) = &self.token {
            let headers = request.headers_mut();
            headers.insert(header::AUTHORIZATION, token.clone());
        }
        self.inner.call(request)
    }
}

/// A worker whose errors name it.
struct NamedWorker {
    client: Box<dyn WorkerChannel>,
    name: Arc<str>,
}

fn on(name: &str, error: DataFusionError) -> DataFusionError {
    error.context(format!("worker {name}"))
}

/// What a worker answers; an error that names it if that takes too long.
async fn in_time<T>(name: &str, asked: impl Future<Output = Result<T>>) -> Result<T> {
    match tokio::time::timeout(ANSWER, asked).await {
        Ok(answer) => answer.map_err(|error| on(name, error)),
        Err(_) => Err(exec_datafusion_err!(
            "worker {name}: no answer within {ANSWER:?}"
        )),
    }
}

#[async_trait]
impl WorkerChannel for NamedWorker {
    async fn coordinator_channel(
        &mut self,
        headers: HeaderMap,
        request: SetPlanRequest,
        messages: BoxStream<'static, CoordinatorToWorkerMsg>,
        metrics: ExecutionPlanMetricsSet,
        task: &Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<WorkerToCoordinatorMsg>>> {
        let name = Arc::clone(&self.name);
        let asked = self
            .client
            .coordinator_channel(headers, request, messages, metrics, task);
        let answers = in_time(&name, asked).await?;
        Ok(answers.map_err(move |error| on(&name, error)).boxed())
    }

    async fn execute_task(
        &mut self,
        headers: HeaderMap,
        request: ExecuteTaskRequest,
        metrics: ExecutionPlanMetricsSet,
        task: &Arc<TaskContext>,
    ) -> Result<Vec<BoxStream<'static, Result<RecordBatch>>>> {
        let asked = self.client.execute_task(headers, request, metrics, task);
        let streams = in_time(&self.name, asked).await?;
        let streams = streams.into_iter().map(|rows| {
            let name = Arc::clone(&self.name);
            rows.map_err(move |error| on(&name, error)).boxed()
        });
        Ok(streams.collect())
    }

    async fn get_worker_info(
        &mut self,
        request: GetWorkerInfoRequest,
    ) -> Result<GetWorkerInfoResponse> {
        let answer = self.client.get_worker_info(request).await;
        answer.map_err(|error| on(&self.name, error))
    }
}
