//! Plans for decoding encoded chunks on a GPU, made on the host from the chunks' bytes.
//!
//! Reader threads run a [`ChunkPlanner`] over each chunk as it arrives; the device executes the [`ChunkPlan`]s of many chunks
//! together. A plan holds no bytes, only offsets: into the encoded chunk, and into the area for the decoded bytes of its
//! frames. Input is hostile: every size and offset in a plan is checked against the array's metadata and the length of the
//! chunk, so a device that follows the plan stays inside its buffers. Chunks in an unusual form, and chunks that look
//! damaged, are left to the host, which decodes them or returns the error.

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
    ALIGNMENT, BlockLocation, Checksum, ChunkPlan, FrameCodec, KnownByte, PlannedBlock,
    PlannedFrame, PlannedSegment, PlannedTile,
};
pub use estimate::Estimate;
pub use planner::ChunkPlanner;
