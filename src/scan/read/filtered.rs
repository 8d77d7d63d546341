//! Computes the calls on genotypes of a query that filters calls by FORMAT fields on the host. Genotypes and fields are decoded once for all calls,
//! and masked and counted a block of rows at a time, so that the masked genotypes stay in the cache. Only sample chunks with a requested
//! sample are fetched.
//!
//! Invariant: if one call of a query is filtered, this reader computes all of them.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::buffer::MutableBuffer;
use datafusion::common::{Result, exec_err};

use super::dense::Dense;
use super::dense_reader::DenseReader;
use super::metrics::ScanMetrics;
use super::select::append_samples;
use crate::codec::StringChunk;
use crate::counts::{
    CallMask, CallTest, CallValues, ChunkCounts, CountError, CountScratch, Counter, SampleSet,
};
use crate::error::VczError;
use crate::scan::calls::call::{FilteredCall, GenotypeCall, by_filters};
use crate::scan::calls::context::GenotypeContext;
use crate::scan::calls::counted::{Counted, request_of};
use crate::scan::calls::elements::genotypes_array;
use crate::scan::calls::results::selected_type;
use crate::scan::chunks::chunk::first_index;
use crate::scan::chunks::field_filters::FieldFilters;
use crate::scan::chunks::open::{ChunkPurpose, ChunkRequest, ReadContext};
use crate::scan::dataset::Dataset;
use crate::store::ArrayMeta;

/// Bytes of genotypes that are masked and counted at a time: a part of a core's second-level cache.
const BLOCK_BYTES: usize = 1 << 17;

/// Computes a query's calls on filtered genotypes.
pub struct FilteredReader {
    dataset: Arc<Dataset>,
    context: Arc<GenotypeContext>,
    /// The genotypes, then the fields.
    arrays: Vec<DenseReader>,
    groups: Vec<Group>,
    /// For each call: its group, and its index there.
    places: Vec<(usize, usize)>,
    mask: CallMask,
    masked: Vec<u64>,
    scratch: CountScratch,
    metrics: ScanMetrics,
}

/// Calls on genotypes with the same filters.
struct Group {
    filters: Vec<Filter>,
    calls: Vec<GenotypeCall>,
    counter: Counter,
    /// For each call: the index of its first set in the counter's request.
    first_set: Vec<usize>,
    counts: ChunkCounts,
    /// For each call: the genotypes that it selects.
    selected: Vec<MutableBuffer>,
}

/// A filter of one of the arrays.
struct Filter {
    array: usize,
    per_call: usize,
    at: usize,
    test: CallTest,
}

/// A range of rows that lies in one chunk of every array.
struct Rows {
    /// The first row, in the store's numbering.
    first: u64,
    len: usize,
}

impl FilteredReader {
    /// A reader of `calls` on the genotypes, column `column`, for the row ranges `ranges`.
    ///
    /// # Errors
    /// If the store lacks a filter's field, or with `vcz.backend = 'gpu'` an array cannot be decoded by a GPU.
    pub fn try_new(
        dataset: &Arc<Dataset>,
        context: &Arc<GenotypeContext>,
        column: usize,
        calls: Vec<FilteredCall>,
        ranges: &[Range<u64>],
        reads: ReadContext<'_>,
    ) -> Result<Self> {
        let array = &dataset.columns()[column].array;
        let (samples, ploidy) = (array.shape[1] as usize, array.shape[2] as usize);
        let wanted = SampleSet::new(
            calls
                .iter()
                .flat_map(|call| samples_of(&call.call))
                .collect(),
        );
        let open = |column: usize| {
            let chunks = sample_chunks(&wanted, &dataset.columns()[column].array);
            let request = ChunkRequest {
                dataset,
                column,
                purpose: ChunkPurpose::Samples(&chunks),
                ranges,
            };
            DenseReader::try_new(request, reads)
        };
        let mut arrays = vec![open(column)?];
        let (by_filters, places) = by_filters(calls);
        let mut groups = Vec::with_capacity(by_filters.len());
        for (filters, calls) in by_filters {
            let resolved = FieldFilters::try_new(dataset, &filters)?;
            let mut tests = vec![];
            for filter in resolved.filters {
                let field = resolved.fields[filter.field];
                let known = arrays.iter().position(|array| array.column() == field);
                let array = match known {
                    Some(array) => array,
                    None => {
                        arrays.push(open(field)?);
                        arrays.len() - 1
                    }
                };
                tests.push(Filter {
                    array,
                    per_call: dataset.columns()[field].values_per_call().unwrap_or(1),
                    at: filter.at,
                    test: filter.test,
                });
            }
            let (request, first_set) = request_of(&calls, context, samples, ploidy);
            let counter = Counter::try_new(request, samples.max(1))
                .map_err(|error| dataset.array_error(array, error))?;
            groups.push(Group {
                filters: tests,
                selected: calls.iter().map(|_| MutableBuffer::new(0)).collect(),
                calls,
                counter,
                first_set,
                counts: ChunkCounts::default(),
            });
        }
        Ok(Self {
            dataset: Arc::clone(dataset),
            context: Arc::clone(context),
            arrays,
            groups,
            places,
            mask: CallMask::default(),
            masked: vec![],
            scratch: CountScratch::default(),
            metrics: reads.metrics.clone(),
        })
    }

