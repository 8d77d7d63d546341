//! Reads local files without blocking the async runtime. The layer above (`blob`, `local`, `small_files`, `source`) says what is read.
//!
//! A read runs twice at most. First on the current thread with [`Wait::Never`]: the kernel is asked to fail where it would have to
//! wait for a disk or a file server (`openat2` with `RESOLVE_CACHED`, `preadv2` with `RWF_NOWAIT`; Linux 5.12 and later). So a file
//! in the page cache is read without a change of thread, which would take longer than the read. Otherwise it runs on the runtime's
//! blocking threads with [`Wait::Allowed`].
//!
//! Invariants: nothing is allocated for a read before its length has been compared with the length of the file and with the
//! caller's limit; a read returns all requested bytes or an error.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bytes::Bytes;
use object_store::GetRange;

use super::read_error::{ReadError, resolve, within};

/// Work on at least this many bytes is always moved to a blocking thread.
pub(super) const BLOCKING_BYTES: u64 = 1 << 20;

/// Whether an operation on a file may wait for a disk or a file server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// It fails with [`ErrorKind::WouldBlock`] instead.
    Never,
    /// It may.
    Allowed,
}

/// Runs `work` here with [`Wait::Never`] and, where it would block, on a blocking thread with [`Wait::Allowed`].
pub(super) async fn without_blocking<T: Send + 'static>(
    work: impl Fn(Wait) -> Result<T, ReadError> + Send + 'static,
) -> Result<T, ReadError> {
    match work(Wait::Never) {
        Err(error) if error.would_block() => blocking(move || work(Wait::Allowed)).await,
        done => done,
    }
}

/// Runs `work` on a blocking thread of the runtime, or here where there is no runtime.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ReadError> + Send + 'static,
) -> Result<T, ReadError> {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => runtime
            .spawn_blocking(work)
            .await
            .map_err(|error| ReadError::Io(Box::new(error)))?,
        Err(_) => work(),
    }
}

/// The file's bytes, or a range of them; `None` if there is no such file.
pub(super) async fn get_file(
    path: PathBuf,
    range: Option<GetRange>,
    limit: u64,
) -> Result<Option<Bytes>, ReadError> {
    let got = get_file_and_time(path, range, limit).await?;
    Ok(got.map(|(bytes, _)| bytes))
}

/// As [`get_file`], with the time of the file's last change if the file system has one.
pub(super) async fn get_file_and_time(
    path: PathBuf,
    range: Option<GetRange>,
    limit: u64,
) -> Result<Option<(Bytes, Option<SystemTime>)>, ReadError> {
    without_blocking(move |wait| {
        let Some((file, len)) = open_regular(&path, wait)? else {
            return Ok(None);
        };
        let range = resolve(range.clone(), len)?;
        let length = range.end - range.start;
        within(length, limit)?;
        let modified = file.metadata()?.modified().ok();
        let bytes = read_file(&file, range.start, length, wait)?;
        Ok(Some((bytes, modified)))
    })
    .await
}

/// What the file system says of a file; `None` if there is no such file.
pub(super) fn metadata(path: &Path, wait: Wait) -> Result<Option<Metadata>, ReadError> {
    let metadata = match wait {
        Wait::Allowed => std::fs::metadata(path),
        Wait::Never => open_cached(path, Access::Metadata).and_then(|file| file.metadata()),
    };
    match metadata {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Opens a regular file and returns its length; `None` if there is none. Anything else, such as a pipe, could block forever.
pub(super) fn open_regular(path: &Path, wait: Wait) -> Result<Option<(File, u64)>, ReadError> {
    regular(path, |path| match wait {
        Wait::Allowed => open_without_blocking(path),
        Wait::Never => open_cached(path, Access::Data),
    })
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn regular(
    path: &Path,
    open: impl FnOnce(&Path) -> io::Result<File>,
) -> Result<Option<(File, u64)>, ReadError> {
    let file = match open(path) {
        Ok(file) => file,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(ReadError::Corrupt("it is not a regular file".to_owned()));
    }
    Ok(Some((file, metadata.len())))
}

/// Opens a file for a library, which may reject non-blocking descriptors, so the file type is checked before opening and again
/// on the descriptor. With `direct`, for direct I/O without the page cache; an error may mean that the file system does not
/// support that.
#[cfg(unix)]
pub(super) fn open_for_others(path: &Path, direct: bool) -> Result<Option<(File, u64)>, ReadError> {
    use std::os::unix::fs::OpenOptionsExt;
    const O_DIRECT: i32 = if cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        0o40_000
    } else if cfg!(all(target_os = "linux", target_arch = "aarch64")) {
        0o200_000
    } else {
        0
    };
    regular(path, |path| {
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let flags = if direct { O_DIRECT } else { 0 };
        File::options().read(true).custom_flags(flags).open(path)
    })
}

/// As on Unix, but never for direct I/O.
#[cfg(not(unix))]
pub(super) fn open_for_others(
    path: &Path,
    _direct: bool,
) -> Result<Option<(File, u64)>, ReadError> {
    open_regular(path, Wait::Allowed)
}

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Data,
    Metadata,
}

/// Opens a file that the kernel finds without waiting.
#[cfg(target_os = "linux")]
fn open_cached(path: &Path, access: Access) -> io::Result<File> {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
    use rustix::io::Errno;

    #[cfg(test)]
    if slow::delay(path).is_some() {
        return Err(ErrorKind::WouldBlock.into());
    }
    let flags = match access {
        // With NONBLOCK a pipe without a writer does not block; regular files are not affected.
        Access::Data => OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK,
        Access::Metadata => OFlags::PATH | OFlags::CLOEXEC,
    };
    match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::CACHED) {
        Ok(file) => Ok(file.into()),
        Err(error @ (Errno::NOENT | Errno::NOTDIR)) => Err(error.into()),
        // Among them kernels and sandboxes without this call. Opening it with `Wait::Allowed` tells what is wrong, if anything.
        Err(_) => Err(ErrorKind::WouldBlock.into()),
    }
}

