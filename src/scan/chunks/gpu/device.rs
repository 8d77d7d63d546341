//! [`Gpus`]: the GPUs of an execution.

use std::fmt::Display;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result, exec_datafusion_err};

use crate::codec::CodecChain;
use crate::counts::CallRange;
use crate::error::VczError;
use crate::gpu::plan::ChunkPlanner;
use crate::gpu::{self, EngineStatus, FieldTest, GpuEngine, GpuError, PlannedCallFilter};
use crate::scan::calls::filters::CallFilters;
use crate::scan::chunks::HostReason;
use crate::scan::chunks::field_filters::FieldFilters;
use crate::scan::dataset::Dataset;
use crate::scan::options::{Backend, DirectStorage, MAX_GPU_WORKERS, VczSettings, parse_devices};
use crate::scan::schema::ColumnSpec;
use crate::store::{ArrayMeta, ElementType};

const _: () = assert!(MAX_GPU_WORKERS == gpu::WORKERS_PER_DEVICE);

/// The GPUs of an execution.
#[derive(Debug, Clone)]
pub struct Gpus {
    /// Their engine.
    pub engine: Arc<GpuEngine>,
    /// Whether an array over samples that they cannot decode is an error, instead of being decoded by the host.
    pub is_required: bool,
    /// Whether they read uncompressed chunks directly from local files.
    pub reads_files: bool,
    filters_calls: bool,
}

impl Gpus {
    /// The GPUs that the settings name; waits until it is known whether there are any.
    ///
    /// # Errors
    /// The reason why they cannot be used, for `vcz.backend = 'gpu'`.
    pub async fn open(settings: &VczSettings) -> Result<Self> {
        let engine = gpu::ready().await.map_err(refused)?;
        let devices = parse_devices(&settings.gpu_devices).map_err(refused)?;
        engine
            .configure(&devices, settings.gpu_memory_limit)
            .map_err(refused)?;
        engine.set_workers(settings.gpu_workers);
        Ok(Self {
            engine,
            is_required: settings.backend == Backend::Gpu,
            reads_files: false,
            filters_calls: false,
        })
    }

    /// These GPUs, which filter calls by FORMAT fields (`filters_calls`), or leave that to the host.
    pub fn filtering_calls(self, filters_calls: bool) -> Self {
        Self {
            filters_calls,
            ..self
        }
    }

    /// Whether they filter calls by FORMAT fields.
    pub fn filters_calls(&self) -> bool {
        self.filters_calls
    }

    /// With GPUDirect Storage, as `vcz.gpu_direct_storage` says.
    ///
    /// # Errors
    /// The reason why files cannot be read that way, if it was required.
    pub async fn with_storage(self, settings: &VczSettings) -> Result<Self> {
        let reads_files = match settings.gpu_direct_storage {
            DirectStorage::Off => false,
            DirectStorage::Auto => self.engine.has_direct_storage().await,
            DirectStorage::On => {
                self.engine.prepare_storage().await.map_err(|reason| {
                    exec_datafusion_err!(
                        "vcz.gpu_direct_storage = 'on': {reason}; use SET vcz.gpu_direct_storage = 'auto' or 'off'"
                    )
                })?;
                true
            }
        };
        Ok(Self {
            reads_files,
            ..self
        })
    }

    /// The planner of these GPUs for an array over samples, only to count it or with its elements.
    ///
    /// # Errors
    /// The reason why they cannot decode it.
    pub fn planner(
        &self,
        spec: &ColumnSpec,
        chain: &CodecChain,
        only_calls: bool,
    ) -> Result<ChunkPlanner, GpuError> {
        let planner = planner(spec, chain, only_calls)?;
        self.engine.decodes(&planner.estimate())?;
        Ok(planner)
    }

    /// The filter of calls in chunks of `genotypes`, and nothing where there is none.
    ///
    /// # Errors
    /// The reason why these GPUs cannot apply it.
    pub fn call_filter(
        &self,
        dataset: &Dataset,
        genotypes: &ChunkPlanner,
        filters: &FieldFilters,
    ) -> Result<Option<PlannedCallFilter>, GpuError> {
        if filters.is_empty() {
            return Ok(None);
        }
        let filter = call_filter(dataset, genotypes, filters)?;
        for field in filter.fields() {
            self.engine.decodes(&field.estimate())?;
        }
        Ok(Some(filter))
    }

