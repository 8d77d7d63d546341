//! Produces the batches of one scan partition. Filter columns are read first, and the other columns only for rows that pass. Batches span
//! chunks and stores up to the session's batch size, or to what fits in the cache, and have at most `vcz.batch_bytes`. Dropping the
//! stream stops all reading.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::datasource::source::OpenArgs;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_expr::projection::Projector;
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt, stream};

use super::memory::ScanMemory;
use super::metrics::ScanMetrics;
use super::segments::{DynamicPruning, PieceRows, Segment, Segments};
use super::site_filter::SiteFilter;
use super::store_reader::StoreReader;
use crate::counts::ResidentPlanes;
use crate::scan::chunks::absence::PartitionAbsences;
use crate::scan::chunks::open::ReadContext;
use crate::scan::chunks::prefetch::Ahead;
use crate::scan::plan::execution::Execution;
use crate::scan::plan::resident::ResidentPartitions;
use crate::scan::plan::source::{ScanInput, VczSource};
use crate::scan::progress::ProgressTracker;

impl VczSource {
    /// Opens one partition; nothing is read yet.
    ///
    /// # Errors
    /// If the scan does not have this partition.
    pub(in crate::scan) fn open_partition(
        &self,
        args: OpenArgs,
    ) -> Result<SendableRecordBatchStream> {
        let (partition, context) = (args.partition, args.context);
        let Some(ranges) = self.partitions.get(partition) else {
            return exec_err!(
                "partition {partition} was asked for, but the scan has {}",
                self.partitions.len()
            );
        };
        let shared = args.sibling_state.unwrap_or_else(|| self.new_execution(1));
        let Ok(execution) = shared.downcast::<Execution>() else {
            return exec_err!("the state shared by the partitions of a scan is another operator's");
        };
        let tracker = ProgressTracker::of(&context);
        let metrics = ScanMetrics::new(&self.metrics, partition);
        let memory = ScanMemory::new(context.memory_pool(), partition, metrics);
        let schema = Arc::clone(&self.schema);
        let reading = Reading {
            source: Arc::new(self.clone()),
            batch_size: context.session_config().batch_size(),
            memory,
            execution,
            resident: ResidentPartitions::of(&context, partition),
        };
        let tasks = match self.by_tasks {
            true => context.session_config().target_partitions(),
            false => 1,
        };
        let ranges = ranges.clone();
        // Nothing is read, and no backend chosen, before the first batch is requested.
        let batches = async move {
            if tasks > 1
                && let Some(read) = reading.in_order(&ranges, tasks, tracker.clone()).await?
            {
                return Ok::<_, DataFusionError>(read);
            }
            let absences = PartitionAbsences::of(&reading.execution.absences);
            let batches = reading.batches(&ranges, tracker, absences)?;
            let batches = stream::try_unfold(batches, |mut batches| async move {
                let batch = batches.next().await?;
                Ok(batch.map(|batch| (batch, batches)))
            });
            Ok(batches.boxed())
        };
        let batches = stream::once(batches).try_flatten();
        Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(
            schema,
            Box::pin(batches),
        ))))
    }
}

/// About the bytes that stay in the cache of a core until the operators above have used them. Batches of wider rows have fewer rows,
/// and end at the end of a chunk, because joining pieces of two chunks copies them.
const CACHED_BYTES: usize = 1 << 20;
/// The minimum number of rows to which [`CACHED_BYTES`] reduces a batch, because operators have a cost per batch.
const CACHED_ROWS: usize = 1024;

/// What the batches of a partition are read with.
#[derive(Clone)]
pub(super) struct Reading {
    pub source: Arc<VczSource>,
    pub batch_size: usize,
    pub memory: ScanMemory,
    pub execution: Arc<Execution>,
    /// Where rows that stay on a GPU are registered, if they may.
    pub resident: Option<Arc<ResidentPlanes>>,
}

