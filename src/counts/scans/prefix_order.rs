//! [`PrefixOrder`]: the copies of a population in the order of their alleles at the rows so far, compared from the last row back.
//!
//! This is the positional Burrows-Wheeler transform with its divergence array (Durbin 2014): two copies that have the same allele
//! at the last row agree over the minimum of what the neighbours between them agree over. A row is added in time proportional to the
//! number of copies.

use std::ops::Range;

/// A copy in the order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CopyPlace {
    copy: u32,
    /// The first of the last rows over which it agrees with the copy before it. Of the first copy it has no meaning.
    pub(super) start: u32,
}

/// The order of the copies of a population.
#[derive(Clone, Debug)]
pub(super) struct PrefixOrder {
    places: Vec<CopyPlace>,
    /// Buffers: the places after a row, and apart those of its copies with allele 1.
    next: Vec<CopyPlace>,
    ones: Vec<CopyPlace>,
    rows: u32,
    /// Copies with allele 0 at the last row.
    zeros: usize,
}

/// The allele of a copy.
#[inline(always)]
fn is_one(row: &[u64], copy: u32) -> bool {
    row[(copy >> 6) as usize] >> (copy & 63) & 1 == 1
}

impl PrefixOrder {
    /// The order after `rows` rows, of which `row` gives the bits: bit `i` is the allele of copy `i`. The rows are read from the last one back,
    /// until all copies differ.
    pub(super) fn after<'a>(
        copies: impl Iterator<Item = u32>,
        rows: u32,
        row: impl Fn(u32) -> &'a [u64],
    ) -> Self {
        let mut copies: Vec<u32> = copies.collect();
        let mut starts = vec![0; copies.len()];
        // Copies that agree so far: those of allele 0 come before those of allele 1, and further rows order them among themselves.
        let mut alike: Vec<Range<usize>> = std::iter::once(0..copies.len()).collect();
        let (mut divided, mut ones) = (vec![], vec![]);
        for at in (0..rows).rev() {
            if alike.is_empty() {
                break;
            }
            let row = row(at);
            for range in alike.drain(..) {
                let mut end = range.start;
                for from in range.clone() {
                    let copy = copies[from];
                    if is_one(row, copy) {
                        ones.push(copy);
                    } else {
                        copies[end] = copy;
                        end += 1;
                    }
                }
                copies[end..range.end].copy_from_slice(&ones);
                ones.clear();
                if range.start < end && end < range.end {
                    starts[end] = at + 1;
                }
                let halves = [range.start..end, end..range.end];
                divided.extend(halves.into_iter().filter(|half| half.len() > 1));
            }
            std::mem::swap(&mut alike, &mut divided);
        }
        let places = copies.iter().zip(&starts);
        let places = places.map(|(&copy, &start)| CopyPlace { copy, start });
        let places: Vec<CopyPlace> = places.collect();
        let spare = vec![CopyPlace::default(); places.len()];
        Self {
            zeros: places.len(),
            next: spare.clone(),
            ones: spare,
            places,
            rows,
        }
    }

    /// Adds a row. There may be 2³² − 1 rows.
    pub(super) fn advance(&mut self, row: &[u64]) {
        self.rows += 1;
        let (mut zeros, mut ones) = (0, 0);
        // Where the next copy of each allele begins to agree with the last one of that allele: the greatest start since.
        let (mut start_of_zero, mut start_of_one) = (self.rows, self.rows);
        for CopyPlace { copy, start } in &self.places {
            start_of_zero = start_of_zero.max(*start);
            start_of_one = start_of_one.max(*start);
            let is_one = is_one(row, *copy);
            // Both are written, and one of them is overwritten later, which is faster than a branch that is hard to predict.
            self.next[zeros] = CopyPlace {
                copy: *copy,
                start: start_of_zero,
            };
            self.ones[ones] = CopyPlace {
                copy: *copy,
                start: start_of_one,
            };
            zeros += usize::from(!is_one);
            ones += usize::from(is_one);
            start_of_zero = if is_one { start_of_zero } else { 0 };
            start_of_one = if is_one { 0 } else { start_of_one };
        }
        self.next[zeros..].copy_from_slice(&self.ones[..ones]);
        self.zeros = zeros;
        std::mem::swap(&mut self.places, &mut self.next);
    }

    /// The copies with allele 0 at the last row, and those with allele 1.
    pub(super) fn carriers(&self) -> (&[CopyPlace], &[CopyPlace]) {
        self.places.split_at(self.zeros)
    }

    /// Number of copies.
    pub(super) fn copies(&self) -> usize {
        self.places.len()
    }

    /// Number of rows.
    pub(super) fn rows(&self) -> u32 {
        self.rows
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        3 * self.places.capacity() * size_of::<CopyPlace>()
    }
}
