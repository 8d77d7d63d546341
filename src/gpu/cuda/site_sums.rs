//! [`SiteSums`]: sums over pairs of sites on one stream of a device, with the kernels `gram` and `sites`.
//!
//! For each job, bits of sites are copied in the layout of units (`kernels/pairs.cuh`), with a bit for each copy. Then, for some tiles at a
//! time, kernels count the copies of pairs and add up their terms. Invariant: sums are kept as two numbers of 64 bits, which cannot overflow.

use std::ops::Range;
use std::sync::Arc;
use std::thread;

use super::device::CudaDevice;
use super::fetched::Fetched;
use super::memory::{DeviceBuffer, Pinned};
use super::pair_layout::THREADS;
use super::pair_stream::{POLL, PairStream, STAGING_BYTES, Staging};
use super::site_layout::SiteLayout;
use crate::counts::Workers;
use crate::counts::gathered::plane_words;
use crate::counts::sites::{PairTotals, SitePairs, SiteRecord};
use crate::gpu::abi;
use crate::gpu::error::GpuError;
use crate::gpu::site_abi::{self, SITE_SUMS};
use crate::gpu::site_error::SiteError;
use crate::gpu::site_jobs::{SiteJob, tiles};

/// 64-bit words of a site in a step.
const STEP_WORDS: usize = abi::UNIT_BYTES / size_of::<u64>();
/// 64-bit words of a part of a unit, which the layout moves as a whole.
const PART_WORDS: usize = 2;
/// Parts of a unit, and units after which their places repeat.
const PARTS: usize = STEP_WORDS / PART_WORDS;
/// Thread blocks of a multiprocessor that add up terms.
const SUM_BLOCKS: u32 = 4;

/// Sums on a stream.
#[derive(Debug)]
pub struct SiteSums {
    layout: SiteLayout,
    stream: PairStream,
    /// The bits of copies with another allele than the reference, and of those that are called; the latter empty if all are.
    units: [DeviceBuffer; 2],
    counts: DeviceBuffer,
    tables: DeviceBuffer,
    derived: DeviceBuffer,
    sums: DeviceBuffer,
}

/// Where the tables of a job begin, in words.
#[derive(Clone, Copy, Debug, Default)]
struct Places {
    positions: usize,
    edges: usize,
    tiles: usize,
    alternates: usize,
    ends: usize,
    bins: usize,
}

impl SiteSums {
    /// Sums over nothing on `device`, with page-locked memory from `free` if there is some.
    ///
    /// # Errors
    /// What could not be created.
    pub fn try_new(
        device: &Arc<CudaDevice>,
        layout: SiteLayout,
        free: &Arc<Staging>,
    ) -> Result<Self, GpuError> {
        device.site_kernels()?;
        let buffer = || DeviceBuffer::new(device);
        let mut of_stream = Self {
            layout,
            stream: PairStream::try_new(device, free)?,
            units: [buffer(), buffer()],
            counts: buffer(),
            tables: buffer(),
            derived: buffer(),
            sums: buffer(),
        };
        let bytes = layout.units_bytes();
        of_stream.units[0].ensure("bits of sites", bytes)?;
        if layout.has_missing {
            of_stream.units[1].ensure("called copies of sites", bytes)?;
        }
        let (counts, tables) = (layout.counts_bytes(), layout.tables_bytes());
        of_stream
            .counts
            .ensure("counts of pairs of sites", counts)?;
        of_stream.tables.ensure("tables of sites", tables)?;
        let derived = layout.derived_bytes();
        of_stream.derived.ensure("bounds of bins", derived)?;
        let bytes = layout.sums_bytes();
        let sums = of_stream.sums.ensure("sums over pairs of sites", bytes)?;
        // SAFETY: the buffer has these bytes, and nothing else uses it.
        unsafe { of_stream.stream.clear(sums, bytes) }?;
        Ok(of_stream)
    }