impl Reading {
    /// The batches of these rows.
    ///
    /// # Errors
    /// If a filter cannot be evaluated.
    pub fn batches(
        &self,
        ranges: &[Range<u64>],
        tracker: Option<Arc<ProgressTracker>>,
        absences: PartitionAbsences,
    ) -> Result<Batches> {
        Batches::try_new(self, ranges, tracker, absences)
    }
}

/// Produces batches, one after the other.
pub(super) struct Batches {
    source: Arc<VczSource>,
    pieces: Arc<Vec<PieceRows>>,
    segments: Segments,
    filter: Option<SiteFilter>,
    dynamic_filter: Option<SiteFilter>,
    pruning: Option<DynamicPruning>,
    /// The reader of the current piece, with the piece's index.
    reader: Option<(usize, StoreReader)>,
    /// The reader of the next piece, opened ahead of the first row.
    next_reader: Option<(usize, StoreReader)>,
    /// Whether every row of the partition will be read.
    reads_all: bool,
    /// For each input that is a call: its index among the reader's calls.
    call_of_input: Vec<Option<usize>>,
    batch_rows: usize,
    /// With this many rows a batch ends at the end of a chunk.
    enough_rows: usize,
    pending: Vec<Vec<ArrayRef>>,
    pending_rows: usize,
    remaining: Option<usize>,
    projector: Option<Projector>,
    execution: Arc<Execution>,
    absences: PartitionAbsences,
    resident: Option<Arc<ResidentPlanes>>,
    memory: ScanMemory,
    metrics: ScanMetrics,
}

impl Batches {
    fn try_new(
        reading: &Reading,
        ranges: &[Range<u64>],
        tracker: Option<Arc<ProgressTracker>>,
        absences: PartitionAbsences,
    ) -> Result<Self> {
        let Reading {
            source,
            batch_size,
            memory,
            execution,
            resident,
        } = reading.clone();
        let table = Arc::clone(&source.table);
        let filter = SiteFilter::try_new(&source.filters, &table.schema)?;
        let dynamic_filter = SiteFilter::try_new(&source.dynamic, &table.schema)?;
        let pruning = match (&dynamic_filter, &source.zones) {
            (Some(_), Some(zones)) => Some(DynamicPruning::new(
                &source.dynamic,
                zones,
                &table.schema,
                &table.stores,
            )),
            _ => None,
        };
        let mut calls = 0..;
        let call_of_input = (source.inputs.iter())
            .map(|input| match input {
                ScanInput::Array(_) => None,
                ScanInput::Call(_) => calls.next(),
            })
            .collect();
        let row_bytes = source.output_row_bytes();
        let by_bytes = source.settings.batch_bytes / row_bytes;
        let cached_rows = (CACHED_BYTES / row_bytes).max(CACHED_ROWS);
        let projector = match source.projects() {
            true => Some(source.projection.make_projector(&source.input_schema)?),
            false => None,
        };
        let pieces = table.stores.by_piece(ranges).into_iter();
        let pieces: Arc<Vec<PieceRows>> = Arc::new(
            pieces
                .map(|(piece, ranges)| PieceRows {
                    boundary: source.heavy_chunk_rows(piece.store).max(1),
                    piece: piece.clone(),
                    ranges,
                })
                .collect(),
        );
        Ok(Self {
            segments: Segments::new(Arc::clone(&pieces), tracker),
            pieces,
            batch_rows: batch_size.min(by_bytes).min(cached_rows).max(1),
            enough_rows: (CACHED_BYTES / 2).div_ceil(row_bytes),
            pending: vec![vec![]; source.inputs.len()],
            pending_rows: 0,
            remaining: source.limit,
            reads_all: filter.is_none() && dynamic_filter.is_none(),
            source,
            filter,
            dynamic_filter,
            pruning,
            reader: None,
            next_reader: None,
            call_of_input,
            projector,
            execution,
            absences,
            resident,
            metrics: memory.metrics().clone(),
            memory,
        })
    }

