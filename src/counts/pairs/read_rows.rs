//! [`ReadRows`]: rows as [`Relationship`](super::Relationship) adds them: their sums over single individuals, and what their sums over pairs
//! are made of.

use std::ops::Range;

use crate::counts::CountError;
use crate::counts::gathered::PlanesRow;

use super::dosages::Dosages;
use super::matrix::{Shape, zeros};
use super::rare::{Rare, RareByUnit};
use super::weights::{Forms, Terms};

/// The most rows that are multiplied at a time.
const BLOCK: usize = 256;
/// Terms are added pair by pair if less than this part of individuals have terms.
const SPARSE: usize = 8;
/// Sums of doubles that are whole numbers are exact up to 2⁵³.
const EXACT: i64 = 1 << 53;
/// Rows with a larger term are added pair by pair, too.
const LARGEST: i64 = EXACT >> 6;

/// The terms of a row in each sum.
pub(super) type RowTerms = [Terms; 6];

/// Some rows. `S` is [`Sparse`] once all are read.
#[derive(Debug)]
pub(super) struct ReadRows<S = Sparse> {
    /// Rows that are summed.
    pub(super) rows: u64,
    /// The total of each sum.
    pub(super) totals: Vec<i128>,
    /// For each sum, the terms of each individual.
    pub(super) singles: Vec<Vec<i128>>,
    /// Rows whose terms of pairs are added one by one: those without incomplete individuals, and with such.
    pub(super) sparse: [S; 2],
    /// Rows whose terms of pairs are multiplied, likewise.
    pub(super) dense: [Dense; 2],
}

/// Rows whose terms of pairs are added one by one.
#[derive(Debug)]
pub(super) struct Sparse {
    /// The individuals with terms.
    pub(super) rows: RareByUnit,
    /// The terms of each row.
    pub(super) terms: Vec<RowTerms>,
}

/// The same while rows are read.
#[derive(Debug, Default)]
struct SparseRows {
    rows: Rare,
    terms: Vec<RowTerms>,
}

/// Rows that are to be multiplied: values of all individuals, and terms.
#[derive(Debug, Default)]
pub(super) struct Dense {
    values: Vec<u8>,
    terms: Vec<RowTerms>,
    /// The largest term of each row.
    largest: Vec<i64>,
}

/// Rows of which every sum over pairs is exact.
#[derive(Clone, Copy, Debug)]
pub(super) struct DenseBlock<'a> {
    /// The values of all individuals of the first row, of the next one, ….
    pub(super) values: &'a [u8],
    /// The terms of each row.
    pub(super) terms: &'a [RowTerms],
    /// Whether no individual is incomplete.
    pub(super) complete: bool,
}

impl Dense {
    fn push(&mut self, values: &[u8], terms: RowTerms, largest: i64) {
        self.values.extend_from_slice(values);
        self.terms.push(terms);
        self.largest.push(largest);
    }

    /// Adds the rows of another.
    pub(super) fn append(&mut self, mut other: Self) {
        self.values.append(&mut other.values);
        self.terms.append(&mut other.terms);
        self.largest.append(&mut other.largest);
    }

    /// The blocks of rows, of so many individuals, whose sums are exact.
    pub(super) fn blocks(&self, samples: usize, complete: bool) -> Vec<DenseBlock<'_>> {
        let (mut blocks, mut start, mut sum) = (vec![], 0, 0);
        let mut end_at = |rows: Range<usize>| {
            if !rows.is_empty() {
                let values = rows.start * samples..rows.end * samples;
                blocks.push(DenseBlock {
                    values: self.values.get(values).unwrap_or_default(),
                    terms: self.terms.get(rows).unwrap_or_default(),
                    complete,
                });
            }
        };
        for (row, largest) in self.largest.iter().enumerate() {
            if row - start == BLOCK || sum + largest > EXACT {
                end_at(start..row);
                (start, sum) = (row, 0);
            }
            sum += largest;
        }
        end_at(start..self.terms.len());
        blocks
    }
}

impl ReadRows {
    /// Reads rows of a population.
    pub(super) fn try_new(
        rows: &[PlanesRow<'_>],
        shape: Shape,
        forms: Forms,
    ) -> Result<Self, CountError> {
        let single = || zeros(shape.samples, shape.samples);
        let singles: Result<_, CountError> = (0..forms.count()).map(|_| single()).collect();
        let mut read = ReadRows {
            rows: 0,
            totals: vec![0; forms.count()],
            singles: singles?,
            sparse: [SparseRows::default(), SparseRows::default()],
            dense: Default::default(),
        };
        let mut dosages = Dosages::default();
        for row in rows {
            dosages.read(*row, shape);
            let used = match forms {
                Forms::Covariance => dosages.complete > 0,
                _ => dosages.is_segregating(),
            };
            if used {
                read.rows += 1;
                read.add(&mut dosages, shape.samples, forms);
            }
        }
        let by_unit = |sparse: SparseRows| {
            Ok::<_, CountError>(Sparse {
                rows: sparse.rows.by_unit(shape.samples)?,
                terms: sparse.terms,
            })
        };
        let [complete, incomplete] = read.sparse;
        Ok(ReadRows {
            rows: read.rows,
            totals: read.totals,
            singles: read.singles,
            sparse: [by_unit(complete)?, by_unit(incomplete)?],
            dense: read.dense,
        })
    }
}

impl ReadRows<SparseRows> {
    fn add(&mut self, dosages: &mut Dosages, samples: usize, forms: Forms) {
        if forms.flips() && dosages.total > dosages.complete {
            dosages.flip();
        }
        let terms = forms.terms(dosages.complete, dosages.total);
        let sums = self.totals.iter_mut().zip(&mut self.singles);
        for ((total, single), terms) in sums.zip(&terms) {
            *total += i128::from(terms.total);
            if terms.single == [0; 4] {
                continue;
            }
            for &sample in &dosages.marked {
                let value = dosages.values[sample as usize];
                single[sample as usize] += i128::from(terms.single[usize::from(value) % 4]);
            }
        }
        let complete = dosages.complete == samples as u64;
        let largest = terms[..self.totals.len()]
            .iter()
            .map(|terms| terms.largest(complete));
        let largest = largest.max().unwrap_or(0);
        if dosages.marked.len() <= samples / SPARSE || largest > LARGEST {
            let marked = dosages.marked.iter();
            let carriers = marked.map(|sample| (*sample, dosages.values[*sample as usize]));
            let sparse = &mut self.sparse[usize::from(!complete)];
            sparse.rows.push(carriers);
            sparse.terms.push(terms);
            return;
        }
        self.dense[usize::from(!complete)].push(&dosages.values, terms, largest);
    }
}
