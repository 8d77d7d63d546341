//! The largest eigenvalues of a symmetric matrix and their eigenvectors, with the same bits on every machine.
//!
//! Householder's tridiagonalisation, bisection by Sturm sequences, inverse iteration and back transformation (Golub and Van Loan, Matrix
//! Computations, 8.3 and 8.4; vectors of near eigenvalues are made orthogonal as in LAPACK's dstein). Sums have a fixed order.

use super::tridiagonalise::{Tridiagonal, tridiagonalise};
use super::vectors::{add_times, dot};
use crate::counts::{CountError, Workers};

/// Steps of inverse iteration.
const STEPS: usize = 4;
/// Eigenvalues that differ by less than this part of the largest have their vectors made orthogonal.
const NEAR: f64 = 1e-3;
/// Components whose absolute values differ by less than this part count as equal.
const EQUAL: f64 = 1e-9;

/// An eigenvalue and its eigenvector of length 1, whose largest component (the first of them, if several are as large) is positive.
pub(crate) type EigenPair = (f64, Vec<f64>);

/// The `count` largest eigenvalues of a symmetric matrix of `n` rows, in descending order, and their vectors. Of the matrix, row by row,
/// only the lower triangle is read; it is overwritten.
///
/// # Errors
/// [`CountError::Stopped`].
pub(crate) fn largest_eigenpairs(
    matrix: &mut [f64],
    n: usize,
    count: usize,
    workers: &Workers<'_>,
) -> Result<Vec<EigenPair>, CountError> {
    let count = count.min(n);
    // A common factor keeps squares in range.
    let largest = matrix.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    if largest == 0.0 || !largest.is_finite() {
        return Ok((0..count).map(|at| (0.0, unit(n, at))).collect());
    }
    matrix.iter_mut().for_each(|x| *x /= largest);
    let tridiagonal = tridiagonalise(matrix, n, workers)?;
    let values = tridiagonal.largest(count, workers)?;
    let mut vectors: Vec<Vec<f64>> = Vec::with_capacity(count);
    for (at, value) in values.iter().enumerate() {
        workers.check()?;
        vectors.push(tridiagonal.vector(*value, at, &values, &vectors));
    }
    workers.each(&mut vectors, |vector| {
        tridiagonal.transform_back(vector);
        normalise(vector);
        orient(vector);
        Ok(())
    })?;
    let values = values.into_iter().map(|value| value * largest);
    Ok(values.zip(vectors).collect())
}

fn unit(n: usize, at: usize) -> Vec<f64> {
    let mut vector = vec![0.0; n];
    if let Some(x) = vector.get_mut(at) {
        *x = 1.0;
    }
    vector
}

fn normalise(vector: &mut [f64]) {
    let largest = vector.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    if largest > 0.0 {
        vector.iter_mut().for_each(|x| *x /= largest);
        let norm = dot(vector, vector).sqrt();
        vector.iter_mut().for_each(|x| *x /= norm);
    }
}

fn orient(vector: &mut [f64]) {
    let largest = vector.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    let first = vector
        .iter()
        .find(|x| x.abs() >= largest * (1.0 - EQUAL))
        .copied();
    if first.is_some_and(|x| x < 0.0) {
        vector.iter_mut().for_each(|x| *x = -*x);
    }
}

impl Tridiagonal {
    fn n(&self) -> usize {
        self.diagonal.len()
    }

    /// A bound of the absolute values of eigenvalues (Gershgorin).
    fn bound(&self) -> f64 {
        let beside = |at: usize| self.beside.get(at).map_or(0.0, |x| x.abs());
        let row = |at: usize| {
            let before = at.checked_sub(1).map_or(0.0, beside);
            self.diagonal[at].abs() + before + beside(at)
        };
        (0..self.n()).map(row).fold(0.0, f64::max)
    }

