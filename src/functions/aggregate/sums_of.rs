//! The [`Statistic`] of [`SiteSums`].

use std::marker::PhantomData;
use std::ops::Range;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::Result;

use super::block_sums;
use super::saved_sums::{self, SavedSums};
use super::sites::{Sites, Visit};
use super::statistic::{SiteInput, Statistic};
use super::sums::{Output, SiteSums, Sums};
use crate::counts::Level;

/// The [`Statistic`] of a [`SiteSums`].
#[derive(Debug)]
pub(crate) struct SumsOf<T, const P: usize, const F: usize, const C: usize> {
    of: T,
    /// The instruction set for adding runs of sites.
    level: Level,
}

impl<T, const P: usize, const F: usize, const C: usize> SumsOf<T, P, F, C> {
    /// With the best instruction set of this machine.
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

impl<T: SiteSums<P, F, C>, const P: usize, const F: usize, const C: usize> Statistic
    for SumsOf<T, P, F, C>
{
    type State = Sums<F, C>;
    type Input<'a> = Sites<'a, P>;
    type Saved<'a> = SavedSums<'a>;

    fn state_columns() -> Vec<(String, DataType)> {
        saved_sums::state_columns(F, C)
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
        if block_sums::add::<T, P, F, C>(self.level, state, input, &rows) {
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
        SavedSums::try_new(states, F, C)
    }

    #[inline]
    fn merge(&self, state: &mut Sums<F, C>, saved: &SavedSums<'_>, row: usize) -> Result<()> {
        saved.merge_into(state, row);
        Ok(())
    }

    fn save(&self, states: &[Sums<F, C>]) -> Result<Vec<ArrayRef>> {
        saved_sums::columns(states.iter().copied())
    }

    fn save_rows(
        &self,
        input: &Sites<'_, P>,
        kept: impl Fn(usize) -> bool,
    ) -> Result<Vec<ArrayRef>> {
        saved_sums::columns((0..input.len()).map(|row| {
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
        T::Output::column(states.iter().map(|sums| self.of.finish(sums)))
    }
}
