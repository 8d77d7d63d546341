//! The columns that save [`Sums`]: one for each sum of terms, as Decimal128(38, 0), and then one for each count.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Int64Array};
use arrow::datatypes::{DataType, Decimal128Type, Int64Type};
use datafusion::common::{Result, internal_err};

use super::statistic::column;
use super::sums::Sums;
use crate::functions::numeric::FixedSum;

/// Names and types of the columns of `terms` sums and `counts` counts.
pub(super) fn state_columns(terms: usize, counts: usize) -> Vec<(String, DataType)> {
    let terms = (0..terms).map(|i| (format!("sum{i}"), DataType::Decimal128(38, 0)));
    let counts = (0..counts).map(|i| (format!("count{i}"), DataType::Int64));
    terms.chain(counts).collect()
}

/// Columns that hold the saved states: the sums of terms, then the counts.
pub(super) fn columns<const F: usize, const C: usize>(
    states: impl ExactSizeIterator<Item = Sums<F, C>>,
) -> Result<Vec<ArrayRef>> {
    let mut terms: [Vec<i128>; F] = std::array::from_fn(|_| Vec::with_capacity(states.len()));
    let mut counts: [Vec<i64>; C] = std::array::from_fn(|_| Vec::with_capacity(states.len()));
    for state in states {
        terms
            .iter_mut()
            .zip(state.terms)
            .for_each(|(column, sum)| column.push(sum.state()));
        counts
            .iter_mut()
            .zip(state.counts)
            .for_each(|(column, count)| column.push(count));
    }
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(F + C);
    for column in terms {
        columns.push(Arc::new(
            Decimal128Array::from(column).with_precision_and_scale(38, 0)?,
        ));
    }
    for column in counts {
        columns.push(Arc::new(Int64Array::from(column)));
    }
    Ok(columns)
}

/// Saved sums, viewed.
pub(crate) struct SavedSums<'a> {
    terms: Vec<&'a Decimal128Array>,
    counts: Vec<&'a Int64Array>,
}

impl<'a> SavedSums<'a> {
    /// Views the columns of `f` sums and `c` counts.
    pub(super) fn try_new(states: &'a [ArrayRef], f: usize, c: usize) -> Result<Self> {
        let mut saved = Self {
            terms: Vec::with_capacity(f),
            counts: Vec::with_capacity(c),
        };
        for at in 0..f {
            let Some(terms) = column(states, at)?.as_primitive_opt::<Decimal128Type>() else {
                return internal_err!("state column {at} of a sum must be Decimal128");
            };
            saved.terms.push(terms);
        }
        for at in f..f + c {
            let Some(counts) = column(states, at)?.as_primitive_opt::<Int64Type>() else {
                return internal_err!("state column {at} of a sum must be Int64");
            };
            saved.counts.push(counts);
        }
        Ok(saved)
    }

    /// Adds the saved sums of `row`.
    #[inline]
    pub(super) fn merge_into<const F: usize, const C: usize>(
        &self,
        sums: &mut Sums<F, C>,
        row: usize,
    ) {
        for (sum, column) in sums.terms.iter_mut().zip(&self.terms) {
            if column.is_valid(row) {
                sum.merge(FixedSum::from_state(column.value(row)));
            }
        }
        for (sum, column) in sums.counts.iter_mut().zip(&self.counts) {
            if column.is_valid(row) {
                *sum = sum.wrapping_add(column.value(row));
            }
        }
    }
}
