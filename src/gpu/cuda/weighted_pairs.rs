//! [`WeightedPairs`]: adds up weighted products of dosages of pairs of individuals on one device, with the kernels `units` and `gram`, and `rare` where
//! few copies have the allele.
//!
//! Rows of a class have the same weight, so their products are counted and multiplied once. Rows are sorted by class as they arrive: each *slice* of
//! 256 sites has rows of one class, the last one of a class fewer. Full slices are multiplied once there are many new rows, the others once the buffer
//! is full or the sums are taken. Invariants: units past the last are zero; sums are kept as two numbers of 64 bits, which cannot overflow; after an
//! error nothing is freed that the device may still use.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use super::device::CudaDevice;
use super::fetched::Fetched;
use super::memory::DeviceBuffer;
use super::pair_layout::{RARE_WEIGHT_BYTES, THREADS, WeightedLayout, splits, tiles};
use super::pair_rows::{self, RowBuffer, RowSink, add_rows};
use super::pair_stream::{PairStream, Staging, of_device};
use super::resident_rows::ResidentQueue;
use super::sorted_rows::SortedRows;
use crate::counts::gathered::plane_words;
use crate::counts::pairs::{ClassWeights, SetRows, WeightedSums};
use crate::counts::{CountError, ResidentPart, Workers};
use crate::gpu::abi;
use crate::gpu::error::GpuError;
use crate::gpu::rare_abi::{RARE_COPIES, RareRows};

/// Sums that a thread adds at a time.
const PART: usize = 1 << 15;

/// Weighted sums on a device.
#[derive(Debug)]
pub struct WeightedPairs {
    summing: Mutex<Summing>,
    /// Rows that are on the device.
    resident: ResidentQueue,
}

/// What is on the device.
#[derive(Debug)]
struct Summing {
    layout: WeightedLayout,
    weights: Arc<Vec<ClassWeights>>,
    stream: PairStream,
    rows: RowBuffer,
    /// The weights of the slices of a launch, and then the rows of its sites.
    tables: DeviceBuffer,
    units: DeviceBuffer,
    /// The weights of rare rows, and then their places among the rows.
    rare: DeviceBuffer,
    /// Of pairs; empty if all weights are 0.
    sums: [DeviceBuffer; 2],
    unit_sums: DeviceBuffer,
    tiles: DeviceBuffer,
    n_tiles: usize,
}

impl WeightedPairs {
    /// Sums over no rows on `device`, with page-locked memory from `free` if there is some.
    ///
    /// # Errors
    /// What could not be created.
    pub fn try_new(
        device: &Arc<CudaDevice>,
        layout: WeightedLayout,
        weights: &Arc<Vec<ClassWeights>>,
        free: &Arc<Staging>,
    ) -> Result<Self, GpuError> {
        let tile = match device.pair_kernels()?.hopper {
            Some(_) => abi::WEIGHTED_TILE,
            None => abi::GRAM_TILE,
        };
        let tiles = tiles(layout.n_units, tile);
        let buffer = || DeviceBuffer::new(device);
        let mut rows = buffer();
        rows.ensure("rows of bit-planes", layout.rows_bytes())?;
        let mut summing = Summing {
            layout,
            weights: Arc::clone(weights),
            stream: PairStream::try_new(device, free)?,
            rows: RowBuffer::new(
                device,
                rows,
                layout.kept_rows(),
                layout.row_words,
                2 * layout.samples,
                Some(SortedRows::new(weights.len(), layout.rare_classes())),
            ),
            tables: buffer(),
            units: buffer(),
            rare: buffer(),
            sums: [buffer(), buffer()],
            unit_sums: buffer(),
            tiles: buffer(),
            n_tiles: tiles.len(),
        };
        let table: &[u8] = bytemuck::cast_slice(&tiles);
        let tiles_at = summing.tiles.ensure("tiles of pairs", table.len())?;
        let tables = &mut summing.tables;
        tables.ensure("weights of rows", layout.table_bytes())?;
        let rare_at = summing
            .rare
            .ensure("weights of rare rows", layout.rare_bytes())?;
        let (units, unit_sums) = (layout.units_bytes(), layout.unit_sums_bytes());
        let units_at = summing.units.ensure("units of pairs", units)?;
        let unit_sums_at = summing.unit_sums.ensure("sums of individuals", unit_sums)?;
        // SAFETY: the buffers have these sizes, and nothing else uses them.
        unsafe {
            summing.stream.copy(tiles_at, table)?;
            let of_rare = rare_weights(weights);
            summing
                .stream
                .copy(rare_at, bytemuck::cast_slice(&of_rare))?;
            summing.stream.clear(units_at, units)?;
            summing.stream.clear(unit_sums_at, unit_sums)?;
        }
        for set in 0..summing.sums.len() {
            if weights.iter().any(|class| class.pairs[set] != 0) {
                let bytes = layout.sums_bytes();
                let at = summing.sums[set].ensure("sums of pairs", bytes)?;
                // SAFETY: as above.
                unsafe { summing.stream.clear(at, bytes) }?;
            }
        }
        Ok(Self {
            resident: ResidentQueue::new(device.ordinal, layout.row_words),
            summing: Mutex::new(summing),
        })
    }

