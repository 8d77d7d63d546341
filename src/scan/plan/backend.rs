//! Which backend decodes the arrays over samples of a scan, and why. Arrays over variants only are always the host's: they
//! are small.

#[cfg(feature = "gpu")]
use std::sync::Arc;

use datafusion::common::Result;
#[cfg(feature = "gpu")]
use datafusion::common::exec_datafusion_err;
#[cfg(not(feature = "gpu"))]
use datafusion::common::exec_err;

use super::source::VczSource;
use crate::codec::CodecChain;
#[cfg(feature = "gpu")]
use crate::scan::options::DirectStorage;
use crate::scan::options::{Backend, VczSettings};
use crate::store::ArrayMeta;

/// What decodes the arrays over samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chosen {
    /// The host.
    Host,
    /// The GPU, at the latest when the first chunk is wanted.
    #[cfg(feature = "gpu")]
    Gpu,
}

/// The device of a scan, if it has one.
#[derive(Debug, Clone)]
pub struct Device {
    /// The engine, and whether falling back to the host for an array is an error.
    #[cfg(feature = "gpu")]
    pub engine: Option<(Arc<crate::gpu::GpuEngine>, bool)>,
    /// Whether it reads uncompressed chunks from local files itself.
    #[cfg(feature = "gpu")]
    pub reads_files: bool,
}

impl Device {
    /// The device of a scan whose backend was chosen; waits for it where it was asked for by name.
    #[cfg(feature = "gpu")]
    pub async fn of(source: &VczSource) -> Result<Self> {
        let forced = source.settings.backend == Backend::Gpu;
        let engine = match source.choice().chosen {
            Chosen::Host => None,
            Chosen::Gpu => match source.engine().await {
                Ok(engine) => Some((engine, forced)),
                Err(error) if forced => return Err(error),
                // It was there a moment ago.
                Err(error) => {
                    log::warn!("going on with the host: {error}");
                    None
                }
            },
        };
        let reads_files = match (&engine, source.settings.gpu_direct_storage) {
            (None, _) | (_, DirectStorage::Off) => false,
            (Some((engine, _)), DirectStorage::Auto) => engine.has_direct_storage().await,
            (Some((engine, _)), DirectStorage::On) => {
                engine.prepare_storage().await.map_err(|reason| {
                    exec_datafusion_err!(
                        "vcz.gpu_direct_storage = 'on': {reason}; use SET vcz.gpu_direct_storage = 'auto' or 'off'"
                    )
                })?;
                true
            }
        };
        Ok(Self {
            engine,
            reads_files,
        })
    }

    /// No device; an error where one was asked for by name.
    #[cfg(not(feature = "gpu"))]
    pub async fn of(source: &VczSource) -> Result<Self> {
        if source.settings.backend == Backend::Gpu && source.reads_samples() {
            return exec_err!(
                "vcz.backend = 'gpu': this program was built without the feature gpu; use SET vcz.backend = 'auto' or 'host'"
            );
        }
        Ok(Self {})
    }
}

/// A choice and its reason in words.
#[derive(Debug, Clone)]
pub struct Choice {
    /// What was chosen.
    pub chosen: Chosen,
    /// Why.
    pub reason: String,
}

impl Choice {
    fn host(reason: impl Into<String>) -> Self {
        Self {
            chosen: Chosen::Host,
            reason: reason.into(),
        }
    }

    /// As EXPLAIN shows it: `host (why)`.
    pub fn describe(&self) -> String {
        let backend = match self.chosen {
            Chosen::Host => "host",
            #[cfg(feature = "gpu")]
            Chosen::Gpu => "gpu",
        };
        format!("{backend} ({})", self.reason)
    }
}

