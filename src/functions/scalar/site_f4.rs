//! `site_f4(a, b, c, d)`: f4 of one site.

use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl};

use super::populations::map_populations;
use super::support::{
    check_arity, coerce_all_counts, document, function_identity, function_struct,
};
use crate::functions::numeric::populations;

const SYNTAX: &str = "site_f4(a, b, c, d)";

function_struct! {
    /// `site_f4(a, b, c, d)` → Float64: (d_ad + d_bc − d_ac − d_bd)/2 (Patterson et al. 2012); NULL unless a copy is called in each
    /// population.
    SiteF4
}

fn documentation() -> Documentation {
    document(
        "f4 of one site: (d_ad + d_bc − d_ac − d_bd)/2, d the divergence of a pair, which is half the sum over alleles of (a − b)(c − d) of frequencies. NULL unless a copy is called in each population.",
        SYNTAX,
        "SELECT avg(site_f4(a, b, c, d)) FROM sites;",
        &[
            ("a", "Allele counts of the first population."),
            ("b", "Allele counts of the second population."),
            ("c", "Allele counts of the third population."),
            ("d", "Allele counts of the fourth population."),
        ],
    )
}

impl ScalarUDFImpl for SiteF4 {
    function_identity!("site_f4");

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        check_arity(SYNTAX, types, 4, 4)?;
        coerce_all_counts(self.name(), types)
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        map_populations::<Float64Type, 4>(self.name(), &args, |rows| Ok(populations::site_f4(rows)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::scalar::testing::{call, counts, floats};

    #[test]
    fn needs_a_copy_of_each() {
        let a = counts(&[Some(&[1]), Some(&[4]), Some(&[1])]);
        let b = counts(&[Some(&[0, 1]), Some(&[1, 1]), Some(&[1])]);
        let c = counts(&[Some(&[1]), Some(&[2, 2]), Some(&[1])]);
        let d = counts(&[Some(&[0, 1]), Some(&[0, 1]), Some(&[0])]);
        let expected = floats(&[Some(1.0), Some(0.25), None]);
        assert_eq!(call(SiteF4::new(), &[a, b, c, d]).unwrap(), expected);
    }
}
