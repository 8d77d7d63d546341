//! [`SortedRows`]: rows of a buffer sorted by class, so that each slice of sites has rows of one class. Those of the first classes, in which few copies have
//! the allele, are apart and in no slice.
//!
//! Rows are sorted as they arrive, since the thread that flushes the buffer keeps the others from adding rows; then only slices are put into the order of
//! their classes, as kernels multiply the products of slices that follow each other once if they have the same weights. Full slices are taken as soon as
//! there are many, the last one of each class only once no more rows are added to it: a slice takes a kernel the same time whatever rows it has.

use std::ops::Range;

use crate::counts::pairs::ClassWeights;
use crate::gpu::abi;
use crate::gpu::error::GpuError;

/// Rows of a slice, whose sites have 32-bit numbers.
const ROWS: u32 = abi::SLICE_ROWS as u32;

/// Rows sorted by class. Rows that a slice does not have are left out.
#[derive(Debug)]
pub(super) struct SortedRows {
    rows: u32,
    /// For each site the row, or [`abi::NO_ROW`]; whole slices, as they were begun.
    sites: Vec<u32>,
    /// The class of each slice.
    classes: Vec<u32>,
    /// Slices that were not taken.
    waiting: Vec<u32>,
    /// Those that were taken last, in the order of their classes.
    slices: Vec<u32>,
    /// Rows that were there when slices were taken last.
    rows_taken: u32,
    /// For each class the site of its next row; a multiple of a slice's where it needs another slice.
    next: Vec<u32>,
    /// How many of the first classes are of rare rows.
    rare_classes: usize,
    /// Rows of these classes that were not taken.
    rare: Vec<u32>,
}

/// Rows that are added together, sorted by class: that takes longer than adding them, and is done before the device is locked.
#[derive(Debug, Default)]
pub(super) struct ClassRuns {
    /// The rows, from 0 on, those of a class next to each other and in order.
    rows: Vec<u32>,
    /// Each class, and how many rows it has.
    runs: Vec<(u32, u32)>,
}

impl ClassRuns {
    /// Rows of these classes, one after the other.
    pub(super) fn new(classes: &[u32]) -> Self {
        let largest = classes.iter().max().map_or(0, |class| *class as usize + 1);
        let mut places = vec![0u32; largest];
        for class in classes {
            places[*class as usize] += 1;
        }
        let (mut runs, mut begin) = (vec![], 0);
        for (class, place) in (0..).zip(&mut places) {
            let len = std::mem::replace(place, begin);
            if len > 0 {
                runs.push((class, len));
                begin += len;
            }
        }
        let mut rows = vec![0; classes.len()];
        for (row, class) in (0..).zip(classes) {
            let place = &mut places[*class as usize];
            rows[*place as usize] = row;
            *place += 1;
        }
        Self { rows, runs }
    }
}

/// Where the weights of slices are in a table, as words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TablePlaces {
    pub(super) pairs: [usize; 2],
    pub(super) singles: usize,
}

impl SortedRows {
    /// No rows of so many classes, of which the first `rare_classes` are of rare rows.
    pub(super) fn new(classes: usize, rare_classes: usize) -> Self {
        Self {
            rows: 0,
            sites: vec![],
            classes: vec![],
            waiting: vec![],
            slices: vec![],
            rows_taken: 0,
            next: vec![0; classes],
            rare_classes,
            rare: vec![],
        }
    }

