//! Computes the calls on genotypes of a query, all from one decode of each chunk. Only sample chunks with a requested
//! sample are fetched; genotypes themselves are kept only for `select_samples`.
//!
//! Invariant: filters of calls are applied by GPUs, chunk by chunk; to chunks that these leave to the host they are applied here.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::buffer::Buffer;
use datafusion::common::{Result, exec_err};

use super::mask_chunk::ChunkMasker;
use super::memory::{ReservedBytes, ScanMemory};
use super::metrics::ScanMetrics;
use super::select::{KeptGenotypes, Selection};
use crate::codec::{ChunkData, Scratch};
use crate::counts::{ChunkCounts, CountScratch, Counter, ResidentReader, SampleSet};
use crate::scan::calls::call::GenotypeCall;
use crate::scan::calls::context::GenotypeContext;
use crate::scan::calls::counted::{Counted, request_of};
use crate::scan::chunks::chunk::{Chunk, Part, chunk_index, first_index};
use crate::scan::chunks::field_filters::FieldFilters;
use crate::scan::chunks::open::{ChunkPurpose, ChunkRequest, ReadContext};
use crate::scan::chunks::prefetch::Prefetch;
use crate::scan::dataset::Dataset;

/// Computes a query's calls on the genotypes of one column.
pub struct GenotypeReader {
    dataset: Arc<Dataset>,
    context: Arc<GenotypeContext>,
    column: usize,
    calls: Vec<GenotypeCall>,
    filters: FieldFilters,
    /// Decoded bytes of a chunk of every field of the filters.
    field_bytes: usize,
    masker: ChunkMasker,
    counter: Counter,
    /// For each call: the index of its first set in the counter's request.
    first_set: Vec<usize>,
    /// Samples whose genotypes are kept for `select_samples`, by sample chunk: ascending indices within the chunk.
    selected: Vec<Vec<u32>>,
    chunks: Prefetch,
    current: Option<CountedChunk>,
    /// Registers chunks whose rows stay on a GPU, if they may.
    resident: Option<ResidentReader>,
    counts: ChunkCounts,
    scratch: CountScratch,
    decode_scratch: Scratch,
    memory: ScanMemory,
    metrics: ScanMetrics,
}

/// The current chunk, whose counts the reader has.
struct CountedChunk {
    chunk: u64,
    /// Genotypes by sample chunk, for `select_samples`.
    selected: Vec<Option<KeptGenotypes>>,
    _memory: ReservedBytes,
}

impl GenotypeReader {
    /// A reader of `calls` on column `column` for the row ranges `ranges`.
    ///
    /// # Errors
    /// With `vcz.backend = 'gpu'`, genotypes that no GPU decodes; a ploidy axis in several chunks; samples or alleles that do not fit.
    pub fn try_new(
        dataset: &Arc<Dataset>,
        context: &Arc<GenotypeContext>,
        column: usize,
        calls: Vec<GenotypeCall>,
        ranges: &[Range<u64>],
        reads: ReadContext<'_>,
    ) -> Result<Self> {
        let open = |request: ChunkRequest<'_>| request.open(reads).map(Some);
        let filters = FieldFilters::default();
        let reader = Self::opened(
            dataset, context, column, calls, filters, ranges, reads, open,
        )?;
        match reader {
            Some(reader) => Ok(reader),
            None => exec_err!("the genotypes cannot be read"),
        }
    }

    /// The same of genotypes of which GPUs filter the calls; `None` if they cannot.
    ///
    /// # Errors
    /// As above.
    pub fn on_device(
        dataset: &Arc<Dataset>,
        context: &Arc<GenotypeContext>,
        column: usize,
        calls: Vec<GenotypeCall>,
        filters: FieldFilters,
        ranges: &[Range<u64>],
        reads: ReadContext<'_>,
    ) -> Result<Option<Self>> {
        let open = |request: ChunkRequest<'_>| request.open_on_device(reads);
        Self::opened(
            dataset, context, column, calls, filters, ranges, reads, open,
        )
    }

