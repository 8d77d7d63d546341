//! [`StoreError`]: why a part of a store is malformed, not supported or unreadable.

use crate::error::reason_error;

reason_error! {
    /// Why a part of a store (a metadata document, a name, a region index, a zip directory, a file) is malformed, not supported or
    /// unreadable: what was found and what was expected. The caller adds the store and the part, see
    /// [`VczError`](crate::error::VczError).
    StoreError
}