    /// Starts to read before any row is requested.
    pub fn start(&mut self) {
        self.arrays.iter_mut().for_each(DenseReader::start);
    }

    /// For each call, its values for the rows of `range`, in pieces of one chunk of every array each.
    pub async fn rows(&mut self, range: Range<u64>) -> Result<Vec<Vec<ArrayRef>>> {
        let mut pieces = vec![Vec::with_capacity(1); self.places.len()];
        let mut row = range.start;
        while row < range.end {
            let mut end = range.end;
            for array in &mut self.arrays {
                let chunk = row / array.chunk_rows();
                array.load(chunk).await?;
                end = end.min((chunk + 1).saturating_mul(array.chunk_rows()));
            }
            let rows = Rows {
                first: row,
                len: (end - row) as usize,
            };
            let count_time = self.metrics.count_time.clone();
            let _timer = count_time.timer();
            self.count(&rows)?;
            for ((group, call), pieces) in self.places.iter().zip(&mut pieces) {
                pieces.push(self.groups[*group].array(
                    *call,
                    rows.len,
                    &self.arrays[0],
                    &self.context,
                )?);
            }
            row = end;
        }
        Ok(pieces)
    }

    /// Masks and counts `rows` for every group.
    fn count(&mut self, rows: &Rows) -> Result<()> {
        let genotypes = &self.arrays[0];
        let array = Arc::clone(&genotypes.spec().array);
        let chunk = rows.first / array.chunks[0];
        let before = (rows.first - chunk * array.chunks[0]) as usize;
        let dataset = Arc::clone(&self.dataset);
        let failed = |error: CountError, first: usize| -> VczError {
            let index = first_index(chunk, &array);
            dataset.chunk_error(&array, &index, error.in_rows_from(first))
        };
        let Some(Dense::Fixed(codes)) = genotypes.dense() else {
            return exec_err!("array '{}': genotypes must be integers", array.name);
        };
        let (samples, ploidy) = (array.shape[1] as usize, array.shape[2] as usize);
        let row_bytes = genotypes.spec().row_bytes();
        let call_bytes = ploidy * array.element.size().unwrap_or(1);
        for group in &mut self.groups {
            let request = group.counter.request();
            group
                .counts
                .reset(request, rows.len)
                .map_err(|error| failed(error, 0))?;
            group.selected.iter_mut().for_each(MutableBuffer::clear);
        }
        let step = (BLOCK_BYTES / row_bytes.max(1)).max(1);
        for start in (0..rows.len).step_by(step) {
            let block = start..(start + step).min(rows.len);
            let bytes = (before + block.start) * row_bytes..(before + block.end) * row_bytes;
            let Some(codes) = codes.get(bytes) else {
                return exec_err!("array '{}': row {} was not read", array.name, rows.first);
            };
            for group in &mut self.groups {
                let mut kept = codes;
                if !group.filters.is_empty() {
                    self.mask
                        .reset(block.len() * samples)
                        .map_err(|error| failed(error, before))?;
                    for filter in &group.filters {
                        let field = &self.arrays[filter.array];
                        let block = Rows {
                            first: rows.first + block.start as u64,
                            len: block.len(),
                        };
                        filter
                            .apply(field, &block, &mut self.mask)
                            .map_err(|error| {
                                let array = &field.spec().array;
                                let index = first_index(block.first / array.chunks[0], array);
                                dataset.chunk_error(array, &index, error)
                            })?;
                    }
                    self.mask
                        .apply(codes, array.element, ploidy, &mut self.masked)
                        .map_err(|error| failed(error, before))?;
                    let masked: &[u8] = bytemuck::cast_slice(&self.masked);
                    kept = masked.get(..codes.len()).unwrap_or(masked);
                }
                let counts = &mut group.counts;
                group
                    .counter
                    .add_dense(
                        kept,
                        array.element,
                        block.clone(),
                        counts,
                        &mut self.scratch,
                    )
                    .map_err(|error| failed(error, before))?;
                for (call, selected) in group.calls.iter().zip(&mut group.selected) {
                    if let GenotypeCall::SelectSamples(samples) = call {
                        append_samples(selected, kept, row_bytes, call_bytes, samples);
                    }
                }
            }
        }
        Ok(())
    }
}

