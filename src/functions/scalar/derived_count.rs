//! `derived_count(ac)`: the number of copies of alleles other than the reference.

use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl};

use super::support::{
    COUNTS, check_arity, coerce_all_counts, document, function_identity, function_struct,
    map_counts,
};
use crate::functions::numeric::site;

function_struct! {
    /// `derived_count(ac)` → Int64: d = n − a_0, the number of called copies that are not allele 0.
    DerivedCount
}

fn documentation() -> Documentation {
    document(
        "Number of called copies that are not allele 0. Allele 0 is the reference, taken as ancestral; `polarize` changes that.",
        "derived_count(ac)",
        "SELECT derived_count([7, 2, 1]); -- 3",
        &[COUNTS],
    )
}

impl ScalarUDFImpl for DerivedCount {
    function_identity!("derived_count");

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        check_arity("derived_count(ac)", types, 1, 1)?;
        coerce_all_counts(self.name(), types)
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        map_counts::<Int64Type>(self.name(), &args, |row| Ok(Some(site::derived_count(row))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::scalar::testing::{call, counts, ints};

    #[test]
    fn counts_all_but_the_first() {
        let rows = counts(&[Some(&[7, 2, 1]), None, Some(&[]), Some(&[4])]);
        let expected = ints(&[Some(3), None, Some(0), Some(0)]);
        assert_eq!(call(DerivedCount::new(), &[rows]).unwrap(), expected);
    }
}
