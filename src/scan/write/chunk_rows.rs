//! [`ChunkWriter`]: gathers rows of several arrays until a chunk of them is full, then encodes and writes its chunks in parallel.
//!
//! Invariant: at most [`MAX_IN_WORK`] bytes of elements wait to be encoded and written, or the chunks of one array in one row of chunks if
//! they are more.

use std::sync::Arc;

use arrow::buffer::Buffer;
use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use crate::codec::{ChunkData, ChunkEncoder, StringChunk};
use crate::error::VczError;
use crate::store::write::{NewArray, Target};

/// Bytes of elements that may wait to be encoded and written.
const MAX_IN_WORK: usize = 128 << 20;
/// What a permit of the limit on bytes stands for.
const PERMIT: usize = 1 << 10;

/// Writes arrays that grow together along their first dimension.
pub struct ChunkWriter {
    arrays: Vec<Growing>,
    target: Arc<Target>,
    chunk_rows: usize,
    /// Rows of the chunks that are being gathered.
    pending: usize,
    rows: u64,
    tasks: JoinSet<Result<()>>,
    threads: Arc<Semaphore>,
    in_work: Arc<Semaphore>,
    memory: MemoryReservation,
}

/// An array and the elements of its unfinished chunks.
struct Growing {
    array: Arc<NewArray>,
    encoder: Arc<ChunkEncoder>,
    elements: ChunkData,
}

impl ChunkWriter {
    /// A writer of `arrays`, which have the same number of rows in a chunk.
    ///
    /// # Errors
    /// If an array cannot be encoded.
    pub fn try_new(
        arrays: Vec<NewArray>,
        target: Arc<Target>,
        pool: &Arc<dyn MemoryPool>,
    ) -> Result<Self> {
        let chunk_rows = arrays.first().map_or(1, |array| array.chunks[0]);
        let arrays = arrays.into_iter().map(|array| {
            let encoder = ChunkEncoder::try_new(&array).map_err(|reason| of(&array, reason))?;
            Ok(Growing {
                elements: empty(&array),
                encoder: Arc::new(encoder),
                array: Arc::new(array),
            })
        });
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self {
            arrays: arrays.collect::<Result<_>>()?,
            target,
            chunk_rows: usize::try_from(chunk_rows).unwrap_or(usize::MAX),
            pending: 0,
            rows: 0,
            tasks: JoinSet::new(),
            threads: Arc::new(Semaphore::new(threads)),
            in_work: Arc::new(Semaphore::new(MAX_IN_WORK / PERMIT)),
            memory: MemoryConsumer::new("chunks of a VCZ store that is written").register(pool),
        })
    }

    /// The arrays, and the number of rows so far.
    pub fn arrays(&self) -> (impl Iterator<Item = &NewArray>, u64) {
        (self.arrays.iter().map(|growing| &*growing.array), self.rows)
    }

    /// Adds rows: for each array the elements of the same `rows` rows.
    ///
    /// # Errors
    /// If a chunk cannot be encoded or written, or there is not enough memory.
    pub async fn push(&mut self, elements: &[ChunkData], rows: usize) -> Result<()> {
        let mut from = 0;
        while from < rows {
            let take = (rows - from).min(self.chunk_rows - self.pending);
            for (growing, elements) in self.arrays.iter_mut().zip(elements) {
                let per_row = growing.array.row_elements();
                let added = append(&mut growing.elements, elements, &growing.array, {
                    from * per_row..(from + take) * per_row
                })?;
                self.memory.try_grow(added)?;
            }
            from += take;
            self.pending += take;
            self.rows += take as u64;
            if self.pending == self.chunk_rows {
                self.flush().await?;
            }
        }
        Ok(())
    }

    /// Writes the last chunks and waits for all.
    ///
    /// # Errors
    /// If a chunk cannot be encoded or written.
    pub async fn finish(&mut self) -> Result<()> {
        if self.pending > 0 {
            self.flush().await?;
        }
        while let Some(done) = self.tasks.join_next().await {
            outcome(done)?;
        }
        Ok(())
    }

    /// Begins to encode the gathered chunks.
    async fn flush(&mut self) -> Result<()> {
        let variant_chunk = (self.rows - 1) / self.chunk_rows as u64;
        for growing in &mut self.arrays {
            let elements = std::mem::replace(&mut growing.elements, empty(&growing.array));
            let bytes = elements.byte_len();
            let permits = (bytes / PERMIT + 1).min(MAX_IN_WORK / PERMIT) as u32;
            let permit = Arc::clone(&self.in_work).acquire_many_owned(permits).await;
            let rows = Rows {
                array: Arc::clone(&growing.array),
                elements,
                rows: self.pending,
                _memory: self.memory.split(bytes.min(self.memory.size())),
                _permit: permit.ok(),
            };
            let rows = Arc::new(rows);
            for inner in inner_chunks(&rows.array) {
                let mut index = vec![variant_chunk];
                index.extend(&inner);
                let key = rows.array.chunk_key(&index);
                let (rows, encoder) = (Arc::clone(&rows), Arc::clone(&growing.encoder));
                let (target, threads) = (Arc::clone(&self.target), Arc::clone(&self.threads));
                self.tasks.spawn(async move {
                    let thread = threads.acquire_owned().await;
                    // Its memory and its part of the limit are kept until the chunk is written, however slow that is.
                    let held = Arc::clone(&rows);
                    let encode = move || {
                        let chunk = rows.chunk(&inner)?;
                        let encoded = encoder.encode(&chunk).map_err(|e| of(&rows.array, e))?;
                        Ok::<_, DataFusionError>(encoded)
                    };
                    let encoded = match tokio::task::spawn_blocking(encode).await {
                        Ok(encoded) => encoded?,
                        Err(error) => {
                            return exec_err!(
                                "array '{}': a chunk was not encoded: {error}",
                                held.array.name
                            );
                        }
                    };
                    // Another chunk is encoded while this one is written.
                    drop(thread);
                    if let Some(encoded) = encoded {
                        target.put(key, encoded).await?;
                    }
                    drop(held);
                    Ok(())
                });
            }
        }
        self.pending = 0;
        while let Some(done) = self.tasks.try_join_next() {
            outcome(done)?;
        }
        Ok(())
    }
}

