//! Reads bytes of a local file or of an object of an object store, whole or by range.
//!
//! Invariants: nothing is allocated for a read before its length has been compared with the length of the file and with the
//! caller's limit; a read returns all requested bytes or an error.
//!
//! Local files are read where they are, without handing small reads to another thread: chunk files are mostly small and
//! in the page cache, where a read takes less time than the change of thread. Long reads do go to a blocking thread.

use std::error::Error;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::Path as FilePath;
use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt};

use super::error::StoreError;

/// Work on at least this many bytes is moved to a blocking thread.
pub(super) const BLOCKING_BYTES: u64 = 1 << 20;

/// Why bytes could not be read.
#[derive(Debug)]
pub(super) enum ReadError {
    /// An error of the file system or object store.
    Io(Box<dyn Error + Send + Sync>),
    /// The stored data is inconsistent.
    Corrupt(String),
}

impl From<StoreError> for ReadError {
    fn from(error: StoreError) -> Self {
        Self::Corrupt(error.into())
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(Box::new(error))
    }
}

impl From<object_store::Error> for ReadError {
    fn from(error: object_store::Error) -> Self {
        Self::Io(Box::new(error))
    }
}

/// One file or object of known length that is read by ranges.
#[derive(Debug)]
pub(super) enum Blob {
    File {
        file: Arc<File>,
        len: u64,
    },
    Object {
        objects: Arc<dyn ObjectStore>,
        path: Path,
        len: u64,
    },
}

impl Blob {
    pub(super) fn open_file(path: &FilePath) -> Result<Self, ReadError> {
        let (file, len) =
            open_regular(path)?.ok_or_else(|| io::Error::from(ErrorKind::NotFound))?;
        Ok(Self::File {
            file: Arc::new(file),
            len,
        })
    }

    pub(super) async fn open_object(
        objects: Arc<dyn ObjectStore>,
        path: Path,
    ) -> Result<Self, ReadError> {
        let len = objects.head(&path).await?.size;
        Ok(Self::Object { objects, path, len })
    }

    pub(super) fn len(&self) -> u64 {
        match self {
            Self::File { len, .. } | Self::Object { len, .. } => *len,
        }
    }

    pub(super) fn is_local(&self) -> bool {
        matches!(self, Self::File { .. })
    }

    /// Exactly the bytes of `range`, which must lie inside the blob.
    pub(super) async fn read(&self, range: Range<u64>) -> Result<Bytes, ReadError> {
        let length = range.end.saturating_sub(range.start);
        if range.start > range.end || range.end > self.len() {
            return Err(ReadError::Corrupt(format!(
                "bytes {} to {} were requested, but there are only {}",
                range.start,
                range.end,
                self.len()
            )));
        }
        if length == 0 {
            return Ok(Bytes::new());
        }
        match self {
            Self::File { file, .. } => {
                let file = Arc::clone(file);
                if length < BLOCKING_BYTES {
                    return Ok(read_file(&file, range.start, length)?);
                }
                blocking(move || Ok(read_file(&file, range.start, length)?)).await
            }
            Self::Object { objects, path, .. } => {
                let bytes = objects.get_range(path, range).await?;
                if bytes.len() as u64 != length {
                    return Err(ReadError::Corrupt(format!(
                        "{length} bytes were requested, {} returned",
                        bytes.len()
                    )));
                }
                Ok(bytes)
            }
        }
    }
}

/// The file's bytes, or a range of them; `None` if there is no such file.
pub(super) async fn get_file(
    path: &FilePath,
    range: Option<GetRange>,
    limit: u64,
) -> Result<Option<Bytes>, ReadError> {
    let Some((file, len)) = open_regular(path)? else {
        return Ok(None);
    };
    let range = resolve(range, len)?;
    let length = range.end - range.start;
    within(length, limit)?;
    let bytes = if length < BLOCKING_BYTES {
        read_file(&file, range.start, length)?
    } else {
        blocking(move || Ok(read_file(&file, range.start, length)?)).await?
    };
    Ok(Some(bytes))
}

