//! How many variant chunks of a remote archive are read together: neighbouring chunks take one request.

use super::chunk::chunk_index;
use crate::store::{ArrayMeta, Store};

/// A read of several variant chunks has at most this many encoded bytes.
const GROUP_BYTES: u64 = 2 << 20;
/// The maximum number of variant chunks in a read.
const GROUP_CHUNKS: u64 = 4096;

/// The number of variant chunks in a read, if `bytes` are those of one.
pub fn group(bytes: u64) -> usize {
    (GROUP_BYTES / bytes.max(1)).clamp(1, GROUP_CHUNKS) as usize
}

/// The number of variant chunks at the beginning of `chunks` to read together, at least one; `parts` are their chunk indices along the axes
/// after variants.
pub fn first_few<'a>(
    store: &Store,
    array: &ArrayMeta,
    parts: impl Iterator<Item = &'a Vec<u64>> + Clone,
    chunks: &[u64],
) -> usize {
    let mut bytes = 0u64;
    for (kept, chunk) in chunks.iter().enumerate() {
        let lens = parts
            .clone()
            .filter_map(|part| store.len_in_archive(array, &chunk_index(*chunk, part)));
        bytes = lens.fold(bytes, u64::saturating_add);
        if kept > 0 && bytes > GROUP_BYTES {
            return kept;
        }
    }
    chunks.len()
}
