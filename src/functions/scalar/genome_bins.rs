//! `genome_bins(position, size [, step])`: all overlapping windows that contain a position.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl,
};

use super::bin_lists::BinLists;
use super::support::{
    Inputs, check_arity, check_positive_constant, coerce_integer, document, function_identity,
    function_struct,
};
use crate::functions::numeric::grid;

const SYNTAX: &str = "genome_bins(position, size [, step])";

function_struct! {
    /// `genome_bins(position, size [, step])` → List(Int64): starts of all windows `[start, start + size)` that contain
    /// `position`, with start = 1 + k·step, k ≥ 0, ascending; empty if there are none. `size` and `step` must be positive;
    /// `step` defaults to `size`, which gives one window.
    GenomeBins
}

fn documentation() -> Documentation {
    document(
        "Starts of all windows [start, start + size) that hold a 1-based position, for UNNEST; windows start at 1, \
         1 + step, … (never below 1), the same grid as the table function genome_windows. The list is empty where there \
         is none: between windows when step is more than size, and below position 1.",
        SYNTAX,
        "SELECT genome_bins(25, 20, 10); -- [11, 21]",
        &[
            ("position", "A 1-based position."),
            ("size", "Number of bases in a window, at least 1."),
            (
                "step",
                "Distance between the starts of windows, at least 1; if left out, size.",
            ),
        ],
    )
}

impl ScalarUDFImpl for GenomeBins {
    function_identity!("genome_bins");

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        check_arity(SYNTAX, types, 2, 3)?;
        types
            .iter()
            .zip(["position", "size", "step"])
            .enumerate()
            .map(|(at, (data_type, name))| coerce_integer(self.name(), at, name, data_type))
            .collect()
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(BinLists::data_type())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        check_positive_constant(self.name(), &args, 1, "size")?;
        check_positive_constant(self.name(), &args, 2, "step")?;
        Ok(Arc::new(Field::new(
            self.name(),
            BinLists::data_type(),
            true,
        )))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let inputs = Inputs::new(self.name(), &args)?;
        let (positions, sizes) = (inputs.integers(0)?, inputs.integers(1)?);
        let steps = inputs.integers(if args.args.len() > 2 { 2 } else { 1 })?;
        let mut lists = BinLists::new("genome_bins", inputs.rows, &args.config_options)?;
        for row in 0..inputs.rows {
            let (Some(position), Some(size), Some(step)) =
                (positions.get(row), sizes.get(row), steps.get(row))
            else {
                lists.push_null()?;
                continue;
            };
            if size <= 0 || step <= 0 {
                return exec_err!(
                    "genome_bins: size and step must be positive numbers, found {size} and {step}"
                );
            }
            let (first, count) = grid::overlapping(position, size, step);
            lists.push(first, count, step)?;
        }
        inputs.finish(lists.finish()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::scalar::testing::{call, int, ints, show};

    #[test]
    fn overlapping_windows() {
        let positions = ints(&[Some(25), Some(1), Some(20), Some(0), None]);
        let found = call(GenomeBins::new(), &[positions, int(20), int(10)]).unwrap();
        assert_eq!(show(&found), ["[11, 21]", "[1]", "[1, 11]", "[]", "NULL"]);
        assert_eq!(
            show(&call(GenomeBins::new(), &[int(8), int(5), int(10)]).unwrap()),
            ["[]"]
        );
    }

    #[test]
    fn without_a_step_there_is_one_window() {
        let positions = ints(&[Some(25), Some(20), Some(0), None]);
        let found = call(GenomeBins::new(), &[positions, int(20)]).unwrap();
        assert_eq!(show(&found), ["[21]", "[1]", "[]", "NULL"]);
        let error = call(GenomeBins::new(), &[int(1), int(0)]).unwrap_err();
        assert!(error.to_string().contains("positive"), "{error}");
    }

    #[test]
    fn sizes_are_checked() {
        for (size, step) in [(0, 1), (1, 0), (-1, 1)] {
            let error = call(GenomeBins::new(), &[int(1), int(size), int(step)])
                .unwrap_err()
                .to_string();
            assert!(error.contains("positive"), "{error}");
        }
        let error = call(GenomeBins::new(), &[int(1 << 40), int(1 << 40), int(1)])
            .unwrap_err()
            .to_string();
        assert!(error.contains("use larger windows"), "{error}");
        let many = ints(&[Some(1 << 24); 5]);
        let error = call(GenomeBins::new(), &[many, int(1 << 24), int(1)])
            .unwrap_err()
            .to_string();
        assert!(error.contains("batch_size"), "{error}");
    }
}
