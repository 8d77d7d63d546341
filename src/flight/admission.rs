//! Limits how many queries run at a time. Others wait in order, for a limited time and in limited number.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;

use super::config::MAX_WAITING;

/// Gives each query a permit to run.
pub struct Admission {
    permits: Arc<Semaphore>,
    max_queries: usize,
    wait: Duration,
    waiting: AtomicUsize,
}

/// The permit of one query, released when dropped.
pub struct QueryPermit {
    _permit: OwnedSemaphorePermit,
}

struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Admission {
    /// `max_queries` permits; other queries wait for at most `wait`.
    pub fn new(max_queries: usize, wait: Duration) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(max_queries)),
            max_queries,
            wait,
            waiting: AtomicUsize::new(0),
        }
    }

    /// Waits for a permit.
    ///
    /// # Errors
    /// UNAVAILABLE, which clients may try again, if no permit is free in time, too many queries wait, or the server is stopping.
    pub async fn enter(&self) -> Result<QueryPermit, Status> {
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            return Ok(QueryPermit { _permit: permit });
        }
        let waiting = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(&self.waiting);
        if waiting >= MAX_WAITING {
            return Err(self.full("too many are waiting"));
        }
        match tokio::time::timeout(self.wait, Arc::clone(&self.permits).acquire_owned()).await {
            Ok(Ok(permit)) => Ok(QueryPermit { _permit: permit }),
            Ok(Err(_)) => Err(Status::unavailable("the server is stopping")),
            Err(_) => Err(self.full(&format!("none ended within {:?}", self.wait))),
        }
    }

    /// Refuses queries from now on, those that wait too.
    pub fn close(&self) {
        self.permits.close();
    }

    /// Number of running queries.
    pub fn running(&self) -> usize {
        self.max_queries
            .saturating_sub(self.permits.available_permits())
    }

    /// Number of waiting queries.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    fn full(&self, why: &str) -> Status {
        Status::unavailable(format!(
            "{} queries are running, as many as this server allows, and {why}; try again later",
            self.max_queries
        ))
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    #[tokio::test]
    async fn permits_are_released() {
        let admission = Admission::new(1, Duration::from_millis(20));
        let permit = admission.enter().await.unwrap();
        assert_eq!((admission.running(), admission.waiting()), (1, 0));
        let refused = admission.enter().await.map(drop).unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable);
        assert_eq!(admission.waiting(), 0);
        drop(permit);
        assert_eq!(admission.running(), 0);
        assert!(admission.enter().await.is_ok());
        let permit = admission.enter().await.unwrap();
        // A query that stopped waiting is no longer counted.
        let given_up = tokio::time::timeout(Duration::from_millis(1), admission.enter()).await;
        assert!(given_up.is_err() && admission.waiting() == 0);
        admission.close();
        drop(permit);
        assert_eq!(
            admission.enter().await.map(drop).unwrap_err().code(),
            Code::Unavailable
        );
    }
}
