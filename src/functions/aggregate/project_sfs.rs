//! `project_sfs(ac, m)` and `project_sfs_folded(ac, m)`: the spectrum projected to m copies, which gives sites with
//! missing calls their place.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, resources_err};
use datafusion::logical_expr::Documentation;

use super::cells::{CellsOf, SiteCells};
use super::definition::{Call, Definition, document_one};
use super::grid::{MAX_SPECTRUM_CELLS, cells_within, fold_spectrum, list_of, spectra, zeros};
use super::histogram::Histogram;
use super::places::{projectable, projection_size};
use super::projection::Projector;
use super::statistic::one_population;
use crate::functions::counts_arg::CountsView;

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
}

impl Projected {
    fn new(function: &'static str, folded: bool, call: &Call) -> Result<Self> {
        let copies = call.copies(0).known();
        let m = projection_size(function, "m", call.required_number(function, 0)?, copies)?;
        Ok(Self { function, copies, m, folded, projector: Projector::new(m) })
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

impl SiteCells for Projected {
    type Key = u64;
    type Input<'a> = CountsView<'a>;

    fn input(values: &[ArrayRef]) -> Result<CountsView<'_>> {
        one_population(values)
    }

    #[inline]
    fn cell(&self, sites: &CountsView<'_>, row: usize) -> Result<Option<u64>> {
        let site = projectable(self.function, self.copies, self.m, sites.row(row))?;
        Ok(site.map(|(n, d)| u64::from(n) << 32 | u64::from(d)))
    }

    fn is_valid(&self, cell: u64) -> bool {
        let (n, d) = unpack(cell);
        d <= n && n >= self.m
    }

    fn check_groups(&self, groups: usize) -> Result<()> {
        if cells_within(MAX_SPECTRUM_CELLS, u64::from(self.m) + 1, 1, groups).is_none() {
            return resources_err!(
                "{}: the spectra of {groups} groups, {} bins each, would hold more than {} bins; \
                 project to fewer copies",
                self.function,
                self.bins(),
                MAX_SPECTRUM_CELLS
            );
        }
        Ok(())
    }

    fn evaluate(&mut self, groups: &[Histogram<u64>]) -> Result<ArrayRef> {
        let bins = self.bins();
        let mut values: Vec<f64> = zeros(groups.len() * bins)?;
        let mut whole: Vec<f64> = zeros(self.projector.bins())?;
        let mut cells = Vec::new();
        for (group, out) in groups.iter().zip(values.chunks_exact_mut(bins)) {
            group.sorted(&mut cells);
            whole.fill(0.0);
            for &(cell, sites) in &cells {
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
    type Statistic = CellsOf<Projected>;
    const NAME: &'static str = "project_sfs";
    const COUNTS: usize = 1;
    const NUMBERS: &'static [&'static str] = &["m"];

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
             (hypergeometric; Gutenkunst et al. 2009). Sites with n < m are left out.",
            "project_sfs(ac, m)",
            "SELECT project_sfs(allele_counts(call_genotype, 'YRI'), 20) FROM t",
        )
        .with_argument("m", "Number of copies to project to, a constant, at least 1.")
        .with_related_udf("sfs")
        .with_related_udf("project_sfs_folded")
        .build()
    }
}

impl Definition for ProjectSfsFolded {
    type Statistic = CellsOf<Projected>;
    const NAME: &'static str = "project_sfs_folded";
    const COUNTS: usize = 1;
    const NUMBERS: &'static [&'static str] = &["m"];

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
        .with_argument("m", "Number of copies to project to, a constant, at least 1.")
        .with_related_udf("project_sfs")
        .build()
    }
}
