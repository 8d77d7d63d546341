//! Vectors and symmetric matrices in lines of eight numbers, each a cache line, for [`eigen`](super::eigen): the loops of
//! [`tridiagonalise`](super::tridiagonalise) read five of them at once, and one that crosses cache lines takes twice as long.

use std::fmt::Debug;
use std::mem::take;
use std::ops::Range;

use crate::counts::{CountError, Lanes, Setter, Unset};

/// Numbers of a line.
pub(super) const LINE: usize = 8;

/// Some numbers that are next to each other.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
pub(crate) struct Line(pub(super) [f64; LINE]);

/// Half of a line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(32))]
pub(crate) struct HalfLine([f64; LINE / 2]);

/// Two halves, as the numbers of a line.
#[inline(always)]
fn both(halves: &[HalfLine; 2]) -> &[f64; LINE] {
    // SAFETY: a half is its numbers and has no padding, so two of them are as many numbers as a line, one after the other.
    unsafe { &*std::ptr::from_ref(halves).cast() }
}

/// The halves of these numbers.
#[inline(always)]
fn halves(line: &[f64; LINE]) -> [HalfLine; 2] {
    let [a, b, c, d, e, f, g, h] = *line;
    [HalfLine([a, b, c, d]), HalfLine([e, f, g, h])]
}

/// Each number of both halves, four times.
#[inline(always)]
fn each_of_halves<L: Lanes>(lanes: L, line: L::Doubles) -> [L::Doubles; LINE / 2] {
    [
        lanes.of_halves::<0>(line),
        lanes.of_halves::<1>(line),
        lanes.of_halves::<2>(line),
        lanes.of_halves::<3>(line),
    ]
}

/// A component of each of some vectors.
pub(crate) trait Vectors: Copy + Debug + Default {
    /// How many vectors.
    const NUMBER: usize;

    /// The component of each.
    fn each(&self) -> &[f64];

    /// The same, to change it.
    fn each_mut(&mut self) -> &mut [f64];

    /// self += factor · other
    fn add_times<L: Lanes>(&mut self, lanes: L, factor: f64, other: &Self);

    /// Takes from the vectors what these are in terms of those of `block`: row `i` of `overlaps` has the factors of vector `i` of the block.
    fn subtract<L: Lanes>(lanes: L, vectors: &mut [Self], block: &[Self], overlaps: &[Self; LINE]);

    /// The products of each vector of one block with each of the other: row `i` has those of vector `i` of the first.
    fn inner_products<L: Lanes>(lanes: L, block: &[Self], others: &[Self]) -> [Self; LINE];
}

impl Vectors for Line {
    const NUMBER: usize = LINE;

    #[inline(always)]
    fn each(&self) -> &[f64] {
        &self.0
    }

    #[inline(always)]
    fn each_mut(&mut self) -> &mut [f64] {
        &mut self.0
    }

    #[inline(always)]
    fn add_times<L: Lanes>(&mut self, lanes: L, factor: f64, other: &Self) {
        let factor = lanes.doubles(&[factor; LINE]);
        let sum = lanes.add_products(lanes.doubles(&self.0), factor, lanes.doubles(&other.0));
        self.0 = lanes.each(sum);
    }

    #[inline(always)]
    fn subtract<L: Lanes>(lanes: L, vectors: &mut [Self], block: &[Self], overlaps: &[Self; LINE]) {
        let overlaps = overlaps.map(|row| lanes.doubles(&row.0.map(|x| -x)));
        for (to, from) in vectors.iter_mut().zip(block) {
            let mut sum = lanes.doubles(&to.0);
            for (factor, overlaps) in from.0.iter().zip(overlaps) {
                sum = lanes.add_products(sum, lanes.doubles(&[*factor; LINE]), overlaps);
            }
            to.0 = lanes.each(sum);
        }
    }

    #[inline(always)]
    fn inner_products<L: Lanes>(lanes: L, block: &[Self], others: &[Self]) -> [Self; LINE] {
        let mut sums = [lanes.doubles(&[0.0; LINE]); LINE];
        for (a, b) in block.iter().zip(others) {
            let b = lanes.doubles(&b.0);
            for (sum, x) in sums.iter_mut().zip(&a.0) {
                *sum = lanes.add_products(*sum, lanes.doubles(&[*x; LINE]), b);
            }
        }
        sums.map(|sum| Self(lanes.each(sum)))
    }
}

