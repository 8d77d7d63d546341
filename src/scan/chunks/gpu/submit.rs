//! Passes chunks to a GPU's queue and waits for their results. Chunks that a GPU rejects are passed to the host, encoded.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::{try_join, try_join_all};
use futures::{StreamExt, TryStreamExt, stream};
use tokio::sync::OwnedSemaphorePermit;

use super::reader::{GpuReader, PartRequest};
use crate::error::VczError;
use crate::gpu::{Done, Encoded, GpuError, Outcome, Ticket, ToRead};
use crate::scan::chunks::chunk::{Chunk, Part, Unfiltered, chunk_index};
use crate::scan::chunks::field_filters::index_of_field;
use crate::store::{ArrayMeta, ChunkPlace, LocalFile, OpenChunk};

/// The maximum number of concurrent reads of chunks that are staged together.
const CONCURRENT_PARTS: usize = 8;
/// The maximum number of chunks that are staged together, and of their encoded bytes. The queue's lock is taken only twice for all of
/// them, and a batch does not wait long for them.
const STAGED_CHUNKS: usize = 16;
const STAGED_BYTES: usize = 4 << 20;

/// A chunk before it is submitted, and the chunks of the fields that filter its calls, `None` for absent ones.
struct OpenedPart {
    chunk: Opened,
    fields: Vec<Option<OpenChunk>>,
}

/// A chunk before it is submitted.
enum Opened {
    /// It is absent.
    Absent,
    /// It is ready to be read.
    Open(OpenChunk),
    /// The device reads it from its file.
    File(LocalFile),
}

/// The ticket for the result of a chunk, or the reason why the host decodes it.
type Submission = Result<Ticket, GpuError>;

/// A chunk that was submitted.
pub struct Submitted {
    /// Whether there is nothing for a device to do, because the chunk is absent and its calls are not filtered.
    is_absent: bool,
    /// Chunks that were read: itself, and those of the fields.
    present: usize,
    /// Columns whose chunk is absent, where calls are filtered.
    absent: Vec<usize>,
    counts: Option<Submission>,
    /// Whether rows that are counted stay on the GPU.
    keeps_rows: bool,
    elements: Option<Submission>,
    /// The encoded bytes, if the device rejected the chunk and reading it again would be a request.
    kept: Option<Kept>,
}

/// Encoded bytes of a chunk and of those of the fields, for the host.
struct Kept {
    chunk: Option<Bytes>,
    fields: Vec<Option<Bytes>>,
    _room: OwnedSemaphorePermit,
}

impl Submitted {
    fn submission(&mut self, is_count: bool) -> &mut Option<Submission> {
        match is_count {
            true => &mut self.counts,
            false => &mut self.elements,
        }
    }
}

/// Runs `work` for several items concurrently.
async fn several<T, R, F>(
    items: impl Iterator<Item = T>,
    work: impl Fn(T) -> F,
) -> Result<Vec<R>, VczError>
where
    F: Future<Output = Result<R, VczError>>,
{
    let results = stream::iter(items).map(work).buffered(CONCURRENT_PARTS);
    results.try_collect().await
}

impl GpuReader {
    /// Submits all requested parts of these variant chunks to the device.
    pub async fn submit_group(&self, chunks: &[u64]) -> Result<Vec<Submitted>, VczError> {
        let parts = chunks.len() * self.parts.len();
        let some = match self.dataset.store().is_local() {
            true => (STAGED_BYTES / self.chunk_bytes()).clamp(1, STAGED_CHUNKS),
            // All together, so that neighbours take one request.
            false if self.in_archive.is_some() => parts.max(1),
            false => 1,
        };
        let ranges = (0..parts)
            .step_by(some)
            .map(|start| start..(start + some).min(parts));
        if some > 1 {
            // One range after the other; the parts of a range are read concurrently.
            let mut submitted = Vec::with_capacity(parts);
            for range in ranges {
                submitted.extend(self.submit(chunks, range).await?);
            }
            return Ok(submitted);
        }
        let submitted = several(ranges, |range| self.submit(chunks, range)).await?;
        Ok(submitted.into_iter().flatten().collect())
    }

