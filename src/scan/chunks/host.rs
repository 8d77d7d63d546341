//! Reads encoded chunks, for the host to decode.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::physical_plan::metrics::Count;
use futures::future::{BoxFuture, FutureExt};
use futures::{StreamExt, TryStreamExt, stream};

use super::archive;
use super::chunk::{Chunk, Part, chunk_index};
use super::prefetch::{Arrivals, Arriving, ChunkReader};
use crate::error::VczError;
use crate::scan::dataset::Dataset;
use crate::store::ArrayMeta;

/// Chunks of one read that are read concurrently, if reads have to be waited for.
const CONCURRENT_CHUNKS: usize = 8;
/// A read of several variant chunks ends with the one that brings it to this many encoded bytes.
const GROUP_BYTES: usize = 1 << 20;
/// The maximum number of variant chunks in one read.
const GROUP_CHUNKS: usize = 64;

/// Reads the requested parts of an array's variant chunks.
pub struct HostReader {
    dataset: Arc<Dataset>,
    array: Arc<ArrayMeta>,
    /// Chunk indices along the axes after variants.
    parts: Vec<Vec<u64>>,
    /// Variant chunks in the next read; more than one only for local stores and archives.
    group: AtomicUsize,
    /// Counts requests.
    requests: Count,
}

impl HostReader {
    /// A reader of `parts` of the chunks of `array`. With `may_stop`, few variant chunks may be needed, so the first reads are small.
    pub fn new(
        dataset: &Arc<Dataset>,
        array: &Arc<ArrayMeta>,
        parts: Vec<Vec<u64>>,
        may_stop: bool,
        requests: Count,
    ) -> Self {
        let store = dataset.store();
        let decoded = array
            .chunk_elements()
            .unwrap_or(usize::MAX)
            .saturating_mul(array.element.size().unwrap_or(GROUP_BYTES));
        let group = match store.mean_chunk_in_archive(array) {
            _ if may_stop => 1,
            None if store.is_local() => (GROUP_BYTES / decoded.max(1)).clamp(1, GROUP_CHUNKS),
            None => 1,
            Some(mean) => archive::group(mean.saturating_mul(parts.len() as u64)),
        };
        Self {
            dataset: Arc::clone(dataset),
            array: Arc::clone(array),
            parts,
            group: AtomicUsize::new(group),
            requests,
        }
    }

    /// Reads these variant chunks of a remote store, or only the first few if they have many bytes.
    async fn read_remote(&self, chunks: &[u64]) -> Result<Arrivals, VczError> {
        let store = self.dataset.store();
        let kept = archive::first_few(store, &self.array, self.parts.iter(), chunks);
        let chunks = &chunks[..kept];
        let mut wanted = Vec::with_capacity(chunks.len() * self.parts.len());
        for chunk in chunks {
            wanted.extend(self.parts.iter().map(|part| chunk_index(*chunk, part)));
        }
        let read = store.chunks(&self.array, &wanted).await?;
        self.requests
            .add(usize::try_from(read.requests).unwrap_or(usize::MAX));
        let mut encoded = read.chunks.into_iter();
        let arrivals = chunks.iter().map(|chunk| {
            let parts = self
                .parts
                .iter()
                .zip(&mut encoded)
                .map(|(trailing, encoded)| Part {
                    trailing: trailing.clone(),
                    chunk: Chunk::stored(encoded),
                });
            (*chunk, Arriving::Ready(parts.collect()))
        });
        Ok(arrivals.collect())
    }

    async fn read_group(&self, chunks: &[u64]) -> Result<Arrivals, VczError> {
        let store = self.dataset.store();
        if !store.is_local() {
            return self.read_remote(chunks).await;
        }
        let mut wanted = Vec::with_capacity(chunks.len() * self.parts.len());
        for chunk in chunks {
            wanted.extend(
                self.parts
                    .iter()
                    .map(|trailing| chunk_index(*chunk, trailing)),
            );
        }
        let mut encoded = stream::iter(wanted)
            .map(|index| async move { store.chunk(&self.array, &index).await })
            .buffered(CONCURRENT_CHUNKS);
        let mut arrivals = VecDeque::with_capacity(chunks.len());
        let mut bytes = 0;
        for chunk in chunks {
            let mut parts = Vec::with_capacity(self.parts.len());
            for trailing in &self.parts {
                let Some(encoded) = encoded.try_next().await? else {
                    break;
                };
                bytes += encoded.as_ref().map_or(0, bytes::Bytes::len);
                parts.push(Part {
                    trailing: trailing.clone(),
                    chunk: Chunk::stored(encoded),
                });
            }
            arrivals.push_back((*chunk, Arriving::Ready(parts)));
            if bytes >= GROUP_BYTES {
                break;
            }
        }
        Ok(arrivals)
    }

    /// Sets the size of the next read to what this one's should have been, but at most twice its size.
    fn adapt(&self, arrivals: &Arrivals) {
        if !self.dataset.store().is_local() {
            return;
        }
        let encoded = |arriving: &Arriving| match arriving {
            Arriving::Ready(parts) => parts
                .iter()
                .filter_map(|part| part.chunk.encoded_len())
                .sum(),
            Arriving::Waiting(_) => 0,
        };
        let bytes: usize = arrivals.iter().map(|(_, arriving)| encoded(arriving)).sum();
        let full = GROUP_BYTES * arrivals.len() / bytes.max(1);
        let group = self.group.load(Ordering::Relaxed);
        let group = full.clamp(1, group * 2).min(GROUP_CHUNKS);
        self.group.store(group, Ordering::Relaxed);
    }
}

impl ChunkReader for HostReader {
    fn group(&self) -> usize {
        self.group.load(Ordering::Relaxed)
    }

    fn read(self: Arc<Self>, chunks: Vec<u64>) -> BoxFuture<'static, Result<Arrivals, VczError>> {
        async move {
            let arrivals = self.read_group(&chunks).await?;
            self.adapt(&arrivals);
            Ok(arrivals)
        }
        .boxed()
    }
}
