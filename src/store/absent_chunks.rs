//! [`AbsentChunks`]: chunks of a local store that were absent, and still are while their folder is unchanged. Writers leave out chunks of
//! fill values, and of a store of one contig those are all chunks of `variant_contig`: looking at the folder once replaces looking for each.
//!
//! Invariants: a chunk is remembered with the state of its folder, and only if the folder had been unchanged for so long when the chunk was looked
//! for that a file made since would show in its times; memory is bounded.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::{Mutex, RwLock};

use super::array::ArrayMeta;
use super::files::{metadata, without_blocking};
use super::source::StoreSource;
use super::stamp::{SETTLED, Stamp};
use super::vcz_store::Store;

/// The most chunks of a folder that are remembered.
const MOST_CHUNKS: usize = 1 << 20;

/// The absent chunks of a store.
#[derive(Debug)]
pub(super) struct AbsentFiles {
    /// By the folder that would hold them.
    folders: Mutex<HashMap<PathBuf, Arc<Remembered>>>,
    settled: Duration,
}

/// Absent chunks of one folder.
#[derive(Debug)]
struct Remembered {
    /// The state of the folder.
    stamp: Stamp,
    chunks: RwLock<HashSet<u64>>,
}

/// What is known of an array's absent chunks while some of them are read. Only those of arrays of one dimension are remembered: all of them
/// are in one folder.
#[derive(Debug)]
pub struct AbsentChunks<'a> {
    /// Where they are remembered, and their folder; `None` where they are not.
    files: Option<(&'a AbsentFiles, PathBuf)>,
    known: Option<Arc<Remembered>>,
    /// When this was made.
    started: SystemTime,
}

impl Store {
    /// What is known of the absent chunks of `array`. No file is looked at where none are known, and nothing is known of archives and object
    /// stores.
    pub async fn absent_chunks(&self, array: &ArrayMeta) -> AbsentChunks<'_> {
        match (&self.source, self.object(array, &[0])) {
            (StoreSource::Directory { root, absent, .. }, Ok((key, _))) if !self.is_made(array) => {
                let file = root.join(key);
                absent.of_folder(file.parent().unwrap_or(root)).await
            }
            _ => AbsentChunks {
                files: None,
                known: None,
                started: SystemTime::now(),
            },
        }
    }
}

/// The state of a folder; `None` if it is absent or cannot be looked at.
async fn stamp(folder: &Path) -> Option<Stamp> {
    let folder = folder.to_owned();
    let found = without_blocking(move |wait| metadata(&folder, wait)).await;
    Stamp::of(&found.ok()??)
}

impl Default for AbsentFiles {
    fn default() -> Self {
        Self {
            folders: Mutex::default(),
            settled: SETTLED,
        }
    }
}

impl AbsentFiles {
    async fn of_folder(&self, folder: &Path) -> AbsentChunks<'_> {
        let started = SystemTime::now();
        let mut known = self.folders.lock().get(folder).cloned();
        if let Some(before) = &known
            && stamp(folder).await != Some(before.stamp)
        {
            self.folders.lock().remove(folder);
            known = None;
        }
        AbsentChunks {
            files: Some((self, folder.to_owned())),
            known,
            started,
        }
    }
}

impl AbsentChunks<'_> {
    /// Whether the chunk at `index` is known to be absent.
    pub fn contains(&self, index: &[u64]) -> bool {
        match (&self.known, index) {
            (Some(known), [chunk]) => known.chunks.read().contains(chunk),
            _ => false,
        }
    }

    /// Remembers chunks that have been looked for since this was made, and were absent.
    pub async fn remember(&self, chunks: &[u64]) {
        let Some((files, folder)) = self.files.as_ref().filter(|_| !chunks.is_empty()) else {
            return;
        };
        let known = match &self.known {
            Some(known) => Arc::clone(known),
            None => {
                // A file made since would have changed these times.
                let found = stamp(folder).await;
                let Some(stamp) = found.filter(|of| of.was_settled(self.started, files.settled))
                else {
                    return;
                };
                let mut folders = files.folders.lock();
                let known = folders.get(folder).filter(|known| known.stamp == stamp);
                let known = known.cloned().unwrap_or_else(|| {
                    Arc::new(Remembered {
                        stamp,
                        chunks: RwLock::default(),
                    })
                });
                folders.insert(folder.clone(), Arc::clone(&known));
                known
            }
        };
        let mut remembered = known.chunks.write();
        let room = MOST_CHUNKS.saturating_sub(remembered.len());
        remembered.extend(chunks.iter().take(room));
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::thread::sleep;

    use super::*;

    /// Longer than the resolution of the times of files.
    const TICK: Duration = Duration::from_millis(30);

    #[tokio::test]
    async fn chunks_are_absent_while_their_folder_is_unchanged() {
        let store = tempfile::tempdir().unwrap();
        let folder = &store.path().join("variant_contig");
        fs::create_dir(folder).unwrap();
        let files = AbsentFiles {
            settled: TICK,
            ..AbsentFiles::default()
        };
        let now = async || files.of_folder(folder).await;
        let known = async || {
            let now = now().await;
            (0..5).filter(|chunk| now.contains(&[*chunk])).count()
        };
        now().await.remember(&[0, 1, 2]).await;
        assert_eq!(known().await, 0, "the folder has just changed");
        sleep(2 * TICK);
        now().await.remember(&[]).await;
        assert!(files.folders.lock().is_empty());
        now().await.remember(&[0, 1, 2]).await;
        now().await.remember(&[2, 3]).await;
        assert_eq!(known().await, 4);
        assert!(!now().await.contains(&[0, 0]) && !now().await.contains(&[]));

        // A chunk is written, also while others are looked for.
        let before = now().await;
        sleep(2 * TICK);
        fs::write(folder.join("1"), "chunk").unwrap();
        assert_eq!(known().await, 0);
        before.remember(&[4]).await;
        assert_eq!(known().await, 0, "remembered of the folder as it was");
        let before = now().await;
        sleep(2 * TICK);
        fs::write(folder.join("0"), "chunk").unwrap();
        before.remember(&[0]).await;
        sleep(2 * TICK);
        assert_eq!(
            known().await,
            0,
            "the chunk was written after it was looked for"
        );

        // Another folder in its place.
        now().await.remember(&[3]).await;
        assert_eq!(known().await, 1);
        fs::rename(folder, store.path().join("other")).unwrap();
        assert_eq!(known().await, 0);
        now().await.remember(&[3]).await;
        assert_eq!(known().await, 0, "there is no folder");
    }
}