    /// Enqueues the pairs of a job, which the layout has room for.
    ///
    /// # Errors
    /// Those of the device, and [`SiteError::Stopped`].
    pub fn add(
        &mut self,
        pairs: &SitePairs<'_>,
        job: &SiteJob,
        workers: &Workers<'_>,
    ) -> Result<(), SiteError> {
        let mut tiles = tiles(pairs, job, self.layout.tile);
        if tiles.is_empty() {
            return Ok(());
        }
        let parts = job.parts();
        let sites_of =
            |part: &(Range<usize>, usize)| pairs.sites.get(part.0.clone()).unwrap_or_default();
        // For each site, how many of those before it have missing calls.
        let mut missing = vec![0u32; job.len() + 1];
        for part in &parts {
            for (at, site) in sites_of(part).iter().enumerate() {
                missing[part.1 + at + 1] = u32::from(site.called[0].is_some());
            }
        }
        let mut sum = 0;
        for of_site in &mut missing {
            sum += *of_site;
            *of_site = sum;
        }
        let has_missing = sum > 0;
        let [rows, columns] = self.layout.tile;
        let is_complete = |from: u32, length: usize| {
            let last = missing.len() - 1;
            let from = (from as usize).min(last);
            missing[from] == missing[last.min(from + length)]
        };
        // Tiles without missing calls first: they take one product.
        let tile_has_missing = |tile: &abi::PairTile| {
            !(is_complete(tile.row, rows) && is_complete(tile.column, columns))
        };
        tiles.sort_by_key(tile_has_missing);
        let complete = tiles.partition_point(|tile| !tile_has_missing(tile));
        let mut alternates = vec![0u32; job.len()];
        for part in &parts {
            let of_part = alternates.get_mut(part.1..).unwrap_or_default();
            self.copy_bits(sites_of(part), part.1, Some(of_part), workers)?;
            if has_missing {
                self.copy_bits(sites_of(part), part.1, None, workers)?;
            }
        }
        let (words, places) = self.tables(pairs, job, &alternates, &tiles);
        let tables: &[u8] = bytemuck::cast_slice(&words);
        if tables.len() > self.layout.tables_bytes() {
            return Err(
                GpuError::from("a job of pairs of sites is larger than its buffers").into(),
            );
        }
        // SAFETY: the buffer has room for them.
        unsafe { self.stream.copy(self.tables.address(), tables) }?;
        self.prepare(job, &places)?;
        self.sum(job, &places, 0..complete, false)?;
        self.sum(job, &places, complete..tiles.len(), true)?;
        Ok(())
    }

