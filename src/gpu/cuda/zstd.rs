//! Zstd frames that our own kernel decodes (`kernels/zstd.cu`), a warp each: which, and what it needs.
//!
//! It takes less time than nvCOMP's for the frames of genotypes that were measured, small and large (`benches/gpu/run.py`), and less
//! memory. nvCOMP's is there for comparisons.

use super::tables::Tables;
use crate::gpu::abi;
use crate::gpu::temporary::{MOST_TIMES, Temporary};

/// Whether zstd frames are nvCOMP's: where `VCZ_GPU_ZSTD` is `nvcomp`, for comparisons, and it is there.
pub fn by_nvcomp(nvcomp: bool) -> bool {
    nvcomp && std::env::var("VCZ_GPU_ZSTD").is_ok_and(|by| by == "nvcomp")
}

/// What decoding takes of the memory of a device with so many multiprocessors. `nvcomp`: whether it is there.
pub(super) fn temporary(multiprocessors: u32, nvcomp: bool) -> Temporary {
    if by_nvcomp(nvcomp) {
        return Temporary { fixed: 0, times: 3 };
    }
    let warps = (multiprocessors * abi::ZSTD_CTAS * abi::ZSTD_WARPS) as usize;
    Temporary {
        fixed: (warps * scratch(abi::ZSTD_BLOCK)) as u64,
        times: 0,
    }
}

/// The frames of a batch.
#[derive(Debug)]
pub(super) struct ZstdFrames {
    by_nvcomp: bool,
    frames: Vec<abi::Frame>,
    /// Decoded bytes of the largest.
    largest: usize,
    /// Decoded bytes of all.
    total: usize,
}

/// A launch of the kernel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Zstd {
    /// Address of the frames' table.
    pub(super) frames: u64,
    /// How many there are.
    pub(super) n: u32,
    /// Address of how many frames were taken, but for the first of each warp.
    pub(super) next: u64,
    /// Blocks of threads.
    pub(super) blocks: u32,
    /// Bytes of temporary memory that each warp has for literals, besides [`abi::ZSTD_HISTORY`].
    pub(super) literals: u32,
}

impl Zstd {
    /// Bytes of temporary memory of all warps.
    pub(super) fn scratch_bytes(&self) -> usize {
        self.blocks as usize * abi::ZSTD_WARPS as usize * scratch(self.literals as usize)
    }
}

/// Bytes of temporary memory of a warp.
fn scratch(literals: usize) -> usize {
    literals + abi::ZSTD_HISTORY
}

impl ZstdFrames {
    /// No frames. `nvcomp`: whether it is there.
    pub(super) fn new(nvcomp: bool) -> Self {
        Self {
            by_nvcomp: by_nvcomp(nvcomp),
            frames: Vec::new(),
            largest: 0,
            total: 0,
        }
    }

    /// Whether all frames are nvCOMP's.
    pub(super) fn are_by_nvcomp(&self) -> bool {
        self.by_nvcomp
    }

    /// Whether a frame of so many encoded and decoded bytes is one for our kernel.
    pub(super) fn takes(&self, encoded: usize, decoded: usize) -> bool {
        encoded < 1 << 28 && decoded <= abi::ZSTD_LARGEST
    }

    /// Adds a frame that [`takes`](Self::takes) said yes to.
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

    /// Forgets the frames.
    pub(super) fn clear(&mut self) {
        self.frames.clear();
        (self.largest, self.total) = (0, 0);
    }

    /// Pushes the tables; nothing if there are no frames.
    pub(super) fn describe(
        &self,
        tables: &mut Tables,
        multiprocessors: u32,
    ) -> Result<Option<Zstd>, String> {
        if self.frames.is_empty() {
            return Ok(None);
        }
        let (blocks, literals) = self.blocks(multiprocessors);
        Ok(Some(Zstd {
            frames: tables.push(&self.frames)?,
            n: self.frames.len() as u32,
            next: tables.push(&[0u32])?,
            blocks,
            literals,
        }))
    }

    /// Blocks of threads, and each warp's bytes for literals.
    fn blocks(&self, multiprocessors: u32) -> (u32, u32) {
        let literals = self
            .largest
            .min(abi::ZSTD_BLOCK)
            .next_multiple_of(abi::ZSTD_ALIGN);
        let most = MOST_TIMES as usize * self.total / scratch(literals);
        let full = self.frames.len().div_ceil(abi::ZSTD_WARPS as usize);
        // A few large frames go to a multiprocessor each.
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
        let mut frames = ZstdFrames::new(false);
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
    fn memory_is_for_the_frames_that_there_are() {
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
        // Most of them small, one large.
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
