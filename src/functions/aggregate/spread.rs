//! Adds a line to rows of a grid, times a weight for each row: the outer step of projecting a joint spectrum.
//!
//! Used by [`project_joint_sfs`](super::project_joint_sfs). Lines are collected and added many at a time, so that a cell
//! stays in a register for several of them. Every cell sums its lines in the order in which they were added, with any
//! instruction set, so the bits are those of adding line by line.

use std::ops::Range;

use crate::counts::{Job, Lanes, Level};

/// The most pending lines.
const LINES: usize = 64;
/// Lines that are added to a row in one pass.
const TOGETHER: usize = 8;
/// The most pending numbers: lines of a very large grid are added sooner.
const MOST: usize = 1 << 20;

/// Lines that are pending to be added to a grid.
#[derive(Debug)]
pub(super) struct Spread {
    level: Level,
    columns: usize,
    /// The lines, one after the other.
    lines: Vec<f64>,
    /// For each line, the first row that it is added to, and the range in `weights` of its weights for the rows from there on.
    rows: Vec<(usize, Range<usize>)>,
    weights: Vec<f64>,
}

impl Spread {
    /// For grids of `columns` columns.
    pub(super) fn new(columns: usize) -> Self {
        Self {
            level: Level::detect(),
            columns,
            lines: vec![],
            rows: vec![],
            weights: vec![],
        }
    }

    /// Adds a line to the rows of `grid` from `first` on, with these weights. `fill` computes the line in a slice of zeros. The line may
    /// stay pending until [`finish`](Self::finish).
    pub(super) fn add(
        &mut self,
        grid: &mut [f64],
        first: usize,
        weights: &[f64],
        fill: impl FnOnce(&mut [f64]),
    ) {
        let start = self.lines.len();
        self.lines.resize(start + self.columns, 0.0);
        fill(&mut self.lines[start..]);
        let at = self.weights.len();
        self.weights.extend_from_slice(weights);
        self.rows.push((first, at..self.weights.len()));
        if self.rows.len() == LINES || self.lines.len() + self.weights.len() > MOST {
            self.finish(grid);
        }
    }

    /// Adds the pending lines.
    pub(super) fn finish(&mut self, grid: &mut [f64]) {
        let first = self.rows.iter().map(|(first, _)| *first).min();
        let end = self.rows.iter().map(|(first, at)| first + at.len()).max();
        if let (Some(first), Some(end)) = (first, end) {
            let rows = grid.chunks_exact_mut(self.columns).enumerate();
            let mut weights = [0.0; LINES];
            for (row, cells) in rows.take(end).skip(first) {
                for (weight, (first, at)) in weights.iter_mut().zip(&self.rows) {
                    let known = self.weights.get(at.clone()).unwrap_or_default();
                    let known = row.checked_sub(*first).and_then(|row| known.get(row));
                    *weight = known.copied().unwrap_or(0.0);
                }
                self.level.run(AddLines {
                    lines: &self.lines,
                    weights: &weights[..self.rows.len()],
                    cells,
                });
            }
        }
        self.lines.clear();
        self.rows.clear();
        self.weights.clear();
    }
}

/// Adds lines, each times its weight, to the cells of a row.
struct AddLines<'a> {
    lines: &'a [f64],
    weights: &'a [f64],
    cells: &'a mut [f64],
}

impl Job for AddLines<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) {
        let columns = self.cells.len();
        if columns == 0 {
            return;
        }
        for (lines, weights) in self
            .lines
            .chunks(TOGETHER * columns)
            .zip(self.weights.chunks(TOGETHER))
        {
            // If there are fewer lines, the first one fills up the array, with weight 0.
            let mut of: [&[f64]; TOGETHER] = [&lines[..columns]; TOGETHER];
            let mut times = [0.0; TOGETHER];
            for (of, line) in of.iter_mut().zip(lines.chunks_exact(columns)) {
                *of = line;
            }
            times[..weights.len()].copy_from_slice(weights);
            for (column, cell) in self.cells.iter_mut().enumerate() {
                let mut sum = *cell;
                for (line, weight) in of.iter().zip(&times) {
                    sum += weight * line[column];
                }
                *cell = sum;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_adding_line_by_line() {
        for (rows, columns, n) in [
            (1, 1, 1),
            (3, 33, 63),
            (7, 32, 64),
            (40, 70, 200),
            (5, 100, 0),
        ] {
            let mut spread = Spread::new(columns);
            let mut grid: Vec<f64> = (0..rows * columns).map(|i| i as f64 / 7.0).collect();
            let mut expected = grid.clone();
            for line in 0..n {
                let value = |column: usize| ((line * 31 + column * 17) % 97) as f64 / 9.7;
                let first = line % rows;
                let weights: Vec<f64> = (first..rows.min(first + 9))
                    .map(|row| 1.0 / (1 + row + line) as f64)
                    .collect();
                spread.add(&mut grid, first, &weights, |line| {
                    for (column, cell) in line.iter_mut().enumerate() {
                        *cell += value(column);
                    }
                });
                for (row, weight) in (first..).zip(&weights) {
                    for column in 0..columns {
                        expected[row * columns + column] += weight * value(column);
                    }
                }
            }
            spread.finish(&mut grid);
            assert_eq!(grid, expected, "{rows} {columns} {n}");
            // No lines are pending.
            spread.finish(&mut grid);
            assert_eq!(grid, expected);
        }
    }
}
