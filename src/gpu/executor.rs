//! What runs batches: a worker of a device, or, in tests, the host doing the same thing step by step.

use super::batch::{Batch, Times};
use super::slab::Slab;
use super::watchdog::Pulse;

/// Why a batch did not run.
#[derive(Debug)]
pub enum Failure {
    /// This batch cannot be run; the next may.
    Batch(String),
    /// Nothing can be run any more.
    Device(String),
}

/// What a batch gave.
#[derive(Debug)]
pub struct Results<'a> {
    /// The results of its jobs, each at its `out`.
    pub bytes: &'a [u8],
    /// For each job a status: 0, or bits such as [`BAD_CODE`](super::abi::BAD_CODE).
    pub statuses: &'a [u32],
    /// Jobs that could not be read from their files, or that the device cannot do, and why; their results mean nothing.
    pub unread: &'a [(usize, String)],
    /// How long it took.
    pub times: Times,
}

/// Runs batches, one after the other.
pub trait Executor: Send {
    /// Runs a batch, and says when it waits for files and when for the device.
    ///
    /// # Errors
    /// Why it did not run, and whether another can.
    fn run(&mut self, batch: &Batch, pulse: Pulse<'_>) -> Result<Results<'_>, Failure>;

    /// Bytes of device memory held.
    fn device_bytes(&self) -> usize;

    /// Gives back device memory that the next batch would take again.
    fn release(&mut self);

    /// Staging memory that it copies from at full speed, where it has a kind of its own and can get that much.
    fn page_locked(&self, _len: usize) -> Option<Slab> {
        None
    }
}