    /// Opens the reader of a piece, which starts to read if every row will be read.
    async fn open(&mut self, piece: usize) -> Result<StoreReader> {
        let Some(rows) = self.pieces.get(piece) else {
            return exec_err!("the partition has no piece number {piece}");
        };
        let store = rows.piece.store;
        let Some(absences) = self.absences.all(store) else {
            return exec_err!("the scan has no store number {store}");
        };
        let context = ReadContext {
            ahead: Ahead {
                prefetch: self.source.settings.prefetch,
                few: self.source.few_chunks(store),
            },
            memory: &self.memory,
            metrics: &self.metrics,
            absences,
            device: self.execution.backend.device(&self.source).await?,
            resident: self.resident.as_ref(),
            block_rows: self.source.block_rows(),
        };
        let filters = self.filter.iter().chain(&self.dynamic_filter);
        let filtered = filters.flat_map(|filter| filter.columns().iter().copied());
        let mut reader =
            StoreReader::try_new(&self.source, store, filtered, &rows.ranges, context)?;
        if self.reads_all {
            reader.start();
        }
        Ok(reader)
    }

    /// Makes the reader of `piece` the current one, and opens the next one before its rows are requested.
    async fn turn_to(&mut self, piece: usize) -> Result<()> {
        if self.reader.as_ref().is_none_or(|(at, _)| *at != piece) {
            // Frees its memory before the next reader reserves some.
            self.reader = None;
            let reader = match self.next_reader.take() {
                Some((at, reader)) if at == piece => reader,
                _ => self.open(piece).await?,
            };
            self.reader = Some((piece, reader));
        }
        if self.reads_all
            && self.remaining.is_none()
            && self.next_reader.is_none()
            && let Some(next) = self.segments.to_prefetch()
        {
            self.next_reader = Some((next, self.open(next).await?));
        }
        Ok(())
    }

