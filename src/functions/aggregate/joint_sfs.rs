//! `joint_sfs(ac1, ac2 [, n1, n2])` and `joint_sfs_folded(ac1, ac2 [, n1, n2])`: the joint spectrum of the sites that are complete in both
//! populations.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::common::{Result, exec_err, plan_err, resources_err};
use datafusion::logical_expr::Documentation;

use super::cells::SiteCells;
use super::cells_by_group::CellsByGroup;
use super::checked_counts::{complete, given_copies};
use super::definition::{Call, Copies, Definition, document_two};
use super::grid::{MAX_JOINT_CELLS, cells_within, fold_grid, grids, list_of, zeros};
use super::histogram::Histogram;
use super::joint_of_group::{INSTEAD, JointSpectrumOfGroup};
use crate::scan::notices::LeftOut;

/// `joint_sfs`.
#[derive(Debug)]
pub(crate) struct JointSfs;
/// `joint_sfs_folded`.
#[derive(Debug)]
pub(crate) struct JointSfsFolded;

/// What the numbers after the counts are.
const COPIES: &str = "The population's number of copies, for counts that do not carry it: a constant or, with GROUP BY, a value that is \
                      the same for all sites of a group; n1 and n2 are given together. If left out, those of the counts; counts of \
                      population_pair_counts take the copies beside them.";

/// The joint spectrum of two populations, folded or not. Cells are numbered row by row.
#[derive(Debug)]
pub(crate) struct JointSpectrum {
    function: &'static str,
    copies: [u64; 2],
    folded: bool,
    rows: usize,
    columns: usize,
    incomplete: LeftOut,
}

/// Number of cells of the grids of `groups` groups, if that is within the limit.
fn cells(copies: [u64; 2], groups: usize) -> Option<usize> {
    let [rows, columns] = copies.map(|copies| copies.saturating_add(1));
    cells_within(MAX_JOINT_CELLS, rows, columns, groups)
}

fn too_large(function: &str, copies: [u64; 2], groups: usize) -> String {
    format!(
        "{function}: {groups} joint spectra of ({} + 1) x ({} + 1) cells are more than the limit \
         of 2^26 cells. {INSTEAD}",
        copies[0], copies[1]
    )
}

fn plan(function: &str, copies: &[Copies], numbers: usize) -> Result<()> {
    match numbers {
        0 => {}
        1 => {
            return plan_err!(
                "{function}: n2 is missing; give the numbers of copies of both populations, or of none"
            );
        }
        _ => return Ok(()),
    }
    for copies in copies.iter().filter(|copies| **copies != Copies::PerRow) {
        copies.plan(function, INSTEAD)?;
    }
    if let [Copies::Known(copies1), Copies::Known(copies2)] = *copies
        && cells([copies1, copies2], 1).is_none()
    {
        return plan_err!("{}", too_large(function, [copies1, copies2], 1));
    }
    Ok(())
}

/// The statistic.
pub(crate) type JointSpectra = CellsByGroup<JointSpectrum, JointSpectrumOfGroup, 2>;

/// The statistic of a call.
fn joint_spectra_of(function: &'static str, folded: bool, call: &Call) -> Result<JointSpectra> {
    if !call.number_varies {
        let spectrum = JointSpectrum::new(function, folded, call)?;
        return Ok(JointSpectra::of_one(spectrum));
    }
    let known = [call.copies(0).known(), call.copies(1).known()];
    let grid = JointSpectrumOfGroup::new(function, folded, known);
    Ok(JointSpectra::of_groups(function, grid, call))
}

impl JointSpectrum {
    fn new(function: &'static str, folded: bool, call: &Call) -> Result<Self> {
        let copies = match (call.number(0), call.number(1)) {
            (Some(n1), Some(n2)) => [
                given_copies(function, "n1", n1, call.copies(0).known())?,
                given_copies(function, "n2", n2, call.copies(1).known())?,
            ],
            _ => [
                call.copies(0).required(function, INSTEAD)?,
                call.copies(1).required(function, INSTEAD)?,
            ],
        };
        if cells(copies, 1).is_none() {
            return exec_err!("{}", too_large(function, copies, 1));
        }
        // Both fit a usize, because the number of cells is within the limit.
        let [rows, columns] = copies.map(|copies| copies as usize + 1);
        Ok(Self {
            function,
            copies,
            folded,
            rows,
            columns,
            incomplete: call.incomplete_sites(function, &copies),
        })
    }

    /// Writes the cells of `groups` to `grids`.
    fn fill<T>(&self, groups: &[Histogram<u64>], grids: &mut [T], value: impl Fn(i64) -> T) {
        for (group, grid) in groups.iter().zip(grids.chunks_exact_mut(self.domain())) {
            group.for_each(|cell, sites| {
                // Every cell was checked when it was added.
                if let Some(count) = grid.get_mut(cell as usize) {
                    *count = value(sites);
                }
            });
        }
    }
}

impl SiteCells<2> for JointSpectrum {
    type Key = u64;

    #[inline(always)] // once per row, in the loop over them
    fn cell(&self, [counts1, counts2]: [&[i32]; 2]) -> Result<Option<u64>> {
        let [copies1, copies2] = self.copies;
        let derived1 = complete(self.function, copies1, counts1)?;
        let derived2 = complete(self.function, copies2, counts2)?;
        Ok(derived1
            .zip(derived2)
            .map(|(d1, d2)| d1 * (copies2 + 1) + d2))
    }

    fn domain(&self) -> usize {
        self.rows * self.columns
    }

    fn value_cells(&self) -> usize {
        self.domain()
    }

    #[inline]
    fn note_left_out(&self, left_out: u64, seen: u64) {
        self.incomplete.add(left_out, seen);
    }

