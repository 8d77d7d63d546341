//! The CUDA implementation: contexts and memory, nvCOMP, the kernels, and the worker that runs batches.
//!
//! Libraries are loaded at run time, so the program also runs without them.

mod batch_description;
mod cufile;
mod filter_description;
mod kernel_cache;
mod kernels;
mod launches;
mod libraries;
mod memory;
mod nvcomp;
mod tables;
mod worker;
mod zstd;

use std::sync::Arc;

use cudarc::driver::sys::CUdevice_attribute;
use cudarc::driver::{CudaContext, DriverError};

use super::decode_scratch::DecodeScratch;
use super::queue_state::FreeMemory;
use crate::gpu::error::GpuError;
pub use cufile::CuFileStorage;
use kernels::Kernels;
pub use libraries::{nvcomp_is_named, search_python_prefix};
pub use memory::Pinned;
pub use nvcomp::Nvcomp;
pub use worker::Worker;

/// A device that is ready to run batches.
#[derive(Debug)]
pub struct Device {
    /// Its number, as in `vcz.gpu_devices`.
    pub ordinal: usize,
    /// Its name, e.g. `NVIDIA H200`.
    pub name: String,
    /// Bytes of its memory.
    pub memory: usize,
    /// Number of streaming multiprocessors.
    multiprocessors: u32,
    context: Arc<CudaContext>,
    kernels: Kernels,
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

impl Device {
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
        })
    }

    /// Bytes of its memory that no process uses.
    ///
    /// # Errors
    /// The error of the driver.
    fn free_memory(&self) -> Result<u64, GpuError> {
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

/// Scratch memory for decoding, on the device that needs most.
pub fn decode_scratch(devices: &[Arc<Device>]) -> DecodeScratch {
    let of = |device: &Arc<Device>| zstd::decode_scratch(device.multiprocessors);
    devices
        .iter()
        .map(of)
        .max_by_key(|scratch| scratch.0)
        .unwrap_or_default()
}

/// Free memory of these devices, and the scratch memory for decoding.
#[derive(Debug)]
pub struct DeviceMemory(pub Vec<Arc<Device>>, pub DecodeScratch);

impl DeviceMemory {
    /// The devices that are among `devices` (bits).
    fn used(&self, devices: u64) -> impl Iterator<Item = &Arc<Device>> {
        let is_used = move |device: &&Arc<Device>| devices >> (device.ordinal % 64) & 1 != 0;
        self.0.iter().filter(is_used)
    }
}

impl FreeMemory for DeviceMemory {
    fn decode_scratch(&self) -> DecodeScratch {
        self.1
    }

    fn count(&self, devices: u64) -> usize {
        self.used(devices).count()
    }

    fn free(&self, devices: u64) -> u64 {
        // A device that fails reports no free memory.
        let free = self
            .used(devices)
            .map(|device| device.free_memory().unwrap_or(0));
        free.min().unwrap_or(0)
    }
}