    /// Adds rows, see [`WeightedCounter`](crate::counts::pairs::WeightedCounter).
    ///
    /// # Errors
    /// Those of `set` and of the device.
    pub fn add(
        &self,
        classes: &[u32],
        set: &mut SetRows<'_>,
        workers: &Workers<'_>,
    ) -> Result<(), CountError> {
        add_rows(&self.summing, classes.len(), classes, set, workers)
    }

    /// Adds rows that are on the device, see [`WeightedCounter`](crate::counts::pairs::WeightedCounter).
    ///
    /// # Errors
    /// Those of the device.
    pub fn add_resident(
        &self,
        parts: &[ResidentPart],
        classes: &[u32],
        workers: &Workers<'_>,
    ) -> Result<(), CountError> {
        let resident = &self.resident;
        resident.add(&self.summing, parts, classes, workers)
    }

    /// Enqueues the adding of all rows.
    ///
    /// # Errors
    /// Those of the device.
    pub fn finish(&mut self) -> Result<(), CountError> {
        self.resident.finish(&self.summing)?;
        pair_rows::finish(self.summing.get_mut()).map_err(of_device)
    }

    /// Adds the sums over all rows to `sums`, which has those of the same layout and weights, or is empty and then gets them.
    ///
    /// # Errors
    /// Those of the device, and [`CountError::TooLarge`].
    pub fn take(
        mut self,
        sums: &mut WeightedSums,
        workers: &Workers<'_>,
    ) -> Result<(), CountError> {
        self.finish()?;
        let summing = self.summing.get_mut();
        let layout = summing.layout;
        for (set, pairs) in sums.pairs.iter_mut().enumerate() {
            let from = summing.sums[set].address();
            if from == 0 {
                continue;
            }
            let is_first = pairs.is_empty();
            if is_first {
                let reserved = pairs.try_reserve_exact(layout.n_pairs);
                let too_large = |_| CountError::TooLarge(format!("{} sums", layout.n_pairs));
                reserved.map_err(too_large)?;
            }
            let mut added = Ok(());
            let read = |begin: usize, fetched: &Fetched| {
                if added.is_err() {
                    return;
                }
                let begin = begin / abi::SUM_BYTES;
                let len = fetched
                    .len::<[u64; 2]>()
                    .min(layout.n_pairs.saturating_sub(begin));
                added = match is_first {
                    true => workers.extend(pairs, len, "sums of pairs", |at| sum(fetched, at)),
                    false => {
                        let pairs = pairs.get_mut(begin..begin + len).unwrap_or_default();
                        let parts = pairs.chunks_mut(PART).zip((0..).step_by(PART));
                        workers.each(parts, |(pairs, begin)| {
                            for (pair, at) in pairs.iter_mut().zip(begin..) {
                                *pair += sum(fetched, at);
                            }
                            Ok(())
                        })
                    }
                };
            };
            // SAFETY: there are sums of this layout.
            unsafe { summing.stream.fetch(from, layout.sums_bytes(), read) }.map_err(of_device)?;
            added?;
        }
        for singles in &mut sums.singles {
            singles.resize(layout.samples, 0);
        }
        let [first, second] = &mut sums.singles;
        let read = |begin: usize, fetched: &Fetched| {
            // Two sums of each unit.
            for (at, of) in (begin / abi::SUM_BYTES..).zip(0..fetched.len::<[u64; 2]>()) {
                let (unit, set) = (at / 2, at % 2);
                let (block, place) = (
                    unit / (2 * abi::BLOCK_SAMPLES),
                    unit % (2 * abi::BLOCK_SAMPLES),
                );
                let sample = block * abi::BLOCK_SAMPLES + place % abi::BLOCK_SAMPLES;
                let dosage = if place < abi::BLOCK_SAMPLES { 1 } else { 2 };
                let singles = if set == 0 { &mut *first } else { &mut *second };
                if let Some(single) = singles.get_mut(sample) {
                    *single += dosage * sum(fetched, of);
                }
            }
        };
        let from = summing.unit_sums.address();
        // SAFETY: as above.
        unsafe { summing.stream.fetch(from, layout.unit_sums_bytes(), read) }.map_err(of_device)?;
        summing.stream.log_times("pairs of weighted dosages");
        Ok(())
    }
}

