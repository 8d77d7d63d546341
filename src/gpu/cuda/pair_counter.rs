//! [`PairCounter`]: counts pairs of units on one device, with the kernels `units` and `gram`.
//!
//! Rows become units once the buffer of rows is full; pairs are counted once there are many units, or the counts are taken. Then the device makes
//! the sums of pairs, which are far fewer than its counts, and they alone are fetched. Invariants: units past the last are zero; after an error
//! nothing is freed that the device may still use.

use std::sync::Arc;

use parking_lot::Mutex;

use super::device::CudaDevice;
use super::fetched::Fetched;
use super::memory::DeviceBuffer;
use super::pair_layout::{Layout, THREADS, splits, tiles};
use super::pair_rows::{self, RowBuffer, RowSink, add_rows};
use super::pair_stream::{PairStream, Staging, of_device};
use super::resident_rows::ResidentQueue;
use crate::counts::gathered::plane_words;
use crate::counts::pairs::{AddSums, PairPiece, PairSums, SetRows};
use crate::counts::{CountError, ResidentPart, Workers};
use crate::gpu::abi;
use crate::gpu::error::GpuError;

/// Counts pairs on a device.
#[derive(Debug)]
pub struct PairCounter {
    counting: Mutex<Counting>,
    /// Rows that are on the device.
    resident: ResidentQueue,
}

/// What is on the device.
#[derive(Debug)]
struct Counting {
    layout: Layout,
    stream: PairStream,
    rows: RowBuffer,
    units: DeviceBuffer,
    counts: DeviceBuffer,
    /// Of a piece of pairs.
    sums: DeviceBuffer,
    tiles: DeviceBuffer,
    n_tiles: usize,
    /// Steps that have units which are not counted.
    steps: usize,
}

impl PairCounter {
    /// Counts of no rows on `device`, with page-locked memory from `free` if there is some.
    ///
    /// # Errors
    /// What could not be created.
    pub fn try_new(
        device: &Arc<CudaDevice>,
        layout: Layout,
        free: &Arc<Staging>,
    ) -> Result<Self, GpuError> {
        let tile = match device.pair_kernels()?.hopper {
            Some(_) => abi::HOPPER_TILE,
            None => abi::GRAM_TILE,
        };
        let tiles = tiles(layout.units.number(layout.copies), tile);
        let sizes = (
            layout.rows_bytes(),
            layout.units_bytes(),
            layout.counts_bytes(),
            layout.sums_bytes(),
        );
        let (Some(rows), Some(units), Some(counts), Some(sums)) = sizes else {
            return Err("counts of pairs that do not fit in memory".into());
        };
        let mut row_memory = DeviceBuffer::new(device);
        row_memory.ensure("rows of bit-planes", rows)?;
        let mut counting = Counting {
            layout,
            stream: PairStream::try_new(device, free)?,
            rows: RowBuffer::new(
                device,
                row_memory,
                layout.rows,
                layout.row_words,
                layout.copies,
                None,
            ),
            units: DeviceBuffer::new(device),
            counts: DeviceBuffer::new(device),
            sums: DeviceBuffer::new(device),
            tiles: DeviceBuffer::new(device),
            n_tiles: tiles.len(),
            steps: 0,
        };
        let table: &[u8] = bytemuck::cast_slice(&tiles);
        let tiles_at = counting.tiles.ensure("tiles of pairs", table.len())?;
        let units_at = counting.units.ensure("units of pairs", units)?;
        let counts_at = counting.counts.ensure("counts of pairs", counts)?;
        counting.sums.ensure("sums of pairs", sums)?;
        // SAFETY: the buffers have these sizes, and nothing else uses them.
        unsafe {
            counting.stream.copy(tiles_at, table)?;
            counting.stream.clear(units_at, units)?;
            counting.stream.clear(counts_at, counts)?;
        }
        Ok(Self {
            resident: ResidentQueue::new(device.ordinal, layout.row_words),
            counting: Mutex::new(counting),
        })
    }

    /// Adds rows, see [`UnitCounter`](crate::counts::pairs::UnitCounter).
    ///
    /// # Errors
    /// Those of `set` and of the device.
    pub fn add(
        &self,
        rows: usize,
        set: &mut SetRows<'_>,
        workers: &Workers<'_>,
    ) -> Result<(), CountError> {
        add_rows(&self.counting, rows, &[], set, workers)
    }

    /// Adds rows that are on the device. Only for units that need one plane of a row.
    ///
    /// # Errors
    /// Those of the device.
    pub fn add_resident(
        &self,
        parts: &[ResidentPart],
        workers: &Workers<'_>,
    ) -> Result<(), CountError> {
        let resident = &self.resident;
        resident.add(&self.counting, parts, &[], workers)
    }

    /// Enqueues the counting of all rows.
    ///
    /// # Errors
    /// Those of the device.
    pub fn finish(&mut self) -> Result<(), CountError> {
        self.resident.finish(&self.counting)?;
        let counting = self.counting.get_mut();
        pair_rows::finish(counting)
            .and_then(|()| counting.count())
            .map_err(of_device)
    }

