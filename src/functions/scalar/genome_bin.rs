//! `genome_bin(position, size)`: the window that contains a position.

use std::sync::Arc;

use arrow::array::Int64Array;
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl,
};

use super::support::{
    Inputs, check_arity, check_positive_constant, coerce_integer, document, function_identity,
    function_struct, numbers,
};
use crate::functions::numeric::grid;

const SYNTAX: &str = "genome_bin(position, size)";

function_struct! {
    /// `genome_bin(position, size)` → Int64: start of the window `[start, start + size)` that contains `position`; starts are
    /// 1, 1 + size, …. Positions below 1 lie in windows that continue the grid downwards. `size` must be positive.
    GenomeBin
}

fn documentation() -> Documentation {
    document(
        "Start of the window [start, start + size) that holds a 1-based position; windows start at 1, 1 + size, …. \
         (Position 0, which VCF allows for telomeres, lies in the window that starts at 1 − size.)",
        SYNTAX,
        "SELECT genome_bin(10001, 10000); -- 10001",
        &[
            ("position", "A 1-based position."),
            ("size", "Number of bases in a window, at least 1."),
        ],
    )
}

/// The ordering of the result of a function that increases with its first argument, if the others are constant.
pub(super) fn increases_with_first(inputs: &[ExprProperties]) -> SortProperties {
    match inputs {
        [first, others @ ..]
            if others
                .iter()
                .all(|other| other.sort_properties == SortProperties::Singleton) =>
        {
            first.sort_properties
        }
        _ => SortProperties::Unordered,
    }
}

impl ScalarUDFImpl for GenomeBin {
    function_identity!("genome_bin");

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        check_arity(SYNTAX, types, 2, 2)?;
        Ok(vec![
            coerce_integer(self.name(), 0, "position", &types[0])?,
            coerce_integer(self.name(), 1, "size", &types[1])?,
        ])
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        check_positive_constant(self.name(), &args, 1, "size")?;
        Ok(Arc::new(Field::new(self.name(), DataType::Int64, true)))
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(increases_with_first(inputs))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let inputs = Inputs::new(self.name(), &args)?;
        let (positions, sizes) = (inputs.integers(0)?, inputs.integers(1)?);
        let found = |start: Option<i64>, position: i64, size: i64| match start {
            Some(start) => Ok(start),
            None if size <= 0 => {
                exec_err!("genome_bin: size must be a positive number, found {size}")
            }
            None => exec_err!("genome_bin: position {position} is out of range"),
        };
        if let (Some(positions), Some(size)) = (positions.all(), sizes.constant()) {
            let mut bins = grid::Bins::new(size);
            // `collect` into a Result would not reserve the capacity.
            let mut starts = Vec::with_capacity(positions.len());
            for &position in positions {
                starts.push(found(bins.start(position), position, size)?);
            }
            return inputs.finish(Arc::new(Int64Array::from(starts)));
        }
        let array = numbers::<Int64Type>(inputs.rows, |row| {
            match (positions.get(row), sizes.get(row)) {
                (Some(position), Some(size)) => {
                    found(grid::bin_start(position, size), position, size).map(Some)
                }
                _ => Ok(None),
            }
        })?;
        inputs.finish(array)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::scalar::testing::{call, int, ints, null};

    #[test]
    fn windows_start_at_one() {
        let positions = ints(&[
            Some(1),
            Some(10_000),
            Some(10_001),
            None,
            Some(0),
            Some(5_000_000_000),
        ]);
        let expected = ints(&[
            Some(1),
            Some(1),
            Some(10_001),
            None,
            Some(-9_999),
            Some(4_999_990_001),
        ]);
        assert_eq!(
            call(GenomeBin::new(), &[positions, int(10_000)]).unwrap(),
            expected
        );
        assert_eq!(
            call(GenomeBin::new(), &[int(25), int(10)])
                .unwrap()
                .data_type(),
            DataType::Int64
        );
        let sizes = ints(&[Some(10), None, Some(7)]);
        let expected = ints(&[Some(21), None, Some(22)]);
        assert_eq!(call(GenomeBin::new(), &[int(25), sizes]).unwrap(), expected);
        assert!(call(GenomeBin::new(), &[null(), int(5)]).is_ok());
    }

    #[test]
    fn size_must_be_positive() {
        for size in [int(0), ints(&[Some(-4)])] {
            let error = call(GenomeBin::new(), &[ints(&[Some(1)]), size])
                .unwrap_err()
                .to_string();
            assert!(error.contains("size must be a positive number"), "{error}");
        }
        assert!(
            call(GenomeBin::new(), &[int(i64::MIN), int(5)])
                .unwrap_err()
                .to_string()
                .contains("out of range")
        );
    }
}