/// The weights of rows in which 0 to [`RARE_COPIES`] copies have the allele, as the kernel reads them.
fn rare_weights(weights: &[ClassWeights]) -> Vec<u64> {
    let of_class = |class: usize| weights.get(class).copied().unwrap_or_default();
    let words = |class: ClassWeights| [class.pairs, class.singles].concat();
    (0..=RARE_COPIES).map(of_class).flat_map(words).collect()
}

/// Sum `at`, which is kept as two numbers and is below 2^127.
#[inline]
fn sum(fetched: &Fetched, at: usize) -> i128 {
    let [low, high] = fetched.number::<[u64; 2]>(at);
    i128::from(low) + (i128::from(high) << 32)
}

impl RowSink for Summing {
    fn stream(&mut self) -> &mut PairStream {
        &mut self.stream
    }

    fn buffer(&mut self) -> &mut RowBuffer {
        &mut self.rows
    }

    /// Adds the rows in the buffer to the sums.
    fn flush(&mut self) -> Result<(), GpuError> {
        self.rows.take();
        self.add_rare()?;
        let slices = self.rows.sorted().map_or(0, SortedRows::take_all);
        self.add_slices(slices)?;
        if let Some(sorted) = self.rows.sorted() {
            sorted.clear();
        }
        Ok(())
    }

    fn flush_some(&mut self) -> Result<(), GpuError> {
        let new = self.rows.sorted().map_or(0, |sorted| sorted.new_rows());
        if new < self.layout.rows {
            return Ok(());
        }
        self.add_rare()?;
        let slices = self.rows.sorted().map_or(0, SortedRows::take_full);
        self.add_slices(slices)
    }
}

impl Summing {
    /// Adds the rare rows.
    fn add_rare(&mut self) -> Result<(), GpuError> {
        let kernel = self.stream.device.pair_kernels()?.rare_pairs;
        let (weights, rows) = (self.rare.address(), self.rows.address());
        let order = weights + RARE_WEIGHT_BYTES as u64;
        let Some(sorted) = self.rows.sorted() else {
            return Ok(());
        };
        for rare in sorted.rare().chunks(self.layout.rows) {
            // SAFETY: there is room for the places of so many rows.
            unsafe { self.stream.copy(order, bytemuck::cast_slice(rare)) }?;
            // Casts of numbers that the layout has checked, or that are smaller.
            let n_rows = rare.len() as u32;
            let job = RareRows {
                rows,
                order,
                weights,
                sums: [self.sums[0].address(), self.sums[1].address()],
                unit_sums: self.unit_sums.address(),
                n_rows,
                width: 2 * self.layout.row_words as u32,
                n_samples: self.layout.samples as u32,
                pad: 0,
            };
            let blocks = n_rows.div_ceil(THREADS / 32);
            // SAFETY: the buffers are those of the layout, and the places those of rows in the buffer.
            unsafe { self.stream.launch(kernel, blocks, THREADS, 0, &job) }?;
        }
        sorted.clear_rare();
        Ok(())
    }

    /// Adds the slices that were taken, of which there are so many.
    fn add_slices(&mut self, slices: usize) -> Result<(), GpuError> {
        let of_launch = self.layout.steps * abi::STEP_SLICES;
        for first in (0..slices).step_by(of_launch) {
            self.add(first..slices.min(first + of_launch))?;
        }
        Ok(())
    }

