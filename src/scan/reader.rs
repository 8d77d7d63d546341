//! Reads one array as an Arrow column, row range by row range in ascending order, keeping the chunk at hand decoded.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use datafusion::common::Result;

use super::arrow_column::{integers, to_arrow};
use super::dataset::Dataset;
use super::dense::{Dense, assemble, trailing_chunks};
use super::fetch::{ChunkFetcher, Upcoming};
use super::memory::{ScanMemory, Taken};
use super::metrics::ScanMetrics;
use super::schema::ColumnKind;
use crate::codec::Scratch;

/// The variant chunks of an array that some row ranges (ascending) touch, one after the other: there may be more than
/// memory could hold a list of.
pub fn chunks_of(ranges: &[Range<u64>], chunk_rows: u64) -> Upcoming {
    let ranges: Vec<Range<u64>> = ranges
        .iter()
        .filter(|range| !range.is_empty())
        .cloned()
        .collect();
    let mut next = 0;
    let chunks = ranges.into_iter().flat_map(move |range| {
        let first = (range.start / chunk_rows).max(next);
        let end = (range.end - 1) / chunk_rows + 1;
        next = next.max(end);
        first..end
    });
    let chunks: Box<dyn Iterator<Item = u64> + Send> = Box::new(chunks);
    chunks.peekable()
}

/// Reads the rows of one column.
pub struct ColumnReader {
    dataset: Arc<Dataset>,
    column: usize,
    fetcher: ChunkFetcher,
    current: Option<Current>,
    memory: ScanMemory,
    metrics: ScanMetrics,
    scratch: Scratch,
}

struct Current {
    chunk: u64,
    dense: Dense,
    _memory: Taken,
}

impl ColumnReader {
    /// A reader of column `column` for the row ranges `ranges`.
    pub fn new(
        dataset: &Arc<Dataset>,
        column: usize,
        ranges: &[Range<u64>],
        prefetch: usize,
        memory: &ScanMemory,
        metrics: &ScanMetrics,
    ) -> Self {
        let array = &dataset.columns()[column].array;
        let upcoming = chunks_of(ranges, array.chunks[0]);
        let parts = trailing_chunks(array);
        let fetcher = ChunkFetcher::new(
            Arc::clone(dataset),
            Arc::clone(array),
            parts,
            upcoming,
            prefetch,
            metrics.clone(),
        );
        Self {
            dataset: Arc::clone(dataset),
            column,
            fetcher,
            current: None,
            memory: memory.clone(),
            metrics: metrics.clone(),
            scratch: Scratch::default(),
        }
    }

    /// The rows of `range`, in pieces that each come from one chunk.
    pub async fn rows(&mut self, range: Range<u64>) -> Result<Vec<ArrayRef>> {
        let dataset = Arc::clone(&self.dataset);
        let spec = &dataset.columns()[self.column];
        let chunk_rows = spec.array.chunks[0];
        let mut pieces = Vec::with_capacity(1);
        let mut row = range.start;
        while row < range.end {
            let chunk = row / chunk_rows;
            let first = chunk * chunk_rows;
            let end = range.end.min(first + chunk_rows);
            self.load(chunk).await?;
            if let Some(current) = &self.current {
                let rows = (row - first) as usize..(end - first) as usize;
                let piece = to_arrow(spec, &current.dense, rows, dataset.names());
                pieces.push(piece.map_err(|reason| {
                    dataset.chunk_error(&spec.array, &first_index(chunk, &spec.array), reason)
                })?);
            }
            row = end;
        }
        Ok(pieces)
    }

    async fn load(&mut self, chunk: u64) -> Result<()> {
        if self
            .current
            .as_ref()
            .is_some_and(|current| current.chunk == chunk)
        {
            return Ok(());
        }
        self.current = None;
        let spec = &self.dataset.columns()[self.column];
        let chain = self.dataset.chain(self.column)?;
        let parts = self.fetcher.fetch(chunk).await?;
        let expected = (spec.array.chunks[0] as usize).saturating_mul(spec.row_bytes());
        let memory = self.memory.take(expected)?;
        let _timer = self.metrics.decode_time.timer();
        let dense = assemble(&spec.array, chain, chunk, &parts, &mut self.scratch)
            .map_err(|(index, reason)| self.dataset.chunk_error(&spec.array, &index, reason))?;
        self.metrics.bytes_decoded.add(dense.bytes());
        self.check_claims(chunk, &dense).map_err(|reason| {
            let index = first_index(chunk, &spec.array);
            self.dataset.chunk_error(&spec.array, &index, reason)
        })?;
        self.current = Some(Current {
            chunk,
            dense,
            _memory: memory,
        });
        Ok(())
    }

    /// Holds a chunk of contigs or positions against what the region index claims of its variants: pruning, orderings
    /// and statistics have relied on that.
    fn check_claims(&self, chunk: u64, dense: &Dense) -> std::result::Result<(), String> {
        let spec = &self.dataset.columns()[self.column];
        let (Some(zones), Dense::Fixed(buffer)) = (self.dataset.known_zones(), dense) else {
            return Ok(());
        };
        if !zones.from_index || !matches!(spec.kind, ColumnKind::Contig | ColumnKind::Position) {
            return Ok(());
        }
        let first = chunk * spec.array.chunks[0];
        let rows = spec.array.chunk_extent(&[chunk])[0] as usize;
        let values = integers(&spec.array.element, buffer, 0..rows)?;
        let borne_out = match spec.kind {
            // Indices that name no contig have an error of their own.
            ColumnKind::Contig => {
                zones.check_contigs(first, &values, self.dataset.names().contigs.len())
            }
            _ => zones.check_positions(first, &values),
        };
        borne_out.map_err(|reason| {
            format!(
                "{reason}; to read the positions instead of trusting the index, set the table option \
                 'vcz.region_index' to 'ignore'"
            )
        })
    }
}

fn first_index(chunk: u64, array: &crate::store::ArrayMeta) -> Vec<u64> {
    let mut index = vec![0; array.rank()];
    index[0] = chunk;
    index
}
