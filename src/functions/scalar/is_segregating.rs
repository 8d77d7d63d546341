//! `is_segregating(ac)`: whether a site is variable in the population.

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl};

use super::support::{
    COUNTS, Inputs, booleans, check_arity, coerce_all_counts, document, function_identity,
    function_struct,
};
use crate::functions::numeric::site;

function_struct! {
    /// `is_segregating(ac)` → Boolean: whether at least two alleles have a count above zero.
    IsSegregating
}

fn documentation() -> Documentation {
    document(
        "Whether at least two alleles have a count above zero, with or without the reference among them.",
        "is_segregating(ac)",
        "SELECT is_segregating([0, 4, 6]); -- true",
        &[COUNTS],
    )
}

impl ScalarUDFImpl for IsSegregating {
    function_identity!("is_segregating");

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        check_arity("is_segregating(ac)", types, 1, 1)?;
        coerce_all_counts(self.name(), types)
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let inputs = Inputs::new(self.name(), &args)?;
        let counts = inputs.counts(0)?;
        inputs.finish(booleans(inputs.rows, |row| {
            counts.get(row).map(site::is_segregating)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::scalar::testing::{bools, call, counts};

    #[test]
    fn needs_two_alleles() {
        let rows = counts(&[
            Some(&[0, 4, 6]),
            Some(&[0, 4]),
            None,
            Some(&[]),
            Some(&[1, 1]),
        ]);
        let expected = bools(&[Some(true), Some(false), None, Some(false), Some(true)]);
        assert_eq!(call(IsSegregating::new(), &[rows]).unwrap(), expected);
    }
}