    /// Submits a range of the requested parts of these variant chunks, numbered consecutively, to the device; they are staged together.
    async fn submit(
        &self,
        chunks: &[u64],
        parts: Range<usize>,
    ) -> Result<Vec<Submitted>, VczError> {
        let queue = self.engine.queue();
        let n_parts = self.parts.len();
        let index = |part: usize| {
            let request = &self.parts[part % n_parts];
            chunk_index(chunks[part / n_parts], &request.trailing)
        };
        let places = several(parts.clone(), |part| self.place(index(part))).await?;
        let is_staged = |place: &&ChunkPlace| matches!(place, ChunkPlace::Store);
        // The semaphores are never closed.
        let (reading, _room) = match places.iter().filter(is_staged).count() {
            0 => (self.reading.acquire().await.ok(), None),
            n => {
                // The files that are open, and the encoded bytes in memory, until the chunks are staged.
                let chunks = ToRead {
                    files: n.saturating_mul(1 + self.fields.len()),
                    bytes: self.chunk_bytes().saturating_mul(n),
                    large_frames: self.has_large_frames(),
                };
                queue
                    .unstaged()
                    .acquire(&self.reading, chunks)
                    .await
                    .unzip()
            }
        };
        let opened = match self.in_archive {
            Some(_) => {
                self.open_together(parts.clone().map(index).collect())
                    .await?
            }
            None => {
                let to_open = parts.clone().zip(places);
                several(to_open, |(part, place)| self.open_part(index(part), place)).await?
            }
        };
        drop(reading);
        let mut submitted = Vec::with_capacity(parts.len());
        // The work to stage, and the chunk that each item belongs to.
        let mut staged = Vec::with_capacity(parts.len());
        for (at, (part, opened)) in parts.zip(&opened).enumerate() {
            let request = &self.parts[part % n_parts];
            let mut chunk = self.described(opened);
            let len = match &opened.chunk {
                Opened::Absent => 0,
                Opened::Open(chunk) => chunk.len(),
                Opened::File(file) => file.len(),
            };
            let of_fields: usize = opened.fields.iter().flatten().map(OpenChunk::len).sum();
            self.metrics.bytes_fetched.add(len + of_fields);
            self.metrics.chunks_read.add(chunk.present);
            let rows = self.rows(chunks[part / n_parts]);
            let sample_chunk = request.sample_chunk();
            let (counting, keeps_rows) = request.counting();
            chunk.keeps_rows = keeps_rows;
            for (work, is_count) in [(counting, true), (request.elements.as_ref(), false)] {
                let Some(work) = work else {
                    continue;
                };
                let stored = match &opened.chunk {
                    Opened::File(file) => {
                        let file = file.clone();
                        let ticket = queue.submit_file(work, sample_chunk, rows, file).await;
                        *chunk.submission(is_count) = Some(ticket);
                        continue;
                    }
                    Opened::Absent if chunk.is_absent => continue,
                    Opened::Absent => None,
                    Opened::Open(chunk) => Some(chunk),
                };
                let encoded = Encoded {
                    work,
                    sample_chunk,
                    rows,
                    chunk: stored,
                    fields: &opened.fields,
                };
                staged.push((at, is_count, encoded));
            }
            submitted.push(chunk);
        }
        let encoded: Vec<_> = staged.iter().map(|(_, _, encoded)| *encoded).collect();
        let tickets = queue.submit_all(&encoded).await;
        for ((at, is_count, _), ticket) in staged.iter().zip(tickets) {
            if ticket.is_err() && self.in_archive.is_some() {
                submitted[*at].kept = self.keep(&opened[*at]);
            }
            *submitted[*at].submission(*is_count) = Some(ticket);
        }
        Ok(submitted)
    }

    /// The place from which the device may read a chunk directly; `Store` if it may not.
    async fn place(&self, index: Vec<u64>) -> Result<ChunkPlace, VczError> {
        if !self.leaves_files {
            return Ok(ChunkPlace::Store);
        }
        self.dataset.store().chunk_place(&self.array, &index).await
    }

    /// What is known of a chunk before it is submitted.
    fn described(&self, opened: &OpenedPart) -> Submitted {
        let is_absent = matches!(opened.chunk, Opened::Absent);
        let is_filtered = !self.fields.is_empty();
        let absent = |(column, field): (&usize, &Option<OpenChunk>)| {
            let is_absent = field.is_none();
            is_absent.then_some(*column)
        };
        let of_fields = self.fields.iter().zip(&opened.fields).filter_map(absent);
        let chunk = (is_absent && is_filtered).then_some(self.column);
        Submitted {
            is_absent: is_absent && !is_filtered,
            present: usize::from(!is_absent) + opened.fields.iter().flatten().count(),
            absent: chunk.into_iter().chain(of_fields).collect(),
            counts: None,
            keeps_rows: false,
            elements: None,
            kept: None,
        }
    }