    #[allow(clippy::too_many_arguments)] // those of `on_device`, and how to open the chunks
    fn opened(
        dataset: &Arc<Dataset>,
        context: &Arc<GenotypeContext>,
        column: usize,
        calls: Vec<GenotypeCall>,
        filters: FieldFilters,
        ranges: &[Range<u64>],
        reads: ReadContext<'_>,
        open: impl FnOnce(ChunkRequest<'_>) -> Result<Option<Prefetch>>,
    ) -> Result<Option<Self>> {
        let array = &dataset.columns()[column].array;
        let refuse = |reason: String| dataset.array_error(array, reason);
        if array.grid_shape()[2] > 1 {
            let reason = format!(
                "expected the ploidy axis in one chunk to count genotypes, found {} chunks",
                array.grid_shape()[2]
            );
            return Err(refuse(reason).into());
        }
        let (samples, ploidy) = (array.shape[1] as usize, array.shape[2] as usize);
        let (request, first_set) = request_of(&calls, context, samples, ploidy);
        let selected = calls.iter().filter_map(|call| match call {
            GenotypeCall::SelectSamples(samples) => Some(samples),
            _ => None,
        });
        let all = SampleSet::new(selected.flat_map(|samples| samples.iter()).collect());
        let chunk_samples = array.chunks[1] as usize;
        let counter = Counter::try_new(request, chunk_samples)
            .map_err(|error| dataset.array_error(array, error))?;
        let mut by_chunk = vec![vec![]; array.grid_shape()[1] as usize];
        for sample in all.iter() {
            let (chunk, within) = (
                sample as usize / chunk_samples,
                sample as usize % chunk_samples,
            );
            by_chunk[chunk].push(within as u32);
        }
        let has_planes = !counter.request().planes.is_empty();
        let resident = reads.resident.filter(|_| has_planes);
        let resident = resident.map(ResidentReader::new);
        let request = ChunkRequest {
            dataset,
            column,
            purpose: ChunkPurpose::Genotypes {
                counter: &counter,
                selected: &by_chunk,
                filters: &filters,
            },
            ranges,
        };
        let Some(chunks) = open(request)? else {
            return Ok(None);
        };
        let of_field = |column: &usize| dataset.columns()[*column].array.chunk_bytes();
        let of_fields = filters.fields.iter().filter_map(of_field);
        let field_bytes = of_fields.fold(0, usize::saturating_add);
        Ok(Some(Self {
            dataset: Arc::clone(dataset),
            context: Arc::clone(context),
            column,
            calls,
            filters,
            field_bytes,
            masker: ChunkMasker::default(),
            counter,
            first_set,
            selected: by_chunk,
            chunks,
            current: None,
            resident,
            counts: ChunkCounts::default(),
            scratch: CountScratch::default(),
            decode_scratch: Scratch::default(),
            memory: reads.memory.clone(),
            metrics: reads.metrics.clone(),
        }))
    }

    /// Rows of one chunk of the array.
    pub fn chunk_rows(&self) -> u64 {
        self.dataset.columns()[self.column].array.chunks[0]
    }

    /// Starts to read before any row is requested.
    pub fn start(&mut self) {
        self.chunks.start();
    }

    /// For each call, its values for the rows of `range`, in pieces of one chunk each.
    pub async fn rows(&mut self, range: Range<u64>) -> Result<Vec<Vec<ArrayRef>>> {
        let mut pieces = vec![Vec::with_capacity(1); self.calls.len()];
        let chunk_rows = self.chunk_rows();
        let mut row = range.start;
        while row < range.end {
            let chunk = row / chunk_rows;
            let first = chunk * chunk_rows;
            let end = range.end.min(first + chunk_rows);
            self.load(chunk).await?;
            let rows = (row - first) as usize..(end - first) as usize;
            for (call, pieces) in pieces.iter_mut().enumerate() {
                pieces.push(self.piece(call, rows.clone())?);
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
        let dataset = Arc::clone(&self.dataset);
        let array = &dataset.columns()[self.column].array;
        let chain = dataset.chain(self.column)?;
        let parts = self.chunks.fetch(chunk).await?;
        let rows = array.chunk_extent(&first_index(chunk, array))[0] as usize;
        let width = array.element.size().unwrap_or(1);
        let chunk_bytes = array
            .chunk_elements()
            .unwrap_or(usize::MAX)
            .saturating_mul(width);
        let row_counts = self.counter.request().row_counts();
        let counts_bytes = rows
            .saturating_mul(row_counts)
            .saturating_mul(size_of::<i32>());
        let kept_chunks = self.selected.iter().filter(|samples| !samples.is_empty());
        let kept = chunk_bytes.saturating_mul(kept_chunks.count().max(1));
        let is_unfiltered = |part: &Part| matches!(part.chunk, Chunk::Unfiltered(_));
        let filtered = match parts.iter().any(is_unfiltered) {
            // Genotypes as decoded and as filtered.
            true => self
                .field_bytes
                .saturating_add(chunk_bytes.saturating_mul(2)),
            false => 0,
        };
        let bytes = kept.saturating_add(counts_bytes).saturating_add(filtered);
        let memory = self.memory.take(bytes)?;
        let _timer = self.metrics.count_time.timer();
        // Counts of a device are all counts if it made them of the only chunk.
        let is_counted = match parts.as_slice() {
            [
                Part {
                    chunk:
                        Chunk::Computed {
                            counts: Some(counts),
                            ..
                        },
                    ..
                },
            ] => {
                let is_counted = self.counter.set_computed(counts, rows, &mut self.counts);
                if is_counted
                    && self.counts.has_resident()
                    && let (Some(resident), Some(chunk)) = (&self.resident, &counts.resident)
                {
                    self.counts.set_resident(resident.register(chunk));
                }
                is_counted
            }
            _ => false,
        };
        if !is_counted {
            let reset = self.counts.reset(self.counter.request(), rows);
            reset.map_err(|reason| {
                dataset.chunk_error(array, &chunk_index(chunk, &[0, 0]), reason)
            })?;
        }
        let mut selected: Vec<Option<KeptGenotypes>> = vec![];
        selected.resize_with(array.grid_shape()[1] as usize, || None);
        for part in parts {
            let Part {
                trailing,
                chunk: data,
            } = part;
            let sample_chunk = trailing[0] as usize;
            let failed =
                |reason: String| dataset.chunk_error(array, &chunk_index(chunk, &trailing), reason);
            let masked = match &data {
                Chunk::Unfiltered(unfiltered) => {
                    let index = chunk_index(chunk, &trailing);
                    let (filters, column) = (&self.filters, self.column);
                    Some(
                        self.masker
                            .mask(&dataset, column, filters, unfiltered, &index)?,
                    )
                }
                Chunk::Encoded(_) | Chunk::Absent if !self.filters.is_empty() => {
                    return Err(failed("its calls have not been filtered".to_string()).into());
                }
                _ => None,
            };
            let wanted = self.counter.wanted_sample_chunks();
            if !is_counted && wanted.binary_search(&sample_chunk).is_ok() {
                let encoded = match &data {
                    Chunk::Encoded(bytes) => Some(&bytes[..]),
                    _ => None,
                };
                match (&data, masked) {
                    (_, Some(codes)) => self.counter.add_decoded(
                        array,
                        codes,
                        sample_chunk,
                        rows,
                        &mut self.counts,
                        &mut self.scratch,
                    ),
                    (
                        Chunk::Computed {
                            counts: Some(counts),
                            ..
                        },
                        None,
                    ) => self
                        .counter
                        .add_computed(counts, rows, sample_chunk, &mut self.counts),
                    (Chunk::Encoded(_) | Chunk::Absent, None) => self.counter.add_chunk(
                        chain,
                        array,
                        encoded,
                        sample_chunk,
                        rows,
                        &mut self.counts,
                        &mut self.scratch,
                    ),
                    (Chunk::Decoded(_) | Chunk::Computed { .. } | Chunk::Unfiltered(_), None) => {
                        return Err(failed("the device sent no counts of it".to_string()).into());
                    }
                }
                .map_err(|error| failed(error.into()))?;
            }
            let is_kept = |samples: &Vec<u32>| !samples.is_empty();
            if self.selected.get(sample_chunk).is_some_and(is_kept) {
                let kept = match (data, masked) {
                    (_, Some(codes)) => KeptGenotypes::All(Buffer::from_slice_ref(codes)),
                    (
                        Chunk::Computed {
                            selected: Some(buffer),
                            ..
                        },
                        None,
                    ) => KeptGenotypes::Selected(buffer),
                    (data, None) => {
                        let data = data
                            .decode(chain, &mut self.decode_scratch)
                            .map_err(|error| failed(error.into()))?;
                        let ChunkData::Fixed(buffer) = data else {
                            return exec_err!(
                                "array '{}': genotypes must be integers, found strings",
                                array.name
                            );
                        };
                        KeptGenotypes::of_chunk(buffer, array, &self.selected[sample_chunk])
                    }
                };
                selected[sample_chunk] = Some(kept);
            }
            let decoded = chunk_bytes.saturating_add(self.field_bytes);
            self.metrics.bytes_decoded.add(decoded);
        }
        self.counts.alleles.share();
        self.current = Some(CountedChunk {
            chunk,
            selected,
            _memory: memory,
        });
        Ok(())
    }

    fn piece(&self, call: usize, rows: Range<usize>) -> Result<ArrayRef> {
        if let GenotypeCall::SelectSamples(samples) = &self.calls[call] {
            let Some(current) = &self.current else {
                return exec_err!("select_samples: no chunk is loaded");
            };
            let selection = Selection {
                spec: &self.dataset.columns()[self.column],
                kept: &current.selected,
                samples: &self.selected,
            };
            return selection.gather(samples, rows);
        }
        let counted = Counted {
            request: self.counter.request(),
            counts: &self.counts,
            context: &self.context,
        };
        counted.array(&self.calls[call], self.first_set[call], rows, None)
    }
}
