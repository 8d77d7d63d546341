//! [`DenseReader`]: the decoded variant chunks of one array, in ascending order, each assembled from its parts along the other axes. Where
//! memory is bounded, some rows of it at a time: its parts are kept encoded and decoded again for the next rows.

use std::ops::Range;
use std::sync::Arc;

use datafusion::common::{Result, exec_err};

use super::dense::{Dense, assemble, assemble_rows};
use super::memory::{ReservedBytes, ScanMemory};
use super::metrics::ScanMetrics;
use crate::codec::Scratch;
use crate::scan::chunks::chunk::{Part, first_index};
use crate::scan::chunks::open::{ChunkRequest, ReadContext};
use crate::scan::chunks::prefetch::Prefetch;
use crate::scan::dataset::Dataset;
use crate::scan::schema::ColumnSpec;

/// Reads the chunks of one array and keeps the current one decoded.
pub struct DenseReader {
    dataset: Arc<Dataset>,
    column: usize,
    chunks: Prefetch,
    /// How many rows of a chunk are decoded at a time, if not all.
    block_rows: Option<u64>,
    /// The parts of the chunk that the current rows are of, if they are not all.
    parts: Option<EncodedChunk>,
    current: Option<DecodedChunk>,
    memory: ScanMemory,
    metrics: ScanMetrics,
    scratch: Scratch,
}

/// The current rows, decoded: a chunk, or a block of one.
struct DecodedChunk {
    chunk: u64,
    block: u64,
    dense: Dense,
    _memory: ReservedBytes,
}

/// A chunk that is decoded in blocks.
struct EncodedChunk {
    chunk: u64,
    parts: Vec<Part>,
    _memory: ReservedBytes,
}

impl DenseReader {
    /// A reader of the elements that `request` asks for.
    ///
    /// # Errors
    /// With `vcz.backend = 'gpu'`, an array over samples that no GPU decodes.
    pub fn try_new(request: ChunkRequest<'_>, context: ReadContext<'_>) -> Result<Self> {
        Ok(Self {
            dataset: Arc::clone(request.dataset),
            column: request.column,
            chunks: request.open(context)?,
            block_rows: None,
            parts: None,
            current: None,
            memory: context.memory.clone(),
            metrics: context.metrics.clone(),
            scratch: Scratch::default(),
        })
    }

    /// Decodes no more than so many rows of a chunk of numbers at a time.
    pub fn in_blocks(mut self, rows: u64) -> Self {
        let spec = self.spec();
        let is_number = spec.array.element.size().is_some() && !spec.array.element.is_text();
        self.block_rows = (is_number && rows < self.chunk_rows()).then_some(rows);
        self
    }

    /// The rows of the array that are decoded together with this one.
    pub fn rows_with(&self, row: u64) -> Range<u64> {
        let chunk_rows = self.chunk_rows();
        let chunk = row / chunk_rows * chunk_rows;
        match self.block_rows {
            None => chunk..chunk + chunk_rows,
            Some(rows) => {
                let first = chunk + (row - chunk) / rows * rows;
                first..(first + rows).min(chunk + chunk_rows)
            }
        }
    }

    /// Makes the rows with this one the current ones. Returns whether they were not before.
    ///
    /// # Errors
    /// As those of [`DenseReader::load`].
    pub async fn load_with(&mut self, row: u64) -> Result<bool> {
        let chunk_rows = self.chunk_rows();
        let chunk = row / chunk_rows;
        let Some(block_rows) = self.block_rows else {
            return self.load(chunk).await;
        };
        let block = row % chunk_rows / block_rows;
        let is_current = |current: &DecodedChunk| (current.chunk, current.block) == (chunk, block);
        if self.current.as_ref().is_some_and(is_current) {
            return Ok(false);
        }
        self.current = None;
        let dataset = Arc::clone(&self.dataset);
        let spec = &dataset.columns()[self.column];
        if self.parts.as_ref().is_none_or(|parts| parts.chunk != chunk) {
            self.parts = None;
            let parts = self.chunks.fetch(chunk).await?;
            let encoded = parts.iter().filter_map(|part| part.chunk.encoded_len());
            // And a part that is decoded.
            let decoded = spec.array.chunk_bytes().unwrap_or(0);
            let memory = encoded.sum::<usize>().saturating_add(decoded);
            self.parts = Some(EncodedChunk {
                chunk,
                parts,
                _memory: self.memory.take(memory)?,
            });
        }
        let Some(EncodedChunk { parts, .. }) = &self.parts else {
            return exec_err!("no chunk is loaded");
        };
        let all = spec.array.chunk_extent(&first_index(chunk, &spec.array))[0];
        let first = (block * block_rows).min(all);
        let rows = first as usize..(first + block_rows).min(all) as usize;
        let memory = self
            .memory
            .take(rows.len().saturating_mul(spec.row_bytes()))?;
        let _timer = self.metrics.decode_time.timer();
        let chain = dataset.chain(self.column)?;
        let dense = assemble_rows(&spec.array, chain, chunk, parts, rows, &mut self.scratch)
            .map_err(|(index, reason)| dataset.chunk_error(&spec.array, &index, reason))?;
        self.metrics.bytes_decoded.add(dense.bytes());
        self.current = Some(DecodedChunk {
            chunk,
            block,
            dense,
            _memory: memory,
        });
        Ok(true)
    }

    /// Starts to read before any chunk is requested.
    pub fn start(&mut self) {
        self.chunks.start();
    }

    /// The array, as a column of the table.
    pub fn column(&self) -> usize {
        self.column
    }

    /// The array.
    pub fn spec(&self) -> &ColumnSpec {
        &self.dataset.columns()[self.column]
    }

    /// Rows of one chunk.
    pub fn chunk_rows(&self) -> u64 {
        self.spec().array.chunks[0]
    }

    /// Makes variant chunk `chunk` the current one. Returns whether it was not the current one before.
    ///
    /// # Errors
    /// If it cannot be read or decoded, or the memory pool is exhausted.
    pub async fn load(&mut self, chunk: u64) -> Result<bool> {
        if let Some(current) = &self.current
            && current.chunk == chunk
        {
            return Ok(false);
        }
        self.current = None;
        let dataset = Arc::clone(&self.dataset);
        let spec = &dataset.columns()[self.column];
        let chain = dataset.chain(self.column)?;
        let parts = self.chunks.fetch(chunk).await?;
        let expected = (spec.array.chunks[0] as usize).saturating_mul(spec.row_bytes());
        let memory = self.memory.take(expected)?;
        let _timer = self.metrics.decode_time.timer();
        let dense = assemble(&spec.array, chain, chunk, &parts, &mut self.scratch)
            .map_err(|(index, reason)| dataset.chunk_error(&spec.array, &index, reason))?;
        self.metrics.bytes_decoded.add(dense.bytes());
        self.current = Some(DecodedChunk {
            chunk,
            block: 0,
            dense,
            _memory: memory,
        });
        Ok(true)
    }

    /// The current rows; `None` before the first.
    pub fn dense(&self) -> Option<&Dense> {
        self.current.as_ref().map(|current| &current.dense)
    }
}
