//! The statistic of `sfs` and `sfs_folded`: the spectrum of the sites where all N copies are called. N is a constant of the call
//! ([`Spectrum`]), or a value of each site that is the same in a group ([`SpectrumOfGroup`]).

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::common::{Result, exec_err, resources_err};

use super::cells::SiteCells;
use super::cells_by_group::{CellsByGroup, GroupGrid};
use super::checked_counts::{complete, given_copies};
use super::definition::Call;
use super::grid::{MAX_SPECTRUM_CELLS, cells_within, spectra, zeros};
use super::histogram::Histogram;
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
            Some(n) => given_copies(function, "n", n, call.copies(0).known())?,
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

/// The spectra of groups, each with N of its sites, folded or not.
#[derive(Debug)]
pub(crate) struct SpectrumOfGroup {
    function: &'static str,
    folded: bool,
    /// The population's number of copies, if the counts carry it.
    known: Option<u64>,
}

impl GroupGrid<1> for SpectrumOfGroup {
    const MAX_CELLS: u64 = MAX_SPECTRUM_CELLS;

    fn function(&self) -> &'static str {
        self.function
    }

    fn instead(&self) -> &'static str {
        INSTEAD
    }

    fn shape(&self, [n]: [i64; 1]) -> Result<u32> {
        let copies = given_copies(self.function, "n", n, self.known)?;
        match u32::try_from(copies) {
            Ok(shape) if copies < MAX_SPECTRUM_CELLS => Ok(shape),
            _ => exec_err!(
                "{}: a spectrum of {n} copies is too large. {INSTEAD}",
                self.function
            ),
        }
    }

    fn copies(&self, shape: u32) -> String {
        shape.to_string()
    }

    fn cells(&self, shape: u32) -> u64 {
        bins(self.folded, u64::from(shape))
    }

    fn cell(&self, shape: u32, [counts]: [&[i32]; 1]) -> Result<Option<u32>> {
        let copies = u64::from(shape);
        let derived = complete(self.function, copies, counts)?;
        // A bin is at most the number of copies.
        Ok(derived.map(|d| bin(self.folded, copies, d) as u32))
    }

    fn values(&self, shapes: &[Option<u32>], cells: Vec<i64>) -> Result<ArrayRef> {
        let lengths =
            (shapes.iter()).map(|shape| shape.map_or(0, |shape| self.cells(shape) as usize));
        Ok(Arc::new(ListArray::try_new(
            Arc::new(Field::new_list_field(DataType::Int64, true)),
            OffsetBuffer::from_lengths(lengths),
            Arc::new(Int64Array::from(cells)),
            Some(shapes.iter().map(Option::is_some).collect()),
        )?))
    }
}

/// The statistic.
pub(crate) type Spectra = CellsByGroup<Spectrum, SpectrumOfGroup, 1>;

/// The statistic of a call.
pub(super) fn spectra_of(function: &'static str, folded: bool, call: &Call) -> Result<Spectra> {
    if !call.number_varies {
        return Ok(Spectra::of_one(Spectrum::new(function, folded, call)?));
    }
    let known = call.copies(0).known();
    let grid = SpectrumOfGroup {
        function,
        folded,
        known,
    };
    Ok(Spectra::of_groups(function, grid, call))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, AsArray};
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
