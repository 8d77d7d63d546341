//! Execution of planned queries: rows are computed and encoded on the query threads, at most a few messages ahead of the client. A
//! query stops when its client disconnects, it is cancelled or its time is over, and then releases its permit and its memory. A query
//! whose client does not read releases its permit until the client does. The last message of a query with notices has them.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use arrow_flight::FlightData;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use datafusion::common::Result;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::time::Sleep;
use tonic::Status;

use super::admission::QueryPermit;
use super::engine::QueryEngine;
use super::handles::Handle;
use super::metrics::Outcome;
use super::planned::{Planned, Rows};
use super::sessions::ClientSession;
use super::{error, reply, wire};
use crate::scan::notices::NoticeSink;

/// The maximum number of messages that are computed ahead of the client.
const AHEAD: usize = 2;

/// The time after its time limit in which a query may still report it itself.
const GRACE: Duration = Duration::from_millis(500);

/// The entry of a query in [`running`](super::running), removed when dropped.
struct Entry {
    engine: Arc<QueryEngine>,
    handle: Handle,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.engine.running.remove(&self.handle);
    }
}

/// Starts a planned query and returns its messages. The stream ends without an error only if the query did.
pub fn start(
    engine: &Arc<QueryEngine>,
    client: &Arc<ClientSession>,
    handle: Handle,
    planned: Planned,
    permit: QueryPermit,
) -> BoxStream<'static, Result<FlightData, Status>> {
    let user = &client.user;
    let cancelled = engine.running.insert(user, handle);
    let entry = Entry {
        engine: Arc::clone(engine),
        handle,
    };
    let time_left = (engine.limits.query_timeout).saturating_sub(planned.planning);
    let (sender, receiver) = mpsc::channel(AHEAD);
    let end = Arc::new(Mutex::new(None));
    let mut report = Report {
        engine: Arc::clone(engine),
        query: engine.next_query(),
        user: Arc::clone(user),
        started: Instant::now(),
        rows: Arc::default(),
        bytes_sent: 0,
        plans: match &planned.rows {
            Rows::Plans(plans) => plans.iter().map(|(plan, _)| Arc::clone(plan)).collect(),
            Rows::Batches(_) => vec![],
        },
        notices: planned.notices.clone(),
        outcome: Outcome::Stopped,
    };
    let task = {
        let (engine, end) = (Arc::clone(engine), Arc::clone(&end));
        let schema = Arc::clone(&planned.schema);
        let mut place = QueryPlace {
            engine: Arc::clone(&engine),
            client: Arc::clone(&client.share),
            permit: Some(permit),
        };
        async move {
            let result = drive(
                &engine,
                planned,
                &sender,
                cancelled,
                &mut place,
                &mut report,
            )
            .await;
            report.outcome = match &result {
                Ok(()) => Outcome::Done,
                Err(Ended::ClientLeft) => Outcome::ClientLeft,
                Err(Ended::Failed(status)) => Outcome::of(status.code()),
            };
            if let Err(Ended::Failed(status)) = &result {
                log::info!(query = report.query, code:? = status.code(); "not finished: {:?}", status.message());
            }
            let notices = reply::notices_json(&report.take_notices(), &engine.locations);
            // Everything is released before the client is told that the query has ended.
            drop((entry, place, report));
            *end.lock() = match result {
                Ok(()) if notices.is_empty() => Some(Ok(None)),
                Ok(()) => Some(reply::notices_message(&schema, notices).map(Some)),
                Err(Ended::Failed(status)) => Some(Err(engine.locations.hide_in_status(status))),
                Err(Ended::ClientLeft) => None,
            };
            drop(sender);
        }
    };
    engine.threads.spawn(task);
    Box::pin(Messages {
        receiver,
        end,
        limit: Box::pin(tokio::time::sleep(time_left + GRACE)),
        time: engine.limits.query_timeout,
        done: false,
    })
}

/// Why a query ended early.
enum Ended {
    ClientLeft,
    Failed(Status),
}

/// The permit of a query, which is released while its client does not read.
struct QueryPlace {
    engine: Arc<QueryEngine>,
    client: Arc<str>,
    permit: Option<QueryPermit>,
}