    /// Reads chunks of a remote archive, and those of the fields, for staging: one request for those that are near each other.
    async fn open_together(&self, indices: Vec<Vec<u64>>) -> Result<Vec<OpenedPart>, VczError> {
        let fields = self.fields.iter().map(|column| {
            let field = &self.dataset.columns()[*column].array;
            let indices: Vec<_> = indices.iter().map(|at| index_of_field(field, at)).collect();
            async move { self.read_together(field, &indices).await }
        });
        let fields = try_join_all(fields.collect::<Vec<_>>());
        let (chunks, fields) = try_join(self.read_together(&self.array, &indices), fields).await?;
        let mut fields: Vec<_> = fields.into_iter().map(Vec::into_iter).collect();
        let opened = chunks.into_iter().map(|chunk| OpenedPart {
            chunk: chunk.map_or(Opened::Absent, Opened::Open),
            // Each has as many chunks as were asked for.
            fields: fields
                .iter_mut()
                .map(|field| field.next().flatten())
                .collect(),
        });
        Ok(opened.collect())
    }

    async fn read_together(
        &self,
        array: &ArrayMeta,
        indices: &[Vec<u64>],
    ) -> Result<Vec<Option<OpenChunk>>, VczError> {
        let read = self.dataset.store().chunks(array, indices).await?;
        let requests = usize::try_from(read.requests).unwrap_or(usize::MAX);
        self.metrics.requests.add(requests);
        let chunks = read.chunks.into_iter();
        Ok(chunks.map(|chunk| chunk.map(OpenChunk::Bytes)).collect())
    }

    /// The bytes of a chunk that the device has rejected; `None` if many wait already.
    fn keep(&self, opened: &OpenedPart) -> Option<Kept> {
        let bytes_of = |chunk: &OpenChunk| match chunk {
            OpenChunk::Bytes(bytes) => Some(bytes.clone()),
            OpenChunk::File(..) => None,
        };
        let chunk = match &opened.chunk {
            Opened::Absent => None,
            Opened::Open(chunk) => Some(bytes_of(chunk)?),
            Opened::File(_) => return None,
        };
        let mut fields = Vec::with_capacity(opened.fields.len());
        for field in &opened.fields {
            fields.push(match field {
                Some(field) => Some(bytes_of(field)?),
                None => None,
            });
        }
        let len: usize = chunk
            .iter()
            .chain(fields.iter().flatten())
            .map(Bytes::len)
            .sum();
        let kib = u32::try_from(len.div_ceil(1 << 10)).ok()?;
        let room = Arc::clone(&self.kept).try_acquire_many_owned(kib).ok()?;
        Some(Kept {
            chunk,
            fields,
            _room: room,
        })
    }

    /// Opens one chunk for staging, unless the device reads it from its file, and those of the fields.
    async fn open_part(&self, index: Vec<u64>, place: ChunkPlace) -> Result<OpenedPart, VczError> {
        let store = self.dataset.store();
        let fields = self.fields.iter().map(|column| {
            let field = &self.dataset.columns()[*column].array;
            let index = index_of_field(field, &index);
            self.metrics.requests.add(usize::from(!store.is_local()));
            async move { store.open_chunk(field, &index).await }
        });
        let fields = try_join_all(fields.collect::<Vec<_>>());
        let (chunk, fields) = try_join(self.open(index, place), fields).await?;
        Ok(OpenedPart { chunk, fields })
    }

    /// Opens one chunk for staging, unless the device reads it from its file.
    async fn open(&self, index: Vec<u64>, place: ChunkPlace) -> Result<Opened, VczError> {
        match place {
            ChunkPlace::File(file) => return Ok(Opened::File(file)),
            ChunkPlace::Absent => return Ok(Opened::Absent),
            ChunkPlace::Store => {}
        }
        let store = self.dataset.store();
        self.metrics.requests.add(usize::from(!store.is_local()));
        let opened = store.open_chunk(&self.array, &index).await?;
        Ok(opened.map_or(Opened::Absent, Opened::Open))
    }

