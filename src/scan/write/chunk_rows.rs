//! [`ChunkWriter`]: gathers rows of several arrays until a chunk of them is full, then has its chunks encoded and written by
//! [`ChunkTasks`].
//!
//! Rows are kept by chunk along the second dimension. Invariant: at most [`ChunkTasks::gathered_limit`] bytes of them are in memory, and
//! those beyond it in a temporary file; so the memory does not depend on how many samples there are, but for the chunks themselves.

use std::sync::Arc;

use datafusion::common::{Result, exec_datafusion_err, exec_err};
use datafusion::execution::memory_pool::MemoryReservation;

use super::array_error::of;
use super::chunk_part::{ChunkPart, Rows, WrittenArray};
use super::chunk_tasks::ChunkTasks;
use super::columns::VARIANTS_CHUNK;
use super::row_spill::RowSpill;
use super::spilled_part::{Piece, SpilledPart};
use crate::codec::{ChunkData, StringChunk};
use crate::store::write::NewArray;

/// Bytes of rows that are added at once.
pub const PIECE: usize = 8 << 20;

/// Writes arrays that grow together along their first dimension.
pub struct ChunkWriter<'a> {
    arrays: Vec<Growing>,
    tasks: &'a mut ChunkTasks,
    chunk_rows: usize,
    /// Rows of the chunks that are being gathered.
    pending: usize,
    rows: u64,
    /// Most bytes that are gathered in memory, and those that are.
    limit: usize,
    gathered: usize,
    memory: MemoryReservation,
    /// The rows of the chunks that are being gathered that did not fit.
    spill: Option<RowSpill>,
}

/// An array and the rows of its unfinished chunks.
struct Growing {
    of: Arc<WrittenArray>,
    parts: Vec<Part>,
}

/// The gathered rows of one chunk.
struct Part {
    /// The chunk's index along the dimensions after the first.
    index: Vec<u64>,
    /// Where its elements begin in a row, and how many they are.
    from: usize,
    width: usize,
    rows: Rows,
    spilled: Vec<Piece>,
}

impl<'a> ChunkWriter<'a> {
    /// A writer of `arrays`, which have the same number of rows in a chunk.
    ///
    /// # Errors
    /// If an array cannot be encoded.
    pub fn try_new(arrays: Vec<NewArray>, tasks: &'a mut ChunkTasks) -> Result<Self> {
        let chunk_rows = arrays.first().map_or(1, |array| array.chunks[0]);
        let chunk_rows = usize::try_from(chunk_rows).unwrap_or(usize::MAX);
        let limit = tasks.gathered_limit();
        let row_bytes: usize = arrays.iter().map(NewArray::row_bytes).sum();
        // Memory that is not used is not taken from the system.
        let capacity = chunk_rows.min((limit + PIECE) / row_bytes.max(1) + 1);
        let arrays = arrays.into_iter().map(|array| {
            Ok(Growing {
                parts: parts(&array, capacity),
                of: Arc::new(WrittenArray::try_new(array)?),
            })
        });
        Ok(Self {
            arrays: arrays.collect::<Result<_>>()?,
            memory: tasks.reservation(),
            tasks,
            chunk_rows,
            pending: 0,
            rows: 0,
            limit,
            gathered: 0,
            spill: None,
        })
    }

    /// The arrays, and the number of rows so far.
    pub fn arrays(&self) -> (impl Iterator<Item = &NewArray>, u64) {
        (
            self.arrays.iter().map(|growing| &growing.of.array),
            self.rows,
        )
    }

