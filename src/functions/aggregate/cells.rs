//! Statistics that are functions of a [`Histogram`] of cells: spectra and their projections.

use std::fmt::Debug;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::Result;

use super::histogram::{Histogram, Key};
use super::saved_cells::{self, SavedCells, Saver};
use super::sites::{Sites, Visit};
use super::statistic::{SiteInput, Statistic};

/// A statistic that is a function of the number of sites in each cell.
pub(crate) trait SiteCells<const P: usize>: Debug + Send + Sync + 'static {
    /// Identifies a cell.
    type Key: Key;

    /// The cell of a site with these counts in each population; `None` for a site that is left out.
    fn cell(&self, counts: [&[i32]; P]) -> Result<Option<Self::Key>>;
    /// Number of possible cells; 0 where that is not known.
    fn domain(&self) -> usize {
        0
    }
    /// Whether a cell of a saved state is possible.
    fn is_valid(&self, cell: Self::Key) -> bool;
    /// The values of groups, one row each.
    fn evaluate(&mut self, groups: &[Histogram<Self::Key>]) -> Result<ArrayRef>;
    /// Records that `left_out` of `seen` more sites have no cell.
    #[inline]
    fn note_left_out(&self, _left_out: u64, _seen: u64) {}
    /// Reports what was recorded, at the end of a batch or of the input.
    fn report_left_out(&self) {}
    /// Returns an error if the values of this many groups would be too large. Called before their rows are read.
    fn check_groups(&self, _groups: usize) -> Result<()> {
        Ok(())
    }
    /// Number of cells of a group's value where it is a list; 0 where it is a number.
    fn value_cells(&self) -> usize {
        0
    }
    /// Bytes on the heap of tables that are cached between evaluations.
    fn heap_size(&self) -> usize {
        0
    }
}

/// The [`Statistic`] of a [`SiteCells`].
#[derive(Debug)]
pub(crate) struct CellsOf<T, const P: usize>(pub(crate) T);

/// A histogram that sites are added to.
struct Added<'a, T: SiteCells<P>, const P: usize> {
    cells: &'a T,
    state: &'a mut Histogram<T::Key>,
    times: i64,
    domain: usize,
    seen: u64,
    left_out: u64,
}

impl<T: SiteCells<P>, const P: usize> Visit<P> for Added<'_, T, P> {
    #[inline(always)]
    fn visit(&mut self, counts: [&[i32]; P]) -> Result<()> {
        self.seen += 1;
        match self.cells.cell(counts)? {
            Some(cell) => self.state.add(cell, self.times, self.domain),
            None => {
                self.left_out += 1;
                Ok(())
            }
        }
    }
}

impl<T: SiteCells<P>, const P: usize> CellsOf<T, P> {
    #[inline]
    fn add_times(
        &self,
        state: &mut Histogram<T::Key>,
        input: &Sites<'_, P>,
        rows: impl Iterator<Item = usize>,
        times: i64,
    ) -> Result<()> {
        let mut added = Added {
            cells: &self.0,
            state,
            times,
            domain: self.0.domain(),
            seen: 0,
            left_out: 0,
        };
        input.try_for_each(rows, &mut added)?;
        // A row that leaves a frame was recorded when it was added.
        if times > 0 {
            self.0.note_left_out(added.left_out, added.seen);
        }
        Ok(())
    }
}

impl<T: SiteCells<P>, const P: usize> Statistic for CellsOf<T, P> {
    type State = Histogram<T::Key>;
    type Input<'a> = Sites<'a, P>;
    type Saved<'a> = SavedCells<'a>;

    fn state_columns() -> Vec<(String, DataType)> {
        saved_cells::state_columns::<T::Key>()
    }

    fn input(values: &[ArrayRef]) -> Result<Self::Input<'_>> {
        Sites::try_new(values)
    }

    #[inline]
    fn add(
        &self,
        state: &mut Self::State,
        input: &Sites<'_, P>,
        rows: impl Iterator<Item = usize>,
    ) -> Result<()> {
        self.add_times(state, input, rows, 1)
    }

    #[inline]
    fn remove(
        &self,
        state: &mut Self::State,
        input: &Sites<'_, P>,
        rows: impl Iterator<Item = usize>,
    ) -> Result<()> {
        self.add_times(state, input, rows, -1)
    }

    fn saved(states: &[ArrayRef]) -> Result<SavedCells<'_>> {
        SavedCells::try_new::<T::Key>(states)
    }

    fn merge(&self, state: &mut Self::State, saved: &SavedCells<'_>, row: usize) -> Result<()> {
        let is_valid = |cell| self.0.is_valid(cell);
        saved.merge_into(state, row, self.0.domain(), is_valid)
    }

    fn save(&self, states: &[Self::State]) -> Result<Vec<ArrayRef>> {
        self.0.report_left_out();
        saved_cells::save(states)
    }

    fn save_rows(
        &self,
        input: &Sites<'_, P>,
        kept: impl Fn(usize) -> bool,
    ) -> Result<Vec<ArrayRef>> {
        let mut saver = Saver::new(input.len(), input.len());
        let (mut seen, mut left_out) = (0, 0);
        for row in 0..input.len() {
            if kept(row) && !input.is_null(row) {
                seen += 1;
                match self.0.cell(input.counts(row))? {
                    Some(cell) => saver.push(cell, 1),
                    None => left_out += 1,
                }
            }
            saver.end_row()?;
        }
        self.0.note_left_out(left_out, seen);
        self.0.report_left_out();
        Ok(saver.finish())
    }

    fn evaluate(&mut self, states: &[Self::State]) -> Result<ArrayRef> {
        self.0.report_left_out();
        self.0.evaluate(states)
    }

    fn check_groups(&self, groups: usize) -> Result<()> {
        self.0.check_groups(groups)
    }

    fn value_size(&self) -> usize {
        self.0.value_cells().saturating_mul(size_of::<u64>())
    }

    fn heap_size(&self) -> usize {
        self.0.heap_size()
    }
}
