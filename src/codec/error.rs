//! [`CodecError`]: why a chunk or a codec chain cannot be decoded.

use crate::error::reason_error;

reason_error! {
    /// Why a chunk, or the codecs of an array, cannot be decoded: what was found and what was expected. The caller adds the store,
    /// the array and the chunk, see [`VczError`](crate::error::VczError).
    CodecError
}
