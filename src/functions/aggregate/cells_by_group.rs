//! Spectra whose populations' numbers of copies N are constants of the call, or values of each site that are the same in a group.
//!
//! In the second case the groups' values differ in shape, so a key holds the shape as well as the cell, and a site that is left out has
//! a key, too: the value of a group whose sites are all left out then has its shape.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, exec_err, internal_err, resources_err};

use super::cells::{CellsOf, SiteCells};
use super::definition::Call;
use super::grid::zeros;
use super::histogram::Histogram;
use super::saved_cells::{self, SavedCells, Saver};
use super::sites::Sites;
use super::statistic::{SiteInput, Statistic};
use crate::scan::notices::LeftOut;

/// The low half of the key of a site that is left out; the high half of a key is the shape, the low half otherwise the cell.
const LEFT_OUT: u64 = u32::MAX as u64;

/// The values of groups, each of the shape that the numbers of copies of its `P` populations give.
pub(crate) trait GroupGrid<const P: usize>: Debug + Send + Sync + 'static {
    /// The maximum number of cells of the values of all groups together, less than 2³².
    const MAX_CELLS: u64;

    /// The function's name.
    fn function(&self) -> &'static str;
    /// What to use if values are too large.
    fn instead(&self) -> &'static str;
    /// The shape for these numbers of copies; an error if they are negative, too large, or more than the populations have.
    fn shape(&self, copies: [i64; P]) -> Result<u32>;
    /// The numbers of copies of a shape, for messages.
    fn copies(&self, shape: u32) -> String;
    /// The number of cells of a shape.
    fn cells(&self, shape: u32) -> u64;
    /// The cell of a site, below the number of cells of the shape; `None` for a site that is left out.
    fn cell(&self, shape: u32, counts: [&[i32]; P]) -> Result<Option<u32>>;
    /// The values of groups of these shapes, NULL where there is none, from the cells of all groups one after the other.
    fn values(&self, shapes: &[Option<u32>], cells: Vec<i64>) -> Result<ArrayRef>;
}

/// The statistic of a [`GroupGrid`].
#[derive(Debug)]
pub(crate) struct OfGroups<G> {
    grid: G,
    incomplete: LeftOut,
    /// The largest number of cells so far, from which the size of values follows. It is used by one thread at a time; atomic only so
    /// that it can be shared.
    largest: AtomicU64,
}

impl<G> OfGroups<G> {
    /// The key of a site.
    fn key<const P: usize>(&self, copies: [i64; P], counts: [&[i32]; P]) -> Result<u64>
    where
        G: GroupGrid<P>,
    {
        let shape = self.grid.shape(copies)?;
        self.note_size(self.grid.cells(shape));
        let cell = self.grid.cell(shape, counts)?;
        Ok(u64::from(shape) << 32 | cell.map_or(LEFT_OUT, u64::from))
    }

    fn add<const P: usize>(
        &self,
        state: &mut Histogram<u64>,
        input: &CellsInput<'_, P>,
        rows: impl Iterator<Item = usize>,
        times: i64,
    ) -> Result<()>
    where
        G: GroupGrid<P>,
    {
        let copies = input.copies()?;
        let (mut seen, mut left_out) = (0, 0);
        for row in rows {
            let key = self.key(copies.map(|of| of.value(row)), input.sites.counts(row))?;
            seen += 1;
            left_out += u64::from(key & LEFT_OUT == LEFT_OUT);
            state.add(key, times, 0)?;
        }
        // A row that leaves a frame was recorded when it was added.
        if times > 0 {
            self.incomplete.add(left_out, seen);
        }
        Ok(())
    }

    fn is_valid<const P: usize>(&self, key: u64) -> bool
    where
        G: GroupGrid<P>,
    {
        let (Ok(shape), cell) = (u32::try_from(key >> 32), key & LEFT_OUT) else {
            return false;
        };
        let cells = self.grid.cells(shape);
        let is_valid = cells <= G::MAX_CELLS && (cell == LEFT_OUT || cell < cells);
        if is_valid {
            self.note_size(cells);
        }
        is_valid
    }

    #[inline]
    fn note_size(&self, cells: u64) {
        if cells > self.largest.load(Ordering::Relaxed) {
            self.largest.store(cells, Ordering::Relaxed);
        }
    }

