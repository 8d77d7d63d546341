//! Produces the batches of one scan partition: filter columns first, then only what passes; batches fill up across chunks
//! to the session's batch size, or what stays in the cache, and stay under `vcz.batch_bytes`. Dropping the stream stops all reading.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::datasource::source::OpenArgs;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_expr::projection::Projector;
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{TryStreamExt, stream};

use super::columns::ColumnReader;
use super::filtered::FilteredReader;
use super::genotypes::GenotypeReader;
use super::memory::ScanMemory;
use super::metrics::ScanMetrics;
use super::segments::{DynamicPruning, Segments};
use super::site_filter::SiteFilter;
use crate::scan::chunks::absence::PartitionAbsences;
use crate::scan::chunks::gpu::Device;
use crate::scan::chunks::open::ReadContext;
use crate::scan::chunks::prefetch::Ahead;
use crate::scan::plan::execution::Execution;
use crate::scan::plan::source::{Input, VczSource};
use crate::scan::progress::ProgressTracker;

impl VczSource {
    /// Opens one partition; nothing is read yet.
    ///
    /// # Errors
    /// A partition that the scan does not have.
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
        let absences = execution.absences.partition();
        let metrics = ScanMetrics::new(&self.metrics, partition);
        let memory = ScanMemory::new(context.memory_pool(), partition, metrics);
        let batch_size = context.session_config().batch_size();
        let schema = Arc::clone(&self.schema);
        let (source, ranges) = (self.clone(), ranges.clone());
        // Nothing is read, and no backend chosen, before somebody wants the first batch.
        let batches = async move {
            let device = execution.backend.device(&source).await?;
            let batches = Batches::try_new(
                source.clone(),
                &ranges,
                batch_size,
                memory,
                tracker,
                device,
                absences,
            )?;
            Ok::<_, DataFusionError>(stream::try_unfold(batches, |mut batches| async move {
                let batch = batches.next().await?;
                Ok(batch.map(|batch| (batch, batches)))
            }))
        };
        let batches = stream::once(batches).try_flatten();
        Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(
            schema,
            Box::pin(batches),
        ))))
    }
}

/// Computes the calls on genotypes.
enum CallReader {
    /// Counted as they are stored.
    Counted(Box<GenotypeReader>),
    /// Decoded, some of them filtered by FORMAT fields.
    Filtered(Box<FilteredReader>),
}

impl CallReader {
    /// Begins to read, before any row is asked for.
    fn start(&mut self) {
        match self {
            Self::Counted(reader) => reader.start(),
            Self::Filtered(reader) => reader.start(),
        }
    }

    /// For each call, its values for the rows of `range`.
    async fn rows(&mut self, range: Range<u64>) -> Result<Vec<Vec<ArrayRef>>> {
        match self {
            Self::Counted(reader) => reader.rows(range).await,
            Self::Filtered(reader) => reader.rows(range).await,
        }
    }
}

/// About as many bytes as stay in the cache of a core until the operators above have used them. Batches of wider rows are of fewer rows,
/// and end where a chunk ends rather than put pieces of two together, which copies them.
const CACHED_BYTES: usize = 1 << 20;
/// But not of fewer rows than these for that reason, because operators take some time for each batch.
const CACHED_ROWS: usize = 1024;

struct Batches {
    source: VczSource,
    segments: Segments,
    /// Rows of a chunk of the column that is heaviest to decode; no segment is of two.
    heavy_chunk_rows: u64,
    filter: Option<SiteFilter>,
    dynamic_filter: Option<SiteFilter>,
    pruning: Option<DynamicPruning>,
    readers: HashMap<usize, ColumnReader>,
    genotypes: Option<CallReader>,
    /// For each input that is a call: its place among the reader's calls.
    call_of_input: Vec<Option<usize>>,
    batch_rows: usize,
    /// With so many rows a batch ends where a chunk does.
    enough_rows: usize,
    pending: Vec<Vec<ArrayRef>>,
    pending_rows: usize,
    remaining: Option<usize>,
    projector: Option<Projector>,
    absences: PartitionAbsences,
    metrics: ScanMetrics,
}

