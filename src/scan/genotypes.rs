//! Computes the calls on genotypes of a query, all from one decode of each chunk. Only the sample chunks that hold a
//! wanted sample are fetched; genotypes themselves are kept only where `select_samples` asks for them.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, FixedSizeListArray};
use arrow::buffer::{Buffer, MutableBuffer};
use arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, exec_err};

use super::call::{
    GenotypeCall, allele_counts_array, genotype_counts_array, list_size, population_counts_array,
};
use super::context::GenotypeContext;
use super::dataset::Dataset;
use super::dense::{chunk_index, decode};
use super::fetch::ChunkFetcher;
use super::memory::{ScanMemory, Taken};
use super::metrics::ScanMetrics;
use super::reader::chunks_of;
use crate::codec::{ChunkData, Scratch};
use crate::counts::{ChunkCounts, CountRequest, CountScratch, Counter, SampleSet};

/// Computes a query's calls on the genotypes of one column.
pub struct GenotypeReader {
    dataset: Arc<Dataset>,
    context: Arc<GenotypeContext>,
    column: usize,
    calls: Vec<GenotypeCall>,
    counter: Counter,
    /// For each call: where its sets start in the counter's request.
    first_set: Vec<usize>,
    /// Sample chunks whose genotypes are kept for `select_samples`.
    selected_chunks: Vec<usize>,
    fetcher: ChunkFetcher,
    current: Option<Current>,
    counts: ChunkCounts,
    scratch: CountScratch,
    decode_scratch: Scratch,
    memory: ScanMemory,
    metrics: ScanMetrics,
}

struct Current {
    chunk: u64,
    /// Decoded genotypes by sample chunk, for `select_samples`.
    selected: Vec<Option<Buffer>>,
    _memory: Taken,
}

