//! Stops the planning of a statement if its client is no longer waiting, if it takes too long, or if it needs too much memory.
//!
//! A thread cannot be stopped from outside. Planning runs on a thread of its own (`planners`), and callbacks that DataFusion calls
//! throughout planning (`parser`, `checked`) call [`check`]. Invariant: a thread plans one statement at a time.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use datafusion::common::{Result, exec_err};
use datafusion::execution::memory_pool::MemoryReservation;
use tokio::sync::Notify;

use crate::allocations;

/// Memory is reserved in steps of this many bytes.
const STEP: usize = 1 << 20;

thread_local! {
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
}

/// Tells the planning of a statement to stop.
#[derive(Debug)]
pub struct Stop {
    requested: AtomicBool,
    notification: Notify,
    deadline: Instant,
}

impl Stop {
    /// Stops at `deadline` at the latest.
    pub fn at(deadline: Instant) -> Arc<Self> {
        Arc::new(Self {
            requested: AtomicBool::new(false),
            notification: Notify::new(),
            deadline,
        })
    }

    /// Tells the planning to stop now.
    pub fn request(&self) {
        self.requested.store(true, Ordering::Relaxed);
        // The notification is stored if nothing is waiting for it now.
        self.notification.notify_one();
    }

    /// Completes when planning is told to stop, for planning that is waiting, for example for a store.
    pub async fn stop_requested(&self) {
        self.notification.notified().await;
    }

    fn check(&self) -> Result<()> {
        if self.requested.load(Ordering::Relaxed) {
            return exec_err!(
                "planning was stopped, because the client no longer waits for the statement"
            );
        }
        if Instant::now() >= self.deadline {
            return exec_err!("planning took longer than the time limit of this server");
        }
        Ok(())
    }
}

/// The planning of this thread.
struct Current {
    stop: Arc<Stop>,
    memory: MemoryReservation,
    /// Bytes that the thread had allocated before.
    before: isize,
}

impl Current {
    fn check(&self) -> Result<()> {
        self.stop.check()?;
        let used = allocations::of_this_thread() - self.before;
        // Negative if this thread freed memory that another one had allocated.
        let used = usize::try_from(used).unwrap_or(0).next_multiple_of(STEP);
        if used != self.memory.size() {
            self.memory.try_resize(used)?;
        }
        Ok(())
    }
}

/// Ends the planning of this thread.
struct Ends;

impl Drop for Ends {
    fn drop(&mut self) {
        let current = CURRENT.take();
        drop(current);
    }
}

/// Runs `work` as the planning of this thread: [`check`] obeys `stop`, and reserves in `memory` what the thread allocates. Also returns
/// the bytes that the result takes, which are no longer reserved.
pub fn within<T>(
    stop: Arc<Stop>,
    memory: MemoryReservation,
    work: impl FnOnce() -> T,
) -> (T, usize) {
    let before = allocations::of_this_thread();
    CURRENT.set(Some(Current {
        stop,
        memory,
        before,
    }));
    let _ends = Ends;
    let result = work();
    let bytes = allocations::of_this_thread() - before;
    (result, usize::try_from(bytes).unwrap_or(0))
}

/// Returns an error if the planning of this thread must stop. On a thread that plans nothing, always returns Ok.
///
/// # Errors
/// If the client no longer waits for the statement, its time is over, or its memory limit is exceeded.
pub fn check() -> Result<()> {
    CURRENT.with_borrow(|current| current.as_ref().map_or(Ok(()), Current::check))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool};

    use super::*;

    #[test]
    fn on_request_and_at_the_deadline() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 30));
        let memory = || MemoryConsumer::new("planning").register(&pool);
        check().unwrap();
        let stop = Stop::at(Instant::now() + Duration::from_secs(60));
        within(Arc::clone(&stop), memory(), || {
            check().unwrap();
            stop.request();
            assert!(check().unwrap_err().to_string().contains("no longer waits"));
        });
        within(Stop::at(Instant::now()), memory(), || {
            assert!(check().unwrap_err().to_string().contains("time limit"));
        });
        check().unwrap();
        assert_eq!(pool.reserved(), 0);
    }

    #[tokio::test]
    async fn a_planning_that_waits_is_told() {
        let stop = Stop::at(Instant::now());
        stop.request();
        stop.stop_requested().await;
    }
}
