//! The largest eigenvalues of a symmetric matrix that is only multiplied by vectors, and their eigenvectors.
//!
//! Block Lanczos with eight vectors, of which each block is made orthogonal to all before it (Golub and Underwood 1977; Golub and Van Loan, Matrix
//! Computations, 10.3.6). As many equal eigenvalues are found as a block has vectors, so no more values than that are asked for. Sums have a fixed
//! order, so the bits depend on the matrix alone.

use super::eigen::{EigenPair, finished, largest_eigenpairs, start, unit};
use super::lines::{LINE, Line, LowerTriangle, add_times, at, at_mut, dot, lines_of};
use crate::counts::{CountError, Job, Lanes, Level, Workers};

/// The most eigenvalues that are found.
pub(crate) const MOST_VALUES: usize = LINE;
/// The most blocks. A matrix that needs more has values that are too close to each other, for which all of it is better reduced.
const MOST_BLOCKS: usize = 64;
/// Blocks before the first look at what was found.
const FIRST_LOOK: usize = 2;
/// What was found is looked at again with this part more blocks: a look takes longer the more there are.
const MORE: usize = 4;
/// Where the residuals are less than this part of the largest eigenvalue, the eigenvectors are found.
const PRECISION: f64 = 1e-12;
/// Vectors that are shorter than this part of the longest product are rounding errors.
const NOTHING: f64 = 1e-13;
/// What is left of vectors that are shorter than this part of it has rounding errors that are not small beside it.
const SMALL: f64 = 1e-3;

/// A symmetric matrix without negative eigenvalues.
pub(crate) trait Symmetric {
    /// Number of rows.
    fn n(&self) -> usize;

    /// The products with eight vectors. Line `i` has component `i` of each.
    fn multiply<L: Lanes>(&self, lanes: L, vectors: &[Line], products: &mut [Line]);
}

/// A matrix of eight rows and columns.
type Square = [Line; LINE];

/// The most blocks for a matrix of `n` rows.
fn most_blocks(n: usize) -> usize {
    MOST_BLOCKS.min(n / (2 * LINE))
}

/// Bytes of the vectors for a matrix of `n` rows, at most.
pub(crate) fn bytes_of(n: usize) -> usize {
    // Those of all blocks, a product, and the columns of a block.
    let vectors = (most_blocks(n) + 3).saturating_mul(n);
    vectors.saturating_mul(size_of::<Line>())
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
        let Self {
            matrix,
            count,
            workers,
        } = self;
        let n = matrix.n();
        let most = most_blocks(n);
        if count > MOST_VALUES || most < FIRST_LOOK {
            return Ok(None);
        }
        let mut basis = Basis::new(n);
        let mut products = vec![Line::default(); n];
        for (i, line) in products.iter_mut().enumerate() {
            for (vector, x) in line.0.iter_mut().enumerate() {
                *x = start(i, vector) - 0.75;
            }
        }
        let mut remaining = basis.extend(lanes, &mut products, 0.0);
        // Of the matrix in terms of the vectors: blocks on the diagonal, and beside it.
        let (mut diagonal, mut beside): (Vec<Square>, Vec<Square>) = (vec![], vec![]);
        let (mut longest, mut look) = (0.0f64, FIRST_LOOK);
        while diagonal.len() < most {
            workers.check()?;
            if !diagonal.is_empty() {
                beside.push(remaining);
            }
            let Some(last) = basis.blocks.last() else {
                return Ok(None);
            };
            matrix.multiply(lanes, last, &mut products);
            longest = longest.max(longest_of(lanes, &products));
            if longest == 0.0 {
                let pairs = (0..count).map(|at| (0.0, unit(n, at)));
                return Ok(Some(pairs.collect()));
            }
            diagonal.push(inner_products(lanes, last, &products));
            basis.project_out(lanes, &mut products);
            remaining = basis.extend(lanes, &mut products, longest);
            if diagonal.len() < look.min(most) {
                continue;
            }
            look += (look / MORE).max(2);
            let pairs = of_blocks(&diagonal, &beside, count, workers)?;
            let largest = pairs.first().map_or(0.0, |(value, _)| *value);
            let is_found =
                |(_, vector): &EigenPair| residual(&remaining, vector) <= PRECISION * largest;
            if pairs.iter().all(is_found) {
                let pairs = pairs.into_iter();
                let pairs = pairs.map(|(value, vector)| (value, basis.combined(&vector)));
                return Ok(Some(pairs.collect()));
            }
        }
        Ok(None)
    }
}

