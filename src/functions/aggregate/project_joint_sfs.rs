//! `project_joint_sfs(ac1, ac2, m1, m2)` and `project_joint_sfs_folded(…)`: the joint spectrum projected to m1 and m2
//! copies.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, exec_err, resources_err};
use datafusion::logical_expr::{Documentation, DocumentationBuilder};

use super::cells::{CellsOf, SiteCells};
use super::checked_counts::{projectable, projection_size};
use super::definition::{Call, Definition, document_two};
use super::grid::{MAX_JOINT_CELLS, cells_within, fold_grid, grids, list_of, zeros};
use super::histogram::Histogram;
use super::projection::Projector;
use super::spread::Spread;
use crate::functions::interrupt;
use crate::scan::notices::LeftOut;

/// `project_joint_sfs`.
#[derive(Debug)]
pub(crate) struct ProjectJointSfs;
/// `project_joint_sfs_folded`.
#[derive(Debug)]
pub(crate) struct ProjectJointSfsFolded;

/// A projected joint spectrum, folded or not. A cell is n1, d1, n2, d2, of 32 bits each.
#[derive(Debug)]
pub(crate) struct ProjectedJoint {
    function: &'static str,
    copies: [Option<u64>; 2],
    m: [u32; 2],
    folded: bool,
    projectors: [Projector; 2],
    too_few: LeftOut,
}

impl ProjectedJoint {
    fn new(function: &'static str, folded: bool, call: &Call) -> Result<Self> {
        let copies = [call.copies(0).known(), call.copies(1).known()];
        let m1 = call.required_number(function, 0)?;
        let m2 = call.required_number(function, 1)?;
        let m = [
            projection_size(function, "m1", m1, copies[0])?,
            projection_size(function, "m2", m2, copies[1])?,
        ];
        let projected = Self {
            function,
            copies,
            m,
            folded,
            projectors: m.map(Projector::new),
            too_few: call.sites_with_fewer(function, &m),
        };
        match projected.cells(1) {
            Some(_) => Ok(projected),
            None => exec_err!("{}", projected.too_large(1)),
        }
    }

    /// Number of cells of the grids of `groups` groups, if that is within the limit.
    fn cells(&self, groups: usize) -> Option<usize> {
        let [rows, columns] = self.m.map(|m| u64::from(m) + 1);
        cells_within(MAX_JOINT_CELLS, rows, columns, groups)
    }

    fn too_large(&self, groups: usize) -> String {
        format!(
            "{}: {groups} joint spectra of ({} + 1) x ({} + 1) cells are more than the limit of \
             2^26 cells; project to fewer copies, or count sites with GROUP BY \
             derived_count(ac1), allele_number(ac1), derived_count(ac2), allele_number(ac2)",
            self.function, self.m[0], self.m[1]
        )
    }

    /// Adds `cells`, sorted, to `grid`.
    fn project(
        &mut self,
        cells: &[(u128, i64)],
        spread: &mut Spread,
        grid: &mut [f64],
    ) -> Result<()> {
        let [first, second] = &mut self.projectors;
        // All cells of one (n1, d1) have the same row weights: first sum their projections along a row, then add that line to all rows.
        for same_row in cells.chunk_by(|(a, _), (b, _)| a >> 64 == b >> 64) {
            let Some(&(cell, _)) = same_row.first() else {
                continue;
            };
            interrupt::check()?;
            let [n1, d1, ..] = unpack(cell);
            let (row, weights) = first.weights(n1, d1);
            spread.add(grid, row, weights, |line| {
                for &(cell, sites) in same_row {
                    let [_, _, n2, d2] = unpack(cell);
                    second.add(n2, d2, sites as f64, line);
                }
            });
        }
        spread.finish(grid);
        Ok(())
    }
}

/// The n1, d1, n2, d2 of a cell.
fn unpack(cell: u128) -> [u32; 4] {
    [96, 64, 32, 0].map(|shift| (cell >> shift) as u32)
}

impl SiteCells<2> for ProjectedJoint {
    type Key = u128;

    #[inline]
    fn cell(&self, [counts1, counts2]: [&[i32]; 2]) -> Result<Option<u128>> {
        let [copies1, copies2] = self.copies;
        let first = projectable(self.function, copies1, self.m[0], counts1)?;
        let second = projectable(self.function, copies2, self.m[1], counts2)?;
        Ok(first.zip(second).map(|((n1, d1), (n2, d2))| {
            let pack = |n, d| u128::from(u64::from(n) << 32 | u64::from(d));
            pack(n1, d1) << 64 | pack(n2, d2)
        }))
    }

    fn value_cells(&self) -> usize {
        self.projectors[0].bins() * self.projectors[1].bins()
    }

    #[inline]
    fn note_left_out(&self, left_out: u64, seen: u64) {
        self.too_few.add(left_out, seen);
    }

