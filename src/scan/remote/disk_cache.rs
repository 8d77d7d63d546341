//! [`DiskCache`]: what object stores answered, in the files of a folder that several processes may share.
//!
//! [`cached`](super::cached) decides what is kept, and asks the server before it uses any of it. Invariants: a file is whole or not there
//! (it is written under another name, then renamed); its bytes are compared with their checksum when it is read; a folder that cannot be
//! read or written makes queries slower, but never fail; its files take at most the capacity, whoever writes them
//! ([`Ledger`](super::cache_ledger)).
//!
//! Why not a crate: foyer's files belong to one process, cacache has no limit on its size, and object_store has no cache.

use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::cache_ledger::{Ledger, WritePermit};

/// Format of the files; those of another one are replaced.
const VERSION: u32 = 1;
/// Larger answers are not kept.
const MAX_BYTES: u64 = 64 << 20;
/// Longest first line of a file.
const MAX_HEADER: u64 = 16 << 10;
/// Temporary files of this age are of processes that ended while they wrote.
const ABANDONED: Duration = Duration::from_secs(3600);
/// How often room is made for an answer, which others may take first.
const ATTEMPTS: usize = 4;
/// Name of temporary files.
const TEMPORARY: &str = ".writing-";

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The entity tag of the object.
    pub e_tag: String,
    /// The last change of the object.
    pub modified: SystemTime,
    /// Bytes of the whole object.
    pub size: u64,
    /// Which of them these are.
    pub range: Range<u64>,
    /// The bytes of the range.
    pub bytes: Bytes,
}

/// The line between the checksum and the bytes of a file.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    version: u32,
    key: String,
    e_tag: String,
    /// Since 1970.
    modified: Duration,
    size: u64,
    range: Range<u64>,
}

/// Length of the checksum at the beginning of a file, which covers all that follows.
const CHECKSUM: usize = 4;

/// A folder of answers.
#[derive(Debug)]
pub struct DiskCache {
    folder: PathBuf,
    capacity: u64,
    ledger: Ledger,
    has_warned: AtomicBool,
    written: AtomicU64,
}

