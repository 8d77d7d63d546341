//! `interval_bins(start, stop, size)`: the windows that overlap an interval.

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

const SYNTAX: &str = "interval_bins(start, stop, size)";

function_struct! {
    /// `interval_bins(start, stop, size)` → List(Int64): every `genome_bin(position, size)` of the inclusive interval
    /// `start..=stop`, ascending. `start` must not be above `stop`, `size` must be positive.
    IntervalBins
}

fn documentation() -> Documentation {
    document(
        "Starts of the windows that the inclusive interval from start to stop touches, on the grid of genome_bin, for \
         UNNEST: genes, or any intervals, then join variants on equality of contig and window, and the exact bounds are a \
         cheap filter after that.",
        SYNTAX,
        "SELECT interval_bins(95, 205, 100); -- [1, 101, 201]",
        &[
            ("start", "First base of the interval, 1-based."),
            (
                "stop",
                "Last base of the interval, 1-based, not below start.",
            ),
            ("size", "Number of bases in a window, at least 1."),
        ],
    )
}

impl ScalarUDFImpl for IntervalBins {
    function_identity!("interval_bins");

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        check_arity(SYNTAX, types, 3, 3)?;
        Ok(vec![
            coerce_integer(self.name(), 0, "start", &types[0])?,
            coerce_integer(self.name(), 1, "stop", &types[1])?,
            coerce_integer(self.name(), 2, "size", &types[2])?,
        ])
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(BinLists::data_type())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        check_positive_constant(self.name(), &args, 2, "size")?;
        Ok(Arc::new(Field::new(
            self.name(),
            BinLists::data_type(),
            true,
        )))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let inputs = Inputs::new(self.name(), &args)?;
        let (starts, stops, sizes) = (
            inputs.integers(0)?,
            inputs.integers(1)?,
            inputs.integers(2)?,
        );
        let mut lists = BinLists::new("interval_bins", inputs.rows, &args.config_options)?;
        for row in 0..inputs.rows {
            let (Some(start), Some(stop), Some(size)) =
                (starts.get(row), stops.get(row), sizes.get(row))
            else {
                lists.push_null()?;
                continue;
            };
            if size <= 0 {
                return exec_err!("interval_bins: size must be a positive number, found {size}");
            }
            if start > stop {
                return exec_err!(
                    "interval_bins: start must not be above stop, found {start} and {stop}"
                );
            }
            let (Some(first), Some(last)) =
                (grid::bin_start(start, size), grid::bin_start(stop, size))
            else {
                return exec_err!(
                    "interval_bins: the interval from {start} to {stop} is out of range"
                );
            };
            // Both are on the grid and first <= last, so this is a whole number of steps.
            lists.push(first, last.abs_diff(first) / size.unsigned_abs() + 1, size)?;
        }
        inputs.finish(lists.finish()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::scalar::testing::{call, int, ints, show};

    #[test]
    fn touched_windows() {
        let starts = ints(&[Some(95), Some(1), Some(100), Some(101), None, Some(0)]);
        let stops = ints(&[Some(205), Some(1), Some(101), Some(200), Some(5), Some(0)]);
        let found = call(IntervalBins::new(), &[starts, stops, int(100)]).unwrap();
        assert_eq!(
            show(&found),
            ["[1, 101, 201]", "[1]", "[1, 101]", "[101]", "NULL", "[-99]"]
        );
    }

    #[test]
    fn intervals_are_checked() {
        let error = |start, stop, size| {
            call(IntervalBins::new(), &[int(start), int(stop), int(size)])
                .unwrap_err()
                .to_string()
        };
        assert!(error(5, 4, 10).contains("start must not be above stop, found 5 and 4"));
        assert!(error(4, 5, 0).contains("size must be a positive number"));
        assert!(error(1, i64::MAX, 1).contains("use larger windows"));
        assert!(error(i64::MIN, i64::MAX, 2).contains("out of range"));
    }
}
