//! The statistic of `sfs` and `sfs_folded`: the spectrum of the sites where all N copies are called. N is a constant of the call
//! ([`Spectrum`]), or a value of each site that is the same in a group ([`SpectrumOfGroup`]).
//!
//! In the second case the groups' spectra differ in length, so a cell holds N as well as the bin, and a site that is left out has a cell,
//! too: the spectrum of a group whose sites are all left out then has its length.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::common::{Result, exec_err, internal_err, resources_err};

use super::cells::{CellsOf, SiteCells};
use super::checked_counts::complete;
use super::definition::Call;
use super::grid::{MAX_SPECTRUM_CELLS, cells_within, spectra, zeros};
use super::histogram::Histogram;
use super::saved_cells::{self, SavedCells, Saver};
use super::sites::Sites;
use super::statistic::{SiteInput, Statistic};
use crate::scan::notices::LeftOut;

/// What to use if N is not known.
pub(super) const INSTEAD: &str = "Give it as a number after the counts, or use project_sfs(ac, m), or count sites with GROUP BY \
                                  derived_count(ac), allele_number(ac).";

/// The spectrum of one population, folded or not.
#[derive(Debug)]
pub(crate) struct Spectrum {
    function: &'static str,
    copies: u64,
    folded: bool,
    bins: usize,
    incomplete: LeftOut,
}

/// The bin of a site with `d` of `copies` copies derived.
#[inline(always)]
fn bin(folded: bool, copies: u64, d: u64) -> u64 {
    if folded { d.min(copies - d) } else { d }
}

/// Number of bins of the spectrum of `copies` copies.
fn bins(folded: bool, copies: u64) -> u64 {
    if folded { copies / 2 } else { copies }.saturating_add(1)
}

impl Spectrum {
    fn new(function: &'static str, folded: bool, call: &Call) -> Result<Self> {
        let copies = match call.number(0) {
            None => call.copies(0).required(function, INSTEAD)?,
            Some(n) => match u64::try_from(n) {
                Ok(copies) => copies,
                Err(_) => return negative(function, n),
            },
        };
        let bins = bins(folded, copies);
        match cells_within(MAX_SPECTRUM_CELLS, bins, 1, 1) {
            Some(bins) => Ok(Self {
                function,
                copies,
                folded,
                bins,
                incomplete: call.incomplete_sites(function, &[copies]),
            }),
            None => exec_err!("{function}: a spectrum of {bins} bins is too large. {INSTEAD}"),
        }
    }
}

fn negative<T>(function: &str, n: i64) -> Result<T> {
    exec_err!("{function}: n, the population's number of copies, must not be negative, found {n}")
}

impl SiteCells<1> for Spectrum {
    type Key = u64;

    #[inline(always)] // once per row, in the loop over them
    fn cell(&self, [counts]: [&[i32]; 1]) -> Result<Option<u64>> {
        let derived = complete(self.function, self.copies, counts)?;
        Ok(derived.map(|d| bin(self.folded, self.copies, d)))
    }

    fn domain(&self) -> usize {
        self.bins
    }

    fn value_cells(&self) -> usize {
        self.bins
    }

    #[inline]
    fn note_left_out(&self, left_out: u64, seen: u64) {
        self.incomplete.add(left_out, seen);
    }

    fn report_left_out(&self) {
        self.incomplete.report();
    }

    fn is_valid(&self, bin: u64) -> bool {
        bin < self.bins as u64
    }

    fn evaluate(&mut self, groups: &[Histogram<u64>]) -> Result<ArrayRef> {
        let Some(cells) = cells_within(MAX_SPECTRUM_CELLS, self.bins as u64, 1, groups.len())
        else {
            return resources_err!(
                "{}: the spectra of {} groups, {} bins each, would hold more than {} bins. \
                 {INSTEAD}",
                self.function,
                groups.len(),
                self.bins,
                MAX_SPECTRUM_CELLS
            );
        };
        let mut values: Vec<i64> = zeros(cells)?;
        for (group, bins) in groups.iter().zip(values.chunks_exact_mut(self.bins)) {
            group.for_each(|bin, sites| {
                // Every bin was checked when it was added.
                if let Some(count) = bins.get_mut(bin as usize) {
                    *count = sites;
                }
            });
        }
        spectra::<Int64Type>(groups.len(), self.bins, values)
    }
}

