//! [`IdleThreads`]: threads that wait for the next computation, since starting fifteen takes more than half a millisecond.
//!
//! A computation takes threads that no other one has, or starts some, and gives them back. Invariant: nothing runs on threads that are idle.

use parking_lot::Mutex;
use rayon::{Scope, ThreadPool, ThreadPoolBuilder};

/// Groups of threads that are kept; those that are given back beyond that are ended.
const MOST_IDLE: usize = 2;

static IDLE: Mutex<Vec<ThreadPool>> = Mutex::new(vec![]);

/// Threads that one computation has until this is dropped.
#[derive(Debug)]
pub(super) struct IdleThreads {
    /// `None` once they were given back.
    pool: Option<ThreadPool>,
}

impl IdleThreads {
    /// At least so many threads, or as many as the system starts; `None` if it starts none.
    pub(super) fn take(threads: usize) -> Option<Self> {
        let pool = {
            let mut idle = IDLE.lock();
            let has_enough =
                |(_, pool): &(usize, &ThreadPool)| pool.current_num_threads() >= threads;
            let enough = idle.iter().enumerate().filter(has_enough);
            let least = enough.min_by_key(|(_, pool)| pool.current_num_threads());
            least.map(|(at, _)| at).map(|at| idle.swap_remove(at))
        };
        let pool = pool.or_else(|| start(threads))?;
        Some(Self { pool: Some(pool) })
    }

    /// Runs `work`, and returns once all that it has spawned is done.
    pub(super) fn scope<'scope>(&self, work: impl FnOnce(&Scope<'scope>)) {
        // Only `drop` takes it.
        if let Some(pool) = &self.pool {
            pool.in_place_scope(work);
        }
    }
}

impl Drop for IdleThreads {
    fn drop(&mut self) {
        let Some(pool) = self.pool.take() else {
            return;
        };
        let mut idle = IDLE.lock();
        idle.push(pool);
        // The largest can do what the others can.
        idle.sort_by_key(|pool| std::cmp::Reverse(pool.current_num_threads()));
        let kept = idle.len().min(MOST_IDLE);
        let ended = idle.split_off(kept);
        drop(idle);
        drop(ended);
    }
}

/// Starts so many threads, or fewer if the system does not.
fn start(threads: usize) -> Option<ThreadPool> {
    let mut threads = threads.max(1);
    loop {
        let named = ThreadPoolBuilder::new().thread_name(|at| format!("vcz-pairs-{at}"));
        match named.num_threads(threads).build() {
            Ok(pool) => return Some(pool),
            Err(error) => log::debug!("{threads} threads are not started: {error}"),
        }
        if threads == 1 {
            return None;
        }
        threads /= 2;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn threads_are_taken_by_one_at_a_time() {
        let done = AtomicUsize::new(0);
        let all: Vec<_> = (0..5).map(|_| IdleThreads::take(3).unwrap()).collect();
        for threads in &all {
            assert!(threads.pool.as_ref().unwrap().current_num_threads() >= 3);
            threads.scope(|scope| {
                for _ in 0..10 {
                    scope.spawn(|_| {
                        done.fetch_add(1, Ordering::SeqCst);
                    });
                }
            });
        }
        assert_eq!(done.into_inner(), 50);
        drop(all);
        assert!(IDLE.lock().len() <= MOST_IDLE);
    }
}
