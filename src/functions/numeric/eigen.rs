//! The largest eigenvalues of a symmetric matrix and their eigenvectors, with the same bits on every machine.
//!
//! Householder's tridiagonalisation, bisection by Sturm sequences, inverse iteration and back transformation (Golub and Van Loan, Matrix
//! Computations, 8.3 and 8.4; vectors of near eigenvalues are made orthogonal as in LAPACK's dstein). Sums have a fixed order.

use std::sync::atomic::{AtomicU64, Ordering};

use super::lines::{self, LINE, Line, LowerTriangle};
use super::tridiagonalise::{Tridiagonal, tridiagonalise};
use super::vectors::{add_times, dot};
use crate::counts::{CountError, Job, Lanes, Level, Workers};

/// Eigenvalues that a thread finds at a time.
const VALUES: usize = 2;
/// Steps of inverse iteration.
const STEPS: usize = 4;
/// Eigenvalues that differ by less than this part of the largest have their vectors made orthogonal.
const NEAR: f64 = 1e-3;
/// Lines of a matrix that a thread takes at a time.
const LINES: usize = 1 << 12;
/// Components whose absolute values differ by less than this part count as equal.
const EQUAL: f64 = 1e-9;

/// An eigenvalue and its eigenvector of length 1, whose largest component (the first of them, if several are as large) is positive.
pub(crate) type EigenPair = (f64, Vec<f64>);

/// The `count` largest eigenvalues of a symmetric matrix, which is overwritten, in descending order, and their vectors.
///
/// # Errors
/// [`CountError::Stopped`].
pub(crate) fn largest_eigenpairs(
    matrix: &mut LowerTriangle,
    count: usize,
    workers: &Workers<'_>,
) -> Result<Vec<EigenPair>, CountError> {
    let n = matrix.n();
    let count = count.min(n);
    // A common factor keeps squares in range.
    let largest = largest(matrix, workers)?;
    if largest == 0.0 || !largest.is_finite() {
        return Ok((0..count).map(|at| (0.0, unit(n, at))).collect());
    }
    workers.each(matrix.lines_mut().chunks_mut(LINES), |lines| {
        let numbers = lines.iter_mut().flat_map(|line| &mut line.0);
        numbers.for_each(|x| *x /= largest);
        Ok(())
    })?;
    let tridiagonal = tridiagonalise(matrix, workers)?;
    let values = tridiagonal.largest(count, workers)?;
    let mut vectors: Vec<Vec<f64>> = Vec::with_capacity(count);
    for (at, value) in values.iter().enumerate() {
        workers.check()?;
        vectors.push(tridiagonal.vector(*value, at, &values, &vectors));
    }
    workers.each(&mut vectors, |vector| {
        Level::detect().run(TransformBack {
            tridiagonal: &tridiagonal,
            vector,
        });
        finished(vector);
        Ok(())
    })?;
    let values = values.into_iter().map(|value| value * largest);
    Ok(values.zip(vectors).collect())
}

/// The largest absolute value, not finite if one is not.
fn largest(matrix: &mut LowerTriangle, workers: &Workers<'_>) -> Result<f64, CountError> {
    // The bits of numbers that are not negative are in their order.
    let largest = AtomicU64::new(0);
    workers.each(matrix.lines_mut().chunks(LINES), |lines| {
        let numbers = lines.iter().flat_map(|line| &line.0);
        let bits = numbers.fold(0, |most, x| x.abs().to_bits().max(most));
        largest.fetch_max(bits, Ordering::Relaxed);
        Ok(())
    })?;
    Ok(f64::from_bits(largest.into_inner()))
}

/// A unit vector.
pub(super) fn unit(n: usize, at: usize) -> Vec<f64> {
    let mut vector = vec![0.0; n];
    if let Some(x) = vector.get_mut(at) {
        *x = 1.0;
    }
    vector
}

/// Makes the length of an eigenvector 1, and its largest component positive.
pub(super) fn finished(vector: &mut [f64]) {
    normalise(vector);
    orient(vector);
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

    /// The largest eigenvalues, in descending order.
    fn largest(&self, count: usize, workers: &Workers<'_>) -> Result<Vec<f64>, CountError> {
        let mut values = vec![0.0; count];
        let level = Level::detect();
        workers.each(values.chunks_mut(VALUES).enumerate(), |(at, values)| {
            level.run(Bisect {
                tridiagonal: self,
                first: at * VALUES,
                values,
            });
            Ok(())
        })?;
        Ok(values)
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
                if below.abs() > row[0].abs().max(tiny) {
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
}

/// Finds eigenvalues from number `first` on, in descending order, by counting at some points at once how many are smaller.
struct Bisect<'a> {
    tridiagonal: &'a Tridiagonal,
    first: usize,
    /// As many as [`VALUES`], or fewer.
    values: &'a mut [f64],
}

impl Bisect<'_> {
    /// The numbers of eigenvalues that are less than these points.
    #[inline(always)]
    fn below(&self, points: &[[f64; LINE]; VALUES]) -> [[u64; LINE]; VALUES] {
        let mut counts = [[0; LINE]; VALUES];
        let mut pivots = [[1.0; LINE]; VALUES];
        let beside = [0.0].iter().chain(&self.tridiagonal.beside);
        for (diagonal, beside) in self.tridiagonal.diagonal.iter().zip(beside) {
            let square = beside * beside;
            for ((points, pivots), counts) in points.iter().zip(&mut pivots).zip(&mut counts) {
                for ((x, pivot), count) in points.iter().zip(pivots).zip(counts) {
                    *pivot = diagonal - x - square / *pivot;
                    if *pivot == 0.0 {
                        *pivot = f64::MIN_POSITIVE.sqrt();
                    }
                    *count += u64::from(*pivot < 0.0);
                }
            }
        }
        counts
    }
}

