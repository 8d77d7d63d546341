//! A result as an Arrow stream. The query starts at the first batch, because readers may ask for a stream only to see its columns, and ends
//! when the stream is dropped.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use datafusion::common::Result;
use datafusion::common::runtime::SpawnedTask;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use futures::StreamExt;
use parking_lot::Mutex;
use pyo3::prelude::*;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::progress::Watched;
use super::running::{planned, start};
use super::runtime::{TICK, block_on, runtime, ticking};
use super::shared::Shared;
use datafusion_vcz::session::message;

/// Batches that are made before they are asked for.
const AHEAD: usize = 2;

/// A stream of a query's batches.
pub struct Reader {
    shared: Arc<Shared>,
    schema: SchemaRef,
    plan: LogicalPlan,
    ready: Arc<Mutex<Option<Arc<dyn ExecutionPlan>>>>,
    watched: Watched,
    /// Is called with the query's notices.
    notify: Option<Py<PyAny>>,
    last_tick: Instant,
    state: StreamState,
}

enum StreamState {
    New,
    Running(Receiver<RecordBatch>, SpawnedTask<Result<()>>),
    Done,
}

impl Reader {
    /// A stream that runs `plan`, or the plan that is `ready`.
    pub fn new(
        shared: Arc<Shared>,
        schema: SchemaRef,
        plan: LogicalPlan,
        ready: Arc<Mutex<Option<Arc<dyn ExecutionPlan>>>>,
        watched: Watched,
        notify: Option<Py<PyAny>>,
    ) -> Self {
        Self {
            shared,
            schema,
            plan,
            ready,
            watched,
            notify,
            last_tick: Instant::now(),
            state: StreamState::New,
        }
    }

    /// The next batch, waited for as the calling thread allows.
    fn advance(&mut self) -> Option<PyResult<Result<RecordBatch, String>>> {
        let batch = match is_python_thread() {
            // The thread may hold the interpreter's lock.
            true => Python::try_attach(|py| {
                if self.last_tick.elapsed() >= TICK {
                    self.last_tick = Instant::now();
                    if let Err(raised) = self.watched.tick(py) {
                        return Some(Err(raised));
                    }
                }
                py.detach(|| self.receive(true))
            })
            .unwrap_or_else(|| Some(Ok(Err("Python is shutting down".to_string())))),
            // A thread of the reader's own, which the interpreter does not know: it may wait for one that holds the lock.
            false => self.receive(false),
        };
        if !matches!(batch, Some(Ok(Ok(_)))) {
            // Ends the query, if it did not.
            self.state = StreamState::Done;
            self.report();
        }
        batch
    }

    fn receive(&mut self, with_ticks: bool) -> Option<PyResult<Result<RecordBatch, String>>> {
        let runtime = match runtime() {
            Ok(runtime) => runtime,
            Err(forked) => return Some(Err(forked)),
        };
        if matches!(self.state, StreamState::New) {
            let _inside = runtime.enter();
            self.state = self.started();
        }
        let StreamState::Running(batches, task) = &mut self.state else {
            return None;
        };
        let received = block_on(ticking(with_ticks.then_some(&self.watched), async {
            match batches.recv().await {
                Some(batch) => Some(Ok(batch)),
                None => match task.await {
                    Ok(Ok(())) => None,
                    Ok(Err(failed)) => Some(Err(message(&failed))),
                    Err(panicked) => Some(Err(format!(
                        "an internal error, please report it: {panicked}"
                    ))),
                },
            }
        }));
        match received.flatten() {
            Ok(received) => received.map(Ok),
            Err(raised) => Some(Err(raised)),
        }
    }

    fn started(&self) -> StreamState {
        let (send, batches) = channel(AHEAD);
        let shared = Arc::clone(&self.shared);
        let (plan, ready) = (self.plan.clone(), self.ready.lock().take());
        let task = SpawnedTask::spawn(async move {
            let physical = match ready {
                Some(ready) => ready,
                None => planned(&shared, &plan).await?,
            };
            produce(&shared, physical, send).await
        });
        StreamState::Running(batches, task)
    }

    /// Passes the notices on, and tells the progress bar that the rows have ended.
    fn report(&mut self) {
        let Some(notify) = self.notify.take() else {
            return;
        };
        let notices = self.shared.environment.notices.sentences();
        if !is_python_thread() {
            return;
        }
        self.shared.environment.notices.take();
        // A warning that was made an error cannot be raised from here.
        Python::try_attach(|py| {
            if let Err(raised) = notify.call1(py, (notices,)) {
                raised.write_unraisable(py, None);
            }
        });
    }
}

/// Sends the batches of a query until nobody receives them.
async fn produce(
    shared: &Shared,
    plan: Arc<dyn ExecutionPlan>,
    send: Sender<RecordBatch>,
) -> Result<()> {
    let mut rows = start(shared, plan)?;
    while let Some(batch) = rows.next().await {
        if send.send(batch?).await.is_err() {
            break;
        }
    }
    Ok(())
}

/// Whether the interpreter knows this thread.
fn is_python_thread() -> bool {
    // SAFETY: the function reads a variable of this thread, and may be called from any thread while the interpreter exists.
    unsafe { !pyo3::ffi::PyGILState_GetThisThreadState().is_null() }
}

/// The text of an error in a stream. After Ctrl-C, the interpreter raises KeyboardInterrupt once the reader has returned.
fn text_of(raised: &PyErr) -> String {
    let text = Python::try_attach(|py| {
        if raised.is_instance_of::<pyo3::exceptions::PyKeyboardInterrupt>(py) {
            // SAFETY: sets a flag of the interpreter, which is running.
            unsafe { pyo3::ffi::PyErr_SetInterrupt() };
            return String::from("the query was interrupted");
        }
        raised.value(py).to_string()
    });
    text.unwrap_or_else(|| String::from("the query was interrupted"))
}

/// An error as the stream's reader gets it; a C string cannot have a NUL.
fn failed(text: &str) -> ArrowError {
    ArrowError::ExternalError(text.replace('\0', "\u{fffd}").into())
}

impl Iterator for Reader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let advanced = catch_unwind(AssertUnwindSafe(|| {
            self.advance().map(|batch| match batch {
                Ok(Ok(batch)) => Ok(batch),
                Ok(Err(text)) => Err(failed(&text)),
                Err(raised) => Err(failed(&text_of(&raised))),
            })
        }));
        advanced.unwrap_or_else(|_| {
            self.state = StreamState::Done;
            Some(Err(failed("an internal error, please report it")))
        })
    }
}

impl RecordBatchReader for Reader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // The task is spawned, so that dropping it ends the query; in a fork its threads are not there.
        if runtime().is_err() {
            let state = std::mem::replace(&mut self.state, StreamState::Done);
            std::mem::forget(state);
        }
    }
}