    /// The shape of a group; `None` for one without sites.
    fn shape_of<const P: usize>(&self, group: &Histogram<u64>) -> Result<Option<u32>>
    where
        G: GroupGrid<P>,
    {
        let (mut least, mut most) = (u64::MAX, 0);
        group.for_each(|key, _| {
            least = least.min(key >> 32);
            most = most.max(key >> 32);
        });
        match (u32::try_from(least), u32::try_from(most)) {
            (Ok(least), Ok(most)) if least == most => Ok(Some(most)),
            (Ok(least), Ok(most)) => exec_err!(
                "{}: a group has sites of populations with {} and with {} copies, whose spectra differ in length; add the \
                 population, or n, to GROUP BY, or project to a number of copies",
                self.grid.function(),
                self.grid.copies(least),
                self.grid.copies(most)
            ),
            _ => Ok(None),
        }
    }

    fn evaluate<const P: usize>(&self, groups: &[Histogram<u64>]) -> Result<ArrayRef>
    where
        G: GroupGrid<P>,
    {
        let mut shapes = Vec::with_capacity(groups.len());
        let (mut starts, mut total) = (Vec::with_capacity(groups.len()), 0u64);
        for group in groups {
            let shape = self.shape_of(group)?;
            shapes.push(shape);
            starts.push(total);
            total = total.saturating_add(shape.map_or(0, |shape| self.grid.cells(shape)));
        }
        if total > G::MAX_CELLS {
            return resources_err!(
                "{}: the spectra of {} groups would hold more than {} cells. {}",
                self.grid.function(),
                groups.len(),
                G::MAX_CELLS,
                self.grid.instead()
            );
        }
        let mut cells: Vec<i64> = zeros(usize::try_from(total).unwrap_or(usize::MAX))?;
        for (group, start) in groups.iter().zip(starts) {
            group.for_each(|key, sites| {
                let cell = key & LEFT_OUT;
                // Every cell was checked when it was added.
                if cell != LEFT_OUT
                    && let Some(count) = cells.get_mut((start + cell) as usize)
                {
                    *count = sites;
                }
            });
        }
        self.grid.values(&shapes, cells)
    }
}

/// The counts, and the columns of the numbers of copies, if there are any.
pub(crate) struct CellsInput<'a, const P: usize> {
    sites: Sites<'a, P>,
    copies: Option<[&'a Int64Array; P]>,
}

impl<const P: usize> CellsInput<'_, P> {
    fn copies(&self) -> Result<[&Int64Array; P]> {
        match self.copies {
            Some(copies) if copies.iter().all(|of| of.len() == self.sites.len()) => Ok(copies),
            _ => internal_err!("the number of copies of each site must be a column of Int64"),
        }
    }
}

impl<const P: usize> SiteInput for CellsInput<'_, P> {
    fn len(&self) -> usize {
        self.sites.len()
    }

    #[inline]
    fn is_null(&self, row: usize) -> bool {
        self.sites.is_null(row)
            || (self.copies).is_some_and(|copies| copies.iter().any(|of| of.is_null(row)))
    }

    fn has_nulls(&self) -> bool {
        self.sites.has_nulls()
            || (self.copies).is_some_and(|copies| copies.iter().any(|of| of.null_count() > 0))
    }
}

/// The statistic of a call.
#[derive(Debug)]
pub(crate) enum CellsByGroup<T, G, const P: usize> {
    /// The numbers of copies are constants.
    OfOne(CellsOf<T, P>),
    /// They are values of each site.
    OfGroups(OfGroups<G>),
}

impl<T, G, const P: usize> CellsByGroup<T, G, P> {
    /// For constants.
    pub(super) fn of_one(cells: T) -> Self {
        Self::OfOne(CellsOf(cells))
    }

    /// For values of each site, in a call of `function`.
    pub(super) fn of_groups(function: &'static str, grid: G, call: &Call) -> Self {
        Self::OfGroups(OfGroups {
            grid,
            incomplete: call.incomplete_sites(function, &[]),
            largest: AtomicU64::new(0),
        })
    }
}

