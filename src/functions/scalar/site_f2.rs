//! `site_f2(ac1, ac2)`: f2 of one site.

use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl};

use super::populations::map_populations;
use super::support::{
    check_arity, coerce_all_counts, document, function_identity, function_struct,
};
use crate::functions::numeric::populations;

const SYNTAX: &str = "site_f2(ac1, ac2)";

function_struct! {
    /// `site_f2(ac1, ac2)` → Float64: divergence − (diversity1 + diversity2)/2, f2 without bias (Reich et al. 2009, Patterson et
    /// al. 2012) and the net divergence of Nei and Li 1979; NULL unless two copies are called in each population.
    SiteF2
}

fn documentation() -> Documentation {
    document(
        "f2 of one site: divergence − (diversity1 + diversity2)/2. The mean over sites is f2, the sum net_divergence. NULL unless two copies are called in each population.",
        SYNTAX,
        "SELECT avg(site_f2(ac1, ac2)) FROM sites;",
        &[
            ("ac1", "Allele counts of the first population."),
            ("ac2", "Allele counts of the second population."),
        ],
    )
}

impl ScalarUDFImpl for SiteF2 {
    function_identity!("site_f2");

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        check_arity(SYNTAX, types, 2, 2)?;
        coerce_all_counts(self.name(), types)
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        map_populations::<Float64Type, 2>(self.name(), &args, |[first, second]| {
            Ok(populations::site_f2(first, second))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::scalar::testing::{call, counts, floats};

    #[test]
    fn needs_two_copies_of_each() {
        let first = counts(&[Some(&[4]), Some(&[1, 1]), Some(&[1]), None]);
        let second = counts(&[Some(&[0, 4]), Some(&[1, 1]), Some(&[4]), Some(&[4])]);
        let expected = floats(&[Some(1.0), Some(-0.5), None, None]);
        assert_eq!(call(SiteF2::new(), &[first, second]).unwrap(), expected);
    }
}
