//! [`Relationship`]: the sums over rows behind `grm` and `pca`, for every pair of individuals i ≤ j.
//!
//! The terms of pairs are 0 for all but the carriers of the rarer allele and the incomplete individuals of a row. If these are few they
//! are added one by one; other rows are collected and multiplied as matrices of doubles ([`gemm`](super::gemm)), which is exact.

use crate::counts::{CountError, Level};

use super::dosages::Dosages;
use super::gemm::{Operands, for_each_sum};
use super::matrix::{
    PairMatrix, Saved, Shape, Words, add_all, more_rows, save_optional, too_large, zeros,
};
use super::site_rows::RowsPart;
use super::triangle::{diagonal_base, pairs_of};
use super::weights::{FRACTION_BITS, Forms, GCTA_BITS, Terms, covariance, grm};

/// Rows that are multiplied at a time.
const ROWS: usize = 256;
/// Rows are added pair by pair if less than this part of individuals have terms.
const SPARSE: usize = 6;
/// Sums of doubles that are whole numbers are exact up to 2⁵³.
const EXACT: i64 = 1 << 53;
/// Rows with a larger term are added pair by pair, too.
const LARGEST: i64 = EXACT >> 6;

/// The sums of a population.
#[derive(Clone, Debug)]
pub(crate) struct Relationship {
    shape: Shape,
    forms: Forms,
    /// Rows that are summed.
    rows: u64,
    sums: Vec<Sum>,
}

/// One of the sums; its value for individuals i and j is total − single[i] − single[j] + pairs[i, j].
#[derive(Clone, Debug, Default)]
struct Sum {
    total: i128,
    single: Vec<i128>,
    /// Empty if all are 0.
    pairs: Vec<i128>,
}

/// Rows that are to be multiplied: values of all individuals, and terms.
#[derive(Debug, Default)]
struct Dense {
    values: Vec<u8>,
    terms: Vec<[Terms; 6]>,
    /// Σ of the largest terms.
    largest: i64,
}

fn with_diagonal(samples: usize) -> usize {
    pairs_of(samples).saturating_add(samples)
}

/// GCTA's and VanRaden's relationship of a pair, and their number of rows.
pub(crate) struct GrmPair {
    pub(crate) gcta: f64,
    pub(crate) vanraden: f64,
    pub(crate) sites: i64,
}

impl Relationship {
    /// Rows that were summed: those with both alleles among complete diploids; for the covariance all with a complete diploid.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// The sum `at` of a pair i ≤ j.
    fn sum(&self, at: usize, i: usize, j: usize) -> i128 {
        let Some(sum) = self.sums.get(at) else {
            return 0;
        };
        let single = |sample: usize| sum.single.get(sample).copied().unwrap_or(0);
        sum.total - single(i) - single(j) + self.pair_term(at, i, j)
    }

    fn pair_term(&self, at: usize, i: usize, j: usize) -> i128 {
        let index = diagonal_base(self.shape.samples, i) + j;
        let pairs = self.sums.get(at).map(|sum| &sum.pairs);
        pairs
            .and_then(|pairs| pairs.get(index))
            .copied()
            .unwrap_or(0)
    }

    fn single(&self, at: usize, sample: usize) -> i128 {
        let of = self.sums.get(at).and_then(|sum| sum.single.get(sample));
        of.copied().unwrap_or(0)
    }

    /// A pair of `grm`, i ≤ j; `None` if no row has both as complete diploids.
    pub(crate) fn grm(&self, i: usize, j: usize) -> Option<GrmPair> {
        let sites = self.sum(grm::SITES, i, j);
        let variance = self.sum(grm::VARIANCE, i, j);
        if sites <= 0 || variance <= 0 {
            return None;
        }
        let products = self.sum(grm::PRODUCTS, i, j) << FRACTION_BITS;
        let centred = products + self.sum(grm::CENTRE, i, j);
        Some(GrmPair {
            gcta: scaled(self.sum(grm::GCTA, i, j), GCTA_BITS) / sites as f64,
            vanraden: centred as f64 / variance as f64,
            sites: sites as i64,
        })
    }

    /// Σ (x − 2p)(x′ − 2p) / (2p(1 − p)) over rows with both as complete diploids, by the number of all rows that are summed.
    pub(crate) fn gcta_over_rows(&self, i: usize, j: usize) -> f64 {
        scaled(self.sum(grm::GCTA, i, j), GCTA_BITS) / self.rows as f64
    }

