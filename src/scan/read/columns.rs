//! Reads one array as an Arrow column, row range by row range in ascending order, keeping the chunk at hand decoded.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::buffer::ScalarBuffer;
use datafusion::common::Result;

use super::arrow_column::{contig_at, contig_runs, integers, to_arrow};
use super::dense::{Dense, Part, PartData, assemble, trailing_chunks};
use super::memory::{ScanMemory, Taken};
use super::metrics::ScanMetrics;
use crate::codec::Scratch;
#[cfg(feature = "gpu")]
use crate::gpu::{ElementsOutput, GpuEngine, Work, WorkOutput};
#[cfg(feature = "gpu")]
use crate::scan::chunks::gpu::GpuFetcher;
#[cfg(feature = "gpu")]
use crate::scan::chunks::gpu_request::{Piece, Request, Wish};
use crate::scan::chunks::prefetch::{ChunkFetcher, Upcoming};
use crate::scan::dataset::Dataset;
use crate::scan::plan::backend::Device;
#[cfg(feature = "gpu")]
use crate::scan::plan::backend::{not_on_gpu, planner};
use crate::scan::schema::ColumnKind;
use crate::store::ElementType;

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

/// How far to read ahead, in variant chunks.
#[derive(Debug, Clone, Copy)]
pub struct Ahead {
    /// On the host.
    pub prefetch: usize,
    /// How many a device should begin with, where few may be needed.
    pub few: Option<usize>,
}

/// What gives a column's chunks.
enum Source {
    Host(ChunkFetcher),
    #[cfg(feature = "gpu")]
    Gpu(GpuFetcher),
}

/// Reads the rows of one column.
pub struct ColumnReader {
    dataset: Arc<Dataset>,
    column: usize,
    source: Source,
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
    /// A reader of column `column` for the row ranges `ranges`. Arrays over samples are the device's, where there is one.
    pub fn try_new(
        dataset: &Arc<Dataset>,
        column: usize,
        ranges: &[Range<u64>],
        ahead: Ahead,
        memory: &ScanMemory,
        metrics: &ScanMetrics,
        device: &Device,
    ) -> Result<Self> {
        let array = &dataset.columns()[column].array;
        let upcoming = chunks_of(ranges, array.chunks[0]);
        #[cfg(feature = "gpu")]
        let (source, upcoming) = match gpu_request(dataset, column, device)? {
            Some((request, engine)) => {
                let fetcher = GpuFetcher::new(
                    request,
                    engine,
                    upcoming,
                    ahead.few,
                    memory,
                    metrics.clone(),
                );
                (Some(Source::Gpu(fetcher)), None)
            }
            None => (None, Some(upcoming)),
        };
        #[cfg(not(feature = "gpu"))]
        let (source, upcoming, _) = (None, Some(upcoming), device);
        let source = match (source, upcoming) {
            (Some(source), _) => source,
            (None, upcoming) => Source::Host(ChunkFetcher::new(
                Arc::clone(dataset),
                Arc::clone(array),
                trailing_chunks(array),
                upcoming.unwrap_or_else(|| chunks_of(ranges, array.chunks[0])),
                ahead,
                metrics.clone(),
            )),
        };
        Ok(Self {
            dataset: Arc::clone(dataset),
            column,
            source,
            current: None,
            memory: memory.clone(),
            metrics: metrics.clone(),
            scratch: Scratch::default(),
        })
    }