/// Blocks of eight vectors of length 1, all at right angles.
struct Basis {
    n: usize,
    blocks: Vec<Vec<Line>>,
    /// Vectors that replaced others.
    replaced: usize,
}

impl Basis {
    fn new(n: usize) -> Self {
        Self {
            n,
            blocks: vec![],
            replaced: 0,
        }
    }

    /// Takes from products with the last block what they have in common with the vectors of all blocks: first that with the last two, of which
    /// there is much, and then rounding errors.
    #[inline(always)]
    fn project_out<L: Lanes>(&self, lanes: L, vectors: &mut [Line]) {
        let last = self.blocks.iter().rev().take(2);
        for block in last.chain(&self.blocks) {
            let overlaps = inner_products(lanes, block, vectors);
            for (to, from) in vectors.iter_mut().zip(block) {
                let mut sum = lanes.doubles(&to.0);
                for (x, overlap) in from.0.iter().zip(&overlaps) {
                    let factor = lanes.doubles(&[-*x; LINE]);
                    sum = lanes.add_products(sum, factor, lanes.doubles(&overlap.0));
                }
                to.0 = lanes.each(sum);
            }
        }
    }

    /// Adds a block of what `vectors`, which have nothing in common with the others, are made of; returns the triangular matrix R of vectors =
    /// block · R. What they are made of was as long as `longest`; a vector of which nothing is left beside the ones before it is replaced by another.
    #[inline(always)]
    fn extend<L: Lanes>(&mut self, lanes: L, vectors: &mut [Line], longest: f64) -> Square {
        let nothing = NOTHING * longest;
        let mut triangle = Square::default();
        // As columns.
        let mut columns: [Vec<Line>; LINE] = Default::default();
        for (at_column, column) in columns.iter_mut().enumerate() {
            column.resize(lines_of(self.n), Line::default());
            for (i, line) in vectors.iter().enumerate() {
                *at_mut(column, i) = line.0[at_column];
            }
        }
        for this in 0..LINE {
            let (before, rest) = columns.split_at_mut(this);
            let Some(column) = rest.first_mut() else {
                break;
            };
            for _ in 0..2 {
                for (other, triangle) in before.iter().zip(&mut triangle) {
                    let overlap = dot(lanes, other, column);
                    add_times(lanes, column, -overlap, other);
                    triangle.0[this] += overlap;
                }
            }
            let length = dot(lanes, column, column).sqrt();
            match length > nothing {
                true => triangle[this].0[this] = length,
                false => self.replace(column),
            }
            if length <= longest * SMALL {
                // Rounding errors are not small beside what is left.
                normalise(lanes, column);
                self.separate(lanes, column, before);
            }
            normalise(lanes, column);
        }
        let mut block = vec![Line::default(); self.n];
        for (i, line) in block.iter_mut().enumerate() {
            for (x, column) in line.0.iter_mut().zip(&columns) {
                *x = at(column, i);
            }
        }
        self.blocks.push(block);
        triangle
    }

    /// Makes a vector noise.
    fn replace(&mut self, column: &mut [Line]) {
        self.replaced += 1;
        for i in 0..self.n {
            *at_mut(column, i) = start(i, LINE + self.replaced) - 0.75;
        }
    }

    /// Takes from a vector what it has in common with the blocks and with those `before` it.
    #[inline(always)]
    fn separate<L: Lanes>(&self, lanes: L, column: &mut [Line], before: &[Vec<Line>]) {
        for _ in 0..2 {
            for block in &self.blocks {
                let mut overlaps = lanes.doubles(&[0.0; LINE]);
                for (i, line) in block.iter().enumerate() {
                    let x = lanes.doubles(&[at(column, i); LINE]);
                    overlaps = lanes.add_products(overlaps, x, lanes.doubles(&line.0));
                }
                let overlaps = lanes.each(overlaps);
                for (i, line) in block.iter().enumerate() {
                    let x = at_mut(column, i);
                    for (overlap, y) in overlaps.iter().zip(&line.0) {
                        *x -= overlap * y;
                    }
                }
            }
            for other in before {
                let overlap = dot(lanes, other, column);
                add_times(lanes, column, -overlap, other);
            }
        }
    }

    /// The sum of the vectors of all blocks with these factors.
    fn combined(&self, factors: &[f64]) -> Vec<f64> {
        let mut vector = vec![0.0; self.n];
        for (block, factors) in self.blocks.iter().zip(factors.chunks(LINE)) {
            for (sum, line) in vector.iter_mut().zip(block) {
                for (factor, x) in factors.iter().zip(&line.0) {
                    *sum += factor * x;
                }
            }
        }
        finished(&mut vector);
        vector
    }
}