/// The object's bytes, or a range of them; `None` if there is no such object.
pub(super) async fn get_object(
    objects: &dyn ObjectStore,
    path: &Path,
    range: Option<GetRange>,
    limit: u64,
) -> Result<Option<Bytes>, ReadError> {
    if let Some(GetRange::Bounded(range)) = &range {
        if range.start == range.end {
            return Ok(Some(Bytes::new()));
        }
        within(range.end.saturating_sub(range.start), limit)?;
    }
    let options = GetOptions {
        range: range.clone(),
        ..GetOptions::default()
    };
    let result = match (objects.get_opts(path, options).await, range) {
        // Azure does not support suffix ranges.
        (Err(object_store::Error::NotSupported { .. }), Some(GetRange::Suffix(length))) => {
            let size = match objects.head(path).await {
                Err(object_store::Error::NotFound { .. }) => return Ok(None),
                head => head?.size,
            };
            let range = Some(GetRange::Bounded(size.saturating_sub(length)..size));
            objects
                .get_opts(
                    path,
                    GetOptions {
                        range,
                        ..GetOptions::default()
                    },
                )
                .await
        }
        (result, _) => result,
    };
    match result {
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
        Ok(result) => {
            within(result.range.end.saturating_sub(result.range.start), limit)?;
            Ok(Some(result.bytes().await?))
        }
    }
}

/// The byte range of `range` in an object of `len` bytes, clipped at its end as object stores do.
pub(super) fn resolve(range: Option<GetRange>, len: u64) -> Result<Range<u64>, ReadError> {
    let resolved = match range {
        None => 0..len,
        Some(GetRange::Bounded(range)) => range.start..range.end.min(len),
        Some(GetRange::Offset(start)) => start..len,
        Some(GetRange::Suffix(length)) => len.saturating_sub(length)..len,
    };
    if resolved.start > resolved.end {
        return Err(ReadError::Corrupt(format!(
            "bytes from {} on were requested, but there are only {len}",
            resolved.start
        )));
    }
    Ok(resolved)
}

/// Checks that a length is within the limit, before anything is allocated for it.
pub(super) fn within(length: u64, limit: u64) -> Result<(), ReadError> {
    if length > limit {
        return Err(ReadError::Corrupt(format!(
            "it is {length} bytes long; expected at most {limit} here"
        )));
    }
    Ok(())
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

/// Opens a regular file and returns its length; `None` if there is none. Anything else, such as a pipe, could block forever.
pub(super) fn open_regular(path: &FilePath) -> Result<Option<(File, u64)>, ReadError> {
    regular(path, open_without_blocking)
}

fn regular(
    path: &FilePath,
    open: impl FnOnce(&FilePath) -> io::Result<File>,
) -> Result<Option<(File, u64)>, ReadError> {
    let file = match open(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
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
pub(super) fn open_for_others(
    path: &FilePath,
    direct: bool,
) -> Result<Option<(File, u64)>, ReadError> {
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
    path: &FilePath,
    _direct: bool,
) -> Result<Option<(File, u64)>, ReadError> {
    open_regular(path)
}

/// Opens a file. With this flag a pipe without a writer does not block; regular files are not affected.
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
fn open_without_blocking(path: &FilePath) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    const O_NONBLOCK: i32 = 0o4000;
    File::options()
        .read(true)
        .custom_flags(O_NONBLOCK)
        .open(path)
}

/// Opens a file after a check that it is a regular file, which does not block.
#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
fn open_without_blocking(path: &FilePath) -> io::Result<File> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    File::open(path)
}

/// Reads a range, which callers have compared with the file's length, into memory that is not zeroed first.
#[cfg(unix)]
pub(super) fn read_file(file: &File, start: u64, length: u64) -> io::Result<Bytes> {
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
pub(super) fn read_file(file: &File, start: u64, length: u64) -> io::Result<Bytes> {
    let length = usize::try_from(length).map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    read_exact_at(file, &mut bytes, start)?;
    Ok(bytes.into())
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
