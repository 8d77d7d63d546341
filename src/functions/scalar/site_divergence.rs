//! `site_divergence(ac1, ac2)`: divergence of two populations at one site.

use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl};

use super::populations::map_populations;
use super::support::{
    check_arity, coerce_all_counts, document, function_identity, function_struct,
};
use crate::functions::numeric::site;

const SYNTAX: &str = "site_divergence(ac1, ac2)";

function_struct! {
    /// `site_divergence(ac1, ac2)` → Float64: 1 − Σ a1_i a2_i / (n1 n2); NULL where n1 n2 = 0.
    SiteDivergence
}

fn documentation() -> Documentation {
    document(
        "Divergence of one site: the probability that a copy of one population differs from a copy of the other, \
         1 − Σ a1_i a2_i / (n1 n2). NULL where no copy is called in one of them.",
        SYNTAX,
        "SELECT site_divergence([2, 0], [1, 1]); -- 0.5",
        &[
            ("ac1", "Allele counts of the first population."),
            ("ac2", "Allele counts of the second population."),
        ],
    )
}

impl ScalarUDFImpl for SiteDivergence {
    function_identity!("site_divergence");

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        check_arity(SYNTAX, types, 2, 2)?;
        coerce_all_counts(self.name(), types)
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        map_populations::<Float64Type, 2>(self.name(), &args, |[row1, row2]| {
            Ok(site::site_divergence(row1, row2))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::scalar::testing::{call, counts, floats};

    #[test]
    fn pads_and_is_null_without_calls() {
        let first = counts(&[
            Some(&[2, 0]),
            Some(&[2]),
            Some(&[0, 0]),
            None,
            Some(&[1, 2, 3]),
        ]);
        let second = counts(&[
            Some(&[1, 1]),
            Some(&[0, 2]),
            Some(&[1]),
            Some(&[1]),
            Some(&[3, 2, 1]),
        ]);
        let expected = floats(&[Some(0.5), Some(1.0), None, None, Some(26.0 / 36.0)]);
        assert_eq!(
            call(SiteDivergence::new(), &[first, second]).unwrap(),
            expected
        );
    }
}
