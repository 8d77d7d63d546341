//! [`Block`]: results of several jobs that one call copies to the host.
//!
//! Each job of a batch has room for all results that there can be, and uses little of it where rows stay on the device. A call of the driver takes
//! microseconds, so there is none for each job.

use std::ops::Range;

use cudarc::driver::{DriverError, result, sys};

/// Bytes that take no longer to copy than a call of the driver.
const CALL_BYTES: usize = 64 << 10;

/// The driver refuses rows that are farther apart.
const MOST_APART: usize = i32::MAX as usize;

/// Ranges of bytes that are copied by one call: `rows` of `width` bytes, `stride` apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    first: usize,
    stride: usize,
    width: usize,
    rows: usize,
}

impl Block {
    fn end(&self) -> usize {
        self.first + (self.rows - 1) * self.stride + self.width
    }
}

/// Blocks that have all bytes of some ranges, which are within `all` bytes. Ranges at equal distances are in one block, unless that has many more bytes.
pub(super) fn blocks(ranges: impl Iterator<Item = Range<usize>>, all: usize) -> Vec<Block> {
    let mut blocks: Vec<Block> = vec![];
    // Bytes of the ranges of the last block.
    let mut wanted = 0;
    for range in ranges.filter(|range| !range.is_empty()) {
        if let Some(last) = blocks.last_mut() {
            let before = last.first + (last.rows - 1) * last.stride;
            let apart = range.start.saturating_sub(before);
            let joined = Block {
                first: last.first,
                stride: apart,
                width: last.width.max(range.len()),
                rows: last.rows + 1,
            };
            let more = (joined.width * joined.rows).saturating_sub(wanted + range.len());
            if (last.rows == 1 || last.stride == apart)
                && joined.width <= apart
                && apart <= MOST_APART
                && more <= joined.rows * CALL_BYTES
                && joined.end() <= all
            {
                *last = joined;
                wanted += range.len();
                continue;
            }
        }
        wanted = range.len();
        blocks.push(Block {
            first: range.start,
            stride: range.len(),
            width: range.len(),
            rows: 1,
        });
    }
    blocks
}

/// Copies a block of device memory at `from` to the same place in `to`.
///
/// # Safety
/// The device has the block there; nobody uses its part of `to` until the stream has been waited for.
pub(super) unsafe fn copy_block(
    block: &Block,
    from: u64,
    to: &mut [u8],
    stream: sys::CUstream,
) -> Result<(), DriverError> {
    let Some(to) = to.get_mut(block.first..block.end()) else {
        return Err(DriverError(sys::CUresult::CUDA_ERROR_INVALID_VALUE));
    };
    let from = from + block.first as u64;
    if block.rows == 1 {
        // SAFETY: as the caller says; all bytes are within `to`.
        return unsafe { result::memcpy_dtoh_async(to, from, stream) };
    }
    let copy = sys::CUDA_MEMCPY2D {
        srcXInBytes: 0,
        srcY: 0,
        srcMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_DEVICE,
        srcHost: std::ptr::null(),
        srcDevice: from,
        srcArray: std::ptr::null_mut(),
        srcPitch: block.stride,
        dstXInBytes: 0,
        dstY: 0,
        dstMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_HOST,
        dstHost: to.as_mut_ptr().cast(),
        dstDevice: 0,
        dstArray: std::ptr::null_mut(),
        dstPitch: block.stride,
        WidthInBytes: block.width,
        Height: block.rows,
    };
    // SAFETY: as the caller says; all bytes are within `to`.
    unsafe { sys::cuMemcpy2DAsync_v2(&copy, stream) }.result()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_in_blocks() {
        let blocks = |ranges: &[Range<usize>], all: usize| {
            let blocks = blocks(ranges.iter().cloned(), all);
            for range in ranges.iter().filter(|range| !range.is_empty()) {
                let has = |block: &Block| {
                    let row = range
                        .start
                        .checked_sub(block.first)
                        .map(|at| at / block.stride);
                    row.is_some_and(|row| {
                        let begin = block.first + row * block.stride;
                        row < block.rows && range.end <= begin + block.width
                    })
                };
                assert_eq!(blocks.iter().filter(|block| has(block)).count(), 1);
            }
            assert!(blocks.iter().all(|block| block.end() <= all));
            let sizes = blocks.iter().map(|block| (block.rows, block.width));
            sizes.collect::<Vec<_>>()
        };
        assert_eq!(blocks(&[], 0), []);
        // Rows of a chunk each, the last one shorter; empty ones are left out.
        let rows = [0..10, 100..130, 200..205, 200..200, 300..310];
        assert_eq!(blocks(&rows, 400), [(4, 30)]);
        assert_eq!(blocks(&rows, 310), [(3, 30), (1, 10)]);
        assert_eq!(
            blocks(&[0..10, 100..110, 150..160, 200..210], 300),
            [(2, 10), (2, 10)]
        );
        // Wider than the distance.
        assert_eq!(blocks(&[0..50, 50..60, 100..160], 300), [(2, 50), (1, 60)]);
        // One that is much larger.
        let far = 1 << 20;
        let rows = [0..10, far..far + 10, 2 * far..3 * far];
        assert_eq!(blocks(&rows, 4 * far), [(2, 10), (1, far)]);
        // What is not in order stays as it is.
        assert_eq!(blocks(&[10..20, 0..5], 30), [(1, 10), (1, 5)]);
    }
}