/// Loops over four numbers are the vector instructions of the level that they are compiled for.
impl Vectors for HalfLine {
    const NUMBER: usize = LINE / 2;

    #[inline(always)]
    fn each(&self) -> &[f64] {
        &self.0
    }

    #[inline(always)]
    fn each_mut(&mut self) -> &mut [f64] {
        &mut self.0
    }

    #[inline(always)]
    fn add_times<L: Lanes>(&mut self, _lanes: L, factor: f64, other: &Self) {
        for (to, from) in self.0.iter_mut().zip(other.0) {
            *to = factor.mul_add(from, *to);
        }
    }

    #[inline(always)]
    fn subtract<L: Lanes>(lanes: L, vectors: &mut [Self], block: &[Self], overlaps: &[Self; LINE]) {
        let mut factors = [lanes.doubles(&[0.0; LINE]); LINE / 2];
        for (to, row) in factors.iter_mut().zip(overlaps) {
            let row = Self(row.0.map(|x| -x));
            *to = lanes.doubles(both(&[row; 2]));
        }
        let (pairs, rest) = vectors.as_chunks_mut();
        let (of_block, rest_of_block) = block.as_chunks();
        for (to, from) in pairs.iter_mut().zip(of_block) {
            *to = plus_products(lanes, to, from, &factors);
        }
        for (to, from) in rest.iter_mut().zip(rest_of_block) {
            [*to, _] = plus_products(lanes, &[*to; 2], &[*from; 2], &factors);
        }
    }

    #[inline(always)]
    fn inner_products<L: Lanes>(lanes: L, block: &[Self], others: &[Self]) -> [Self; LINE] {
        let mut sums = [lanes.doubles(&[0.0; LINE]); LINE / 2];
        let (of_block, rest_of_block) = block.as_chunks();
        let (of_others, rest_of_others) = others.as_chunks();
        for (a, b) in of_block.iter().zip(of_others) {
            add_inner_products(lanes, a, b, &mut sums);
        }
        for (a, b) in rest_of_block.iter().zip(rest_of_others) {
            let (a, b) = ([*a, Self::default()], [*b, Self::default()]);
            add_inner_products(lanes, &a, &b, &mut sums);
        }
        let mut products = [Self::default(); LINE];
        for (product, sum) in products.iter_mut().zip(sums) {
            // Of the even rows, and of the odd ones.
            let [even, odd] = halves(&lanes.each(sum));
            *product = even;
            product.add_times(lanes, 1.0, &odd);
        }
        products
    }
}

/// Two halves with the numbers of `from`, each times one of the factors, added.
#[inline(always)]
fn plus_products<L: Lanes>(
    lanes: L,
    to: &[HalfLine; 2],
    from: &[HalfLine; 2],
    factors: &[L::Doubles; LINE / 2],
) -> [HalfLine; 2] {
    let mut sum = lanes.doubles(both(to));
    let from = each_of_halves(lanes, lanes.doubles(both(from)));
    for (from, factors) in from.into_iter().zip(factors) {
        sum = lanes.add_products(sum, from, *factors);
    }
    halves(&lanes.each(sum))
}

/// Adds the products of each number of `a` with the half of `b` that is beside it.
#[inline(always)]
fn add_inner_products<L: Lanes>(
    lanes: L,
    a: &[HalfLine; 2],
    b: &[HalfLine; 2],
    sums: &mut [L::Doubles; LINE / 2],
) {
    let a = each_of_halves(lanes, lanes.doubles(both(a)));
    let b = lanes.doubles(both(b));
    for (sum, x) in sums.iter_mut().zip(a) {
        *sum = lanes.add_products(*sum, x, b);
    }
}

/// Lines of so many numbers.
pub(super) fn lines_of(n: usize) -> usize {
    n.div_ceil(LINE)
}

/// A number of a vector.
#[inline(always)]
pub(super) fn at(vector: &[Line], at: usize) -> f64 {
    vector[at / LINE].0[at % LINE]
}

/// The same, to change it.
#[inline(always)]
pub(super) fn at_mut(vector: &mut [Line], at: usize) -> &mut f64 {
    &mut vector[at / LINE].0[at % LINE]
}

