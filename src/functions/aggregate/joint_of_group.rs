//! [`JointSpectrumOfGroup`]: joint spectra whose populations' numbers of copies are values of each site, the same in a group.

use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType, ListArray, PrimitiveArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{Field, Float64Type, Int64Type};
use datafusion::common::{Result, exec_err};

use super::cells_by_group::GroupGrid;
use super::checked_counts::{complete, given_copies};
use super::grid::{MAX_JOINT_CELLS, fold_grid, list_of};

/// What to use if N is not known or the grid is too large.
pub(super) const INSTEAD: &str = "Give them as numbers after the counts, use project_joint_sfs(ac1, ac2, m1, m2), or count sites with GROUP BY \
                       derived_count(ac1), allele_number(ac1), derived_count(ac2), \
                       allele_number(ac2).";

/// Bits of a shape that hold the second number of copies; the others hold the first.
const BITS: u32 = 16;

/// The joint spectra of groups, folded or not. Cells are numbered row by row.
#[derive(Debug)]
pub(crate) struct JointSpectrumOfGroup {
    function: &'static str,
    folded: bool,
    /// The populations' numbers of copies, if the counts carry them.
    known: [Option<u64>; 2],
}

/// The numbers of copies of a shape.
fn copies_of(shape: u32) -> [u64; 2] {
    [shape >> BITS, shape & ((1 << BITS) - 1)].map(u64::from)
}

impl JointSpectrumOfGroup {
    /// For populations of `known` numbers of copies, if the counts carry them.
    pub(super) fn new(function: &'static str, folded: bool, known: [Option<u64>; 2]) -> Self {
        Self {
            function,
            folded,
            known,
        }
    }

    /// A list of the grids, NULL where a group has no shape.
    fn grids<T: ArrowPrimitiveType>(
        shapes: &[Option<u32>],
        cells: Vec<T::Native>,
    ) -> Result<ArrayRef> {
        let axes = |shape: u32| copies_of(shape).map(|copies| copies as usize + 1);
        let rows = shapes
            .iter()
            .map(|shape| shape.map_or(0, |shape| axes(shape)[0]));
        let columns = shapes.iter().flatten().flat_map(|shape| {
            let [rows, columns] = axes(*shape);
            std::iter::repeat_n(columns, rows)
        });
        let values = PrimitiveArray::<T>::from_iter_values(cells);
        let lines = ListArray::try_new(
            Arc::new(Field::new_list_field(T::DATA_TYPE, true)),
            OffsetBuffer::from_lengths(columns),
            Arc::new(values),
            None,
        )?;
        Ok(Arc::new(ListArray::try_new(
            Arc::new(Field::new_list_field(list_of(T::DATA_TYPE), true)),
            OffsetBuffer::from_lengths(rows),
            Arc::new(lines),
            Some(shapes.iter().map(Option::is_some).collect()),
        )?))
    }
}

impl GroupGrid<2> for JointSpectrumOfGroup {
    const MAX_CELLS: u64 = MAX_JOINT_CELLS;

