//! The interface for running batches: a worker of a device, or in tests a step-by-step implementation on the host.

use super::batch::{Batch, Times};
use super::slab::Slab;
use super::watchdog::BatchProgress;
use crate::counts::ResidentChunk;
use crate::gpu::error::GpuError;

/// Why a batch did not run.
#[derive(Debug)]
pub enum Failure {
    /// This batch failed; the next one can run.
    Batch(GpuError),
    /// The device is lost; no batch can run any more.
    Device(GpuError),
}

/// The results of a batch.
#[derive(Debug)]
pub struct Results<'a> {
    /// The results of its jobs, each at its `out`.
    pub bytes: &'a [u8],
    /// For each job a status: 0, or bits such as [`BAD_CODE`](super::abi::BAD_CODE).
    pub statuses: &'a [u32],
    /// For each job, the bytes of its results, from its `out` on: all, or the start.
    pub lengths: &'a [usize],
    /// Jobs whose files could not be read or that the device rejects, and why. Their results are undefined.
    pub unread: &'a [(usize, GpuError)],
    /// For each job its rows that have stayed on the device; empty if none have.
    pub resident: Vec<Option<ResidentChunk>>,
    /// How long it took.
    pub times: Times,
}

/// Runs batches, one after the other.
pub trait Executor: Send {
    /// Runs a batch, and reports to `progress` whether it waits for files or for the device.
    ///
    /// # Errors
    /// Why it failed, and whether the device is lost.
    fn run(&mut self, batch: &Batch, progress: BatchProgress<'_>) -> Result<Results<'_>, Failure>;

    /// Bytes of device memory held.
    fn device_bytes(&self) -> usize;

    /// Frees device memory; the next batch allocates it again.
    fn release(&mut self);

    /// Page-locked staging memory, which is copied at full speed; `None` if there is none.
    fn page_locked(&self, _len: usize) -> Option<Slab> {
        None
    }
}