    /// The number of eigenvalues that are less than `x`.
    fn below(&self, x: f64) -> usize {
        let mut count = 0;
        let mut pivot = 1.0;
        for (at, diagonal) in self.diagonal.iter().enumerate() {
            let beside = at.checked_sub(1).map_or(0.0, |at| self.beside[at]);
            pivot = diagonal - x - beside * beside / pivot;
            if pivot == 0.0 {
                pivot = f64::MIN_POSITIVE.sqrt();
            }
            count += usize::from(pivot < 0.0);
        }
        count
    }

    /// The largest eigenvalues, in descending order.
    fn largest(&self, count: usize, workers: &Workers<'_>) -> Result<Vec<f64>, CountError> {
        let bound = self.bound().max(f64::MIN_POSITIVE) * 1.000_001;
        let n = self.n();
        let mut above = bound;
        (0..count)
            .map(|at| {
                workers.check()?;
                // `low` has fewer than n − at eigenvalues below it, `high` at least that many.
                let (mut low, mut high) = (-bound, above);
                loop {
                    let middle = low + (high - low) / 2.0;
                    if middle <= low || middle >= high {
                        break;
                    }
                    if self.below(middle) >= n - at {
                        high = middle;
                    } else {
                        low = middle;
                    }
                }
                above = bound;
                Ok(low)
            })
            .collect()
    }

    /// The eigenvector of eigenvalue `at`, orthogonal to those before it.
    fn vector(&self, value: f64, at: usize, values: &[f64], before: &[Vec<f64>]) -> Vec<f64> {
        let bound = self.bound();
        let near = before
            .iter()
            .zip(values)
            .filter(|(_, other)| (*other - value).abs() <= NEAR * bound)
            .map(|(vector, _)| vector);
        let near: Vec<&Vec<f64>> = near.collect();
        let mut vector: Vec<f64> = (0..self.n()).map(|i| start(i, at)).collect();
        for _ in 0..STEPS {
            self.solve(value, bound, &mut vector);
            normalise(&mut vector);
            // Twice, because the first time may leave rounding errors.
            for _ in 0..2 {
                for other in &near {
                    let overlap = dot(&vector, other);
                    add_times(&mut vector, -overlap, other);
                }
            }
            normalise(&mut vector);
        }
        vector
    }

    /// Solves (T − value) x = b by Gaussian elimination with exchanges of rows; pivots that vanish are replaced by tiny ones.
    fn solve(&self, value: f64, bound: f64, b: &mut [f64]) {
        let n = self.n();
        let tiny = f64::EPSILON * bound.max(f64::MIN_POSITIVE);
        let beside = |at: usize| self.beside.get(at).copied().unwrap_or(0.0);
        // Rows of the triangular matrix: the diagonal and two elements right of it.
        let mut rows: Vec<[f64; 3]> = Vec::with_capacity(n);
        let mut row = [self.diagonal[0] - value, beside(0), 0.0];
        for at in 0..n {
            if at + 1 < n {
                let below = beside(at);
                let mut next = [self.diagonal[at + 1] - value, beside(at + 1), 0.0];
                if below.abs() > row[0].abs() {
                    // Row `at + 1` becomes the pivot row.
                    let factor = row[0] / below;
                    let pivot = [below, next[0], next[1]];
                    next = [row[1] - factor * pivot[1], row[2] - factor * pivot[2], 0.0];
                    b.swap(at, at + 1);
                    b[at + 1] -= factor * b[at];
                    rows.push(pivot);
                } else {
                    if row[0].abs() < tiny {
                        row[0] = tiny;
                    }
                    let factor = below / row[0];
                    next[0] -= factor * row[1];
                    next[1] -= factor * row[2];
                    b[at + 1] -= factor * b[at];
                    rows.push(row);
                }
                row = next;
            } else {
                if row[0].abs() < tiny {
                    row[0] = tiny;
                }
                rows.push(row);
            }
        }
        for at in (0..n).rev() {
            let [diagonal, first, second] = rows[at];
            let later = |offset: usize| b.get(at + offset).copied().unwrap_or(0.0);
            b[at] = (b[at] - first * later(1) - second * later(2)) / diagonal;
        }
    }

