//! [`CudaDevice`]: a device with its context and kernels.

use std::sync::{Arc, OnceLock};

use cudarc::driver::sys::CUdevice_attribute;
use cudarc::driver::{CudaContext, DriverError};

use super::kernels::{Kernels, PairKernels, SiteKernels};
use super::libraries;
use crate::gpu::error::GpuError;

/// A device that is ready to run batches.
#[derive(Debug)]
pub struct CudaDevice {
    /// Its number, as in `vcz.gpu_devices`.
    pub ordinal: usize,
    /// Its name, e.g. `NVIDIA H200`.
    pub name: String,
    /// Bytes of its memory.
    pub memory: usize,
    /// Number of streaming multiprocessors.
    pub(super) multiprocessors: u32,
    pub(super) context: Arc<CudaContext>,
    pub(super) kernels: Kernels,
    pair_kernels: OnceLock<Result<PairKernels, GpuError>>,
    site_kernels: OnceLock<Result<SiteKernels, GpuError>>,
}

/// Loads and initialises the driver. Returns the number of devices, at least one.
///
/// # Errors
/// The reason why there is none.
pub fn device_count() -> Result<usize, GpuError> {
    libraries::driver()?;
    let failed =
        |error: DriverError| format!("the NVIDIA driver could not be initialised: {error}");
    cudarc::driver::result::init().map_err(failed)?;
    let count = CudaContext::device_count().map_err(failed)?;
    match usize::try_from(count) {
        Ok(count) if count > 0 => Ok(count),
        _ => Err("the NVIDIA driver finds no GPU".into()),
    }
}

impl CudaDevice {
    /// Creates the context of device `ordinal` and loads the kernels.
    ///
    /// # Errors
    /// The reason why it cannot be used.
    pub fn open(ordinal: usize) -> Result<Self, GpuError> {
        let failed = |error: DriverError| format!("GPU {ordinal}: {error}");
        let context = CudaContext::new(ordinal).map_err(failed)?;
        let (major, minor) = context.compute_capability().map_err(failed)?;
        let kernels = Kernels::load(major, minor).map_err(|e| format!("GPU {ordinal}: {e}"))?;
        let multiprocessors = context
            .attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
            .map_err(failed)?;
        Ok(Self {
            ordinal,
            multiprocessors: u32::try_from(multiprocessors).unwrap_or(1).max(1),
            name: context.name().map_err(failed)?,
            memory: context.total_mem().map_err(failed)?,
            context,
            kernels,
            pair_kernels: OnceLock::new(),
            site_kernels: OnceLock::new(),
        })
    }

    /// The kernels that count pairs, loaded on first use.
    ///
    /// # Errors
    /// The reason why they cannot be used.
    pub(super) fn pair_kernels(&self) -> Result<&PairKernels, GpuError> {
        self.loaded(&self.pair_kernels, PairKernels::load)
    }

    /// The kernels that sum over pairs of sites, loaded on first use.
    ///
    /// # Errors
    /// The reason why they cannot be used.
    pub(super) fn site_kernels(&self) -> Result<&SiteKernels, GpuError> {
        self.loaded(&self.site_kernels, SiteKernels::load)
    }

    /// Kernels that `load` loads for a compute capability, on first use.
    fn loaded<'a, K>(
        &self,
        kernels: &'a OnceLock<Result<K, GpuError>>,
        load: impl Fn(i32, i32) -> Result<K, GpuError>,
    ) -> Result<&'a K, GpuError> {
        self.bind()?;
        let kernels = kernels.get_or_init(|| {
            let failed = |error: String| format!("GPU {}: {error}", self.ordinal);
            let (major, minor) = self
                .context
                .compute_capability()
                .map_err(|error| failed(error.to_string()))?;
            load(major, minor).map_err(|error| failed(error.to_string()).into())
        });
        kernels.as_ref().map_err(Clone::clone)
    }

    /// Bytes of its memory that no process uses.
    ///
    /// # Errors
    /// The error of the driver.
    pub(super) fn free_memory(&self) -> Result<u64, GpuError> {
        self.bind()?;
        let (free, _) = cudarc::driver::result::mem_get_info()
            .map_err(|error| format!("GPU {}: {error}", self.ordinal))?;
        Ok(free as u64)
    }

    /// Makes the device's context current on this thread.
    pub(super) fn bind(&self) -> Result<(), GpuError> {
        self.context
            .bind_to_thread()
            .map_err(|error| format!("GPU {}: {error}", self.ordinal).into())
    }
}
