//! The largest eigenvalues of a symmetric matrix that is only multiplied by vectors, and their eigenvectors.
//!
//! Block Lanczos with four or eight vectors, of which each block is made orthogonal to all before it (Golub and Underwood 1977; Golub and Van Loan,
//! Matrix Computations, 10.3.6). As many equal eigenvalues are found as a block has vectors, so no more values than that are asked for. Sums have a
//! fixed order, so the bits depend on the matrix alone.

use super::eigen::{EigenPair, largest_eigenpairs, start, unit};
use super::lines::{HalfLine, LINE, Line, LowerTriangle, Vectors};
use super::orthogonal_blocks::{Basis, Square};
use crate::counts::{CountError, Job, Lanes, Level, Workers};

/// The most eigenvalues that are found.
pub(crate) const MOST_VALUES: usize = LINE;
/// The most eigenvalues that are found with blocks of four vectors, which are faster where the next eigenvalues are not close to these.
const FEW_VALUES: usize = 2;
/// The most blocks. A matrix that needs more has values that are too close to each other, for which all of it is better reduced.
const MOST_BLOCKS: usize = 48;
/// Blocks before the first look at what was found.
const FIRST_LOOK: usize = 2;
/// Where the residuals are less than this part of the largest eigenvalue, the eigenvectors are found.
const PRECISION: f64 = 1e-12;

/// A symmetric matrix without negative eigenvalues.
pub(crate) trait Symmetric {
    /// Number of rows.
    fn n(&self) -> usize;

    /// The products with some vectors. Item `i` has component `i` of each.
    fn multiply<L: Lanes, V: Vectors>(&self, lanes: L, vectors: &[V], products: &mut [V]);
}

/// The most blocks for a matrix of `n` rows.
fn most_blocks<V: Vectors>(n: usize) -> usize {
    MOST_BLOCKS.min(n / 2 / V::NUMBER)
}

/// Bytes of the vectors for `count` eigenvalues of a matrix of `n` rows, at most.
pub(crate) fn bytes_of(n: usize, count: usize) -> usize {
    let of_block = match count <= FEW_VALUES {
        true => HalfLine::NUMBER,
        false => Line::NUMBER,
    };
    let of_blocks = (MOST_BLOCKS * of_block).min(n / 2);
    // Those of all blocks, a product, and the columns of a block; and half of the matrix in terms of them, with its reflections.
    let vectors = (of_blocks + 3 * LINE).saturating_mul(n);
    let numbers = vectors.saturating_add(2 * of_blocks * of_blocks);
    numbers.saturating_mul(size_of::<f64>())
}

/// The `count` largest eigenvalues in descending order, and their vectors; `None` if they are not found in a few steps.
///
/// # Errors
/// [`CountError::Stopped`].
pub(crate) fn largest_of<M: Symmetric>(
    matrix: &M,
    count: usize,
    workers: &Workers<'_>,
) -> Result<Option<Vec<EigenPair>>, CountError> {
    Level::detect().run(Find {
        matrix,
        count,
        workers,
    })
}

struct Find<'a, M> {
    matrix: &'a M,
    count: usize,
    workers: &'a Workers<'a>,
}

impl<M: Symmetric> Job for Find<'_, M> {
    type Output = Result<Option<Vec<EigenPair>>, CountError>;

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> Self::Output {
        match self.count <= FEW_VALUES {
            true => self.in_blocks::<L, HalfLine>(lanes),
            false => self.in_blocks::<L, Line>(lanes),
        }
    }
}