/// The low half of the cell of a site that is left out; the high half of a cell is N, the low half otherwise the bin.
const LEFT_OUT: u64 = u32::MAX as u64;

/// The spectrum of one population in each group, folded or not, with N of each site.
#[derive(Debug)]
pub(crate) struct SpectrumOfGroup {
    function: &'static str,
    folded: bool,
    incomplete: LeftOut,
    /// The largest N so far, from which the size of values follows. It is used by one thread at a time; atomic only so that it can be
    /// shared.
    largest: AtomicU64,
}

impl SpectrumOfGroup {
    /// The cell of a site with `n` copies in its population.
    fn cell(&self, n: i64, counts: &[i32]) -> Result<u64> {
        let copies = match u64::try_from(n) {
            Ok(copies) if copies < MAX_SPECTRUM_CELLS => copies,
            Ok(_) => {
                return exec_err!(
                    "{}: a spectrum of {n} copies is too large. {INSTEAD}",
                    self.function
                );
            }
            Err(_) => return negative(self.function, n),
        };
        self.note_copies(copies);
        let derived = complete(self.function, copies, counts)?;
        let bin = derived.map_or(LEFT_OUT, |d| bin(self.folded, copies, d));
        Ok(copies << 32 | bin)
    }

    fn add(
        &self,
        state: &mut Histogram<u64>,
        input: &SpectraInput<'_>,
        rows: impl Iterator<Item = usize>,
        times: i64,
    ) -> Result<()> {
        let copies = input.copies()?;
        let (mut seen, mut left_out) = (0, 0);
        for row in rows {
            let [counts] = input.sites.counts(row);
            let cell = self.cell(copies.value(row), counts)?;
            seen += 1;
            left_out += u64::from(cell & LEFT_OUT == LEFT_OUT);
            state.add(cell, times, 0)?;
        }
        // A row that leaves a frame was recorded when it was added.
        if times > 0 {
            self.incomplete.add(left_out, seen);
        }
        Ok(())
    }

    fn is_valid(&self, cell: u64) -> bool {
        let (copies, bin) = (cell >> 32, cell & LEFT_OUT);
        let is_valid =
            copies < MAX_SPECTRUM_CELLS && (bin == LEFT_OUT || bin < bins(self.folded, copies));
        if is_valid {
            self.note_copies(copies);
        }
        is_valid
    }

    #[inline]
    fn note_copies(&self, copies: u64) {
        if copies > self.largest.load(Ordering::Relaxed) {
            self.largest.store(copies, Ordering::Relaxed);
        }
    }

    /// N of a group; `None` for one without sites.
    fn copies_of(&self, group: &Histogram<u64>) -> Result<Option<u64>> {
        let (mut least, mut most) = (u64::MAX, 0);
        group.for_each(|cell, _| {
            least = least.min(cell >> 32);
            most = most.max(cell >> 32);
        });
        match (least, most) {
            (u64::MAX, 0) => Ok(None),
            (least, most) if least == most => Ok(Some(most)),
            (least, most) => exec_err!(
                "{}: a group has sites of populations with {least} and with {most} copies, whose spectra differ in length; add the \
                 population, or n, to GROUP BY, or use project_sfs(ac, m)",
                self.function
            ),
        }
    }

    fn evaluate(&self, groups: &[Histogram<u64>]) -> Result<ArrayRef> {
        let mut offsets = vec![0i32];
        let (mut valid, mut total) = (Vec::with_capacity(groups.len()), 0u64);
        for group in groups {
            let copies = self.copies_of(group)?;
            valid.push(copies.is_some());
            total = total.saturating_add(copies.map_or(0, |n| bins(self.folded, n)));
            match i32::try_from(total) {
                Ok(end) if total <= MAX_SPECTRUM_CELLS => offsets.push(end),
                _ => {
                    return resources_err!(
                        "{}: the spectra of {} groups would hold more than {MAX_SPECTRUM_CELLS} bins. {INSTEAD}",
                        self.function,
                        groups.len()
                    );
                }
            }
        }
        let mut values: Vec<i64> = zeros(usize::try_from(total).unwrap_or(usize::MAX))?;
        for (group, &start) in groups.iter().zip(&offsets) {
            group.for_each(|cell, sites| {
                let bin = cell & LEFT_OUT;
                // Every bin was checked when it was added.
                if bin != LEFT_OUT
                    && let Some(count) = values.get_mut(start as usize + bin as usize)
                {
                    *count = sites;
                }
            });
        }
        Ok(Arc::new(ListArray::try_new(
            Arc::new(Field::new_list_field(DataType::Int64, true)),
            OffsetBuffer::new(ScalarBuffer::from(offsets)),
            Arc::new(Int64Array::from(values)),
            Some(NullBuffer::from(valid)),
        )?))
    }
}

