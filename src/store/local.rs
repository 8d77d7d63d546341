//! Chunks that the caller reads itself: local files, which a device reads directly or which are read into staging memory, and
//! chunks that are already in memory.
//!
//! Invariant: an opened file is a regular file and has the same length as when the store looked it up.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::error::StoreError;
use super::files::{
    BLOCKING_BYTES, Wait, is_cached, metadata, open_for_others, open_regular, read_exact_at,
    read_file, without_blocking,
};
use super::read_error::{ReadError, within};

/// The location of a chunk's encoded bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChunkPlace {
    /// Not stored: the chunk has fill values only.
    Absent,
    /// In a file of its own.
    File(LocalFile),
    /// Readable through the store only: in an archive, which has a checksum to verify, or in an object store.
    Store,
}

/// An encoded chunk that can be read into the caller's memory.
#[derive(Debug)]
pub enum OpenChunk {
    /// An open file of this many bytes, which are few and in the page cache.
    File(File, usize),
    /// Bytes in memory.
    Bytes(Bytes),
}

impl OpenChunk {
    /// Opens the file at `path`; `None` if there is none. It is read too, on a blocking thread, if it is long or not in the page cache.
    /// More than `limit` bytes are an error.
    pub(super) async fn open(path: PathBuf, limit: u64) -> Result<Option<Self>, ReadError> {
        without_blocking(move |wait| {
            let Some((file, len)) = open_regular(&path, wait)? else {
                return Ok(None);
            };
            within(len, limit)?;
            if wait == Wait::Never && len < BLOCKING_BYTES && is_cached(&file, len) {
                // Less than 1 MiB.
                return Ok(Some(Self::File(file, len as usize)));
            }
            Ok(Some(Self::Bytes(read_file(&file, 0, len, wait)?)))
        })
        .await
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::File(_, len) => *len,
            Self::Bytes(bytes) => bytes.len(),
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads all its bytes into `target`, which must have that length.
    ///
    /// # Errors
    /// The error of the file system, also if the file has become shorter.
    pub fn read(&self, target: &mut [u8]) -> io::Result<()> {
        if target.len() != self.len() {
            return Err(io::Error::other(format!(
                "a buffer of {} bytes for {} bytes",
                target.len(),
                self.len()
            )));
        }
        match self {
            Self::File(file, _) => read_exact_at(file, target, 0),
            Self::Bytes(bytes) => {
                target.copy_from_slice(bytes);
                Ok(())
            }
        }
    }
}

/// A local file with the encoded bytes of a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalFile {
    path: PathBuf,
    len: usize,
}

impl LocalFile {
    /// The file at `path`; `None` if there is none.
    ///
    /// # Errors
    /// The error of the file system.
    pub async fn find(path: PathBuf) -> io::Result<Option<Self>> {
        let found = without_blocking(move |wait| Ok((metadata(&path, wait)?, path.clone()))).await;
        let (metadata, path) = found.map_err(|error| match error {
            ReadError::Io(error) => io::Error::other(error),
            ReadError::Corrupt(reason) => io::Error::other(reason),
        })?;
        let len = metadata.map(|metadata| usize::try_from(metadata.len()));
        let len = len.transpose().map_err(io::Error::other)?;
        Ok(len.map(|len| Self { path, len }))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Opens it; with `direct`, for direct I/O without the page cache if the file system supports that.
    ///
    /// # Errors
    /// If it is gone or has changed its length.
    pub fn open(&self, direct: bool) -> Result<File, StoreError> {
        let shown = self.path.display();
        let opened = match open_for_others(&self.path, direct) {
            Err(ReadError::Io(_)) if direct => open_for_others(&self.path, false),
            opened => opened,
        };
        match opened {
            Ok(Some((file, len))) if len == self.len as u64 => Ok(file),
            Ok(Some((_, len))) => Err(format!(
                "the file '{shown}' has {len} bytes, expected {}: it has changed",
                self.len
            )
            .into()),
            Ok(None) => Err(format!("the file '{shown}' is gone").into()),
            Err(ReadError::Io(error)) => Err(format!("the file '{shown}': {error}").into()),
            Err(ReadError::Corrupt(reason)) => Err(format!("the file '{shown}': {reason}").into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;

    fn open(path: &Path, limit: u64) -> Result<Option<OpenChunk>, ReadError> {
        block_on(OpenChunk::open(path.to_owned(), limit))
    }

    #[test]
    fn chunks_are_read_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0.0");
        assert!(open(&path, 10).unwrap().is_none());
        std::fs::write(&path, b"encoded").unwrap();
        assert!(open(&path, 6).is_err(), "more than the limit");
        let opened = open(&path, 7).unwrap().unwrap();
        let mut target = [0; 7];
        opened.read(&mut target).unwrap();
        assert_eq!((&target, opened.len()), (b"encoded", 7));
        assert!(opened.read(&mut [0; 8]).is_err());
        let file = OpenChunk::File(File::open(&path).unwrap(), 7);
        file.read(&mut target).unwrap();
        std::fs::write(&path, b"enc").unwrap();
        assert!(file.read(&mut target).is_err(), "the file is shorter now");
        let long = File::create(&path).unwrap();
        long.set_len(BLOCKING_BYTES).unwrap();
        let read = open(&path, u64::MAX).unwrap().unwrap();
        assert!(matches!(&read, OpenChunk::Bytes(bytes) if bytes.len() as u64 == BLOCKING_BYTES));
        assert!(open(folder.path(), 10).is_err(), "a folder");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_not_cached_is_read_when_it_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("slow");
        std::fs::write(&path, b"encoded").unwrap();
        let opened = open(&path, 7).unwrap().unwrap();
        assert!(matches!(opened, OpenChunk::Bytes(bytes) if bytes == "encoded"));
    }
}
