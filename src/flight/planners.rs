//! The threads that plan statements, separate from those that run queries, because planning occupies its thread until it
//! is done or [stopped](super::stop).
//!
//! If the time limit is over or the client has left, planning is abandoned: the client's permit is released, and planning is
//! told to stop, but keeps its thread until it does. Invariant: the number of these threads is limited, in total and per client.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::common::{Result, exec_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool};
use tokio::runtime::Handle;
use tonic::Status;

use super::admission::Admission;
use super::error;
use super::stop::{self, Stop};

/// Threads for each query that may run: one for its planning and one for an abandoned planning.
const THREADS_PER_QUERY: usize = 2;
/// How long a statement waits for a thread while abandoned ones still run.
const WAIT: Duration = Duration::from_secs(1);

/// The threads.
pub struct Planners {
    threads: Handle,
    lanes: Admission,
    time: Duration,
}

impl Planners {
    /// Planning on `threads` for `max_queries` queries, of which one client runs at most `share`. Planning takes at most `time`.
    pub fn new(threads: Handle, max_queries: usize, share: usize, time: Duration) -> Self {
        let lanes = THREADS_PER_QUERY.saturating_mul(max_queries);
        let share = THREADS_PER_QUERY.saturating_mul(share);
        Self {
            threads,
            lanes: Admission::new(lanes, share, WAIT),
            time,
        }
    }

    /// Runs `work` for `client`, with memory of `pool`; also returns the bytes that the result takes. When this future is dropped, or
    /// the time is over, the work is told to stop.
    ///
    /// # Errors
    /// The error of `work`; DEADLINE_EXCEEDED; UNAVAILABLE if no thread is free.
    pub async fn run<T: Send + 'static>(
        &self,
        client: &Arc<str>,
        pool: &Arc<dyn MemoryPool>,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<(T, usize), Status> {
        let lane = self.lanes.enter(client).await?;
        // The client gets the time limit's error below; this deadline ends abandoned planning.
        let stop = Stop::at(Instant::now() + self.time + WAIT);
        let _abandons = Abandons(Arc::clone(&stop));
        let memory = MemoryConsumer::new("planning").register(pool);
        let handle = self.threads.clone();
        let planning = self.threads.spawn_blocking(move || {
            // Held until planning has ended, however long that takes.
            let _lane = lane;
            let told = Arc::clone(&stop);
            let (result, bytes) = stop::within(stop, memory, || {
                handle.block_on(async {
                    tokio::select! {
                        biased;
                        () = told.stop_requested() => exec_err!("planning was stopped, because the client no longer waits for the statement"),
                        result = work => result,
                    }
                })
            });
            result.map(|result| (result, bytes))
        });
        match tokio::time::timeout(self.time, planning).await {
            Ok(Ok(result)) => result.map_err(|error| error::status(&error)),
            Ok(Err(failed)) => {
                log::error!("a statement could not be planned: {failed}");
                Err(Status::internal(
                    "planning failed; the server's log says why",
                ))
            }
            Err(_) => {
                log::warn!(threads = self.lanes.running(); "a statement is abandoned: planning took longer than {:?}", self.time);
                Err(error::too_late(self.time))
            }
        }
    }

    /// Number of threads that plan, for clients that wait and for abandoned statements.
    pub fn running(&self) -> usize {
        self.lanes.running()
    }
}

/// Tells planning to stop when it is dropped, because then nobody waits for the result.
struct Abandons(Arc<Stop>);

impl Drop for Abandons {
    fn drop(&mut self) {
        self.0.request();
    }
}

#[cfg(test)]
mod tests {
    use datafusion::execution::memory_pool::GreedyMemoryPool;
    use tonic::Code;

    use super::*;

    fn planners(time: Duration) -> (Arc<str>, Arc<dyn MemoryPool>, Planners) {
        let planners = Planners::new(Handle::current(), 2, 1, time);
        (
            Arc::from("ada"),
            Arc::new(GreedyMemoryPool::new(1 << 30)),
            planners,
        )
    }

    async fn ended(planners: &Planners) {
        while planners.running() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn work_that_computes_is_stopped() {
        let (ada, pool, planners) = planners(Duration::from_millis(50));
        let busy = async {
            loop {
                stop::check()?;
            }
        };
        let late = planners.run::<()>(&ada, &pool, busy).await.unwrap_err();
        assert_eq!(late.code(), Code::DeadlineExceeded);
        ended(&planners).await;
        let result = planners.run(&ada, &pool, async { Ok(7) }).await.unwrap();
        assert_eq!(result.0, 7);
    }

    #[tokio::test]
    async fn work_that_waits_is_stopped() {
        let (ada, pool, planners) = planners(Duration::from_secs(60));
        let waiting = planners.run::<()>(&ada, &pool, std::future::pending());
        let left = tokio::time::timeout(Duration::from_millis(50), waiting).await;
        assert!(left.is_err());
        ended(&planners).await;
    }

    #[tokio::test]
    async fn what_cannot_be_stopped_does_not_pile_up() {
        let (ada, pool, planners) = planners(Duration::from_millis(20));
        let stuck = || async {
            std::thread::sleep(Duration::from_secs(3));
            Ok(())
        };
        for _ in 0..2 {
            let late = planners.run(&ada, &pool, stuck()).await.unwrap_err();
            assert_eq!(late.code(), Code::DeadlineExceeded);
        }
        let refused = planners.run(&ada, &pool, stuck()).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable);
        let eve: Arc<str> = Arc::from("eve");
        planners.run(&eve, &pool, async { Ok(()) }).await.unwrap();
        ended(&planners).await;
        planners.run(&ada, &pool, async { Ok(()) }).await.unwrap();
    }
}