impl<T: SiteCells<P, Key = u64>, G: GroupGrid<P>, const P: usize> Statistic
    for CellsByGroup<T, G, P>
{
    type State = Histogram<u64>;
    type Input<'a> = CellsInput<'a, P>;
    type Saved<'a> = SavedCells<'a>;

    fn state_columns() -> Vec<(String, DataType)> {
        saved_cells::state_columns::<u64>()
    }

    fn input(values: &[ArrayRef]) -> Result<CellsInput<'_, P>> {
        let copies = values.iter().skip(P).take(P);
        let copies: Option<Vec<&Int64Array>> = copies
            .map(|copies| copies.as_primitive_opt::<Int64Type>())
            .collect();
        Ok(CellsInput {
            sites: Sites::try_new(values)?,
            copies: copies.and_then(|copies| copies.try_into().ok()),
        })
    }

    #[inline]
    fn add(
        &self,
        state: &mut Histogram<u64>,
        input: &CellsInput<'_, P>,
        rows: impl Iterator<Item = usize>,
    ) -> Result<()> {
        match self {
            Self::OfOne(cells) => cells.add(state, &input.sites, rows),
            Self::OfGroups(of_groups) => of_groups.add(state, input, rows, 1),
        }
    }

    #[inline]
    fn remove(
        &self,
        state: &mut Histogram<u64>,
        input: &CellsInput<'_, P>,
        rows: impl Iterator<Item = usize>,
    ) -> Result<()> {
        match self {
            Self::OfOne(cells) => cells.remove(state, &input.sites, rows),
            Self::OfGroups(of_groups) => of_groups.add(state, input, rows, -1),
        }
    }

    fn saved(states: &[ArrayRef]) -> Result<SavedCells<'_>> {
        SavedCells::try_new::<u64>(states)
    }

    fn merge(&self, state: &mut Histogram<u64>, saved: &SavedCells<'_>, row: usize) -> Result<()> {
        match self {
            Self::OfOne(cells) => cells.merge(state, saved, row),
            Self::OfGroups(of_groups) => {
                saved.merge_into(state, row, 0, |key| of_groups.is_valid(key))
            }
        }
    }

    fn save(&self, states: &[Histogram<u64>]) -> Result<Vec<ArrayRef>> {
        match self {
            Self::OfOne(cells) => cells.save(states),
            Self::OfGroups(of_groups) => {
                of_groups.incomplete.report();
                saved_cells::save(states)
            }
        }
    }

    fn save_rows(
        &self,
        input: &CellsInput<'_, P>,
        kept: impl Fn(usize) -> bool,
    ) -> Result<Vec<ArrayRef>> {
        let of_groups = match self {
            Self::OfOne(cells) => return cells.save_rows(&input.sites, kept),
            Self::OfGroups(of_groups) => of_groups,
        };
        let mut saver = Saver::new(input.len(), input.len());
        for row in 0..input.len() {
            let mut state = Histogram::default();
            if kept(row) && !input.is_null(row) {
                of_groups.add(&mut state, input, std::iter::once(row), 1)?;
            }
            state.for_each(|key, count| saver.push(key, count));
            saver.end_row()?;
        }
        of_groups.incomplete.report();
        Ok(saver.finish())
    }

    fn evaluate(&mut self, states: &[Histogram<u64>]) -> Result<ArrayRef> {
        match self {
            Self::OfOne(cells) => cells.evaluate(states),
            Self::OfGroups(of_groups) => {
                of_groups.incomplete.report();
                of_groups.evaluate(states)
            }
        }
    }

    fn check_groups(&self, groups: usize) -> Result<()> {
        match self {
            Self::OfOne(cells) => cells.check_groups(groups),
            Self::OfGroups(_) => Ok(()),
        }
    }

    fn value_size(&self) -> usize {
        match self {
            Self::OfOne(cells) => cells.value_size(),
            Self::OfGroups(of_groups) => {
                let cells = of_groups.largest.load(Ordering::Relaxed);
                usize::try_from(cells)
                    .unwrap_or(usize::MAX)
                    .saturating_mul(size_of::<i64>())
            }
        }
    }

    fn heap_size(&self) -> usize {
        match self {
            Self::OfOne(cells) => cells.heap_size(),
            Self::OfGroups(_) => 0,
        }
    }
}
