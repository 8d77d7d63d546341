//! One runtime for the process. Work is spawned on its threads, whose stacks are large, and waited for without the interpreter's lock: ten times a
//! second the waiting thread looks for Ctrl-C and shows progress.

use std::future::Future;
use std::sync::OnceLock;
use std::time::Duration;

use datafusion::common::runtime::SpawnedTask;
use pyo3::prelude::*;
use tokio::runtime::Runtime;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::errors::error;
use super::progress::Watched;
use datafusion_vcz::cli;

/// How often a waiting thread looks for Ctrl-C.
pub const TICK: Duration = Duration::from_millis(100);

/// The process's runtime, with the process that made it.
static RUNTIME: OnceLock<(u32, Result<Runtime, String>)> = OnceLock::new();

/// The process's runtime.
///
/// # Errors
/// If threads cannot be started, or this process is a fork of the one that started them.
pub fn runtime() -> PyResult<&'static Runtime> {
    match RUNTIME.get_or_init(|| (std::process::id(), cli::runtime())) {
        (process, _) if *process != std::process::id() => Err(error(
            "vcz was in use when this process was forked, and its threads are not in the fork; start the process with \
             multiprocessing.get_context('spawn') or 'forkserver', or use vcz only in the children",
        )),
        (_, Ok(runtime)) => Ok(runtime),
        (_, Err(message)) => Err(error(message.as_str())),
    }
}

/// Runs `work` on the runtime's threads and waits for it. When it is interrupted the work is dropped.
///
/// # Errors
/// KeyboardInterrupt, or what the progress callback raises.
pub fn wait<T: Send + 'static>(
    py: Python<'_>,
    watched: &Watched,
    work: impl Future<Output = T> + Send + 'static,
) -> PyResult<T> {
    py.check_signals()?;
    let runtime = runtime()?;
    py.detach(|| {
        let task = {
            let _inside = runtime.enter();
            SpawnedTask::spawn(work)
        };
        block_on(ticking(Some(watched), async {
            task.join()
                .await
                .map_err(|failed| error(format!("an internal error, please report it: {failed}")))
        }))??
    })
}

/// As [`wait`], for work that stays on one thread because the CLI crate's does, a thread of its own with the runtime around it.
///
/// # Errors
/// As [`wait`].
pub fn wait_on_thread<T, F>(
    py: Python<'_>,
    watched: &Watched,
    work: impl FnOnce() -> F + Send + 'static,
) -> PyResult<T>
where
    T: Send + 'static,
    F: Future<Output = T>,
{
    let (kept, dropped) = tokio::sync::oneshot::channel::<()>();
    wait(py, watched, async move {
        // Dropped with this future when it is interrupted, which ends the work.
        let _kept = kept;
        let handle = tokio::runtime::Handle::current();
        let task = tokio::task::spawn_blocking(move || {
            handle.block_on(async {
                tokio::select! {
                    biased;
                    _ = dropped => None,
                    done = work() => Some(done),
                }
            })
        });
        match task.await {
            Ok(Some(done)) => done,
            Ok(None) => std::future::pending().await,
            Err(failed) if failed.is_panic() => std::panic::resume_unwind(failed.into_panic()),
            // The runtime ends with the process only.
            Err(_) => std::future::pending().await,
        }
    })
}

/// Waits for `future` in this thread, with a timer of its own: that of the process's runtime stands still while queries keep all its threads
/// busy.
///
/// # Errors
/// If there can be no timer.
pub fn block_on<F: Future>(future: F) -> PyResult<F::Output> {
    let timer = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let timer = timer.map_err(|failed| error(format!("cannot wait: {failed}")))?;
    Ok(timer.block_on(future))
}

/// Waits for `work` in this thread, with ticks if the thread is one of Python's, which must not hold the interpreter's lock.
///
/// # Errors
/// As [`wait`].
pub async fn ticking<T>(watched: Option<&Watched>, work: impl Future<Output = T>) -> PyResult<T> {
    let mut work = std::pin::pin!(work);
    let Some(watched) = watched else {
        return Ok(work.await);
    };
    let mut every = interval_at(Instant::now() + TICK, TICK);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return Ok(done),
            _ = every.tick() => {
                // While the interpreter shuts down there is nobody to ask.
                if let Some(ticked) = Python::try_attach(|py| watched.tick(py)) {
                    ticked?;
                }
            }
        }
    }
}
