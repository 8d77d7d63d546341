//! [`Workers`]: the threads that a long computation may use, and whether it must stop.

use std::cell::Cell;
use std::fmt;
use std::mem::MaybeUninit;
use std::thread;

use parking_lot::Mutex;

use super::CountError;
use super::idle_threads::IdleThreads;

/// Parts of a computation for each thread, so that threads end at about the same time.
const PARTS: usize = 8;
/// Bytes that a thread sets at least: fewer take no longer than waking it.
const PART_BYTES: usize = 1 << 17;

thread_local! {
    /// Whether the thread does a job of a computation.
    static IS_AT_WORK: Cell<bool> = const { Cell::new(false) };
}

/// The thread does jobs until this is dropped.
struct AtWork;

impl AtWork {
    fn new() -> Self {
        IS_AT_WORK.set(true);
        Self
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        IS_AT_WORK.set(false);
    }
}

/// Ends the jobs of other threads if that of this one panics, which is resumed once they have ended.
struct EndsOthers<'a>(&'a Mutex<Option<CountError>>);

impl Drop for EndsOthers<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.lock().get_or_insert(CountError::Stopped);
        }
    }
}

/// Threads, and a question that is asked between steps.
#[derive(Clone, Copy)]
pub(crate) struct Workers<'a> {
    threads: usize,
    stopped: &'a (dyn Fn() -> bool + Sync),
}

impl fmt::Debug for Workers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} threads", self.threads)
    }
}

