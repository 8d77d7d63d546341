//! Statistics of the sizes of an array's chunks, which are used only for batches of a GPU.

/// Statistics of chunk sizes.
#[cfg(feature = "gpu")]
pub use crate::gpu::ChunkSizes;

/// Without the feature `gpu` there are none.
#[cfg(not(feature = "gpu"))]
#[derive(Debug, Default)]
pub struct ChunkSizes;
