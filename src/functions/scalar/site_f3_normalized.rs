//! `site_f3_normalized(c, a, b)`: the terms of the normalised f3 of one site.

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl};

use super::populations::{map_ratios, ratio_type};
use super::support::{
    check_arity, coerce_all_counts, document, function_identity, function_struct,
};
use crate::functions::numeric::populations;

const SYNTAX: &str = "site_f3_normalized(c, a, b)";

function_struct! {
    /// `site_f3_normalized(c, a, b)` → Struct(num, den) Float64: f3 of the target c and c's diversity, whose sums have the ratio
    /// f3* (Patterson et al. 2012); NULL unless two copies are called in c and one in a and b.
    SiteF3Normalized
}

fn documentation() -> Documentation {
    document(
        "The normalised f3 of one site as numerator and denominator: site_f3 and the target's diversity. The ratio of their sums is f3_normalized. NULL unless two copies are called in c and one in a and b.",
        SYNTAX,
        "SELECT exact_sum(f['num']) / exact_sum(f['den'])\nFROM (SELECT site_f3_normalized(c, a, b) AS f FROM sites);",
        &[
            ("c", "Allele counts of the target."),
            ("a", "Allele counts of the first of the other populations."),
            ("b", "Allele counts of the second of the other populations."),
        ],
    )
}

impl ScalarUDFImpl for SiteF3Normalized {
    function_identity!("site_f3_normalized");

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        check_arity(SYNTAX, types, 3, 3)?;
        coerce_all_counts(self.name(), types)
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(ratio_type())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        map_ratios::<3>(self.name(), &args, populations::f3_terms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::scalar::testing::{call, counts, show};

    #[test]
    fn terms_of_a_ratio() {
        let target = counts(&[Some(&[1, 1]), Some(&[1]), None]);
        let first = counts(&[Some(&[1]), Some(&[4]), Some(&[4])]);
        let second = counts(&[Some(&[0, 1]), Some(&[4]), Some(&[4])]);
        let found = call(SiteF3Normalized::new(), &[target, first, second]).unwrap();
        assert_eq!(show(&found), ["{num: -0.5, den: 1.0}", "NULL", "NULL"]);
    }
}