    /// The vector of the original matrix that belongs to one of this.
    fn transform_back(&self, vector: &mut [f64]) {
        for (factor, v) in self.reflections.iter().rev() {
            let from = vector.len() - v.len();
            let part = &mut vector[from..];
            let overlap = dot(part, v);
            add_times(part, -factor * overlap, v);
        }
    }
}

/// Component `i` of the first guess of vector `at`: noise that is always the same, in [½, 1).
fn start(i: usize, at: usize) -> f64 {
    let mut noise = (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (at as u64) << 32;
    noise = (noise ^ noise >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    noise = (noise ^ noise >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    noise ^= noise >> 31;
    0.5 + (noise >> 12) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(matrix: &[f64], n: usize) {
        let mut copy = matrix.to_vec();
        let pairs = largest_eigenpairs(&mut copy, n, n, &Workers::ALONE).unwrap();
        let norm = matrix.iter().fold(1e-300f64, |most, x| most.max(x.abs())) * n as f64;
        assert_eq!(pairs.len(), n);
        assert!(pairs.is_sorted_by(|a, b| a.0 >= b.0 - 1e-14 * norm));
        for (at, (value, vector)) in pairs.iter().enumerate() {
            for i in 0..n {
                let product: f64 = (0..n).map(|j| matrix[i * n + j] * vector[j]).sum();
                let error = (product - value * vector[i]).abs();
                assert!(error < 1e-12 * norm, "{n}: {at}: {error}");
            }
            for (other, (_, second)) in pairs.iter().enumerate() {
                let wanted = f64::from(u8::from(other == at));
                assert!(
                    (dot(vector, second) - wanted).abs() < 1e-10,
                    "{n}: {at} {other}"
                );
            }
        }
        let trace: f64 = (0..n).map(|i| matrix[i * n + i]).sum();
        let sum: f64 = pairs.iter().map(|pair| pair.0).sum();
        assert!((trace - sum).abs() < 1e-12 * norm);
    }

    fn symmetric(n: usize, of: impl Fn(usize, usize) -> f64) -> Vec<f64> {
        let at = |i: usize, j: usize| of(i.max(j), i.min(j));
        (0..n * n).map(|cell| at(cell / n, cell % n)).collect()
    }

    #[test]
    fn pairs_satisfy_their_equation() {
        for n in [1, 2, 3, 5, 17, 60] {
            check(&symmetric(n, |i, j| start(i, j) - 0.75), n);
            check(&symmetric(n, |i, j| f64::from(u8::from(i == j))), n);
            check(&symmetric(n, |_, _| 1.0), n);
            check(&symmetric(n, |_, _| 0.0), n);
            check(&symmetric(n, |i, j| if i == j { i as f64 } else { 0.0 }), n);
            check(&symmetric(n, |i, j| 1.0 / (1 + i + j) as f64), n);
            // Two blocks with the same eigenvalues.
            check(
                &symmetric(n, |i, j| {
                    if i % 2 == j % 2 {
                        1e100 * (i / 2 + j / 2) as f64
                    } else {
                        0.0
                    }
                }),
                n,
            );
        }
    }

    #[test]
    fn every_stage_can_be_stopped() {
        let n = 7;
        // A check for each column, eigenvalue, vector, and vector of the original matrix.
        for stop_at in 0..4 * n {
            let calls = std::sync::atomic::AtomicUsize::new(0);
            let stop = || calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) >= stop_at;
            let mut matrix = symmetric(n, |i, j| start(i, j) - 0.75);
            let stopped = largest_eigenpairs(&mut matrix, n, n, &Workers::new(1, &stop));
            assert!(matches!(stopped, Err(CountError::Stopped)));
            assert_eq!(calls.into_inner(), stop_at + 1);
        }
    }

    #[test]
    fn the_largest_component_is_positive() {
        let mut matrix = vec![2.0, -1.0, -1.0, 2.0];
        let pairs = largest_eigenpairs(&mut matrix, 2, 1, &Workers::ALONE).unwrap();
        assert!((pairs[0].0 - 3.0).abs() < 1e-14);
        assert!(pairs[0].1[0] > 0.7 && pairs[0].1[1] < -0.7);
    }
}