/// The counts, and the column of n, if there is one.
pub(crate) struct SpectraInput<'a> {
    sites: Sites<'a, 1>,
    copies: Option<&'a Int64Array>,
}

impl SpectraInput<'_> {
    fn copies(&self) -> Result<&Int64Array> {
        match self.copies {
            Some(copies) if copies.len() == self.sites.len() => Ok(copies),
            _ => internal_err!("the number of copies of each site must be a column of Int64"),
        }
    }
}

impl SiteInput for SpectraInput<'_> {
    fn len(&self) -> usize {
        self.sites.len()
    }

    #[inline]
    fn is_null(&self, row: usize) -> bool {
        self.sites.is_null(row) || self.copies.is_some_and(|copies| copies.is_null(row))
    }

    fn has_nulls(&self) -> bool {
        self.sites.has_nulls() || self.copies.is_some_and(|copies| copies.null_count() > 0)
    }
}

/// The statistic.
#[derive(Debug)]
pub(crate) enum Spectra {
    /// N is a constant.
    OfOne(CellsOf<Spectrum, 1>),
    /// N is a value of each site.
    OfGroups(SpectrumOfGroup),
}

impl Spectra {
    pub(super) fn new(function: &'static str, folded: bool, call: &Call) -> Result<Self> {
        if !call.number_varies {
            return Ok(Self::OfOne(CellsOf(Spectrum::new(function, folded, call)?)));
        }
        Ok(Self::OfGroups(SpectrumOfGroup {
            function,
            folded,
            incomplete: call.incomplete_sites(function, &[]),
            largest: AtomicU64::new(0),
        }))
    }
}

impl Statistic for Spectra {
    type State = Histogram<u64>;
    type Input<'a> = SpectraInput<'a>;
    type Saved<'a> = SavedCells<'a>;

    fn state_columns() -> Vec<(String, DataType)> {
        saved_cells::state_columns::<u64>()
    }

