//! The progress of a session's scans, rows done of all rows, for a progress bar. The command line adds a [`ProgressTracker`] to
//! its session's configuration, and streams report to it while they read. A session without one reports nothing.
//!
//! Invariant: the sums include all scans since the session was last idle, so that they never decrease while a scan is running.

use std::fmt;
use std::sync::Arc;

use datafusion::execution::TaskContext;
use parking_lot::Mutex;

/// All scans that run in one session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Scan partitions that are being read; 0 if the session is idle.
    pub running: u64,
    /// Rows that were read or skipped since the session was last idle.
    pub done: u64,
    /// Rows of the scans that were started since then.
    pub total: u64,
    /// Increases by one whenever the session stops being idle: a new number means a new query, or another part of one.
    pub epoch: u64,
}

/// The progress of a session's scans: an extension of its configuration.
pub struct ProgressTracker {
    now: Mutex<Progress>,
    on_idle: Box<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for ProgressTracker {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_tuple("ProgressTracker").field(&self.now()).finish()
    }
}

impl ProgressTracker {
    /// A tracker that calls `on_idle` whenever the last running scan ends, on the thread that ends it and before its stream is
    /// dropped.
    pub fn new(on_idle: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            now: Mutex::default(),
            on_idle: Box::new(on_idle),
        }
    }

    /// The tracker of the session that a task belongs to, if it has one.
    pub fn of(context: &TaskContext) -> Option<Arc<Self>> {
        context.session_config().get_extension()
    }

    /// The current progress.
    pub fn now(&self) -> Progress {
        *self.now.lock()
    }
}

/// One scan partition while it is being read. Ends when it is dropped, whether or not all rows were read.
#[derive(Debug)]
pub struct ScanProgress {
    tracker: Option<Arc<ProgressTracker>>,
    left: u64,
}

impl ScanProgress {
    /// Starts a partition of `rows` rows.
    pub fn start(tracker: Option<Arc<ProgressTracker>>, rows: u64) -> Self {
        if let Some(tracker) = &tracker {
            let mut now = tracker.now.lock();
            if now.running == 0 {
                *now = Progress {
                    epoch: now.epoch + 1,
                    ..Progress::default()
                };
            }
            now.running += 1;
            now.total += rows;
        }
        Self {
            tracker,
            left: rows,
        }
    }

    /// Rows that are left.
    #[cfg(test)]
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Reports that `rows` more rows were read or skipped.
    pub fn advance(&mut self, rows: u64) {
        let rows = rows.min(self.left);
        self.left -= rows;
        if let Some(tracker) = &self.tracker {
            tracker.now.lock().done += rows;
        }
    }
}

impl Drop for ScanProgress {
    fn drop(&mut self) {
        // Rows that were not read because of a LIMIT or an error count as done.
        self.advance(self.left);
        if let Some(tracker) = &self.tracker {
            let idle = {
                let mut now = tracker.now.lock();
                now.running -= 1;
                now.running == 0
            };
            // Outside the lock, because the callback may read the progress.
            if idle {
                (tracker.on_idle)();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn sums_grow_until_idle() {
        let idle = Arc::new(AtomicUsize::new(0));
        let calls = Arc::clone(&idle);
        let tracker = Arc::new(ProgressTracker::new(move || {
            calls.fetch_add(1, Ordering::Relaxed);
        }));
        let start = |rows| ScanProgress::start(Some(Arc::clone(&tracker)), rows);
        let progress = |running, done, total, epoch| Progress {
            running,
            done,
            total,
            epoch,
        };
        let mut first = start(100);
        first.advance(30);
        assert_eq!(tracker.now(), progress(1, 30, 100, 1));
        first.advance(1_000);
        let second = start(5);
        assert_eq!(tracker.now(), progress(2, 100, 105, 1));
        drop(first);
        assert_eq!(idle.load(Ordering::Relaxed), 0);
        drop(second);
        assert_eq!(tracker.now(), progress(0, 105, 105, 1));
        assert_eq!(idle.load(Ordering::Relaxed), 1);
        let third = start(7);
        assert_eq!(tracker.now(), progress(1, 0, 7, 2));
        drop(third);
        assert_eq!(idle.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn without_a_tracker_nothing_is_reported() {
        let mut scan = ScanProgress::start(None, 10);
        scan.advance(4);
        assert_eq!(scan.left, 6);
    }
}