impl DiskCache {
    /// The cache in `folder`, of at most `capacity` bytes. Other tables and processes may have it, too: one that writes keeps to its own
    /// limit.
    ///
    /// # Errors
    /// If the folder is not there and cannot be made. A new one is for this user only.
    pub fn open(folder: &Path, capacity: u64) -> io::Result<Self> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder)?;
        Ok(Self {
            folder: folder.to_path_buf(),
            capacity,
            ledger: Ledger::of(folder),
            has_warned: AtomicBool::new(false),
            written: AtomicU64::new(0),
        })
    }

    /// Whether an answer of `length` bytes may be kept.
    pub fn takes(&self, length: u64) -> bool {
        length <= MAX_BYTES.min(self.capacity / 8)
    }

    /// The answer for `key`, if it is there.
    pub async fn get(self: &Arc<Self>, key: String) -> Option<Entry> {
        let cache = Arc::clone(self);
        let read = move || cache.read(&key);
        tokio::task::spawn_blocking(read).await.ok().flatten()
    }

    /// Keeps an answer for `key`, in place of the one that is there.
    pub async fn put(self: &Arc<Self>, key: String, entry: Entry) {
        let cache = Arc::clone(self);
        let write = move || {
            if let Err(error) = cache.write(&key, &entry)
                && !cache.has_warned.swap(true, Ordering::Relaxed)
            {
                let folder = cache.folder.display();
                log::warn!(
                    "the cache '{folder}' cannot be written, so what is read is not kept: {error}"
                );
            }
        };
        // It does not panic, and a runtime that ends needs no cache.
        let _ended = tokio::task::spawn_blocking(write).await;
    }

    fn path_of(&self, key: &str) -> PathBuf {
        let name = blake3::hash(key.as_bytes()).to_hex();
        let (group, rest) = name.split_at(2);
        self.folder.join(group).join(rest)
    }

    fn read(&self, key: &str) -> Option<Entry> {
        let path = self.path_of(key);
        let file = File::open(&path).ok()?;
        let found = contents(&file).ok().and_then(|text| parse(&text, key));
        match found {
            // What was used last is removed last. Without the permission it is as old as it was.
            Some(_) => drop(file.set_modified(SystemTime::now())),
            None => drop(fs::remove_file(&path)),
        }
        found
    }

    fn write(&self, key: &str, entry: &Entry) -> io::Result<()> {
        if !self.takes(entry.bytes.len() as u64) {
            return Ok(());
        }
        let path = self.path_of(key);
        let Some(head) = head(key, entry)? else {
            return Ok(());
        };
        let length = (head.len() + entry.bytes.len()) as u64;
        // Held until the file is there, so that the folder is not measured meanwhile.
        let _writing = self.make_room(length)?;
        let Some(group) = path.parent() else {
            return Ok(());
        };
        fs::create_dir_all(group)?;
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let unique = format!("{TEMPORARY}{}-{self:p}-{number}", std::process::id());
        let temporary = group.join(unique);
        let written = File::create_new(&temporary).and_then(|mut file| {
            file.write_all(&head)?;
            file.write_all(&entry.bytes)
        });
        let renamed = written.and_then(|()| fs::rename(&temporary, &path));
        if renamed.is_err() {
            drop(fs::remove_file(&temporary));
        }
        renamed
    }

    /// Takes `length` bytes of what may be written. When that is used up, the folder is measured and, where it is too large, the files that
    /// were not used for the longest time are removed.
    fn make_room(&self, length: u64) -> io::Result<WritePermit> {
        for _ in 0..ATTEMPTS {
            if let Some(taken) = self.ledger.take(length, self.capacity)? {
                return Ok(taken);
            }
            self.ledger
                .measure(length, self.capacity, || self.shrink(length))?;
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    /// Removes files until there is room for `length` bytes and an eighth of the capacity; returns the bytes that are left.
    fn shrink(&self, length: u64) -> io::Result<u64> {
        let mut files = Vec::new();
        let mut total = 0u64;
        for group in fs::read_dir(&self.folder)? {
            // Groups and files may be removed by another process meanwhile.
            let Ok(group) = fs::read_dir(group?.path()) else {
                continue;
            };
            for file in group.flatten() {
                let Ok(metadata) = file.metadata() else {
                    continue;
                };
                let used = metadata.modified().unwrap_or(UNIX_EPOCH);
                let is_temporary = file.file_name().to_string_lossy().starts_with(TEMPORARY);
                let age = used.elapsed().unwrap_or_default();
                if is_temporary && age >= ABANDONED {
                    drop(fs::remove_file(file.path()));
                    continue;
                }
                total = total.saturating_add(metadata.len());
                if !is_temporary {
                    files.push((used, metadata.len(), file.path()));
                }
            }
        }
        let room = (self.capacity / 8).max(length);
        let goal = self.capacity.saturating_sub(room);
        if total > goal {
            files.sort();
        }
        for (_, length, path) in files {
            if total <= goal {
                break;
            }
            if fs::remove_file(path).is_ok() {
                total = total.saturating_sub(length);
            }
        }
        Ok(total)
    }
}

/// The bytes of a file of ours.
fn contents(file: &File) -> io::Result<Bytes> {
    let length = file.metadata()?.len();
    if length > MAX_BYTES + MAX_HEADER {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, length), &mut bytes)?;
    Ok(bytes.into())
}

/// What is before the bytes of an answer for `key` in its file: the checksum and the header. `None` if that is too long to be kept.
///
/// # Errors
/// If the header cannot be written as JSON.
pub fn head(key: &str, entry: &Entry) -> serde_json::Result<Option<Vec<u8>>> {
    let modified = entry.modified.duration_since(UNIX_EPOCH);
    let mut line = serde_json::to_vec(&Header {
        version: VERSION,
        key: key.to_string(),
        e_tag: entry.e_tag.clone(),
        modified: modified.unwrap_or_default(),
        size: entry.size,
        range: entry.range.clone(),
    })?;
    line.push(b'\n');
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&line), &entry.bytes);
    let mut head = checksum.to_le_bytes().to_vec();
    head.extend(line);
    Ok((head.len() as u64 <= MAX_HEADER).then_some(head))
}

/// The answer in a file, if it is for `key` and as it was written.
pub fn parse(file: &Bytes, key: &str) -> Option<Entry> {
    let checksum = file.first_chunk::<CHECKSUM>()?;
    let text = file.slice(CHECKSUM..);
    if crc32c::crc32c(&text) != u32::from_le_bytes(*checksum) {
        return None;
    }
    let searched = text.get(..text.len().min(MAX_HEADER as usize))?;
    let end = searched.iter().position(|byte| *byte == b'\n')?;
    let header: Header = serde_json::from_slice(&text[..end]).ok()?;
    let bytes = text.slice(end + 1..);
    let length = header.range.end.checked_sub(header.range.start)?;
    let is_right = header.version == VERSION
        && header.key == key
        && length == bytes.len() as u64
        && header.range.end <= header.size;
    Some(Entry {
        e_tag: header.e_tag,
        modified: UNIX_EPOCH.checked_add(header.modified)?,
        size: header.size,
        range: header.range,
        bytes,
    })
    .filter(|_| is_right)
}

