//! Chunks of an array on their way from the store to whoever computes with them.
//!
//! * `chunk`: one chunk, in whatever state it arrives.
//! * `prefetch`: the read-ahead window; how chunks are read is a [`ChunkReader`](prefetch::ChunkReader)'s.
//! * `host`: reads them as they are stored, for the host to decode.
//! * `gpu`: hands them to a GPU, which decodes and counts them; without the feature `gpu`, the same names for no GPU.
//! * `absence`: whether chunks that are absent are taken for fill values.
//! * `sizes`: statistics of their sizes.

pub mod absence;
pub mod chunk;
#[cfg_attr(not(feature = "gpu"), path = "no_gpu.rs")]
pub mod gpu;
pub mod host;
mod load;
pub mod open;
pub mod prefetch;
pub mod sizes;

pub use load::ArrayLoad;
