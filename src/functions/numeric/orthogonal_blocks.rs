//! [`Basis`]: blocks of vectors at right angles, of which [`krylov`](super::krylov) makes one after the other.

use super::eigen::{finished, start};
use super::lines::{LINE, Vectors};
use super::vectors::{add_times, dot};
use crate::counts::Lanes;

/// Vectors that are shorter than this part of the longest product are rounding errors.
const NOTHING: f64 = 1e-13;
/// If less than this part of a vector is left once others are taken from it, its rounding errors are not small beside it.
const SMALL: f64 = 1e-3;

/// A matrix of as many rows and columns as a block has vectors.
pub(super) type Square<V> = [V; LINE];

/// Blocks of vectors of length 1, all at right angles.
pub(super) struct Basis<V> {
    n: usize,
    pub(super) blocks: Vec<Vec<V>>,
    /// Vectors that replaced others.
    replaced: usize,
}

impl<V: Vectors> Basis<V> {
    /// No blocks yet of vectors of this length.
    pub(super) fn new(n: usize) -> Self {
        Self {
            n,
            blocks: vec![],
            replaced: 0,
        }
    }

    /// Takes from products with the last block what they have in common with the vectors of all blocks: first that with the last two, of which
    /// there is much, and then rounding errors.
    #[inline(always)]
    pub(super) fn project_out<L: Lanes>(&self, lanes: L, vectors: &mut [V]) {
        let last = self.blocks.iter().rev().take(2);
        for block in last.chain(&self.blocks) {
            let overlaps = V::inner_products(lanes, block, vectors);
            V::subtract(lanes, vectors, block, &overlaps);
        }
    }

    /// Adds a block of what `vectors`, which have nothing in common with the others, are made of; returns the triangular matrix R of vectors =
    /// block · R. What they are made of was as long as `longest`; a vector of which nothing is left beside the ones before it is replaced by another.
    #[inline(always)]
    pub(super) fn extend<L: Lanes>(
        &mut self,
        lanes: L,
        vectors: &mut [V],
        longest: f64,
    ) -> Square<V> {
        match orthogonalise(lanes, vectors, longest) {
            Some(triangle) => {
                self.blocks.push(vectors.to_vec());
                triangle
            }
            None => self.extend_by_columns(lanes, vectors, longest),
        }
    }

    /// The same one vector after the other, for those that are short, or have much in common.
    #[inline(always)]
    fn extend_by_columns<L: Lanes>(&mut self, lanes: L, vectors: &[V], longest: f64) -> Square<V> {
        let nothing = NOTHING * longest;
        let mut triangle = Square::<V>::default();
        let component = |column: usize| move |components: &V| components.each()[column];
        let columns = (0..V::NUMBER).map(|at| vectors.iter().map(component(at)).collect());
        let mut columns: Vec<Vec<f64>> = columns.collect();
        for this in 0..V::NUMBER {
            let (before, rest) = columns.split_at_mut(this);
            let Some(column) = rest.first_mut() else {
                break;
            };
            for _ in 0..2 {
                for (other, triangle) in before.iter().zip(&mut triangle) {
                    let overlap = dot(other, column);
                    add_times(column, -overlap, other);
                    triangle.each_mut()[this] += overlap;
                }
            }
            let length = dot(column, column).sqrt();
            match length > nothing {
                true => triangle[this].each_mut()[this] = length,
                false => self.replace(column),
            }
            // Rounding errors, and those of the vectors before, may not be small beside what is left.
            normalise(column);
            self.separate(lanes, column, before);
            normalise(column);
        }
        let mut block = vec![V::default(); self.n];
        for (i, components) in block.iter_mut().enumerate() {
            for (x, column) in components.each_mut().iter_mut().zip(&columns) {
                *x = column[i];
            }
        }
        self.blocks.push(block);
        triangle
    }

    /// Makes a vector noise.
    fn replace(&mut self, column: &mut [f64]) {
        self.replaced += 1;
        for (i, x) in column.iter_mut().enumerate() {
            *x = start(i, LINE + self.replaced) - 0.75;
        }
    }

