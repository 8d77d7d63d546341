//! `site_differences(ac [, ac2])`: pairs of copies that differ at one site.

use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl};

use super::populations::map_populations;
use super::support::{
    COUNTS, check_arity, coerce_all_counts, document, function_identity, function_struct,
    map_counts,
};
use crate::functions::numeric::site::{self, Pairs};

const SYNTAX: &str = "site_differences(ac [, ac2])";

function_struct! {
    /// `site_differences(ac [, ac2])` → Int64: C(n, 2) − Σ C(a_i, 2) within, n1 n2 − Σ a1_i a2_i between.
    SiteDifferences
}

fn documentation() -> Documentation {
    document(
        "Number of pairs of copies that differ, within one population or between two. The sum of it over the sum of `site_comparisons` is the estimator of pixy (Korunes and Samuk 2021), which weighs sites by their calls.",
        SYNTAX,
        "SELECT site_differences([2, 1, 1]); -- 5",
        &[
            COUNTS,
            (
                "ac2",
                "Allele counts of a second population; pairs are then made between the two. If left out, within the first.",
            ),
        ],
    )
}

fn differences(pairs: Pairs) -> Result<Option<i64>> {
    match i64::try_from(pairs.differences) {
        Ok(pairs) => Ok(Some(pairs)),
        Err(_) => exec_err!(
            "site_differences: {} pairs do not fit Int64",
            pairs.differences
        ),
    }
}

impl ScalarUDFImpl for SiteDifferences {
    function_identity!("site_differences");

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        check_arity(SYNTAX, types, 1, 2)?;
        coerce_all_counts(self.name(), types)
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if args.args.len() == 1 {
            return map_counts::<Int64Type>(self.name(), &args, |row| {
                differences(site::within(row))
            });
        }
        map_populations::<Int64Type, 2>(self.name(), &args, |[row1, row2]| {
            differences(site::between(row1, row2))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::scalar::testing::{call, counts, ints};

    #[test]
    fn within_one_population() {
        let rows = counts(&[Some(&[2, 1, 1]), Some(&[1]), Some(&[]), None]);
        let expected = ints(&[Some(5), Some(0), Some(0), None]);
        assert_eq!(call(SiteDifferences::new(), &[rows]).unwrap(), expected);
    }

    #[test]
    fn between_two_populations() {
        let first = counts(&[Some(&[2, 1]), Some(&[2]), Some(&[0]), None]);
        let second = counts(&[Some(&[1, 1, 1]), None, Some(&[5]), Some(&[5])]);
        let expected = ints(&[Some(6), None, Some(0), None]);
        assert_eq!(
            call(SiteDifferences::new(), &[first, second]).unwrap(),
            expected
        );
    }

    #[test]
    fn too_many_pairs_are_an_error() {
        let huge = counts(&[Some(&[i32::MAX, i32::MAX, i32::MAX])]);
        assert!(
            call(SiteDifferences::new(), &[huge])
                .unwrap_err()
                .to_string()
                .contains("do not fit Int64")
        );
    }
}
