//! Reading the chunks of an array ahead of their use.
//!
//! * `chunk`: one chunk, encoded, decoded or as counts.
//! * `prefetch`: the read-ahead window over a [`ChunkReader`](prefetch::ChunkReader).
//! * `host`: reads encoded chunks, for the host to decode.
//! * `gpu`: passes chunks to a GPU, which decodes and counts them; without the feature `gpu`, the same names without a GPU.
//! * `field_filters`: filters of calls, by the fields of a store.
//! * `absence`: whether absent chunks are read as fill values.
//! * `load`, `host_reason`: what a backend is chosen from, and why it is the host.
//! * `archive`: how many chunks of a remote archive are read together.
//! * `sizes`: statistics of chunk sizes.

pub mod absence;
mod archive;
pub mod chunk;
pub mod field_filters;
#[cfg_attr(not(feature = "gpu"), path = "no_gpu.rs")]
pub mod gpu;
pub mod host;
mod host_reason;
mod load;
pub mod open;
pub mod prefetch;
pub mod sizes;

pub use host_reason::HostReason;
pub use load::ArrayLoad;
