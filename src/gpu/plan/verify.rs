//! Checks that a plan is consistent, independently of how it was made: for tests, fuzzing and debug assertions.

use std::ops::Range;

use super::chunk_plan::{BlockLocation, ChunkPlan};
use crate::codec::blosc::Shuffle;
use crate::gpu::error::GpuError;

impl ChunkPlan {
    /// Checks this plan for a chunk of `encoded_len` bytes and `elements` elements of `width` bytes: it stays inside the encoded
    /// chunk and the decoded area; it writes no byte of the latter twice, and every byte that a block reads; blocks cover the
    /// tiles, and tiles the chunk.
    ///
    /// # Errors
    /// What is wrong. A plan of [`ChunkPlanner::plan`](super::ChunkPlanner::plan) has no errors.
    pub fn verify(
        &self,
        encoded_len: usize,
        elements: usize,
        width: usize,
    ) -> Result<(), GpuError> {
        let inside = |what: &str, start: usize, len: usize, end: usize| match start.checked_add(len)
        {
            Some(stop) if stop <= end => Ok(start..stop),
            _ => Err(format!("{what}: {len} bytes at {start} of {end}")),
        };
        let mut writes = Vec::new();
        for frame in &self.frames {
            inside("frame", frame.src.start, frame.src.len(), encoded_len)?;
            if frame.src.start > frame.src.end {
                return Err(format!("a frame from {:?}", frame.src).into());
            }
            writes.push(inside("frame", frame.dst, frame.len, self.decoded_len)?);
        }
        for segment in &self.segments {
            if let Some(src) = segment.src {
                inside("segment", src, segment.len, encoded_len)?;
            }
            writes.push(inside(
                "segment",
                segment.dst,
                segment.len,
                self.decoded_len,
            )?);
        }
        writes.retain(|range| !range.is_empty());
        writes.sort_unstable_by_key(|range| range.start);
        for pair in writes.windows(2) {
            if let [a, b] = pair
                && a.end > b.start
            {
                return Err(format!("{a:?} and {b:?} are both written").into());
            }
        }
        for known in &self.known_bytes {
            let range = inside("known byte", known.at, 1, self.decoded_len)?;
            if !is_covered(&range, &writes) {
                return Err(format!("{known:?} is not written").into());
            }
        }
        for block in &self.blocks {
            let bytes = Self::block_bytes(block, width);
            match block.location {
                BlockLocation::Decoded(at) => {
                    let range = inside("block", at, bytes, self.decoded_len)?;
                    if !is_covered(&range, &writes) {
                        return Err(
                            format!("a block reads {range:?}, not all of it is written").into()
                        );
                    }
                }
                BlockLocation::Encoded(at) => {
                    inside("block", at, bytes, encoded_len)?;
                }
                BlockLocation::Zero => {}
            }
            if block.repeats && (block.shuffle != Shuffle::Bit || block.planes == 0) {
                return Err(format!("{block:?}").into());
            }
            let planes = match (block.location, block.shuffle) {
                (BlockLocation::Zero, _) => 0..=0,
                (_, Shuffle::Bit) => 1..=8 * width,
                _ => 1..=1,
            };
            if !planes.contains(&(block.planes as usize))
                || (block.shuffle == Shuffle::Bit && !block.elements.is_multiple_of(8))
            {
                return Err(format!("{block:?}").into());
            }
        }
        self.verify_tiles(elements)
    }

    fn verify_tiles(&self, elements: usize) -> Result<(), GpuError> {
        let (mut next, mut total) = (0, 0);
        for tile in &self.tiles {
            let wrong = |what: &str| Err(format!("{what}: {tile:?}").into());
            let blocks = self.blocks.get(tile.blocks.clone()).unwrap_or_default();
            let Some((last, whole)) = blocks.split_last() else {
                return wrong("no blocks");
            };
            let n: usize = blocks.iter().map(|block| block.elements as usize).sum();
            if tile.blocks.start != next
                || u64::from(tile.rows) * u64::from(tile.row_elements) != n as u64
                || u64::from(tile.samples) * u64::from(tile.copies) != u64::from(tile.row_elements)
            {
                return wrong("sizes");
            }
            if whole
                .iter()
                .any(|block| block.elements != tile.block_elements)
                || last.elements > tile.block_elements
                || last.elements == 0
            {
                return wrong("blocks");
            }
            next = tile.blocks.end;
            total += n;
        }
        if next != self.blocks.len() || total != elements {
            return Err(format!(
                "tiles have {total} elements in {next} blocks, expected {elements} in {}",
                self.blocks.len()
            )
            .into());
        }
        Ok(())
    }
}

/// Whether `range` lies in the union of `parts`, which are disjoint and in order.
fn is_covered(range: &Range<usize>, parts: &[Range<usize>]) -> bool {
    let mut at = range.start;
    let first = parts.partition_point(|part| part.end <= at);
    for part in parts.iter().skip(first) {
        if at >= range.end || part.start > at {
            break;
        }
        at = part.end;
    }
    at >= range.end
}
