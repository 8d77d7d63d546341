//! Work that waits for the file system, off the threads of the runtime: the file system may be slow.

use datafusion::common::{DataFusionError, Result};
use tokio::runtime::Handle;

/// Runs `work` on a blocking thread of the runtime, or here where there is no runtime.
///
/// # Errors
/// If `work` panics, or the runtime is stopping.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    match Handle::try_current() {
        Ok(runtime) => {
            let done = runtime.spawn_blocking(work).await;
            done.map_err(|error| DataFusionError::External(Box::new(error)))
        }
        Err(_) => Ok(work()),
    }
}
