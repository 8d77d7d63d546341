//! [`Handover`]: a queue of work that one thread does at a time, where each thread that adds to it has other work too.
//!
//! A thread that adds work also does work that is ready, unless two threads are at it already: one that works, and one that waits to take its place
//! after the next piece. So no thread works for the others for long. Others wait as well only if much is ready, so that they do not add work faster
//! than it is done. Invariant: once every call of [`work_off`](Handover::work_off) has returned without an error, nothing is ready. No thread waits for
//! others to add work.

use std::collections::VecDeque;

use parking_lot::Mutex;

/// Pieces that are ready before threads that add more have to wait.
const MOST_READY: usize = 4;

/// Work that is ready.
#[derive(Debug)]
pub(super) struct Handover<T> {
    ready: Mutex<VecDeque<T>>,
    /// Locked by the thread that works.
    working: Mutex<()>,
    /// Locked by the thread that waits for that one.
    next: Mutex<()>,
}

impl<T> Default for Handover<T> {
    fn default() -> Self {
        Self {
            ready: Mutex::default(),
            working: Mutex::default(),
            next: Mutex::default(),
        }
    }
}

impl<T> Handover<T> {
    /// Adds work. [`work_off`](Self::work_off) is to be called afterwards.
    pub(super) fn add(&self, work: impl IntoIterator<Item = T>) {
        self.ready.lock().extend(work);
    }

    /// Does what is ready, until there is nothing or another thread goes on.
    ///
    /// # Errors
    /// The first of `work`; what is left is ready for other threads.
    pub(super) fn work_off<E>(&self, mut work: impl FnMut(T) -> Result<(), E>) -> Result<(), E> {
        let next = match self.next.try_lock() {
            Some(next) => next,
            None if self.ready.lock().len() < MOST_READY => return Ok(()),
            None => self.next.lock(),
        };
        let _working = self.working.lock();
        // From here on another thread may wait for this one: it finds what is added from here on.
        drop(next);
        loop {
            let first = self.ready.lock().pop_front();
            let Some(first) = first else {
                return Ok(());
            };
            work(first)?;
            if self.next.is_locked() {
                return Ok(());
            }
        }
    }

    /// What no thread has done.
    pub(super) fn take(&mut self) -> VecDeque<T> {
        std::mem::take(self.ready.get_mut())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn all_work_is_done_once_and_by_one_thread_at_a_time() {
        let mut handover = Handover::default();
        let (at_work, sum) = (AtomicBool::new(false), AtomicUsize::new(0));
        let work = |number: usize| {
            assert!(!at_work.swap(true, Ordering::SeqCst), "two threads work");
            if number.is_multiple_of(100) {
                thread::yield_now();
            }
            sum.fetch_add(number, Ordering::SeqCst);
            at_work.store(false, Ordering::SeqCst);
            Ok::<(), ()>(())
        };
        for _ in 0..20 {
            sum.store(0, Ordering::SeqCst);
            thread::scope(|scope| {
                for of_thread in 0..8 {
                    let handover = &handover;
                    scope.spawn(move || {
                        for at in 0..500 {
                            handover.add([of_thread, at]);
                            handover.work_off(work).unwrap();
                        }
                    });
                }
            });
            assert!(handover.take().is_empty());
            let expected = 500 * (0..8).sum::<usize>() + 8 * (0..500).sum::<usize>();
            assert_eq!(sum.load(Ordering::SeqCst), expected);
        }
    }

    #[test]
    fn little_is_ready_while_work_is_slow() {
        let (handover, most) = (Handover::default(), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for at in 0..20 {
                        handover.add([at]);
                        let work = |_| {
                            let ready = handover.ready.lock().len();
                            most.fetch_max(ready, Ordering::SeqCst);
                            thread::sleep(Duration::from_micros(200));
                            Ok::<(), ()>(())
                        };
                        handover.work_off(work).unwrap();
                    }
                });
            }
        });
        let most = most.into_inner();
        assert!(most <= MOST_READY + 8, "{most}");
    }

    #[test]
    fn after_an_error_the_rest_is_left() {
        let mut handover = Handover::default();
        handover.add(0..5);
        let work = |number| (number < 2).then_some(()).ok_or(number);
        assert_eq!(handover.work_off(work), Err(2));
        assert_eq!(handover.take(), [3, 4]);
        assert_eq!(handover.work_off(work), Ok(()));
    }
}
