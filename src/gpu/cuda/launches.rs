//! The kernel launches of a batch, collected while its tables are built, and launched in order on the worker's stream.
//!
//! Invariant: the arguments match the kernel's parameters (`kernels/`); nothing else checks them.

use std::ffi::c_void;

use cudarc::driver::{DriverError, result, sys};

use super::nvcomp::NvcompFrames;
use super::tables::Tables;
use super::zstd::ZstdLaunch;
use crate::gpu::abi;
use crate::gpu::executor::Failure;

/// Threads of a thread block, for every kernel but the one for zstd.
const THREADS: u32 = 256;
/// Warps of a thread block: each counts one row at a time.
const WARPS: u32 = THREADS / 32;
/// Rows for each warp, to amortise its setup.
const ROWS_PER_WARP: u32 = 8;
/// Calls that a warp tests, and elements of genotypes that it copies, to amortise its setup.
const CALLS_PER_WARP: u32 = 1024;
const COPIED_PER_WARP: u32 = 4096;

/// A kernel to launch, with its arguments.
pub(super) struct Launch {
    function: sys::CUfunction,
    blocks: u32,
    threads: u32,
    arguments: Arguments,
}

enum Arguments {
    /// `(table, n, status)`.
    Table(u64, u32, u64),
    /// `(table, n)`.
    Plain(u64, u32),
    /// `(tiles, n, groups, status)`.
    Tiles(u64, u32, u32, u64),
    /// `(statuses, actual, expected, index, n, status)`.
    Frames([u64; 4], u32, u64),
    /// `(frames, n, next, scratch, literals, status)`.
    Zstd(u64, u32, [u64; 2], u32, u64),
}

impl Launch {
    /// # Safety
    /// The arguments match the kernel's parameters and point to live device memory.
    pub(super) unsafe fn run(&self, stream: sys::CUstream) -> Result<(), DriverError> {
        fn of<T>(value: &T) -> *mut c_void {
            (&raw const *value).cast_mut().cast()
        }
        let mut arguments = match &self.arguments {
            Arguments::Table(table, n, status) => vec![of(table), of(n), of(status)],
            Arguments::Plain(table, n) => vec![of(table), of(n)],
            Arguments::Tiles(tiles, n, groups, status) => {
                vec![of(tiles), of(n), of(groups), of(status)]
            }
            Arguments::Frames([statuses, actual, expected, index], n, status) => vec![
                of(statuses),
                of(actual),
                of(expected),
                of(index),
                of(n),
                of(status),
            ],
            Arguments::Zstd(frames, n, [next, scratch], literals, status) => vec![
                of(frames),
                of(n),
                of(next),
                of(scratch),
                of(literals),
                of(status),
            ],
        };
        // SAFETY: the caller guarantees the arguments; the driver copies them before it returns.
        unsafe {
            result::launch_kernel(
                self.function,
                (self.blocks, 1, 1),
                (self.threads, 1, 1),
                0,
                stream,
                &mut arguments,
            )
        }
    }
}

/// Launches that are collected while the tables are built.
pub(super) struct Launches<'a> {
    /// The batch's tables.
    pub(super) tables: &'a mut Tables,
    /// Address of the chunks' statuses.
    pub(super) status: u64,
    /// The launches, in order.
    pub(super) pending: Vec<Launch>,
}

impl Launches<'_> {
    /// Adds a table and returns its device address.
    pub(super) fn push<T: bytemuck::Pod>(&mut self, items: &[T]) -> Result<u64, Failure> {
        self.tables.push(items).map_err(Failure::Batch)
    }

    /// Adds a launch with [`THREADS`] threads in a block.
    fn launch(&mut self, function: sys::CUfunction, blocks: u32, arguments: Arguments) {
        self.pending.push(Launch {
            function,
            blocks,
            threads: THREADS,
            arguments,
        });
    }

    /// Copies and zero-fills segments.
    pub(super) fn segments(
        &mut self,
        function: sys::CUfunction,
        segments: &[abi::Segment],
    ) -> Result<(), Failure> {
        if segments.is_empty() {
            return Ok(());
        }
        let (table, n) = (self.push(segments)?, segments.len() as u32);
        self.launch(function, n.min(1 << 16), Arguments::Plain(table, n));
        Ok(())
    }

    /// Decodes zstd frames, whose tables have been pushed.
    pub(super) fn zstd(&mut self, function: sys::CUfunction, zstd: &ZstdLaunch, scratch: u64) {
        self.pending.push(Launch {
            function,
            blocks: zstd.blocks,
            threads: 32 * (abi::ZSTD_WARPS + 1),
            arguments: Arguments::Zstd(
                zstd.frames,
                zstd.n,
                [zstd.next, scratch],
                zstd.literals,
                self.status,
            ),
        });
    }

    /// Compares the statuses and lengths that nvCOMP reports with the expected ones.
    pub(super) fn check_frames(
        &mut self,
        function: sys::CUfunction,
        frames: &NvcompFrames,
        index: u64,
    ) {
        let n = frames.n as u32;
        let tables = [frames.statuses, frames.actual, frames.room, index];
        let arguments = Arguments::Frames(tables, n, self.status);
        self.launch(function, n.div_ceil(THREADS), arguments);
    }

    /// Verifies checksums.
    pub(super) fn check_sums(
        &mut self,
        function: sys::CUfunction,
        checks: &[abi::Check],
    ) -> Result<(), Failure> {
        if checks.is_empty() {
            return Ok(());
        }
        let (table, n) = (self.push(checks)?, checks.len() as u32);
        self.launch(function, n, Arguments::Table(table, n, self.status));
        Ok(())
    }

    /// Counts or gathers tiles.
    pub(super) fn tiles(
        &mut self,
        function: sys::CUfunction,
        tiles: &[abi::Tile],
    ) -> Result<(), Failure> {
        self.items(function, tiles, |tile| tile.rows, ROWS_PER_WARP)
    }

    /// Tests the calls of tiles.
    pub(super) fn calls(
        &mut self,
        function: sys::CUfunction,
        tiles: &[abi::CallTile],
    ) -> Result<(), Failure> {
        self.items(function, tiles, |tile| tile.calls, CALLS_PER_WARP)
    }

    /// Copies blocks of genotypes, with calls that fail missing.
    pub(super) fn masked(
        &mut self,
        function: sys::CUfunction,
        blocks: &[abi::MaskedBlock],
    ) -> Result<(), Failure> {
        self.items(
            function,
            blocks,
            |block| block.from.elements,
            COPIED_PER_WARP,
        )
    }

    /// Launches the same number of blocks for each item, enough for the largest: a warp handles `per_warp` units of an item's size.
    fn items<T: bytemuck::Pod>(
        &mut self,
        function: sys::CUfunction,
        items: &[T],
        size: impl Fn(&T) -> u32,
        per_warp: u32,
    ) -> Result<(), Failure> {
        let Some(largest) = items.iter().map(size).max() else {
            return Ok(());
        };
        let (table, n) = (self.push(items)?, items.len() as u32);
        let groups = largest.div_ceil(WARPS * per_warp).max(1);
        let Some(blocks) = n.checked_mul(groups).filter(|blocks| *blocks < 1 << 31) else {
            return Err(Failure::Batch(
                format!("{n} items of size {largest} exceed the size of a launch").into(),
            ));
        };
        let arguments = Arguments::Tiles(table, n, groups, self.status);
        self.launch(function, blocks, arguments);
        Ok(())
    }
}
