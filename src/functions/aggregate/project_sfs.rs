//! `project_sfs(ac, m)` and `project_sfs_folded(ac, m)`: the spectrum projected to m copies, which includes sites with
//! missing calls.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, resources_err};
use datafusion::logical_expr::Documentation;

use super::cells::{CellsOf, SiteCells};
use super::checked_counts::{projectable, projection_size};
use super::definition::{Call, Definition, document_one};
use super::grid::{MAX_SPECTRUM_CELLS, cells_within, fold_spectrum, list_of, spectra, zeros};
use super::histogram::Histogram;
use super::projection::Projector;
use crate::functions::interrupt;
use crate::scan::notices::LeftOut;

/// `project_sfs`.
#[derive(Debug)]
pub(crate) struct ProjectSfs;
/// `project_sfs_folded`.
#[derive(Debug)]
pub(crate) struct ProjectSfsFolded;

/// A projected spectrum, folded or not. A cell is n in the upper 32 bits and d in the lower.
#[derive(Debug)]
pub(crate) struct Projected {
    function: &'static str,
    copies: Option<u64>,
    m: u32,
    folded: bool,
    projector: Projector,
    too_few: LeftOut,
}

impl Projected {
    fn new(function: &'static str, folded: bool, call: &Call) -> Result<Self> {
        let copies = call.copies(0).known();
        let m = projection_size(function, "m", call.required_number(function, 0)?, copies)?;
        Ok(Self {
            function,
            copies,
            m,
            folded,
            projector: Projector::new(m),
            too_few: call.sites_with_fewer(function, &[m]),
        })
    }

    /// Bins of the result.
    fn bins(&self) -> usize {
        let m = self.m as usize;
        if self.folded { m / 2 + 1 } else { m + 1 }
    }
}

/// The n and d of a cell.
fn unpack(cell: u64) -> (u32, u32) {
    ((cell >> 32) as u32, cell as u32)
}

impl SiteCells<1> for Projected {
    type Key = u64;

    #[inline]
    fn cell(&self, [counts]: [&[i32]; 1]) -> Result<Option<u64>> {
        let site = projectable(self.function, self.copies, self.m, counts)?;
        Ok(site.map(|(n, d)| u64::from(n) << 32 | u64::from(d)))
    }

    fn value_cells(&self) -> usize {
        self.bins()
    }

    #[inline]
    fn note_left_out(&self, left_out: u64, seen: u64) {
        self.too_few.add(left_out, seen);
    }

    fn report_left_out(&self) {
        self.too_few.report();
    }

    fn is_valid(&self, cell: u64) -> bool {
        let (n, d) = unpack(cell);
        d <= n && n >= self.m
    }

    fn evaluate(&mut self, groups: &[Histogram<u64>]) -> Result<ArrayRef> {
        let bins = self.bins();
        let Some(cells) = cells_within(MAX_SPECTRUM_CELLS, bins as u64, 1, groups.len()) else {
            return resources_err!(
                "{}: the spectra of {} groups, {bins} bins each, would hold more than {} bins; \
                 project to fewer copies",
                self.function,
                groups.len(),
                MAX_SPECTRUM_CELLS
            );
        };
        let mut values: Vec<f64> = zeros(cells)?;
        let mut whole: Vec<f64> = zeros(self.projector.bins())?;
        let mut sorted = Vec::new();
        for (group, out) in groups.iter().zip(values.chunks_exact_mut(bins)) {
            group.sorted(&mut sorted);
            whole.fill(0.0);
            for &(cell, sites) in &sorted {
                interrupt::check()?;
                let (n, d) = unpack(cell);
                self.projector.add(n, d, sites as f64, &mut whole);
            }
            if self.folded {
                fold_spectrum(&whole, out);
            } else {
                out.copy_from_slice(&whole);
            }
        }
        spectra::<Float64Type>(groups.len(), bins, values)
    }

    fn heap_size(&self) -> usize {
        self.projector.heap_size()
    }
}

impl Definition for ProjectSfs {
    type Statistic = CellsOf<Projected, 1>;
    const NAME: &'static str = "project_sfs";
    const COUNTS: usize = 1;
    const NUMBERS: &'static [&'static str] = &["m"];
    const REPORTS_LEFT_OUT: bool = true;

    fn return_type() -> DataType {
        list_of(DataType::Float64)
    }

    fn statistic(call: &Call) -> Result<Self::Statistic> {
        Ok(CellsOf(Projected::new(Self::NAME, false, call)?))
    }

    fn documentation() -> Documentation {
        document_one(
            "The site frequency spectrum projected to m copies: m + 1 bins. Each site with n >= m \
             called copies, d of them derived, adds to bin j the probability that j of m copies \
             drawn without replacement are derived, C(d, j) C(n - d, m - j) / C(n, m) \
             (hypergeometric; Gutenkunst et al. 2009). Sites with n < m are left out, and a notice says \
             how many.",
            "project_sfs(ac, m)",
            "SELECT project_sfs(allele_counts(call_genotype, 'YRI'), 20) FROM t",
        )
        .with_argument(
            "m",
            "Number of copies to project to, a constant, at least 1.",
        )
        .with_related_udf("sfs")
        .with_related_udf("project_sfs_folded")
        .build()
    }
}

impl Definition for ProjectSfsFolded {
    type Statistic = CellsOf<Projected, 1>;
    const NAME: &'static str = "project_sfs_folded";
    const COUNTS: usize = 1;
    const NUMBERS: &'static [&'static str] = &["m"];
    const REPORTS_LEFT_OUT: bool = true;

    fn return_type() -> DataType {
        list_of(DataType::Float64)
    }

    fn statistic(call: &Call) -> Result<Self::Statistic> {
        Ok(CellsOf(Projected::new(Self::NAME, true, call)?))
    }

    fn documentation() -> Documentation {
        document_one(
            "The projected spectrum of project_sfs, then folded: floor(m / 2) + 1 bins, where \
             bins j and m - j are added.",
            "project_sfs_folded(ac, m)",
            "SELECT project_sfs_folded(allele_counts(call_genotype, 'YRI'), 20) FROM t",
        )
        .with_argument(
            "m",
            "Number of copies to project to, a constant, at least 1.",
        )
        .with_related_udf("project_sfs")
        .build()
    }
}

#[cfg(test)]
mod tests {
    use crate::functions::aggregate::harness::{Call, assert_close, floats, sites};

    #[test]
    fn by_hand() {
        // n = 4, d = 1 to 2 copies: C(3,2)/C(4,2) = 1/2 and 1/2. n = 3, d = 2: 0, 2/3, 1/3. n = 1 is left out.
        let column = sites(&[[3, 1], [1, 2], [1, 0]]);
        let expected = [0.5, 0.5 + 2.0 / 3.0, 1.0 / 3.0];
        let value = |name, copies| {
            let call = Call::new(name, &[copies], &[2]).unwrap();
            floats(&call.value(&[std::sync::Arc::clone(&column)]).unwrap())
        };
        assert_close(&value("project_sfs", Some(4)), &expected, 1e-15);
        assert_close(&value("project_sfs", None), &expected, 1e-15);
        let folded = [0.5 + 1.0 / 3.0, 0.5 + 2.0 / 3.0];
        assert_close(&value("project_sfs_folded", Some(4)), &folded, 1e-15);
    }
}