    fn function(&self) -> &'static str {
        self.function
    }

    fn instead(&self) -> &'static str {
        INSTEAD
    }

    fn shape(&self, [n1, n2]: [i64; 2]) -> Result<u32> {
        let [known1, known2] = self.known;
        let copies1 = given_copies(self.function, "n1", n1, known1)?;
        let copies2 = given_copies(self.function, "n2", n2, known2)?;
        match (u16::try_from(copies1), u16::try_from(copies2)) {
            (Ok(copies1), Ok(copies2))
                if (u64::from(copies1) + 1) * (u64::from(copies2) + 1) <= MAX_JOINT_CELLS =>
            {
                Ok(u32::from(copies1) << BITS | u32::from(copies2))
            }
            _ => exec_err!(
                "{}: a joint spectrum of ({n1} + 1) x ({n2} + 1) cells is too large where n1 and n2 are not constants. {INSTEAD}",
                self.function
            ),
        }
    }

    fn copies(&self, shape: u32) -> String {
        let [copies1, copies2] = copies_of(shape);
        format!("{copies1} x {copies2}")
    }

    fn cells(&self, shape: u32) -> u64 {
        let [copies1, copies2] = copies_of(shape);
        (copies1 + 1) * (copies2 + 1)
    }

    fn cell(&self, shape: u32, [counts1, counts2]: [&[i32]; 2]) -> Result<Option<u32>> {
        let [copies1, copies2] = copies_of(shape);
        let derived1 = complete(self.function, copies1, counts1)?;
        let derived2 = complete(self.function, copies2, counts2)?;
        let cell = derived1
            .zip(derived2)
            .map(|(d1, d2)| d1 * (copies2 + 1) + d2);
        // Fewer than the limit on cells.
        Ok(cell.map(|cell| cell as u32))
    }

    fn values(&self, shapes: &[Option<u32>], cells: Vec<i64>) -> Result<ArrayRef> {
        if !self.folded {
            return Self::grids::<Int64Type>(shapes, cells);
        }
        let mut cells: Vec<f64> = cells.into_iter().map(|sites| sites as f64).collect();
        let mut rest = cells.as_mut_slice();
        for shape in shapes.iter().flatten() {
            let [_, copies2] = copies_of(*shape);
            // The cells are those of the shapes.
            let (grid, others) = rest.split_at_mut(self.cells(*shape) as usize);
            fold_grid(grid, copies2 as usize + 1);
            rest = others;
        }
        Self::grids::<Float64Type>(shapes, cells)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Array, ArrayRef, Int64Array};
    use arrow::datatypes::{DataType, Field};
    use arrow::util::display::{ArrayFormatter, FormatOptions};
    use datafusion::logical_expr::EmitTo;

    use crate::functions::aggregate::harness::{self, counts, counts_field};

    fn call(name: &str) -> harness::Call {
        let number = |name| Field::new(name, DataType::Int64, true);
        let fields = vec![
            counts_field("ac1", None),
            counts_field("ac2", None),
            number("n1"),
            number("n2"),
        ];
        harness::Call::on(name, fields, &[]).unwrap()
    }

    /// Sites of a pair with 2 and 1 copies, of one with 1 and 2, one of each with missing copies, and a NULL.
    fn sites() -> [ArrayRef; 4] {
        let first = counts(&[
            Some(vec![1, 1]),
            Some(vec![0, 2]),
            Some(vec![1, 0]),
            Some(vec![0, 1]),
            Some(vec![1, 0]),
            None,
        ]);
        let second = counts(&[
            Some(vec![1, 0]),
            Some(vec![0, 1]),
            Some(vec![1, 0]),
            Some(vec![1, 1]),
            Some(vec![1, 0]),
            Some(vec![1, 0]),
        ]);
        let numbers = |numbers: [i64; 6]| Arc::new(Int64Array::from(numbers.to_vec())) as ArrayRef;
        [
            first,
            second,
            numbers([2, 2, 2, 1, 1, 2]),
            numbers([1, 1, 1, 2, 2, 1]),
        ]
    }

    const GROUPS: [usize; 6] = [0, 0, 0, 1, 1, 2];

    fn shown(array: &ArrayRef) -> Vec<String> {
        let options = FormatOptions::default().with_null("NULL");
        let formatter = ArrayFormatter::try_new(array, &options).unwrap();
        (0..array.len())
            .map(|row| formatter.value(row).to_string())
            .collect()
    }

    #[test]
    fn each_pair_has_its_own_shape() {
        for (name, expected) in [
            (
                "joint_sfs",
                ["[[0, 0], [1, 0], [0, 1]]", "[[0, 0, 0], [0, 1, 0]]", "NULL"],
            ),
            (
                "joint_sfs_folded",
                [
                    "[[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]",
                    "[[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]",
                    "NULL",
                ],
            ),
        ] {
            let call = call(name);
            let mut at_once = call.accumulators().1;
            at_once.update_batch(&sites(), &GROUPS, None, 3).unwrap();
            assert_eq!(shown(&at_once.evaluate(EmitTo::All).unwrap()), expected);
            let (mut partial, mut merged) = (call.accumulators().1, call.accumulators().1);
            let singly = partial.convert_to_state(&sites(), None).unwrap();
            merged.merge_batch(&singly, &GROUPS, 3).unwrap();
            assert_eq!(shown(&merged.evaluate(EmitTo::All).unwrap()), expected);
            partial.update_batch(&sites(), &GROUPS, None, 3).unwrap();
            let states = partial.state(EmitTo::All).unwrap();
            let mut merged = call.accumulators().1;
            merged.merge_batch(&states, &[0, 1, 2], 3).unwrap();
            assert_eq!(shown(&merged.evaluate(EmitTo::All).unwrap()), expected);
        }
    }

    #[test]
    fn pairs_of_one_group_have_one_shape() {
        let mut one = call("joint_sfs").accumulators().1;
        one.update_batch(&sites(), &[0; 6], None, 1).unwrap();
        let error = one.evaluate(EmitTo::All).unwrap_err().to_string();
        assert!(
            error.contains("with 1 x 2 and with 2 x 1 copies"),
            "{error}"
        );
    }

    #[test]
    fn numbers_that_are_none() {
        let of = |n: i64| {
            let mut one = call("joint_sfs").accumulators().1;
            let number = |n| Arc::new(Int64Array::from(vec![n])) as ArrayRef;
            let ac = || counts(&[Some(vec![3, 1])]);
            let columns = [ac(), ac(), number(n), number(4)];
            let added = one.update_batch(&columns, &[0], None, 1);
            added.unwrap_err().to_string()
        };
        assert!(of(-4).contains("n1, the population's number of copies, must not be negative"));
        assert!(of(1 << 20).contains("too large"));
        assert!(of(65_536).contains("too large"));
        assert!(of(3).contains("more than the 3 of its population"));
    }
}
