//! Lets an aggregate that computes for long be stopped, and other tasks run meanwhile.
//!
//! DataFusion evaluates an aggregate within one poll of its operator. Nothing outside can end a poll, so long loops ask [`check`] whether
//! their query still runs. The operator must be polled [`within`](Interrupt::within) an [`Interrupt`], in a task of its own, because the task
//! that would otherwise poll it is the one that notices that the query is cancelled.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::{Result, exec_err};
use tokio::runtime::{Handle, RuntimeFlavor};

/// Work of this many steps, each of about a nanosecond, gives its thread up; less is not worth the change of threads.
const LONG: usize = 1 << 24;

tokio::task_local! {
    static CURRENT: Interrupt;
}

/// Whether an operator must stop. Clones are of the same operator.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Tells the operator to stop.
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Runs `work`, in which [`check`] obeys this.
    pub fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(self.clone(), work)
    }
}

/// Returns an error if the operator that calls this must stop; outside of [`Interrupt::within`] always Ok.
///
/// # Errors
/// If nobody waits for the operator any more.
pub fn check() -> Result<()> {
    match CURRENT.try_with(|current| current.0.load(Ordering::Relaxed)) {
        Ok(true) => exec_err!("the query was stopped while it evaluated an aggregate"),
        _ => Ok(()),
    }
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
    fn long_work_runs_without_a_runtime() {
        assert_eq!(Interrupt::default().within(|| long(usize::MAX, || 7)), 7);
        assert_eq!(long(usize::MAX, || 7), 7);
    }
}
