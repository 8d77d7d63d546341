//! [`SpinBarrier`]: threads that wait for each other for microseconds, where the barrier of the standard library would put them to sleep.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// How often a thread asks before it lets others run.
const SPINS: usize = 200;

/// A barrier for a number of threads that is set once they are started.
#[derive(Debug)]
pub(super) struct SpinBarrier {
    arriving: Arriving,
    waiting: Waiting,
}

/// What threads write when they arrive, not in a cache line that others read meanwhile.
#[derive(Debug)]
#[repr(align(128))]
struct Arriving {
    threads: AtomicUsize,
    arrived: AtomicUsize,
}

/// What threads read while they wait.
#[derive(Debug)]
#[repr(align(128))]
struct Waiting {
    /// How often all have arrived.
    generation: AtomicUsize,
    /// Whether a thread panicked, so that it will never arrive.
    is_broken: AtomicBool,
}

/// Ends the waiting of the other threads if this one panics.
pub(super) struct Guard<'a>(&'a SpinBarrier);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.waiting.is_broken.store(true, Ordering::Release);
        }
    }
}

impl SpinBarrier {
    /// At which threads wait until their number is set.
    pub(super) fn new() -> Self {
        Self {
            arriving: Arriving {
                threads: AtomicUsize::new(usize::MAX),
                arrived: AtomicUsize::new(0),
            },
            waiting: Waiting {
                generation: AtomicUsize::new(0),
                is_broken: AtomicBool::new(false),
            },
        }
    }

    /// Sets the number of threads. The one that does must not have waited before.
    pub(super) fn set_threads(&self, threads: usize) {
        self.arriving.threads.store(threads, Ordering::Release);
    }

    /// The number of threads, once it is set.
    pub(super) fn threads(&self) -> usize {
        self.arriving.threads.load(Ordering::Acquire)
    }

    /// For as long as a thread uses the barrier.
    pub(super) fn guard(&self) -> Guard<'_> {
        Guard(self)
    }

    /// Waits until all threads have arrived; `false` if one never will.
    pub(super) fn wait(&self) -> bool {
        let Self { arriving, waiting } = self;
        let generation = waiting.generation.load(Ordering::Acquire);
        if arriving.arrived.fetch_add(1, Ordering::AcqRel) + 1
            == arriving.threads.load(Ordering::Acquire)
        {
            arriving.arrived.store(0, Ordering::Relaxed);
            waiting.generation.fetch_add(1, Ordering::AcqRel);
        }
        let mut spins = 0;
        while waiting.generation.load(Ordering::Acquire) == generation {
            if waiting.is_broken.load(Ordering::Acquire) {
                return false;
            }
            match spins < SPINS {
                true => std::hint::spin_loop(),
                false => thread::yield_now(),
            }
            spins += 1;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_goes_ahead() {
        let (barrier, sum) = (SpinBarrier::new(), AtomicUsize::new(0));
        thread::scope(|scope| {
            let run = || {
                for round in 0..100 {
                    sum.fetch_add(1, Ordering::Relaxed);
                    assert!(barrier.wait());
                    assert_eq!(sum.load(Ordering::Relaxed), 3 * (round + 1));
                    assert!(barrier.wait());
                }
            };
            scope.spawn(run);
            scope.spawn(run);
            barrier.set_threads(3);
            run();
        });
    }

    #[test]
    fn a_panic_ends_the_waiting() {
        let barrier = SpinBarrier::new();
        barrier.set_threads(2);
        thread::scope(|scope| {
            let failing = scope.spawn(|| {
                let _guard = barrier.guard();
                std::panic::resume_unwind(Box::new("failed"));
            });
            assert!(!barrier.wait());
            assert!(failing.join().is_err());
        });
    }
}