#[inline(always)]
fn normalise<L: Lanes>(lanes: L, column: &mut [Line]) {
    let factor = 1.0 / dot(lanes, column, column).sqrt();
    for line in column {
        line.0.iter_mut().for_each(|x| *x *= factor);
    }
}

/// The products of each vector of one block with each of the other.
#[inline(always)]
fn inner_products<L: Lanes>(lanes: L, block: &[Line], vectors: &[Line]) -> Square {
    let mut sums = [lanes.doubles(&[0.0; LINE]); LINE];
    for (a, b) in block.iter().zip(vectors) {
        let b = lanes.doubles(&b.0);
        for (sum, x) in sums.iter_mut().zip(&a.0) {
            *sum = lanes.add_products(*sum, lanes.doubles(&[*x; LINE]), b);
        }
    }
    let mut products = Square::default();
    for (to, sum) in products.iter_mut().zip(sums) {
        to.0 = lanes.each(sum);
    }
    products
}

/// The length of the longest vector of a block.
#[inline(always)]
fn longest_of<L: Lanes>(lanes: L, block: &[Line]) -> f64 {
    let mut squares = lanes.doubles(&[0.0; LINE]);
    for line in block {
        let numbers = lanes.doubles(&line.0);
        squares = lanes.add_products(squares, numbers, numbers);
    }
    let squares = lanes.each(squares);
    squares
        .iter()
        .fold(0.0f64, |most, square| most.max(square.sqrt()))
}

/// The largest eigenvalues of the matrix of blocks.
fn of_blocks(
    diagonal: &[Square],
    beside: &[Square],
    count: usize,
    workers: &Workers<'_>,
) -> Result<Vec<EigenPair>, CountError> {
    let n = diagonal.len() * LINE;
    let mut matrix = LowerTriangle::try_new(n, n, |rows| {
        for rows in rows {
            rows.set(|i, j| {
                let (block, of) = (i / LINE, j / LINE);
                let element = |square: &Square| square[i % LINE].0[j % LINE];
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
fn residual(remaining: &Square, vector: &[f64]) -> f64 {
    let last = vector.len().saturating_sub(LINE);
    let last = vector.get(last..).unwrap_or_default();
    let squares = remaining.iter().map(|line| {
        let sum: f64 = line.0.iter().zip(last).map(|(a, b)| a * b).sum();
        sum * sum
    });
    squares.sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::numeric::lines::RowsSetter;

    /// A matrix with all of its elements.
    struct Full {
        n: usize,
        elements: Vec<f64>,
    }

    impl Symmetric for Full {
        fn n(&self) -> usize {
            self.n
        }

        fn multiply<L: Lanes>(&self, _lanes: L, vectors: &[Line], products: &mut [Line]) {
            for (row, to) in self.elements.chunks(self.n).zip(products) {
                *to = Line::default();
                for (x, vectors) in row.iter().zip(vectors) {
                    for (to, y) in to.0.iter_mut().zip(vectors.0) {
                        *to += x * y;
                    }
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
            assert!(check(&sum_of(n, &falling, noise), 8));
            for rank in [1, 2, 5, 9, 13] {
                assert!(check(&sum_of(n, &vec![1.0; rank], noise), 3), "{n} {rank}");
                // The same value several times.
                assert!(check(&sum_of(n, &vec![2.0; rank], single), 8), "{n} {rank}");
            }
            assert!(check(&sum_of(n, &[], single), 2));
        }
    }

    #[test]
    fn values_that_are_too_close_are_not_found() {
        let n = 400;
        let close: Vec<f64> = (0..n).map(|at| 1.0 + at as f64 * 1e-5).collect();
        let matrix = sum_of(n, &close, |at, i| f64::from(u8::from(i == at)));
        assert!(!check(&matrix, 3));
        // Nor are more than a block has.
        assert!(!check(&sum_of(n, &[1.0], |_, _| 1.0), MOST_VALUES + 1));
        assert!(!check(&sum_of(20, &[1.0], |_, _| 1.0), 1));
    }

    #[test]
    fn it_can_be_stopped() {
        let matrix = sum_of(100, &[1.0], |_, i| i as f64);
        let stopped = largest_of(&matrix, 1, &Workers::new(1, &|| true));
        assert!(matches!(stopped, Err(CountError::Stopped)));
    }
}