    /// Takes from a vector what it has in common with the blocks and with those `before` it.
    #[inline(always)]
    fn separate<L: Lanes>(&self, lanes: L, column: &mut [f64], before: &[Vec<f64>]) {
        for _ in 0..2 {
            for block in &self.blocks {
                let mut overlaps = V::default();
                for (x, components) in column.iter().zip(block) {
                    overlaps.add_times(lanes, *x, components);
                }
                for (x, components) in column.iter_mut().zip(block) {
                    for (overlap, y) in overlaps.each().iter().zip(components.each()) {
                        *x -= overlap * y;
                    }
                }
            }
            for other in before {
                let overlap = dot(other, column);
                add_times(column, -overlap, other);
            }
        }
    }

    /// The sums of the vectors of all blocks with these factors: of as many lists as a block has vectors, or fewer.
    #[inline(always)]
    pub(super) fn combined<L: Lanes>(&self, lanes: L, factors: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let mut sums = vec![V::default(); self.n];
        let with_factors = factors.first().map_or(0, |of| of.len() / V::NUMBER);
        for (at, block) in self.blocks.iter().take(with_factors).enumerate() {
            let mut negative = Square::<V>::default();
            for (vector, row) in negative.iter_mut().take(V::NUMBER).enumerate() {
                for (to, factors) in row.each_mut().iter_mut().zip(factors) {
                    *to = factors.get(at * V::NUMBER + vector).map_or(0.0, |x| -x);
                }
            }
            V::subtract(lanes, &mut sums, block, &negative);
        }
        let column = |at: usize| {
            let mut column: Vec<f64> = sums.iter().map(|x| x.each()[at]).collect();
            finished(&mut column);
            column
        };
        (0..factors.len().min(V::NUMBER)).map(column).collect()
    }
}

/// Makes vectors orthogonal and their lengths 1 by the Cholesky factor of their products, twice, since the first time leaves rounding errors
/// (Yamamoto et al. 2015, CholeskyQR2); returns the triangular matrix R of what they were = what they are · R. `None`, and nothing is changed, if what is
/// left of one of them beside the others is short, also beside `longest`: division by R would make its rounding errors large.
#[inline(always)]
fn orthogonalise<L: Lanes, V: Vectors>(
    lanes: L,
    vectors: &mut [V],
    longest: f64,
) -> Option<Square<V>> {
    let products = V::inner_products(lanes, vectors, vectors);
    let first = factor_of(lanes, &products)?;
    let inverse = inverse_of(lanes, &first);
    let lengths = (0..V::NUMBER).map(|at| products[at].each()[at].sqrt());
    let longest = lengths.fold(longest, f64::max);
    let is_small = |x: &f64| x.abs() * longest < 1.0 / SMALL;
    if !inverse.iter().flat_map(V::each).all(is_small) {
        return None;
    }
    multiply(lanes, vectors, &inverse);
    // These products differ little from those of vectors at right angles, so there is a factor.
    let second = factor_of(lanes, &V::inner_products(lanes, vectors, vectors))?;
    multiply(lanes, vectors, &inverse_of(lanes, &second));
    let mut product = Square::<V>::default();
    for (to, row) in product.iter_mut().zip(&second) {
        for (x, from) in row.each().iter().zip(&first) {
            to.add_times(lanes, *x, from);
        }
    }
    Some(product)
}

/// The triangular matrix R with RᵀR = `products`; `None` if a pivot is not positive.
#[inline(always)]
fn factor_of<L: Lanes, V: Vectors>(lanes: L, products: &Square<V>) -> Option<Square<V>> {
    let mut factor = Square::<V>::default();
    for i in 0..V::NUMBER {
        let mut row = products[i];
        for above in &factor[..i] {
            row.add_times(lanes, -above.each()[i], above);
        }
        let pivot = row.each()[i];
        if !(pivot > 0.0 && pivot.is_finite()) {
            return None;
        }
        let length = pivot.sqrt();
        for (j, x) in row.each_mut().iter_mut().enumerate() {
            *x = if j < i { 0.0 } else { *x / length };
        }
        factor[i] = row;
    }
    Some(factor)
}

