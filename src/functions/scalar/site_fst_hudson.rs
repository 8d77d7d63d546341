//! `site_fst_hudson(ac1, ac2)`: numerator and denominator of Hudson's FST at one site.

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl};

use super::populations::{map_ratios, ratio_type};
use super::support::{
    check_arity, coerce_all_counts, document, function_identity, function_struct,
};
use crate::functions::numeric::site;

const SYNTAX: &str = "site_fst_hudson(ac1, ac2)";

function_struct! {
    /// `site_fst_hudson(ac1, ac2)` → Struct(num, den) Float64: b − (w1 + w2)/2 and b, with w the site's diversities and b its
    /// divergence; NULL unless two copies are called in each population (Hudson et al. 1992, Bhatia et al. 2013).
    SiteFstHudson
}

fn documentation() -> Documentation {
    document(
        "Hudson's FST of one site as numerator and denominator: the ratio of their sums over sites is the estimate \
         (Bhatia et al. 2013), never the mean of ratios. NULL unless two copies are called in each population.",
        SYNTAX,
        "SELECT exact_sum(f['num']) / exact_sum(f['den'])\nFROM (SELECT site_fst_hudson(ac1, ac2) AS f FROM sites);",
        &[
            ("ac1", "Allele counts of the first population."),
            ("ac2", "Allele counts of the second population."),
        ],
    )
}

impl ScalarUDFImpl for SiteFstHudson {
    function_identity!("site_fst_hudson");

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        check_arity(SYNTAX, types, 2, 2)?;
        coerce_all_counts(self.name(), types)
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(ratio_type())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        map_ratios::<2>(self.name(), &args, |[first, second]| {
            site::fst_hudson_terms(first, second)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::scalar::testing::{call, counts, show};

    #[test]
    fn parts_of_hudsons_fst() {
        let first = counts(&[Some(&[4, 0]), Some(&[1, 1]), Some(&[1]), None]);
        let second = counts(&[Some(&[0, 4]), Some(&[1, 1]), Some(&[4]), Some(&[4])]);
        let found = call(SiteFstHudson::new(), &[first, second]).unwrap();
        assert_eq!(
            show(&found),
            [
                "{num: 1.0, den: 1.0}",
                "{num: -0.5, den: 0.5}",
                "NULL",
                "NULL"
            ]
        );
    }
}
