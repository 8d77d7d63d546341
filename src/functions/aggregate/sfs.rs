//! `sfs(ac [, n])` and `sfs_folded(ac [, n])`: the site frequency spectrum of the sites where every copy is called.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, exec_err, plan_err, resources_err};
use datafusion::logical_expr::Documentation;

use super::cells::{CellsOf, SiteCells};
use super::checked_counts::complete;
use super::definition::{Call, Copies, Definition, document_one};
use super::grid::{MAX_SPECTRUM_CELLS, cells_within, list_of, spectra, zeros};
use super::histogram::Histogram;
use crate::scan::notices::LeftOut;

/// `sfs`.
#[derive(Debug)]
pub(crate) struct Sfs;
/// `sfs_folded`.
#[derive(Debug)]
pub(crate) struct SfsFolded;

/// What to use if N is not known.
const INSTEAD: &str = "Give it as a number after the counts, or use project_sfs(ac, m), or count sites with GROUP BY \
                       derived_count(ac), allele_number(ac).";

/// What the number after the counts is.
const COPIES: &str = "The population's number of copies N, a constant, for counts that do not carry it \
                      (population_counts, counts made by other programs).";

/// The spectrum of one population, folded or not.
#[derive(Debug)]
pub(crate) struct Spectrum {
    function: &'static str,
    copies: u64,
    folded: bool,
    bins: usize,
    incomplete: LeftOut,
}

fn plan(function: &str, copies: &[Copies], numbers: usize) -> Result<()> {
    for &copies in copies.iter().filter(|_| numbers == 0) {
        copies.plan(function, INSTEAD)?;
        if copies
            .known()
            .is_some_and(|copies| copies >= MAX_SPECTRUM_CELLS)
        {
            return plan_err!(
                "{function}: a spectrum of {copies:?} copies is too large. {INSTEAD}"
            );
        }
    }
    Ok(())
}

impl Spectrum {
    fn new(function: &'static str, folded: bool, call: &Call) -> Result<Self> {
        let copies = match call.number(0) {
            None => call.copies(0).required(function, INSTEAD)?,
            Some(n) => match u64::try_from(n) {
                Ok(copies) => copies,
                Err(_) => {
                    return exec_err!(
                        "{function}: n, the population's number of copies, must not be negative, found {n}"
                    );
                }
            },
        };
        let bins = if folded { copies / 2 } else { copies }.saturating_add(1);
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
        Ok(derived.map(|d| {
            if self.folded {
                d.min(self.copies - d)
            } else {
                d
            }
        }))
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

impl Definition for Sfs {
    type Statistic = CellsOf<Spectrum, 1>;
    const NAME: &'static str = "sfs";
    const COUNTS: usize = 1;
    const NUMBERS: &'static [&'static str] = &["n"];
    const OPTIONAL: usize = 1;
    const REPORTS_LEFT_OUT: bool = true;

    fn return_type() -> DataType {
        list_of(DataType::Int64)
    }

    fn plan(copies: &[Copies], numbers: usize) -> Result<()> {
        plan(Self::NAME, copies, numbers)
    }

    fn statistic(call: &Call) -> Result<Self::Statistic> {
        Ok(CellsOf(Spectrum::new(Self::NAME, false, call)?))
    }

    fn documentation() -> Documentation {
        document_one(
            "The site frequency spectrum: N + 1 bins, where N is the population's number of \
             copies, and bin d counts the sites where d copies are not the reference allele (or, \
             after polarize, not the ancestral one). Only complete sites count, those with all N \
             copies called; bins 0 and N, the sites that do not vary, are included. For sites \
             with missing calls see project_sfs.",
            "sfs(ac [, n])",
            "SELECT sfs(allele_counts(call_genotype, 'YRI')) FROM t",
        )
        .with_argument("n", COPIES)
        .with_related_udf("is_complete")
        .with_related_udf("sfs_folded")
        .with_related_udf("project_sfs")
        .build()
    }
}

impl Definition for SfsFolded {
    type Statistic = CellsOf<Spectrum, 1>;
    const NAME: &'static str = "sfs_folded";
    const COUNTS: usize = 1;
    const NUMBERS: &'static [&'static str] = &["n"];
    const OPTIONAL: usize = 1;
    const REPORTS_LEFT_OUT: bool = true;

    fn return_type() -> DataType {
        list_of(DataType::Int64)
    }

    fn plan(copies: &[Copies], numbers: usize) -> Result<()> {
        plan(Self::NAME, copies, numbers)
    }

    fn statistic(call: &Call) -> Result<Self::Statistic> {
        Ok(CellsOf(Spectrum::new(Self::NAME, true, call)?))
    }

    fn documentation() -> Documentation {
        document_one(
            "The folded site frequency spectrum: floor(N / 2) + 1 bins, where bin min(d, N - d) \
             counts the sites with d of N copies derived. Otherwise as sfs.",
            "sfs_folded(ac [, n])",
            "SELECT sfs_folded(allele_counts(call_genotype, 'YRI')) FROM t",
        )
        .with_argument("n", COPIES)
        .with_related_udf("sfs")
        .with_related_udf("project_sfs_folded")
        .build()
    }
}

#[cfg(test)]
mod tests {
    use crate::functions::aggregate::harness::{Call, counts, integers};

    #[test]
    fn by_hand() {
        // N = 4: two complete sites with one derived copy, a triallelic one with three, fixed ones, an incomplete one.
        let column = counts(&[
            Some(vec![3, 1, 0]),
            Some(vec![3, 0, 1]),
            Some(vec![1, 2, 1]),
            Some(vec![4, 0, 0]),
            Some(vec![0, 4, 0]),
            Some(vec![2, 1, 0]),
            None,
        ]);
        let spectrum = |name| {
            let call = Call::new(name, &[Some(4)], &[]).unwrap();
            integers(&call.value(&[std::sync::Arc::clone(&column)]).unwrap())
        };
        assert_eq!(spectrum("sfs"), [1, 2, 0, 1, 1]);
        assert_eq!(spectrum("sfs_folded"), [2, 3, 0]);
        let odd = Call::new("sfs_folded", &[Some(3)], &[]).unwrap();
        let column = counts(&[Some(vec![2, 1]), Some(vec![1, 2]), Some(vec![3])]);
        assert_eq!(integers(&odd.value(&[column]).unwrap()), [1, 2]);
    }
}
