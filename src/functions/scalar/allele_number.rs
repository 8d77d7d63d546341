//! `allele_number(ac)`: the number of called copies at a site.

use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl};

use super::support::{
    COUNTS, check_arity, coerce_all_counts, document, function_identity, function_struct,
    map_counts,
};
use crate::functions::numeric::site;

function_struct! {
    /// `allele_number(ac)` → Int64: n = Σ a_i, the number of called copies.
    AlleleNumber
}

fn documentation() -> Documentation {
    document(
        "Number of called copies at a site, the sum of all allele counts.",
        "allele_number(ac)",
        "SELECT allele_number([7, 3, 0]); -- 10",
        &[COUNTS],
    )
}

impl ScalarUDFImpl for AlleleNumber {
    function_identity!("allele_number");

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        check_arity("allele_number(ac)", types, 1, 1)?;
        coerce_all_counts(self.name(), types)
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        map_counts::<Int64Type>(self.name(), &args, |row| Ok(Some(site::allele_number(row))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::scalar::testing::{call, counts, ints};

    #[test]
    fn sums_and_keeps_nulls() {
        let rows = counts(&[Some(&[7, 3, 0]), None, Some(&[]), Some(&[i32::MAX, 1])]);
        let expected = ints(&[Some(10), None, Some(0), Some(1 << 31)]);
        assert_eq!(call(AlleleNumber::new(), &[rows]).unwrap(), expected);
    }

    #[test]
    fn refuses_what_is_not_counts() {
        let error = call(AlleleNumber::new(), &[ints(&[Some(1)])])
            .unwrap_err()
            .to_string();
        assert!(error.contains("must be allele counts"), "{error}");
        let error = call(AlleleNumber::new(), &[]).unwrap_err().to_string();
        assert!(
            error.contains("expected allele_number(ac), found 0"),
            "{error}"
        );
        assert!(call(AlleleNumber::new(), &[counts(&[Some(&[-1])])]).is_err());
    }
}
