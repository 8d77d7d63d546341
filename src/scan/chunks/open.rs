//! Opens the read-ahead window over the chunks of an array: for a GPU if the scan has one that can decode it, else for the host.

use std::ops::Range;
use std::sync::Arc;

use datafusion::common::{Result, exec_err};

use super::absence::Absences;
use super::chunk::trailing_chunks;
use super::field_filters::FieldFilters;
use super::gpu::{self, Gpus};
use super::host::HostReader;
use super::prefetch::{Ahead, ChunkReader, Prefetch, Window, chunks_of};
use crate::counts::{Counter, ResidentPlanes};
use crate::scan::dataset::Dataset;
use crate::scan::read::memory::ScanMemory;
use crate::scan::read::metrics::ScanMetrics;
use crate::store::ArrayMeta;

/// What an array's chunks are read for.
#[derive(Clone, Copy)]
pub enum ChunkPurpose<'a> {
    /// All elements.
    Elements,
    /// All elements of these sample chunks, ascending.
    Samples(&'a [u64]),
    /// Counts and selected samples, for calls on genotypes.
    Genotypes {
        /// What is counted.
        counter: &'a Counter,
        /// Samples whose genotypes are selected, by sample chunk: ascending indices within the chunk.
        selected: &'a [Vec<u32>],
        /// Filters of the calls, which only a GPU applies.
        filters: &'a FieldFilters,
    },
}

/// A partition's request for chunks of one array.
#[derive(Clone, Copy)]
pub struct ChunkRequest<'a> {
    /// The store.
    pub dataset: &'a Arc<Dataset>,
    /// The array, as a column of the table.
    pub column: usize,
    /// What the chunks are read for.
    pub purpose: ChunkPurpose<'a>,
    /// The requested rows, ascending.
    pub ranges: &'a [Range<u64>],
}

/// Shared by all readers of a partition.
#[derive(Clone, Copy)]
pub struct ReadContext<'a> {
    /// How far to read ahead.
    pub ahead: Ahead,
    /// The partition's memory.
    pub memory: &'a ScanMemory,
    /// The partition's metrics.
    pub metrics: &'a ScanMetrics,
    /// The execution's absent chunks.
    pub absences: &'a Arc<Absences>,
    /// The GPUs that decode arrays over samples; `None` for the host.
    pub device: Option<&'a Gpus>,
    /// Where rows of bit-planes that stay on a GPU are registered; `None` if none may.
    pub resident: Option<&'a Arc<ResidentPlanes>>,
    /// How many rows of arrays over samples are decoded at a time, if memory may not grow with the number of samples, even where that takes
    /// longer.
    pub block_rows: Option<u64>,
}

impl ChunkRequest<'_> {
    /// The array.
    pub fn array(&self) -> &Arc<ArrayMeta> {
        &self.dataset.columns()[self.column].array
    }

    /// The requested chunks of a variant chunk: their indices along the axes after variants.
    pub fn parts(&self) -> Vec<Vec<u64>> {
        match self.purpose {
            ChunkPurpose::Elements => trailing_chunks(self.array()),
            ChunkPurpose::Samples(chunks) => {
                let is_wanted = |trailing: &Vec<u64>| {
                    let sample_chunk = trailing.first();
                    sample_chunk.is_none_or(|chunk| chunks.binary_search(chunk).is_ok())
                };
                let all = trailing_chunks(self.array());
                all.into_iter().filter(is_wanted).collect()
            }
            ChunkPurpose::Genotypes { selected, .. } => (0..selected.len())
                .filter(|chunk| self.counts(*chunk) || self.selects(*chunk))
                .map(|chunk| vec![chunk as u64, 0])
                .collect(),
        }
    }

    /// Whether genotypes of a sample chunk are counted.
    pub fn counts(&self, sample_chunk: usize) -> bool {
        match self.purpose {
            ChunkPurpose::Elements | ChunkPurpose::Samples(_) => false,
            ChunkPurpose::Genotypes { counter, .. } => counter
                .wanted_sample_chunks()
                .binary_search(&sample_chunk)
                .is_ok(),
        }
    }

    /// Whether elements of a sample chunk are requested.
    pub fn selects(&self, sample_chunk: usize) -> bool {
        match self.purpose {
            ChunkPurpose::Elements => true,
            ChunkPurpose::Samples(chunks) => chunks.binary_search(&(sample_chunk as u64)).is_ok(),
            ChunkPurpose::Genotypes { selected, .. } => selected
                .get(sample_chunk)
                .is_some_and(|samples| !samples.is_empty()),
        }
    }

    /// Opens the window; nothing is read yet.
    ///
    /// # Errors
    /// With `vcz.backend = 'gpu'`, an array over samples that no GPU decodes; for the host, if calls are filtered.
    pub fn open(&self, context: ReadContext<'_>) -> Result<Prefetch> {
        if let Some(window) = self.open_on_device(context)? {
            return Ok(window);
        }
        if let ChunkPurpose::Genotypes { filters, .. } = self.purpose
            && !filters.is_empty()
        {
            return exec_err!("the host filters calls of decoded genotypes only");
        }
        let absences = Arc::clone(context.absences);
        Ok(self.on_host(context).checking(absences, self.column))
    }

    /// Opens the window for GPUs; `None` if there are none, or they cannot do it.
    ///
    /// # Errors
    /// With `vcz.backend = 'gpu'`, an array over samples that no GPU decodes.
    pub fn open_on_device(&self, context: ReadContext<'_>) -> Result<Option<Prefetch>> {
        let Some(device) = context.device else {
            return Ok(None);
        };
        let absences = Arc::clone(context.absences);
        let window = gpu::open(device, self, context)?;
        Ok(window.map(|window| window.checking(absences, self.column)))
    }

    fn on_host(&self, context: ReadContext<'_>) -> Prefetch {
        let (array, ahead) = (self.array(), context.ahead);
        let is_local = self.dataset.store().is_local();
        let parts = self.parts();
        let bytes = array.chunk_bytes().unwrap_or(0).saturating_mul(parts.len());
        let requests = context.metrics.requests.clone();
        let reader = HostReader::new(self.dataset, array, parts, ahead.few.is_some(), requests);
        let are_few = is_local || reader.group() > 1;
        let window = Window {
            reads: ahead.first_reads(are_few, bytes),
            chunks: usize::MAX,
            most_chunks: usize::MAX,
        };
        let upcoming = chunks_of(self.ranges, array.chunks[0]);
        let metrics = context.metrics.clone();
        let window = Prefetch::new(Arc::new(reader), upcoming, window, metrics);
        window.growing(ahead.prefetch, is_local, context.memory.clone())
    }
}
