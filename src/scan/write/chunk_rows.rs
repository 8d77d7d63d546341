//! [`ChunkWriter`]: gathers rows of several arrays until a chunk of them is full, then has its chunks encoded and written by
//! [`ChunkTasks`].
//!
//! Rows stay in the batches that they came in; whoever encodes a chunk takes its elements out of them. Invariant: at most
//! [`ChunkTasks::gathered_limit`] bytes of them are in memory, and those beyond it in a temporary file, by chunks along the second dimension;
//! so the memory does not depend on how many samples there are, but for the chunks themselves.

use std::ops::Range;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use datafusion::execution::memory_pool::MemoryReservation;

use super::batch_column::{BatchColumn, RowSpan};
use super::chunk_part::{ChunkPart, Rows, WrittenArray, append, append_text};
use super::chunk_tasks::ChunkTasks;
use super::columns::VARIANTS_CHUNK;
use super::row_spill::RowSpill;
use super::spilled_part::{Piece, SpilledPart};
use crate::codec::ChunkData;
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
    /// Rows in batches, and their bytes.
    spans: Vec<RowSpan>,
    bytes: usize,
}

/// One of the chunks that the rows are divided into along the second dimension.
struct Part {
    /// The chunk's index along the dimensions after the first.
    index: Vec<u64>,
    /// Its elements of a row.
    columns: Range<usize>,
    /// Its rows in the temporary file.
    spilled: Vec<Piece>,
}

impl<'a> ChunkWriter<'a> {
    /// A writer of `arrays`, which have the same number of rows in a chunk.
    ///
    /// # Errors
    /// If an array cannot be encoded.
    pub fn try_new(arrays: Vec<NewArray>, tasks: &'a mut ChunkTasks) -> Result<Self> {
        let chunk_rows = arrays.first().map_or(1, |array| array.chunks[0]);
        let arrays = arrays.into_iter().map(|array| {
            Ok(Growing {
                parts: parts(&array),
                of: Arc::new(WrittenArray::try_new(array)?),
                spans: vec![],
                bytes: 0,
            })
        });
        Ok(Self {
            arrays: arrays.collect::<Result<_>>()?,
            limit: tasks.gathered_limit(),
            memory: tasks.reservation(),
            tasks,
            chunk_rows: usize::try_from(chunk_rows).unwrap_or(usize::MAX),
            pending: 0,
            rows: 0,
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

    /// Adds rows: for each array its values in the same `rows` rows.
    ///
    /// # Errors
    /// If a chunk cannot be encoded or written, or there is not enough memory.
    pub async fn push(&mut self, columns: &[Arc<BatchColumn>], rows: usize) -> Result<()> {
        let arrays = self.arrays.iter();
        let row_bytes: usize = arrays.map(|growing| growing.of.array.row_bytes()).sum();
        let at_once = (PIECE / row_bytes.max(1)).max(1);
        let mut from = 0;
        while from < rows {
            let take = (rows - from)
                .min(self.chunk_rows - self.pending)
                .min(at_once);
            let mut added = 0;
            for (growing, column) in self.arrays.iter_mut().zip(columns) {
                added += growing.add(column, from, take)?;
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
        let rows = self.arrays.iter_mut().flat_map(|growing| {
            let (of, spans) = (Arc::clone(&growing.of), std::mem::take(&mut growing.spans));
            growing.bytes = 0;
            let parts = growing.parts.iter();
            parts.map(move |part| (Arc::clone(&of), spans.clone(), part.columns.clone()))
        });
        let rows: Vec<_> = rows.collect();
        let write = move || {
            let mut spill = spill;
            let pieces = rows.into_iter().map(|(of, spans, columns)| {
                let rows = match of.size() {
                    Some(_) => {
                        let mut bytes = Vec::new();
                        append(&of.array, &spans, &columns, &mut bytes)?;
                        ChunkData::Fixed(bytes.into())
                    }
                    None => ChunkData::Strings(append_text(&of.array, &spans, &columns)?),
                };
                spill.push(&rows)
            });
            let pieces: Vec<Piece> = pieces.collect::<Result<_>>()?;
            Ok::<_, DataFusionError>((spill, pieces))
        };
        let written = tokio::task::spawn_blocking(write).await;
        let (spill, pieces) = written.map_err(|error| {
            exec_datafusion_err!("rows were not written to a temporary file: {error}")
        })??;
        let parts = self.arrays.iter_mut().flat_map(|array| &mut array.parts);
        for (part, piece) in parts.zip(pieces) {
            part.spilled.push(piece);
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
            let spans = std::mem::take(&mut growing.spans);
            let bytes = std::mem::take(&mut growing.bytes);
            let n = growing.parts.len();
            for part in &mut growing.parts {
                let elements = match &file {
                    Some(file) => {
                        let pieces = std::mem::take(&mut part.spilled);
                        Rows::Spilled(SpilledPart::new(Arc::clone(file), pieces))
                    }
                    None => Rows::InBatches(spans.clone()),
                };
                let mut index = vec![variant_chunk];
                index.extend(&part.index);
                let chunk = ChunkPart {
                    of: Arc::clone(&growing.of),
                    index,
                    columns: part.columns.clone(),
                    rows: self.pending,
                    gathered: bytes / n,
                    elements,
                };
                let held = self.memory.split(chunk.gathered.min(self.memory.size()));
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
    /// Adds `rows` rows of `column`, beginning at row `from`. Returns their bytes.
    fn add(&mut self, column: &Arc<BatchColumn>, from: usize, rows: usize) -> Result<usize> {
        let array = &self.of.array;
        let bytes = match array.element.size() {
            Some(_) => array.row_bytes().saturating_mul(rows),
            // How long text is, its elements say.
            None => match &*column.elements()? {
                ChunkData::Strings(strings) => {
                    let per_row = array.row_elements();
                    strings.bytes_of(from * per_row..(from + rows) * per_row)
                }
                ChunkData::Fixed(_) => 0,
            },
        };
        self.spans.push(RowSpan {
            column: Arc::clone(column),
            from,
            rows,
        });
        self.bytes += bytes;
        Ok(bytes)
    }
}

/// The chunks that rows are divided into.
fn parts(array: &NewArray) -> Vec<Part> {
    let part = |index: Vec<u64>, from: usize, width: usize| Part {
        index,
        columns: from..from + width,
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
