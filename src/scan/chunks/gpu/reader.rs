//! [`GpuReader`]: the work of GPUs on the chunks of one array, with those of the fields by which its calls are filtered, and the
//! read-ahead window over them. The window is long, because a GPU is fast only with thousands of frames at the same time.
//!
//! If the window is dropped, the results of chunks that a GPU is working on are dropped when they arrive.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::buffer::Buffer;
use datafusion::common::Result;
use futures::future::{BoxFuture, FutureExt};
use tokio::sync::Semaphore;

use super::device::Gpus;
use crate::counts::{ComputedCounts, ResidentChunk};
use crate::error::VczError;
use crate::gpu::{CountsOutput, ElementsOutput, GpuEngine, GpuError, Work, WorkOutput};
use crate::scan::chunks::absence::Absences;
use crate::scan::chunks::archive;
use crate::scan::chunks::chunk::first_index;
use crate::scan::chunks::open::{ChunkPurpose, ChunkRequest, ReadContext};
use crate::scan::chunks::prefetch::{Arrivals, Arriving, ChunkReader, Prefetch, Window, chunks_of};
use crate::scan::dataset::Dataset;
use crate::scan::read::memory::{ReservedBytes, ScanMemory};
use crate::scan::read::metrics::ScanMetrics;
use crate::store::ArrayMeta;

/// The maximum bytes of results in the window of a partition.
const WINDOW_BYTES: usize = 32 << 20;
/// The maximum number of variant chunks in flight for a partition.
const WINDOW_CHUNKS: usize = 4096;
/// The memory of rows that stay on a GPU is that of a batch, which is free once the partitions have used all of its chunks.
const HELD_BY_OTHERS: usize = 2;
/// With room for fewer variant chunks on a GPU, rows do not stay there: it would wait for each chunk to be used.
const FEWEST_RESIDENT: usize = 2;
/// The maximum number of variant chunks in flight for a partition before it is known whether many of their rows can stay on a GPU.
const FIRST_RESIDENT: usize = 4;
/// The maximum number of variant chunks of a read, and of their encoded bytes. Reads have several chunks, because passing a task between
/// threads takes longer than reading one chunk.
const GROUP_CHUNKS: usize = 16;
const GROUP_BYTES: usize = 4 << 20;
/// The maximum encoded bytes, in KiB, of chunks from archives that the host decodes in place of a GPU and that are not requested again.
const KEPT_KIB: usize = 8 << 10;

/// A request for one chunk of a variant chunk.
#[derive(Debug, Clone)]
pub struct PartRequest {
    /// Its index along the axes after variants.
    pub trailing: Vec<u64>,
    /// The work of counting it.
    pub counts: Option<Arc<Work>>,
    /// The same with rows that stay on the GPU, if they may.
    pub resident: Option<Arc<Work>>,
    /// The work of decoding its elements.
    pub elements: Option<Arc<Work>>,
}

/// Reads the requested parts of an array's variant chunks and passes them to GPUs.
#[derive(Debug)]
pub struct GpuReader {
    pub dataset: Arc<Dataset>,
    pub array: Arc<ArrayMeta>,
    pub engine: Arc<GpuEngine>,
    /// The requested chunks of each variant chunk.
    pub parts: Vec<PartRequest>,
    /// The array, as a column of the store.
    pub column: usize,
    /// The fields by which calls are filtered, as columns of the store. Their chunks are read with the array's.
    pub fields: Vec<usize>,
    /// Checks absent chunks of filtered genotypes and of the fields; the window checks others.
    pub absences: Arc<Absences>,
    /// Whether all elements are requested as stored, including padding rows, and not only results for rows that exist.
    pub is_whole: bool,
    /// Whether the GPU reads uncompressed chunks in local files itself.
    pub leaves_files: bool,
    /// Whether a read has several variant chunks: for local stores, unless few chunks may be needed.
    in_groups: bool,
    /// The variant chunks in a read of a remote archive, whose neighbouring chunks are read by one request; `None` elsewhere.
    pub in_archive: Option<usize>,
    /// The maximum number of variant chunks in flight whose results are all sent to the host.
    most_chunks: usize,
    /// The maximum number of those whose rows stay on the GPU; 0 if none may.
    most_resident: usize,
    /// Permits of a KiB for encoded chunks that wait for the host.
    pub kept: Arc<Semaphore>,
    /// One permit per read: `vcz.prefetch`, or fewer for a local store. More chunks may be in flight: those that a GPU works on.
    pub reading: Semaphore,
    pub metrics: ScanMetrics,
}