impl QueryPlace {
    /// Waits until a message is sent. If that takes long, releases the permit, and waits for another one afterwards.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if the client leaves too many results unread, UNAVAILABLE if no permit is free in time afterwards.
    async fn while_sending<T>(&mut self, sending: impl Future<Output = T>) -> Result<T, Status> {
        let mut sending = std::pin::pin!(sending);
        let idle = self.engine.limits.idle_timeout;
        if let Ok(sent) = tokio::time::timeout(idle, &mut sending).await {
            return Ok(sent);
        }
        let Some(_idle) = self.engine.idle.try_enter(&self.client) else {
            return Err(Status::resource_exhausted(format!(
                "the result was not read for {idle:?}, and so were others, as many as this server keeps; read or close results"
            )));
        };
        drop(self.permit.take());
        let sent = sending.await;
        self.permit = Some(self.engine.admission.enter(&self.client).await?);
        Ok(sent)
    }
}

/// Computes the messages and sends them to the network task.
async fn drive(
    engine: &QueryEngine,
    planned: Planned,
    sender: &mpsc::Sender<FlightData>,
    mut cancelled: watch::Receiver<bool>,
    place: &mut QueryPlace,
    report: &mut Report,
) -> Result<(), Ended> {
    let failed = |error| Ended::Failed(error::status(&error));
    let options = planned
        .settings
        .compression
        .write_options()
        .map_err(failed)?;
    let batches = match planned.rows {
        Rows::Plans(plans) => stream::iter(plans)
            .map(|(plan, context)| execute_stream(plan, context))
            .try_flatten()
            .boxed(),
        Rows::Batches(batches) => stream::iter(batches.into_iter().map(Ok)).boxed(),
    };
    let planning = planned.planning;
    let shows_plans = planned.shows_plans;
    let locations = Arc::clone(&engine.locations);
    let batches = batches.map(move |batch| match shows_plans {
        true => batch.and_then(|batch| locations.hide_in_rows(&batch)),
        false => batch,
    });
    let (schema, bytes) = (Arc::clone(&planned.schema), planned.settings.message_bytes);
    let rows = Arc::clone(&report.rows);
    let pieces = batches.flat_map(move |batch| {
        let pieces = batch
            .map_err(|error| error::status(&error))
            .and_then(|batch| {
                rows.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
                wire::pieces(&batch, &schema, bytes).map_err(error::arrow_status)
            });
        stream::iter(match pieces {
            Ok(pieces) => pieces.into_iter().map(Ok).collect(),
            Err(status) => vec![Err(FlightError::Tonic(Box::new(status)))],
        })
    });
    let mut messages = FlightDataEncoderBuilder::new()
        .with_schema(planned.schema)
        .with_options(options)
        // `wire` has already split the batches by the bytes of their rows.
        .with_max_flight_data_size(usize::MAX)
        .build(pieces);
    let time_left = engine.limits.query_timeout.saturating_sub(planning);
    let mut stop = std::pin::pin!(async {
        tokio::select! {
            // The sender lives as long as the query, so this completes only on cancellation.
            _ = cancelled.wait_for(|cancelled| *cancelled) => Ended::Failed(Status::cancelled("the query was cancelled")),
            () = tokio::time::sleep(time_left) => Ended::Failed(error::too_late(engine.limits.query_timeout)),
            () = sender.closed() => Ended::ClientLeft,
        }
    });
    loop {
        let message = tokio::select! {
            biased;
            ended = &mut stop => return Err(ended),
            message = messages.next() => message,
        };
        let message = match message {
            None => return Ok(()),
            Some(Ok(message)) => message,
            Some(Err(FlightError::Tonic(status))) => return Err(Ended::Failed(*status)),
            Some(Err(error)) => return Err(Ended::Failed(Status::internal(error.to_string()))),
        };
        let size = message.data_header.len() + message.data_body.len();
        tokio::select! {
            biased;
            ended = &mut stop => return Err(ended),
            sent = place.while_sending(sender.send(message)) => sent.map_err(Ended::Failed)?.map_err(|_| Ended::ClientLeft)?,
        }
        report.bytes_sent += size as u64;
    }
}

