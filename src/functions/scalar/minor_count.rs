//! `minor_count(ac)`: the folded allele count.

use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl};

use super::support::{
    COUNTS, check_arity, coerce_all_counts, document, function_identity, function_struct,
    map_counts,
};
use crate::functions::numeric::site;

function_struct! {
    /// `minor_count(ac)` → Int64: min(d, n − d) with d the derived count, for which all alleles but 0 are pooled.
    MinorCount
}

fn documentation() -> Documentation {
    document(
        "Folded allele count min(d, n − d), where d is `derived_count(ac)` and n is `allele_number(ac)`: all alleles but 0 count together.",
        "minor_count(ac)",
        "SELECT minor_count([2, 7, 1]); -- 2",
        &[COUNTS],
    )
}

impl ScalarUDFImpl for MinorCount {
    function_identity!("minor_count");

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        check_arity("minor_count(ac)", types, 1, 1)?;
        coerce_all_counts(self.name(), types)
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        map_counts::<Int64Type>(self.name(), &args, |row| Ok(Some(site::minor_count(row))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::scalar::testing::{call, counts, ints};

    #[test]
    fn folds() {
        let rows = counts(&[
            Some(&[2, 7, 1]),
            Some(&[7, 2, 1]),
            None,
            Some(&[]),
            Some(&[4]),
        ]);
        let expected = ints(&[Some(2), Some(3), None, Some(0), Some(0)]);
        assert_eq!(call(MinorCount::new(), &[rows]).unwrap(), expected);
    }
}
