//! [`DenseReader`]: the decoded variant chunks of one array, in ascending order, each assembled from its parts along the other axes.

use std::sync::Arc;

use datafusion::common::Result;

use super::dense::{Dense, assemble};
use super::memory::{ScanMemory, Taken};
use super::metrics::ScanMetrics;
use crate::codec::Scratch;
use crate::scan::chunks::open::{ChunkRequest, ReadContext};
use crate::scan::chunks::prefetch::Prefetch;
use crate::scan::dataset::Dataset;
use crate::scan::schema::ColumnSpec;

/// Reads the chunks of one array and keeps the current one decoded.
pub struct DenseReader {
    dataset: Arc<Dataset>,
    column: usize,
    chunks: Prefetch,
    current: Option<DecodedChunk>,
    memory: ScanMemory,
    metrics: ScanMetrics,
    scratch: Scratch,
}

/// The current chunk, decoded.
struct DecodedChunk {
    chunk: u64,
    dense: Dense,
    _memory: Taken,
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
            current: None,
            memory: context.memory.clone(),
            metrics: context.metrics.clone(),
            scratch: Scratch::default(),
        })
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
            dense,
            _memory: memory,
        });
        Ok(true)
    }

    /// The rows of the current chunk; `None` before the first.
    pub fn dense(&self) -> Option<&Dense> {
        self.current.as_ref().map(|current| &current.dense)
    }
}