/// Σ a b in eight partial sums.
#[inline(always)]
pub(super) fn dot<L: Lanes>(lanes: L, a: &[Line], b: &[Line]) -> f64 {
    let mut sums = lanes.doubles(&[0.0; LINE]);
    for (a, b) in a.iter().zip(b) {
        sums = lanes.add_products(sums, lanes.doubles(&a.0), lanes.doubles(&b.0));
    }
    total(lanes, sums)
}

/// The sum of partial sums.
#[inline(always)]
pub(super) fn total<L: Lanes>(lanes: L, sums: L::Doubles) -> f64 {
    let mut total = 0.0;
    for sum in lanes.each(sums) {
        total += sum;
    }
    total
}

/// to += factor · from
#[inline(always)]
pub(super) fn add_times<L: Lanes>(lanes: L, to: &mut [Line], factor: f64, from: &[Line]) {
    let factors = lanes.doubles(&[factor; LINE]);
    for (to, from) in to.iter_mut().zip(from) {
        let sum = lanes.add_products(lanes.doubles(&to.0), factors, lanes.doubles(&from.0));
        to.0 = lanes.each(sum);
    }
}

/// A symmetric matrix of `n` rows, of which each has the elements up to the diagonal, and zeros to the end of the line.
#[derive(Clone, Debug)]
pub(crate) struct LowerTriangle {
    n: usize,
    lines: Vec<Line>,
}

/// Sets rows of a [`LowerTriangle`] that are next to each other.
pub(crate) struct RowsSetter<'a> {
    rows: Range<usize>,
    setters: Vec<Setter<'a, Line>>,
}

impl RowsSetter<'_> {
    /// Sets all elements to what `of` gives for a row and a column. Of each row it is asked for some columns at a time, one row after the
    /// other.
    pub(crate) fn set(mut self, of: impl Fn(usize, usize) -> f64) {
        for line in 0..lines_of(self.rows.end) {
            for (i, setter) in self.rows.clone().zip(&mut self.setters) {
                let columns = line * LINE..(i + 1).min((line + 1) * LINE);
                if !columns.is_empty() {
                    let mut numbers = Line::default();
                    for (number, j) in numbers.0.iter_mut().zip(columns) {
                        *number = of(i, j);
                    }
                    setter.push(numbers);
                }
            }
        }
    }
}

impl LowerTriangle {
    /// The matrix of `n` rows that `fill` sets, with setters of `rows` rows each.
    ///
    /// # Errors
    /// [`CountError::TooLarge`] if there is too little memory; those of `fill`.
    pub(crate) fn try_new(
        n: usize,
        rows: usize,
        fill: impl FnOnce(Vec<RowsSetter<'_>>) -> Result<(), CountError>,
    ) -> Result<Self, CountError> {
        let lens = || (1..=n).map(lines_of);
        let len = lens().fold(0, usize::saturating_add);
        let mut lines = Unset::try_new(len, "lines of a matrix")?;
        let mut of_rows = lines.setters(lens()).into_iter();
        let parts = (0..n).step_by(rows.max(1)).map(|first| {
            let rows = first..n.min(first.saturating_add(rows.max(1)));
            let setters = of_rows.by_ref().take(rows.len()).collect();
            RowsSetter { rows, setters }
        });
        let parts = parts.collect();
        drop(of_rows);
        fill(parts)?;
        let lines = lines.finish();
        Ok(Self { n, lines })
    }

    /// The number of rows.
    pub(super) fn n(&self) -> usize {
        self.n
    }

    /// All elements.
    pub(super) fn lines_mut(&mut self) -> &mut [Line] {
        &mut self.lines
    }

    /// The rows.
    pub(super) fn rows_mut(&mut self) -> impl Iterator<Item = &mut [Line]> {
        let mut rest = self.lines.as_mut_slice();
        (1..=self.n).map(move |len| {
            let row = take(&mut rest).split_at_mut_checked(lines_of(len));
            let (row, others) = row.unwrap_or_default();
            rest = others;
            row
        })
    }

    /// Σ of the diagonal.
    pub(crate) fn trace(&self) -> f64 {
        let mut begin = 0;
        let elements = (0..self.n).map(|i| {
            let element = at(self.lines.get(begin..).unwrap_or_default(), i);
            begin += lines_of(i + 1);
            element
        });
        elements.sum()
    }
}