    /// Copies the bits of sites, of which the first has number `first` in the job: those of alternates, whose numbers are set, or without
    /// `alternates` the called ones.
    fn copy_bits(
        &mut self,
        sites: &[SiteRecord<'_>],
        first: usize,
        mut alternates: Option<&mut [u32]>,
        workers: &Workers<'_>,
    ) -> Result<(), SiteError> {
        let layout = self.layout;
        let units = self.units[usize::from(alternates.is_none())].address();
        let site_bytes = layout.steps * abi::UNIT_BYTES;
        let at_once = (STAGING_BYTES / site_bytes).max(1);
        for (chunk, sites) in sites.chunks(at_once).enumerate() {
            let mut memory = self.staging(sites.len() * site_bytes, workers)?;
            let begin = chunk * at_once;
            let to: &mut [u64] =
                bytemuck::cast_slice_mut(memory.bytes_mut(sites.len() * site_bytes));
            for (at, site) in sites.iter().enumerate() {
                let words = match (&alternates, site.called[0]) {
                    (Some(_), _) => Some(site.alternate[0].unwrap_or_default()),
                    (None, called) => called,
                };
                let number = first + begin + at;
                for step in 0..layout.steps {
                    let unit = (step * sites.len() + at) * STEP_WORDS;
                    let unit = to.get_mut(unit..unit + STEP_WORDS).unwrap_or_default();
                    write_unit(unit, words, step * STEP_WORDS, number, layout.copies);
                }
                if let Some(alternate) = alternates.as_mut().and_then(|all| all.get_mut(begin + at))
                {
                    let ones = |words: &[u64]| words.iter().map(|word| word.count_ones()).sum();
                    *alternate = words.map_or(0, ones);
                }
            }
            let mut copied = Ok(());
            for step in 0..layout.steps {
                let from = step * sites.len() * abi::UNIT_BYTES;
                let site = step * layout.stride() + first + begin;
                let address = units + (site * abi::UNIT_BYTES) as u64;
                let bytes = from..from + sites.len() * abi::UNIT_BYTES;
                // SAFETY: the units have room for the layout's sites.
                copied = copied
                    .and_then(|()| unsafe { self.stream.enqueue_copy(address, &memory, bytes) });
            }
            copied.and(self.stream.give_back(memory))?;
        }
        Ok(())
    }

    /// Page-locked memory, once there is some.
    fn staging(&mut self, bytes: usize, workers: &Workers<'_>) -> Result<Pinned, SiteError> {
        loop {
            if let Some(memory) = self.stream.staging(bytes)? {
                return Ok(memory);
            }
            workers.check()?;
            thread::sleep(POLL);
        }
    }

    /// The tables of a job, and where they begin.
    fn tables(
        &self,
        pairs: &SitePairs<'_>,
        job: &SiteJob,
        alternates: &[u32],
        tiles: &[abi::PairTile],
    ) -> (Vec<u64>, Places) {
        let mut places = Places::default();
        let mut words = vec![0u64; job.len()];
        for (part, first) in job.parts() {
            let sites = pairs.sites.get(part).unwrap_or_default();
            for (word, site) in words.iter_mut().skip(first).zip(sites) {
                *word = site.position.to_bits();
            }
        }
        places.edges = words.len();
        words.extend(pairs.edges.iter().map(|edge| edge.to_bits()));
        places.tiles = words.len();
        let tile = |tile: &abi::PairTile| u64::from(tile.row) | u64::from(tile.column) << 32;
        words.extend(tiles.iter().map(tile));
        let mut push = |numbers: &mut dyn Iterator<Item = u32>| {
            let begin = words.len();
            while let Some(low) = numbers.next() {
                words.push(u64::from(low) | u64::from(numbers.next().unwrap_or(0)) << 32);
            }
            begin
        };
        places.alternates = push(&mut alternates.iter().copied());
        let bins = pairs.bins();
        // Numbers of sites and of bins that the layout has checked.
        let end = |site| job.column(pairs.ends.get(pairs.group_of(site)).copied().unwrap_or(0));
        places.ends = push(&mut job.rows.clone().map(|site| end(site) as u32));
        places.bins = push(
            &mut job
                .rows
                .clone()
                .map(|site| (pairs.group_of(site) * bins) as u32),
        );
        (words, places)
    }

    /// Enqueues the bounds of the bins of a job whose sites and tables were copied.
    fn prepare(&mut self, job: &SiteJob, places: &Places) -> Result<(), GpuError> {
        let device = Arc::clone(&self.stream.device);
        let layout = self.layout;
        // Casts of numbers that the layout has checked.
        let bounds = site_abi::SiteBounds {
            positions: self.table(places.positions),
            ends: self.table(places.ends),
            edges: self.table(places.edges),
            alternates: self.table(places.alternates),
            inverses: self.derived.address(),
            bounds: self.bounds(),
            n_sites: job.len() as u32,
            n_rows: job.rows.len() as u32,
            n_edges: layout.n_edges as u32,
            first_column: job.first_column() as u32,
            copies: layout.copies as u32,
            pad: 0,
        };
        let kernel = device.site_kernels()?.bounds;
        let blocks = device.multiprocessors * SUM_BLOCKS;
        // SAFETY: the buffers are those of the layout.
        unsafe { self.stream.launch(kernel, blocks, THREADS, 0, &bounds) }
    }

    /// Where a table begins on the device.
    fn table(&self, place: usize) -> u64 {
        self.tables.address() + (place * size_of::<u64>()) as u64
    }

    /// Where the bounds of bins begin on the device, after the inverse spreads.
    fn bounds(&self) -> u64 {
        self.derived.address() + (self.layout.sites * size_of::<f64>()) as u64
    }

    /// Enqueues the sums over some tiles of a job.
    fn sum(
        &mut self,
        job: &SiteJob,
        places: &Places,
        all: Range<usize>,
        has_missing: bool,
    ) -> Result<(), GpuError> {
        let device = Arc::clone(&self.stream.device);
        let (counting, kernels) = (device.pair_kernels()?, device.site_kernels()?);
        let layout = self.layout;
        let blocks = device.multiprocessors * SUM_BLOCKS;
        let [alternate, called] = [0, 1].map(|at: usize| self.units[at].address());
        let matrices: &[[u64; 2]] = match has_missing {
            true => &[
                [alternate, alternate],
                [alternate, called],
                [called, alternate],
                [called, called],
            ],
            false => &[[alternate, alternate]],
        };
        let matrix = layout.matrix();
        for begin in all.clone().step_by(layout.tiles) {
            let tiles = all.end.min(begin + layout.tiles) - begin;
            let tiles_at = self.table(places.tiles + begin);
            for (at, [units, seconds]) in matrices.iter().enumerate() {
                let counts = at * matrix * size_of::<u16>();
                let counting_job = site_abi::SiteCounts {
                    gram: abi::Gram {
                        units: *units,
                        counts: self.counts.address() + counts as u64,
                        tiles: tiles_at,
                        n_tiles: tiles as u32,
                        n_units: 0,
                        stride: layout.stride() as u32,
                        steps: layout.steps as u32,
                        splits: 1,
                        pad: 0,
                    },
                    seconds: *seconds,
                };
                let (tiles, most) = (tiles as u32, device.multiprocessors);
                // SAFETY: as above.
                unsafe {
                    match counting.hopper {
                        Some([_, _, kernel]) => {
                            let (threads, shared) = (abi::HOPPER_THREADS, abi::HOPPER_SHARED);
                            self.stream.launch(
                                kernel,
                                tiles.min(most),
                                threads,
                                shared,
                                &counting_job,
                            )
                        }
                        None => self.stream.launch(
                            counting.site_counts,
                            tiles,
                            THREADS,
                            0,
                            &counting_job,
                        ),
                    }?;
                }
            }
            let sums = site_abi::SitePairs {
                tiles: tiles_at,
                counts: self.counts.address(),
                alternates: self.table(places.alternates),
                inverses: self.derived.address(),
                bounds: self.bounds(),
                bins: self.table(places.bins),
                sums: self.sums.address(),
                matrix: matrix as u64,
                n_tiles: tiles as u32,
                rows: layout.tile[0] as u32,
                columns: layout.tile[1] as u32,
                n_rows: job.rows.len() as u32,
                n_edges: layout.n_edges as u32,
                n_bins: layout.n_bins as u32,
                copies: layout.copies as u32,
                pad: 0,
            };
            let kernel = kernels.sums[layout.terms as usize][usize::from(has_missing)];
            let blocks = sums.n_tiles.min(blocks);
            // SAFETY: as above.
            unsafe { self.stream.launch(kernel, blocks, THREADS, 0, &sums) }?;
        }
        Ok(())
    }

    /// The sums of all pairs, once the device has them.
    ///
    /// # Errors
    /// Those of the device, and [`SiteError::Stopped`].
    pub fn take(mut self, workers: &Workers<'_>) -> Result<SumParts, SiteError> {
        self.stream
            .wait_and_check(|| workers.check().map_err(SiteError::from))?;
        let mut parts: Vec<u64> = vec![];
        let read = |_: usize, fetched: &Fetched| {
            parts.extend((0..fetched.len::<u64>()).map(|at| fetched.number::<u64>(at)));
        };
        let (from, bytes) = (self.sums.address(), self.layout.sums_bytes());
        // SAFETY: there are sums of this layout.
        unsafe { self.stream.fetch(from, bytes, read) }?;
        self.stream.log_times("pairs of sites");
        Ok(SumParts(parts))
    }
}

/// The sums of a stream, each of two parts.
#[derive(Debug)]
pub struct SumParts(Vec<u64>);

impl SumParts {
    /// Adds them to the sums of all bins.
    pub fn add_to(&self, totals: &mut [PairTotals]) {
        for (total, parts) in totals.iter_mut().zip(self.0.chunks_exact(2 * SITE_SUMS)) {
            add_total(total, parts);
        }
    }
}

/// Adds the sums of a bin, each of two parts.
fn add_total(total: &mut PairTotals, parts: &[u64]) {
    let mut sums = [0i128; SITE_SUMS];
    for (sum, part) in sums.iter_mut().zip(parts.chunks_exact(2)) {
        *sum = i128::from(part[0]) + (i128::from(part[1].cast_signed()) << 32);
    }
    let halves = |high: i128, low: i128| (high << 45) + low;
    let [defined, r2_high, r2_low, d_high, d_low, moments @ ..] = sums;
    // A number of pairs.
    total.defined = total.defined.wrapping_add(defined as u64);
    total.r2 += halves(r2_high, r2_low);
    total.d_prime += halves(d_high, d_low);
    for (total, sums) in total.moments.iter_mut().zip(moments.chunks_exact(3)) {
        total[0] += sums[0];
        total[1] += halves(sums[1], sums[2]);
    }
}

/// Sets a unit: the words of a plane from word `from` on, as those of the unit with this number. Without a plane, all copies have a bit.
fn write_unit(unit: &mut [u64], plane: Option<&[u64]>, from: usize, number: usize, copies: usize) {
    let everyone = |word: usize| match copies.saturating_sub(word * 64) {
        64.. => u64::MAX,
        rest => (1 << rest) - 1,
    };
    let words = plane_words(copies);
    for (at, part) in unit.chunks_exact_mut(PART_WORDS).enumerate() {
        // The part that has this place.
        let first = from + (at ^ (number % PARTS)) * PART_WORDS;
        for (to, word) in part.iter_mut().zip(first..) {
            *to = match plane {
                Some(plane) => plane.get(word).copied().unwrap_or(0),
                None if word < words => everyone(word),
                None => 0,
            };
        }
    }
}

impl Drop for SiteSums {
    fn drop(&mut self) {
        if !self.stream.close() {
            let [alternate, called] = &mut self.units;
            for buffer in [
                alternate,
                called,
                &mut self.counts,
                &mut self.tables,
                &mut self.derived,
                &mut self.sums,
            ] {
                buffer.forget();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bit of a copy is where `kernels/pairs.cuh` has it.
    #[test]
    fn units_have_their_layout() {
        let copies = 1500;
        let plane: Vec<u64> = (0..plane_words(copies) as u64)
            .map(|word| word * 3 + 1)
            .collect();
        for number in [0, 5, 8, 1027] {
            for plane in [Some(&plane[..]), None] {
                let mut of_steps = [[0u64; STEP_WORDS]; 2];
                for (step, unit) in of_steps.iter_mut().enumerate() {
                    write_unit(unit, plane, step * STEP_WORDS, number, copies);
                }
                for copy in 0..2 * abi::STEP_ROWS {
                    let (step, word) = (copy / abi::STEP_ROWS, copy % abi::STEP_ROWS / 32);
                    let place = ((word / 4) ^ (number % 8)) * 4 + word % 4;
                    let words: &[u32] = bytemuck::cast_slice(&of_steps[step]);
                    let found = words[place] >> (copy % 32) & 1 == 1;
                    let expected = match plane {
                        Some(plane) => plane
                            .get(copy / 64)
                            .is_some_and(|word| word >> (copy % 64) & 1 == 1),
                        None => copy < copies,
                    };
                    assert_eq!(found, expected, "{number} {copy}");
                }
            }
        }
    }

    #[test]
    fn sums_are_of_two_parts() {
        let mut parts = [0u64; 2 * SITE_SUMS];
        parts[0] = 3;
        // r²: 2^32 + 5 of the first half, 7 of the second.
        parts[2..6].copy_from_slice(&[5, 1, 7, 0]);
        // DD: -1, as the parts of several additions.
        parts[10..12].copy_from_slice(&[u64::from(u32::MAX), u64::MAX]);
        let mut total = PairTotals::default();
        add_total(&mut total, &parts);
        add_total(&mut total, &parts);
        assert_eq!(total.defined, 6);
        assert_eq!(total.r2, 2 * ((((1 << 32) + 5) << 45) + 7));
        assert_eq!(total.moments[0], [-2, 0]);
    }
}
