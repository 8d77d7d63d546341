//! Everything that talks to CUDA: contexts and memory, nvCOMP, the kernels, and the worker that runs batches.
//!
//! Libraries are looked for at run time, so the program runs where there are none.

mod cufile;
mod description;
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

use super::state::FreeMemory;
use super::temporary::Temporary;
pub use cufile::CuFileStorage;
use kernels::Kernels;
pub use libraries::nvcomp_is_named;
pub use memory::Pinned;
pub use nvcomp::Nvcomp;
pub use worker::Worker;
pub use zstd::by_nvcomp as zstd_by_nvcomp;

/// A device that is ready to run batches.
#[derive(Debug)]
pub struct Device {
    /// Its number, as `vcz.gpu_devices` counts.
    pub ordinal: usize,
    /// Its name, e.g. `NVIDIA H200`.
    pub name: String,
    /// Bytes of its memory.
    pub memory: usize,
    /// Groups of its cores, each of which runs some blocks of threads at a time.
    multiprocessors: u32,
    context: Arc<CudaContext>,
    kernels: Kernels,
}

/// Number of devices, once the driver has been found and started.
///
/// # Errors
/// The reason why there is none.
pub fn device_count() -> Result<usize, String> {
    libraries::driver()?;
    let failed = |error: DriverError| format!("the NVIDIA driver did not start: {error}");
    cudarc::driver::result::init().map_err(failed)?;
    let count = CudaContext::device_count().map_err(failed)?;
    match usize::try_from(count) {
        Ok(count) if count > 0 => Ok(count),
        _ => Err("the NVIDIA driver finds no GPU".to_string()),
    }
}

impl Device {
    /// Makes device `ordinal` ready: its context and its kernels.
    ///
    /// # Errors
    /// The reason why it cannot be used.
    pub fn open(ordinal: usize) -> Result<Self, String> {
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

    /// Bytes of its memory that nobody uses.
    ///
    /// # Errors
    /// What the driver says.
    fn free_memory(&self) -> Result<u64, String> {
        self.bind()?;
        let (free, _) = cudarc::driver::result::mem_get_info()
            .map_err(|error| format!("GPU {}: {error}", self.ordinal))?;
        Ok(free as u64)
    }

    /// Makes this thread use the device.
    pub(super) fn bind(&self) -> Result<(), String> {
        self.context
            .bind_to_thread()
            .map_err(|error| format!("GPU {}: {error}", self.ordinal))
    }
}

/// What decoding takes of the memory of the device that it takes most of.
pub fn temporary(devices: &[Arc<Device>], nvcomp: bool) -> Temporary {
    let of = |device: &Arc<Device>| zstd::temporary(device.multiprocessors, nvcomp);
    devices
        .iter()
        .map(of)
        .max_by_key(|temporary| temporary.fixed)
        .unwrap_or_default()
}

/// Looks at the memory of these devices, of which decoding takes so much.
#[derive(Debug)]
pub struct DeviceMemory(pub Vec<Arc<Device>>, pub Temporary);

impl DeviceMemory {
    /// Those of these devices (bits) that there are.
    fn used(&self, devices: u64) -> impl Iterator<Item = &Arc<Device>> {
        let is_used = move |device: &&Arc<Device>| devices >> (device.ordinal % 64) & 1 != 0;
        self.0.iter().filter(is_used)
    }
}

impl FreeMemory for DeviceMemory {
    fn temporary(&self) -> Temporary {
        self.1
    }

    fn count(&self, devices: u64) -> usize {
        self.used(devices).count()
    }

    fn free(&self, devices: u64) -> u64 {
        // A device that has failed has nothing to spare.
        let free = self
            .used(devices)
            .map(|device| device.free_memory().unwrap_or(0));
        free.min().unwrap_or(0)
    }
}
