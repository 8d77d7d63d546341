//! Decoding and counting on NVIDIA GPUs: encoded chunks in, counts or elements out. Beside `counts`, which does the same on
//! the host, and below the scan; knows nothing of DataFusion.
//!
//! * `plan`: what a device has to do with one encoded chunk, worked out from its bytes on the host.
//! * `work`: what is wanted of the chunks of an array.
//! * `queue`, `state`, `batch`, `slab`: chunks of all partitions gathered into batches of thousands of frames.
//! * `seen`: what chunks came to, for those after them.
//! * `temporary`: what decoding takes of device memory.
//! * `engine`: the process's devices and their workers, started in the background.
//! * `serve`, `watchdog`: the life of a worker, from the queue's batches to results; and what if a device does not answer.
//! * `executor`: what runs batches; `cuda` is the real one: contexts, the kernels of `kernels/`, nvCOMP.
//! * `direct`: chunks that devices read from their files themselves.
//! * `cost`: whether a scan is worth it.
//!
//! Whatever a device cannot do, or reports an error for, is the host's ([`Outcome::Host`]): it gives the same answer, or
//! finds out what is wrong.

mod abi;
mod batch;
mod cost;
mod cuda;
mod direct;
mod engine;
#[cfg(test)]
mod equivalence_tests;
mod executor;
pub mod plan;
mod queue;
mod seen;
mod serve;
mod slab;
#[cfg(test)]
pub(crate) mod software;
mod state;
mod temporary;
#[cfg(test)]
mod testing;
mod watchdog;
mod work;

pub use batch::{BatchLimits, Done, Outcome, Ticket, Times};
pub use cost::{Load, Prediction};
#[cfg(test)]
pub(crate) use engine::install;
pub use engine::{DeviceInfo, Engine, Status, is_at_work, is_starting, ready, start, status};
pub use queue::{Active, Encoded, Queue};
pub use seen::Seen;
pub use work::{Counts, Elements, Wanted, Work};
