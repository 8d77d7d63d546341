//! [`Layout`]: the sizes of a [`PairCounter`](super::pair_counter::PairCounter), and how its pairs are divided among thread blocks.

use super::fetched::FETCHED_BYTES;
use crate::counts::gathered::plane_words;
use crate::counts::pairs::{PairPiece, Units, pairs_of};
use crate::gpu::abi;
use crate::gpu::rare_abi::{RARE_COPIES, RARE_WEIGHTS};

/// Threads of a thread block, where the kernel needs no other number.
pub(super) const THREADS: u32 = 256;
/// Bytes of rows that become units at a time.
const ROWS_BYTES: usize = 32 << 20;
/// Bytes of rows after which the slices of one class that are full are multiplied.
const SORTED_BYTES: usize = 256 << 20;
/// How many times as many rows are kept until slices that are not full are multiplied, too: if memory allows, and otherwise. Each class has such a
/// slice, so rows should be many times as many as classes.
const KEPT: [usize; 2] = [3, 1];
/// The most dosages of the rows of a launch. A term of a pair is at most 2^33 times the individuals, see `ClassWeights`, so
/// the sums of a launch stay below 2^64.
const MOST_DOSAGES: usize = 1 << 30;
/// A row is rare if there are so many individuals for each copy that has the allele. Then adding to the sums of the pairs of these copies takes less time
/// than counting all pairs.
const RARE_SAMPLES: usize = 200;
/// Bytes of units before their pairs are counted. Adding to the counts in device memory takes as long as the products of a hundred
/// steps, so there should be several hundred.
const UNITS_BYTES: usize = 256 << 20;
/// The most steps before pairs are counted.
const MOST_STEPS: usize = 1024;
/// Units of a step are a multiple of this, which the tiles of all kernels divide.
const STRIDE: usize = 768;
/// The most parts of the steps of a tile: each is added to the counts in device memory.
const MOST_SPLITS: usize = 32;
/// Bytes of the weights of rare rows, of each number of copies from 0 on.
pub(super) const RARE_WEIGHT_BYTES: usize = (RARE_COPIES + 1) * RARE_WEIGHTS * size_of::<u64>();
/// Bytes of device memory for tiles, and for rounding small buffers up.
const OTHER_BYTES: usize = 8 << 20;

/// The sizes of a counter.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub(super) units: Units,
    pub(super) copies: usize,
    /// Units of a step, with those past the last.
    pub(super) stride: usize,
    /// 64-bit words of a row.
    pub(super) row_words: usize,
    /// Rows that are copied at a time, whole steps.
    pub(super) rows: usize,
    /// Steps of which there is room for units.
    pub(super) steps: usize,
}

impl Layout {
    /// For the pairs of units of so many copies; `None` if the numbers are beyond what kernels take.
    pub fn try_new(units: Units, copies: usize) -> Option<Self> {
        let stride = units.number(copies).checked_next_multiple_of(STRIDE)?;
        let width = plane_words(copies);
        u32::try_from(stride).ok()?;
        u32::try_from(2 * width).ok()?;
        let row_words = width.checked_mul(units.planes())?;
        let row_bytes = row_words.checked_mul(size_of::<u64>())?.max(1);
        let step_bytes = stride.checked_mul(abi::UNIT_BYTES)?.max(1);
        let steps_copied = (ROWS_BYTES / row_bytes / abi::STEP_ROWS).max(1);
        let steps = (UNITS_BYTES / step_bytes).clamp(1, MOST_STEPS);
        Some(Self {
            units,
            copies,
            stride,
            row_words,
            rows: steps_copied.min(steps) * abi::STEP_ROWS,
            steps,
        })
    }

    /// Bytes of the units of all steps.
    pub(super) fn units_bytes(&self) -> Option<usize> {
        let step_bytes = self.stride.checked_mul(abi::UNIT_BYTES)?;
        step_bytes.checked_mul(self.steps)
    }

    /// Bytes of the rows that are copied at a time.
    pub(super) fn rows_bytes(&self) -> Option<usize> {
        let words = self.rows.checked_mul(self.row_words)?;
        words.checked_mul(size_of::<u64>())
    }

    /// Bytes of the counts.
    pub(super) fn counts_bytes(&self) -> Option<usize> {
        let counts = self.stride.checked_mul(self.stride)?;
        counts.checked_mul(size_of::<u32>())
    }

    /// Bytes of the sums of a piece of pairs.
    pub(super) fn sums_bytes(&self) -> Option<usize> {
        let n = self.units.paired(self.copies);
        let [of_pair, of_each] = self.units.sums();
        let numbers = |pairs: usize, firsts: usize| {
            let numbers = pairs.checked_mul(of_pair)?;
            let numbers = numbers.checked_add(firsts.checked_mul(of_each)?)?;
            numbers.checked_mul(size_of::<u32>())
        };
        let of_one = numbers(n.saturating_sub(1), 1)?;
        Some(numbers(pairs_of(n), n)?.min(FETCHED_BYTES.max(of_one)))
    }

