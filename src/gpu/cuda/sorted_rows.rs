//! [`SortedRows`]: rows of a buffer sorted by class, so that each slice of sites has rows of one class.

use std::ops::Range;

use crate::counts::pairs::ClassWeights;
use crate::gpu::abi;

/// Rows sorted by class.
#[derive(Debug)]
pub(super) struct SortedRows {
    /// For each site the row, or [`abi::NO_ROW`]; whole slices.
    order: Vec<u32>,
    /// The weights of each slice.
    slices: Vec<ClassWeights>,
}

/// Where the weights of slices are in a table, as words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TablePlaces {
    pub(super) pairs: [usize; 2],
    pub(super) singles: usize,
}

impl SortedRows {
    /// Sorts rows of these classes; classes without weights have none.
    pub(super) fn new(classes: &[u32], weights: &[ClassWeights]) -> Self {
        let mut rows = vec![0usize; weights.len()];
        for class in classes {
            if let Some(rows) = rows.get_mut(*class as usize) {
                *rows += 1;
            }
        }
        // The next site of each class.
        let (mut next, mut slices) = (vec![], vec![]);
        for (rows, weights) in rows.iter().zip(weights) {
            next.push(slices.len() * abi::SLICE_ROWS);
            slices.resize(slices.len() + rows.div_ceil(abi::SLICE_ROWS), *weights);
        }
        let mut order = vec![abi::NO_ROW; slices.len() * abi::SLICE_ROWS];
        for (row, class) in (0u32..).zip(classes) {
            if let Some(next) = next.get_mut(*class as usize) {
                if let Some(site) = order.get_mut(*next) {
                    *site = row;
                }
                *next += 1;
            }
        }
        Self { order, slices }
    }

    /// Number of slices.
    pub(super) fn slices(&self) -> usize {
        self.slices.len()
    }

    /// The rows of some slices.
    pub(super) fn order(&self, slices: Range<usize>) -> &[u32] {
        let sites = slices.start * abi::SLICE_ROWS..slices.end * abi::SLICE_ROWS;
        self.order.get(sites).unwrap_or_default()
    }

    /// Appends the weights of some slices, as kernels read them, as if there were `most` slices.
    pub(super) fn tables(
        &self,
        slices: Range<usize>,
        most: usize,
        table: &mut Vec<u64>,
    ) -> TablePlaces {
        let slices = self.slices.get(slices).unwrap_or_default();
        let mut pairs = [0; 2];
        for (set, place) in pairs.iter_mut().enumerate() {
            *place = table.len();
            table.extend(slices.iter().map(|weights| weights.pairs[set]));
            table.resize(*place + most, 0);
        }
        let singles = table.len();
        table.extend(slices.iter().flat_map(|weights| weights.singles));
        table.resize(singles + 2 * most, 0);
        TablePlaces { pairs, singles }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_have_rows_of_one_class() {
        let weights = |class: u64| ClassWeights {
            pairs: [class, 7],
            singles: [10 + class, 20 + class],
        };
        let all: Vec<_> = (0..5).map(weights).collect();
        let classes: Vec<u32> = (0..2000u32)
            .map(|row| [1, 4, 4, 2][row as usize % 4])
            .collect();
        let sorted = SortedRows::new(&classes, &all);
        // 500, 500 and 1,000 rows.
        assert_eq!(sorted.slices(), 2 + 2 + 4);
        let mut seen = vec![0; classes.len()];
        for slice in 0..sorted.slices() {
            let class = [1, 1, 2, 2, 4, 4, 4, 4][slice];
            assert_eq!(sorted.slices[slice], weights(class));
            let rows = sorted.order(slice..slice + 1);
            assert_eq!(rows.len(), abi::SLICE_ROWS);
            for row in rows.iter().filter(|row| **row != abi::NO_ROW) {
                assert_eq!(u64::from(classes[*row as usize]), class);
                seen[*row as usize] += 1;
            }
        }
        assert!(seen.iter().all(|times| *times == 1));
        let mut table = vec![];
        let places = sorted.tables(1..4, 4, &mut table);
        assert_eq!((places.pairs, places.singles), ([0, 4], 8));
        assert_eq!(table[..8], [1, 2, 2, 0, 7, 7, 7, 0]);
        assert_eq!(table[8..], [11, 21, 12, 22, 12, 22, 0, 0]);
    }
}
