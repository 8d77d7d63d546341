//! `add_counts(ac, …)`: the counts of several populations taken together.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Int32Type};
use datafusion::common::{Result, exec_err, internal_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl,
};

use super::support::{
    Inputs, Lists, check_arity, coerce_all_counts, document, function_identity, function_struct,
};
use crate::functions::counts_arg::{copies_of, with_copies};

function_struct! {
    /// `add_counts(ac, …)` → List(Int32), or FixedSizeList where all counts are: the element-wise sum, padded with 0.
    ///
    /// The result's metadata has the sum of the numbers of copies if every argument has one.
    AddCounts
}

fn documentation() -> Documentation {
    document(
        "Adds allele counts element by element, shorter lists padded with 0: the counts of several populations taken \
         together. Populations that share samples count those twice. NULL where any argument is NULL.",
        "add_counts(ac, ac2 [, …])",
        "SELECT add_counts([3, 1], [2, 0, 4]); -- [5, 1, 4]",
        &[
            ("ac", "Allele counts of the first population."),
            (
                "ac2",
                "Allele counts of the second population; any number may follow.",
            ),
        ],
    )
}

/// The number of copies of all populations together: `None` unless every argument has one, `Some(None)` if one is deferred.
///
/// # Errors
/// If the sum overflows.
fn total_copies(fields: &[FieldRef]) -> Result<Option<Option<u64>>> {
    let mut total = Some(0u64);
    for field in fields {
        match copies_of(field)? {
            None => return Ok(None),
            Some(copies) => {
                total = match total.zip(copies) {
                    Some((total, copies)) => match total.checked_add(copies) {
                        Some(total) => Some(total),
                        None => {
                            return plan_err!(
                                "add_counts: the numbers of copies of the populations add up to more than {}",
                                u64::MAX
                            );
                        }
                    },
                    None => None,
                };
            }
        }
    }
    Ok(Some(total))
}

impl ScalarUDFImpl for AddCounts {
    function_identity!("add_counts");

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        check_arity("add_counts(ac, ac2 [, …])", types, 1, usize::MAX)?;
        coerce_all_counts(self.name(), types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let item = Arc::new(Field::new_list_field(DataType::Int32, true));
        let mut widest = None;
        for data_type in types {
            match data_type {
                DataType::FixedSizeList(_, width) => widest = widest.max(Some(*width)),
                // An untyped NULL makes the result NULL, of whatever type.
                DataType::Null => {}
                _ => return Ok(DataType::List(item)),
            }
        }
        Ok(match widest {
            Some(width) => DataType::FixedSizeList(item, width),
            None => DataType::List(item),
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args
            .arg_fields
            .iter()
            .map(|field| field.data_type().clone())
            .collect();
        let field = Field::new(self.name(), self.return_type(&types)?, true);
        Ok(Arc::new(match total_copies(args.arg_fields)? {
            Some(copies) => with_copies(field, copies),
            None => field,
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let inputs = Inputs::new(self.name(), &args)?;
        let populations = (0..inputs.len())
            .map(|at| inputs.counts(at))
            .collect::<Result<Vec<_>>>()?;
        let Some((first, others)) = populations.split_first() else {
            return internal_err!("add_counts: no arguments");
        };
        let mut lists = Lists::<Int32Type>::new(args.return_type(), inputs.rows)?;
        let mut sums: Vec<i32> = Vec::new();
        'rows: for row in 0..inputs.rows {
            sums.clear();
            let Some(counts) = first.get(row) else {
                lists.push_null()?;
                continue;
            };
            sums.extend_from_slice(counts);
            for population in others {
                let Some(counts) = population.get(row) else {
                    lists.push_null()?;
                    continue 'rows;
                };
                if counts.len() > sums.len() {
                    sums.resize(counts.len(), 0);
                }
                for (allele, (sum, &count)) in sums.iter_mut().zip(counts).enumerate() {
                    let Some(total) = sum.checked_add(count) else {
                        return exec_err!(
                            "add_counts: the counts of allele {allele} add up to more than {} (row {row} of the batch)",
                            i32::MAX
                        );
                    };
                    *sum = total;
                }
            }
            lists.push(sums.iter().copied())?;
        }
        inputs.finish(lists.finish()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::scalar::testing::{call, counts, fixed_counts, null, show};

    #[test]
    fn pads_and_keeps_nulls() {
        let first = counts(&[Some(&[3, 1]), None, Some(&[1]), Some(&[])]);
        let second = counts(&[Some(&[2, 0, 4]), Some(&[1]), None, Some(&[])]);
        let found = call(AddCounts::new(), &[first.clone(), second, first]).unwrap();
        assert_eq!(show(&found), ["[8, 2, 4]", "NULL", "NULL", "[]"]);
        assert_eq!(show(&call(AddCounts::new(), &[null()]).unwrap()), ["NULL"]);
    }

    #[test]
    fn fixed_widths_give_the_widest() {
        let narrow = fixed_counts(2, &[Some(&[3, 1]), None]);
        let wide = fixed_counts(3, &[Some(&[1, 1, 1]), Some(&[1, 1, 1])]);
        let found = call(AddCounts::new(), &[narrow.clone(), wide]).unwrap();
        assert!(matches!(found.data_type(), DataType::FixedSizeList(_, 3)));
        assert_eq!(show(&found), ["[4, 2, 1]", "NULL"]);
        let mixed = call(
            AddCounts::new(),
            &[narrow, counts(&[Some(&[1]), Some(&[1])])],
        )
        .unwrap();
        assert!(matches!(mixed.data_type(), DataType::List(_)));
    }

    #[test]
    fn overflow_is_an_error() {
        let error = call(
            AddCounts::new(),
            &[counts(&[Some(&[0, i32::MAX])]), counts(&[Some(&[0, 1])])],
        );
        let error = error.unwrap_err().to_string();
        assert!(error.contains("counts of allele 1"), "{error}");
    }

    #[test]
    fn numbers_of_copies_add_up() {
        let plain = Field::new("ac", DataType::new_list(DataType::Int32, true), true);
        let field = |copies| Arc::new(with_copies(plain.clone(), copies));
        let total = |fields: &[FieldRef]| total_copies(fields).unwrap();
        assert_eq!(total(&[field(Some(20)), field(Some(6))]), Some(Some(26)));
        assert_eq!(total(&[field(Some(20)), field(None)]), Some(None));
        assert_eq!(total(&[field(Some(20)), Arc::new(plain.clone())]), None);
        assert!(total_copies(&[field(Some(u64::MAX)), field(Some(1))]).is_err());
        let args = ReturnFieldArgs {
            arg_fields: &[field(Some(20)), field(Some(6))],
            scalar_arguments: &[None, None],
        };
        let found = AddCounts::new().return_field_from_args(args).unwrap();
        assert_eq!(copies_of(&found).unwrap(), Some(Some(26)));
    }
}