#[cfg(test)]
#[path = "../../../tests/fuzz/checks/disk_cache.rs"]
mod fuzz_check;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::fuzz_corpus::corpus::replay;

    #[test]
    fn fuzz_corpus() {
        replay("disk_cache", fuzz_check::check);
    }

    fn entry(fill: u8, length: usize) -> Entry {
        Entry {
            e_tag: "\"1\"".to_string(),
            modified: UNIX_EPOCH + Duration::new(1_700_000_000, 5),
            size: 1 << 20,
            range: 10..10 + length as u64,
            bytes: vec![fill; length].into(),
        }
    }

    fn files(folder: &Path) -> Vec<PathBuf> {
        let groups = fs::read_dir(folder).unwrap();
        let groups = groups.map(|group| group.unwrap().path());
        let files = groups
            .filter(|group| group.is_dir())
            .flat_map(|group| fs::read_dir(group).unwrap());
        files.map(|file| file.unwrap().path()).collect()
    }

    #[test]
    fn what_is_written_is_read_by_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let cache = DiskCache::open(folder.path(), 1 << 20).unwrap();
        assert_eq!(cache.read("a"), None);
        cache.write("a", &entry(7, 100)).unwrap();
        cache.write("b", &entry(8, 0)).unwrap();
        // Another process.
        let other = DiskCache::open(folder.path(), 1 << 20).unwrap();
        assert_eq!(other.read("a"), Some(entry(7, 100)));
        assert_eq!(other.read("b"), Some(entry(8, 0)));
        other.write("a", &entry(9, 50)).unwrap();
        assert_eq!(cache.read("a"), Some(entry(9, 50)));
        assert_eq!(files(folder.path()).len(), 2);
    }

    #[test]
    fn damaged_files_are_absent() {
        let folder = tempfile::tempdir().unwrap();
        let cache = DiskCache::open(folder.path(), 1 << 20).unwrap();
        cache.write("a", &entry(7, 30)).unwrap();
        let path = files(folder.path()).remove(0);
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            fs::write(&path, &flipped).unwrap();
            assert_eq!(cache.read("a"), None, "byte {at}");
            fs::write(&path, &whole[..at]).unwrap();
            assert_eq!(cache.read("a"), None, "{at} bytes");
            assert!(!path.exists());
        }
        // The file of another key in its place.
        fs::write(&path, &whole).unwrap();
        cache.write("b", &entry(1, 30)).unwrap();
        fs::rename(cache.path_of("b"), &path).unwrap();
        assert_eq!(cache.read("a"), None);
    }

    #[test]
    fn its_size_is_bounded_and_what_is_used_stays() {
        let folder = tempfile::tempdir().unwrap();
        let capacity = 100_000;
        let cache = DiskCache::open(folder.path(), capacity).unwrap();
        cache.write("used", &entry(1, 5000)).unwrap();
        let abandoned = folder.path().join("00");
        fs::create_dir_all(&abandoned).unwrap();
        let abandoned = abandoned.join(format!("{TEMPORARY}1"));
        fs::write(&abandoned, "x").unwrap();
        let old = File::options().write(true).open(&abandoned).unwrap();
        old.set_modified(SystemTime::now() - 2 * ABANDONED).unwrap();
        for n in 0..100 {
            cache.write(&n.to_string(), &entry(2, 5000)).unwrap();
            let bytes: u64 = files(folder.path())
                .iter()
                .map(|file| file.metadata().unwrap().len())
                .sum();
            assert!(bytes <= capacity, "{bytes} bytes after {n}");
            assert!(cache.read("used").is_some(), "after {n}");
        }
        assert!(cache.read("99").is_some() && cache.read("5").is_none());
        assert!(!abandoned.exists());
        // Tables and processes that write at the same time.
        std::thread::scope(|threads| {
            for thread in 0..8u8 {
                let cache = DiskCache::open(folder.path(), capacity).unwrap();
                threads.spawn(move || {
                    for n in 0..50 {
                        cache
                            .write(&format!("{thread} {n}"), &entry(thread, 3000))
                            .unwrap();
                        let sizes = files(&cache.folder)
                            .into_iter()
                            .filter_map(|file| file.metadata().ok());
                        let bytes: u64 = sizes.map(|file| file.len()).sum();
                        assert!(bytes <= capacity, "{bytes} bytes");
                    }
                });
            }
        });
        // Too large an answer would push all others out.
        cache.write("large", &entry(3, 20_000)).unwrap();
        assert_eq!(cache.read("large"), None);
    }
}
