//! [`ValueError`]: the reason why the values of a chunk cannot become a column.

use crate::error::reason_error;

reason_error! {
    /// Why an array, or the values of one of its chunks, cannot become an Arrow column or site zones: what contradicts the metadata,
    /// and what was expected. The caller adds the store, the array and the chunk, see [`VczError`](crate::error::VczError).
    ValueError
}