/// Other systems cannot be asked.
#[cfg(not(target_os = "linux"))]
fn open_cached(_path: &Path, _access: Access) -> io::Result<File> {
    Err(ErrorKind::WouldBlock.into())
}

/// Opens a file. With this flag a pipe without a writer does not block; regular files are not affected.
#[cfg(target_os = "linux")]
fn open_without_blocking(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;

    #[cfg(test)]
    if let Some(delay) = slow::delay(path) {
        std::thread::sleep(delay);
    }
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    File::options().read(true).custom_flags(flags).open(path)
}

/// Opens a file after a check that it is a regular file, which does not block.
#[cfg(not(target_os = "linux"))]
fn open_without_blocking(path: &Path) -> io::Result<File> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    File::open(path)
}

/// Reads a range, which callers have compared with the file's length.
pub(super) fn read_file(file: &File, start: u64, length: u64, wait: Wait) -> io::Result<Bytes> {
    match wait {
        Wait::Allowed => read(file, start, length),
        Wait::Never if length >= BLOCKING_BYTES => Err(ErrorKind::WouldBlock.into()),
        Wait::Never => read_cached(file, start, length),
    }
}

/// Reads into memory that is not zeroed first.
#[cfg(unix)]
fn read(file: &File, start: u64, length: u64) -> io::Result<Bytes> {
    use rustix::buffer::spare_capacity;

    let length = usize::try_from(length).map_err(io::Error::other)?;
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length {
        let at = start + bytes.len() as u64;
        match rustix::io::pread(file, spare_capacity(&mut bytes), at) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // The allocation may be larger than requested.
    bytes.truncate(length);
    Ok(bytes.into())
}

#[cfg(not(unix))]
fn read(file: &File, start: u64, length: u64) -> io::Result<Bytes> {
    let length = usize::try_from(length).map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    read_exact_at(file, &mut bytes, start)?;
    Ok(bytes.into())
}

/// Reads bytes that are in the page cache.
fn read_cached(file: &File, start: u64, length: u64) -> io::Result<Bytes> {
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    let mut read = 0;
    while read < bytes.len() {
        match read_at_cached(file, &mut bytes[read..], start + read as u64)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            n => read += n,
        }
    }
    Ok(bytes.into())
}

/// Reads some bytes, those from `at` on that are in the page cache.
#[cfg(target_os = "linux")]
fn read_at_cached(file: &File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    use rustix::io::{Errno, ReadWriteFlags, preadv2};

    let bytes = &mut [io::IoSliceMut::new(bytes)];
    loop {
        match preadv2(file, bytes, at, ReadWriteFlags::NOWAIT) {
            Ok(read) => return Ok(read),
            Err(Errno::INTR) => {}
            // Also of a file system without such reads. Reading it with `Wait::Allowed` tells what is wrong, if anything.
            Err(_) => return Err(ErrorKind::WouldBlock.into()),
        }
    }
}

/// Other systems cannot be asked.
#[cfg(not(target_os = "linux"))]
fn read_at_cached(_file: &File, _bytes: &mut [u8], _at: u64) -> io::Result<usize> {
    Err(ErrorKind::WouldBlock.into())
}

/// Whether the first and the last of a file's `len` bytes are in the page cache, and so, probably, all of them.
pub(super) fn is_cached(file: &File, len: u64) -> bool {
    let one = |at| read_at_cached(file, &mut [0], at).is_ok();
    len == 0 || (one(0) && one(len - 1))
}

#[cfg(unix)]
pub(super) fn read_exact_at(file: &File, bytes: &mut [u8], start: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, start)
}

#[cfg(windows)]
pub(super) fn read_exact_at(file: &File, mut bytes: &mut [u8], mut start: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, bytes, start) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                bytes = bytes.split_at_mut(read).1;
                start += read as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A slow file system for tests: every open of a file below a folder named `slow` takes a while, and nothing of it is cached.
#[cfg(all(test, target_os = "linux"))]
pub(super) mod slow {
    use std::path::Path;
    use std::time::Duration;

    /// The time of each open.
    pub const DELAY: Duration = Duration::from_millis(20);

    pub fn delay(path: &Path) -> Option<Duration> {
        let is_slow = path.iter().any(|part| part == "slow");
        is_slow.then_some(DELAY)
    }
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
