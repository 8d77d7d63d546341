//! The tables that describe a batch to the device, built in one buffer of host memory and copied with one copy.
//!
//! Invariant: the device memory is allocated before the first table is written, so that every address is known; its size is
//! an upper bound that [`Tables::push`] enforces.

use bytemuck::Pod;

use super::device::CudaDevice;
use super::memory::{DeviceBuffer, Pinned};
use crate::gpu::batch::align_up;
use crate::gpu::error::GpuError;

/// Tables of one batch.
#[derive(Debug)]
pub struct Tables {
    host: Pinned,
    device: DeviceBuffer,
    address: u64,
    len: usize,
    room: usize,
}

impl Tables {
    /// No tables, with host memory for `len` bytes.
    pub fn new(device: &CudaDevice, len: usize) -> Result<Self, GpuError> {
        Ok(Self {
            host: Pinned::new(device, len)?,
            device: DeviceBuffer::new(device),
            address: 0,
            len: 0,
            room: 0,
        })
    }

    /// Starts over, with room for `room` bytes.
    pub fn start(&mut self, device: &CudaDevice, room: usize) -> Result<(), GpuError> {
        self.host.ensure(device, room)?;
        self.address = self.device.ensure("the tables of a batch", room)?;
        (self.len, self.room) = (0, room);
        Ok(())
    }

    /// Adds a table and returns its device address.
    pub fn push<T: Pod>(&mut self, items: &[T]) -> Result<u64, GpuError> {
        let bytes: &[u8] = bytemuck::cast_slice(items);
        let start = self.len;
        let end = align_up(start + bytes.len());
        if end > self.room {
            return Err(format!(
                "the tables of a batch need {end} bytes, {} were allocated",
                self.room
            )
            .into());
        }
        if let Some(to) = self.host.bytes_mut(end).get_mut(start..start + bytes.len()) {
            to.copy_from_slice(bytes);
        }
        self.len = end;
        Ok(self.address + start as u64)
    }

    /// The tables as bytes, and their device address.
    pub fn image(&self) -> (&[u8], u64) {
        (self.host.bytes(self.len), self.address)
    }

    /// Bytes of device memory held.
    pub fn device_bytes(&self) -> usize {
        self.device.len()
    }
}

/// Bytes of a table of `n` items.
pub fn room_for<T>(n: usize) -> usize {
    align_up(n * size_of::<T>())
}