    /// The covariance of a pair i ≤ j over the rows with both as complete diploids; `None` if they are fewer than two.
    pub(crate) fn covariance(&self, i: usize, j: usize) -> Option<f64> {
        let rows = self.sum(covariance::SITES, i, j);
        if rows < 2 {
            return None;
        }
        let products = self.sum(covariance::PRODUCTS, i, j) << FRACTION_BITS;
        let products = products + self.sum(covariance::CENTRE, i, j);
        let total = self.sums.get(covariance::SINGLE).map_or(0, |sum| sum.total);
        // Of all rows with the individual, less those without the other.
        let mean = |at: usize, sample: usize, other: usize| {
            let all = self.single(covariance::SINGLE, sample) - total;
            all - (self.pair_term(at, i, j) - self.single(at, other))
        };
        let first = scaled(mean(covariance::FIRST, i, j), FRACTION_BITS);
        let second = scaled(mean(covariance::SECOND, j, i), FRACTION_BITS);
        let rows = rows as f64;
        let centred = scaled(products, FRACTION_BITS) - first * second / rows;
        Some(centred / (rows - 1.0))
    }

    fn add(
        &mut self,
        dosages: &mut Dosages,
        dense: &mut [Dense; 2],
        level: Level,
    ) -> Result<(), CountError> {
        if self.forms.flips() && dosages.total > dosages.complete {
            dosages.flip();
        }
        let samples = self.shape.samples;
        let terms = self.forms.terms(dosages.complete, dosages.total);
        for (sum, terms) in self.sums.iter_mut().zip(&terms) {
            sum.total += i128::from(terms.total);
            if terms.single == [0; 4] {
                continue;
            }
            for &sample in &dosages.marked {
                let value = dosages.values[sample as usize];
                sum.single[sample as usize] += i128::from(terms.single[usize::from(value)]);
            }
        }
        let is_complete = dosages.complete == samples as u64;
        let count = self.sums.len();
        let largest = terms[..count]
            .iter()
            .map(|terms| terms.largest(is_complete));
        let largest = largest.max().unwrap_or(0);
        if dosages.marked.len() <= samples / SPARSE || largest > LARGEST {
            for (sum, terms) in self.sums.iter_mut().zip(&terms) {
                if terms.has_pairs(is_complete) {
                    sum.reserve(samples)?;
                    sum.add_sparse(dosages, terms, samples);
                }
            }
            return Ok(());
        }
        let [complete, incomplete] = dense;
        let block = if is_complete { complete } else { incomplete };
        if block.largest + largest > EXACT {
            self.multiply(block, is_complete, level)?;
        }
        block.values.extend_from_slice(&dosages.values);
        block.terms.push(terms);
        block.largest += largest;
        if block.terms.len() == ROWS {
            self.multiply(block, is_complete, level)?;
        }
        Ok(())
    }

    /// Adds the terms of pairs of collected rows.
    fn multiply(
        &mut self,
        block: &mut Dense,
        complete: bool,
        level: Level,
    ) -> Result<(), CountError> {
        let samples = self.shape.samples;
        let rows = block.terms.len();
        debug_assert!(block.largest <= EXACT);
        // Columns for x′ of each row, and if there are incomplete individuals those for u′.
        let columns = if complete { rows } else { 2 * rows };
        let mut operands = Operands::default();
        operands.second.reset(samples, columns);
        let rows_of = || block.values.chunks_exact(samples.max(1)).enumerate();
        for (row, values) in rows_of() {
            let dosages = values.iter().map(|&value| f64::from(value % 3));
            operands.second.set(row, dosages);
            if !complete {
                let incomplete = values.iter().map(|&value| f64::from(value / 3));
                operands.second.set(rows + row, incomplete);
            }
        }
        for (at, sum) in self.sums.iter_mut().enumerate() {
            if !block
                .terms
                .iter()
                .any(|terms| terms[at].has_pairs(complete))
            {
                continue;
            }
            operands.first.reset(samples, columns);
            for (row, values) in rows_of() {
                let by_value: Vec<[i64; 2]> = (0..4)
                    .map(|value| block.terms[row][at].first(value))
                    .collect();
                let factor = |part: usize| {
                    let by_value = &by_value;
                    let of = move |value: &u8| by_value[usize::from(*value)][part] as f64;
                    values.iter().map(of)
                };
                operands.first.set(row, factor(0));
                if !complete {
                    operands.first.set(rows + row, factor(1));
                }
            }
            sum.reserve(samples)?;
            let pairs = &mut sum.pairs;
            for_each_sum(&operands, samples, level, |i, j, products| {
                // A whole number below 2^53.
                pairs[diagonal_base(samples, i) + j] += i128::from(products as i64);
            });
        }
        block.values.clear();
        block.terms.clear();
        block.largest = 0;
        Ok(())
    }
}

