//! Temporary files and folders of stores that are being written, for a process that is ended by a signal.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

static TEMPORARIES: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Notes a temporary file or folder.
pub(super) fn note(path: &Path) {
    TEMPORARIES.lock().insert(path.to_path_buf());
}

/// Forgets a temporary file or folder that is removed or has got its name. Returns whether it was noted.
pub(super) fn forget(path: &Path) -> bool {
    TEMPORARIES.lock().remove(path)
}

/// Removes the temporaries of all statements, which fail then.
pub fn remove_temporaries() {
    for path in TEMPORARIES.lock().iter() {
        // Repeated, because a statement may create a file while the folder is being removed. Then the folder is left.
        for _ in 0..3 {
            let removed = match path.is_dir() {
                true => fs::remove_dir_all(path),
                false => fs::remove_file(path),
            };
            if removed.is_ok() || !path.exists() {
                break;
            }
        }
    }
}
