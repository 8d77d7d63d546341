//! `is_complete(ac [, n])`: whether every copy of the population is called at a site.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl,
};

use super::support::{
    COUNTS, Inputs, booleans, check_arity, coerce_counts, coerce_integer, document,
    function_identity, function_struct,
};
use crate::functions::counts_arg::{COPIES_BESIDE_KEY, copies_of};
use crate::functions::numeric::site;

const SYNTAX: &str = "is_complete(ac [, n])";

function_struct! {
    /// `is_complete(ac [, n])` → Boolean: whether n copies are called. The default of n is N, the population's number of copies, from the
    /// metadata of the counts. These are the sites that `sfs` counts.
    IsComplete
}

fn documentation() -> Documentation {
    document(
        "Whether all copies of the population are called at the site: the sites that sfs counts. The metadata of counts from allele_counts has the number of copies; for other counts, give n.",
        SYNTAX,
        "SELECT count(*) FILTER (WHERE NOT is_complete(ac)) AS incomplete FROM sites;",
        &[
            COUNTS,
            (
                "n",
                "The population's number of copies: samples times ploidy; if left out, that of the counts' metadata, or of population_counts and \
                 population_pair_counts the copies beside the counts.",
            ),
        ],
    )
}

impl ScalarUDFImpl for IsComplete {
    function_identity!("is_complete");

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        check_arity(SYNTAX, types, 1, 2)?;
        let mut coerced = vec![coerce_counts(self.name(), 0, &types[0])?];
        if let Some(n) = types.get(1) {
            coerced.push(coerce_integer(self.name(), 1, "n", n)?);
        }
        Ok(coerced)
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        if let [counts] = args.arg_fields
            && !counts.data_type().is_null()
            && copies_of(counts)?.is_none()
            // Planning makes the field beside them the argument n.
            && !counts.metadata().contains_key(COPIES_BESIDE_KEY)
        {
            return plan_err!(
                "is_complete needs the number of copies N of the population, which is in the metadata of counts from \
                 allele_counts(call_genotype [, population]); these counts have none: write is_complete(ac, n)"
            );
        }
        Ok(Arc::new(Field::new(self.name(), DataType::Boolean, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let copies = match args.arg_fields.first() {
            Some(field) => copies_of(field)?.flatten(),
            None => None,
        };
        let inputs = Inputs::new(self.name(), &args)?;
        let counts = inputs.counts(0)?;
        let given = match inputs.len() {
            1 => None,
            _ => Some(inputs.integers(1)?),
        };
        inputs.finish(booleans(inputs.rows, |row| {
            let n = match &given {
                Some(given) => given.get(row)?,
                None => i64::try_from(copies?).ok()?,
            };
            Some(site::allele_number(counts.get(row)?) == n)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::scalar::testing::{bools, call, counts, int};

    #[test]
    fn all_copies_are_called() {
        let rows = counts(&[Some(&[3, 1]), Some(&[3, 0]), Some(&[0, 2, 2]), None]);
        let expected = bools(&[Some(true), Some(false), Some(true), None]);
        assert_eq!(
            call(IsComplete::new(), &[rows.clone(), int(4)]).unwrap(),
            expected
        );
        let error = call(IsComplete::new(), &[rows]).unwrap_err().to_string();
        assert!(error.contains("write is_complete(ac, n)"), "{error}");
    }
}