    /// Pieces of all pairs, whose sums are fetched at a time.
    pub(super) fn pieces(&self) -> impl Iterator<Item = PairPiece> + use<> {
        let most = FETCHED_BYTES / size_of::<u32>();
        self.units.pieces(self.copies, most)
    }

    /// Bytes of device memory at most, as buffers are rounded up; `None` if they are more than memory has.
    pub fn device_bytes(&self) -> Option<usize> {
        let buffers = [
            self.units_bytes()?,
            self.rows_bytes()?,
            self.counts_bytes()?,
            self.sums_bytes()?,
        ];
        let bytes = buffers
            .into_iter()
            .try_fold(0usize, |sum, bytes| sum.checked_add(bytes))?;
        bytes.checked_add(bytes / 8)?.checked_add(OTHER_BYTES)
    }
}

/// The sizes of [`WeightedPairs`](super::weighted_pairs::WeightedPairs).
#[derive(Clone, Copy, Debug)]
pub struct WeightedLayout {
    pub(super) samples: usize,
    /// Pairs of individuals i <= j.
    pub(super) n_pairs: usize,
    pub(super) n_units: usize,
    /// Units of a step, with those past the last.
    pub(super) stride: usize,
    /// 64-bit words of a row.
    pub(super) row_words: usize,
    /// Rows after which full slices are multiplied.
    pub(super) rows: usize,
    /// Rows after which all slices are, this many times as many.
    kept: usize,
    /// Steps of a launch.
    pub(super) steps: usize,
}

impl WeightedLayout {
    /// For so many diploid individuals; `None` if the numbers are beyond what kernels take.
    pub fn try_new(samples: usize) -> Option<Self> {
        let n_units = samples
            .checked_next_multiple_of(abi::BLOCK_SAMPLES)?
            .checked_mul(2)?;
        let stride = n_units.checked_next_multiple_of(STRIDE)?;
        u32::try_from(stride).ok()?;
        let row_words = plane_words(samples.checked_mul(2)?);
        let row_bytes = row_words.checked_mul(size_of::<u64>())?.max(1);
        let step_bytes = stride.checked_mul(abi::UNIT_BYTES)?.max(1);
        let n_pairs = samples.checked_mul(samples.checked_add(1)?)? / 2;
        let most_rows = MOST_DOSAGES / samples.max(1);
        let most_steps = (most_rows / abi::STEP_ROWS).clamp(1, MOST_STEPS);
        let layout = Self {
            samples,
            n_pairs,
            n_units,
            stride,
            row_words,
            rows: (SORTED_BYTES / row_bytes).min(most_rows).max(1),
            kept: KEPT[0],
            steps: (UNITS_BYTES / step_bytes).clamp(1, most_steps),
        };
        layout.device_bytes().map(|_| layout)
    }

    /// The same with fewer rows on the device, where memory is short.
    pub fn with_fewer_rows(self) -> Self {
        Self {
            kept: KEPT[1],
            ..self
        }
    }

    /// Rows that are kept until all are multiplied.
    pub(super) fn kept_rows(&self) -> usize {
        self.kept * self.rows
    }

    /// Bytes of the rows that are kept.
    pub(super) fn rows_bytes(&self) -> usize {
        self.kept_rows() * self.row_words * size_of::<u64>()
    }

    /// Bytes of the units of a launch.
    pub(super) fn units_bytes(&self) -> usize {
        self.steps * self.stride * abi::UNIT_BYTES
    }

    /// Bytes of the rows and weights of a launch's slices: two weights for pairs, and two for individuals.
    pub(super) fn table_bytes(&self) -> usize {
        let slice = abi::SLICE_ROWS * size_of::<u32>() + 4 * size_of::<u64>();
        self.steps * abi::STEP_SLICES * slice
    }

    /// Classes of rare rows: the numbers of copies that have the allele from 0 on; none where no row is rare.
    pub(super) fn rare_classes(&self) -> usize {
        match (self.samples / RARE_SAMPLES).min(RARE_COPIES) {
            0 => 0,
            copies => copies + 1,
        }
    }

    /// Bytes of the weights of rare rows, and of the places of as many rows as are added at a time.
    pub(super) fn rare_bytes(&self) -> usize {
        let places = match self.rare_classes() {
            0 => 0,
            _ => self.rows * size_of::<u32>(),
        };
        RARE_WEIGHT_BYTES + places
    }

    /// Bytes of the sums of pairs with one set of weights.
    pub(super) fn sums_bytes(&self) -> usize {
        self.n_pairs * abi::SUM_BYTES
    }

    /// Bytes of the sums of units.
    pub(super) fn unit_sums_bytes(&self) -> usize {
        self.n_units * 2 * abi::SUM_BYTES
    }

    /// Bytes of device memory at most, as buffers are rounded up; `None` if they are more than memory has.
    pub fn device_bytes(&self) -> Option<usize> {
        let units = self.stride.checked_mul(self.steps * abi::UNIT_BYTES)?;
        let sums = self.n_pairs.checked_mul(2 * abi::SUM_BYTES)?;
        let others = [
            self.rows_bytes(),
            self.table_bytes(),
            self.unit_sums_bytes(),
            self.rare_bytes(),
        ];
        let bytes = others
            .into_iter()
            .try_fold(units, |sum, bytes| sum.checked_add(bytes))?
            .checked_add(sums)?;
        bytes.checked_add(bytes / 8)?.checked_add(OTHER_BYTES)
    }
}

