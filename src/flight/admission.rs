//! Limits the number of queries that run at the same time, in total and per client. Other queries wait in order; their number and the time
//! that they wait are limited.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;

use super::config::{MAX_WAITING, MAX_WAITING_OF_ONE};

/// With more clients than this, the entries of clients without queries are removed.
const CLIENTS: usize = 64;

/// Gives each query a permit to run.
pub struct Admission {
    permits: Arc<Semaphore>,
    max_queries: usize,
    /// Permits that one client may have.
    share: usize,
    wait: Duration,
    waiting: AtomicUsize,
    clients: Mutex<HashMap<Arc<str>, Arc<Own>>>,
}

/// The permits of one client, and the number of its waiting queries.
struct Own {
    permits: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// The permit of one query, released when dropped.
#[derive(Debug)]
pub struct QueryPermit {
    // The permit shared by all clients is released first. For the other one only this client's queries wait.
    _permit: OwnedSemaphorePermit,
    _own: OwnedSemaphorePermit,
}

struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Admission {
    /// `max_queries` permits, of which one client has at most `share`; other queries wait for at most `wait`.
    pub fn new(max_queries: usize, share: usize, wait: Duration) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(max_queries)),
            max_queries,
            share,
            wait,
            waiting: AtomicUsize::new(0),
            clients: Mutex::default(),
        }
    }

    /// Waits for a permit of `client`.
    ///
    /// # Errors
    /// UNAVAILABLE, which clients may try again, if no permit is free in time, too many queries wait, or the server is stopping.
    pub async fn enter(&self, client: &Arc<str>) -> Result<QueryPermit, Status> {
        let own = self.of_client(client);
        if let Some(permit) = self.free(&own) {
            return Ok(permit);
        }
        let waiting = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(&self.waiting);
        let of_client = own.waiting.fetch_add(1, Ordering::Relaxed);
        let _of_client = Waiting(&own.waiting);
        if waiting >= MAX_WAITING || of_client >= MAX_WAITING_OF_ONE {
            return Err(self.full("too many are waiting"));
        }
        let entered = async {
            // First the client's own permit, so that at most `share` of its queries wait for the permits that all clients share, which
            // are given in the order of waiting. Only queries of the same client wait for its own permits, and they would also have to
            // wait for a shared one, behind this query. So nobody waits longer because this query holds its own permit while it waits.
            let own = Arc::clone(&own.permits).acquire_owned().await?;
            let permit = Arc::clone(&self.permits).acquire_owned().await?;
            Ok(QueryPermit {
                _permit: permit,
                _own: own,
            })
        };
        match tokio::time::timeout(self.wait, entered).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(tokio::sync::AcquireError { .. })) => {
                Err(Status::unavailable("the server is stopping"))
            }
            Err(_) if own.permits.available_permits() == 0 => Err(Status::unavailable(format!(
                "{} of your queries are running, as many as this server allows one user or address, and none ended within {:?}; \
                 read or close their results, or try again later",
                self.share, self.wait
            ))),
            Err(_) => Err(self.full(&format!("none ended within {:?}", self.wait))),
        }
    }

    /// A permit of `client`, if one is free now.
    pub fn try_enter(&self, client: &Arc<str>) -> Option<QueryPermit> {
        self.free(&self.of_client(client))
    }

    fn free(&self, own: &Own) -> Option<QueryPermit> {
        let own = Arc::clone(&own.permits).try_acquire_owned().ok()?;
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok()?;
        Some(QueryPermit {
            _permit: permit,
            _own: own,
        })
    }

    fn of_client(&self, client: &Arc<str>) -> Arc<Own> {
        let mut clients = self.clients.lock();
        if clients.len() > CLIENTS {
            clients.retain(|_, own| {
                Arc::strong_count(own) > 1 || own.permits.available_permits() < self.share
            });
        }
        let own = clients.entry(Arc::clone(client));
        Arc::clone(own.or_insert_with(|| {
            Arc::new(Own {
                permits: Arc::new(Semaphore::new(self.share)),
                waiting: AtomicUsize::new(0),
            })
        }))
    }

    /// Rejects queries from now on, including those that wait.
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

    fn client(name: &str) -> Arc<str> {
        Arc::from(name)
    }

    #[tokio::test]
    async fn permits_are_released() {
        let ada = client("ada");
        let admission = Admission::new(1, 1, Duration::from_millis(20));
        let permit = admission.enter(&ada).await.unwrap();
        assert_eq!((admission.running(), admission.waiting()), (1, 0));
        let refused = admission.enter(&client("eve")).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable);
        assert_eq!(admission.waiting(), 0);
        drop(permit);
        assert_eq!(admission.running(), 0);
        let permit = admission.enter(&ada).await.unwrap();
        // A query that stopped waiting is no longer counted.
        let given_up = tokio::time::timeout(Duration::from_millis(1), admission.enter(&ada)).await;
        assert!(given_up.is_err() && admission.waiting() == 0);
        admission.close();
        drop(permit);
        assert_eq!(
            admission.enter(&ada).await.unwrap_err().code(),
            Code::Unavailable
        );
    }

    #[tokio::test]
    async fn one_client_leaves_places_to_others() {
        let (ada, eve) = (client("ada"), client("eve"));
        let admission = Admission::new(3, 2, Duration::from_millis(20));
        let first = admission.enter(&eve).await.unwrap();
        let _second = admission.try_enter(&eve).unwrap();
        assert!(admission.try_enter(&eve).is_none());
        let refused = admission.enter(&eve).await.unwrap_err();
        assert!(refused.message().contains("2 of your queries"), "{refused}");
        assert_eq!(admission.running(), 2);
        let _other = admission.enter(&ada).await.unwrap();
        drop(first);
        assert!(admission.try_enter(&eve).is_some());
    }

    #[tokio::test]
    async fn one_client_does_not_fill_the_queue() {
        let (ada, eve) = (client("ada"), client("eve"));
        let admission = Arc::new(Admission::new(1, 1, Duration::from_secs(60)));
        let permit = admission.enter(&eve).await.unwrap();
        let waiting: Vec<_> = (0..MAX_WAITING_OF_ONE)
            .map(|_| {
                let (admission, eve) = (Arc::clone(&admission), Arc::clone(&eve));
                tokio::spawn(async move { admission.enter(&eve).await.map(drop) })
            })
            .collect();
        while admission.waiting() < MAX_WAITING_OF_ONE {
            tokio::task::yield_now().await;
        }
        let refused = admission.enter(&eve).await.unwrap_err();
        assert!(refused.message().contains("too many are waiting"));
        let next = tokio::spawn({
            let admission = Arc::clone(&admission);
            async move { admission.enter(&ada).await.map(drop) }
        });
        while admission.waiting() <= MAX_WAITING_OF_ONE {
            tokio::task::yield_now().await;
        }
        drop(permit);
        next.await.unwrap().unwrap();
        for query in waiting {
            query.await.unwrap().unwrap();
        }
    }

    #[tokio::test]
    async fn clients_without_queries_are_forgotten() {
        let admission = Admission::new(1, 1, Duration::from_millis(1));
        for number in 0..10 * CLIENTS {
            drop(admission.try_enter(&client(&number.to_string())));
        }
        assert!(admission.clients.lock().len() <= CLIENTS + 1);
    }
}
