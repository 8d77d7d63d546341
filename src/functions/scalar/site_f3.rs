//! `site_f3(c, a, b)`: f3 of one site.

use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl};

use super::populations::map_populations;
use super::support::{
    check_arity, coerce_all_counts, document, function_identity, function_struct,
};
use crate::functions::numeric::populations;

const SYNTAX: &str = "site_f3(c, a, b)";

function_struct! {
    /// `site_f3(c, a, b)` → Float64: (d_ca + d_cb − d_ab − pi_c)/2, f3 of the target c (Patterson et al. 2012); NULL unless two
    /// copies are called in c and one in a and b.
    SiteF3
}

fn documentation() -> Documentation {
    document(
        "f3 of one site for the target c: (d_ca + d_cb − d_ab − pi_c)/2, d the divergence of a pair and pi_c the target's diversity. NULL unless two copies are called in c and one in a and b.",
        SYNTAX,
        "SELECT avg(site_f3(c, a, b)) FROM sites;",
        &[
            ("c", "Allele counts of the target."),
            ("a", "Allele counts of the first of the other populations."),
            ("b", "Allele counts of the second of the other populations."),
        ],
    )
}

impl ScalarUDFImpl for SiteF3 {
    function_identity!("site_f3");

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        check_arity(SYNTAX, types, 3, 3)?;
        coerce_all_counts(self.name(), types)
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        map_populations::<Float64Type, 3>(self.name(), &args, |rows| {
            Ok(populations::f3_terms(rows).map(|(f3, _)| f3))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::scalar::testing::{call, counts, floats};

    #[test]
    fn the_target_comes_first() {
        let target = counts(&[Some(&[4]), Some(&[1, 1]), Some(&[1])]);
        let first = counts(&[Some(&[0, 1]), Some(&[1]), Some(&[4])]);
        let second = counts(&[Some(&[0, 4]), Some(&[0, 1]), Some(&[4])]);
        let expected = floats(&[Some(1.0), Some(-0.5), None]);
        let found = call(SiteF3::new(), &[target, first, second]).unwrap();
        assert_eq!(found, expected);
    }
}