    /// The next batch, or `None` at the end.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let wanted = self
                .remaining
                .map_or(self.batch_rows, |left| left.min(self.batch_rows));
            if self.pending_rows >= wanted && self.pending_rows > 0 {
                if self.remaining == Some(wanted) {
                    self.end().await?;
                }
                return self.emit().map(Some);
            }
            if wanted == 0 {
                self.segments.clear();
            }
            let Some(segment) = self.segment((wanted - self.pending_rows.min(wanted)) as u64)?
            else {
                self.end().await?;
                return if self.pending_rows > 0 {
                    self.emit().map(Some)
                } else {
                    Ok(None)
                };
            };
            let at_end = segment.ends_chunk;
            self.read(segment).await?;
            // A full batch is handled above, because it may be the last one.
            if at_end && (self.enough_rows..wanted).contains(&self.pending_rows) {
                return self.emit().map(Some);
            }
        }
    }

    /// Ends the partition, once the rows of its last batch have been read.
    async fn end(&mut self) -> Result<()> {
        let may_stop = self.source.may_stop();
        Ok(self.absences.end(may_stop).await?)
    }

    /// The next rows to read: at most `rows`, in one chunk of the column that is most expensive to decode.
    fn segment(&mut self, rows: u64) -> Result<Option<Segment>> {
        let pruning = &mut self.pruning;
        self.segments.next(rows, |row| match pruning {
            Some(pruning) => pruning.skip(row),
            None => Ok(None),
        })
    }

    /// Reads the rows of `segment` that pass the filters into the pending pieces.
    async fn read(&mut self, segment: Segment) -> Result<()> {
        self.turn_to(segment.piece).await?;
        let Some((_, reader)) = &mut self.reader else {
            return exec_err!("no reader of piece {}", segment.piece);
        };
        let segment = segment.rows;
        let rows = (segment.end - segment.start) as usize;
        let mut known: HashMap<usize, ArrayRef> = HashMap::new();
        let mut mask: Option<BooleanArray> = None;
        for filter in self.filter.iter().chain(&self.dynamic_filter) {
            let mut columns = Vec::with_capacity(filter.columns().len());
            for &column in filter.columns() {
                let array = match known.get(&column) {
                    Some(array) => Arc::clone(array),
                    None => {
                        let array = concat(&reader.column(column, segment.clone()).await?)?;
                        known.insert(column, Arc::clone(&array));
                        array
                    }
                };
                columns.push(array);
            }
            let selected = filter.select(columns, rows)?;
            let both = match mask {
                Some(before) => arrow::compute::and(&before, &selected)?,
                None => selected,
            };
            if both.true_count() == 0 {
                return Ok(());
            }
            mask = Some(both);
        }
        // Trim to the first and last selected row; rejected rows in between are dropped afterwards.
        let mask = mask.filter(|mask| mask.true_count() < rows);
        let (from, to) = match &mask {
            Some(mask) => {
                let mut set = mask.values().set_indices();
                let first = set.next().unwrap_or(0);
                (first, set.last().unwrap_or(first) + 1)
            }
            None => (0, rows),
        };
        let mask = mask
            .map(|mask| mask.slice(from, to - from))
            .filter(|mask| mask.true_count() < to - from);
        let trimmed = segment.start + from as u64..segment.start + to as u64;
        let mut calls = reader.calls(trimmed.clone()).await?;
        for (input, (pending, call)) in self
            .source
            .inputs
            .iter()
            .zip(self.pending.iter_mut().zip(&self.call_of_input))
        {
            let pieces = match (input, call) {
                (_, Some(call)) => std::mem::take(&mut calls[*call]),
                (ScanInput::Array(column), None) => match known.get(column) {
                    Some(array) => vec![array.slice(from, to - from)],
                    None => reader.column(*column, trimmed.clone()).await?,
                },
                (ScanInput::Call(_), None) => return exec_err!("no reader of genotypes"),
            };
            match &mask {
                None => pending.extend(pieces),
                Some(mask) => pending.push(arrow::compute::filter(&concat(&pieces)?, mask)?),
            }
        }
        self.pending_rows += mask.as_ref().map_or(to - from, BooleanArray::true_count);
        Ok(())
    }

    /// Turns the pending pieces into a batch.
    fn emit(&mut self) -> Result<RecordBatch> {
        let timer = self.metrics.baseline.elapsed_compute().timer();
        let rows = self
            .remaining
            .map_or(self.pending_rows, |left| left.min(self.pending_rows));
        let mut columns = Vec::with_capacity(self.pending.len());
        for pieces in &mut self.pending {
            let array = concat(pieces)?;
            columns.push(if array.len() > rows {
                array.slice(0, rows)
            } else {
                array
            });
            pieces.clear();
        }
        self.pending_rows = 0;
        if let Some(left) = &mut self.remaining {
            *left -= rows;
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(
            Arc::clone(&self.source.input_schema),
            columns,
            &options,
        )?;
        let batch = match &self.projector {
            Some(projector) => {
                let columns = projector.project_batch(&batch)?.columns().to_vec();
                RecordBatch::try_new_with_options(
                    Arc::clone(&self.source.schema),
                    columns,
                    &options,
                )?
            }
            None => RecordBatch::try_new_with_options(
                Arc::clone(&self.source.schema),
                batch.columns().to_vec(),
                &options,
            )?,
        };
        timer.done();
        self.metrics.baseline.record_output(rows);
        Ok(batch)
    }
}

/// The pieces as one array; a single piece is not copied.
fn concat(pieces: &[ArrayRef]) -> Result<ArrayRef> {
    match pieces {
        [piece] => Ok(Arc::clone(piece)),
        [] => exec_err!("a column gave no rows for a segment"),
        _ => {
            let pieces: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
            Ok(arrow::compute::concat(&pieces)?)
        }
    }
}