/// The device numbers of `vcz.gpu_devices`; none for `all`.
pub fn parse_devices(value: &str) -> std::result::Result<Vec<usize>, String> {
    if value.trim().eq_ignore_ascii_case("all") {
        return Ok(vec![]);
    }
    let parse = |part: &str| {
        part.trim()
            .parse::<usize>()
            .ok()
            .filter(|device| *device < 64)
    };
    value
        .split(',')
        .map(parse)
        .collect::<Option<Vec<usize>>>()
        .ok_or_else(|| {
            format!(
                "vcz.gpu_devices must be 'all' or device numbers separated by commas such as '0,1', found '{value}'"
            )
        })
}

#[cfg(not(feature = "gpu"))]
impl VczSource {
    /// Which backend this scan uses.
    pub(in crate::scan) fn choice(&self) -> Choice {
        Choice::host("built without the feature gpu")
    }
}

impl VczSource {
    /// How many variant chunks to begin with, where it may be that few are needed: after a LIMIT, or with filters that change.
    pub(in crate::scan) fn few_chunks(&self) -> Option<usize> {
        let per_chunk = self.heavy_chunk_rows().max(1);
        match self.limit {
            Some(limit) => Some((limit as u64).div_ceil(per_chunk).max(1) as usize),
            None if !self.dynamic.is_empty() => Some(1),
            None => None,
        }
    }

    /// Whether an array over samples is read.
    #[cfg(not(feature = "gpu"))]
    fn reads_samples(&self) -> bool {
        let columns = self.table.dataset.columns();
        self.inputs.iter().any(|input| match input {
            super::source::Input::Array(column) => !columns[*column].is_site_level(),
            super::source::Input::Call(_) => true,
        })
    }
}

/// Whether an array has an axis besides variants, so that it may be worth a GPU.
fn is_over_samples(array: &ArrayMeta) -> bool {
    array.name.starts_with("call_") && array.rank() > 1
}

const SITES_ARE_THE_HOSTS: &str = "only arrays over samples go to a GPU";

/// What decodes an array where the settings leave the choice, and why.
#[cfg(not(feature = "gpu"))]
pub fn of_array(array: &ArrayMeta, _chain: &CodecChain) -> (&'static str, String) {
    let reason = if is_over_samples(array) {
        "built without the feature gpu"
    } else {
        SITES_ARE_THE_HOSTS
    };
    ("host", reason.to_string())
}

/// What decodes an array where the settings leave the choice, and why.
#[cfg(feature = "gpu")]
pub fn of_array(array: &ArrayMeta, chain: &CodecChain) -> (&'static str, String) {
    use crate::gpu::{EngineStatus, plan::ChunkPlanner, status};
    if !is_over_samples(array) {
        return ("host", SITES_ARE_THE_HOSTS.to_string());
    }
    let planner = match ChunkPlanner::try_new(array, chain) {
        Ok(planner) => planner,
        Err(reason) => return ("host", reason),
    };
    let files = if planner.is_plain() {
        "; from local files as vcz.gpu_direct_storage says"
    } else {
        ""
    };
    match status() {
        EngineStatus::Ready(engine) => {
            if let Err(reason) = engine.decodes(&planner.estimate()) {
                return ("host", reason);
            }
            let names: Vec<&str> = engine.devices().iter().map(|d| d.name.as_str()).collect();
            (
                "gpu",
                format!(
                    "{} where vcz.backend is 'gpu', or 'auto' and it pays{files}",
                    names.join(", ")
                ),
            )
        }
        EngineStatus::Off(reason) => ("host", reason),
        EngineStatus::Idle | EngineStatus::Starting => {
            ("host", "the GPU is still being started".to_string())
        }
    }
}

/// Waits until it is known whether there is a device.
pub async fn settled() {
    #[cfg(feature = "gpu")]
    if let Err(reason) = crate::gpu::ready().await {
        log::debug!("no GPU: {reason}");
    }
}

/// Starts what takes time to start, where these settings may use it.
pub fn warm_up(settings: &VczSettings) {
    #[cfg(feature = "gpu")]
    if settings.backend != Backend::Host {
        crate::gpu::start();
    }
    #[cfg(not(feature = "gpu"))]
    let _ = settings;
}

