//! The [`Statistic`] of [`ManySums`].

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::Result;

use super::many_sites::ManySites;
use super::saved_sums::{self, SavedSums};
use super::statistic::{SiteInput, Statistic};
use super::sums::{ManySums, Output, Sums};

/// The [`Statistic`] of a [`ManySums`].
#[derive(Debug)]
pub(crate) struct ManySumsOf<T, const F: usize, const C: usize>(pub(crate) T);

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
        T::Output::column(states.iter().map(|sums| self.0.finish(sums)))
    }
}