/// Tiles that cover all pairs of units `i <= j`, those of a column next to each other, so that their second units stay in the cache.
pub(super) fn tiles(n_units: usize, [rows, columns]: [usize; 2]) -> Vec<abi::PairTile> {
    let columns_at = (0..n_units).step_by(columns);
    columns_at
        .flat_map(|column| {
            let rows_at = (0..n_units.min(column + columns)).step_by(rows);
            // These fit, as the layout says.
            rows_at.map(move |row| abi::PairTile {
                row: row as u32,
                column: column as u32,
            })
        })
        .collect()
}

/// Parts of `steps` steps, so that every one of `blocks` thread blocks has about as much to do.
pub(super) fn splits(n_tiles: usize, steps: usize, blocks: usize) -> usize {
    let most = steps.clamp(1, MOST_SPLITS);
    // Steps of tiles that pass until the last block ends, as a part of all.
    let time = |splits: usize| (n_tiles * splits).div_ceil(blocks) as f64 / splits as f64;
    let best = (1..=most).map(time).fold(f64::INFINITY, f64::min);
    (1..=most)
        .find(|splits| time(*splits) <= 1.05 * best)
        .unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_cover_each_pair() {
        for n_units in [1, 127, 128, 129, 400, 1000] {
            for [rows, columns] in [abi::GRAM_TILE, abi::HOPPER_TILE] {
                let mut covered = vec![0; n_units * n_units];
                for tile in tiles(n_units, [rows, columns]) {
                    for i in tile.row as usize..n_units.min(tile.row as usize + rows) {
                        let seconds = tile.column as usize..tile.column as usize + columns;
                        for j in seconds.filter(|j| *j < n_units) {
                            covered[i * n_units + j] += 1;
                        }
                    }
                }
                for i in 0..n_units {
                    assert!((i..n_units).all(|j| covered[i * n_units + j] == 1));
                }
                let stride = n_units.next_multiple_of(STRIDE);
                let last = tiles(n_units, [rows, columns]).into_iter();
                let ends =
                    last.map(|tile| [tile.row as usize + rows, tile.column as usize + columns]);
                assert!(ends.into_iter().flatten().all(|end| end <= stride));
            }
        }
    }

    #[test]
    fn layouts_are_within_limits() {
        for copies in [1, 2, 63, 2_940, 50_000] {
            for units in [Units::Copies, Units::CopiesCalled, Units::DiploidsCalled] {
                let layout = Layout::try_new(units, copies).unwrap();
                assert!(layout.stride >= units.number(copies) && layout.steps >= 1);
                assert!(
                    layout.rows >= abi::STEP_ROWS && layout.rows.is_multiple_of(abi::STEP_ROWS)
                );
                assert!(layout.rows <= layout.steps * abi::STEP_ROWS);
                assert!(layout.device_bytes().is_some());
            }
        }
        for units in [
            Units::Copies,
            Units::CopiesCalled,
            Units::Diploids,
            Units::DiploidsCalled,
        ] {
            for copies in [0, 1, 2, 63, 2_940, 5_000] {
                let layout = Layout::try_new(units, copies).unwrap();
                let numbers = layout.pieces().map(|piece| units.numbers(&piece));
                let largest = numbers.max().unwrap_or(0) * size_of::<u32>();
                assert!(
                    largest <= layout.sums_bytes().unwrap(),
                    "{units:?} {copies}"
                );
            }
        }
        assert!(Layout::try_new(Units::CopiesCalled, usize::MAX).is_none());
        assert!(Layout::try_new(Units::Copies, 1 << 33).is_none());
    }

    #[test]
    fn weighted_layouts_are_within_limits() {
        for samples in [1, 7, 1_470, 50_000] {
            let layout = WeightedLayout::try_new(samples).unwrap();
            let fewer = layout.with_fewer_rows();
            assert!(fewer.device_bytes() < layout.device_bytes());
            assert_eq!(fewer.kept_rows(), layout.rows);
            assert!(layout.stride >= layout.n_units && layout.n_units >= 2 * samples);
            assert!(layout.rows >= 1 && layout.rows * samples <= MOST_DOSAGES);
            let of_launch = layout.steps * abi::STEP_ROWS;
            assert!(layout.steps >= 1 && of_launch * samples <= MOST_DOSAGES);
            assert_eq!(layout.n_pairs, samples * (samples + 1) / 2);
        }
        assert!(WeightedLayout::try_new(usize::MAX).is_none());
        assert!(WeightedLayout::try_new(1 << 32).is_none());
    }

    #[test]
    fn blocks_have_work() {
        assert_eq!(splits(1, 1, 132), 1);
        assert_eq!(splits(132, 500, 132), 1);
        assert!(splits(1, 500, 132) >= 30);
        let splits = splits(96, 512, 132);
        assert!(
            (96 * splits).div_ceil(132) * 132 <= 96 * splits * 107 / 100,
            "{splits}"
        );
    }
}
