//! [`CodecError`]: why a chunk or a codec chain cannot be decoded.

use std::fmt;
use std::ops::Deref;

/// Why a chunk, or the codecs of an array, cannot be decoded: what was found and what was expected. The caller adds the store, the
/// array and the chunk, see [`VczError`](crate::error::VczError).
#[derive(Clone, PartialEq, Eq)]
pub struct CodecError(String);

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl std::error::Error for CodecError {}

/// The message.
impl Deref for CodecError {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<String> for CodecError {
    fn from(reason: String) -> Self {
        Self(reason)
    }
}

impl From<&str> for CodecError {
    fn from(reason: &str) -> Self {
        Self(reason.to_owned())
    }
}

impl From<CodecError> for String {
    fn from(error: CodecError) -> Self {
        error.0
    }
}
