//! Products of rows of dosages with vectors, in both directions: with the rows, and with the columns.
//!
//! A row has a byte for each individual, and zeros up to a multiple of eight. Sums have a fixed order, and are the same on every instruction set.

use super::lines::{LINE, Line, Vectors, total};
use crate::counts::Lanes;

/// Vectors, eight components of one next to each other: those of the first vector, of the second, and so on, and then the next eight of each.
pub(super) struct Columns {
    lines: Vec<Line>,
}

impl Columns {
    /// From the components of each.
    #[inline(always)]
    pub(super) fn of<V: Vectors>(vectors: &[V]) -> Self {
        let (groups, rest) = vectors.as_chunks::<LINE>();
        let mut last = [V::default(); LINE];
        last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        let groups = groups.iter().chain((!rest.is_empty()).then_some(&last));
        let mut lines = Vec::with_capacity(vectors.len().div_ceil(LINE) * V::NUMBER);
        for group in groups {
            for at in 0..V::NUMBER {
                lines.push(Line(group.map(|components| components.each()[at])));
            }
        }
        Self { lines }
    }
}

/// Rows of so many bytes each.
#[derive(Clone, Copy, Debug)]
pub(super) struct DosageRows<'a> {
    dosages: &'a [[u8; LINE]],
    /// Groups of eight bytes in a row.
    width: usize,
}

impl<'a> DosageRows<'a> {
    /// The rows of `samples` individuals.
    pub(super) fn new(dosages: &'a [u8], samples: usize) -> Self {
        Self {
            dosages: dosages.as_chunks().0,
            width: samples.div_ceil(LINE).max(1),
        }
    }

    /// Bytes that products with so many rows take, at most.
    pub(super) fn bytes_of(rows: usize, samples: usize) -> usize {
        let components = rows.saturating_add(samples.next_multiple_of(LINE));
        components.saturating_mul(size_of::<Line>())
    }

    /// Number of rows.
    pub(super) fn len(self) -> usize {
        self.dosages.len() / self.width
    }

    /// The products of each row with the vectors.
    #[inline(always)]
    pub(super) fn multiply<L: Lanes, V: Vectors>(
        self,
        lanes: L,
        columns: &Columns,
        products: &mut [V],
    ) {
        // Two rows at a time, so that sums do not wait for each other.
        let rows = self.dosages.chunks(2 * self.width);
        for (rows, products) in rows.zip(products.chunks_mut(2)) {
            let (first, second) = rows.split_at(self.width);
            let second = if second.is_empty() { first } else { second };
            let mut sums = [[lanes.doubles(&[0.0; LINE]); LINE]; 2];
            let columns = columns.lines.chunks_exact(V::NUMBER);
            for ((first, second), columns) in first.iter().zip(second).zip(columns) {
                let dosages = [lanes.doubles_of(first), lanes.doubles_of(second)];
                for (at, column) in columns.iter().enumerate() {
                    let column = lanes.doubles(&column.0);
                    for (sums, dosages) in sums.iter_mut().zip(dosages) {
                        sums[at] = lanes.add_products(sums[at], dosages, column);
                    }
                }
            }
            for (product, sums) in products.iter_mut().zip(sums) {
                for (x, sum) in product.each_mut().iter_mut().zip(sums) {
                    *x = total(lanes, sum);
                }
            }
        }
    }

    /// Adds to the components of each individual its dosages, each times those of the row.
    #[inline(always)]
    pub(super) fn add_transposed<L: Lanes, V: Vectors>(
        self,
        lanes: L,
        of_rows: &[V],
        to: &mut [V],
    ) {
        for (group, to) in to.chunks_mut(2 * LINE).enumerate() {
            let first = 2 * group;
            // The last group may be alone.
            let second = (first + 1).min(self.width - 1);
            let mut sums = [[lanes.doubles(&[0.0; LINE]); LINE]; 2];
            for (row, factors) in self.dosages.chunks_exact(self.width).zip(of_rows) {
                let dosages = [
                    lanes.doubles_of(&row[first]),
                    lanes.doubles_of(&row[second]),
                ];
                for (at, factor) in factors.each().iter().enumerate() {
                    let factor = lanes.doubles(&[*factor; LINE]);
                    for (sums, dosages) in sums.iter_mut().zip(dosages) {
                        sums[at] = lanes.add_products(sums[at], dosages, factor);
                    }
                }
            }
            for (to, sums) in to.chunks_mut(LINE).zip(sums) {
                let mut of_vectors = [[0.0; LINE]; LINE];
                for (to, sum) in of_vectors.iter_mut().zip(sums) {
                    *to = lanes.each(sum);
                }
                for (at, components) in to.iter_mut().enumerate() {
                    for (x, sum) in components.each_mut().iter_mut().zip(&of_vectors) {
                        *x += sum[at];
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::lines::HalfLine;
    use super::*;
    use crate::counts::{Job, Level};

    /// Small whole numbers, so that sums are exact.
    fn vectors<V: Vectors>(len: usize, seed: usize) -> Vec<V> {
        let mut vectors = vec![V::default(); len];
        for (i, components) in vectors.iter_mut().enumerate() {
            for (at, x) in components.each_mut().iter_mut().enumerate() {
                *x = ((i * 7 + at * 5 + seed) % 11) as f64 - 5.0;
            }
        }
        vectors
    }

    fn check<L: Lanes, V: Vectors>(lanes: L) {
        for (rows, samples) in [(0, 5), (1, 1), (2, 9), (3, 8), (7, 21), (12, 40)] {
            let width = usize::next_multiple_of(samples, LINE);
            let dosage = |row: usize, i: usize| (row * 3 + i * i) % 7 % 3;
            let mut dosages = vec![0; rows * width];
            for (row, to) in dosages.chunks_mut(width).enumerate() {
                for (i, to) in to.iter_mut().enumerate().take(samples) {
                    *to = dosage(row, i) as u8;
                }
            }
            let found = DosageRows::new(&dosages, samples);
            assert_eq!(found.len(), rows);
            let of_samples = vectors::<V>(samples, 1);
            let mut products = vectors::<V>(rows, 2);
            found.multiply(lanes, &Columns::of(&of_samples), &mut products);
            for (row, product) in products.iter().enumerate() {
                let mut expected = V::default();
                for (i, components) in of_samples.iter().enumerate() {
                    expected.add_times(lanes, dosage(row, i) as f64, components);
                }
                assert_eq!(product.each(), expected.each(), "{rows} {samples}");
            }
            let mut sums = vectors::<V>(samples, 3);
            let mut expected = sums.clone();
            found.add_transposed(lanes, &products, &mut sums);
            for (i, (found, expected)) in sums.iter().zip(&mut expected).enumerate() {
                for (row, product) in products.iter().enumerate() {
                    expected.add_times(lanes, dosage(row, i) as f64, product);
                }
                assert_eq!(found.each(), expected.each(), "{rows} {samples}");
            }
        }
    }

    #[test]
    fn products_are_those_of_each_dosage() {
        struct Check;

        impl Job for Check {
            type Output = ();

            #[inline(always)]
            fn run<L: Lanes>(self, lanes: L) {
                check::<L, HalfLine>(lanes);
                check::<L, Line>(lanes);
            }
        }

        for level in Level::available() {
            level.run(Check);
        }
    }
}