    /// Waits for the results of the parts of a variant chunk.
    pub async fn wait_for(
        self: Arc<Self>,
        chunk: u64,
        submitted: Vec<Submitted>,
    ) -> Result<Vec<Part>, VczError> {
        // All results first, so that chunks that are read again for the host do not accumulate in memory.
        let mut parts = Vec::with_capacity(submitted.len());
        for (mut submitted, request) in submitted.into_iter().zip(&self.parts) {
            for column in &submitted.absent {
                let mut index = chunk_index(chunk, &request.trailing);
                if *column != self.column {
                    index = index_of_field(&self.dataset.columns()[*column].array, &index);
                }
                self.absences.check_first(*column, index).await?;
            }
            self.metrics.chunks_absent.add(submitted.absent.len());
            let kept = submitted.kept.take();
            parts.push((self.outcome(chunk, submitted, request).await, kept));
        }
        let mut arrived = Vec::with_capacity(parts.len());
        for ((outcome, kept), request) in parts.into_iter().zip(&self.parts) {
            let trailing = request.trailing.clone();
            let chunk = match (outcome, kept) {
                (Some(chunk), _) => chunk,
                (None, Some(kept)) => self.for_host(kept.chunk, kept.fields),
                (None, None) => self.read_for_host(chunk_index(chunk, &trailing)).await?,
            };
            arrived.push(Part { trailing, chunk });
        }
        Ok(arrived)
    }

    /// Reads a chunk, with those of the fields, for the host.
    async fn read_for_host(&self, index: Vec<u64>) -> Result<Chunk, VczError> {
        let store = self.dataset.store();
        let requests = 1 + self.fields.len();
        self.metrics
            .requests
            .add(if store.is_local() { 0 } else { requests });
        let chunk = store.chunk(&self.array, &index).await?;
        let mut fields = Vec::with_capacity(self.fields.len());
        for column in &self.fields {
            let field = &self.dataset.columns()[*column].array;
            fields.push(store.chunk(field, &index_of_field(field, &index)).await?);
        }
        Ok(self.for_host(chunk, fields))
    }

    /// A chunk that the host decodes, with those of the fields.
    fn for_host(&self, genotypes: Option<Bytes>, fields: Vec<Option<Bytes>>) -> Chunk {
        match self.fields.is_empty() {
            true => Chunk::stored(genotypes),
            false => Chunk::Unfiltered(Unfiltered { genotypes, fields }),
        }
    }

    /// The result of a chunk; `None` if the host must decode it.
    async fn outcome(
        &self,
        chunk: u64,
        submitted: Submitted,
        request: &PartRequest,
    ) -> Option<Chunk> {
        if submitted.is_absent {
            return Some(Chunk::Absent);
        }
        let present = submitted.present;
        let mut results = [None, None];
        let submissions = [submitted.counts, submitted.elements];
        for (result, submission) in results.iter_mut().zip(submissions) {
            let Some(submission) = submission else {
                continue;
            };
            match self.result(submission, present).await {
                Ok(done) => {
                    if let (Some(_), Some(work)) = (&done.resident, &request.resident) {
                        work.sizes.add_resident(false);
                    }
                    *result = Some((done.bytes, done.resident));
                }
                Err(reason) => {
                    if submitted.keeps_rows
                        && reason.is_few_rows_stay()
                        && let Some(work) = &request.resident
                    {
                        work.sizes.add_resident(true);
                    }
                    let index = chunk_index(chunk, &request.trailing);
                    log::debug!(
                        "{}: array '{}', chunk {}: decoded on the host: {reason}",
                        self.dataset.store().location(),
                        self.array.name,
                        self.array.chunk_label(&index)
                    );
                    return None;
                }
            }
        }
        Some(match results {
            [None, Some((elements, _))] if self.is_whole => Chunk::Decoded(elements),
            [counts, selected] => Chunk::Computed {
                counts: counts.and_then(|(bytes, resident)| request.computed(bytes, resident)),
                selected: selected.map(|(bytes, _)| bytes),
            },
        })
    }

    /// A chunk's results, for which `chunks` chunks were decoded, or the reason why the host must decode it.
    async fn result(&self, submission: Submission, chunks: usize) -> Result<Done, GpuError> {
        match submission?.await {
            Ok(Outcome::Done(done)) => {
                self.metrics.copy_time.add_duration(done.times.copy);
                self.metrics.gpu_decode_time.add_duration(done.times.decode);
                self.metrics.gpu_count_time.add_duration(done.times.count);
                self.metrics.chunks_on_gpu.add(chunks);
                self.metrics.bytes_direct.add(done.read);
                Ok(done)
            }
            Ok(Outcome::Host(reason)) => Err(reason),
            Err(_) => Err("the GPU engine dropped the chunk".into()),
        }
    }
}
