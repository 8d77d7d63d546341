//! Device memory and page-locked host memory. Both grow on demand and are kept, so steady work allocates nothing.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::{CudaContext, result, sys};

use super::device::CudaDevice;
use crate::gpu::error::GpuError;
use crate::gpu::slab::Memory;

/// Allocations are rounded up to this many bytes or more, see [`rounded`].
const STEP: usize = 1 << 20;

/// `len` rounded up, by an eighth at most. Growing is slow and waits for all work on the device; with few possible sizes,
/// batches of different sizes soon stop growing buffers.
fn rounded(len: usize) -> Option<usize> {
    let step = len.checked_next_power_of_two()? / 16;
    len.checked_next_multiple_of(step.max(STEP))
}

/// A buffer of device memory that grows on demand. Growing discards its contents.
#[derive(Debug)]
pub struct DeviceBuffer {
    context: Arc<CudaContext>,
    address: sys::CUdeviceptr,
    len: usize,
}

impl DeviceBuffer {
    /// An empty buffer.
    pub fn new(device: &CudaDevice) -> Self {
        Self {
            context: Arc::clone(&device.context),
            address: 0,
            len: 0,
        }
    }

    /// Grows to at least `len` bytes; returns the address. No work on the device may be using the buffer.
    pub fn ensure(&mut self, what: &str, len: usize) -> Result<u64, GpuError> {
        if len > self.len {
            self.release();
            let rounded = rounded(len)
                .ok_or_else(|| format!("{len} bytes for {what} do not fit on the device"))?;
            // SAFETY: the context is current on this thread, and memory is written before it is read.
            let address = unsafe { result::malloc_sync(rounded) }
                .map_err(|error| format!("{rounded} bytes for {what} on the device: {error}"))?;
            (self.address, self.len) = (address, rounded);
        }
        Ok(self.address)
    }

    /// Its address; 0 if it is empty.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Bytes held.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Leaves the memory allocated, for a device that is lost.
    pub fn forget(&mut self) {
        (self.address, self.len) = (0, 0);
    }

    fn release(&mut self) {
        if self.address != 0 {
            // SAFETY: allocated by `ensure` and not used any more. An error means that the device is lost.
            let _ = unsafe { result::free_sync(self.address) };
            (self.address, self.len) = (0, 0);
        }
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            self.release();
        }
    }
}

/// Page-locked host memory, which devices copy from and to at full speed.
#[derive(Debug)]
pub struct Pinned {
    context: Arc<CudaContext>,
    pointer: *mut u8,
    len: usize,
}

// SAFETY: plain memory; users of the slab ensure exclusive access to bytes.
unsafe impl Send for Pinned {}
// SAFETY: as above.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// Allocates `len` bytes that every device can use. Takes half a second per GiB.
    pub fn new(device: &CudaDevice, len: usize) -> Result<Self, GpuError> {
        device.bind()?;
        // SAFETY: the context is current; the bytes are zeroed below.
        let pointer = unsafe { result::malloc_host(len.max(1), sys::CU_MEMHOSTALLOC_PORTABLE) }
            .map_err(|error| format!("{len} bytes of page-locked memory: {error}"))?
            .cast::<u8>();
        // SAFETY: `len` bytes were allocated.
        unsafe { pointer.write_bytes(0, len) };
        Ok(Self {
            context: Arc::clone(&device.context),
            pointer,
            len,
        })
    }

    /// Grows to at least `len` bytes. Growing discards the contents.
    pub fn ensure(&mut self, device: &CudaDevice, len: usize) -> Result<(), GpuError> {
        if len > self.len {
            let rounded = rounded(len)
                .ok_or_else(|| format!("{len} bytes do not fit in page-locked memory"))?;
            *self = Self::new(device, rounded)?;
        }
        Ok(())
    }

    /// The first `len` bytes (or all, if there are fewer).
    pub fn bytes(&self, len: usize) -> &[u8] {
        // SAFETY: within the allocation, which is initialised; the owning worker waits for the device before it reads.
        unsafe { std::slice::from_raw_parts(self.pointer, len.min(self.len)) }
    }

    /// The first `len` bytes (or all, if there are fewer), to write to.
    pub fn bytes_mut(&mut self, len: usize) -> &mut [u8] {
        // SAFETY: as above, and borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.pointer, len.min(self.len)) }
    }
}

// SAFETY: allocated and zeroed by `new`, freed by `drop`.
unsafe impl Memory for Pinned {
    fn as_mut_ptr(&self) -> *mut u8 {
        self.pointer
    }

    fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: allocated by `new`. An error means a lost device.
            let _ = unsafe { result::free_host(self.pointer.cast::<c_void>()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_up() {
        assert_eq!(rounded(1), Some(STEP));
        assert_eq!(rounded(0), Some(0));
        assert_eq!(rounded(1 << 30), Some(1 << 30));
        assert_eq!(rounded(usize::MAX), None);
        for len in (0..200).map(|i| i * 77_777_777) {
            let room = rounded(len).unwrap();
            assert!(
                len <= room && room <= len + (len / 8).max(STEP),
                "{len} {room}"
            );
        }
    }
}
