//! `site_diversity(ac)`: nucleotide diversity of one site.

use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl};

use super::support::{
    COUNTS, check_arity, coerce_all_counts, document, function_identity, function_struct,
    map_counts,
};
use crate::functions::numeric::site;

function_struct! {
    /// `site_diversity(ac)` → Float64: 1 − Σ a(a−1) / (n(n−1)); NULL where n < 2 (Nei and Li 1979).
    SiteDiversity
}

fn documentation() -> Documentation {
    document(
        "Nucleotide diversity of one site: the probability that two copies drawn without replacement differ, 1 − Σ a(a−1) / (n(n−1)). All alleles count. NULL where fewer than two copies are called.",
        "site_diversity(ac)",
        "SELECT site_diversity([1, 1]); -- 1.0",
        &[COUNTS],
    )
}

impl ScalarUDFImpl for SiteDiversity {
    function_identity!("site_diversity");

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        check_arity("site_diversity(ac)", types, 1, 1)?;
        coerce_all_counts(self.name(), types)
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        map_counts::<Float64Type>(self.name(), &args, |row| Ok(site::site_diversity(row)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::scalar::testing::{call, counts, floats};

    #[test]
    fn is_null_below_two_copies() {
        let rows = counts(&[
            Some(&[1, 1]),
            Some(&[2, 2]),
            Some(&[1, 0]),
            None,
            Some(&[5]),
        ]);
        let expected = floats(&[Some(1.0), Some(4.0 / 6.0), None, None, Some(0.0)]);
        assert_eq!(call(SiteDiversity::new(), &[rows]).unwrap(), expected);
    }
}
