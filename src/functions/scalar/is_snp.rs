//! `is_snp(variant_allele)`: whether a site is a single-nucleotide variant.

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl};

use super::alleles::is_base;
use super::strings::StringLists;
use super::support::{
    Inputs, booleans, check_arity, coerce_strings, document, function_identity, function_struct,
};

function_struct! {
    /// `is_snp(variant_allele)` → Boolean: whether there are at least two alleles and each is one base.
    IsSnp
}

fn documentation() -> Documentation {
    document(
        "Whether a site is a single-nucleotide variant: at least two alleles, each a single base (A, C, G, T or N, in either case). False for indels, `*` and symbolic alleles, and where there is no alternate allele.",
        "is_snp(variant_allele)",
        "SELECT is_snp(['A', 'C', 'T']); -- true",
        &[("variant_allele", "The site's alleles, the reference first.")],
    )
}

impl ScalarUDFImpl for IsSnp {
    function_identity!("is_snp");

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        check_arity("is_snp(variant_allele)", types, 1, 1)?;
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
            Some(alleles.len() >= 2 && alleles.all(|allele| allele.is_some_and(is_base)))
        });
        inputs.finish(array)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::scalar::testing::{bools, call, lists, null, strings};

    #[test]
    fn every_allele_is_one_base() {
        let rows = lists(&[
            Some(&[Some("A"), Some("C"), Some("t")]),
            Some(&[Some("A"), Some("CC")]),
            Some(&[Some("A"), Some("*")]),
            Some(&[Some("A"), Some("<DEL>")]),
            Some(&[Some("A")]),
            Some(&[]),
            Some(&[Some("A"), None]),
        ]);
        let expected = [true, false, false, false, false, false, false].map(Some);
        assert_eq!(call(IsSnp::new(), &[rows]).unwrap(), bools(&expected));
    }

    #[test]
    fn null_and_wrong_types() {
        assert_eq!(
            call(IsSnp::new(), &[lists(&[None])]).unwrap(),
            bools(&[None])
        );
        assert!(call(IsSnp::new(), &[null()]).is_ok());
        let error = call(IsSnp::new(), &[strings(&[Some("A")])])
            .unwrap_err()
            .to_string();
        assert!(error.contains("must be a list of strings"), "{error}");
    }
}