impl<M: Symmetric> Find<'_, M> {
    #[inline(always)]
    fn in_blocks<L: Lanes, V: Vectors>(
        self,
        lanes: L,
    ) -> Result<Option<Vec<EigenPair>>, CountError> {
        let Self {
            matrix,
            count,
            workers,
        } = self;
        let n = matrix.n();
        let most = most_blocks::<V>(n);
        if count > V::NUMBER || most < FIRST_LOOK {
            return Ok(None);
        }
        let mut basis = Basis::new(n);
        let mut products = vec![V::default(); n];
        for (i, components) in products.iter_mut().enumerate() {
            for (vector, x) in components.each_mut().iter_mut().enumerate() {
                *x = start(i, vector) - 0.75;
            }
        }
        let mut remaining = basis.extend(lanes, &mut products, 0.0);
        // Of the matrix in terms of the vectors: blocks on the diagonal, and beside it.
        let (mut diagonal, mut beside): (Vec<Square<V>>, Vec<Square<V>>) = (vec![], vec![]);
        let (mut longest, mut looks) = (0.0f64, Looks::default());
        while diagonal.len() < most {
            workers.check()?;
            if !diagonal.is_empty() {
                beside.push(remaining);
            }
            let Some(last) = basis.blocks.last() else {
                return Ok(None);
            };
            matrix.multiply(lanes, last, &mut products);
            longest = larger(longest, longest_of(&products));
            if !longest.is_finite() {
                return Ok(None);
            }
            if longest == 0.0 {
                let pairs = (0..count).map(|at| (0.0, unit(n, at)));
                return Ok(Some(pairs.collect()));
            }
            diagonal.push(V::inner_products(lanes, last, &products));
            basis.project_out(lanes, &mut products);
            remaining = basis.extend(lanes, &mut products, longest);
            if diagonal.len() < looks.next.min(most) {
                continue;
            }
            let pairs = of_blocks(&diagonal, &beside, count, workers)?;
            let largest = pairs.first().map_or(0.0, |(value, _)| *value);
            let residuals = pairs.iter().map(|(_, vector)| residual(&remaining, vector));
            let worst = residuals.fold(0.0, f64::max);
            if worst <= PRECISION * largest {
                let (values, vectors): (Vec<f64>, Vec<_>) = pairs.into_iter().unzip();
                let vectors = basis.combined(lanes, &vectors);
                return Ok(Some(values.into_iter().zip(vectors).collect()));
            }
            looks.add(diagonal.len(), worst / largest);
        }
        Ok(None)
    }
}

/// When it is time to look at what was found, which takes longer the more blocks there are.
struct Looks {
    /// Blocks of the last one, and the residual beside the largest eigenvalue.
    last: Option<(usize, f64)>,
    /// Blocks of the next one.
    next: usize,
}

impl Default for Looks {
    fn default() -> Self {
        Self {
            last: None,
            next: FIRST_LOOK,
        }
    }
}

impl Looks {
    /// A look that found too large a residual. The next one is when it will be small, if each block makes it smaller by the same factor
    /// as since the last one, but not after many more blocks.
    fn add(&mut self, blocks: usize, residual: f64) {
        let factor = |(before, larger): (usize, f64)| {
            let each = log2(larger / residual) / (blocks - before) as f64;
            log2(residual / PRECISION) / each
        };
        let more = self.last.map_or(f64::INFINITY, factor);
        // Not a number, or negative, if the residual has become larger.
        let more = if more >= 0.0 { more } else { f64::INFINITY };
        self.last = Some((blocks, residual));
        let most = (blocks / 2).max(2);
        self.next = blocks + (more.ceil().min(most as f64) as usize).max(1);
    }
}

/// The logarithm of a positive number, exact for powers of two and between them on a line: the same on every machine.
fn log2(x: f64) -> f64 {
    let exponent_and_fraction = x.to_bits() as f64 / (1u64 << 52) as f64;
    exponent_and_fraction - 1023.0
}

/// The length of the longest vector of a block.
#[inline(always)]
fn longest_of<V: Vectors>(block: &[V]) -> f64 {
    let mut squares = V::default();
    for components in block {
        for (square, x) in squares.each_mut().iter_mut().zip(components.each()) {
            *square += x * x;
        }
    }
    let squares = squares.each().iter();
    squares.fold(0.0f64, |most, square| larger(most, square.sqrt()))
}

/// The larger number, or one that is none.
fn larger(a: f64, b: f64) -> f64 {
    if a >= b || a.is_nan() { a } else { b }
}

/// The largest eigenvalues of the matrix of blocks.
fn of_blocks<V: Vectors>(
    diagonal: &[Square<V>],
    beside: &[Square<V>],
    count: usize,
    workers: &Workers<'_>,
) -> Result<Vec<EigenPair>, CountError> {
    let n = diagonal.len() * V::NUMBER;
    let mut matrix = LowerTriangle::try_new(n, n, |rows| {
        for rows in rows {
            rows.set(|i, j| {
                let (block, of) = (i / V::NUMBER, j / V::NUMBER);
                let element = |square: &Square<V>| square[i % V::NUMBER].each()[j % V::NUMBER];
                match block - of {
                    0 => diagonal.get(block).map_or(0.0, element),
                    1 => beside.get(of).map_or(0.0, element),
                    _ => 0.0,
                }
            });
        }
        Ok(())
    })?;
    largest_eigenpairs(&mut matrix, count, &workers.at_most(1))
}