/// Opens the window over chunks that GPUs decode; `None` if the host decodes the array.
///
/// # Errors
/// If `device` is required and cannot decode the array.
pub fn open(
    device: &Gpus,
    request: &ChunkRequest<'_>,
    context: ReadContext<'_>,
) -> Result<Option<Prefetch>> {
    let array = request.array();
    if request.dataset.columns()[request.column].is_site_level() {
        return Ok(None);
    }
    let parts = match part_requests(device, request, context) {
        Ok(parts) => parts,
        Err(reason) => {
            device.leave_to_host(array, request.dataset.array_error(array, reason))?;
            return Ok(None);
        }
    };
    let store = request.dataset.store();
    let reads = match store.is_local() {
        true => context.ahead.first_reads(true, 0),
        false => context.ahead.prefetch,
    };
    let fields = match request.purpose {
        ChunkPurpose::Genotypes { filters, .. } => filters.fields.clone(),
        ChunkPurpose::Elements | ChunkPurpose::Samples(_) => vec![],
    };
    let is_plain = |part: &PartRequest| part.work().is_some_and(|work| work.planner.is_plain());
    let mut reader = GpuReader {
        dataset: Arc::clone(request.dataset),
        array: Arc::clone(array),
        engine: Arc::clone(&device.engine),
        is_whole: !matches!(request.purpose, ChunkPurpose::Genotypes { .. }),
        leaves_files: device.reads_files && fields.is_empty() && parts.iter().all(is_plain),
        in_groups: store.is_local() && context.ahead.few.is_none(),
        in_archive: store.mean_chunk_in_archive(array).map(|mean| {
            let of_fields = fields.iter().filter_map(|column| {
                store.mean_chunk_in_archive(&request.dataset.columns()[*column].array)
            });
            let mean = of_fields.fold(mean, u64::saturating_add);
            match context.ahead.few {
                Some(_) => 1,
                None => archive::group(mean.saturating_mul(parts.len() as u64)),
            }
        }),
        most_chunks: 0,
        most_resident: 0,
        kept: Arc::new(Semaphore::new(KEPT_KIB)),
        reading: Semaphore::new(reads.max(1)),
        metrics: context.metrics.clone(),
        parts,
        column: request.column,
        fields,
        absences: Arc::clone(context.absences),
    };
    let (window, memory) = reader.window(context);
    // Batches wait for this array's chunks until the first of them have been submitted.
    let announced = device.engine.queue().register_producer();
    let upcoming = chunks_of(request.ranges, array.chunks[0]);
    let prefetch = Prefetch::new(Arc::new(reader), upcoming, window, context.metrics.clone());
    Ok(Some(prefetch.holding(announced, memory)))
}

