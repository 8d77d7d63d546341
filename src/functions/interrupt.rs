//! Lets an aggregate that computes for long use several threads and devices, be stopped, and other tasks run meanwhile.
//!
//! DataFusion evaluates an aggregate within one poll of its operator. Nothing outside can end a poll, so long loops ask [`check`] whether
//! their query still runs. The operator must be polled [`within`](Interrupt::within) an [`Interrupt`], in a task of its own, because the task
//! that would otherwise poll it is the one that notices that the query is cancelled.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::counts::Workers;
use crate::counts::sites::SiteDevice;

/// Work of this many steps, each of about a nanosecond, gives its thread up; less is not worth the change of threads.
const LONG: usize = 1 << 24;

tokio::task_local! {
    static CURRENT: Interrupt;
}

/// The threads of an operator, which its partitions share. Clones are of the same threads.
#[derive(Clone, Debug)]
pub struct Threads {
    /// Those that no computation has.
    free: Arc<AtomicUsize>,
}

impl Threads {
    /// So many threads.
    pub fn new(threads: usize) -> Self {
        Self {
            free: Arc::new(AtomicUsize::new(threads)),
        }
    }
}

impl Default for Threads {
    fn default() -> Self {
        Self::new(1)
    }
}

/// Threads that a computation has until this is dropped: those that were free, and at least one.
struct Lease<'a> {
    threads: &'a Threads,
    taken: usize,
}

impl<'a> Lease<'a> {
    /// At most so many.
    fn new(threads: &'a Threads, most: usize) -> Self {
        let take = |free: usize| Some(free.saturating_sub(most));
        // The closure always returns a value.
        let updated = threads
            .free
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        let taken = updated.map_or(0, |free| free.min(most));
        Self { threads, taken }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        self.threads.free.fetch_add(self.taken, Ordering::Relaxed);
    }
}

/// Whether a partition of an operator must stop, and the operator's threads. Clones are of the same partition.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    stop: Arc<AtomicBool>,
    threads: Threads,
    /// What sums over pairs of sites, beside the host.
    site_device: Option<Arc<dyn SiteDevice>>,
}

impl Interrupt {
    /// Of an operator with these threads.
    pub fn new(threads: &Threads) -> Self {
        Self {
            stop: Arc::default(),
            threads: threads.clone(),
            site_device: None,
        }
    }

    /// The same, where a device may sum over pairs of sites.
    pub(crate) fn with_site_device(self, site_device: Option<Arc<dyn SiteDevice>>) -> Self {
        Self {
            site_device,
            ..self
        }
    }

    /// The device that may sum over pairs of sites.
    pub(crate) fn site_device(&self) -> Option<&Arc<dyn SiteDevice>> {
        self.site_device.as_ref()
    }

    /// That in which this is called; without one a new one.
    pub fn current() -> Self {
        CURRENT.try_with(Self::clone).unwrap_or_default()
    }

    /// Tells the operator to stop.
    pub fn request(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// `work`, in which [`check`] obeys this: for a task of the same operator.
    pub fn scope<F: Future>(self, work: F) -> impl Future<Output = F::Output> {
        CURRENT.scope(self, work)
    }

    /// Runs `work`, in which [`check`] obeys this.
    pub fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(self.clone(), work)
    }
}

/// The error of an operator that was told to stop.
pub(crate) fn stopped() -> DataFusionError {
    exec_datafusion_err!("the query was stopped while it compared pairs")
}

/// Returns an error if the operator that calls this must stop; outside of [`Interrupt::within`] always Ok.
///
/// # Errors
/// If nobody waits for the operator any more.
pub fn check() -> Result<()> {
    match CURRENT.try_with(|current| current.stop.load(Ordering::Relaxed)) {
        Ok(true) => Err(stopped()),
        _ => Ok(()),
    }
}

/// Runs `work` with those threads of the operator that no other computation has, outside of [`Interrupt::within`] with the calling one. They
/// are asked to stop where [`check`] would return an error.
pub(crate) fn with_workers<T>(work: impl FnOnce(&Workers<'_>) -> T) -> T {
    with_some_workers(usize::MAX, work)
}

/// The same with at most so many threads, which leaves the others to other partitions.
pub(crate) fn with_some_workers<T>(most: usize, work: impl FnOnce(&Workers<'_>) -> T) -> T {
    let current = Interrupt::current();
    let lease = Lease::new(&current.threads, most);
    let stopped = || current.stop.load(Ordering::Relaxed);
    work(&Workers::new(lease.taken, &stopped))
}

/// Runs `work` with the calling thread alone, as [`with_workers`] does otherwise. For work that all partitions do at the same time, after each of their
/// batches: the threads of the operator are left to those that compute for long.
pub(crate) fn alone<T>(work: impl FnOnce(&Workers<'_>) -> T) -> T {
    let current = Interrupt::current();
    let stopped = || current.stop.load(Ordering::Relaxed);
    work(&Workers::new(1, &stopped))
}

/// Runs `work`, which takes about `steps` nanoseconds. If that is long, the thread's other tasks move to another thread, so that timers go
/// on and a cancelled query is noticed even if all threads evaluate.
pub fn long<T>(steps: usize, work: impl FnOnce() -> T) -> T {
    let has_task = || CURRENT.try_with(|_| ()).is_ok();
    // Other runtimes cannot move tasks.
    let moves_tasks =
        || Handle::try_current().is_ok_and(|at| at.runtime_flavor() == RuntimeFlavor::MultiThread);
    if steps >= LONG && has_task() && moves_tasks() {
        return tokio::task::block_in_place(work);
    }
    work()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_within_and_only_on_request() {
        let interrupt = Interrupt::default();
        interrupt.within(|| check().unwrap());
        interrupt.request();
        check().unwrap();
        let error = interrupt.within(|| {
            // An operator inside of another one.
            Interrupt::default().within(|| check().unwrap());
            check().unwrap_err()
        });
        assert!(
            error.to_string().contains("the query was stopped"),
            "{error}"
        );
        check().unwrap();
    }

    #[test]
    fn computations_share_threads() {
        let threads = Threads::new(4);
        let [one, other] = [Interrupt::new(&threads), Interrupt::new(&threads)];
        let number =
            |interrupt: &Interrupt| interrupt.within(|| with_workers(|workers| workers.threads()));
        let nested = one.within(|| with_workers(|workers| (workers.threads(), number(&other))));
        assert_eq!(nested, (4, 1));
        let nested = one.within(|| alone(|workers| (workers.threads(), number(&other))));
        assert_eq!(nested, (1, 4));
        assert_eq!(number(&other), 4);
        let nested =
            one.within(|| with_some_workers(3, |workers| (workers.threads(), number(&other))));
        assert_eq!(nested, (3, 1));
        let nested =
            one.within(|| with_some_workers(1, |workers| (workers.threads(), number(&other))));
        assert_eq!(nested, (1, 3));
        assert_eq!(number(&other), 4);
        other.request();
        let ends = |interrupt: &Interrupt| {
            interrupt.within(|| with_workers(|workers| workers.check().is_err()))
        };
        assert_eq!((ends(&one), ends(&other)), (false, true));
        assert!(other.within(|| alone(|workers| workers.check().is_err())));
        assert_eq!(with_workers(|workers| workers.threads()), 1);
    }

    #[test]
    fn long_work_runs_without_a_runtime() {
        assert_eq!(Interrupt::default().within(|| long(usize::MAX, || 7)), 7);
        assert_eq!(long(usize::MAX, || 7), 7);
    }
}
