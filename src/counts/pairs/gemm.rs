//! Sums over columns of p · q for all pairs of units, exact because every partial sum is a whole number below 2⁵³.

use crate::counts::{Job, Lanes, Level};

/// First units of a tile.
const FIRST: usize = 4;
/// Second units of a tile.
const SECOND: usize = 16;

/// Numbers of units by column, in tiles: for each tile and column, the numbers of its units, zeros past the last.
#[derive(Debug, Default)]
pub(super) struct Tiles<const T: usize> {
    numbers: Vec<[f64; T]>,
    columns: usize,
}

impl<const T: usize> Tiles<T> {
    /// Makes room for `columns` columns of `units` units, all zero.
    pub(super) fn reset(&mut self, units: usize, columns: usize) {
        self.columns = columns;
        self.numbers.clear();
        self.numbers.resize(units.div_ceil(T) * columns, [0.0; T]);
    }

    /// Sets the numbers of a column, one for each unit.
    pub(super) fn set(&mut self, column: usize, numbers: impl Iterator<Item = f64>) {
        for (unit, number) in numbers.enumerate() {
            self.numbers[unit / T * self.columns + column][unit % T] = number;
        }
    }

    fn tile(&self, tile: usize) -> &[[f64; T]] {
        &self.numbers[tile * self.columns..(tile + 1) * self.columns]
    }
}

/// The tiles of both sides.
#[derive(Debug, Default)]
pub(super) struct Operands {
    pub(super) first: Tiles<FIRST>,
    pub(super) second: Tiles<SECOND>,
}

/// Calls `sink(i, j, Σ p_i q_j)` for every pair of units i ≤ j.
pub(super) fn for_each_sum<S: FnMut(usize, usize, f64)>(
    operands: &Operands,
    units: usize,
    level: Level,
    sink: S,
) {
    level.run(Sums {
        operands,
        units,
        sink,
    });
}

struct Sums<'a, S> {
    operands: &'a Operands,
    units: usize,
    sink: S,
}

impl<S: FnMut(usize, usize, f64)> Job for Sums<'_, S> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(mut self, _lanes: L) {
        for second in 0..self.units.div_ceil(SECOND) {
            let columns = self.operands.second.tile(second);
            let end = ((second + 1) * SECOND).min(self.units);
            for first in 0..end.div_ceil(FIRST) {
                let mut sums = [[0.0f64; SECOND]; FIRST];
                for (p, q) in self.operands.first.tile(first).iter().zip(columns) {
                    for i in 0..FIRST {
                        for j in 0..SECOND {
                            sums[i][j] += p[i] * q[j];
                        }
                    }
                }
                for (i, sums) in (first * FIRST..end).zip(&sums) {
                    for (j, sum) in (second * SECOND..end).zip(sums) {
                        if i <= j {
                            (self.sink)(i, j, *sum);
                        }
                    }
                }
            }
        }
    }
}
