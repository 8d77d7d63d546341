//! The [`Statistic`] of [`ManySums`].

use std::ops::Range;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::Result;

use super::block_sums;
use super::many_sites::ManySites;
use super::saved_sums::{self, SavedSums};
use super::statistic::{SiteInput, Statistic};
use super::sums::{ManySums, Output, Sums};
use crate::counts::Level;

/// The [`Statistic`] of a [`ManySums`].
#[derive(Debug)]
pub(crate) struct ManySumsOf<T, const F: usize, const C: usize> {
    of: T,
    /// The instruction set for adding runs of sites.
    level: Level,
}

impl<T, const F: usize, const C: usize> ManySumsOf<T, F, C> {
    /// With the best instruction set of this machine.
    pub(crate) fn new(of: T) -> Self {
        let level = Level::detect();
        Self { of, level }
    }
}

/// The sums over the sites of `rows`, none of them NULL.
fn sums_of<T: ManySums<F, C>, const F: usize, const C: usize>(
    input: &ManySites<'_>,
    rows: impl Iterator<Item = usize>,
) -> Sums<F, C> {
    let mut sums = Sums::default();
    let mut work = Vec::new();
    input.for_each(rows, |_, counts| {
        if let Some(site) = T::site(counts, &mut work) {
            sums.add(site);
        }
    });
    sums
}

impl<T: ManySums<F, C>, const F: usize, const C: usize> Statistic for ManySumsOf<T, F, C> {
    type State = Sums<F, C>;
    type Input<'a> = ManySites<'a>;
    type Saved<'a> = SavedSums<'a>;

    fn state_columns() -> Vec<(String, DataType)> {
        saved_sums::state_columns(F, C)
    }

    fn input(values: &[ArrayRef]) -> Result<Self::Input<'_>> {
        ManySites::try_new(values)
    }

    fn add(
        &self,
        state: &mut Sums<F, C>,
        input: &ManySites<'_>,
        rows: impl Iterator<Item = usize>,
    ) -> Result<()> {
        state.merge(sums_of::<T, F, C>(input, rows));
        Ok(())
    }

    fn add_run(
        &self,
        state: &mut Sums<F, C>,
        input: &ManySites<'_>,
        rows: Range<usize>,
    ) -> Result<()> {
        if block_sums::add_many::<T, F, C>(self.level, state, input, &rows) {
            return Ok(());
        }
        self.add(state, input, rows)
    }

    fn remove(
        &self,
        state: &mut Sums<F, C>,
        input: &ManySites<'_>,
        rows: impl Iterator<Item = usize>,
    ) -> Result<()> {
        state.unmerge(sums_of::<T, F, C>(input, rows));
        Ok(())
    }

    fn saved(states: &[ArrayRef]) -> Result<SavedSums<'_>> {
        SavedSums::try_new(states, F, C)
    }

    fn merge(&self, state: &mut Sums<F, C>, saved: &SavedSums<'_>, row: usize) -> Result<()> {
        saved.merge_into(state, row);
        Ok(())
    }

    fn save(&self, states: &[Sums<F, C>]) -> Result<Vec<ArrayRef>> {
        saved_sums::columns(states.iter().copied())
    }

    fn save_rows(
        &self,
        input: &ManySites<'_>,
        kept: impl Fn(usize) -> bool,
    ) -> Result<Vec<ArrayRef>> {
        let mut all = vec![Sums::default(); input.len()];
        let mut work = Vec::new();
        let rows = (0..input.len()).filter(|&row| kept(row) && !input.is_null(row));
        input.for_each(rows, |row, counts| {
            if let Some(site) = T::site(counts, &mut work) {
                all[row].add(site);
            }
        });
        saved_sums::columns(all.into_iter())
    }

    fn evaluate(&mut self, states: &[Sums<F, C>]) -> Result<ArrayRef> {
        T::Output::column(states.iter().map(|sums| self.of.finish(sums)))
    }
}
