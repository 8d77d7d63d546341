//! `is_pass(variant_filter)`: whether a site passed all filters.

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl};

use super::strings::StringLists;
use super::support::{
    Inputs, booleans, check_arity, coerce_strings, document, function_identity, function_struct,
};

function_struct! {
    /// `is_pass(variant_filter)` → Boolean: whether PASS, and nothing else, is recorded.
    IsPass
}

fn documentation() -> Documentation {
    document(
        "Whether a site passed all filters: `PASS` and nothing else is recorded. Sites that no filter was applied to (`.` in VCF, here the empty list) have not passed any, as in `bcftools view -f PASS`; add `OR cardinality(variant_filter) = 0` to keep them.",
        "is_pass(variant_filter)",
        "SELECT is_pass(['PASS']), is_pass(['q10']); -- true, false",
        &[(
            "variant_filter",
            "Names of the filters that apply; `PASS` alone where all were passed, empty where none was applied.",
        )],
    )
}

impl ScalarUDFImpl for IsPass {
    function_identity!("is_pass");

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        check_arity("is_pass(variant_filter)", types, 1, 1)?;
        Ok(vec![coerce_strings(
            self.name(),
            0,
            "variant_filter",
            &types[0],
        )?])
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let inputs = Inputs::new(self.name(), &args)?;
        let filters = StringLists::try_new(&inputs, 0)?;
        let array = booleans(inputs.rows, |row| {
            let mut filters = filters.get(row)?;
            Some(filters.len() == 1 && filters.all(|filter| filter == Some("PASS")))
        });
        inputs.finish(array)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::scalar::testing::{bools, call, lists, null, strings};

    #[test]
    fn pass_and_nothing_else() {
        let rows = lists(&[
            Some(&[Some("PASS")]),
            Some(&[]),
            Some(&[Some("q10")]),
            Some(&[Some("PASS"), Some("q10")]),
            Some(&[None]),
            Some(&[Some("pass")]),
        ]);
        let expected = [true, false, false, false, false, false].map(Some);
        assert_eq!(call(IsPass::new(), &[rows]).unwrap(), bools(&expected));
    }

    #[test]
    fn null_and_wrong_types() {
        assert_eq!(
            call(IsPass::new(), &[lists(&[None])]).unwrap(),
            bools(&[None])
        );
        assert!(call(IsPass::new(), &[null()]).is_ok());
        let error = call(IsPass::new(), &[strings(&[Some("A")])])
            .unwrap_err()
            .to_string();
        assert!(error.contains("must be a list of strings"), "{error}");
    }
}
