//! Calls of a Python function with the progress of a session's scans: `callback(done, total)`, in variants.

use std::sync::Arc;

use pyo3::prelude::*;

use datafusion_vcz::scan::progress::ProgressTracker;

/// The progress of one query.
pub struct Watched {
    tracker: Arc<ProgressTracker>,
    callback: Option<Py<PyAny>>,
}

impl Watched {
    /// Progress of the session that `tracker` is of, for `callback` if there is one.
    pub fn new(tracker: Arc<ProgressTracker>, callback: Option<Py<PyAny>>) -> Self {
        Self { tracker, callback }
    }

    /// Checks for Ctrl-C, and calls the function if scans are running.
    ///
    /// # Errors
    /// KeyboardInterrupt, or what the function raises.
    pub fn tick(&self, py: Python<'_>) -> PyResult<()> {
        py.check_signals()?;
        let now = self.tracker.now();
        match &self.callback {
            Some(callback) if now.running > 0 => {
                callback.call1(py, (now.done.min(now.total), now.total))?;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