impl Job for Bisect<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, _lanes: L) {
        let bound = self.tridiagonal.bound().max(f64::MIN_POSITIVE) * 1.000_001;
        let n = self.tridiagonal.n();
        // The first of each has fewer than n − at eigenvalues below it, the other at least that many.
        let mut bounds = [(-bound, bound); VALUES];
        loop {
            let points = bounds.map(|(low, high)| {
                std::array::from_fn(|at| low + (high - low) * ((at + 1) as f64 / (LINE + 1) as f64))
            });
            let below = self.below(&points);
            let mut is_nearer = false;
            let values = bounds.iter_mut().zip(points.iter().zip(&below));
            for (at, ((low, high), (points, below))) in (self.first..).zip(values) {
                let (least, most) = (*low, *high);
                for (point, below) in points.iter().zip(below) {
                    // Between the neighbouring numbers at the end there is none.
                    if !(least < *point && *point < most) {
                        continue;
                    }
                    is_nearer = true;
                    if *below as usize + at >= n {
                        *high = *point;
                        break;
                    }
                    *low = *point;
                }
            }
            if !is_nearer {
                break;
            }
        }
        for (value, (low, _)) in self.values.iter_mut().zip(bounds) {
            *value = low;
        }
    }
}

/// Makes of a vector of the tridiagonal matrix that of the original one.
struct TransformBack<'a> {
    tridiagonal: &'a Tridiagonal,
    vector: &'a mut [f64],
}

impl Job for TransformBack<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let numbers = self.vector.chunks(LINE).map(|numbers| {
            let mut line = Line::default();
            line.0.iter_mut().zip(numbers).for_each(|(to, x)| *to = *x);
            line
        });
        let mut vector: Vec<Line> = numbers.collect();
        for (k, (factor, v)) in self.tridiagonal.reflections.iter().enumerate().rev() {
            let from = (k + 1) / LINE;
            let (part, v) = (&mut vector[from..], &v[from..]);
            let overlap = lines::dot(lanes, part, v);
            lines::add_times(lanes, part, -factor * overlap, v);
        }
        let numbers = vector.iter().flat_map(|line| &line.0);
        self.vector
            .iter_mut()
            .zip(numbers)
            .for_each(|(to, x)| *to = *x);
    }
}

/// Component `i` of the first guess of vector `at`: noise that is always the same, in [½, 1).
pub(super) fn start(i: usize, at: usize) -> f64 {
    let mut noise = (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (at as u64) << 32;
    noise = (noise ^ noise >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    noise = (noise ^ noise >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    noise ^= noise >> 31;
    0.5 + (noise >> 12) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::numeric::lines::RowsSetter;

    /// The lower triangle of a matrix that is given row by row.
    fn triangle(matrix: &[f64], n: usize) -> LowerTriangle {
        let fill = |rows: Vec<RowsSetter<'_>>| {
            let set = |rows: RowsSetter<'_>| rows.set(|i, j| matrix[i * n + j]);
            rows.into_iter().for_each(set);
            Ok(())
        };
        LowerTriangle::try_new(n, 3, fill).unwrap()
    }

    fn check(matrix: &[f64], n: usize) {
        let mut copy = triangle(matrix, n);
        let sum: f64 = (0..n).map(|i| matrix[i * n + i]).sum();
        assert_eq!(copy.trace(), sum);
        let pairs = largest_eigenpairs(&mut copy, n, &Workers::ALONE).unwrap();
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
            // Few vectors, of which each has few components, or all alike.
            for rank in 1..8 {
                for variant in 0..8 {
                    let component = |at: usize, i: usize| {
                        let noise = start(i, 100 * variant + at);
                        match variant % 4 {
                            0 => noise - 0.75,
                            1 => f64::from(u8::from(noise > 0.9)),
                            2 => f64::from(u8::from(noise > 0.6)) - 0.01,
                            _ => f64::from(u8::from(i.is_multiple_of(at + 2))) * 1e-3,
                        }
                    };
                    let of = |i, j| {
                        (0..rank)
                            .map(|at| component(at, i) * component(at, j))
                            .sum()
                    };
                    check(&symmetric(n, of), n);
                }
            }
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
        let n: usize = 7;
        // A check for each column, some eigenvalues, each vector, and each vector of the original matrix.
        for stop_at in 0..3 * n + n.div_ceil(VALUES) {
            let calls = std::sync::atomic::AtomicUsize::new(0);
            let stop = || calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) >= stop_at;
            let mut matrix = triangle(&symmetric(n, |i, j| start(i, j) - 0.75), n);
            let stopped = largest_eigenpairs(&mut matrix, n, &Workers::new(1, &stop));
            assert!(matches!(stopped, Err(CountError::Stopped)));
            assert_eq!(calls.into_inner(), stop_at + 1);
        }
    }

    #[test]
    fn the_largest_component_is_positive() {
        let mut matrix = triangle(&[2.0, -1.0, -1.0, 2.0], 2);
        let pairs = largest_eigenpairs(&mut matrix, 1, &Workers::ALONE).unwrap();
        assert!((pairs[0].0 - 3.0).abs() < 1e-14);
        assert!(pairs[0].1[0] > 0.7 && pairs[0].1[1] < -0.7);
    }
}