fn outcome(done: std::result::Result<Result<()>, tokio::task::JoinError>) -> Result<()> {
    match done {
        Ok(done) => done,
        Err(error) => exec_err!("a chunk was not written: {error}"),
    }
}

/// Elements of some rows of an array, of all its chunks along the other dimensions.
struct Rows {
    array: Arc<NewArray>,
    elements: ChunkData,
    rows: usize,
    _memory: MemoryReservation,
    /// `None` once the limit is closed, which it never is.
    _permit: Option<OwnedSemaphorePermit>,
}

impl Rows {
    /// The full chunk at `inner` along the dimensions after the first, padded with zeros or empty text.
    fn chunk(&self, inner: &[u64]) -> Result<ChunkData> {
        let array = &self.array;
        let chunk: Vec<usize> = array.chunks.iter().map(|&n| n as usize).collect();
        // Only the first inner dimension, samples, has several chunks.
        let (axis, rest) = match array.row_shape.split_first() {
            None => (1, 1),
            Some((&axis, rest)) => (axis as usize, rest.iter().product::<u64>() as usize),
        };
        let width = chunk.get(1).copied().unwrap_or(1);
        let padded_rest: usize = chunk.iter().skip(2).product();
        let first = inner.first().map_or(0, |&at| at as usize * width);
        let count = axis.saturating_sub(first).min(width);
        let chunk_elements: usize = chunk.iter().product();
        let is_whole = count == width && axis == width && rest == padded_rest;
        match &self.elements {
            ChunkData::Fixed(buffer) => {
                let size = array.element.size().unwrap_or(1);
                if is_whole && self.rows == chunk[0] {
                    return Ok(ChunkData::Fixed(buffer.clone()));
                }
                let mut out = vec![0u8; chunk_elements * size];
                for row in 0..self.rows {
                    let from = (row * axis + first) * rest * size;
                    let to = row * width * padded_rest * size;
                    let len = count * rest * size;
                    out[to..to + len].copy_from_slice(&buffer[from..from + len]);
                }
                Ok(ChunkData::Fixed(Buffer::from_vec(out)))
            }
            ChunkData::Strings(strings) => {
                let mut out = StringChunk::default();
                let push = |out: &mut StringChunk, text: &str| {
                    out.push(text).map_err(|reason| of(array, reason))
                };
                for row in 0..chunk[0] {
                    for at in 0..width * padded_rest {
                        let is_there = row < self.rows && at < count * rest;
                        let from = (row * axis + first) * rest + at;
                        push(&mut out, if is_there { strings.get(from) } else { "" })?;
                    }
                }
                Ok(ChunkData::Strings(out))
            }
        }
    }
}

/// The indices of an array's chunks along the dimensions after the first.
fn inner_chunks(array: &NewArray) -> Vec<Vec<u64>> {
    match array.row_shape.split_first() {
        None => vec![vec![]],
        Some((&axis, rest)) => {
            let n = axis.div_ceil(array.chunks[1].max(1));
            // A dimension without elements has no chunks.
            let n = if rest.contains(&0) { 0 } else { n };
            (0..n)
                .map(|at| {
                    let mut index = vec![at];
                    index.extend(rest.iter().map(|_| 0));
                    index
                })
                .collect()
        }
    }
}

fn empty(array: &NewArray) -> ChunkData {
    match array.element.size() {
        Some(_) => ChunkData::Fixed(Buffer::from_vec(Vec::<u8>::new())),
        None => ChunkData::Strings(StringChunk::default()),
    }
}

/// Appends elements `range` of `from` to `to`. Returns the bytes that were added.
fn append(
    to: &mut ChunkData,
    from: &ChunkData,
    array: &NewArray,
    range: std::ops::Range<usize>,
) -> Result<usize> {
    let before = to.byte_len();
    match (&mut *to, from) {
        (ChunkData::Fixed(to), ChunkData::Fixed(from)) => {
            let size = array.element.size().unwrap_or(1);
            let part = from.as_slice().get(range.start * size..range.end * size);
            let Some(part) = part else {
                return exec_err!(
                    "array '{}': a batch has fewer values than rows × {} values",
                    array.name,
                    array.row_elements()
                );
            };
            // The buffer is not shared, so its vector is taken back without a copy.
            let mut bytes = match std::mem::take(to).into_vec::<u8>() {
                Ok(bytes) => bytes,
                Err(shared) => shared.to_vec(),
            };
            bytes.extend_from_slice(part);
            *to = Buffer::from_vec(bytes);
        }
        (ChunkData::Strings(to), ChunkData::Strings(from)) => {
            for at in range {
                to.push(from.get(at)).map_err(|reason| of(array, reason))?;
            }
        }
        _ => return exec_err!("array '{}': values of another type", array.name),
    }
    Ok(to.byte_len().saturating_sub(before))
}

fn of(array: &NewArray, reason: crate::codec::CodecError) -> DataFusionError {
    VczError::Invalid(format!("array '{}': {reason}", array.name)).into()
}
