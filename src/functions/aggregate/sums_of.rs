//! The [`Statistic`] of [`SiteSums`].

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::PrimitiveArray;
use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Int64Array};
use arrow::datatypes::{DataType, Decimal128Type, Int64Type};
use datafusion::common::{Result, internal_err};

use super::block_sums;
use super::sites::{Sites, Visit};
use super::statistic::{SiteInput, Statistic, column};
use super::sums::{SiteSums, Sums};
use crate::counts::Level;
use crate::functions::numeric::FixedSum;

/// The [`Statistic`] of a [`SiteSums`].
#[derive(Debug)]
pub(crate) struct SumsOf<T, const P: usize, const F: usize, const C: usize> {
    of: T,
    /// The instructions that runs of sites are added with.
    level: Level,
}

impl<T, const P: usize, const F: usize, const C: usize> SumsOf<T, P, F, C> {
    /// With the best instructions of this machine.
    pub(crate) fn new(of: T) -> Self {
        let level = Level::detect();
        Self { of, level }
    }
}

/// Sums that sites are added to.
struct Added<T, const P: usize, const F: usize, const C: usize>(Sums<F, C>, PhantomData<T>);

impl<T: SiteSums<P, F, C>, const P: usize, const F: usize, const C: usize> Visit<P>
    for Added<T, P, F, C>
{
    #[inline(always)]
    fn visit(&mut self, counts: [&[i32]; P]) -> Result<()> {
        if let Some(site) = T::site(counts) {
            self.0.add(site);
        }
        Ok(())
    }
}

/// Saved sums, viewed.
pub(crate) struct SavedSums<'a> {
    terms: Vec<&'a Decimal128Array>,
    counts: Vec<&'a Int64Array>,
}

/// Columns that hold the saved states: the sums of terms, then the counts.
fn columns<const F: usize, const C: usize>(
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

impl<T: SiteSums<P, F, C>, const P: usize, const F: usize, const C: usize> Statistic
    for SumsOf<T, P, F, C>
{
    type State = Sums<F, C>;
    type Input<'a> = Sites<'a, P>;
    type Saved<'a> = SavedSums<'a>;

    fn state_columns() -> Vec<(String, DataType)> {
        let terms = (0..F).map(|i| (format!("sum{i}"), DataType::Decimal128(38, 0)));
        let counts = (0..C).map(|i| (format!("count{i}"), DataType::Int64));
        terms.chain(counts).collect()
    }

    fn input(values: &[ArrayRef]) -> Result<Self::Input<'_>> {
        Sites::try_new(values)
    }

    #[inline]
    fn add(
        &self,
        state: &mut Sums<F, C>,
        input: &Sites<'_, P>,
        rows: impl Iterator<Item = usize>,
    ) -> Result<()> {
        // A local copy: the run accumulates in registers.
        let mut added = Added::<T, P, F, C>(*state, PhantomData);
        input.try_for_each(rows, &mut added)?;
        *state = added.0;
        Ok(())
    }

    fn add_run(
        &self,
        state: &mut Sums<F, C>,
        input: &Sites<'_, P>,
        rows: Range<usize>,
    ) -> Result<()> {
        if block_sums::add::<T, P, F, C>(self.level, state, input, rows.clone()) {
            return Ok(());
        }
        self.add(state, input, rows)
    }

    #[inline]
    fn remove(
        &self,
        state: &mut Sums<F, C>,
        input: &Sites<'_, P>,
        rows: impl Iterator<Item = usize>,
    ) -> Result<()> {
        let mut removed = Added::<T, P, F, C>(Sums::default(), PhantomData);
        input.try_for_each(rows, &mut removed)?;
        state.unmerge(removed.0);
        Ok(())
    }

    fn saved(states: &[ArrayRef]) -> Result<SavedSums<'_>> {
        let mut saved = SavedSums {
            terms: Vec::with_capacity(F),
            counts: Vec::with_capacity(C),
        };
        for at in 0..F {
            let Some(terms) = column(states, at)?.as_primitive_opt::<Decimal128Type>() else {
                return internal_err!("state column {at} of a sum must be Decimal128");
            };
            saved.terms.push(terms);
        }
        for at in F..F + C {
            let Some(counts) = column(states, at)?.as_primitive_opt::<Int64Type>() else {
                return internal_err!("state column {at} of a sum must be Int64");
            };
            saved.counts.push(counts);
        }
        Ok(saved)
    }

    #[inline]
    fn merge(&self, state: &mut Sums<F, C>, saved: &SavedSums<'_>, row: usize) -> Result<()> {
        for (sum, column) in state.terms.iter_mut().zip(&saved.terms) {
            if column.is_valid(row) {
                sum.merge(FixedSum::from_state(column.value(row)));
            }
        }
        for (sum, column) in state.counts.iter_mut().zip(&saved.counts) {
            if column.is_valid(row) {
                *sum = sum.wrapping_add(column.value(row));
            }
        }
        Ok(())
    }

    fn save(&self, states: &[Sums<F, C>]) -> Result<Vec<ArrayRef>> {
        columns(states.iter().copied())
    }

    fn save_rows(
        &self,
        input: &Sites<'_, P>,
        kept: impl Fn(usize) -> bool,
    ) -> Result<Vec<ArrayRef>> {
        columns((0..input.len()).map(|row| {
            let mut sums = Sums::default();
            if kept(row)
                && !input.is_null(row)
                && let Some(site) = T::site(input.counts(row))
            {
                sums.add(site);
            }
            sums
        }))
    }

    fn evaluate(&mut self, states: &[Sums<F, C>]) -> Result<ArrayRef> {
        self.of.prepare(states)?;
        let values: PrimitiveArray<T::Output> =
            states.iter().map(|sums| self.of.finish(sums)).collect();
        Ok(Arc::new(values))
    }
}
