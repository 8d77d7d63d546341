//! [`Relationship`]: the sums over rows behind `grm` and `pca`, for every pair of individuals i ≤ j.
//!
//! The terms of pairs are 0 for all but the carriers of the rarer allele and the incomplete individuals of a row. If these are few they
//! are added one by one; other rows are collected and multiplied as matrices of doubles ([`gemm`](super::gemm)), which is exact.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::counts::gathered::PlanesRow;
use crate::counts::{CountError, Level, ResidentPart, Workers};

use super::gemm::{FIRST, SECOND, Seconds, for_each_sum};
use super::matrix::{
    PairMatrix, Saved, Shape, Words, add_all, more_rows, save_optional, too_large, zeros,
};
use super::on_device::OnDevice;
use super::rare::RareByUnit;
use super::read_rows::{Dense, DenseBlock, ReadRows, RowTerms};
use super::triangle::{Divided, Part, diagonal_base, pairs_of};
use super::weights::{FRACTION_BITS, Forms, GCTA_BITS, covariance, grm, scaled};

/// Bytes of doubles that are multiplied at a time, about.
const BATCH: usize = 1 << 25;
/// The fewest and the most rows of a batch.
const BATCH_ROWS: (usize, usize) = (256, 1 << 11);

/// The sums of a population.
#[derive(Clone, Debug)]
pub(crate) struct Relationship {
    pub(super) shape: Shape,
    pub(super) forms: Forms,
    /// Rows that are summed.
    pub(super) rows: u64,
    pub(super) sums: Vec<Sum>,
}

/// One of the sums; its value for individuals i and j is total − single[i] − single[j] + pairs[i, j].
#[derive(Clone, Debug, Default)]
pub(super) struct Sum {
    pub(super) total: i128,
    pub(super) single: Vec<i128>,
    /// Empty if all are 0.
    pub(super) pairs: Vec<i128>,
}

fn with_diagonal(samples: usize) -> usize {
    pairs_of(samples).saturating_add(samples)
}

/// One of the sums of a [`Relationship`] for an individual i and each j from it on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SumRow<'a> {
    /// total − single[i].
    all_but_second: i128,
    /// From individual i on.
    single: &'a [i128],
    /// From the pair of i with itself on; empty if all are 0.
    pairs: &'a [i128],
}

impl SumRow<'_> {
    /// That of individuals i and i + `at`.
    #[inline]
    pub(super) fn value(&self, at: usize) -> i128 {
        let number = |numbers: &[i128]| numbers.get(at).copied().unwrap_or(0);
        self.all_but_second - number(self.single) + number(self.pairs)
    }
}