impl Batches {
    fn try_new(
        source: VczSource,
        ranges: &[Range<u64>],
        batch_size: usize,
        memory: ScanMemory,
        tracker: Option<Arc<ProgressTracker>>,
        device: Option<&Device>,
        absences: PartitionAbsences,
    ) -> Result<Self> {
        let metrics = memory.metrics().clone();
        let table = Arc::clone(&source.table);
        let filter = SiteFilter::try_new(&source.filters, &table.schema)?;
        let dynamic_filter = SiteFilter::try_new(&source.dynamic, &table.schema)?;
        let pruning = match (&dynamic_filter, &source.zones) {
            (Some(_), Some(zones)) => Some(DynamicPruning::new(
                &source.dynamic,
                zones,
                &table.schema,
                &table.dataset,
            )),
            _ => None,
        };
        let ahead = Ahead {
            prefetch: source.settings.prefetch,
            few: source.few_chunks(),
        };
        let context = ReadContext {
            ahead,
            memory: &memory,
            metrics: &metrics,
            absences: absences.all(),
            device,
        };
        let mut readers = HashMap::new();
        let filter_columns = filter
            .iter()
            .chain(&dynamic_filter)
            .flat_map(|filter| filter.columns().iter().copied());
        let output_columns = source.inputs.iter().filter_map(|input| match input {
            Input::Array(column) => Some(*column),
            Input::Call(_) => None,
        });
        for column in filter_columns.chain(output_columns) {
            if let Entry::Vacant(entry) = readers.entry(column) {
                let reader = ColumnReader::try_new(&table.dataset, column, ranges, context)?;
                entry.insert(reader);
            }
        }
        let mut calls = Vec::new();
        let mut call_of_input = Vec::with_capacity(source.inputs.len());
        for input in &source.inputs {
            call_of_input.push(match input {
                Input::Array(_) => None,
                Input::Call(call) => {
                    calls.push(call.clone());
                    Some(calls.len() - 1)
                }
            });
        }
        let mut genotypes = match (
            calls.is_empty(),
            table.dataset.column_index("call_genotype"),
        ) {
            (true, _) => None,
            (false, None) => return exec_err!("the store has no call_genotype"),
            (false, Some(column)) => {
                let (dataset, samples) = (&table.dataset, &table.context);
                Some(if calls.iter().all(|call| call.filters.is_empty()) {
                    let calls = calls.into_iter().map(|call| call.call).collect();
                    let reader =
                        GenotypeReader::try_new(dataset, samples, column, calls, ranges, context)?;
                    CallReader::Counted(Box::new(reader))
                } else {
                    let reader =
                        FilteredReader::try_new(dataset, samples, column, calls, ranges, context)?;
                    CallReader::Filtered(Box::new(reader))
                })
            }
        };
        let row_bytes = source.output_row_bytes();
        let by_bytes = source.settings.batch_bytes / row_bytes;
        let cached_rows = (CACHED_BYTES / row_bytes).max(CACHED_ROWS);
        if filter.is_none() && dynamic_filter.is_none() {
            // Everything will be read: genotypes first, which take longest.
            if let Some(genotypes) = &mut genotypes {
                genotypes.start();
            }
            readers.values_mut().for_each(ColumnReader::start);
        }
        let projector = match source.projects() {
            true => Some(source.projection.make_projector(&source.input_schema)?),
            false => None,
        };
        let heavy_chunk_rows = source.heavy_chunk_rows();
        Ok(Self {
            segments: Segments::new(ranges, heavy_chunk_rows, tracker),
            heavy_chunk_rows,
            batch_rows: batch_size.min(by_bytes).min(cached_rows).max(1),
            enough_rows: (CACHED_BYTES / 2).div_ceil(row_bytes),
            pending: vec![vec![]; source.inputs.len()],
            pending_rows: 0,
            remaining: source.limit,
            source,
            filter,
            dynamic_filter,
            pruning,
            readers,
            genotypes,
            call_of_input,
            projector,
            absences,
            metrics,
        })
    }

    /// The next batch, or `None` at the end.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
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
            let at_end = segment.end % self.heavy_chunk_rows == 0;
            self.read(segment).await?;
            // A full batch may be the last one, which is above.
            if at_end && (self.enough_rows..wanted).contains(&self.pending_rows) {
                return self.emit().map(Some);
            }
        }
    }

    /// Ends the partition, once the rows of its last batch were read.
    async fn end(&mut self) -> Result<()> {
        let may_stop = self.source.few_chunks().is_some();
        Ok(self.absences.end(may_stop).await?)
    }

    /// The next rows to look at: at most `rows`, of one chunk of the heaviest column.
    fn segment(&mut self, rows: u64) -> Result<Option<Range<u64>>> {
        let pruning = &mut self.pruning;
        self.segments.next(rows, |row| match pruning {
            Some(pruning) => pruning.skip(row),
            None => Ok(None),
        })
    }

    /// Reads the rows of `segment` that pass the filters into the pending pieces.
    async fn read(&mut self, segment: Range<u64>) -> Result<()> {
        let rows = (segment.end - segment.start) as usize;
        let mut known: HashMap<usize, ArrayRef> = HashMap::new();
        let mut mask: Option<BooleanArray> = None;
        for filter in self.filter.iter().chain(&self.dynamic_filter) {
            let mut columns = Vec::with_capacity(filter.columns().len());
            for &column in filter.columns() {
                let array = match known.get(&column) {
                    Some(array) => Arc::clone(array),
                    None => {
                        let Some(reader) = self.readers.get_mut(&column) else {
                            return exec_err!("no reader of filter column {column}");
                        };
                        let array = concat(&reader.rows(segment.clone()).await?)?;
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
        // Trim to the first and last selected row; what is between is dropped afterwards.
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
        let mut calls = match &mut self.genotypes {
            Some(genotypes) => genotypes.rows(trimmed.clone()).await?,
            None => vec![],
        };
        for (input, (pending, call)) in self
            .source
            .inputs
            .iter()
            .zip(self.pending.iter_mut().zip(&self.call_of_input))
        {
            let pieces = match (input, call) {
                (_, Some(call)) => std::mem::take(&mut calls[*call]),
                (Input::Array(column), None) => match known.get(column) {
                    Some(array) => vec![array.slice(from, to - from)],
                    None => match self.readers.get_mut(column) {
                        Some(reader) => reader.rows(trimmed.clone()).await?,
                        None => return exec_err!("no reader of column {column}"),
                    },
                },
                (Input::Call(_), None) => return exec_err!("no reader of genotypes"),
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