    /// Adds rows, which follow those that are there. Their sites have 32-bit numbers, as each class and each row begins one slice at
    /// most beside the full ones.
    ///
    /// # Errors
    /// If there is no such class.
    pub(super) fn add(&mut self, batch: &ClassRuns) -> Result<(), GpuError> {
        let mut rows = batch.rows.as_slice();
        for (class, len) in &batch.runs {
            let Some(next) = self.next.get_mut(*class as usize) else {
                return Err(format!("a row of class {class} has no weight").into());
            };
            let (mut run, others) = rows.split_at_checked(*len as usize).unwrap_or_default();
            rows = others;
            if (*class as usize) < self.rare_classes {
                self.rare.extend(run.iter().map(|row| self.rows + row));
                continue;
            }
            while !run.is_empty() {
                if next.is_multiple_of(ROWS) {
                    *next = self.sites.len() as u32;
                    self.waiting.push(self.classes.len() as u32);
                    self.sites
                        .resize(self.sites.len() + abi::SLICE_ROWS, abi::NO_ROW);
                    self.classes.push(*class);
                }
                // Up to the end of the slice.
                let most = (ROWS - *next % ROWS) as usize;
                let (some, others) = run.split_at(run.len().min(most));
                let sites = self.sites.get_mut(*next as usize..).unwrap_or_default();
                for (site, row) in sites.iter_mut().zip(some) {
                    *site = self.rows + row;
                }
                *next += some.len() as u32;
                run = others;
            }
        }
        self.rows += batch.rows.len() as u32;
        Ok(())
    }

    /// Forgets all rows. Memory is kept, since new pages take longer than sorting.
    pub(super) fn clear(&mut self) {
        self.rows = 0;
        self.sites.clear();
        self.classes.clear();
        self.waiting.clear();
        self.slices.clear();
        self.rows_taken = 0;
        self.next.fill(0);
        self.rare.clear();
    }

    /// Rows that were added since slices were taken last.
    pub(super) fn new_rows(&self) -> usize {
        (self.rows - self.rows_taken) as usize
    }

    /// The rare rows that were not taken.
    pub(super) fn rare(&self) -> &[u32] {
        &self.rare
    }

    /// Forgets the rare rows, which were taken.
    pub(super) fn clear_rare(&mut self) {
        self.rare.clear();
    }

    /// Takes the slices that are full, in the order of their classes; returns their number.
    pub(super) fn take_full(&mut self) -> usize {
        let (classes, next) = (&self.classes, &self.next);
        let is_full = |slice: &mut u32| {
            let class = classes.get(*slice as usize);
            let next = class.and_then(|class| next.get(*class as usize));
            next.is_some_and(|next| next.is_multiple_of(ROWS) || next / ROWS != *slice)
        };
        let full = self.waiting.extract_if(.., is_full).collect();
        self.take(full)
    }

    /// The same of all slices.
    pub(super) fn take_all(&mut self) -> usize {
        let all = std::mem::take(&mut self.waiting);
        self.take(all)
    }

    fn take(&mut self, mut slices: Vec<u32>) -> usize {
        slices.sort_by_key(|slice| self.classes.get(*slice as usize).copied());
        self.slices = slices;
        self.rows_taken = self.rows;
        self.slices.len()
    }

    /// The rows of some of the slices that were taken last, by their place.
    pub(super) fn order(&self, slices: Range<usize>) -> Vec<u32> {
        let mut order = Vec::with_capacity(slices.len() * abi::SLICE_ROWS);
        for slice in self.slices.get(slices).unwrap_or_default() {
            let first = *slice as usize * abi::SLICE_ROWS;
            let rows = self.sites.get(first..first + abi::SLICE_ROWS);
            order.extend_from_slice(rows.unwrap_or_default());
        }
        order
    }

