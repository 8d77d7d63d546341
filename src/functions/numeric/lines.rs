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
#[repr(align(32))]
pub(crate) struct HalfLine([f64; LINE / 2]);

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

    /// self −= Σ factor · other
    fn subtract<L: Lanes>(&mut self, lanes: L, factors: &Self, others: &[Self; LINE]);

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
    fn subtract<L: Lanes>(&mut self, lanes: L, factors: &Self, others: &[Self; LINE]) {
        let mut sum = lanes.doubles(&self.0);
        for (factor, other) in factors.0.iter().zip(others) {
            let factor = lanes.doubles(&[-factor; LINE]);
            sum = lanes.add_products(sum, factor, lanes.doubles(&other.0));
        }
        self.0 = lanes.each(sum);
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
            *to += factor * from;
        }
    }

    #[inline(always)]
    fn subtract<L: Lanes>(&mut self, lanes: L, factors: &Self, others: &[Self; LINE]) {
        for (factor, other) in factors.0.iter().zip(others) {
            self.add_times(lanes, -factor, other);
        }
    }

    #[inline(always)]
    fn inner_products<L: Lanes>(lanes: L, block: &[Self], others: &[Self]) -> [Self; LINE] {
        let mut products = [Self::default(); LINE];
        for (a, b) in block.iter().zip(others) {
            for (sum, x) in products.iter_mut().zip(a.0) {
                sum.add_times(lanes, x, b);
            }
        }
        products
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
