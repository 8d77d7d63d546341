//! Zstd frames that our own kernel decodes (`kernels/zstd.cu`), a warp each: which, and what it needs.
//!
//! Frames of genotypes, of some hundred KiB and full of short matches, take it a third of the time that nvCOMP takes. Frames of many
//! blocks are nvCOMP's where it is there: a warp takes longer for each, and there are too few of them to keep a device busy.

use super::launches::Launches;
use crate::gpu::abi;
use crate::gpu::executor::Failure;

/// Frames with more decoded bytes are nvCOMP's.
const MAX_FRAME: usize = 768 << 10;
/// Blocks of threads that a multiprocessor runs at a time.
const BLOCKS_A_MULTIPROCESSOR: u32 = 6;

/// Bytes of temporary memory for each decoded byte, at most: as many as nvCOMP takes.
const TEMPORARY: usize = 3;

/// Who decodes frames that both can: `VCZ_GPU_ZSTD` is `own` or `nvcomp`, for comparisons; else it depends on their size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Size,
    Own,
    Nvcomp,
}

/// The frames of a batch.
#[derive(Debug)]
pub(super) struct ZstdFrames {
    by: By,
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
    /// Address of the number of the first frame that nobody has taken.
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
    /// No frames. `nvcomp`: whether nvCOMP can take some.
    pub(super) fn new(nvcomp: bool) -> Self {
        let by = match std::env::var("VCZ_GPU_ZSTD").as_deref() {
            _ if !nvcomp => By::Own,
            Ok("own") => By::Own,
            Ok("nvcomp") => By::Nvcomp,
            _ => By::Size,
        };
        Self {
            by,
            frames: Vec::new(),
            largest: 0,
            total: 0,
        }
    }

    /// Whether a frame of so many encoded and decoded bytes goes here.
    pub(super) fn takes(&self, encoded: usize, decoded: usize) -> bool {
        let fits = encoded < 1 << 28 && decoded < 1 << 31;
        match self.by {
            By::Nvcomp => false,
            By::Own => fits,
            By::Size => decoded <= MAX_FRAME,
        }
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
        launches: &mut Launches<'_>,
        multiprocessors: u32,
    ) -> Result<Option<Zstd>, Failure> {
        if self.frames.is_empty() {
            return Ok(None);
        }
        let (blocks, literals) = self.blocks(multiprocessors);
        Ok(Some(Zstd {
            frames: launches.push(&self.frames)?,
            n: self.frames.len() as u32,
            next: launches.push(&[0u32])?,
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
        // Not more than nvCOMP would want.
        let most = TEMPORARY * self.total / scratch(literals);
        let warps = self
            .frames
            .len()
            .min(most)
            .div_ceil(abi::ZSTD_WARPS as usize);
        let blocks = warps.clamp(1, (multiprocessors * BLOCKS_A_MULTIPROCESSOR) as usize);
        (blocks as u32, literals as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(by: By, lens: &[usize]) -> ZstdFrames {
        let mut frames = ZstdFrames::new(false);
        frames.by = by;
        for len in lens {
            frames.push(0, len / 8, 0, *len, 0);
        }
        frames
    }

    #[test]
    fn large_frames_are_nvcomps_where_it_is_there() {
        let takes = |by: By, decoded: usize| frames(by, &[]).takes(decoded / 30, decoded);
        assert!(takes(By::Size, 512 << 10) && !takes(By::Size, 20_000_000));
        assert!(takes(By::Own, 20_000_000) && !takes(By::Own, 1 << 31));
        assert!(!takes(By::Nvcomp, 1));
    }

    #[test]
    fn memory_is_for_the_frames_that_there_are() {
        let shape = |lens: &[usize]| frames(By::Own, lens).blocks(132);
        assert_eq!(
            shape(&[128 << 10; 10_000]),
            (132 * BLOCKS_A_MULTIPROCESSOR, 128 << 10)
        );
        assert_eq!(shape(&[512 << 10; 9]), (3, 128 << 10));
        assert_eq!(shape(&[1000; 100]), (25, 1008));
        assert_eq!(shape(&[0]), (1, 0));
        // Most of them small, one large.
        let mut lens = vec![100; 10_000];
        lens.push(1 << 20);
        let (blocks, literals) = shape(&lens);
        let bytes = 4 * blocks as usize * scratch(literals as usize);
        assert!(
            bytes < 4 * lens.iter().sum::<usize>() && blocks > 1,
            "{blocks}"
        );
    }
}