/// The work of GPUs on each part of a variant chunk.
fn part_requests(
    device: &Gpus,
    request: &ChunkRequest<'_>,
    context: ReadContext<'_>,
) -> Result<Vec<PartRequest>, GpuError> {
    let ChunkRequest {
        dataset, column, ..
    } = request;
    let spec = &dataset.columns()[*column];
    let array = &spec.array;
    let only_calls = matches!(request.purpose, ChunkPurpose::Genotypes { .. });
    let chain = dataset.chain(*column).map_err(|error| error.to_string())?;
    let planner = device.planner(spec, chain, only_calls)?;
    let filter = match request.purpose {
        ChunkPurpose::Genotypes { filters, .. } => {
            device.call_filter(dataset, &planner, filters)?
        }
        ChunkPurpose::Elements | ChunkPurpose::Samples(_) => None,
    };
    // What is decoded for a chunk depends on the filter, so its sizes are not those of other queries.
    let sizes = match &filter {
        Some(_) => Arc::default(),
        None => Arc::clone(dataset.chunk_sizes(*column, only_calls)),
    };
    let (counts, resident, elements) = match request.purpose {
        ChunkPurpose::Elements | ChunkPurpose::Samples(_) => {
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
            (None, None, elements)
        }
        ChunkPurpose::Genotypes {
            counter, selected, ..
        } => {
            let (samples, copies) = (array.chunks[1] as usize, array.chunks[2] as usize);
            let counts = || {
                let counted = counter.request().clone();
                CountsOutput::try_new(counted, samples, copies, planner.shares_rows())
            };
            // Results of several parts are added, which needs all rows. Filters make calls missing, and few rows can stay then.
            let may_stay = request.parts().len() == 1 && filter.is_none();
            let resident = context.resident.filter(|_| may_stay);
            let resident = match resident {
                Some(resident) => counts()?.keeping_rows(resident.devices()),
                None => None,
            };
            let elements = ElementsOutput {
                samples: selected.iter().cloned().map(Arc::new).collect(),
                inner: array.shape[2] as u32,
                width: planner.width(),
            };
            (Some(counts()?), resident, elements)
        }
    };
    let work = |wanted| {
        Arc::new(Work {
            planner: planner.clone(),
            filter: filter.clone(),
            sizes: Arc::clone(&sizes),
            wanted,
        })
    };
    let counts = counts.map(|counts| work(WorkOutput::Counts(counts)));
    let resident = resident.map(|counts| work(WorkOutput::Counts(counts)));
    let elements = work(WorkOutput::Elements(elements));
    let parts = request.parts().into_iter().map(|trailing| {
        let sample_chunk = trailing.first().map_or(0, |at| *at as usize);
        PartRequest {
            counts: counts.clone().filter(|_| request.counts(sample_chunk)),
            resident: resident.clone().filter(|_| request.counts(sample_chunk)),
            elements: Some(Arc::clone(&elements)).filter(|_| request.selects(sample_chunk)),
            trailing,
        }
    });
    Ok(parts.collect())
}

impl PartRequest {
    /// Its index along the sample axis.
    pub fn sample_chunk(&self) -> usize {
        self.trailing.first().map_or(0, |at| *at as usize)
    }

    /// The requested work.
    pub fn works(&self) -> impl Iterator<Item = &Arc<Work>> {
        self.counts.iter().chain(&self.elements)
    }

    fn work(&self) -> Option<&Arc<Work>> {
        self.works().next()
    }

    /// The work of counting it that is best now, and whether its rows stay on the GPU.
    pub fn counting(&self) -> (Option<&Arc<Work>>, bool) {
        let resident = self.resident.as_ref();
        match resident.filter(|work| !work.sizes.few_rows_stay()) {
            Some(work) => (Some(work), true),
            None => (self.counts.as_ref(), false),
        }
    }

    /// The counts that a device sent; `None` if none were requested.
    pub fn computed(
        &self,
        bytes: Buffer,
        resident: Option<ResidentChunk>,
    ) -> Option<ComputedCounts> {
        match &self.counts.as_ref()?.wanted {
            WorkOutput::Counts(counts) => Some(counts.computed(bytes, resident)),
            WorkOutput::Elements(_) => None,
        }
    }
}

impl GpuReader {
    /// The number of variant chunks that may be in flight: as many as give [`WINDOW_BYTES`] of results, as far as the memory pool allows; if
    /// rows stay on the GPU, also as many as it has memory for.
    fn window(&mut self, context: ReadContext<'_>) -> (Window, Option<ReservedBytes>) {
        let rows = self.array.chunks[0] as usize;
        // The host's and the GPU's bytes of a variant chunk.
        let mut bytes = 1usize;
        let (mut resident, mut on_gpu) = (1usize, 0usize);
        for part in &self.parts {
            let of = |work: &Arc<Work>| work.output_bytes(part.sample_chunk(), rows).unwrap_or(0);
            let of_elements = part.elements.as_ref().map_or(0, of);
            let counts = part.counts.as_ref().map_or(0, of);
            bytes = bytes.saturating_add(counts).saturating_add(of_elements);
            let stays = part.resident.as_ref();
            resident = resident
                .saturating_add(stays.map_or(0, of))
                .saturating_add(of_elements);
            let on = stays.map(|work| work.resident_bytes(part.sample_chunk(), rows));
            on_gpu = on_gpu.saturating_add(on.unwrap_or(0));
        }
        let most = (WINDOW_BYTES / bytes).clamp(2, WINDOW_CHUNKS);
        let (most_chunks, taken) = take(context.memory, bytes, most);
        self.most_chunks = most_chunks;
        self.most_resident = match context.resident.filter(|_| on_gpu > 0) {
            Some(planes) => {
                let on_host = most_chunks.saturating_mul(bytes) / resident;
                let on_gpu = planes.bytes() / on_gpu.saturating_mul(HELD_BY_OTHERS);
                if on_gpu < FEWEST_RESIDENT {
                    0
                } else {
                    on_host.min(on_gpu).clamp(1, WINDOW_CHUNKS)
                }
            }
            None => 0,
        };
        if self.most_resident == 0 {
            for part in &mut self.parts {
                part.resident = None;
            }
        }
        let most_chunks = most_chunks.max(self.most_resident);
        let window = Window {
            // All chunks that fit are in flight, unless reading ahead is off.
            reads: if context.ahead.prefetch == 0 {
                0
            } else {
                usize::MAX
            },
            chunks: context
                .ahead
                .few
                .unwrap_or(most_chunks)
                .clamp(1, most_chunks),
            most_chunks,
        };
        (window, taken)
    }