    /// Appends the weights of some of these slices, as kernels read them, as if there were `most` slices.
    pub(super) fn tables(
        &self,
        slices: Range<usize>,
        weights: &[ClassWeights],
        most: usize,
        table: &mut Vec<u64>,
    ) -> TablePlaces {
        let slices = self.slices.get(slices).unwrap_or_default();
        let of_slice = |slice: &u32| {
            let class = self.classes.get(*slice as usize);
            let weights = class.and_then(|class| weights.get(*class as usize));
            weights.copied().unwrap_or_default()
        };
        let mut pairs = [0; 2];
        for (set, place) in pairs.iter_mut().enumerate() {
            *place = table.len();
            table.extend(slices.iter().map(|slice| of_slice(slice).pairs[set]));
            table.resize(*place + most, 0);
        }
        let singles = table.len();
        table.extend(slices.iter().flat_map(|slice| of_slice(slice).singles));
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
        let mut sorted = SortedRows::new(all.len(), 0);
        for repeat in 0..2 {
            let classes: Vec<u32> = (repeat..2000 + repeat)
                .map(|row| [1, 4, 4, 2][row as usize % 4])
                .collect();
            for some in classes.chunks(33) {
                sorted.add(&ClassRuns::new(some)).unwrap();
            }
            // 500, 500 and 1,000 rows.
            assert_eq!(sorted.take_all(), 2 + 2 + 4);
            let mut seen = vec![0; classes.len()];
            for slice in 0..8 {
                let class = [1, 1, 2, 2, 4, 4, 4, 4][slice];
                let rows = sorted.order(slice..slice + 1);
                assert_eq!(rows.len(), abi::SLICE_ROWS);
                for row in rows.iter().filter(|row| **row != abi::NO_ROW) {
                    assert_eq!(classes[*row as usize], class);
                    seen[*row as usize] += 1;
                }
            }
            assert!(seen.iter().all(|times| *times == 1));
            // Rows are in the slices in which they would be one by one.
            let mut alone = SortedRows::new(all.len(), 0);
            for class in &classes {
                alone.add(&ClassRuns::new(&[*class])).unwrap();
            }
            assert_eq!(alone.take_all(), 8);
            for slice in 0..8 {
                assert_eq!(
                    alone.order(slice..slice + 1),
                    sorted.order(slice..slice + 1)
                );
            }
            if repeat == 0 {
                let mut table = vec![];
                let places = sorted.tables(1..4, &all, 4, &mut table);
                assert_eq!((places.pairs, places.singles), ([0, 4], 8));
                assert_eq!(table[..8], [1, 2, 2, 0, 7, 7, 7, 0]);
                assert_eq!(table[8..], [11, 21, 12, 22, 12, 22, 0, 0]);
            }
            sorted.clear();
            assert_eq!(sorted.take_all(), 0);
        }
        assert!(sorted.add(&ClassRuns::new(&[5])).is_err());
    }

    #[test]
    fn slices_are_taken_once() {
        let mut sorted = SortedRows::new(3, 1);
        let classes: Vec<u32> = (0..5_000).map(|row| [1, 2, 2, 0][row % 4]).collect();
        for _ in 0..2 {
            let (mut seen, mut rare, mut taken) = (vec![0; classes.len()], 0, vec![]);
            for some in classes.chunks(700) {
                sorted.add(&ClassRuns::new(some)).unwrap();
                assert_eq!(sorted.new_rows(), some.len());
                rare += sorted.rare().len();
                sorted.clear_rare();
                taken.push(sorted.take_full());
                let order = sorted.order(0..taken.last().copied().unwrap());
                assert!(order.iter().all(|row| *row != abi::NO_ROW));
                order.iter().for_each(|row| seen[*row as usize] += 1);
                let class_of = |row: &u32| classes[*row as usize];
                assert!(order.is_sorted_by_key(class_of));
                assert_eq!(sorted.new_rows(), 0);
            }
            // 1,250 and 2,500 rows.
            assert_eq!((taken.iter().sum::<usize>(), rare), (4 + 9, 1_250));
            assert_eq!(sorted.take_all(), 2);
            let order = sorted.order(0..2);
            let rows = order.iter().filter(|row| **row != abi::NO_ROW);
            rows.for_each(|row| seen[*row as usize] += 1);
            let wanted = classes.iter().map(|class| usize::from(*class > 0));
            assert!(seen.iter().copied().eq(wanted));
            assert_eq!(sorted.take_all(), 0);
            sorted.clear();
        }
    }

    #[test]
    fn rare_rows_are_in_no_slice() {
        let mut sorted = SortedRows::new(4, 3);
        for _ in 0..2 {
            for _ in 0..2 {
                sorted.add(&ClassRuns::new(&[2, 3, 1, 3, 2])).unwrap();
            }
            assert_eq!(sorted.rare(), [2, 0, 4, 7, 5, 9]);
            assert_eq!(sorted.take_all(), 1);
            assert_eq!(sorted.order(0..1)[..4], [1, 3, 6, 8]);
            assert_eq!(sorted.order(0..1)[4], abi::NO_ROW);
            sorted.clear();
        }
        assert!(sorted.rare().is_empty());
    }
}