impl GenotypeReader {
    /// A reader of `calls` on column `column` for the row ranges `ranges`.
    #[expect(
        clippy::too_many_arguments,
        reason = "each is a different part of the scan; a struct would only rename them"
    )]
    pub fn try_new(
        dataset: &Arc<Dataset>,
        context: &Arc<GenotypeContext>,
        column: usize,
        calls: Vec<GenotypeCall>,
        ranges: &[Range<u64>],
        prefetch: usize,
        memory: &ScanMemory,
        metrics: &ScanMetrics,
    ) -> Result<Self> {
        let array = &dataset.columns()[column].array;
        let refuse = |reason: String| dataset.array_error(array, reason);
        if array.grid_shape()[2] > 1 {
            let reason = format!(
                "expected the ploidy axis in one chunk to count genotypes, found {} chunks",
                array.grid_shape()[2]
            );
            return Err(refuse(reason).into());
        }
        let mut request = CountRequest {
            alleles: vec![],
            genotypes: vec![],
            n_alleles: context.n_alleles().unwrap_or(usize::from(u8::MAX)),
            n_samples: array.shape[1] as usize,
            ploidy: array.shape[2] as usize,
        };
        let mut first_set = Vec::with_capacity(calls.len());
        let mut selected: Vec<Arc<SampleSet>> = vec![];
        for call in &calls {
            first_set.push(match call {
                GenotypeCall::GenotypeCounts(_) => request.genotypes.len(),
                _ => request.alleles.len(),
            });
            request.alleles.extend(call.allele_sets(context));
            match call {
                GenotypeCall::GenotypeCounts(samples) => {
                    request.genotypes.push(Arc::clone(samples))
                }
                GenotypeCall::SelectSamples(samples) => selected.push(Arc::clone(samples)),
                _ => {}
            }
        }
        let chunk_samples = array.chunks[1] as usize;
        let counter = Counter::try_new(request, chunk_samples).map_err(refuse)?;
        let mut selected_chunks: Vec<usize> = selected
            .iter()
            .flat_map(|samples| samples.iter())
            .map(|sample| sample as usize / chunk_samples)
            .collect();
        selected_chunks.sort_unstable();
        selected_chunks.dedup();
        let mut wanted: Vec<usize> = counter.wanted_sample_chunks().to_vec();
        wanted.extend(&selected_chunks);
        wanted.sort_unstable();
        wanted.dedup();
        let parts = wanted.iter().map(|&chunk| vec![chunk as u64, 0]).collect();
        let upcoming = chunks_of(ranges, array.chunks[0]);
        let fetcher = ChunkFetcher::new(
            Arc::clone(dataset),
            Arc::clone(array),
            parts,
            upcoming,
            prefetch,
            metrics.clone(),
        );
        Ok(Self {
            dataset: Arc::clone(dataset),
            context: Arc::clone(context),
            column,
            calls,
            counter,
            first_set,
            selected_chunks,
            fetcher,
            current: None,
            counts: ChunkCounts::default(),
            scratch: CountScratch::default(),
            decode_scratch: Scratch::default(),
            memory: memory.clone(),
            metrics: metrics.clone(),
        })
    }

    /// Rows of one chunk of the array.
    pub fn chunk_rows(&self) -> u64 {
        self.dataset.columns()[self.column].array.chunks[0]
    }

    /// For each call, its values for the rows of `range`, in pieces that each come from one chunk.
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
        let parts = self.fetcher.fetch(chunk).await?;
        let rows = array.chunk_extent(&chunk_index(chunk, &[0, 0]))[0] as usize;
        let width = array.element.size().unwrap_or(1);
        let chunk_bytes = array
            .chunk_elements()
            .unwrap_or(usize::MAX)
            .saturating_mul(width);
        let sets = self.counter.request().alleles.len() * self.counter.request().n_alleles
            + self.counter.request().genotypes.len() * super::call::GENOTYPE_CLASSES.len();
        let counts_bytes = rows.saturating_mul(sets).saturating_mul(size_of::<i32>());
        let kept = chunk_bytes.saturating_mul(self.selected_chunks.len().max(1));
        let memory = self.memory.take(kept.saturating_add(counts_bytes))?;
        let _timer = self.metrics.count_time.timer();
        self.counts
            .reset(self.counter.request(), rows)
            .map_err(|reason| dataset.chunk_error(array, &chunk_index(chunk, &[0, 0]), reason))?;
        let mut selected = vec![None; array.grid_shape()[1] as usize];
        for (trailing, encoded) in &parts {
            let sample_chunk = trailing[0] as usize;
            let failed =
                |reason: String| dataset.chunk_error(array, &chunk_index(chunk, trailing), reason);
            if self
                .counter
                .wanted_sample_chunks()
                .binary_search(&sample_chunk)
                .is_ok()
            {
                self.counter
                    .add_chunk(
                        chain,
                        array,
                        encoded.as_deref(),
                        sample_chunk,
                        rows,
                        &mut self.counts,
                        &mut self.scratch,
                    )
                    .map_err(failed)?;
            }
            if self.selected_chunks.binary_search(&sample_chunk).is_ok() {
                let data =
                    decode(chain, encoded.as_ref(), &mut self.decode_scratch).map_err(failed)?;
                let ChunkData::Fixed(buffer) = data else {
                    return exec_err!(
                        "array '{}': genotypes must be integers, found strings",
                        array.name
                    );
                };
                selected[sample_chunk] = Some(buffer);
            }
            self.metrics.bytes_decoded.add(chunk_bytes);
        }
        self.current = Some(Current {
            chunk,
            selected,
            _memory: memory,
        });
        Ok(())
    }

    fn piece(&self, call: usize, rows: Range<usize>) -> Result<ArrayRef> {
        let n_alleles = self.counter.request().n_alleles;
        let first = self.first_set[call];
        let alleles =
            |set: usize| &self.counts.alleles[set][rows.start * n_alleles..rows.end * n_alleles];
        match &self.calls[call] {
            GenotypeCall::AlleleCounts(_) => allele_counts_array(alleles(first), n_alleles, None),
            GenotypeCall::PopulationCounts => {
                let sets = self.calls[call].allele_sets(&self.context).len();
                let counts: Vec<&[i32]> = (first..first + sets).map(alleles).collect();
                population_counts_array(&counts, rows.len(), &self.context, None)
            }
            GenotypeCall::GenotypeCounts(_) => {
                let width = super::call::GENOTYPE_CLASSES.len();
                genotype_counts_array(
                    &self.counts.genotypes[first][rows.start * width..rows.end * width],
                    None,
                )
            }
            GenotypeCall::SelectSamples(samples) => self.selected(samples, rows),
        }
    }

    /// Gathers the copies of `samples` from the decoded sample chunks.
    fn selected(&self, samples: &SampleSet, rows: Range<usize>) -> Result<ArrayRef> {
        let spec = &self.dataset.columns()[self.column];
        let DataType::FixedSizeList(call, _) = &spec.data_type else {
            return exec_err!("expected genotypes, found {}", spec.data_type);
        };
        let DataType::FixedSizeList(code, ploidy) = call.data_type() else {
            return exec_err!("expected genotypes, found {}", spec.data_type);
        };
        let chunk_samples = spec.array.chunks[1] as usize;
        let width = *ploidy as usize * spec.array.element.size().unwrap_or(1);
        let total = rows
            .len()
            .checked_mul(samples.len())
            .and_then(|n| n.checked_mul(width));
        let Some(total) = total else {
            return exec_err!(
                "select_samples: {} rows of {} samples do not fit in memory",
                rows.len(),
                samples.len()
            );
        };
        let Some(current) = &self.current else {
            return exec_err!("select_samples: no chunk is loaded");
        };
        let mut out = MutableBuffer::with_capacity(total);
        for row in rows.clone() {
            for sample in samples.iter() {
                let (chunk, within) = (
                    sample as usize / chunk_samples,
                    sample as usize % chunk_samples,
                );
                let Some(Some(decoded)) = current.selected.get(chunk) else {
                    return exec_err!("select_samples: sample chunk {chunk} was not read");
                };
                let at = (row * chunk_samples + within) * width;
                out.extend_from_slice(&decoded.as_slice()[at..at + width]);
            }
        }
        let copies = total / spec.array.element.size().unwrap_or(1);
        let codes = arrow::array::make_array(
            arrow::array::ArrayData::builder(code.data_type().clone())
                .len(copies)
                .add_buffer(out.into())
                .build()?,
        );
        let n_calls = rows.len() * samples.len();
        let calls = FixedSizeListArray::try_new_with_length(
            std::sync::Arc::clone(code),
            *ploidy,
            codes,
            None,
            n_calls,
        )?;
        let item = Arc::new(Field::new_list_field(call.data_type().clone(), false));
        let size = list_size(samples.len())?;
        Ok(Arc::new(FixedSizeListArray::try_new_with_length(
            item,
            size,
            Arc::new(calls),
            None,
            rows.len(),
        )?))
    }
}