impl<'a> Workers<'a> {
    /// The calling thread, which is never stopped.
    #[cfg(test)]
    pub(crate) const ALONE: Workers<'static> = Workers {
        threads: 1,
        stopped: &|| false,
    };

    /// `threads` threads, the calling one among them, until `stopped` says so.
    pub(crate) fn new(threads: usize, stopped: &'a (dyn Fn() -> bool + Sync)) -> Self {
        Self { threads, stopped }
    }

    /// Those of the threads that are not more than `most`.
    pub(crate) fn at_most(&self, most: usize) -> Self {
        Self {
            threads: self.threads.min(most),
            ..*self
        }
    }

    /// Number of threads, at least 1.
    pub(crate) fn threads(&self) -> usize {
        self.threads.max(1)
    }

    /// Parts that a computation should have.
    pub(crate) fn parts(&self) -> usize {
        match self.threads {
            0 | 1 => 1,
            threads => threads.saturating_mul(PARTS),
        }
    }

    /// Asks whether to go on. A step between two calls should take milliseconds at most.
    ///
    /// # Errors
    /// [`CountError::Stopped`] if not.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), CountError> {
        match (self.stopped)() {
            true => Err(CountError::Stopped),
            false => Ok(()),
        }
    }

    /// Does `work` for each of `jobs`, in any order and by several threads at a time; by one within the work of another computation.
    ///
    /// # Errors
    /// The first error of `work`, and [`CountError::Stopped`]; jobs that are left are then not begun.
    pub(crate) fn each<J, I: Iterator<Item = J> + Send>(
        &self,
        jobs: impl IntoIterator<Item = J, IntoIter = I>,
        work: impl Fn(J) -> Result<(), CountError> + Sync,
    ) -> Result<(), CountError> {
        let jobs = jobs.into_iter();
        let most = jobs.size_hint().1.unwrap_or(usize::MAX);
        let others = match IS_AT_WORK.get() {
            // While it waits for threads, one of rayon's may begin other jobs of the computation that this is part of.
            true => 0,
            false => self.threads.min(most).saturating_sub(1),
        };
        if others == 0 {
            for job in jobs {
                self.check()?;
                work(job)?;
            }
            return Ok(());
        }
        let (jobs, failed) = (Mutex::new(jobs), Mutex::new(None));
        let run = || {
            let _at_work = AtWork::new();
            let _ends_others = EndsOthers(&failed);
            while failed.lock().is_none() {
                let Some(job) = jobs.lock().next() else {
                    break;
                };
                if let Err(error) = self.check().and_then(|()| work(job)) {
                    failed.lock().get_or_insert(error);
                }
            }
        };
        match IdleThreads::take(others) {
            Some(threads) => threads.scope(|scope| {
                for _ in 0..others {
                    scope.spawn(|_| run());
                }
                run();
            }),
            // Without more threads, the calling one does all.
            None => run(),
        }
        failed.into_inner().map_or(Ok(()), Err)
    }

    /// Appends `value(0)`, `value(1)` and so on, `len` of them. Threads set memory of which they are the first users, since new pages take
    /// longer than most values. It does not ask whether to stop.
    ///
    /// # Errors
    /// [`CountError::TooLarge`] if there is too little memory for so many of `what`.
    pub(crate) fn extend<T: Copy + Send>(
        &self,
        to: &mut Vec<T>,
        len: usize,
        what: &str,
        value: impl Fn(usize) -> T + Sync,
    ) -> Result<(), CountError> {
        to.try_reserve_exact(len)
            .map_err(|_| CountError::TooLarge(format!("{len} {what}")))?;
        let begin = to.len();
        let new = to.spare_capacity_mut().get_mut(..len).unwrap_or_default();
        let fewest = PART_BYTES / size_of::<T>().max(1);
        let part = len.div_ceil(self.parts()).max(fewest).max(1);
        let set = |(at, values): (usize, &mut [MaybeUninit<T>])| {
            for (at, to) in (at * part..).zip(values) {
                to.write(value(at));
            }
            Ok(())
        };
        let never_stopped = Workers {
            stopped: &|| false,
            ..*self
        };
        never_stopped.each(new.chunks_mut(part).enumerate(), set)?;
        // SAFETY: `each` has returned without an error, so all jobs were done: these `len` values are set.
        unsafe { to.set_len(begin + len) };
        Ok(())
    }

    /// The results of `work` for parts of `items`, one for each thread, in any order.
    ///
    /// # Errors
    /// As [`each`](Self::each).
    pub(crate) fn parts_of<J: Sync, T: Send>(
        &self,
        items: &[J],
        work: impl Fn(&[J]) -> Result<T, CountError> + Sync,
    ) -> Result<Vec<T>, CountError> {
        let results = Mutex::new(vec![]);
        let parts = items.chunks(items.len().div_ceil(self.threads()).max(1));
        self.each(parts, |part| {
            let result = work(part)?;
            results.lock().push(result);
            Ok(())
        })?;
        Ok(results.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_job_is_done_once() {
        for threads in [0, 1, 2, 7] {
            let workers = Workers::new(threads, &|| false);
            let mut done = vec![0; 100];
            let jobs = done.iter_mut().enumerate();
            let worked = workers.each(jobs, |(at, done)| {
                *done += at;
                Ok(())
            });
            assert_eq!(worked, Ok(()));
            assert_eq!(done, (0..100).collect::<Vec<_>>());
            assert_eq!(workers.each(0..0, |_: i32| panic!("a job")), Ok(()));
            let mut parts = workers.parts_of(&done, |part| Ok(part.to_vec())).unwrap();
            assert_eq!(parts.len(), threads.max(1));
            parts.sort_unstable();
            assert_eq!(parts.concat(), done);
            let none = workers.parts_of(&[0; 0], |_| Ok(()));
            assert_eq!(none, Ok(vec![]));
        }
    }

    #[test]
    fn a_panic_ends_the_others() {
        let begun = AtomicUsize::new(0);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            Workers::new(3, &|| false).each(0..1_000_000, |job| {
                begun.fetch_add(1, Ordering::SeqCst);
                assert!(job != 10, "as the test wants");
                thread::sleep(Duration::from_micros(50));
                Ok(())
            })
        }));
        assert!(panicked.is_err());
        assert!(begun.into_inner() < 100_000);
        // The threads are of use again.
        let worked = Workers::new(3, &|| false).each(0..100, |_| Ok(()));
        assert_eq!(worked, Ok(()));
    }

    #[test]
    fn computations_may_be_nested() {
        let workers = Workers::new(3, &|| false);
        let (lock, done) = (Mutex::new(()), AtomicUsize::new(0));
        let outer = |_| {
            let _locked = lock.lock();
            workers.each(0..4, |_| {
                done.fetch_add(1, Ordering::SeqCst);
                Ok(())
            })
        };
        workers.each(0..20, outer).unwrap();
        assert_eq!(done.into_inner(), 80);
    }

    #[test]
    fn values_are_appended_in_order() {
        for threads in [1, 3] {
            let workers = Workers::new(threads, &|| true);
            let mut all = vec![7];
            for len in [0, 1, 300_000] {
                all.truncate(1);
                workers
                    .extend(&mut all, len, "numbers", |at| 2 * at)
                    .unwrap();
                assert_eq!(all.len(), 1 + len);
                assert!(
                    all[1..]
                        .iter()
                        .enumerate()
                        .all(|(at, value)| *value == 2 * at)
                );
            }
            let none = workers.extend(&mut all, usize::MAX, "numbers", |at| at);
            assert!(matches!(none, Err(CountError::TooLarge(_))));
        }
    }

    #[test]
    fn jobs_end_at_an_error_and_when_stopped() {
        for threads in [1, 3] {
            let begun = AtomicUsize::new(0);
            let stopped = || begun.load(Ordering::SeqCst) >= 10;
            let workers = Workers::new(threads, &stopped);
            let count = |_: usize| {
                begun.fetch_add(1, Ordering::SeqCst);
                Ok(())
            };
            assert_eq!(workers.each(0..1000, count), Err(CountError::Stopped));
            assert!(begun.load(Ordering::SeqCst) < 10 + threads);
            let workers = Workers::new(threads, &|| false);
            let fail = |job: usize| match job {
                5 => Err(CountError::Request("no".to_string())),
                _ => Ok(()),
            };
            let failed = workers.each(0..1000, fail);
            assert_eq!(failed, Err(CountError::Request("no".to_string())));
        }
    }
}
