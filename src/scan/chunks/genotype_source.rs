//! What gives the chunks of genotypes that calls are computed from: reads for the host, or a device.
//!
//! Under [`genotypes`](crate::scan::read::genotypes).

use std::ops::Range;
use std::sync::Arc;

use datafusion::common::Result;

#[cfg(feature = "gpu")]
use super::gpu::GpuFetcher;
#[cfg(feature = "gpu")]
use super::gpu_request::{Arrived, Request, Wish as DeviceWish};
use super::prefetch::{ChunkFetcher, Upcoming};
use crate::counts::Counter;
#[cfg(feature = "gpu")]
use crate::gpu::{CountsOutput, ElementsOutput, GpuEngine, Work, WorkOutput};
use crate::scan::dataset::Dataset;
use crate::scan::plan::backend::Device;
#[cfg(feature = "gpu")]
use crate::scan::plan::backend::{not_on_gpu, planner};
use crate::scan::read::columns::{Ahead, chunks_of};
use crate::scan::read::dense::PartData;
use crate::scan::read::memory::ScanMemory;
use crate::scan::read::metrics::ScanMetrics;
use crate::store::ArrayMeta;

/// One chunk of a variant chunk: its index along the axes after variants, and what is known of it.
pub struct Fetched {
    /// The index.
    pub trailing: Vec<u64>,
    /// For counting.
    pub counts: PartData,
    /// For the samples that are selected.
    pub genotypes: PartData,
}

/// What gives the chunks.
pub enum GenotypeSource {
    /// Reads; the host decodes.
    Host(ChunkFetcher),
    /// A device.
    #[cfg(feature = "gpu")]
    Gpu(GpuFetcher),
}

/// What a partition wants of an array of genotypes.
pub struct Wish<'a> {
    /// The store.
    pub dataset: &'a Arc<Dataset>,
    /// The array.
    pub column: usize,
    /// What is counted.
    pub counter: &'a Counter,
    /// Samples whose genotypes are kept, by sample chunk, counted from the chunk's first.
    pub selected: &'a [Vec<u32>],
    /// Of which rows, ascending.
    pub ranges: &'a [Range<u64>],
}

impl GenotypeSource {
    /// The chunks that hold what `wish` asks for.
    pub fn try_new(
        wish: &Wish<'_>,
        ahead: Ahead,
        memory: &ScanMemory,
        metrics: &ScanMetrics,
        device: &Device,
    ) -> Result<Self> {
        let upcoming = chunks_of(wish.ranges, wish.array().chunks[0]);
        #[cfg(feature = "gpu")]
        if let Some((request, engine)) = wish.of_device(device)? {
            let metrics = metrics.clone();
            let fetcher = GpuFetcher::new(request, engine, upcoming, ahead.few, memory, metrics);
            return Ok(Self::Gpu(fetcher));
        }
        #[cfg(not(feature = "gpu"))]
        let _ = (memory, device);
        Ok(Self::Host(wish.of_host(upcoming, ahead, metrics)))
    }

    /// Begins to read, before any chunk is asked for.
    pub fn start(&mut self) {
        match self {
            Self::Host(fetcher) => fetcher.start(),
            #[cfg(feature = "gpu")]
            Self::Gpu(fetcher) => fetcher.start(),
        }
    }

    /// The wanted parts of one variant chunk; chunks are asked for in ascending order.
    pub async fn fetch(&mut self, chunk: u64) -> Result<Vec<Fetched>> {
        let fetcher = match self {
            Self::Host(fetcher) => fetcher,
            #[cfg(feature = "gpu")]
            Self::Gpu(fetcher) => return Ok(arrived(fetcher.fetch(chunk).await?)),
        };
        let parts = fetcher.fetch(chunk).await?;
        let fetched = |(trailing, encoded): (_, Option<_>)| Fetched {
            trailing,
            counts: PartData::of(encoded.clone()),
            genotypes: PartData::of(encoded),
        };
        Ok(parts.into_iter().map(fetched).collect())
    }
}

#[cfg(feature = "gpu")]
fn arrived(parts: Vec<Arrived>) -> Vec<Fetched> {
    let fetched = |part: Arrived| Fetched {
        trailing: part.trailing,
        counts: part.counts.into(),
        genotypes: part.elements.into(),
    };
    parts.into_iter().map(fetched).collect()
}

impl Wish<'_> {
    fn array(&self) -> &Arc<ArrayMeta> {
        &self.dataset.columns()[self.column].array
    }

    /// Reads of the chunks that the counter wants or of which genotypes are selected.
    fn of_host(&self, upcoming: Upcoming, ahead: Ahead, metrics: &ScanMetrics) -> ChunkFetcher {
        let mut wanted: Vec<usize> = self.counter.wanted_sample_chunks().to_vec();
        let kept = self.selected.iter().enumerate();
        wanted.extend(
            kept.filter(|(_, samples)| !samples.is_empty())
                .map(|(at, _)| at),
        );
        wanted.sort_unstable();
        wanted.dedup();
        let parts = wanted.iter().map(|&chunk| vec![chunk as u64, 0]).collect();
        ChunkFetcher::new(
            Arc::clone(self.dataset),
            Arc::clone(self.array()),
            parts,
            upcoming,
            ahead,
            metrics.clone(),
        )
    }

    /// What a device has to do; `None` if there is none, or it cannot.
    #[cfg(feature = "gpu")]
    fn of_device(&self, device: &Device) -> Result<Option<(Request, Arc<GpuEngine>)>> {
        let Self {
            dataset,
            column,
            counter,
            selected,
            ..
        } = self;
        let spec = &dataset.columns()[*column];
        let array = &spec.array;
        let Some((engine, forced)) = &device.engine else {
            return Ok(None);
        };
        let works = || {
            let planner = planner(
                spec,
                dataset.chain(*column).map_err(|e| e.to_string())?,
                true,
            )?;
            engine.decodes(&planner.estimate())?;
            let (samples, copies) = (array.chunks[1] as usize, array.chunks[2] as usize);
            let counts = CountsOutput::try_new(counter.request().clone(), samples, copies)?;
            let elements = ElementsOutput {
                samples: selected.iter().cloned().map(Arc::new).collect(),
                inner: array.shape[2] as u32,
                width: planner.width(),
            };
            let work = |wanted| {
                Arc::new(Work {
                    planner: planner.clone(),
                    sizes: Arc::clone(dataset.chunk_sizes(*column, true)),
                    wanted,
                })
            };
            Ok((
                work(WorkOutput::Counts(counts)),
                work(WorkOutput::Elements(elements)),
            ))
        };
        let (counts, elements) = match works() {
            Ok(works) => works,
            Err(reason) if *forced => return Err(not_on_gpu(dataset.array_error(array, reason))),
            Err(reason) => {
                log::debug!("array '{}' is counted on the host: {reason}", array.name);
                return Ok(None);
            }
        };
        let wanted = counter.wanted_sample_chunks();
        let wishes = selected.iter().enumerate().filter_map(|(chunk, samples)| {
            let wish = DeviceWish {
                trailing: vec![chunk as u64, 0],
                count: wanted.binary_search(&chunk).is_ok(),
                elements: !samples.is_empty(),
            };
            (wish.count || wish.elements).then_some(wish)
        });
        let request = Request {
            dataset: Arc::clone(dataset),
            array: Arc::clone(array),
            wishes: wishes.collect(),
            counts: Some(counts),
            elements: Some(elements),
            padded: false,
            reads_files: device.reads_files,
        };
        Ok(Some((request, Arc::clone(engine))))
    }
}
