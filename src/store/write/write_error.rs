//! Errors of writing, with the location of the store.

use std::error::Error;

use crate::error::VczError;

/// The error of writing `key` of the store at `location`.
pub(super) fn failed(
    location: &str,
    key: &str,
    source: impl Into<Box<dyn Error + Send + Sync>>,
) -> VczError {
    VczError::Write {
        store: location.to_owned(),
        key: if key.is_empty() { location } else { key }.to_owned(),
        source: source.into(),
    }
}

/// The error of a target that exists.
pub(super) fn exists(what: &str) -> VczError {
    VczError::Invalid(format!(
        "{what} exists; write to another name, or set 'vcz.overwrite' to 'true' to replace it"
    ))
}

/// The error of a target that is something else than a store.
pub(super) fn not_a_store(location: &str) -> VczError {
    VczError::Invalid(format!(
        "'{location}' is there and is not a VCZ store, so it is not replaced; write to another name, or remove it first"
    ))
}
