//! [`DeviceMemory`]: free memory of devices, and how much of it decoding needs.

use std::sync::Arc;

use super::device::CudaDevice;
use super::zstd;
use crate::gpu::decode_scratch::DecodeScratch;
use crate::gpu::queue_state::FreeMemory;

/// Scratch memory for decoding, on the device that needs most.
pub fn decode_scratch(devices: &[Arc<CudaDevice>]) -> DecodeScratch {
    let of = |device: &Arc<CudaDevice>| zstd::decode_scratch(device.multiprocessors);
    devices
        .iter()
        .map(of)
        .max_by_key(|scratch| scratch.0)
        .unwrap_or_default()
}

/// Free memory of these devices, and the scratch memory for decoding.
#[derive(Debug)]
pub struct DeviceMemory(pub Vec<Arc<CudaDevice>>, pub DecodeScratch);

impl DeviceMemory {
    /// The devices that are among `devices` (bits).
    fn used(&self, devices: u64) -> impl Iterator<Item = &Arc<CudaDevice>> {
        let is_used = move |device: &&Arc<CudaDevice>| devices >> (device.ordinal % 64) & 1 != 0;
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