impl Relationship {
    /// Rows that were summed: those with both alleles among complete diploids; for the covariance all with a complete diploid.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// The sum `at` of an individual and each from it on.
    pub(super) fn sum_row(&self, at: usize, i: usize) -> SumRow<'_> {
        let Some(sum) = self.sums.get(at) else {
            return SumRow::default();
        };
        let first = diagonal_base(self.shape.samples, i) + i;
        let end = first + self.shape.samples.saturating_sub(i);
        SumRow {
            all_but_second: sum.total - sum.single.get(i).copied().unwrap_or(0),
            single: sum.single.get(i..).unwrap_or_default(),
            pairs: sum.pairs.get(first..end).unwrap_or_default(),
        }
    }

    /// The sum `at` of a pair i ≤ j.
    fn sum(&self, at: usize, i: usize, j: usize) -> i128 {
        self.sum_row(at, i).value(j - i)
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

    /// Adds rows that were read. `scratch` is memory that is used again for the next ones.
    fn add(
        &mut self,
        mut read: Vec<ReadRows>,
        scratch: &mut Vec<Seconds>,
        (level, workers): (Level, &Workers<'_>),
    ) -> Result<(), CountError> {
        let samples = self.shape.samples;
        let mut all_dense = <[Dense; 2]>::default();
        for rows in &mut read {
            self.rows = more_rows(self.rows, rows.rows)?;
            let of_rows = rows.totals.iter().zip(&rows.singles);
            for (sum, (total, single)) in self.sums.iter_mut().zip(of_rows) {
                sum.total += total;
                add_all(&mut sum.single, single);
            }
            // Few blocks of many rows are faster than a few rows of each thread.
            for (all, dense) in all_dense.iter_mut().zip(&mut rows.dense) {
                all.append(std::mem::take(dense));
            }
        }
        let blocks = all_dense.iter().zip([true, false]);
        let blocks = blocks.flat_map(|(dense, complete)| dense.blocks(samples, complete));
        let blocks: Vec<_> = blocks.collect();
        self.read_seconds(&blocks, scratch, workers)?;
        let blocks: Vec<_> = blocks.iter().zip(scratch.iter()).collect();
        let (mut terms_of_sums, mut pairs_of_sums) = (vec![], vec![]);
        for (at, sum) in self.sums.iter_mut().enumerate() {
            let has_pairs = |terms: &[RowTerms], complete| {
                terms.iter().any(|terms| terms[at].has_pairs(complete))
            };
            let dense = blocks.iter().copied();
            let dense = dense.filter(|(block, _)| has_pairs(block.terms, block.complete));
            let dense: Vec<_> = dense.collect();
            let sparse = read
                .iter()
                .flat_map(|rows| rows.sparse.iter().zip([true, false]));
            let sparse = sparse.filter(|(rows, complete)| has_pairs(&rows.terms, *complete));
            let sparse = sparse.map(|(rows, _)| {
                let terms = rows.terms.iter().map(|of| of[at].of_values());
                (&rows.rows, terms.collect())
            });
            let sparse: Vec<(_, Vec<_>)> = sparse.collect();
            if dense.is_empty() && sparse.is_empty() {
                continue;
            }
            sum.reserve(samples)?;
            terms_of_sums.push((at, sparse, dense));
            pairs_of_sums.push(Divided::new(&mut sum.pairs));
        }
        let parts = Part::whole(samples, true).divide(FIRST, workers);
        let parts = parts.iter().map(|part| {
            let pairs = pairs_of_sums.iter_mut().map(|pairs| pairs.next(part));
            (part, pairs.collect::<Vec<_>>())
        });
        workers.each(parts, |(part, pairs)| {
            for ((at, sparse, dense), pairs) in terms_of_sums.iter().zip(pairs) {
                for (rows, terms) in sparse {
                    workers.check()?;
                    add_sparse(rows, terms, part, pairs);
                }
                for (block, seconds) in dense {
                    add_dense(**block, seconds, *at, part, (level, workers), pairs)?;
                }
            }
            Ok(())
        })
    }

    /// Sets the second factors of the terms of pairs of each block: x′ of each row, and if there are incomplete individuals then u′ of each row.
    fn read_seconds(
        &self,
        blocks: &[DenseBlock<'_>],
        seconds: &mut Vec<Seconds>,
        workers: &Workers<'_>,
    ) -> Result<(), CountError> {
        let samples = self.shape.samples;
        seconds.resize_with(blocks.len(), Seconds::default);
        for (block, seconds) in blocks.iter().zip(&mut *seconds) {
            let rows = block.terms.len();
            seconds.reset(samples, if block.complete { rows } else { 2 * rows })?;
        }
        let tiles = blocks.iter().zip(seconds).flat_map(|(block, seconds)| {
            let tiles = seconds.tiles();
            tiles.map(move |(units, columns)| (block, units, columns))
        });
        workers.each(tiles, |(block, units, columns)| {
            let rows = block.terms.len();
            if units.len() < SECOND {
                columns.fill([0.0; SECOND]);
            }
            for (row, values) in block.values.chunks_exact(samples).enumerate() {
                for (at, value) in values[units.clone()].iter().enumerate() {
                    columns[row][at] = f64::from(value % 3);
                    if !block.complete {
                        columns[rows + row][at] = f64::from(value / 3);
                    }
                }
            }
            Ok(())
        })
    }
}

/// Adds the terms of a part's pairs in sum `at`, by products.
fn add_dense(
    block: DenseBlock<'_>,
    seconds: &Seconds,
    at: usize,
    part: &Part,
    on: (Level, &Workers<'_>),
    pairs: &mut [i128],
) -> Result<(), CountError> {
    let rows = block.terms.len();
    let samples = block.values.len() / rows.max(1);
    let factors = block.terms.iter().map(|terms| {
        let mut factors = [[0.0; 2]; 4];
        for (value, factors) in factors.iter_mut().enumerate() {
            *factors = terms[at].first(value).map(|factor| factor as f64);
        }
        factors
    });
    let factors: Vec<_> = factors.collect();
    let fill = |units: std::ops::Range<usize>, columns: &mut [[f64; FIRST]]| {
        let of_rows = block.values.chunks_exact(samples).zip(&factors);
        for (row, (values, factors)) in of_rows.enumerate() {
            for (at, value) in values[units.clone()].iter().enumerate() {
                let [by_x, by_u] = factors[usize::from(*value) % 4];
                columns[row][at] = by_x;
                if !block.complete {
                    columns[rows + row][at] = by_u;
                }
            }
        }
    };
    for_each_sum(seconds, part, on, fill, |from, sums| {
        if let Some(pairs) = pairs.get_mut(from..from + sums.len()) {
            for (pair, sum) in pairs.iter_mut().zip(sums) {
                // A whole number below 2^53.
                *pair += i128::from(*sum as i64);
            }
        }
    })
}

/// The same one by one: `terms` are those of each row, by the values of both individuals.
fn add_sparse(rows: &RareByUnit, terms: &[[[i64; 4]; 4]], part: &Part, pairs: &mut [i128]) {
    rows.for_each_first(part, |row, carriers| {
        if let Some(&(first, value)) = carriers.first() {
            let terms = terms[row][usize::from(value) % 4];
            let from = part.at(first as usize, first as usize);
            for &(second, value) in carriers {
                let place = from + (second - first) as usize;
                pairs[place] += i128::from(terms[usize::from(value) % 4]);
            }
        }
    });
}

/// Before sums that are saved in a word each.
const IN_WORDS: u64 = 2;

/// As [`save_optional`], in a word each if they fit, as most do: states of half the size are saved and sent.
fn save_sums(sums: &[i128], out: &mut Vec<u64>, workers: &Workers<'_>) -> Result<(), CountError> {
    let begin = out.len();
    if !sums.is_empty() {
        let fit = AtomicBool::new(true);
        out.push(IN_WORDS);
        workers.extend(out, sums.len(), "words of saved counts", |at| {
            let sum = sums.get(at).copied().unwrap_or(0);
            if i64::try_from(sum).is_err() {
                fit.store(false, Ordering::Relaxed);
            }
            sum as u64
        })?;
        if fit.into_inner() {
            return Ok(());
        }
        out.truncate(begin);
    }
    save_optional(sums, out, workers)
}

/// What [`save_sums`] wrote of `len` sums.
fn load_sums(words: &mut Words<'_>, len: usize) -> Option<Vec<i128>> {
    if words.rest().first() != Some(&IN_WORDS) {
        return words.optional(len);
    }
    words.next()?;
    let saved = words.take(len)?;
    words.numbers_of(saved, len, |words, at| {
        let word = words.get(at).copied().unwrap_or(0);
        i128::from(word as i64)
    })
}

impl Sum {
    fn reserve(&mut self, samples: usize) -> Result<(), CountError> {
        if self.pairs.is_empty() {
            self.pairs = zeros(with_diagonal(samples), samples)?;
        }
        Ok(())
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

    fn fold(
        &mut self,
        rows: &[PlanesRow<'_>],
        level: Level,
        workers: &Workers<'_>,
    ) -> Result<(), CountError> {
        let (fewest, most) = BATCH_ROWS;
        let batch = BATCH / size_of::<f64>() / self.shape.samples.max(1);
        let mut scratch = vec![];
        for rows in rows.chunks(batch.clamp(fewest, most)) {
            let read =
                workers.parts_of(rows, |rows| ReadRows::try_new(rows, self.shape, self.forms))?;
            self.add(read, &mut scratch, (level, workers))?;
        }
        Ok(())
    }

    fn send(
        shape: Shape,
        forms: Forms,
        device: &OnDevice,
        rows: &[PlanesRow<'_>],
        workers: &Workers<'_>,
    ) -> Result<Vec<usize>, CountError> {
        Self::send_rows(shape, forms, device, rows, workers)
    }

    fn counts_resident(shape: Shape, forms: Forms, device: &OnDevice) -> Result<bool, CountError> {
        Self::opens(shape, forms, device)
    }

    fn send_resident(
        shape: Shape,
        forms: Forms,
        device: &OnDevice,
        parts: Vec<ResidentPart>,
        workers: &Workers<'_>,
    ) -> Result<(), CountError> {
        Self::send_resident_rows(shape, forms, device, parts, workers)
    }

    fn add_counted(&mut self, device: &OnDevice, workers: &Workers<'_>) -> Result<(), CountError> {
        self.add_sent(device, workers)
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

    fn save(&self, out: &mut Vec<u64>, workers: &Workers<'_>) -> Result<(), CountError> {
        out.push(self.rows);
        for sum in &self.sums {
            out.extend([0, 1].map(|at| i128::word(&[sum.total], at)));
            save_optional(&sum.single, out, workers)?;
            save_sums(&sum.pairs, out, workers)?;
        }
        Ok(())
    }

    fn load(shape: Shape, forms: Forms, words: &mut Words<'_>) -> Option<Self> {
        let rows = words.next()?;
        let sum = |words: &mut Words<'_>| {
            let sum = Sum {
                total: words.numbers(1)?.first().copied()?,
                single: words.optional(shape.samples)?,
                pairs: load_sums(words, with_diagonal(shape.samples))?,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_saved_in_few_words() {
        let most = i128::from(i64::MAX);
        for (sums, len) in [
            (vec![], 1),
            (vec![0, -5, most, -most - 1], 5),
            (vec![0, most + 1], 5),
            (vec![-most - 2, 1 << 100], 5),
        ] {
            let mut saved = vec![];
            let workers = Workers::new(2, &|| false);
            save_sums(&sums, &mut saved, &workers).unwrap();
            assert_eq!(saved.len(), len, "{sums:?}");
            let mut words = Words::new(&saved, &workers);
            assert_eq!(load_sums(&mut words, sums.len()), Some(sums.clone()));
            assert!(words.rest().is_empty());
            let mut cut = Words::new(&saved[..len - 1], &workers);
            assert_eq!(load_sums(&mut cut, sums.len()), None);
        }
    }
}