/// A fixed-point number as the nearest double.
fn scaled(number: i128, bits: u32) -> f64 {
    number as f64 / (1u64 << bits) as f64
}

impl Sum {
    fn reserve(&mut self, samples: usize) -> Result<(), CountError> {
        if self.pairs.is_empty() {
            self.pairs = zeros(with_diagonal(samples), samples)?;
        }
        Ok(())
    }

    fn add_sparse(&mut self, dosages: &Dosages, terms: &Terms, samples: usize) {
        let by_values = terms.of_values();
        for (at, &first) in dosages.marked.iter().enumerate() {
            let first = first as usize;
            let terms = by_values[usize::from(dosages.values[first])];
            let from = diagonal_base(samples, first);
            let pairs = &mut self.pairs[from..from + samples];
            for &second in &dosages.marked[at..] {
                let value = dosages.values[second as usize];
                pairs[second as usize] += i128::from(terms[usize::from(value) % 4]);
            }
        }
    }
}

impl PairMatrix for Relationship {
    const KIND: u32 = 3;
    type Options = Forms;

    fn try_new(shape: Shape, forms: Forms) -> Result<Self, CountError> {
        if with_diagonal(shape.samples).checked_mul(16).is_none() {
            return Err(too_large("sums", shape.samples));
        }
        let sum = || {
            Ok(Sum {
                total: 0,
                single: zeros(shape.samples, shape.samples)?,
                pairs: vec![],
            })
        };
        Ok(Self {
            shape,
            forms,
            rows: 0,
            sums: (0..forms.count())
                .map(|_| sum())
                .collect::<Result<_, CountError>>()?,
        })
    }

    fn fold(&mut self, rows: RowsPart<'_>, level: Level) -> Result<(), CountError> {
        let mut dosages = Dosages::default();
        let mut dense = [Dense::default(), Dense::default()];
        let mut summed = 0;
        for row in rows.iter(self.shape.copies()) {
            dosages.read(row, self.shape);
            let used = match self.forms {
                Forms::Covariance => dosages.complete > 0,
                _ => dosages.is_segregating(),
            };
            if used {
                summed += 1;
                self.add(&mut dosages, &mut dense, level)?;
            }
        }
        self.rows = more_rows(self.rows, summed)?;
        for (at, block) in dense.iter_mut().enumerate() {
            if !block.terms.is_empty() {
                self.multiply(block, at == 0, level)?;
            }
        }
        Ok(())
    }

    fn merge(&mut self, other: &Self) -> Result<(), CountError> {
        self.rows = more_rows(self.rows, other.rows)?;
        for (to, from) in self.sums.iter_mut().zip(&other.sums) {
            to.total += from.total;
            add_all(&mut to.single, &from.single);
            add_all(&mut to.pairs, &from.pairs);
        }
        Ok(())
    }

    fn save(&self, out: &mut Vec<u64>) {
        out.push(self.rows);
        for sum in &self.sums {
            i128::save(&[sum.total], out);
            save_optional(&sum.single, out);
            save_optional(&sum.pairs, out);
        }
    }

    fn load(shape: Shape, forms: Forms, words: &mut Words<'_>) -> Option<Self> {
        let rows = words.next()?;
        let sum = |words: &mut Words<'_>| {
            let sum = Sum {
                total: words.numbers(1)?.first().copied()?,
                single: words.optional(shape.samples)?,
                pairs: words.optional(with_diagonal(shape.samples))?,
            };
            (sum.single.len() == shape.samples).then_some(sum)
        };
        let sums = (0..forms.count()).map(|_| sum(words));
        Some(Self {
            shape,
            forms,
            rows,
            sums: sums.collect::<Option<_>>()?,
        })
    }

    fn heap_bytes(&self) -> usize {
        let numbers = |sum: &Sum| sum.single.capacity() + sum.pairs.capacity();
        self.sums.iter().map(numbers).sum::<usize>() * size_of::<i128>()
    }

    fn bytes_of(shape: Shape, forms: Forms) -> usize {
        // Sums whose terms of pairs are not all 0 without missing calls.
        let dense = if forms == Forms::Grm { 2 } else { 1 };
        with_diagonal(shape.samples).saturating_mul(dense * size_of::<i128>())
    }
}
