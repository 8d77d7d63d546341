//! [`LocalRelationship`]: the relationship or covariance matrix of the individuals over a few rows, which is only multiplied by vectors.
//!
//! Most rows have few individuals beside those of the most frequent homozygote, so that a product takes far less time than the matrix would.

use crate::counts::Lanes;
use crate::counts::pairs::{CentredRow, CentredRows};

use super::krylov::Symmetric;
use super::lines::{LINE, Line};

/// Σ of w z zᵀ over rows, less m z̄ z̄ᵀ if means over the m rows are taken away, divided by a number.
#[derive(Debug)]
pub(crate) struct LocalRelationship<'a> {
    rows: &'a CentredRows,
    /// Σ z of each individual, if means are taken away.
    sums: Option<Vec<f64>>,
    divisor: f64,
}

impl<'a> LocalRelationship<'a> {
    /// The mean over rows. `None` without a row.
    pub(crate) fn mean(rows: &'a CentredRows) -> Option<Self> {
        (rows.len() > 0).then(|| Self {
            rows,
            sums: None,
            divisor: rows.len() as f64,
        })
    }

    /// The covariance over rows. `None` if there are fewer than two.
    pub(crate) fn covariance(rows: &'a CentredRows) -> Option<Self> {
        if rows.len() < 2 {
            return None;
        }
        let mut sums = vec![0.0; rows.samples()];
        let mut of_all = 0.0;
        for row in rows.rows() {
            let sign = if row.is_flipped { -1.0 } else { 1.0 };
            of_all -= sign * row.mean;
            for_each_difference(row, |individual, difference| {
                if let Some(sum) = sums.get_mut(individual) {
                    *sum += sign * difference;
                }
            });
        }
        sums.iter_mut().for_each(|sum| *sum += of_all);
        Some(Self {
            rows,
            sums: Some(sums),
            divisor: (rows.len() - 1) as f64,
        })
    }

    /// Σ of the diagonal.
    pub(crate) fn trace(&self) -> f64 {
        let mut trace = 0.0;
        for row in self.rows.rows() {
            let counts = [
                row.heterozygotes.len(),
                row.homozygotes.len(),
                row.incomplete.len(),
            ];
            let others = self.rows.samples() - counts.iter().sum::<usize>();
            let [heterozygotes, homozygotes, _] = counts.map(|count| count as f64);
            let square = |x: f64| (x - row.mean) * (x - row.mean);
            trace += row.weight
                * (heterozygotes * square(1.0)
                    + homozygotes * square(2.0)
                    + others as f64 * square(0.0));
        }
        if let Some(sums) = &self.sums {
            let squares: f64 = sums.iter().map(|sum| sum * sum).sum();
            trace -= squares / self.rows.len() as f64;
        }
        trace / self.divisor
    }
}

/// Each individual whose z differs from that of dosage 0, which is −mean, and by how much.
fn for_each_difference(row: CentredRow<'_>, mut each: impl FnMut(usize, f64)) {
    let lists = [row.heterozygotes, row.homozygotes, row.incomplete];
    for (list, difference) in lists.into_iter().zip([1.0, 2.0, row.mean]) {
        for individual in list {
            each(*individual as usize, difference);
        }
    }
}

impl Symmetric for LocalRelationship<'_> {
    fn n(&self) -> usize {
        self.rows.samples()
    }

    #[inline(always)]
    fn multiply<L: Lanes>(&self, lanes: L, vectors: &[Line], products: &mut [Line]) {
        let zero = lanes.doubles(&[0.0; LINE]);
        let mut total = zero;
        for line in vectors {
            total = lanes.plus(total, lanes.doubles(&line.0));
        }
        products.fill(Line::default());
        // What all individuals get.
        let mut common = zero;
        for row in self.rows.rows() {
            let lists = [row.heterozygotes, row.homozygotes, row.incomplete];
            let differences = [1.0, 2.0, row.mean];
            let minus_mean = lanes.doubles(&[-row.mean; LINE]);
            let mut product = lanes.add_products(zero, minus_mean, total);
            for at in 0..lists.len() {
                let difference = lanes.doubles(&[differences[at]; LINE]);
                let sum = sum_of(lanes, lists[at], vectors);
                product = lanes.add_products(product, difference, sum);
            }
            let weight = lanes.doubles(&[row.weight / self.divisor; LINE]);
            let weighted = lanes.add_products(zero, weight, product);
            common = lanes.add_products(common, minus_mean, weighted);
            for at in 0..lists.len() {
                let difference = lanes.doubles(&[differences[at]; LINE]);
                let added = lanes.add_products(zero, difference, weighted);
                for individual in lists[at] {
                    if let Some(line) = products.get_mut(*individual as usize) {
                        line.0 = lanes.each(lanes.plus(lanes.doubles(&line.0), added));
                    }
                }
            }
        }
        let mut of_sums = zero;
        if let Some(sums) = &self.sums {
            for (line, sum) in vectors.iter().zip(sums) {
                let sum = lanes.doubles(&[*sum; LINE]);
                of_sums = lanes.add_products(of_sums, sum, lanes.doubles(&line.0));
            }
            let factor = -1.0 / (self.rows.len() as f64 * self.divisor);
            of_sums = lanes.add_products(zero, lanes.doubles(&[factor; LINE]), of_sums);
        }
        for (at, line) in products.iter_mut().enumerate() {
            let mut sum = lanes.plus(lanes.doubles(&line.0), common);
            if let Some(of_individual) = self.sums.as_ref().and_then(|sums| sums.get(at)) {
                let of_individual = lanes.doubles(&[*of_individual; LINE]);
                sum = lanes.add_products(sum, of_individual, of_sums);
            }
            line.0 = lanes.each(sum);
        }
    }
}

/// Sums that are added to in turns, so that none waits for the one before.
const SUMS: usize = 4;

/// The sum of the lines of some individuals.
#[inline(always)]
fn sum_of<L: Lanes>(lanes: L, individuals: &[u32], vectors: &[Line]) -> L::Doubles {
    let mut sums = [lanes.doubles(&[0.0; LINE]); SUMS];
    let (groups, rest) = individuals.as_chunks::<SUMS>();
    for group in groups {
        for at in 0..SUMS {
            if let Some(line) = vectors.get(group[at] as usize) {
                sums[at] = lanes.plus(sums[at], lanes.doubles(&line.0));
            }
        }
    }
    let [mut sum, second, third, fourth] = sums;
    for individual in rest {
        if let Some(line) = vectors.get(*individual as usize) {
            sum = lanes.plus(sum, lanes.doubles(&line.0));
        }
    }
    lanes.plus(lanes.plus(sum, second), lanes.plus(third, fourth))
}
