//! What a session's queries share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::prelude::SessionContext;
use pyo3::prelude::*;

use super::errors::error;
use super::progress::Watched;
use datafusion_vcz::cli::environment::Environment;
use datafusion_vcz::scan::progress::ProgressTracker;

/// What a session's queries share.
pub struct Shared {
    /// The session.
    pub environment: Environment,
    /// The progress of its scans.
    pub tracker: Arc<ProgressTracker>,
    closed: AtomicBool,
}

impl Shared {
    /// What the queries of a new session share.
    pub fn new(environment: Environment, tracker: Arc<ProgressTracker>) -> Self {
        Self {
            environment,
            tracker,
            closed: AtomicBool::new(false),
        }
    }

    /// Whether the session was closed.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Closes the session.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// The session's context.
    pub fn ctx(&self) -> &SessionContext {
        &self.environment.ctx
    }

    /// The progress of a query, for `callback`.
    pub fn watched(&self, callback: Option<Py<PyAny>>) -> Watched {
        Watched::new(Arc::clone(&self.tracker), callback)
    }

    /// # Errors
    /// If the session was closed.
    pub fn check_open(&self) -> PyResult<()> {
        match self.is_closed() {
            false => Ok(()),
            true => Err(error(
                "the connection is closed; make another with vcz.connect()",
            )),
        }
    }
}
