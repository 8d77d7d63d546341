//! [`Slices`]: where rows with classes go in a buffer, so that each slice of sites has rows of one class.

use crate::counts::pairs::ClassWeights;
use crate::gpu::abi;
use crate::gpu::error::GpuError;

/// Rows of a slice, whose places are 32-bit numbers.
const ROWS: u32 = abi::SLICE_ROWS as u32;

/// The slices of a buffer, each with rows of one class. Rows that a slice does not have are left out.
#[derive(Debug)]
pub(super) struct Slices {
    /// The class of each slice that has a row.
    classes: Vec<u32>,
    /// For each class the place after its last row, or one before a slice of its own; a multiple of a slice's rows where it needs another slice.
    next: Vec<u32>,
    /// Slices that there is room for.
    most: usize,
}

/// Where the weights of slices are in a table, as words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TablePlaces {
    pub(super) pairs: [usize; 2],
    pub(super) singles: usize,
}

impl Slices {
    /// No rows yet, of so many classes, with room for `most` slices.
    pub(super) fn new(classes: usize, most: usize) -> Self {
        Self {
            classes: vec![],
            next: vec![0; classes],
            // Places have 32 bits.
            most: most.min((u32::MAX / ROWS) as usize),
        }
    }

    /// Appends the places of rows of these classes, until one needs a slice for which there is no room; returns how many have places.
    ///
    /// # Errors
    /// If there is no such class.
    pub(super) fn place(
        &mut self,
        classes: &[u32],
        places: &mut Vec<u32>,
    ) -> Result<usize, GpuError> {
        for (row, class) in classes.iter().enumerate() {
            let Some(next) = self.next.get_mut(*class as usize) else {
                return Err(format!("a row of class {class} has no weight").into());
            };
            if next.is_multiple_of(ROWS) {
                if self.classes.len() >= self.most {
                    return Ok(row);
                }
                *next = self.classes.len() as u32 * ROWS;
                self.classes.push(*class);
            }
            places.push(*next);
            *next += 1;
        }
        Ok(classes.len())
    }

    /// The class of each slice; afterwards there are none.
    pub(super) fn take(&mut self) -> Vec<u32> {
        self.next.fill(0);
        std::mem::take(&mut self.classes)
    }
}

/// Appends the weights of slices of these classes, as kernels read them, as if there were `most` slices.
pub(super) fn tables(
    classes: &[u32],
    weights: &[ClassWeights],
    most: usize,
    table: &mut Vec<u64>,
) -> TablePlaces {
    let of_class = |class: &u32| weights.get(*class as usize).copied().unwrap_or_default();
    let mut pairs = [0; 2];
    for (set, place) in pairs.iter_mut().enumerate() {
        *place = table.len();
        table.extend(classes.iter().map(|class| of_class(class).pairs[set]));
        table.resize(*place + most, 0);
    }
    let singles = table.len();
    table.extend(classes.iter().flat_map(|class| of_class(class).singles));
    table.resize(singles + 2 * most, 0);
    TablePlaces { pairs, singles }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_have_rows_of_one_class() {
        let mut slices = Slices::new(5, 8);
        let classes: Vec<u32> = (0..2000).map(|row| [1, 4, 4, 2][row % 4]).collect();
        let mut places = vec![];
        for part in classes.chunks(33) {
            let placed = slices.place(part, &mut places).unwrap();
            assert_eq!(placed, part.len());
        }
        // 500, 500 and 1,000 rows.
        let mut of_slices = slices.take();
        let mut seen = vec![false; 8 * abi::SLICE_ROWS];
        for (place, class) in places.iter().zip(&classes) {
            let place = *place as usize;
            assert_eq!(of_slices[place / abi::SLICE_ROWS], *class);
            assert!(!std::mem::replace(&mut seen[place], true));
        }
        of_slices.sort_unstable();
        assert_eq!(of_slices, [1, 1, 2, 2, 4, 4, 4, 4]);
        assert!(slices.take().is_empty());
    }

    #[test]
    fn rows_wait_for_room() {
        let mut slices = Slices::new(3, 2);
        let mut places = vec![];
        assert_eq!(slices.place(&[0, 2, 0], &mut places).unwrap(), 3);
        assert_eq!(slices.place(&[2, 1, 2], &mut places).unwrap(), 1);
        assert_eq!(places, [0, ROWS, 1, ROWS + 1]);
        let many = vec![0; abi::SLICE_ROWS];
        assert_eq!(slices.place(&many, &mut places).unwrap(), many.len() - 2);
        assert_eq!(slices.take(), [0, 2]);
        places.clear();
        assert_eq!(slices.place(&[1, 2], &mut places).unwrap(), 2);
        assert_eq!(places, [0, ROWS]);
        assert!(slices.place(&[3], &mut places).is_err());
    }

    #[test]
    fn tables_have_the_weights_of_slices() {
        let weights = |class: u64| ClassWeights {
            pairs: [class, 7],
            singles: [10 + class, 20 + class],
        };
        let all: Vec<_> = (0..5).map(weights).collect();
        let mut table = vec![];
        let places = tables(&[1, 2, 2], &all, 4, &mut table);
        assert_eq!((places.pairs, places.singles), ([0, 4], 8));
        assert_eq!(table[..8], [1, 2, 2, 0, 7, 7, 7, 0]);
        assert_eq!(table[8..], [11, 21, 12, 22, 12, 22, 0, 0]);
    }
}
