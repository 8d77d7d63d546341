//! Work that waits for the file system, off the threads of the runtime.

use crate::error::{Result, VczError};

/// Runs `work` on a thread that may wait for the file system.
pub(super) async fn blocking_work<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(error) => Err(VczError::Invalid(format!(
            "the statement was stopped: {error}"
        ))),
    }
}