    /// Adds rows: for each array the elements of the same `rows` rows.
    ///
    /// # Errors
    /// If a chunk cannot be encoded or written, or there is not enough memory.
    pub async fn push(&mut self, elements: &[ChunkData], rows: usize) -> Result<()> {
        let arrays = self.arrays.iter();
        let row_bytes: usize = arrays.map(|growing| growing.of.array.row_bytes()).sum();
        let at_once = (PIECE / row_bytes.max(1)).max(1);
        let mut from = 0;
        while from < rows {
            let take = (rows - from)
                .min(self.chunk_rows - self.pending)
                .min(at_once);
            let mut added = 0;
            for (growing, elements) in self.arrays.iter_mut().zip(elements) {
                added += growing.append(elements, from, take)?;
            }
            from += take;
            self.pending += take;
            self.rows += take as u64;
            self.gathered += added;
            if self.gathered > self.limit || self.memory.try_grow(added).is_err() {
                self.spill().await?;
            }
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
        let is_first = self.rows == self.pending as u64;
        if is_first && self.chunk_rows as u64 > VARIANTS_CHUNK.max(self.rows) {
            self.fit_chunks()?;
        }
        if self.pending > 0 {
            self.flush().await?;
        }
        self.tasks.finish().await
    }

    /// Makes the chunks as long as the arrays, instead of padding them to a length that was asked for.
    fn fit_chunks(&mut self) -> Result<()> {
        let length = VARIANTS_CHUNK.max(self.rows);
        for growing in &mut self.arrays {
            let mut array = growing.of.array.clone();
            array.chunks[0] = length;
            growing.of = Arc::new(WrittenArray::try_new(array)?);
        }
        self.chunk_rows = usize::try_from(length).unwrap_or(usize::MAX);
        Ok(())
    }

    /// Moves the gathered rows to a temporary file.
    async fn spill(&mut self) -> Result<()> {
        let spill = match self.spill.take() {
            Some(spill) => spill,
            None => RowSpill::try_new(self.tasks.runtime())?,
        };
        let parts = self.arrays.iter_mut().flat_map(|array| &mut array.parts);
        let rows: Vec<Rows> = parts.map(|part| part.take()).collect();
        let write = move || {
            let mut spill = spill;
            let pieces = rows.iter().map(|rows| spill.push(rows));
            let pieces: Vec<Option<Piece>> = pieces.collect::<Result<_>>()?;
            Ok::<_, datafusion::common::DataFusionError>((spill, pieces, rows))
        };
        let written = tokio::task::spawn_blocking(write).await;
        let (spill, pieces, rows) = written.map_err(|error| {
            exec_datafusion_err!("rows were not written to a temporary file: {error}")
        })??;
        let parts = self.arrays.iter_mut().flat_map(|array| &mut array.parts);
        for ((part, piece), rows) in parts.zip(pieces).zip(rows) {
            part.spilled.extend(piece);
            part.rows = emptied(rows);
        }
        self.spill = Some(spill);
        self.gathered = 0;
        self.memory.free();
        Ok(())
    }

    /// Has the gathered chunks encoded and written.
    async fn flush(&mut self) -> Result<()> {
        let variant_chunk = (self.rows - 1) / self.chunk_rows as u64;
        if self.spill.is_some() && self.gathered > 0 {
            self.spill().await?;
        }
        let file = match self.spill.take() {
            Some(spill) => Some(spill.finish()?),
            None => None,
        };
        for growing in &mut self.arrays {
            for part in &mut growing.parts {
                let elements = match &file {
                    Some(file) => {
                        let pieces = std::mem::take(&mut part.spilled);
                        Rows::Spilled(SpilledPart::new(Arc::clone(file), pieces))
                    }
                    None => part.take(),
                };
                let mut index = vec![variant_chunk];
                index.extend(&part.index);
                let chunk = ChunkPart {
                    of: Arc::clone(&growing.of),
                    index,
                    width: part.width,
                    rows: self.pending,
                    elements,
                };
                let held = chunk.gathered_bytes().min(self.memory.size());
                let held = self.memory.split(held);
                self.tasks.begin(chunk, held).await?;
            }
        }
        self.pending = 0;
        self.gathered = 0;
        self.memory.free();
        Ok(())
    }
}

impl Growing {
    /// Appends `rows` rows of `elements`, beginning at row `from`. Returns the bytes that were added.
    fn append(&mut self, elements: &ChunkData, from: usize, rows: usize) -> Result<usize> {
        let array = &self.of.array;
        let per_row = array.row_elements();
        let mut added = 0;
        for part in &mut self.parts {
            match (&mut part.rows, elements) {
                (Rows::Fixed(to), ChunkData::Fixed(elements)) => {
                    let size = array.element.size().unwrap_or(1);
                    let Some(elements) =
                        elements.get(from * per_row * size..(from + rows) * per_row * size)
                    else {
                        return exec_err!(
                            "array '{}': a batch has fewer values than rows × {per_row} values",
                            array.name
                        );
                    };
                    if part.width == per_row {
                        to.extend_from_slice(elements);
                    } else {
                        for row in elements.chunks_exact(per_row * size) {
                            let end = (part.from + part.width) * size;
                            to.extend_from_slice(&row[part.from * size..end]);
                        }
                    }
                    added += rows * part.width * size;
                }
                (Rows::Strings(to), ChunkData::Strings(elements)) => {
                    let before = to.data.len();
                    for row in from..from + rows {
                        let first = row * per_row + part.from;
                        for at in first..first + part.width {
                            let text = elements.get(at);
                            to.push(text).map_err(|reason| of(array, reason))?;
                        }
                    }
                    added += to.data.len() - before + 4 * rows * part.width;
                }
                _ => return exec_err!("array '{}': values of another type", array.name),
            }
        }
        Ok(added)
    }
}

impl Part {
    /// The rows that are in memory.
    fn take(&mut self) -> Rows {
        let next = match &self.rows {
            Rows::Fixed(bytes) => Rows::Fixed(Vec::with_capacity(bytes.capacity())),
            Rows::Strings(_) | Rows::Spilled(_) => Rows::Strings(StringChunk::default()),
        };
        std::mem::replace(&mut self.rows, next)
    }
}

/// No rows, in the memory of these.
fn emptied(rows: Rows) -> Rows {
    match rows {
        Rows::Fixed(mut bytes) => {
            bytes.clear();
            Rows::Fixed(bytes)
        }
        Rows::Strings(_) | Rows::Spilled(_) => Rows::Strings(StringChunk::default()),
    }
}

/// The chunks of a row of chunks, without rows yet, and with memory for `rows` rows.
fn parts(array: &NewArray, rows: usize) -> Vec<Part> {
    let empty = |width: usize| match array.element.size() {
        Some(size) => Rows::Fixed(Vec::with_capacity(rows.saturating_mul(width * size))),
        None => Rows::Strings(StringChunk::default()),
    };
    let part = |index: Vec<u64>, from: usize, width: usize| Part {
        index,
        from,
        width,
        rows: empty(width),
        spilled: vec![],
    };
    // Only the first dimension after variants, samples, has several chunks.
    let Some((&axis, rest)) = array.row_shape.split_first() else {
        return vec![part(vec![], 0, 1)];
    };
    let inner: usize = rest.iter().map(|&n| n as usize).product();
    // A dimension without elements has no chunks.
    let n = if inner == 0 { 0 } else { axis };
    let chunk = array.chunks[1].max(1);
    let first = (0..n).step_by(usize::try_from(chunk).unwrap_or(usize::MAX));
    first
        .map(|first| {
            let mut index = vec![first / chunk];
            index.extend(rest.iter().map(|_| 0));
            let count = (axis - first).min(chunk) as usize;
            part(index, first as usize * inner, count * inner)
        })
        .collect()
}