/// How far an eigenvector of the blocks is from one of the matrix: the length of what the last block's products leave.
fn residual<V: Vectors>(remaining: &Square<V>, vector: &[f64]) -> f64 {
    let last = vector.len().saturating_sub(V::NUMBER);
    let last = vector.get(last..).unwrap_or_default();
    let squares = remaining.iter().map(|row| {
        let sum: f64 = row.each().iter().zip(last).map(|(a, b)| a * b).sum();
        sum * sum
    });
    squares.sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::numeric::lines::RowsSetter;
    use crate::functions::numeric::vectors::{add_times, dot};

    /// A matrix with all of its elements.
    struct Full {
        n: usize,
        elements: Vec<f64>,
    }

    impl Symmetric for Full {
        fn n(&self) -> usize {
            self.n
        }

        fn multiply<L: Lanes, V: Vectors>(&self, lanes: L, vectors: &[V], products: &mut [V]) {
            for (row, to) in self.elements.chunks(self.n).zip(products) {
                *to = V::default();
                for (x, components) in row.iter().zip(vectors) {
                    to.add_times(lanes, *x, components);
                }
            }
        }
    }

    /// Σ of value · vector vectorᵀ.
    fn sum_of(n: usize, values: &[f64], vector: impl Fn(usize, usize) -> f64) -> Full {
        let mut elements = vec![0.0; n * n];
        for (at, value) in values.iter().enumerate() {
            for i in 0..n {
                for j in 0..n {
                    elements[i * n + j] += value * vector(at, i) * vector(at, j);
                }
            }
        }
        Full { n, elements }
    }

    /// The pairs, if they are found, are those of the whole matrix.
    fn check(matrix: &Full, count: usize) -> bool {
        let n = matrix.n;
        let Some(found) = largest_of(matrix, count, &Workers::ALONE).unwrap() else {
            return false;
        };
        let fill = |rows: Vec<RowsSetter<'_>>| {
            let set = |rows: RowsSetter<'_>| rows.set(|i, j| matrix.elements[i * n + j]);
            rows.into_iter().for_each(set);
            Ok(())
        };
        let mut whole = LowerTriangle::try_new(n, 7, fill).unwrap();
        let expected = largest_eigenpairs(&mut whole, count, &Workers::ALONE).unwrap();
        let largest = expected[0].0.max(1e-300);
        assert_eq!(found.len(), count);
        for (at, ((value, vector), (wanted, _))) in found.iter().zip(&expected).enumerate() {
            assert!(
                (value - wanted).abs() <= 1e-12 * largest,
                "{at}: {value} {wanted}"
            );
            for i in 0..n {
                let row = &matrix.elements[i * n..(i + 1) * n];
                let product: f64 = row.iter().zip(vector).map(|(a, b)| a * b).sum();
                assert!((product - value * vector[i]).abs() <= 1e-11 * largest);
            }
            for (other, (_, second)) in found.iter().enumerate() {
                let product: f64 = vector.iter().zip(second).map(|(a, b)| a * b).sum();
                let wanted = f64::from(u8::from(at == other));
                assert!((product - wanted).abs() < 1e-10, "{at} {other} {product}");
            }
        }
        true
    }

    #[test]
    fn pairs_are_those_of_the_whole_matrix() {
        let noise = |at: usize, i: usize| start(i, at + 100) - 0.75;
        let single = |at: usize, i: usize| f64::from(u8::from(i == 3 * at));
        for n in [97, 160] {
            // Values that fall fast, and few that are not 0.
            let falling: Vec<f64> = (0..30).map(|at| 0.5f64.powi(at)).collect();
            for count in [1, 2, 3, 8] {
                assert!(check(&sum_of(n, &falling, noise), count));
            }
            for rank in [1, 2, 5, 9, 13] {
                for count in [2, 3] {
                    let matrix = sum_of(n, &vec![1.0; rank], noise);
                    assert!(check(&matrix, count), "{n} {rank} {count}");
                }
                // The same value several times.
                for count in [2, 8] {
                    let matrix = sum_of(n, &vec![2.0; rank], single);
                    assert!(check(&matrix, count), "{n} {rank} {count}");
                }
            }
            assert!(check(&sum_of(n, &[], single), 2));
        }
    }

    #[test]
    fn instruction_sets_have_the_same_bits() {
        let falling: Vec<f64> = (0..30).map(|at| 0.5f64.powi(at)).collect();
        for n in [128, 131] {
            let matrix = sum_of(n, &falling, |at, i| start(i, at + 100) - 0.75);
            for count in [1, 2, 3] {
                let found = Level::available().into_iter().map(|level| {
                    let found = level.run(Find {
                        matrix: &matrix,
                        count,
                        workers: &Workers::ALONE,
                    });
                    let pairs = found.unwrap().unwrap().into_iter();
                    let bits = pairs.flat_map(|(value, vector)| [vec![value], vector].concat());
                    bits.map(f64::to_bits).collect::<Vec<_>>()
                });
                let found: Vec<_> = found.collect();
                assert!(
                    found.windows(2).all(|pair| pair[0] == pair[1]),
                    "{n} {count}"
                );
            }
        }
    }

    /// A matrix whose second block is made of vectors that have much in common, of which short parts are left.
    #[test]
    fn vectors_with_much_in_common_are_separated() {
        let n = 128;
        for (width, count) in [(4, 2), (8, 3)] {
            for seed in 0..3 {
                let noise = |i: usize, at: usize| start(i, at) - 0.75;
                let mut columns: Vec<Vec<f64>> = vec![];
                for at in 0..2 * width {
                    let at_seed = if at < width {
                        at
                    } else {
                        at + 100 * (seed + 1)
                    };
                    let mut column: Vec<f64> = (0..n).map(|i| noise(i, at_seed)).collect();
                    for _ in 0..3 {
                        for other in &columns {
                            let overlap = dot(&column, other);
                            add_times(&mut column, -overlap, other);
                        }
                    }
                    let length = dot(&column, &column).sqrt();
                    column.iter_mut().for_each(|x| *x /= length);
                    columns.push(column);
                }
                let (first, second) = columns.split_at(width);
                let element = |i: usize, j: usize| match i.cmp(&j) {
                    std::cmp::Ordering::Less => 0.35,
                    std::cmp::Ordering::Equal => 2.5e-3,
                    std::cmp::Ordering::Greater => 0.0,
                };
                let mut elements = vec![0.0; n * n];
                for (at, x) in elements.iter_mut().enumerate() {
                    let (i, j) = (at / n, at % n);
                    for (a, (one, other)) in first.iter().zip(second).enumerate() {
                        *x += 2.0 * (one[i] * one[j] + other[i] * other[j]);
                        for (b, one) in first.iter().enumerate().skip(a) {
                            let of = |i: usize, j: usize| other[i] * one[j];
                            *x += element(a, b) * (of(i, j) + of(j, i));
                        }
                    }
                }
                assert!(check(&Full { n, elements }, count), "{width} {seed}");
            }
        }
    }

    #[test]
    fn planned_looks_come_at_last() {
        assert_eq!([1.0, 2.0, 0.25, 3.0].map(log2), [0.0, 1.0, -2.0, 1.5]);
        let mut looks = Looks::default();
        let mut seen = vec![];
        for residual in [1.0, 1.0, 2.0, f64::NAN, 1e-3, 1e-7, 0.0, f64::INFINITY] {
            seen.push(looks.next);
            looks.add(looks.next, residual);
        }
        assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
        assert!(looks.next <= 4 * seen[seen.len() - 1]);
    }

    #[test]
    fn values_that_are_too_close_are_not_found() {
        let n = 400;
        let close: Vec<f64> = (0..n).map(|at| 1.0 + at as f64 * 1e-5).collect();
        let matrix = sum_of(n, &close, |at, i| f64::from(u8::from(i == at)));
        assert!(!check(&matrix, 2));
        assert!(!check(&matrix, 3));
        // Nor are more than a block has.
        assert!(!check(&sum_of(n, &[1.0], |_, _| 1.0), MOST_VALUES + 1));
        assert!(!check(&sum_of(15, &[1.0], |_, _| 1.0), 1));
    }

    #[test]
    fn matrices_with_infinite_elements_are_refused() {
        for element in [f64::NAN, f64::INFINITY] {
            let mut matrix = sum_of(100, &[1.0], |_, i| i as f64);
            matrix.elements[707] = element;
            for count in [1, 3] {
                let found = largest_of(&matrix, count, &Workers::ALONE);
                assert!(matches!(found, Ok(None)));
            }
        }
    }

    #[test]
    fn it_can_be_stopped() {
        let matrix = sum_of(100, &[1.0], |_, i| i as f64);
        let stopped = largest_of(&matrix, 1, &Workers::new(1, &|| true));
        assert!(matches!(stopped, Err(CountError::Stopped)));
    }
}