    /// Adds some of these slices.
    fn add(&mut self, slices: Range<usize>) -> Result<(), GpuError> {
        let device = Arc::clone(&self.stream.device);
        let (kernels, blocks) = (device.pair_kernels()?, device.multiprocessors);
        let layout = &self.layout;
        let steps = slices.len().div_ceil(abi::STEP_SLICES);
        let Some(sorted) = self.rows.sorted() else {
            return Err("rows without classes have no weights".into());
        };
        let order = sorted.order(slices.clone());
        let mut tables: Vec<u64> = vec![];
        let most = steps * abi::STEP_SLICES;
        let n_slices = slices.len();
        let places = sorted.tables(slices, &self.weights, most, &mut tables);
        // If all second weights are 1, their sums come with the first ones.
        let [_, second] = places.pairs;
        let mut seconds = tables.iter().skip(second).take(n_slices);
        let [first_sums, second_sums] = [self.sums[0].address(), self.sums[1].address()];
        let is_one = first_sums != 0 && seconds.all(|weight| *weight == 1);
        let jobs = match is_one {
            true => vec![(0, first_sums, second_sums)],
            false => vec![(0, first_sums, 0), (1, second_sums, 0)],
        };
        let words: &[u8] = bytemuck::cast_slice(&tables);
        let orders: &[u8] = bytemuck::cast_slice(&order);
        let tables_at = self.tables.address();
        let order_at = tables_at + words.len() as u64;
        // SAFETY: the tables have room for a launch, see `WeightedLayout`.
        unsafe {
            self.stream.copy(tables_at, words)?;
            self.stream.copy(order_at, orders)?;
        }
        // Casts of numbers that the layout has checked, or that are smaller.
        let rows = abi::PairRows {
            rows: self.rows.address(),
            order: order_at,
            units: self.units.address(),
            n_rows: order.len() as u32,
            width: 2 * plane_words(2 * layout.samples) as u32,
            copies: 2 * layout.samples as u32,
            kind: abi::DIPLOID_BLOCKS,
            stride: layout.stride as u32,
            tiles: (2 * layout.samples).div_ceil(abi::BLOCK_COPIES) as u32,
        };
        let at = |place: usize| tables_at + (place * size_of::<u64>()) as u64;
        let unit_sums = abi::UnitSums {
            units: rows.units,
            weights: at(places.singles),
            sums: self.unit_sums.address(),
            n_units: layout.n_units as u32,
            stride: rows.stride,
            steps: steps as u32,
            pad: 0,
        };
        let unit_blocks =
            layout.n_units.div_ceil(THREADS as usize) * steps.div_ceil(abi::SUM_STEPS);
        // SAFETY: the buffers are those of the layout.
        unsafe {
            let blocks = steps as u32 * rows.tiles;
            self.stream
                .launch(kernels.units, blocks, THREADS, 0, &rows)?;
            let blocks = unit_blocks as u32;
            self.stream
                .launch(kernels.unit_sums, blocks, THREADS, 0, &unit_sums)?;
        }
        let splits = splits(self.n_tiles, steps, blocks as usize);
        for (set, sums, products) in jobs {
            if sums == 0 {
                continue;
            }
            let job = abi::WeightedGram {
                gram: abi::Gram {
                    units: rows.units,
                    counts: 0,
                    tiles: self.tiles.address(),
                    n_tiles: self.n_tiles as u32,
                    n_units: unit_sums.n_units,
                    stride: rows.stride,
                    steps: steps as u32,
                    splits: splits as u32,
                    pad: 0,
                },
                weights: at(places.pairs[set]),
                sums,
                products,
                n_samples: layout.samples as u32,
                pad: 0,
            };
            let jobs = job.gram.n_tiles * job.gram.splits;
            // SAFETY: as above.
            unsafe {
                match kernels.hopper {
                    Some([_, kernel, _]) => {
                        let (threads, shared) = (abi::WEIGHTED_THREADS, abi::WEIGHTED_SHARED);
                        let blocks = jobs.min(blocks);
                        self.stream.launch(kernel, blocks, threads, shared, &job)
                    }
                    None => self.stream.launch(kernels.weighted, jobs, THREADS, 0, &job),
                }?;
            }
        }
        Ok(())
    }
}

impl Drop for Summing {
    fn drop(&mut self) {
        if !self.stream.close() {
            self.rows.forget();
            let [one, other] = &mut self.sums;
            for buffer in [
                &mut self.tables,
                &mut self.units,
                &mut self.rare,
                one,
                other,
                &mut self.unit_sums,
                &mut self.tiles,
            ] {
                buffer.forget();
            }
        }
    }
}
