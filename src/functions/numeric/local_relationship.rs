//! [`LocalRelationship`]: the relationship or covariance matrix of the individuals over a few rows, which is only multiplied by vectors.
//!
//! Most rows have few individuals beside those of the most frequent homozygote, so that a product takes far less time than the matrix would. The
//! others are multiplied as rows of dosages.

use crate::counts::Lanes;
use crate::counts::pairs::{CentredRow, CentredRows};

use super::dosage_rows::{Columns, DosageRows};
use super::krylov::Symmetric;
use super::lines::Vectors;

/// Σ of w z zᵀ over rows, less m z̄ z̄ᵀ if means over the m rows are taken away, divided by a number.
#[derive(Debug)]
pub(crate) struct LocalRelationship<'a> {
    rows: &'a CentredRows,
    /// Those that are not lists.
    dosages: DosageRows<'a>,
    /// Σ z of each individual, if means are taken away.
    sums: Option<Vec<f64>>,
    divisor: f64,
}

impl<'a> LocalRelationship<'a> {
    /// The most bytes for rows of which so many have dosages, and for products.
    pub(crate) fn bytes_of(with_dosages: usize, samples: usize) -> usize {
        let sums = samples.saturating_mul(size_of::<f64>());
        DosageRows::bytes_of(with_dosages, samples).saturating_add(sums)
    }

    /// The mean over rows. `None` without a row.
    pub(crate) fn mean(rows: &'a CentredRows) -> Option<Self> {
        (rows.len() > 0).then(|| Self {
            rows,
            dosages: dosages_of(rows),
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
            dosages: dosages_of(rows),
            sums: Some(sums),
            divisor: (rows.len() - 1) as f64,
        })
    }

    /// Σ of the diagonal.
    pub(crate) fn trace(&self) -> f64 {
        let mut trace = 0.0;
        for row in self.rows.rows() {
            trace += row.weight * row.squares;
        }
        if let Some(sums) = &self.sums {
            let squares: f64 = sums.iter().map(|sum| sum * sum).sum();
            trace -= squares / self.rows.len() as f64;
        }
        trace / self.divisor
    }
}

fn dosages_of(rows: &CentredRows) -> DosageRows<'_> {
    DosageRows::new(rows.dosages(), rows.samples())
}

/// What z of individuals is more than that of dosage 0, which is −mean; all of an individual add up.
fn for_each_difference(row: CentredRow<'_>, mut each: impl FnMut(usize, f64)) {
    for individual in row.copies {
        each(*individual as usize, 1.0);
    }
    for (individual, dosage) in row.dosages.unwrap_or_default().iter().enumerate() {
        each(individual, f64::from(*dosage));
    }
    for individual in row.incomplete {
        each(*individual as usize, row.mean);
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
        let mut of_dosages = vec![V::default(); self.dosages.len()];
        self.dosages
            .multiply(lanes, &Columns::of(vectors), &mut of_dosages);
        let mut next = of_dosages.iter_mut();
        // What all individuals get.
        let mut common = V::default();
        for row in self.rows.rows() {
            let of_dosages = row.dosages.and_then(|_| next.next());
            let mut product = match &of_dosages {
                Some(product) => **product,
                None => sum_of(lanes, row.copies, vectors),
            };
            product.add_times(lanes, -row.mean, &total);
            if !row.incomplete.is_empty() {
                let sum = sum_of(lanes, row.incomplete, vectors);
                product.add_times(lanes, row.mean, &sum);
            }
            let mut weighted = V::default();
            weighted.add_times(lanes, row.weight, &product);
            common.add_times(lanes, -row.mean, &weighted);
            add_to(lanes, row.copies, 1.0, &weighted, products);
            if !row.incomplete.is_empty() {
                add_to(lanes, row.incomplete, row.mean, &weighted, products);
            }
            if let Some(of_dosages) = of_dosages {
                *of_dosages = weighted;
            }
        }
        self.dosages.add_transposed(lanes, &of_dosages, products);
        let mut of_sums = V::default();
        if let Some(sums) = &self.sums {
            let mut product = V::default();
            for (components, sum) in vectors.iter().zip(sums) {
                product.add_times(lanes, *sum, components);
            }
            of_sums.add_times(lanes, -1.0 / self.rows.len() as f64, &product);
        }
        let part = 1.0 / self.divisor;
        for (at, components) in products.iter_mut().enumerate() {
            components.add_times(lanes, 1.0, &common);
            if let Some(of_individual) = self.sums.as_ref().and_then(|sums| sums.get(at)) {
                components.add_times(lanes, *of_individual, &of_sums);
            }
            components.each_mut().iter_mut().for_each(|x| *x *= part);
        }
    }
}

/// Adds a multiple of `added` to the components of some individuals.
#[inline(always)]
fn add_to<L: Lanes, V: Vectors>(
    lanes: L,
    individuals: &[u32],
    factor: f64,
    added: &V,
    to: &mut [V],
) {
    for individual in individuals {
        if let Some(components) = to.get_mut(*individual as usize) {
            components.add_times(lanes, factor, added);
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
