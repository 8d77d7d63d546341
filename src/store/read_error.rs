//! Why bytes of a store could not be read, and the checks of ranges and lengths that come before a read.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::ops::Range;

use object_store::GetRange;

use super::error::StoreError;

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

impl ReadError {
    /// Whether a server refused access (HTTP 403).
    pub(super) fn is_denied(&self) -> bool {
        let Self::Io(error) = self else {
            return false;
        };
        let error = error.downcast_ref::<object_store::Error>();
        matches!(error, Some(object_store::Error::PermissionDenied { .. }))
    }

    /// Whether an operation that must not wait would have had to.
    pub(super) fn would_block(&self) -> bool {
        let Self::Io(error) = self else {
            return false;
        };
        let error = error.downcast_ref::<io::Error>();
        error.is_some_and(|error| error.kind() == ErrorKind::WouldBlock)
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