    /// Gives the sums of all rows, some pairs at a time.
    ///
    /// # Errors
    /// Those of the device and of `add`.
    pub fn take(mut self, add: &mut AddSums<'_>) -> Result<(), CountError> {
        self.finish()?;
        let counting = self.counting.get_mut();
        let layout = counting.layout;
        let kernels = counting.stream.device.pair_kernels().map_err(of_device)?;
        let kernel = kernels.pair_sums;
        let (counts, sums) = (counting.counts.address(), counting.sums.address());
        let make = |stream: &mut PairStream, piece: &PairPiece| {
            let n = layout.units.paired(layout.copies);
            let [firsts, seconds] = abi::SUMS_TILE;
            let across = (n - piece.firsts.start).div_ceil(seconds);
            // Casts of numbers that the layout has checked, or that are smaller: a block has some of the few pairs of a piece.
            let job = abi::PairSums {
                counts,
                sums,
                kind: layout.units as u32,
                stride: layout.stride as u32,
                n: n as u32,
                first: piece.firsts.start as u32,
                end: piece.firsts.end as u32,
                across: across as u32,
            };
            let blocks = (piece.firsts.len().div_ceil(firsts) * across) as u32;
            // SAFETY: there are counts of this layout, and there is room for the sums of one of its pieces.
            unsafe { stream.launch(kernel, blocks, THREADS, 0, &job) }?;
            Ok((sums, layout.units.numbers(piece) * size_of::<u32>()))
        };
        let mut added = Ok(());
        let read = |piece: PairPiece, fetched: &Fetched| {
            if added.is_ok() {
                let numbers = &fetched.slices::<u32>();
                added = add(&PairSums { piece, numbers });
            }
        };
        // SAFETY: the sums of a piece are where the kernel writes them.
        unsafe { counting.stream.fetch_each(layout.pieces(), make, read) }.map_err(of_device)?;
        counting
            .stream
            .log_times(&format!("pairs of {:?}", layout.units));
        added
    }
}

impl RowSink for Counting {
    fn stream(&mut self) -> &mut PairStream {
        &mut self.stream
    }

    fn buffer(&mut self) -> &mut RowBuffer {
        &mut self.rows
    }

    fn flush(&mut self) -> Result<(), GpuError> {
        self.make_units()
    }
}

impl Counting {
    /// Makes units of the rows in the buffer.
    fn make_units(&mut self) -> Result<(), GpuError> {
        let rows = self.rows.take();
        let steps = rows.div_ceil(abi::STEP_ROWS);
        if steps == 0 {
            return Ok(());
        }
        if self.steps + steps > self.layout.steps {
            self.count()?;
        }
        let layout = &self.layout;
        let step = layout.stride * abi::UNIT_BYTES;
        // Casts of numbers that the layout has checked, or that are smaller.
        let job = abi::PairRows {
            rows: self.rows.address(),
            order: 0,
            units: self.units.address() + (self.steps * step) as u64,
            n_rows: rows as u32,
            width: 2 * plane_words(layout.copies) as u32,
            copies: layout.copies as u32,
            kind: layout.units as u32,
            stride: layout.stride as u32,
            tiles: layout.copies.div_ceil(abi::BLOCK_COPIES) as u32,
        };
        let kernel = self.stream.device.pair_kernels()?.units;
        let blocks = steps as u32 * job.tiles;
        // SAFETY: the buffers have room for a layout's rows and steps.
        unsafe { self.stream.launch(kernel, blocks, THREADS, 0, &job) }?;
        self.steps += steps;
        Ok(())
    }

    /// Counts the pairs of the units that there are.
    fn count(&mut self) -> Result<(), GpuError> {
        if self.steps == 0 {
            return Ok(());
        }
        let device = Arc::clone(&self.stream.device);
        let (kernels, blocks) = (device.pair_kernels()?, device.multiprocessors);
        let layout = &self.layout;
        let gram = abi::Gram {
            units: self.units.address(),
            counts: self.counts.address(),
            tiles: self.tiles.address(),
            n_tiles: self.n_tiles as u32,
            n_units: layout.units.number(layout.copies) as u32,
            stride: layout.stride as u32,
            steps: self.steps as u32,
            splits: splits(self.n_tiles, self.steps, blocks as usize) as u32,
            pad: 0,
        };
        let jobs = gram.n_tiles * gram.splits;
        // SAFETY: the counts and tiles are those of the layout, and there are units of so many steps.
        unsafe {
            match kernels.hopper {
                Some([kernel, _, _]) => {
                    let (threads, shared) = (abi::HOPPER_THREADS, abi::HOPPER_SHARED);
                    let blocks = jobs.min(blocks);
                    self.stream.launch(kernel, blocks, threads, shared, &gram)
                }
                None => self.stream.launch(kernels.gram, jobs, THREADS, 0, &gram),
            }?;
        }
        self.steps = 0;
        Ok(())
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        if !self.stream.close() {
            self.rows.forget();
            for buffer in [
                &mut self.units,
                &mut self.counts,
                &mut self.sums,
                &mut self.tiles,
            ] {
                buffer.forget();
            }
        }
    }
}
