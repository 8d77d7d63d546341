//! `site_comparisons(ac [, ac2])`: pairs of copies compared at one site.

use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl};

use super::populations::map_populations;
use super::support::{
    COUNTS, check_arity, coerce_all_counts, document, function_identity, function_struct,
    map_counts,
};
use crate::functions::numeric::site::{self, Pairs};

const SYNTAX: &str = "site_comparisons(ac [, ac2])";

function_struct! {
    /// `site_comparisons(ac [, ac2])` → Int64: C(n, 2) within, n1 n2 between.
    SiteComparisons
}

fn documentation() -> Documentation {
    document(
        "Number of pairs of called copies, within one population or between two: the denominator of the estimator of pixy (Korunes and Samuk 2021), see `site_differences`.",
        SYNTAX,
        "SELECT site_comparisons([2, 1, 1]); -- 6",
        &[
            COUNTS,
            (
                "ac2",
                "Allele counts of a second population; pairs are then made between the two. If left out, within the first.",
            ),
        ],
    )
}

fn comparisons(pairs: Pairs) -> Result<Option<i64>> {
    match i64::try_from(pairs.comparisons) {
        Ok(pairs) => Ok(Some(pairs)),
        Err(_) => exec_err!(
            "site_comparisons: {} pairs do not fit Int64",
            pairs.comparisons
        ),
    }
}

impl ScalarUDFImpl for SiteComparisons {
    function_identity!("site_comparisons");

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
                comparisons(site::within(row))
            });
        }
        map_populations::<Int64Type, 2>(self.name(), &args, |[row1, row2]| {
            comparisons(site::between(row1, row2))
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
        let expected = ints(&[Some(6), Some(0), Some(0), None]);
        assert_eq!(call(SiteComparisons::new(), &[rows]).unwrap(), expected);
    }

    #[test]
    fn between_two_populations() {
        let first = counts(&[Some(&[2, 1]), Some(&[2]), Some(&[0]), None]);
        let second = counts(&[Some(&[1, 1, 1]), None, Some(&[5]), Some(&[5])]);
        let expected = ints(&[Some(9), None, Some(0), None]);
        assert_eq!(
            call(SiteComparisons::new(), &[first, second]).unwrap(),
            expected
        );
    }

    #[test]
    fn too_many_pairs_are_an_error() {
        let huge = counts(&[Some(&[i32::MAX, i32::MAX, i32::MAX])]);
        assert!(
            call(SiteComparisons::new(), &[huge])
                .unwrap_err()
                .to_string()
                .contains("do not fit Int64")
        );
    }
}
