//! What a GPU has to do with an encoded chunk, worked out on the host from the chunk's bytes.
//!
//! Reader threads run a [`ChunkPlanner`] over each chunk as it arrives; the device executes the [`ChunkPlan`]s of many chunks
//! together. A plan holds no bytes, only offsets: into the encoded chunk, and into an area for what its frames decode to.
//! Nothing here knows of CUDA. Input is hostile: every size and offset in a plan was checked against the array's metadata
//! and the length of the chunk, so a device that stays inside its plan stays inside its buffers. What has an unusual but
//! legal form is left to the host, and so is everything that looks damaged: the host decides, and words the error.

mod blosc;
mod chunk_plan;
mod deflate;
mod encoding;
mod estimate;
mod planner;
#[cfg(test)]
pub(super) mod tests;
mod tile;
mod verify;
mod zstd;

pub use chunk_plan::{
    ALIGNMENT, Checksum, ChunkPlan, Frame, FrameCodec, KnownByte, Place, PlannedBlock, Segment,
    Tile,
};
pub use estimate::Estimate;
pub use planner::ChunkPlanner;