#[cfg(feature = "gpu")]
mod with_gpu {
    use datafusion::common::{DataFusionError, exec_datafusion_err};

    use super::*;
    use crate::error::VczError;
    use crate::gpu::plan::ChunkPlanner;
    use crate::gpu::{self, EngineStatus, GpuEngine, Load};
    use crate::scan::calls::call::{GENOTYPE_CLASSES, GenotypeCall};
    use crate::scan::plan::ranges::{chunks_in, rows_in};
    use crate::scan::plan::source::Input;
    use crate::scan::schema::ColumnSpec;
    use crate::store::ElementType;

    impl VczSource {
        /// Which backend this scan uses.
        pub(in crate::scan) fn choice(&self) -> Choice {
            if self.settings.backend == Backend::Host {
                return Choice::host("vcz.backend = 'host'");
            }
            let heavy = self.heavy();
            if heavy.is_empty() {
                return Choice::host("no array over samples is read");
            }
            if self.settings.backend == Backend::Gpu {
                return Choice {
                    chosen: Chosen::Gpu,
                    reason: "vcz.backend = 'gpu'".to_string(),
                };
            }
            let mut loads = Vec::new();
            for (column, output) in heavy {
                match self.load(column, output) {
                    Ok(load) => loads.push(load),
                    Err(reason) => {
                        let name = &self.table.dataset.columns()[column].array.name;
                        return Choice::host(format!("auto: {name}: {reason}"));
                    }
                }
            }
            let engine = match gpu::status() {
                EngineStatus::Ready(engine) => engine,
                EngineStatus::Off(reason) => return Choice::host(format!("auto: {reason}")),
                EngineStatus::Idle | EngineStatus::Starting => {
                    return Choice::host("auto: the GPU is still being started");
                }
            };
            if let Some(reason) = loads
                .iter()
                .find_map(|load| engine.decodes(&load.estimate).err())
            {
                return Choice::host(format!("auto: {reason}"));
            }
            compare(loads, &engine)
        }

        /// Fails, with the reason, where `vcz.backend = 'gpu'` cannot be done. Waits until the engine is there or not.
        pub(in crate::scan) async fn engine(&self) -> Result<Arc<GpuEngine>> {
            let refuse = |reason: String| {
                exec_datafusion_err!(
                    "vcz.backend = 'gpu': {reason}; use SET vcz.backend = 'auto' or 'host'"
                )
            };
            let engine = gpu::ready().await.map_err(refuse)?;
            let devices = parse_devices(&self.settings.gpu_devices).map_err(refuse)?;
            engine
                .configure(&devices, self.settings.gpu_memory_limit)
                .map_err(refuse)?;
            Ok(engine)
        }

        /// Arrays over samples that are read, with the bytes that a device would give back of each.
        fn heavy(&self) -> Vec<(usize, usize)> {
            let columns = self.table.dataset.columns();
            let genotype = self.table.dataset.column_index("call_genotype");
            let rows = rows_in(&self.kept) as usize;
            let mut heavy: Vec<(usize, usize)> = Vec::new();
            let n_alleles = self.table.context.n_alleles().unwrap_or(1);
            for input in &self.inputs {
                let (column, row_bytes) = match (input, genotype) {
                    (Input::Array(column), _) if !columns[*column].is_site_level() => {
                        (*column, columns[*column].row_bytes())
                    }
                    (Input::Call(call), Some(column)) => {
                        let bytes = match call {
                            GenotypeCall::SelectSamples(samples) => {
                                samples.len() * self.table.context.ploidy()
                            }
                            GenotypeCall::GenotypeCounts(_) => GENOTYPE_CLASSES.len() * 4,
                            _ => call.allele_sets(&self.table.context).len() * n_alleles * 4,
                        };
                        (column, bytes)
                    }
                    _ => continue,
                };
                let output = rows.saturating_mul(row_bytes);
                match heavy.iter_mut().find(|(known, _)| *known == column) {
                    Some((_, known)) => *known = known.saturating_add(output),
                    None => heavy.push((column, output)),
                }
            }
            heavy
        }