/// How a query ended, with its last message if that is not a message of rows; `None` while it runs.
type End = Arc<Mutex<Option<Result<Option<FlightData>, Status>>>>;

/// The messages of a query, then its notices or its error if it has any.
struct Messages {
    receiver: mpsc::Receiver<FlightData>,
    end: End,
    /// The time at which the client gets the time limit's error, even if the query's operators have not stopped yet.
    limit: Pin<Box<Sleep>>,
    time: Duration,
    done: bool,
}

impl Stream for Messages {
    type Item = Result<FlightData, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.done {
            return Poll::Ready(None);
        }
        match self.receiver.poll_recv(context) {
            Poll::Pending if self.limit.as_mut().poll(context).is_ready() => {
                self.done = true;
                self.receiver.close();
                Poll::Ready(Some(Err(error::too_late(self.time))))
            }
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(message)) => Poll::Ready(Some(Ok(message))),
            Poll::Ready(None) => {
                self.done = true;
                let end = self.end.lock().take();
                Poll::Ready(match end {
                    Some(Ok(last)) => last.map(Ok),
                    Some(Err(status)) => Some(Err(status)),
                    // The task panicked or the server stops, so rows are missing.
                    None => Some(Err(Status::aborted("the query was stopped by the server"))),
                })
            }
        }
    }
}

/// Logs and counts a query when it ends, in whatever way.
struct Report {
    engine: Arc<QueryEngine>,
    query: u64,
    user: Arc<str>,
    started: Instant,
    rows: Arc<AtomicU64>,
    bytes_sent: u64,
    plans: Vec<Arc<dyn ExecutionPlan>>,
    notices: NoticeSink,
    outcome: Outcome,
}

impl Report {
    /// Takes the notices so far and logs them.
    fn take_notices(&self) -> Vec<String> {
        let notices = self.notices.take();
        for notice in &notices {
            log::warn!(query = self.query; "{notice}");
        }
        notices
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        let seconds = self.started.elapsed().as_secs_f64();
        let rows = self.rows.load(Ordering::Relaxed);
        let scans = Scans::of(&self.plans);
        self.engine.metrics.ended(
            self.outcome,
            seconds,
            rows,
            self.bytes_sent,
            scans.bytes_decoded,
        );
        self.take_notices();
        log::info!(
            query = self.query,
            user = &*self.user,
            outcome = self.outcome.name(),
            milliseconds = (seconds * 1000.0) as u64,
            rows = rows,
            bytes_sent = self.bytes_sent,
            bytes_decoded = scans.bytes_decoded,
            backend = scans.backend.as_str();
            "query"
        );
    }
}

/// The metrics of the scans of a plan.
struct Scans {
    bytes_decoded: u64,
    backend: String,
}

impl Scans {
    fn of(plans: &[Arc<dyn ExecutionPlan>]) -> Self {
        let mut scans = Self {
            bytes_decoded: 0,
            backend: String::new(),
        };
        for plan in plans {
            scans.add(plan.as_ref());
        }
        if scans.backend.is_empty() {
            scans.backend.push_str("none");
        }
        scans
    }

    fn add(&mut self, plan: &dyn ExecutionPlan) {
        if let Some(decoded) = plan
            .metrics()
            .and_then(|all| all.sum_by_name("bytes_decoded"))
        {
            self.bytes_decoded += decoded.as_usize() as u64;
        }
        if plan.children().is_empty() {
            // EXPLAIN shows `backend=host (why)`.
            let line = datafusion::physical_plan::displayable(plan)
                .one_line()
                .to_string();
            let backend = line
                .split_once("backend=")
                .and_then(|(_, rest)| rest.split([' ', ',', '\n']).next());
            if let Some(backend) = backend.filter(|backend| !self.backend.contains(backend)) {
                if !self.backend.is_empty() {
                    self.backend.push('+');
                }
                self.backend.push_str(backend);
            }
        }
        for child in plan.children() {
            self.add(child.as_ref());
        }
    }
}
