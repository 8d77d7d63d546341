//! [`Place`]: where a store is written.

use std::path::PathBuf;
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::path::Path;

/// A place that a store is written to.
#[derive(Debug, Clone)]
pub struct Place {
    /// What the user wrote, for messages.
    pub location: String,
    /// The object store.
    pub objects: Arc<dyn ObjectStore>,
    /// The path inside it.
    pub path: Path,
    /// The path on this machine, for local files.
    pub local: Option<PathBuf>,
}