    fn input(values: &[ArrayRef]) -> Result<SpectraInput<'_>> {
        let copies = values.get(1);
        Ok(SpectraInput {
            sites: Sites::try_new(values)?,
            copies: copies.and_then(|copies| copies.as_primitive_opt::<Int64Type>()),
        })
    }

    #[inline]
    fn add(
        &self,
        state: &mut Histogram<u64>,
        input: &SpectraInput<'_>,
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
        input: &SpectraInput<'_>,
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
                saved.merge_into(state, row, 0, |cell| of_groups.is_valid(cell))
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
        input: &SpectraInput<'_>,
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
            state.for_each(|cell, count| saver.push(cell, count));
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

    fn value_size(&self) -> usize {
        match self {
            Self::OfOne(cells) => cells.value_size(),
            Self::OfGroups(of_groups) => {
                let bins = bins(of_groups.folded, of_groups.largest.load(Ordering::Relaxed));
                usize::try_from(bins)
                    .unwrap_or(usize::MAX)
                    .saturating_mul(size_of::<i64>())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Field;
    use datafusion::common::ScalarValue;
    use datafusion::logical_expr::EmitTo;

    use super::*;
    use crate::functions::aggregate::harness::{self, counts, counts_field};

    fn call(name: &str) -> harness::Call {
        let fields = vec![
            counts_field("ac", None),
            Field::new("n", DataType::Int64, true),
        ];
        harness::Call::on(name, fields, &[]).unwrap()
    }

    /// Sites of populations with 4 and 3 copies, one with a missing copy in each, NULLs, and one of 2 copies with no call at all.
    fn sites() -> [ArrayRef; 2] {
        let ac = counts(&[
            Some(vec![3, 1, 0]),
            Some(vec![2, 1]),
            Some(vec![1, 2, 1]),
            Some(vec![2, 1]),
            Some(vec![1, 1]),
            None,
            Some(vec![4, 0]),
            Some(vec![0, 0]),
        ]);
        let n = [4, 3, 4, 4, 3, 4].map(Some).into_iter();
        let n = Int64Array::from_iter(n.chain([None, Some(2)]));
        [ac, Arc::new(n)]
    }

    /// The group of each of these sites, and the spectra of the four groups, of which the last has no site that is not NULL.
    const GROUPS: [usize; 8] = [0, 1, 0, 0, 1, 0, 3, 2];

    fn rows(list: &ArrayRef) -> Vec<Option<Vec<i64>>> {
        let list = list.as_list::<i32>();
        let row = |row: ArrayRef| row.as_primitive::<Int64Type>().values().to_vec();
        list.iter().map(|list| list.map(row)).collect()
    }

    #[test]
    fn each_group_has_its_own_length() {
        for (name, expected) in [
            (
                "sfs",
                [
                    Some(vec![0, 1, 0, 1, 0]),
                    Some(vec![0, 1, 0, 0]),
                    Some(vec![0; 3]),
                    None,
                ],
            ),
            (
                "sfs_folded",
                [
                    Some(vec![0, 2, 0]),
                    Some(vec![0, 1]),
                    Some(vec![0; 2]),
                    None,
                ],
            ),
        ] {
            let call = call(name);
            let mut at_once = call.accumulators().1;
            at_once.update_batch(&sites(), &GROUPS, None, 4).unwrap();
            assert!(at_once.size() > 4 * 3 * 8, "values are part of the size");
            assert_eq!(rows(&at_once.evaluate(EmitTo::All).unwrap()), expected);
            // Row by row, as states of single rows and of groups, merged.
            let (mut partial, mut merged) = (call.accumulators().1, call.accumulators().1);
            let singly = partial.convert_to_state(&sites(), None).unwrap();
            merged.merge_batch(&singly, &GROUPS, 4).unwrap();
            assert_eq!(rows(&merged.evaluate(EmitTo::All).unwrap()), expected);
            partial.update_batch(&sites(), &GROUPS, None, 4).unwrap();
            let states = partial.state(EmitTo::All).unwrap();
            let mut merged = call.accumulators().1;
            merged.merge_batch(&states, &[0, 1, 2, 3], 4).unwrap();
            assert_eq!(rows(&merged.evaluate(EmitTo::All).unwrap()), expected);
        }
    }

    #[test]
    fn retracted_sites_leave_nothing() {
        let (mut one, _) = call("sfs").accumulators();
        let of_group = |group: usize| {
            let at: Vec<u32> = (0..8)
                .filter(|&row| GROUPS[row as usize] == group)
                .collect();
            let at = arrow::array::UInt32Array::from(at);
            sites().map(|column| arrow::compute::take(&column, &at, None).unwrap())
        };
        one.update_batch(&of_group(0)).unwrap();
        one.update_batch(&of_group(1)).unwrap();
        let error = one.evaluate().unwrap_err().to_string();
        assert!(error.contains("with 3 and with 4 copies"), "{error}");
        one.retract_batch(&of_group(0)).unwrap();
        let value = one.evaluate().unwrap();
        assert_eq!(rows(&value.to_array().unwrap()), [Some(vec![0, 1, 0, 0])]);
        one.retract_batch(&of_group(1)).unwrap();
        assert!(matches!(one.evaluate().unwrap(), ScalarValue::List(list) if list.is_null(0)));
    }

    #[test]
    fn numbers_that_are_none() {
        let of = |n: i64| {
            let (mut one, _) = call("sfs").accumulators();
            let n: ArrayRef = Arc::new(Int64Array::from(vec![n]));
            one.update_batch(&[counts(&[Some(vec![3, 1])]), n])
                .unwrap_err()
                .to_string()
        };
        assert!(of(-4).contains("must not be negative, found -4"));
        assert!(of(1 << 28).contains("too large"));
        assert!(of(3).contains("more than the 3 of its population"));
    }
}
