//! The one error type below the DataFusion boundary: every message names the store, and the array, chunk, file or
//! line at fault, says what was expected and what to do. `scan` and `functions` convert it once, see
//! [`From<VczError> for DataFusionError`](crate::scan).

use std::error::Error;

/// What went wrong while opening or reading a VCZ store, its populations or its masks.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VczError {
    /// The location does not hold a VCZ store.
    #[error("'{store}' is not a VCZ store: {reason}")]
    NotAStore {
        /// The location as the user gave it.
        store: String,
        /// What was looked for and not found.
        reason: String,
    },
    /// An object could not be read.
    #[error("store '{store}': cannot read '{key}': {source}")]
    Io {
        /// The location as the user gave it.
        store: String,
        /// The key inside the store, or the file name.
        key: String,
        /// What the file system or object store said.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// A chunk, document or file could not be written.
    #[error("store '{store}': cannot write '{key}': {source}")]
    Write {
        /// The location as the user gave it.
        store: String,
        /// The key inside the store, or the file name.
        key: String,
        /// What the file system or object store said.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The store's metadata is malformed, contradictory, or uses something that is not supported.
    #[error("store '{store}': {what}: {reason}")]
    Metadata {
        /// The location as the user gave it.
        store: String,
        /// The array, document or attribute at fault.
        what: String,
        /// What was expected, and what to do.
        reason: String,
    },
    /// A chunk's bytes are not what the metadata says.
    #[error("store '{store}': array '{array}', chunk {chunk}: {reason}")]
    Chunk {
        /// The location as the user gave it.
        store: String,
        /// The array's name.
        array: String,
        /// The chunk's index, e.g. `3.0.0`.
        chunk: String,
        /// What was expected.
        reason: String,
    },
    /// A line of a populations or mask file is malformed.
    #[error("'{file}', line {line}: {reason}")]
    Line {
        /// The file.
        file: String,
        /// 1-based line number.
        line: u64,
        /// What was expected.
        reason: String,
    },
    /// A request that cannot be answered: an unknown population, sample or option.
    #[error("{0}")]
    Invalid(String),
}

/// A result below the DataFusion boundary.
pub type Result<T, E = VczError> = std::result::Result<T, E>;

/// Defines an error that is a message: the reason why something below a store, an array or a chunk is not as expected. The caller
/// that knows the store makes a [`VczError`] of it.
macro_rules! reason_error {
    ($(#[$attribute:meta])* $name:ident) => {
        $(#[$attribute])*
        #[derive(Clone, PartialEq, Eq)]
        pub struct $name(String);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(&self.0, f)
            }
        }

        impl std::error::Error for $name {}

        /// The message.
        impl std::ops::Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, message: &&str) -> bool {
                self.0 == *message
            }
        }

        impl From<String> for $name {
            fn from(reason: String) -> Self {
                Self(reason)
            }
        }

        impl From<&str> for $name {
            fn from(reason: &str) -> Self {
                Self(reason.to_owned())
            }
        }

        impl From<$name> for String {
            fn from(error: $name) -> Self {
                error.0
            }
        }
    };
}

pub(crate) use reason_error;
