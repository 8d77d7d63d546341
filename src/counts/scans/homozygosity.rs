//! [`Homozygosity`]: the integral of extended haplotype homozygosity to one side of a row.
//!
//! Extended haplotype homozygosity (EHH, Sabeti et al. 2002) is the proportion of the pairs of copies that are identical from a row to a distance
//! from it. It is integrated over distance by trapezoids, from row to row, until it is 0.05 or less, as in Voight et al. (2006).

use super::contig_rows::Gap;

/// The integral ends where the proportion is this or less; the last trapezoid counts.
const LEAST: f64 = 0.05;

/// The pairs of a row by the number of rows over which they are identical.
#[derive(Clone, Debug, Default)]
pub(super) struct Homozygosity {
    /// Pairs by the number of rows, from 0.
    pairs: Vec<u64>,
    /// The numbers of rows that have pairs.
    lengths: Vec<u32>,
    identical: u64,
}

impl Homozygosity {
    /// Adds pairs that are identical over the last `rows` rows, and not at the one before.
    #[inline(always)]
    pub(super) fn add(&mut self, rows: u32, pairs: u64) {
        let at = rows as usize;
        if at >= self.pairs.len() {
            self.pairs.resize(at + 1, 0);
        }
        self.pairs[at] += pairs;
        self.lengths.push(rows);
        self.identical += pairs;
    }

    /// The integral of the pairs that were added, out of `all`, over gaps from the row on; NaN if there are none, or the gaps end before the
    /// proportion is low enough. Then there are no pairs any more.
    pub(super) fn integral(&mut self, all: u64, gaps: impl Iterator<Item = Gap>) -> f64 {
        let integral = self.of_pairs(all, gaps);
        for rows in self.lengths.drain(..) {
            self.pairs[rows as usize] = 0;
        }
        self.identical = 0;
        integral
    }

    fn of_pairs(&self, all: u64, gaps: impl Iterator<Item = Gap>) -> f64 {
        if all == 0 {
            return f64::NAN;
        }
        let all = all as f64;
        let mut identical = self.identical;
        let mut near = identical as f64 / all;
        if near <= LEAST {
            return 0.0;
        }
        let mut integral = 0.0;
        // No pair is identical over more rows than `pairs` has, and `near` is above `LEAST` as long as there are any.
        for (gap, pairs) in gaps.zip(self.pairs.iter().skip(1)) {
            let Some(gap) = gap else {
                return f64::NAN;
            };
            let mut far = near;
            if *pairs > 0 {
                identical -= pairs;
                far = identical as f64 / all;
            }
            integral += f64::from(gap) * (far + near) / 2.0;
            if far <= LEAST {
                return integral;
            }
            near = far;
        }
        f64::NAN
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.pairs.capacity() * size_of::<u64>() + self.lengths.capacity() * size_of::<u32>()
    }
}
