//! Reads one array as an Arrow column, row range by row range in ascending order. The current chunk is kept decoded.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::buffer::ScalarBuffer;
use datafusion::common::Result;

use super::arrow_column::{contig_at, contig_runs, integers, to_arrow};
use super::dense::Dense;
use super::dense_reader::DenseReader;
use crate::scan::chunks::chunk::first_index;
use crate::scan::chunks::open::{ChunkPurpose, ChunkRequest, ReadContext};
use crate::scan::dataset::Dataset;
use crate::scan::schema::ColumnKind;
use crate::scan::value_error::ValueError;
use crate::store::ElementType;

/// Reads the rows of one column.
pub struct ColumnReader {
    dataset: Arc<Dataset>,
    column: usize,
    chunks: DenseReader,
}

impl ColumnReader {
    /// A reader of column `column` for the row ranges `ranges`. Arrays over samples are decoded by the GPU, if the scan has one.
    pub fn try_new(
        dataset: &Arc<Dataset>,
        column: usize,
        ranges: &[Range<u64>],
        context: ReadContext<'_>,
    ) -> Result<Self> {
        let request = ChunkRequest {
            dataset,
            column,
            purpose: ChunkPurpose::Elements,
            ranges,
        };
        let chunks = DenseReader::try_new(request, context)?;
        let is_site_level = dataset.columns()[column].is_site_level();
        Ok(Self {
            dataset: Arc::clone(dataset),
            column,
            chunks: match context.block_rows {
                Some(rows) if !is_site_level => chunks.in_blocks(rows),
                _ => chunks,
            },
        })
    }

    /// Starts to read before any row is requested.
    pub fn start(&mut self) {
        self.chunks.start();
    }

    /// The rows of `range`, in pieces of one chunk each.
    pub async fn rows(&mut self, range: Range<u64>) -> Result<Vec<ArrayRef>> {
        let dataset = Arc::clone(&self.dataset);
        let spec = &dataset.columns()[self.column];
        let chunk_rows = spec.array.chunks[0];
        let mut pieces = Vec::with_capacity(1);
        let mut row = range.start;
        while row < range.end {
            let decoded = self.chunks.rows_with(row);
            let end = range.end.min(decoded.end);
            self.load(row).await?;
            if let Some(dense) = self.chunks.dense() {
                let chunk = row / chunk_rows;
                let rows = (row - decoded.start) as usize..(end - decoded.start) as usize;
                let piece = to_arrow(spec, dense, rows, dataset.names());
                pieces.push(piece.map_err(|reason| {
                    dataset.chunk_error(&spec.array, &first_index(chunk, &spec.array), reason)
                })?);
            }
            row = end;
        }
        Ok(pieces)
    }

    async fn load(&mut self, row: u64) -> Result<()> {
        if self.chunks.load_with(row).await?
            && let Some(dense) = self.chunks.dense()
        {
            let spec = &self.dataset.columns()[self.column];
            let chunk = row / spec.array.chunks[0];
            self.check_sites(chunk, dense).map_err(|reason| {
                let index = first_index(chunk, &spec.array);
                self.dataset.chunk_error(&spec.array, &index, reason)
            })?;
        }
        Ok(())
    }

    /// Checks a whole chunk of contigs or positions: contig codes against `contig_id`, and both against the region index, because pruning,
    /// orderings and statistics have relied on it.
    fn check_sites(&self, chunk: u64, dense: &Dense) -> std::result::Result<(), ValueError> {
        let spec = &self.dataset.columns()[self.column];
        let Dense::Fixed(buffer) = dense else {
            return Ok(());
        };
        let rows = spec.array.chunk_extent(&first_index(chunk, &spec.array))[0] as usize;
        let element = &spec.array.element;
        let contigs = match spec.kind {
            ColumnKind::Contig => contig_runs(element, buffer, 0..rows)?,
            _ => vec![],
        };
        for (code, _) in &contigs {
            contig_at(*code, self.dataset.names().contigs.len())?;
        }
        let Some(zones) = self.dataset.known_zones().filter(|zones| zones.from_index) else {
            return Ok(());
        };
        let first = chunk * spec.array.chunks[0];
        let checked = match spec.kind {
            ColumnKind::Contig => zones.check_contigs(first, &contigs),
            ColumnKind::Position if *element == ElementType::Int32 => {
                let positions = ScalarBuffer::<i32>::new(buffer.clone(), 0, rows);
                zones.check_positions(first, &positions)
            }
            ColumnKind::Position => {
                zones.check_positions(first, &integers(element, buffer, 0..rows)?)
            }
            _ => Ok(()),
        };
        checked.map_err(|reason| {
            format!(
                "{reason}; to read the positions instead of trusting the index, set the table option \
                 'vcz.region_index' to 'ignore'"
            )
            .into()
        })
    }
}
