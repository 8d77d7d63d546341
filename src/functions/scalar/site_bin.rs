//! `site_bin(row_number, size)`: windows of a number of sites.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl,
};

use super::genome_bin::increases_with_first;
use super::support::{
    Inputs, check_arity, check_positive_constant, coerce_integer, document, function_identity,
    function_struct, numbers,
};

const SYNTAX: &str = "site_bin(row_number, size)";

function_struct! {
    /// `site_bin(row_number, size)` → Int64: 0 for rows 1 to `size`, 1 for the next `size`, …. `row_number` counts from 1,
    /// `size` must be positive.
    SiteBin
}

fn documentation() -> Documentation {
    document(
        "Windows of a number of sites: 0 for the rows 1 to size, 1 for the next size rows, and so on.",
        SYNTAX,
        "SELECT site_bin(row_number() OVER (PARTITION BY variant_contig ORDER BY variant_position), 1000) FROM t;",
        &[
            (
                "row_number",
                "Number of the site, counted from 1 as row_number() does.",
            ),
            ("size", "Number of sites in a window, at least 1."),
        ],
    )
}

impl ScalarUDFImpl for SiteBin {
    function_identity!("site_bin");

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        check_arity(SYNTAX, types, 2, 2)?;
        Ok(vec![
            coerce_integer(self.name(), 0, "row_number", &types[0])?,
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
        let (numbers_of_rows, sizes) = (inputs.integers(0)?, inputs.integers(1)?);
        let array = numbers::<Int64Type>(inputs.rows, |row| {
            match (numbers_of_rows.get(row), sizes.get(row)) {
                (Some(number), Some(size)) if number >= 1 && size >= 1 => {
                    Ok(Some((number - 1) / size))
                }
                (Some(number), Some(size)) => exec_err!(
                    "site_bin: row_number and size must be positive numbers, found {number} and {size}"
                ),
                _ => Ok(None),
            }
        })?;
        inputs.finish(array)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::scalar::testing::{call, int, ints};

    #[test]
    fn counts_windows_from_zero() {
        let rows = ints(&[Some(1), Some(3), Some(4), None, Some(i64::MAX)]);
        let expected = ints(&[Some(0), Some(0), Some(1), None, Some((i64::MAX - 1) / 3)]);
        assert_eq!(call(SiteBin::new(), &[rows, int(3)]).unwrap(), expected);
        for (row, size) in [(0, 5), (1, 0)] {
            assert!(
                call(SiteBin::new(), &[int(row), int(size)])
                    .unwrap_err()
                    .to_string()
                    .contains("positive")
            );
        }
    }
}
