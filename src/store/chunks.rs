//! Reads several chunks of an array together: those that are near each other in a remote archive by one request.

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};

use super::array::ArrayMeta;
use super::source::{StoreSource, is_metadata};
use super::vcz_store::Store;
use super::zip::{CHUNK_READS, Entries};
use crate::error::Result;

/// Chunks that are read at the same time by one call, where they have to be waited for.
const CONCURRENT_CHUNKS: usize = 8;

/// Chunks that were read together.
#[derive(Debug)]
pub struct ChunksRead {
    /// All encoded bytes of each chunk that was asked for; `None` if it is absent.
    pub chunks: Vec<Option<Bytes>>,
    /// Requests to an object store that it took; retries are not counted.
    pub requests: u64,
}

impl Store {
    /// All encoded bytes of the chunks at `indices`, as [`Store::chunk`] of each. Chunks that are near each other in a remote archive
    /// are read by one request.
    ///
    /// # Errors
    /// As [`Store::chunk`].
    pub async fn chunks(&self, array: &ArrayMeta, indices: &[Vec<u64>]) -> Result<ChunksRead> {
        let StoreSource::Zip(zip) = &self.source else {
            return self.one_by_one(array, indices).await;
        };
        if self.is_made(array) {
            return self.one_by_one(array, indices).await;
        }
        let mut keys = Vec::with_capacity(indices.len());
        let mut limit = 0;
        for index in indices {
            let (key, most) = self.object(array, index)?;
            keys.push(key);
            limit = most;
        }
        match zip.get_many(&keys, limit, CHUNK_READS).await {
            Ok(Entries { found, requests }) => Ok(ChunksRead {
                chunks: found,
                requests,
            }),
            Err((n, error)) => {
                let index = indices.get(n).map(Vec::as_slice).unwrap_or_default();
                let key = keys.into_iter().nth(n).unwrap_or_default();
                Err(self.read_error(array, index, key, error))
            }
        }
    }

    async fn one_by_one(&self, array: &ArrayMeta, indices: &[Vec<u64>]) -> Result<ChunksRead> {
        let reads: Vec<_> = indices
            .iter()
            .map(|index| self.chunk(array, index))
            .collect();
        let read = stream::iter(reads).buffered(CONCURRENT_CHUNKS);
        let requests = if self.is_local() || self.is_made(array) {
            0
        } else {
            indices.len() as u64
        };
        Ok(ChunksRead {
            chunks: read.try_collect().await?,
            requests,
        })
    }

    /// Mean bytes of a chunk of the array in a remote archive, whose chunks are worth reading several at a time; `None` elsewhere.
    pub fn mean_chunk_in_archive(&self, array: &ArrayMeta) -> Option<u64> {
        let StoreSource::Zip(zip) = &self.source else {
            return None;
        };
        if zip.is_local() || self.is_made(array) {
            return None;
        }
        let bytes = zip.stored_bytes(self.folder(array), |key| !is_metadata(key));
        let grid = array.grid_shape();
        let chunks = grid
            .iter()
            .fold(1u64, |product, n| product.saturating_mul(*n));
        Some(bytes.div_ceil(chunks.max(1)))
    }

    /// Bytes of the chunk at `index` in an archive, 0 if it is absent; `None` elsewhere, and outside the grid.
    pub fn len_in_archive(&self, array: &ArrayMeta, index: &[u64]) -> Option<u64> {
        let StoreSource::Zip(zip) = &self.source else {
            return None;
        };
        if self.is_made(array) {
            return None;
        }
        let (key, _) = self.object(array, index).ok()?;
        Some(zip.stored_len(&key).unwrap_or(0))
    }
}
