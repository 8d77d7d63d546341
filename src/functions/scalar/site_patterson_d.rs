//! `site_patterson_d(a, b, c, d)`: the terms of Patterson's D of one site.

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl};

use super::populations::{map_ratios, ratio_type};
use super::support::{
    check_arity, coerce_all_counts, document, function_identity, function_struct,
};
use crate::functions::numeric::populations;

const SYNTAX: &str = "site_patterson_d(a, b, c, d)";

function_struct! {
    /// `site_patterson_d(a, b, c, d)` → Struct(num, den) Float64: BABA − ABBA and BABA + ABBA, whose sums have the ratio D (Patterson
    /// et al. 2012); NULL unless a copy is called in each population.
    SitePattersonD
}

fn documentation() -> Documentation {
    document(
        "Patterson's D of one site as numerator and denominator, BABA − ABBA and BABA + ABBA: the ratio of their sums over sites is patterson_d, and jackknife of their sums over blocks gives its standard error. NULL unless a copy is called in each population.",
        SYNTAX,
        "SELECT exact_sum(f['num']) / exact_sum(f['den'])\nFROM (SELECT site_patterson_d(a, b, c, d) AS f FROM sites);",
        &[
            ("a", "Allele counts of the first population."),
            ("b", "Allele counts of the second population."),
            ("c", "Allele counts of the third population."),
            ("d", "Allele counts of the fourth population."),
        ],
    )
}

impl ScalarUDFImpl for SitePattersonD {
    function_identity!("site_patterson_d");

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        check_arity(SYNTAX, types, 4, 4)?;
        coerce_all_counts(self.name(), types)
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(ratio_type())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        map_ratios::<4>(self.name(), &args, populations::patterson_d_terms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::scalar::testing::{call, counts, show};

    #[test]
    fn baba_is_positive() {
        let a = counts(&[Some(&[0, 1]), Some(&[1]), Some(&[1])]);
        let b = counts(&[Some(&[1]), Some(&[1, 1]), Some(&[1])]);
        let c = counts(&[Some(&[0, 1]), Some(&[0, 2]), None]);
        let d = counts(&[Some(&[1]), Some(&[2]), Some(&[1])]);
        let found = call(SitePattersonD::new(), &[a, b, c, d]).unwrap();
        let expected = ["{num: 1.0, den: 1.0}", "{num: -0.5, den: 0.5}", "NULL"];
        assert_eq!(show(&found), expected);
    }
}
