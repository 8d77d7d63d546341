//! [`Stamp`]: the state of a file or folder, by which `small_files` and `absent_chunks` tell whether it has changed.

use std::fs::Metadata;
use std::time::{Duration, SystemTime};

/// The coarsest resolution of file times.
pub(super) const SETTLED: Duration = Duration::from_secs(2);

/// Identifies the state of a file or folder: device, inode, length, and the times of the last changes of content and metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp([u64; 3], [i64; 4]);

impl Stamp {
    /// The state that `metadata` tells.
    #[cfg(unix)]
    pub(super) fn of(metadata: &Metadata) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        let file = [metadata.dev(), metadata.ino(), metadata.len()];
        let modified = [metadata.mtime(), metadata.mtime_nsec()];
        let changed = [metadata.ctime(), metadata.ctime_nsec()];
        Some(Self(
            file,
            [modified[0], modified[1], changed[0], changed[1]],
        ))
    }

    /// On other systems the time of the last change can be set by programs.
    #[cfg(not(unix))]
    pub(super) fn of(_: &Metadata) -> Option<Self> {
        None
    }

    /// Whether any change later than `at` would change these times: they are older than that by `resolution`.
    pub(super) fn was_settled(&self, at: SystemTime, resolution: Duration) -> bool {
        let Ok(at) = at.duration_since(SystemTime::UNIX_EPOCH) else {
            return false;
        };
        let Self(_, [_, _, seconds, nanoseconds]) = *self;
        let (Ok(seconds), Ok(nanoseconds)) = (u64::try_from(seconds), u32::try_from(nanoseconds))
        else {
            return false;
        };
        Duration::new(seconds, nanoseconds).saturating_add(resolution) <= at
    }
}