    /// Leaves an array to the host, for this reason; an error if a GPU was required.
    pub fn leave_to_host(&self, array: &ArrayMeta, error: VczError) -> Result<()> {
        if self.is_required {
            return Err(refused(error));
        }
        log::debug!("array '{}' is decoded on the host: {error}", array.name);
        Ok(())
    }
}

/// The error if `vcz.backend = 'gpu'` is not possible.
fn refused(reason: impl Display) -> DataFusionError {
    exec_datafusion_err!("vcz.backend = 'gpu': {reason}; use SET vcz.backend = 'auto' or 'host'")
}

/// The planner for decoding an array over samples on a GPU.
///
/// # Errors
/// The reason why a GPU cannot decode it.
pub fn planner(
    spec: &ColumnSpec,
    chain: &CodecChain,
    only_calls: bool,
) -> Result<ChunkPlanner, GpuError> {
    let signed = matches!(
        spec.array.element,
        ElementType::Int8 | ElementType::Int16 | ElementType::Int32 | ElementType::Int64
    );
    if only_calls && !signed {
        return Err(format!(
            "genotype codes of type {} are counted on the host",
            spec.array.element
        )
        .into());
    }
    ChunkPlanner::try_new(&spec.array, chain)
}

/// The filter of calls in chunks of `genotypes` by fields of a store.
///
/// # Errors
/// The reason why a GPU cannot apply it.
fn call_filter(
    dataset: &Dataset,
    genotypes: &ChunkPlanner,
    filters: &FieldFilters,
) -> Result<PlannedCallFilter, GpuError> {
    let mut fields = Vec::with_capacity(filters.fields.len());
    for column in &filters.fields {
        let spec = &dataset.columns()[*column];
        let name = spec.array.name.as_str();
        let chain = dataset.chain(*column).map_err(|error| error.to_string())?;
        let planner = planner(spec, chain, false).map_err(|reason| format!("{name}: {reason}"))?;
        fields.push((name, planner));
    }
    let mut tests = Vec::with_capacity(filters.filters.len());
    for filter in &filters.filters {
        let Some(column) = filters.fields.get(filter.field) else {
            return Err("a filter of a field that is not read".into());
        };
        let spec = &dataset.columns()[*column];
        // In a store whose calls have fewer values than the table's, others are NULL.
        let values = spec.values_per_call().unwrap_or(1);
        let (at, range) = match u32::try_from(filter.at) {
            Ok(at) if filter.at < values => {
                let range = CallRange::try_new(spec.array.element, &filter.test)?;
                (at, range)
            }
            _ => (0, CallRange::NONE),
        };
        tests.push(FieldTest {
            field: filter.field,
            at,
            range,
        });
    }
    PlannedCallFilter::try_new(genotypes, fields, tests)
}

/// Whether a GPU can filter the calls of the genotypes, column `column` of a store.
///
/// # Errors
/// The reason for the host.
pub fn can_filter(
    dataset: &Dataset,
    column: usize,
    filters: &CallFilters,
) -> Result<(), HostReason> {
    let spec = &dataset.columns()[column];
    let chain = dataset.chain(column)?;
    let genotypes =
        planner(spec, chain, true).map_err(|reason| format!("{}: {reason}", spec.array.name))?;
    let filters = FieldFilters::try_new(dataset, filters).map_err(|error| error.to_string())?;
    call_filter(dataset, &genotypes, &filters)
        .map(drop)
        .map_err(HostReason::from)
}

/// The backend of an array over samples if the settings leave the choice, and the reason.
pub fn of_array(array: &ArrayMeta, chain: &CodecChain) -> (&'static str, String) {
    let planner = match ChunkPlanner::try_new(array, chain) {
        Ok(planner) => planner,
        Err(reason) => return ("host", reason.into()),
    };
    let files = if planner.is_plain() {
        "; from local files as vcz.gpu_direct_storage says"
    } else {
        ""
    };
    match gpu::status() {
        EngineStatus::Ready(engine) => {
            if let Err(reason) = engine.decodes(&planner.estimate()) {
                return ("host", reason.into());
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
        EngineStatus::Off(reason) => ("host", reason.into()),
        EngineStatus::Idle | EngineStatus::Starting => {
            ("host", "the GPU is still being started".to_string())
        }
    }
}

/// Waits until it is known whether there is a GPU.
pub async fn wait_for_status() {
    if let Err(reason) = gpu::ready().await {
        log::debug!("no GPU: {reason}");
    }
}

/// Starts the GPU engine in the background.
pub fn warm_up() {
    gpu::start();
}