    fn report_left_out(&self) {
        self.too_few.report();
    }

    fn is_valid(&self, cell: u128) -> bool {
        let [n1, d1, n2, d2] = unpack(cell);
        d1 <= n1 && d2 <= n2 && n1 >= self.m[0] && n2 >= self.m[1]
    }

    fn evaluate(&mut self, groups: &[Histogram<u128>]) -> Result<ArrayRef> {
        let [rows, columns] = [self.projectors[0].bins(), self.projectors[1].bins()];
        let Some(cells) = self.cells(groups.len()) else {
            return resources_err!("{}", self.too_large(groups.len()));
        };
        let mut values: Vec<f64> = zeros(cells)?;
        let mut spread = Spread::new(columns);
        let mut sorted = Vec::new();
        for (group, grid) in groups.iter().zip(values.chunks_exact_mut(rows * columns)) {
            group.sorted(&mut sorted);
            self.project(&sorted, &mut spread, grid)?;
            if self.folded {
                fold_grid(grid, columns);
            }
        }
        grids::<Float64Type>(groups.len(), rows, columns, values)
    }

    fn heap_size(&self) -> usize {
        self.projectors.iter().map(Projector::heap_size).sum()
    }
}

fn with_sizes(documentation: DocumentationBuilder) -> DocumentationBuilder {
    documentation
        .with_argument(
            "m1",
            "Copies of the first population to project to, a constant.",
        )
        .with_argument(
            "m2",
            "Copies of the second population to project to, a constant.",
        )
}

impl Definition for ProjectJointSfs {
    type Statistic = CellsOf<ProjectedJoint, 2>;
    const NAME: &'static str = "project_joint_sfs";
    const COUNTS: usize = 2;
    const NUMBERS: &'static [&'static str] = &["m1", "m2"];
    const REPORTS_LEFT_OUT: bool = true;

    fn return_type() -> DataType {
        list_of(list_of(DataType::Float64))
    }

    fn statistic(call: &Call) -> Result<Self::Statistic> {
        Ok(CellsOf(ProjectedJoint::new(Self::NAME, false, call)?))
    }

    fn documentation() -> Documentation {
        with_sizes(document_two(
            "The joint spectrum of two populations, each projected hypergeometrically as in \
             project_sfs: (m1 + 1) x (m2 + 1) cells. Each site counts that has at least m1 and m2 \
             called copies.",
            "project_joint_sfs(ac1, ac2, m1, m2)",
            "SELECT project_joint_sfs(call_genotype, 'YRI', 'CEU', 20, 20) FROM t",
        ))
        .with_related_udf("joint_sfs")
        .with_related_udf("project_joint_sfs_folded")
        .build()
    }
}

impl Definition for ProjectJointSfsFolded {
    type Statistic = CellsOf<ProjectedJoint, 2>;
    const NAME: &'static str = "project_joint_sfs_folded";
    const COUNTS: usize = 2;
    const NUMBERS: &'static [&'static str] = &["m1", "m2"];
    const REPORTS_LEFT_OUT: bool = true;

    fn return_type() -> DataType {
        list_of(list_of(DataType::Float64))
    }

    fn statistic(call: &Call) -> Result<Self::Statistic> {
        Ok(CellsOf(ProjectedJoint::new(Self::NAME, true, call)?))
    }

    fn documentation() -> Documentation {
        with_sizes(document_two(
            "The projected joint spectrum of project_joint_sfs, then folded as joint_sfs_folded \
             does.",
            "project_joint_sfs_folded(ac1, ac2, m1, m2)",
            "SELECT project_joint_sfs_folded(call_genotype, 'YRI', 'CEU', 20, 20) FROM t",
        ))
        .with_related_udf("project_joint_sfs")
        .build()
    }
}

#[cfg(test)]
mod tests {
    use crate::functions::aggregate::harness::{Call, assert_close, floats, sites};

    #[test]
    fn by_hand() {
        // First: n = 4, d = 1 to 1 copy, 3/4 and 1/4. Second: n = 2, d = 1 to 1 copy, 1/2 and 1/2.
        // The second site, 2 of 2 and 0 of 1, falls into (1, 0); the third has no call in the second population.
        let columns = [
            sites(&[[3, 1], [0, 2], [1, 1]]),
            sites(&[[1, 1], [1, 0], [0, 0]]),
        ];
        let value = |name| {
            let call = Call::new(name, &[None, Some(2)], &[1, 1]).unwrap();
            floats(&call.value(&columns).unwrap())
        };
        assert_close(
            &value("project_joint_sfs"),
            &[0.375, 0.375, 1.125, 0.125],
            1e-15,
        );
        assert_close(
            &value("project_joint_sfs_folded"),
            &[0.5, 0.75, 0.75, 0.0],
            1e-15,
        );
    }
}
