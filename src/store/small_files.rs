//! A cache of small files of a store. Nearly every query reads positions and contigs, in thousands of chunks of a few kilobytes;
//! checking whether a file has changed takes a tenth of the time of opening it.
//!
//! Invariants: the cache returns the current contents of a file, as far as its length and times show; a file that changed very
//! recently is not cached, since a second change might not change its times; memory is bounded.

use std::collections::HashMap;
use std::fs::Metadata;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use parking_lot::RwLock;

use super::files::{Wait, metadata, open_regular, read_file, without_blocking};
use super::read_error::{ReadError, within};

/// Longer files are not cached.
const LONGEST: u64 = 64 << 10;
/// Most bytes that are cached for a store, with about [`OVERHEAD`] for each file.
const MOST_BYTES: usize = 64 << 20;
const OVERHEAD: usize = 160;
/// The coarsest resolution of file times.
const SETTLED: Duration = Duration::from_secs(2);
/// Number of maps, each with a lock, so that threads rarely contend.
const SHARDS: usize = 32;

/// Identifies the state of a file: device, inode, length, and the times of the last changes of content and metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp([u64; 3], [i64; 4]);

impl Stamp {
    #[cfg(unix)]
    fn of(metadata: &Metadata) -> Option<Self> {
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
    fn of(_: &Metadata) -> Option<Self> {
        None
    }

    /// Whether any later change would change the file's times.
    fn is_settled(&self, after: Duration) -> bool {
        let Ok(now) = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) else {
            return false;
        };
        let Self(_, [_, _, seconds, nanoseconds]) = *self;
        let (Ok(seconds), Ok(nanoseconds)) = (u64::try_from(seconds), u32::try_from(nanoseconds))
        else {
            return false;
        };
        Duration::new(seconds, nanoseconds).saturating_add(after) <= now
    }
}

/// Files by their keys.
type Shard = HashMap<Box<str>, (Stamp, Bytes)>;

/// The small files of one store.
#[derive(Debug)]
pub(super) struct SmallFiles {
    shards: [RwLock<Shard>; SHARDS],
    hasher: RandomState,
    bytes: AtomicUsize,
    settled: Duration,
    most: usize,
}

impl Default for SmallFiles {
    fn default() -> Self {
        Self {
            shards: Default::default(),
            hasher: RandomState::new(),
            bytes: AtomicUsize::new(0),
            settled: SETTLED,
            most: MOST_BYTES,
        }
    }
}

/// What became of a file that may be in the cache.
enum Found {
    Absent,
    /// As it is in the cache.
    Unchanged,
    /// Read again. The stamp is missing where the file must not be cached.
    Read(Option<Stamp>, Bytes),
}

/// Reads the file at `path`, unless its stamp is still `known`.
fn read_changed(
    path: &Path,
    known: Option<Stamp>,
    limit: u64,
    wait: Wait,
) -> Result<Found, ReadError> {
    if known.is_some() {
        let Some(metadata) = metadata(path, wait)? else {
            return Ok(Found::Absent);
        };
        if Stamp::of(&metadata) == known {
            return Ok(Found::Unchanged);
        }
    }
    let Some((file, len)) = open_regular(path, wait)? else {
        return Ok(Found::Absent);
    };
    within(len, limit)?;
    // Taken before the file is read, so that a change meanwhile is detected later.
    let stamp = Stamp::of(&file.metadata()?).filter(|_| len <= LONGEST);
    Ok(Found::Read(stamp, read_file(&file, 0, len, wait)?))
}

impl SmallFiles {
    /// The bytes of the file at `path`, cached as `key`; `None` if there is no such file. More than `limit` bytes are an error.
    pub(super) async fn get(
        &self,
        key: &str,
        path: PathBuf,
        limit: u64,
    ) -> Result<Option<Bytes>, ReadError> {
        let shard = &self.shards[self.hasher.hash_one(key) as usize % SHARDS];
        let (known, cached) = shard.read().get(key).cloned().unzip();
        let found = without_blocking(move |wait| read_changed(&path, known, limit, wait)).await?;
        let (stamp, bytes) = match (found, cached) {
            (Found::Unchanged, Some(bytes)) => {
                within(bytes.len() as u64, limit)?;
                return Ok(Some(bytes));
            }
            (Found::Read(stamp, bytes), _) => (stamp, bytes),
            (Found::Absent | Found::Unchanged, _) => return Ok(None),
        };
        if let Some(stamp) = stamp.filter(|stamp| stamp.is_settled(self.settled)) {
            let mut shard = shard.write();
            if let Some((_, old)) = shard.remove(key) {
                self.bytes.fetch_sub(size(key, &old), Ordering::Relaxed);
            }
            let size = size(key, &bytes);
            // When the cache is full, new files are not added.
            if self.bytes.fetch_add(size, Ordering::Relaxed) + size <= self.most {
                shard.insert(key.into(), (stamp, bytes.clone()));
            } else {
                self.bytes.fetch_sub(size, Ordering::Relaxed);
            }
        }
        Ok(Some(bytes))
    }
}

