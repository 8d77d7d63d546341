//! [`OwnThreads`]: the threads of one statement, for work that allocates much.
//!
//! They are as many as work at the same time, and always the same. Allocators keep some of what a thread has freed, for that thread: of
//! chunks, which have megabytes, tens of megabytes for each thread that ever decoded or encoded one. On the runtime's threads, or those of
//! `spawn_blocking`, that would be most of a copy's memory.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;

use datafusion::common::{Result, exec_datafusion_err};
use parking_lot::Mutex;
use tokio::sync::oneshot;

type Work = Box<dyn FnOnce() + Send>;

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
            let named = Builder::new().name(name.to_string());
            named.spawn(move || work_off(&works))?;
        }
        Ok(Self { queue })
    }

    /// The result of `work`, which one of the threads does.
    ///
    /// # Errors
    /// If it panics.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let (done, result) = oneshot::channel();
        let work = move || {
            // Nobody waits if the statement was stopped.
            let _ = done.send(work());
        };
        let failed = || exec_datafusion_err!("a thread of the statement ended");
        self.queue.send(Box::new(work)).map_err(|_| failed())?;
        result.await.map_err(|_| failed())
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
        // Who waits for the result learns of a panic by the sender that is dropped.
        let _ = catch_unwind(AssertUnwindSafe(work));
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
    async fn a_panic_is_an_error_and_the_thread_goes_on() {
        let threads = OwnThreads::try_new("one", 1).unwrap();
        let failed: Result<()> = threads.run(|| panic!("as the test wants")).await;
        let error = failed.unwrap_err();
        assert!(
            error
                .to_string()
                .contains("a thread of the statement ended")
        );
        assert_eq!(threads.run(|| 5).await.unwrap(), 5);
    }
}
