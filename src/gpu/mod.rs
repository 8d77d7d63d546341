//! Decoding and counting on NVIDIA GPUs: encoded chunks in; counts, bit-planes of genotypes or elements out. Beside `counts`, which does the same on
//! the host, and below the scan; knows nothing of DataFusion.
//!
//! * `plan`: the steps that decode one chunk on a device, planned on the host from the chunk's bytes.
//! * `work`: what a scan wants of an array's chunks: counts and bit-planes, or elements.
//! * `call_filter`: filters of calls by FORMAT fields, which are decoded next to the genotypes.
//! * `queue`, `queue_state`, `encoded`, `batch`, `slab`: chunks of all partitions, gathered into batches of thousands of frames.
//! * `unstaged`: limits encoded chunks that are not yet in a batch.
//! * `chunk_sizes`: statistics of chunk sizes, which size the next batches.
//! * `decode_scratch`: device memory that decoding needs besides its output.
//! * `engine`: the process's devices and their workers, started in the background.
//! * `memory_budget`: how much device memory is for decoding, and for counts over pairs.
//! * `serve`: a worker's loop from the queue's batches to results. `watchdog`: gives up on a device that does not respond.
//! * `error`: why a device, a library or a chunk cannot be used.
//! * `executor`: the trait that runs batches. `cuda` implements it with contexts, the kernels of `kernels/` and nvCOMP.
//! * `pairs`: counts over pairs, which devices make of rows of bit-planes for aggregates.
//! * `sites`: sums over pairs of sites. `site_jobs`: the parts in which a device computes them; `site_abi`: what kernels get; `site_error`: why
//!   a device does not.
//! * `direct`: files that devices read themselves (GPUDirect Storage).
//! * `cost`: predicts whether a scan is faster on a GPU.
//!
//! The host decodes whatever the GPU rejects ([`Outcome::Host`]): it returns the same answer, or the error.

mod abi;
mod batch;
mod call_filter;
mod chunk_sizes;
mod cost;
mod cuda;
mod decode_scratch;
mod direct;
mod encoded;
mod engine;
#[cfg(test)]
mod equivalence_tests;
mod error;
mod executor;
#[cfg(test)]
mod filter_tests;
mod handover;
mod memory_budget;
mod pairs;
pub mod plan;
mod queue;
mod queue_state;
mod rare_abi;
mod sample_abi;
mod serve;
mod site_abi;
mod site_error;
mod site_jobs;
mod sites;
mod slab;
#[cfg(test)]
pub(crate) mod software;
mod sparse_sets;
#[cfg(test)]
mod testing;
mod unstaged;
mod watchdog;
mod work;

pub use batch::{BatchLimits, Done, Outcome, Ticket, Times};
pub use call_filter::{FieldTest, PlannedCallFilter};
pub use chunk_sizes::ChunkSizes;
pub use cost::{Load, Prediction};
pub use cuda::search_python_prefix;
pub use encoded::Encoded;
#[cfg(test)]
pub(crate) use engine::install;
pub use engine::{
    DeviceInfo, EngineStatus, GpuEngine, is_at_work, is_starting, ready, start, status,
};
pub use error::GpuError;
pub use memory_budget::WORKERS_PER_DEVICE;
pub use queue::{Producer, Queue};
pub use unstaged::ToRead;
pub use work::{CountsOutput, ElementsOutput, Work, WorkOutput};