/// Bytes of a file in the cache.
fn size(key: &str, bytes: &Bytes) -> usize {
    key.len() + bytes.len() + OVERHEAD
}

#[cfg(all(test, unix))]
mod tests {
    use futures::executor::block_on;

    use super::*;

    fn files(settled: Duration) -> SmallFiles {
        SmallFiles {
            settled,
            ..SmallFiles::default()
        }
    }

    fn kept(files: &SmallFiles) -> usize {
        files.shards.iter().map(|shard| shard.read().len()).sum()
    }

    #[test]
    fn changed_files_are_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0");
        let all = files(Duration::ZERO);
        let get = || block_on(all.get("p/0", path.clone(), 10)).unwrap();
        assert_eq!(get(), None);
        for content in ["first", "other", "longer", "", "later"] {
            // File times are coarse.
            std::thread::sleep(Duration::from_millis(30));
            std::fs::write(&path, content).unwrap();
            std::thread::sleep(Duration::from_millis(30));
            assert_eq!(get().unwrap(), content);
            assert_eq!(kept(&all), 1);
            assert_eq!(get().unwrap(), content);
            assert_eq!(
                all.bytes.load(Ordering::Relaxed),
                size("p/0", &Bytes::from(content))
            );
        }
        // Another file in its place, as long and as old as that.
        std::fs::write(folder.path().join("1"), "newer").unwrap();
        let old = std::fs::metadata(&path).unwrap().modified().unwrap();
        let new = std::fs::File::options()
            .write(true)
            .open(folder.path().join("1"))
            .unwrap();
        new.set_modified(old).unwrap();
        std::fs::rename(folder.path().join("1"), &path).unwrap();
        assert_eq!(get().unwrap(), "newer");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(get(), None);
        std::fs::create_dir(&path).unwrap();
        assert!(
            block_on(all.get("p/0", path.clone(), 10)).is_err(),
            "a folder"
        );
    }

    #[test]
    fn cached_files_are_not_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0");
        std::fs::write(&path, "first").unwrap();
        let all = files(Duration::ZERO);
        std::thread::sleep(Duration::from_millis(30));
        let first = block_on(all.get("p/0", path.clone(), 10)).unwrap().unwrap();
        let second = block_on(all.get("p/0", path.clone(), 10)).unwrap().unwrap();
        assert_eq!(first.as_ptr(), second.as_ptr(), "not read again");
        assert!(
            block_on(all.get("p/0", path.clone(), 4)).is_err(),
            "over the limit"
        );
    }

    #[test]
    fn recent_long_or_too_many_files_are_not_cached() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0");
        std::fs::write(&path, "first").unwrap();
        let new = files(Duration::from_secs(3600));
        assert_eq!(
            block_on(new.get("p/0", path.clone(), 10)).unwrap().unwrap(),
            "first"
        );
        assert_eq!((kept(&new), new.bytes.into_inner()), (0, 0));
        let mut few = files(Duration::ZERO);
        few.most = 2 * (OVERHEAD + 8);
        std::thread::sleep(Duration::from_millis(30));
        for key in ["p/0", "p/1", "p/2"] {
            assert_eq!(
                block_on(few.get(key, path.clone(), 10)).unwrap().unwrap(),
                "first"
            );
        }
        assert_eq!((kept(&few), few.bytes.into_inner()), (2, few.most));
        std::fs::write(&path, vec![0; LONGEST as usize + 1]).unwrap();
        std::thread::sleep(Duration::from_millis(30));
        let all = files(Duration::ZERO);
        let long = block_on(all.get("p/0", path.clone(), u64::MAX))
            .unwrap()
            .unwrap();
        assert_eq!((long.len() as u64, kept(&all)), (LONGEST + 1, 0));
    }
}
