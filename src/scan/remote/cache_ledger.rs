//! [`Ledger`]: how many bytes the files of a cache take, in a file of the cache itself, so that all that write count together.
//!
//! Two files are locked. The number is changed under the lock of `.used`, and before a file is written. Writers
//! hold `.lock` shared, and a measurement of the folder holds it exclusively: nothing is then being written that it would miss. A process
//! that ends loses its locks. Where the file system has none, what is written during a measurement is missed.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a lock is waited for: a cache makes queries slower, but does not stop them.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time between attempts.
const PAUSE: Duration = Duration::from_millis(1);

/// The ledger of a folder.
#[derive(Debug)]
pub struct Ledger {
    used: PathBuf,
    writing: PathBuf,
}

/// Bytes that may be written while this is held.
#[derive(Debug)]
pub struct WritePermit {
    _writing: File,
}

impl Ledger {
    /// The ledger of the cache in `folder`.
    pub fn of(folder: &Path) -> Self {
        Self {
            used: folder.join(".used"),
            writing: folder.join(".lock"),
        }
    }

    /// Adds `length` bytes; `None` if the cache would take more than `capacity`, or if it is not known how much it takes.
    ///
    /// # Errors
    /// If the ledger cannot be read or written, or the lock times out.
    pub fn take(&self, length: u64, capacity: u64) -> io::Result<Option<WritePermit>> {
        let writing = locked(&self.writing, File::try_lock_shared)?;
        let mut used = locked(&self.used, File::try_lock)?;
        let sum = number_in(&mut used)?.and_then(|used| used.checked_add(length));
        let Some(sum) = sum.filter(|sum| *sum <= capacity) else {
            return Ok(None);
        };
        write(&mut used, sum)?;
        Ok(Some(WritePermit { _writing: writing }))
    }

    /// Measures the folder by `measure`, which may remove files, unless somebody else has made room for `length` bytes meanwhile.
    ///
    /// # Errors
    /// Those of `measure`, or if the ledger cannot be read or written, or the lock times out.
    pub fn measure(
        &self,
        length: u64,
        capacity: u64,
        measure: impl FnOnce() -> io::Result<u64>,
    ) -> io::Result<()> {
        let _alone = locked(&self.writing, File::try_lock)?;
        let mut used = locked(&self.used, File::try_lock)?;
        let sum = number_in(&mut used)?.and_then(|used| used.checked_add(length));
        if sum.is_some_and(|sum| sum <= capacity) {
            return Ok(());
        }
        let measured = measure()?;
        write(&mut used, measured)
    }
}

/// The file, locked by `lock`. The lock ends with it.
fn locked(path: &Path, lock: impl Fn(&File) -> Result<(), TryLockError>) -> io::Result<File> {
    let mut options = File::options();
    let file = options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    let end = Instant::now() + PATIENCE;
    loop {
        match lock(&file) {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                return Ok(file);
            }
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if Instant::now() < end => sleep(PAUSE),
            Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// The number that the file has; `None` if it is new.
fn number_in(file: &mut File) -> io::Result<Option<u64>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(size_of::<u64>() as u64).read_to_end(&mut bytes)?;
    Ok(bytes.try_into().ok().map(u64::from_le_bytes))
}

fn write(file: &mut File, number: u64) -> io::Result<()> {
    file.rewind()?;
    file.write_all(&number.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn all_that_write_count_together() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (Ledger::of(folder.path()), Ledger::of(folder.path()));
        assert!(one.take(10, 100).unwrap().is_none(), "not measured yet");
        one.measure(10, 100, || Ok(50)).unwrap();
        let first = one.take(30, 100).unwrap().unwrap();
        let second = two.take(20, 100).unwrap().unwrap();
        assert!(one.take(1, 100).unwrap().is_none());
        drop((first, second));
        two.measure(1, 100, || Ok(70)).unwrap();
        // The one who comes second finds room.
        one.measure(1, 100, || panic!("measured twice")).unwrap();
        assert!(one.take(30, 100).unwrap().is_some());
    }

    #[test]
    fn nothing_is_written_while_the_folder_is_measured() {
        let folder = tempfile::tempdir().unwrap();
        let (capacity, length) = (1000, 100);
        let written = AtomicU64::new(0);
        let most = AtomicU64::new(0);
        std::thread::scope(|threads| {
            for _ in 0..8 {
                threads.spawn(|| {
                    let ledger = Ledger::of(folder.path());
                    for _ in 0..50 {
                        if let Some(_taken) = ledger.take(length, capacity).unwrap() {
                            let now = written.fetch_add(length, Ordering::SeqCst) + length;
                            most.fetch_max(now, Ordering::SeqCst);
                        } else {
                            let shrink = || {
                                written.store(700, Ordering::SeqCst);
                                sleep(PAUSE);
                                Ok(written.load(Ordering::SeqCst))
                            };
                            ledger.measure(length, capacity, shrink).unwrap();
                        }
                    }
                });
            }
        });
        assert_eq!(most.into_inner(), capacity);
    }
}
