//! Chunks that are whole files of this machine, for those who read them without the store: a device that reads files itself.
//!
//! Invariant: a file that is opened is a regular one and has the length that it had when the store was asked.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::blob::{ReadError, open_for_others};

/// Where the encoded bytes of a chunk are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChunkPlace {
    /// Nowhere: it holds fill values only.
    Absent,
    /// In a file that holds nothing else.
    File(LocalFile),
    /// Where only the store can read them, or check them: in an archive, which has their checksum, or an object store.
    Store,
}

/// A file with the encoded bytes of a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalFile {
    path: PathBuf,
    len: usize,
}

impl LocalFile {
    /// The file at `path`; `None` if there is none.
    ///
    /// # Errors
    /// What the file system says.
    pub fn find(path: PathBuf) -> io::Result<Option<Self>> {
        let metadata = match std::fs::metadata(&path) {
            Ok(metadata) => metadata,
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let len = usize::try_from(metadata.len()).map_err(io::Error::other)?;
        Ok(Some(Self { path, len }))
    }

    /// Where it is.
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

    /// Opens it; with `direct`, past the page cache where the file system can.
    ///
    /// # Errors
    /// In words, if it is gone or its length is another one now.
    pub fn open(&self, direct: bool) -> Result<File, String> {
        let shown = self.path.display();
        let opened = match open_for_others(&self.path, direct) {
            Err(ReadError::Io(_)) if direct => open_for_others(&self.path, false),
            opened => opened,
        };
        match opened {
            Ok(Some((file, len))) if len == self.len as u64 => Ok(file),
            Ok(Some((_, len))) => Err(format!(
                "the file '{shown}' has {len} bytes now; it had {}",
                self.len
            )),
            Ok(None) => Err(format!("the file '{shown}' is gone")),
            Err(ReadError::Io(error)) => Err(format!("the file '{shown}': {error}")),
            Err(ReadError::Corrupt(reason)) => Err(format!("the file '{shown}': {reason}")),
        }
    }
}
