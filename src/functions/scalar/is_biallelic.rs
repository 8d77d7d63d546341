//! `is_biallelic(variant_allele)`: whether a site has exactly two alleles, neither of them `*` or symbolic.

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl};

use super::alleles::is_sequence;
use super::strings::StringLists;
use super::support::{
    Inputs, booleans, check_arity, coerce_strings, document, function_identity, function_struct,
};

function_struct! {
    /// `is_biallelic(variant_allele)` → Boolean: whether there are exactly two alleles, neither of them `*` or symbolic.
    IsBiallelic
}

fn documentation() -> Documentation {
    document(
        "Whether a site has exactly two alleles, neither of them `*` or symbolic; indels are biallelic too. It is about the alleles that the file lists, not about those seen in a population: for that see `is_segregating`.",
        "is_biallelic(variant_allele)",
        "SELECT is_biallelic(['A', 'ACC']); -- true",
        &[("variant_allele", "The site's alleles, the reference first.")],
    )
}

impl ScalarUDFImpl for IsBiallelic {
    function_identity!("is_biallelic");

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        check_arity("is_biallelic(variant_allele)", types, 1, 1)?;
        Ok(vec![coerce_strings(
            self.name(),
            0,
            "variant_allele",
            &types[0],
        )?])
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let inputs = Inputs::new(self.name(), &args)?;
        let alleles = StringLists::try_new(&inputs, 0)?;
        let array = booleans(inputs.rows, |row| {
            let mut alleles = alleles.get(row)?;
            Some(alleles.len() == 2 && alleles.all(|allele| allele.is_some_and(is_sequence)))
        });
        inputs.finish(array)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::scalar::testing::{bools, call, lists, null, strings};

    #[test]
    fn exactly_two_sequences() {
        let rows = lists(&[
            Some(&[Some("A"), Some("CC")]),
            Some(&[Some("A"), Some("C"), Some("T")]),
            Some(&[Some("A"), Some("*")]),
            Some(&[Some("A"), Some("<NON_REF>")]),
            Some(&[Some("A"), Some("A[2:7[")]),
            Some(&[Some("A")]),
            Some(&[Some("A"), None]),
        ]);
        let expected = [true, false, false, false, false, false, false].map(Some);
        assert_eq!(call(IsBiallelic::new(), &[rows]).unwrap(), bools(&expected));
    }

    #[test]
    fn null_and_wrong_types() {
        assert_eq!(
            call(IsBiallelic::new(), &[lists(&[None])]).unwrap(),
            bools(&[None])
        );
        assert!(call(IsBiallelic::new(), &[null()]).is_ok());
        let error = call(IsBiallelic::new(), &[strings(&[Some("A")])])
            .unwrap_err()
            .to_string();
        assert!(error.contains("must be a list of strings"), "{error}");
    }
}