    /// Estimated encoded bytes of a chunk, with those of the fields.
    pub fn chunk_bytes(&self) -> usize {
        let work = self.parts.iter().find_map(PartRequest::work);
        let bytes = work.map_or(0, |work| work.sizes.encoded(work.encoded_bytes()));
        bytes.max(1)
    }

    /// Whether batches of its chunks wait longer for more.
    pub fn has_large_frames(&self) -> bool {
        let mut works = self.parts.iter().flat_map(PartRequest::works);
        works.any(|work| work.max_wait().is_some())
    }

    /// Number of requested rows of a variant chunk.
    pub fn rows(&self, chunk: u64) -> usize {
        let rows = if self.is_whole {
            self.array.chunks[0]
        } else {
            let first = first_index(chunk, &self.array);
            self.array.chunk_extent(&first)[0]
        };
        rows as usize
    }
}

/// Reserves memory for the results of `most` variant chunks, or of fewer if the pool has less. If it has none left, memory is reserved
/// for one chunk at a time, when it arrives.
fn take(memory: &ScanMemory, bytes: usize, mut most: usize) -> (usize, Option<ReservedBytes>) {
    loop {
        match memory.take(bytes.saturating_mul(most)) {
            Ok(taken) => return (most, Some(taken)),
            Err(_) if most > 1 => most /= 2,
            Err(_) => return (most, None),
        }
    }
}

impl ChunkReader for GpuReader {
    fn group(&self) -> usize {
        if let Some(group) = self.in_archive {
            return group;
        }
        if !self.in_groups {
            return 1;
        }
        let bytes = self.chunk_bytes().saturating_mul(self.parts.len().max(1));
        (GROUP_BYTES / bytes).clamp(1, GROUP_CHUNKS)
    }

    fn most_chunks(&self) -> usize {
        let resident = self.parts.iter().find_map(|part| part.resident.as_ref());
        match resident.map(|work| &work.sizes) {
            Some(sizes) if sizes.rows_stay() => self.most_resident,
            // Not known: the host decodes those of which few can stay.
            Some(sizes) if !sizes.few_rows_stay() => {
                let most = self.most_chunks.min(self.most_resident);
                most.min(FIRST_RESIDENT)
            }
            _ => self.most_chunks,
        }
    }

    fn read(
        self: Arc<Self>,
        mut chunks: Vec<u64>,
    ) -> BoxFuture<'static, Result<Arrivals, VczError>> {
        // Batches wait for these chunks from now on, not from when the task first runs.
        let active = self.engine.queue().register_producer();
        if self.in_archive.is_some() {
            let parts = self.parts.iter().map(|part| &part.trailing);
            let few = archive::first_few(self.dataset.store(), &self.array, parts, &chunks);
            chunks.truncate(few);
        }
        async move {
            let mut submitted = self.submit_group(&chunks).await?.into_iter();
            drop(active);
            let mut arrivals = VecDeque::with_capacity(chunks.len());
            for chunk in chunks {
                let parts = submitted.by_ref().take(self.parts.len()).collect();
                let waiting = Arc::clone(&self).wait_for(chunk, parts).boxed();
                arrivals.push_back((chunk, Arriving::Waiting(waiting)));
            }
            Ok(arrivals)
        }
        .boxed()
    }
}
