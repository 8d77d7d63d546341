//! Sums over columns of p · q for all pairs of units, exact because every partial sum is a whole number below 2⁵³.

use std::ops::Range;

use crate::counts::{CountError, Job, Lanes, Level, Workers};

use super::matrix::too_large;
use super::triangle::Part;

/// First units of a tile: their sums with [`SECOND`] others fit the registers of AVX2.
pub(super) const FIRST: usize = 6;
/// Second units of a tile.
pub(super) const SECOND: usize = 8;

/// The numbers q: for each tile of units and each column those of its units, zeros past the last.
#[derive(Debug, Default)]
pub(super) struct Seconds {
    numbers: Vec<[f64; SECOND]>,
    columns: usize,
    units: usize,
}

impl Seconds {
    /// Makes room for `columns` numbers of each unit, which are to be set; the allocation is used again.
    ///
    /// # Errors
    /// [`CountError::TooLarge`] if they do not fit in memory.
    pub(super) fn reset(&mut self, units: usize, columns: usize) -> Result<(), CountError> {
        let len = units.div_ceil(SECOND).saturating_mul(columns);
        let more = len.saturating_sub(self.numbers.len());
        self.numbers
            .try_reserve_exact(more)
            .map_err(|_| too_large("numbers", units))?;
        self.numbers.resize(len, [0.0; SECOND]);
        (self.columns, self.units) = (columns, units);
        Ok(())
    }

    /// The units of each tile, and its columns.
    pub(super) fn tiles(&mut self) -> impl Iterator<Item = (Range<usize>, &mut [[f64; SECOND]])> {
        let units = self.units;
        let tiles = self.numbers.chunks_mut(self.columns.max(1)).enumerate();
        tiles.map(move |(tile, columns)| (tile * SECOND..units.min((tile + 1) * SECOND), columns))
    }

    fn tile(&self, tile: usize) -> &[[f64; SECOND]] {
        let from = tile * self.columns;
        self.numbers
            .get(from..from + self.columns)
            .unwrap_or_default()
    }
}

/// Calls `sink(place of (i, j) in the part, Σ p_i q_j, Σ p_i q_j+1, …)` for all pairs i ≤ j of a part that begins at a multiple of [`FIRST`].
/// `fill(units, columns)` sets the numbers p of a tile, which are zeros before.
pub(super) fn for_each_sum<F, S>(
    seconds: &Seconds,
    part: &Part,
    (level, workers): (Level, &Workers<'_>),
    fill: F,
    sink: S,
) -> Result<(), CountError>
where
    F: Fn(Range<usize>, &mut [[f64; FIRST]]),
    S: FnMut(usize, &[f64]),
{
    level.run(Sums {
        seconds,
        part,
        workers,
        fill,
        sink,
    })
}

struct Sums<'a, F, S> {
    seconds: &'a Seconds,
    part: &'a Part,
    workers: &'a Workers<'a>,
    fill: F,
    sink: S,
}

impl<F, S> Job for Sums<'_, F, S>
where
    F: Fn(Range<usize>, &mut [[f64; FIRST]]),
    S: FnMut(usize, &[f64]),
{
    type Output = Result<(), CountError>;

    #[inline(always)]
    fn run<L: Lanes>(mut self, lanes: L) -> Result<(), CountError> {
        let (seconds, firsts) = (self.seconds, &self.part.firsts);
        let mut numbers = vec![[0.0; FIRST]; seconds.columns];
        for start in firsts.clone().step_by(FIRST) {
            self.workers.check()?;
            let end = firsts.end.min(start + FIRST);
            numbers.fill([0.0; FIRST]);
            (self.fill)(start..end, &mut numbers);
            for second in start / SECOND..seconds.units.div_ceil(SECOND) {
                let mut sums = [lanes.doubles(&[0.0; SECOND]); FIRST];
                for (p, q) in numbers.iter().zip(seconds.tile(second)) {
                    let q = lanes.doubles(q);
                    for (sum, p) in sums.iter_mut().zip(p) {
                        *sum = lanes.add_product(*sum, *p, q);
                    }
                }
                let to = seconds.units.min((second + 1) * SECOND);
                for (i, sum) in (start..end).zip(sums) {
                    let from = i.max(second * SECOND);
                    let each = lanes.each(sum);
                    if from < to {
                        let each = &each[from - second * SECOND..to - second * SECOND];
                        (self.sink)(self.part.at(i, from), each);
                    }
                }
            }
        }
        Ok(())
    }
}
