//! `allele_frequencies(ac)`: counts over the number of called copies.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Float64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl};

use super::support::{
    COUNTS, Inputs, Lists, check_arity, coerce_all_counts, document, function_identity,
    function_struct,
};
use crate::functions::numeric::site;

function_struct! {
    /// `allele_frequencies(ac)` → List(Float64), or FixedSizeList where the counts are one: a_i / n; NULL where n = 0.
    AlleleFrequencies
}

fn documentation() -> Documentation {
    document(
        "Frequency of every allele among the called copies. NULL (the whole list) where no copy is called.",
        "allele_frequencies(ac)",
        "SELECT allele_frequencies([3, 1]); -- [0.75, 0.25]",
        &[COUNTS],
    )
}

impl ScalarUDFImpl for AlleleFrequencies {
    function_identity!("allele_frequencies");

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        check_arity("allele_frequencies(ac)", types, 1, 1)?;
        coerce_all_counts(self.name(), types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let item = Arc::new(Field::new_list_field(DataType::Float64, true));
        Ok(match types {
            [DataType::FixedSizeList(_, width)] => DataType::FixedSizeList(item, *width),
            _ => DataType::List(item),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let inputs = Inputs::new(self.name(), &args)?;
        let counts = inputs.counts(0)?;
        let mut lists = Lists::<Float64Type>::new(args.return_type(), inputs.rows)?;
        for row in 0..inputs.rows {
            match counts
                .get(row)
                .map(|counts| (counts, site::allele_number(counts)))
            {
                Some((counts, n)) if n > 0 => {
                    lists.push(counts.iter().map(|&count| f64::from(count) / n as f64))?;
                }
                _ => lists.push_null()?,
            }
        }
        inputs.finish(lists.finish()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::scalar::testing::{call, counts, fixed_counts, show};

    #[test]
    fn null_where_nothing_is_called() {
        let rows = counts(&[Some(&[3, 1]), Some(&[0, 0]), None, Some(&[1, 0, 1])]);
        let found = call(AlleleFrequencies::new(), &[rows]).unwrap();
        assert_eq!(
            show(&found),
            ["[0.75, 0.25]", "NULL", "NULL", "[0.5, 0.0, 0.5]"]
        );
    }

    #[test]
    fn a_fixed_width_stays_fixed() {
        let found = call(
            AlleleFrequencies::new(),
            &[fixed_counts(2, &[Some(&[3, 1]), None])],
        )
        .unwrap();
        assert!(matches!(found.data_type(), DataType::FixedSizeList(_, 2)));
        assert_eq!(show(&found), ["[0.75, 0.25]", "NULL"]);
    }
}
