//! [`OwnThreads`]: threads of one statement, for work that allocates much.
//!
//! They are as many as work at the same time, and always the same. An allocator keeps part of what a thread has freed, for that thread's
//! next allocations: tens of megabytes for each thread that ever decoded or encoded a chunk. On the runtime's threads, or those of
//! `spawn_blocking`, that would be most of a copy's memory.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, Builder};

use datafusion::common::{Result, exec_err};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// What is done on a thread; it does not panic.
type Work = Box<dyn FnOnce() + Send>;

/// The result of work, or its panic.
type Outcome<T> = thread::Result<T>;

/// Expressions of the query may be evaluated there, which are nested.
const STACK: usize = 32 << 20;

/// Threads that end when this is dropped and their work is done.
#[derive(Debug)]
pub struct OwnThreads {
    queue: Sender<Work>,
}

impl OwnThreads {
    /// Starts so many threads of this name.
    ///
    /// # Errors
    /// If the system does not start them.
    pub fn try_new(name: &str, threads: usize) -> io::Result<Self> {
        let (queue, works) = channel();
        let works = Arc::new(Mutex::new(works));
        for _ in 0..threads {
            let works = Arc::clone(&works);
            let named = Builder::new().name(name.to_string()).stack_size(STACK);
            named.spawn(move || work_off(&works))?;
        }
        Ok(Self { queue })
    }

    /// Queues `work`, which one of the threads does, and returns its result.
    ///
    /// # Errors
    /// If it panics.
    pub fn run<T: Send + 'static, W: FnOnce() -> T + Send + 'static>(
        &self,
        work: W,
    ) -> impl Future<Output = Result<T>> + Send + use<T, W> {
        self.queue(|_| Some(work()))
    }

    /// Queues `work`, which one of the threads waits for, and returns its result. It is stopped when what this returns is dropped.
    ///
    /// # Errors
    /// If it panics.
    pub fn wait_for<T: Send + 'static, W: Future<Output = T> + Send + 'static>(
        &self,
        work: W,
    ) -> impl Future<Output = Result<T>> + Send + use<T, W> {
        let runtime = Handle::current();
        self.queue(move |stopped| {
            runtime.block_on(async {
                tokio::select! {
                    biased;
                    () = stopped.closed() => None,
                    done = work => Some(done),
                }
            })
        })
    }

    /// Queues `work`; `None` is the result of work that was stopped.
    fn queue<T: Send + 'static, W>(
        &self,
        work: W,
    ) -> impl Future<Output = Result<T>> + Send + use<T, W>
    where
        W: FnOnce(&mut oneshot::Sender<Outcome<T>>) -> Option<T> + Send + 'static,
    {
        let (mut sender, result) = oneshot::channel();
        let work = move || {
            if sender.is_closed() {
                return;
            }
            let done = catch_unwind(AssertUnwindSafe(|| work(&mut sender)));
            if let Some(done) = done.transpose() {
                // Nobody waits if the statement was stopped.
                let _ = sender.send(done);
            }
        };
        let is_queued = self.queue.send(Box::new(work)).is_ok();
        async move {
            match result.await {
                Ok(Ok(done)) => Ok(done),
                Ok(Err(panic)) => resume_unwind(panic),
                Err(_) if is_queued => exec_err!("the statement was stopped"),
                Err(_) => exec_err!("the statement's threads have ended"),
            }
        }
    }
}

/// Does what is in the queue, until there will be no more.
fn work_off(works: &Mutex<Receiver<Work>>) {
    loop {
        // The lock is held while this thread waits: the others wait for it.
        let next = works.lock().recv();
        let Ok(work) = next else {
            return;
        };
        work();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn works_are_done_by_the_same_threads() {
        let threads = Arc::new(OwnThreads::try_new("three", 3).unwrap());
        let mut works = tokio::task::JoinSet::new();
        for number in 0..200 {
            let threads = Arc::clone(&threads);
            works.spawn(async move {
                let work = move || (number, std::thread::current().id());
                threads.run(work).await.unwrap()
            });
        }
        let done = works.join_all().await;
        let numbers: HashSet<_> = done.iter().map(|(number, _)| *number).collect();
        let used: HashSet<_> = done.iter().map(|(_, thread)| *thread).collect();
        assert_eq!(numbers.len(), 200);
        assert!(used.len() <= 3, "{used:?}");
    }

    #[tokio::test]
    async fn a_panic_is_the_callers_and_the_thread_goes_on() {
        let threads = Arc::new(OwnThreads::try_new("one", 1).unwrap());
        let own = Arc::clone(&threads);
        let caller = tokio::spawn(async move {
            let failed: Result<()> = own.run(|| panic!("as the test wants")).await;
            failed
        });
        let panic = caller.await.unwrap_err().into_panic();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"as the test wants"));
        assert_eq!(threads.run(|| 5).await.unwrap(), 5);
    }

    #[tokio::test]
    async fn what_nobody_waits_for_is_stopped() {
        let threads = OwnThreads::try_new("one", 1).unwrap();
        let held = Arc::new(());
        let (own, never) = (Arc::clone(&held), std::future::pending::<()>());
        let waiting = threads.wait_for(async move {
            never.await;
            drop(own);
        });
        drop(waiting);
        // The only thread is free again.
        assert_eq!(threads.wait_for(async { 5 }).await.unwrap(), 5);
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
