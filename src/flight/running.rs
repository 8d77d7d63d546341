//! The running queries, so that they can be cancelled.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::handles::Handle;

/// The user of a query, and how to cancel it.
type RunningQuery = (Arc<str>, watch::Sender<bool>);

/// The running queries by the handle of their ticket.
#[derive(Default)]
pub struct Running {
    queries: Mutex<HashMap<Handle, RunningQuery>>,
}

impl Running {
    /// Cancels the query of `user` under `handle`; says whether it was running.
    pub fn cancel(&self, user: &str, handle: &[u8]) -> bool {
        let Ok(handle) = Handle::try_from(handle) else {
            return false;
        };
        match self.queries.lock().get(&handle) {
            Some((owner, cancel)) if **owner == *user => cancel.send(true).is_ok(),
            _ => false,
        }
    }

    /// Cancels all queries.
    pub fn cancel_all(&self) {
        for (_, cancel) in self.queries.lock().values() {
            // A query without a receiver has ended.
            let _ = cancel.send(true);
        }
    }

    /// Number of running queries.
    pub fn len(&self) -> usize {
        self.queries.lock().len()
    }

    /// Adds the query of `user` under `handle`; the receiver gets `true` when it is cancelled.
    pub fn insert(&self, user: &Arc<str>, handle: Handle) -> watch::Receiver<bool> {
        let (cancel, cancelled) = watch::channel(false);
        let query = (Arc::clone(user), cancel);
        self.queries.lock().insert(handle, query);
        cancelled
    }

    /// Removes the query under `handle`, which has ended.
    pub fn remove(&self, handle: &Handle) {
        self.queries.lock().remove(handle);
    }
}