    fn report_left_out(&self) {
        self.incomplete.report();
    }

    fn is_valid(&self, cell: u64) -> bool {
        cell < self.domain() as u64
    }

    fn check_groups(&self, groups: usize) -> Result<()> {
        match cells(self.copies, groups) {
            Some(_) => Ok(()),
            None => resources_err!("{}", too_large(self.function, self.copies, groups)),
        }
    }

    fn evaluate(&mut self, groups: &[Histogram<u64>]) -> Result<ArrayRef> {
        let cells = groups.len() * self.domain();
        if !self.folded {
            let mut values: Vec<i64> = zeros(cells)?;
            self.fill(groups, &mut values, |sites| sites);
            return grids::<Int64Type>(groups.len(), self.rows, self.columns, values);
        }
        let mut values: Vec<f64> = zeros(cells)?;
        self.fill(groups, &mut values, |sites| sites as f64);
        values
            .chunks_exact_mut(self.domain())
            .for_each(|grid| fold_grid(grid, self.columns));
        grids::<Float64Type>(groups.len(), self.rows, self.columns, values)
    }
}

impl Definition for JointSfs {
    type Statistic = JointSpectra;
    const NAME: &'static str = "joint_sfs";
    const COUNTS: usize = 2;
    const NUMBERS: &'static [&'static str] = &["n1", "n2"];
    const OPTIONAL: usize = 2;
    const NUMBERS_VARY: bool = true;
    const REPORTS_LEFT_OUT: bool = true;

    fn return_type() -> DataType {
        list_of(list_of(DataType::Int64))
    }

    fn plan(copies: &[Copies], numbers: usize) -> Result<()> {
        plan(Self::NAME, copies, numbers)
    }

    fn statistic(call: &Call) -> Result<Self::Statistic> {
        joint_spectra_of(Self::NAME, false, call)
    }

    fn documentation() -> Documentation {
        document_two(
            "The joint site frequency spectrum of two populations: (N1 + 1) x (N2 + 1) cells, \
             where N1 and N2 are their numbers of copies, and cell (i, j) counts the sites with i \
             derived copies in the first and j in the second. Only sites with every copy called \
             in both count. More than 2^26 cells over all groups are an error: project, or count \
             sites with GROUP BY derived_count(ac1), derived_count(ac2).",
            "joint_sfs(ac1, ac2 [, n1] [, n2])",
            "SELECT joint_sfs(call_genotype, 'YRI', 'CEU') FROM t",
        )
        .with_argument("n1", COPIES)
        .with_argument("n2", COPIES)
        .with_related_udf("joint_sfs_folded")
        .with_related_udf("project_joint_sfs")
        .build()
    }
}

impl Definition for JointSfsFolded {
    type Statistic = JointSpectra;
    const NAME: &'static str = "joint_sfs_folded";
    const COUNTS: usize = 2;
    const NUMBERS: &'static [&'static str] = &["n1", "n2"];
    const OPTIONAL: usize = 2;
    const NUMBERS_VARY: bool = true;
    const REPORTS_LEFT_OUT: bool = true;

    fn return_type() -> DataType {
        list_of(list_of(DataType::Float64))
    }

    fn plan(copies: &[Copies], numbers: usize) -> Result<()> {
        plan(Self::NAME, copies, numbers)
    }

    fn statistic(call: &Call) -> Result<Self::Statistic> {
        joint_spectra_of(Self::NAME, true, call)
    }

    fn documentation() -> Documentation {
        document_two(
            "The folded joint spectrum, on the same grid as joint_sfs: cells with i + j over half \
             of N1 + N2 move to (N1 - i, N2 - j), and cells at exactly half are split evenly \
             between the two, hence floating point.",
            "joint_sfs_folded(ac1, ac2 [, n1] [, n2])",
            "SELECT joint_sfs_folded(call_genotype, 'YRI', 'CEU') FROM t",
        )
        .with_argument("n1", COPIES)
        .with_argument("n2", COPIES)
        .with_related_udf("joint_sfs")
        .with_related_udf("project_joint_sfs_folded")
        .build()
    }
}

#[cfg(test)]
mod tests {
    use crate::functions::aggregate::harness::{Call, floats, integers, sites};

    #[test]
    fn by_hand() {
        // N1 = 2, N2 = 1: a grid of 3 x 2.
        let first = sites(&[[2, 0], [1, 1], [0, 2], [0, 2], [1, 0]]);
        let second = sites(&[[0, 1], [1, 0], [0, 1], [1, 0], [1, 0]]);
        let columns = [first, second];
        let call = Call::new("joint_sfs", &[Some(2), Some(1)], &[]).unwrap();
        assert_eq!(integers(&call.value(&columns).unwrap()), [0, 1, 1, 0, 1, 1]);
        // Over half of 3: (2, 0) joins (0, 1), (2, 1) joins (0, 0), (1, 1) would join (1, 0).
        let call = Call::new("joint_sfs_folded", &[Some(2), Some(1)], &[]).unwrap();
        assert_eq!(
            floats(&call.value(&columns).unwrap()),
            [1.0, 2.0, 1.0, 0.0, 0.0, 0.0]
        );
    }

    #[test]
    fn ties_are_split() {
        // N1 = N2 = 1: (0, 1) and (1, 0) are at half, and each other's mirror.
        let columns = [
            sites(&[[1, 0], [1, 0], [1, 0]]),
            sites(&[[0, 1], [0, 1], [0, 1]]),
        ];
        let call = Call::new("joint_sfs_folded", &[Some(1), Some(1)], &[]).unwrap();
        assert_eq!(floats(&call.value(&columns).unwrap()), [0.0, 1.5, 1.5, 0.0]);
    }
}
