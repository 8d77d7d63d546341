//! `sfs(ac [, n])` and `sfs_folded(ac [, n])`: the site frequency spectrum of the sites where every copy is called.

use arrow::datatypes::DataType;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::Documentation;

use super::definition::{Call, Copies, Definition, document_one};
use super::grid::{MAX_SPECTRUM_CELLS, list_of};
use super::spectra::{INSTEAD, Spectra, spectra_of};

/// `sfs`.
#[derive(Debug)]
pub(crate) struct Sfs;
/// `sfs_folded`.
#[derive(Debug)]
pub(crate) struct SfsFolded;

/// What the number after the counts is.
const COPIES: &str = "The population's number of copies N, for counts that do not carry it (counts made by other \
                      programs): a constant or, with GROUP BY, a value that is the same for all sites of a group. If left out, that of the \
                      counts; those of population_counts take the copies beside them.";

fn plan(function: &str, copies: &[Copies], numbers: usize) -> Result<()> {
    for &copies in copies.iter().filter(|_| numbers == 0) {
        if copies != Copies::PerRow {
            copies.plan(function, INSTEAD)?;
        }
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

impl Definition for Sfs {
    type Statistic = Spectra;
    const NAME: &'static str = "sfs";
    const COUNTS: usize = 1;
    const NUMBERS: &'static [&'static str] = &["n"];
    const OPTIONAL: usize = 1;
    const NUMBERS_VARY: bool = true;
    const REPORTS_LEFT_OUT: bool = true;

    fn return_type() -> DataType {
        list_of(DataType::Int64)
    }

    fn plan(copies: &[Copies], numbers: usize) -> Result<()> {
        plan(Self::NAME, copies, numbers)
    }

    fn statistic(call: &Call) -> Result<Self::Statistic> {
        spectra_of(Self::NAME, false, call)
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
    type Statistic = Spectra;
    const NAME: &'static str = "sfs_folded";
    const COUNTS: usize = 1;
    const NUMBERS: &'static [&'static str] = &["n"];
    const OPTIONAL: usize = 1;
    const NUMBERS_VARY: bool = true;
    const REPORTS_LEFT_OUT: bool = true;

    fn return_type() -> DataType {
        list_of(DataType::Int64)
    }

    fn plan(copies: &[Copies], numbers: usize) -> Result<()> {
        plan(Self::NAME, copies, numbers)
    }

    fn statistic(call: &Call) -> Result<Self::Statistic> {
        spectra_of(Self::NAME, true, call)
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