        fn load(&self, column: usize, output: usize) -> Result<Load, String> {
            let dataset = &self.table.dataset;
            let spec = &dataset.columns()[column];
            let chain = dataset.chain(column).map_err(|e| e.to_string())?;
            let counts = !self
                .inputs
                .iter()
                .any(|input| matches!(input, Input::Array(at) if *at == column));
            let planner = planner(spec, chain, counts)?;
            let estimate = planner.estimate();
            let genotype = dataset.column_index("call_genotype");
            let across: u64 = spec.array.grid_shape().iter().skip(1).product();
            let chunks = chunks_in(&self.kept, spec.array.chunks[0]).saturating_mul(across);
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            Ok(Load {
                chunks: chunks as usize,
                estimate,
                on_planes: counts && chain.as_plain_blosc().is_some(),
                shuffled: chain.summary().contains("shuffle"),
                selects: self.inputs.iter().any(|input| {
                    matches!(input, Input::Call(GenotypeCall::SelectSamples(_)))
                        && genotype == Some(column)
                }),
                output,
                threads: self.partitions.len().min(cores),
                // Known where there is an engine.
                batch: 0,
            })
        }
    }

    fn compare(loads: Vec<Load>, engine: &GpuEngine) -> Choice {
        let (mut gpu, mut host, mut frames) = (0.0, 0.0, 0);
        let threads = loads.first().map_or(1, |load| load.threads);
        for load in loads {
            let batch = engine.queue().room(&load.estimate);
            let predicted = Load { batch, ..load }.predict();
            gpu += predicted.gpu.as_secs_f64();
            host += predicted.host.as_secs_f64();
            frames += load.chunks * load.estimate.frames;
        }
        let numbers = format!(
            "about {} ms for {frames} frames against {} ms on {threads} threads",
            rounded(gpu * 1e3),
            rounded(host * 1e3)
        );
        if gpu < host {
            Choice {
                chosen: Chosen::Gpu,
                reason: format!("auto: {numbers}"),
            }
        } else {
            Choice::host(format!("auto: the GPU would take {numbers}"))
        }
    }

    /// A number of milliseconds with about two digits.
    fn rounded(value: f64) -> String {
        if value < 10.0 {
            format!("{value:.1}")
        } else {
            format!("{value:.0}")
        }
    }

    /// How a device decodes an array over samples.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn planner(
        spec: &ColumnSpec,
        chain: &CodecChain,
        counts: bool,
    ) -> Result<ChunkPlanner, String> {
        let signed = matches!(
            spec.array.element,
            ElementType::Int8 | ElementType::Int16 | ElementType::Int32 | ElementType::Int64
        );
        if counts && !signed {
            return Err(format!(
                "genotype codes of type {} are counted on the host",
                spec.array.element
            ));
        }
        ChunkPlanner::try_new(&spec.array, chain)
    }

    /// The error of an array that `vcz.backend = 'gpu'` was asked for but that no device decodes.
    pub fn not_on_gpu(error: VczError) -> DataFusionError {
        exec_datafusion_err!("vcz.backend = 'gpu': {error}; use SET vcz.backend = 'auto' or 'host'")
    }
}

#[cfg(feature = "gpu")]
pub use with_gpu::{not_on_gpu, planner};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_all_or_numbers() {
        assert_eq!(parse_devices("all").unwrap(), [] as [usize; 0]);
        assert_eq!(parse_devices("0, 3").unwrap(), [0, 3]);
        for wrong in ["", "x", "0,,1", "-1", "64"] {
            assert!(
                parse_devices(wrong)
                    .unwrap_err()
                    .contains("vcz.gpu_devices")
            );
        }
    }
}
