//! The zstd frames of a batch, which our kernel decodes (`kernels/zstd.cu`), one warp for each frame, and the launch that they need.
//!
//! For genotypes, the kernel needs less time and memory than nvCOMP's decoder, with small and large frames.

use super::tables::Tables;
use crate::gpu::abi;
use crate::gpu::decode_scratch::{DecodeScratch, MOST_TIMES};
use crate::gpu::error::GpuError;

/// Scratch memory for decoding on a device with this many multiprocessors.
pub(super) fn decode_scratch(multiprocessors: u32) -> DecodeScratch {
    let warps = (multiprocessors * abi::ZSTD_CTAS * abi::ZSTD_WARPS) as usize;
    DecodeScratch((warps * scratch(abi::ZSTD_BLOCK)) as u64)
}

/// The zstd frames of a batch.
#[derive(Debug, Default)]
pub(super) struct ZstdFrames {
    frames: Vec<abi::Frame>,
    /// Decoded bytes of the largest.
    largest: usize,
    /// Decoded bytes of all.
    total: usize,
}

/// A launch of the kernel.
#[derive(Debug, Clone, Copy)]
pub(super) struct ZstdLaunch {
    /// Address of the frames' table.
    pub(super) frames: u64,
    /// Number of frames.
    pub(super) n: u32,
    /// Address of the counter with which warps take further frames after their first.
    pub(super) next: u64,
    /// Thread blocks.
    pub(super) blocks: u32,
    /// Bytes of scratch memory of each warp for literals, besides [`abi::ZSTD_HISTORY`].
    pub(super) literals: u32,
}

impl ZstdLaunch {
    /// Bytes of scratch memory of all warps.
    pub(super) fn scratch_bytes(&self) -> usize {
        self.blocks as usize * abi::ZSTD_WARPS as usize * scratch(self.literals as usize)
    }
}

/// Bytes of scratch memory of a warp.
fn scratch(literals: usize) -> usize {
    literals + abi::ZSTD_HISTORY
}

impl ZstdFrames {
    /// Whether the kernel takes a frame of this many encoded and decoded bytes.
    pub(super) fn takes(&self, encoded: usize, decoded: usize) -> bool {
        encoded < 1 << 28 && decoded <= abi::ZSTD_LARGEST
    }

    /// Adds a frame, which [`takes`](Self::takes) must accept.
    pub(super) fn push(&mut self, src: u64, encoded: usize, dst: u64, decoded: usize, status: u32) {
        self.frames.push(abi::Frame {
            src,
            dst,
            src_len: encoded as u32,
            dst_len: decoded as u32,
            status,
            pad: 0,
        });
        self.largest = self.largest.max(decoded);
        self.total += decoded;
    }

    /// Removes all frames.
    pub(super) fn clear(&mut self) {
        self.frames.clear();
        (self.largest, self.total) = (0, 0);
    }

    /// Pushes the tables and returns the launch; `None` if there are no frames.
    pub(super) fn describe(
        &self,
        tables: &mut Tables,
        multiprocessors: u32,
    ) -> Result<Option<ZstdLaunch>, GpuError> {
        if self.frames.is_empty() {
            return Ok(None);
        }
        let (blocks, literals) = self.blocks(multiprocessors);
        Ok(Some(ZstdLaunch {
            frames: tables.push(&self.frames)?,
            n: self.frames.len() as u32,
            next: tables.push(&[0u32])?,
            blocks,
            literals,
        }))
    }

    /// The number of thread blocks, and bytes for literals of each warp.
    fn blocks(&self, multiprocessors: u32) -> (u32, u32) {
        let literals = self
            .largest
            .min(abi::ZSTD_BLOCK)
            .next_multiple_of(abi::ZSTD_ALIGN);
        let most = MOST_TIMES as usize * self.total / scratch(literals);
        let full = self.frames.len().div_ceil(abi::ZSTD_WARPS as usize);
        // A few frames get a multiprocessor each.
        let alone = self.frames.len().min(multiprocessors as usize);
        let blocks = full.max(alone).min(most / abi::ZSTD_WARPS as usize);
        let blocks = blocks.clamp(1, (multiprocessors * abi::ZSTD_CTAS) as usize);
        (blocks as u32, literals as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(lens: &[usize]) -> ZstdFrames {
        let mut frames = ZstdFrames::default();
        for len in lens {
            frames.push(0, len / 8, 0, *len, 0);
        }
        frames
    }

    #[test]
    fn sizes_fit_in_the_table() {
        assert!(frames(&[]).takes(512 << 10, 20_000_000));
        assert!(frames(&[]).takes((1 << 28) - 1, abi::ZSTD_LARGEST));
        assert!(!frames(&[]).takes(1 << 20, abi::ZSTD_LARGEST + 1));
        assert!(!frames(&[]).takes(1 << 28, abi::ZSTD_LARGEST));
    }

    #[test]
    fn scratch_memory_depends_on_the_frames() {
        let shape = |lens: &[usize]| frames(lens).blocks(132);
        assert_eq!(
            shape(&[128 << 10; 10_000]),
            (132 * abi::ZSTD_CTAS, 128 << 10)
        );
        assert_eq!(shape(&[20 << 20; 9]), (9, 128 << 10));
        assert_eq!(shape(&[20 << 20; 1000]), (143, 128 << 10));
        assert_eq!(shape(&[128 << 10; 9]), (3, 128 << 10));
        assert_eq!(shape(&[1000; 100]), (21, 1008));
        assert_eq!(shape(&[0]), (1, 0));
        // Many small frames and one large one.
        let mut lens = vec![100; 10_000];
        lens.push(1 << 20);
        let (blocks, literals) = shape(&lens);
        let bytes = abi::ZSTD_WARPS as usize * blocks as usize * scratch(literals as usize);
        assert!(
            bytes < 4 * lens.iter().sum::<usize>() && blocks > 1,
            "{blocks}"
        );
    }
}