impl Group {
    /// The values of a call for the `rows` rows that were counted.
    fn array(
        &mut self,
        call: usize,
        rows: usize,
        genotypes: &DenseReader,
        context: &GenotypeContext,
    ) -> Result<ArrayRef> {
        if let GenotypeCall::SelectSamples(samples) = &self.calls[call] {
            let data_type = selected_type(&genotypes.spec().data_type, samples.len())?;
            let codes = std::mem::replace(&mut self.selected[call], MutableBuffer::new(0));
            return genotypes_array(&data_type, codes.into(), rows, None);
        }
        let counted = Counted {
            request: self.counter.request(),
            counts: &self.counts,
            context,
        };
        counted.array(&self.calls[call], self.first_set[call], 0..rows, None)
    }
}

impl Filter {
    /// Removes from `mask` the calls of `rows` that do not pass.
    fn apply(
        &self,
        field: &DenseReader,
        rows: &Rows,
        mask: &mut CallMask,
    ) -> std::result::Result<(), CountError> {
        let spec = field.spec();
        let before = (rows.first % spec.array.chunks[0]) as usize;
        let per_row = spec.row_elements();
        let elements = before * per_row..(before + rows.len) * per_row;
        let missing = || CountError::Mismatch(format!("row {before} was not read"));
        if self.at >= self.per_call {
            // Other stores of the table have more values per call; in this one the value is NULL.
            mask.retain(|_| false);
            return Ok(());
        }
        match field.dense() {
            Some(Dense::Fixed(buffer)) => {
                let width = spec.array.element.size().unwrap_or(1);
                let bytes = buffer.get(elements.start * width..elements.end * width);
                let values = CallValues {
                    bytes: bytes.ok_or_else(missing)?,
                    element: spec.array.element,
                    per_call: self.per_call,
                    at: self.at,
                    coded: true,
                };
                mask.retain_values(values, &self.test)
            }
            Some(Dense::Strings(strings)) if strings.len() >= elements.end => {
                let first = elements.start + self.at;
                mask.retain(|call| self.passes(strings, first + call * self.per_call));
                Ok(())
            }
            Some(Dense::Strings(_)) | None => Err(missing()),
        }
    }

    /// Whether a string passes; VCZ's missing and fill values never pass.
    fn passes(&self, strings: &StringChunk, at: usize) -> bool {
        let text = strings.get(at);
        let is_null = matches!(text, "." | "");
        !is_null
            && match &self.test {
                CallTest::Present => true,
                CallTest::Text(wanted) => text == wanted,
                _ => false,
            }
    }
}

/// The samples of `call`.
fn samples_of(call: &GenotypeCall) -> Vec<u32> {
    match call {
        GenotypeCall::AlleleCounts(samples)
        | GenotypeCall::GenotypeCounts(samples)
        | GenotypeCall::ZygosityCounts(samples)
        | GenotypeCall::GenotypePlanes(samples)
        | GenotypeCall::SelectSamples(samples) => samples.indices().to_vec(),
        GenotypeCall::PopulationCounts(populations)
        | GenotypeCall::PopulationPairCounts(populations) => {
            let members = populations.iter().flat_map(|(_, samples)| samples.iter());
            members.collect()
        }
    }
}

/// The chunks along the sample axis of `array` that contain one of `samples`.
fn sample_chunks(samples: &SampleSet, array: &ArrayMeta) -> Vec<u64> {
    let chunk_samples = array.chunks.get(1).copied().unwrap_or(1).max(1);
    let mut chunks: Vec<u64> = samples
        .iter()
        .map(|sample| u64::from(sample) / chunk_samples)
        .collect();
    chunks.dedup();
    chunks
}