    /// Begins to read, before any row is asked for.
    pub fn start(&mut self) {
        match &mut self.source {
            Source::Host(fetcher) => fetcher.start(),
            #[cfg(feature = "gpu")]
            Source::Gpu(fetcher) => fetcher.start(),
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
        let parts = self.source.fetch(chunk).await?;
        let expected = (spec.array.chunks[0] as usize).saturating_mul(spec.row_bytes());
        let memory = self.memory.take(expected)?;
        let _timer = self.metrics.decode_time.timer();
        let dense = assemble(&spec.array, chain, chunk, &parts, &mut self.scratch)
            .map_err(|(index, reason)| self.dataset.chunk_error(&spec.array, &index, reason))?;
        self.metrics.bytes_decoded.add(dense.bytes());
        self.check_sites(chunk, &dense).map_err(|reason| {
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

    /// Checks a whole chunk of contigs or positions: contig codes against `contig_id`, and both against what the region index
    /// claims of its variants, because pruning, orderings and statistics have relied on that.
    fn check_sites(&self, chunk: u64, dense: &Dense) -> std::result::Result<(), String> {
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
        })
    }
}

impl Source {
    async fn fetch(&mut self, chunk: u64) -> Result<Vec<Part>> {
        match self {
            Self::Host(fetcher) => {
                let parts = fetcher.fetch(chunk).await?;
                Ok(parts
                    .into_iter()
                    .map(|(trailing, encoded)| (trailing, PartData::of(encoded)))
                    .collect())
            }
            #[cfg(feature = "gpu")]
            Self::Gpu(fetcher) => {
                let parts = fetcher.fetch(chunk).await?;
                Ok(parts
                    .into_iter()
                    .map(|part| (part.trailing, part.elements.into()))
                    .collect())
            }
        }
    }
}

/// What a device has to do for all of an array over samples; `None` if the array is the host's.
#[cfg(feature = "gpu")]
fn gpu_request(
    dataset: &Arc<Dataset>,
    column: usize,
    device: &Device,
) -> Result<Option<(Request, Arc<GpuEngine>)>> {
    let spec = &dataset.columns()[column];
    let array = &spec.array;
    let Some((engine, forced)) = device.engine.as_ref().filter(|_| !spec.is_site_level()) else {
        return Ok(None);
    };
    let planner = planner(spec, dataset.chain(column)?, false)
        .and_then(|planner| engine.decodes(&planner.estimate()).map(|()| planner));
    let planner = match planner {
        Ok(planner) => planner,
        Err(reason) if *forced => return Err(not_on_gpu(dataset.array_error(array, reason))),
        Err(reason) => {
            log::debug!("array '{}' is decoded on the host: {reason}", array.name);
            return Ok(None);
        }
    };
    // Below the bytes of a chunk, which the planner has checked.
    let samples = array.chunks.get(1).copied().unwrap_or(1) as u32;
    let inner: u64 = array.chunks.iter().skip(2).product();
    let all: Arc<Vec<u32>> = Arc::new((0..samples).collect());
    let across = array.grid_shape().get(1).copied().unwrap_or(1) as usize;
    let elements = ElementsOutput {
        samples: vec![all; across],
        inner: inner as u32,
        width: planner.width(),
    };
    let wishes = trailing_chunks(array)
        .into_iter()
        .map(|trailing| Wish {
            trailing,
            count: false,
            elements: true,
        })
        .collect();
    let request = Request {
        dataset: Arc::clone(dataset),
        array: Arc::clone(array),
        wishes,
        counts: None,
        elements: Some(Arc::new(Work {
            planner,
            sizes: Arc::clone(dataset.chunk_sizes(column, false)),
            wanted: WorkOutput::Elements(elements),
        })),
        padded: true,
        reads_files: device.reads_files,
    };
    Ok(Some((request, Arc::clone(engine))))
}

#[cfg(feature = "gpu")]
impl From<Option<Piece>> for PartData {
    fn from(piece: Option<Piece>) -> Self {
        match piece {
            Some(Piece::Results(buffer)) => Self::Decoded(buffer),
            Some(Piece::Encoded(bytes)) => Self::Encoded(bytes),
            // The fetcher has read these again; if ever not, no bytes are an error, where an absent chunk would be zeros.
            Some(Piece::Refused) => Self::Encoded(bytes::Bytes::new()),
            Some(Piece::Absent) | None => Self::Absent,
        }
    }
}

fn first_index(chunk: u64, array: &crate::store::ArrayMeta) -> Vec<u64> {
    let mut index = vec![0; array.rank()];
    index[0] = chunk;
    index
}
