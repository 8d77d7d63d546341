//! [`LocalRelationship`]: the relationship or covariance matrix of the individuals over a few rows, which is only multiplied by vectors.
//!
//! Most rows have few individuals beside those of the most frequent homozygote, so that a product takes far less time than the matrix would.

use crate::counts::Lanes;
use crate::counts::pairs::{CentredRow, CentredRows};

use super::krylov::Symmetric;
use super::lines::Vectors;

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
    fn multiply<L: Lanes, V: Vectors>(&self, lanes: L, vectors: &[V], products: &mut [V]) {
        let mut total = V::default();
        for components in vectors {
            total.add_times(lanes, 1.0, components);
        }
        products.fill(V::default());
        // What all individuals get.
        let mut common = V::default();
        for row in self.rows.rows() {
            let lists = [row.heterozygotes, row.homozygotes, row.incomplete];
            let differences = [1.0, 2.0, row.mean];
            let mut product = V::default();
            product.add_times(lanes, -row.mean, &total);
            for (list, difference) in lists.into_iter().zip(differences) {
                product.add_times(lanes, difference, &sum_of(lanes, list, vectors));
            }
            let mut weighted = V::default();
            weighted.add_times(lanes, row.weight / self.divisor, &product);
            common.add_times(lanes, -row.mean, &weighted);
            for (list, difference) in lists.into_iter().zip(differences) {
                let mut added = V::default();
                added.add_times(lanes, difference, &weighted);
                for individual in list {
                    if let Some(components) = products.get_mut(*individual as usize) {
                        components.add_times(lanes, 1.0, &added);
                    }
                }
            }
        }
        let mut of_sums = V::default();
        if let Some(sums) = &self.sums {
            let mut product = V::default();
            for (components, sum) in vectors.iter().zip(sums) {
                product.add_times(lanes, *sum, components);
            }
            of_sums.add_times(
                lanes,
                -1.0 / (self.rows.len() as f64 * self.divisor),
                &product,
            );
        }
        for (at, components) in products.iter_mut().enumerate() {
            components.add_times(lanes, 1.0, &common);
            if let Some(of_individual) = self.sums.as_ref().and_then(|sums| sums.get(at)) {
                components.add_times(lanes, *of_individual, &of_sums);
            }
        }
    }
}

/// Sums that are added to in turns, so that none waits for the one before.
const SUMS: usize = 4;

/// The sum of the components of some individuals.
#[inline(always)]
fn sum_of<L: Lanes, V: Vectors>(lanes: L, individuals: &[u32], vectors: &[V]) -> V {
    let mut sums = [V::default(); SUMS];
    let (groups, rest) = individuals.as_chunks::<SUMS>();
    for group in groups {
        for (sum, individual) in sums.iter_mut().zip(group) {
            if let Some(components) = vectors.get(*individual as usize) {
                sum.add_times(lanes, 1.0, components);
            }
        }
    }
    let [mut sum, second, mut third, fourth] = sums;
    for individual in rest {
        if let Some(components) = vectors.get(*individual as usize) {
            sum.add_times(lanes, 1.0, components);
        }
    }
    sum.add_times(lanes, 1.0, &second);
    third.add_times(lanes, 1.0, &fourth);
    sum.add_times(lanes, 1.0, &third);
    sum
}