/// The inverse of a triangular matrix.
#[inline(always)]
fn inverse_of<L: Lanes, V: Vectors>(lanes: L, triangle: &Square<V>) -> Square<V> {
    // Rows, the last one first.
    let mut inverse = Square::<V>::default();
    for i in (0..V::NUMBER).rev() {
        let of_row = triangle[i].each();
        let mut row = V::default();
        row.each_mut()[i] = 1.0;
        for j in i + 1..V::NUMBER {
            row.add_times(lanes, -of_row[j], &inverse[j]);
        }
        for x in row.each_mut() {
            *x /= of_row[i];
        }
        inverse[i] = row;
    }
    inverse
}

/// Multiplies vectors by a matrix.
#[inline(always)]
fn multiply<L: Lanes, V: Vectors>(lanes: L, vectors: &mut [V], matrix: &Square<V>) {
    for components in vectors {
        let mut product = V::default();
        for (x, row) in components.each().iter().zip(matrix) {
            product.add_times(lanes, *x, row);
        }
        *components = product;
    }
}

fn normalise(column: &mut [f64]) {
    let factor = 1.0 / dot(column, column).sqrt();
    column.iter_mut().for_each(|x| *x *= factor);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::{Job, Level};
    use crate::functions::numeric::lines::{HalfLine, Line};

    #[test]
    fn vectors_are_made_orthogonal() {
        struct Check;

        impl Job for Check {
            type Output = ();

            #[inline(always)]
            fn run<L: Lanes>(self, lanes: L) {
                for n in [50, 51] {
                    check_orthogonal::<L, HalfLine>(lanes, n);
                    check_orthogonal::<L, Line>(lanes, n);
                }
            }
        }

        for level in Level::available() {
            level.run(Check);
        }
    }

    fn check_orthogonal<L: Lanes, V: Vectors>(lanes: L, n: usize) {
        let mut vectors = vec![V::default(); n];
        for (i, components) in vectors.iter_mut().enumerate() {
            for (at, x) in components.each_mut().iter_mut().enumerate() {
                *x = (start(i, at) - 0.6) * 3.0;
            }
        }
        let before = vectors.clone();
        let triangle = orthogonalise(lanes, &mut vectors, 1.0).unwrap();
        let products = V::inner_products(lanes, &vectors, &vectors);
        for (i, row) in products.iter().enumerate().take(V::NUMBER) {
            for (j, product) in row.each().iter().enumerate() {
                let expected = f64::from(u8::from(i == j));
                assert!((product - expected).abs() < 1e-14, "{i} {j} {product}");
            }
        }
        for (before, after) in before.iter().zip(&vectors) {
            let mut sum = V::default();
            for (x, row) in after.each().iter().zip(&triangle) {
                sum.add_times(lanes, *x, row);
            }
            for (x, y) in before.each().iter().zip(sum.each()) {
                assert!((x - y).abs() < 1e-14);
            }
        }
        // Short parts that add up over the vectors.
        let mut triangle = Square::<V>::default();
        for (i, row) in triangle.iter_mut().enumerate().take(V::NUMBER) {
            for (j, x) in row.each_mut().iter_mut().enumerate().skip(i) {
                *x = if i == j { 1.2e-3 } else { 0.35 };
            }
        }
        let mut dependent = vectors.clone();
        multiply(lanes, &mut dependent, &triangle);
        assert!(orthogonalise(lanes, &mut dependent, 1.0).is_none());
        // One that is short, one that is the sum of others, and one that is 0.
        for kind in 0..3 {
            let mut vectors = before.clone();
            for components in &mut vectors {
                let components = components.each_mut();
                components[2] = match kind {
                    0 => components[2] * 1e-4,
                    1 => components[0] + components[1],
                    _ => 0.0,
                };
            }
            let unchanged = vectors.clone();
            assert!(orthogonalise(lanes, &mut vectors, 1.0).is_none(), "{kind}");
            let same = |(a, b): (&V, &V)| a.each() == b.each();
            assert!(vectors.iter().zip(&unchanged).all(same));
        }
    }
}
