//! `polarize(ac, variant_allele, ancestral)`: puts the ancestral allele's count first.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Int32Type};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl,
};

use super::strings::{StringLists, Strings};
use super::support::{
    COUNTS, Inputs, Lists, check_arity, coerce_counts, coerce_string, coerce_strings, document,
    function_identity, function_struct,
};
use crate::functions::counts_arg::{copies_of, with_copies};

const SYNTAX: &str = "polarize(ac, variant_allele, ancestral)";

function_struct! {
    /// `polarize(ac, variant_allele, ancestral)` → counts with the ancestral allele first, the others in their order.
    ///
    /// NULL if `ancestral` is NULL or none of the alleles. The comparison is case-sensitive, because ancestral genomes write calls of low
    /// confidence in lower case (`upper(…)` accepts those, too). The metadata keep the number of copies.
    Polarize
}

fn documentation() -> Documentation {
    document(
        "Puts the count of the ancestral allele first, so that spectra and `derived_count` count derived copies; the \
         other alleles keep their order. NULL where the ancestral allele is none of the site's alleles. The comparison \
         is exact: ancestral genomes write calls of low confidence in lower case; use `upper(ancestral)` to accept them.",
        SYNTAX,
        "SELECT polarize([7, 2, 1], ['A', 'C', 'T'], 'T'); -- [1, 7, 2]",
        &[
            COUNTS,
            ("variant_allele", "The site's alleles, the reference first."),
            ("ancestral", "The ancestral allele."),
        ],
    )
}

impl ScalarUDFImpl for Polarize {
    function_identity!("polarize");

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        check_arity(SYNTAX, types, 3, 3)?;
        Ok(vec![
            coerce_counts(self.name(), 0, &types[0])?,
            coerce_strings(self.name(), 1, "variant_allele", &types[1])?,
            coerce_string(self.name(), 2, "ancestral", &types[2])?,
        ])
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let item = Arc::new(Field::new_list_field(DataType::Int32, true));
        Ok(match types.first() {
            Some(DataType::FixedSizeList(_, width)) => DataType::FixedSizeList(item, *width),
            _ => DataType::List(item),
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args
            .arg_fields
            .iter()
            .map(|field| field.data_type().clone())
            .collect();
        let field = Field::new(self.name(), self.return_type(&types)?, true);
        let copies = args
            .arg_fields
            .first()
            .map_or(Ok(None), |counts| copies_of(counts))?;
        Ok(Arc::new(match copies {
            Some(copies) => with_copies(field, copies),
            None => field,
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let inputs = Inputs::new(self.name(), &args)?;
        let counts = inputs.counts(0)?;
        let alleles = StringLists::try_new(&inputs, 1)?;
        let ancestral = Strings::try_new(&inputs, 2)?;
        let fixed = match args.return_type() {
            DataType::FixedSizeList(_, width) => usize::try_from(*width).ok(),
            _ => None,
        };
        let mut lists = Lists::<Int32Type>::new(args.return_type(), inputs.rows)?;
        for row in 0..inputs.rows {
            let (Some(counts), Some(mut alleles), Some(ancestral)) =
                (counts.get(row), alleles.get(row), ancestral.get(row))
            else {
                lists.push_null()?;
                continue;
            };
            // Fill and missing values are not alleles.
            let is_allele = !matches!(ancestral, "" | ".");
            let Some(at) = alleles.position(|allele| is_allele && allele == Some(ancestral)) else {
                lists.push_null()?;
                continue;
            };
            if fixed.is_some_and(|width| at >= width) {
                return exec_err!(
                    "polarize: the ancestral allele '{ancestral}' is allele {at}, but the counts are of {} alleles \
                     (row {row} of the batch); give the counts and the alleles of the same site",
                    counts.len()
                );
            }
            // Shorter lists of counts are padded with zeros.
            let count_of = |allele: usize| counts.get(allele).copied().unwrap_or(0);
            let length = counts.len().max(at + 1);
            let others = (0..length).filter(|&allele| allele != at).map(count_of);
            lists.push(std::iter::once(count_of(at)).chain(others))?;
        }
        inputs.finish(lists.finish()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::scalar::testing::{
        call, counts, fixed_counts, lists, null, show, strings,
    };

    #[test]
    fn moves_the_ancestral_allele_first() {
        let rows: &[Option<&[i32]>] = &[
            Some(&[7, 2, 1]),
            Some(&[7, 2, 1]),
            Some(&[7, 2, 1]),
            None,
            Some(&[7, 2, 1]),
            Some(&[7, 2, 1]),
            Some(&[7]),
        ];
        let alleles = lists(&[
            Some(&[Some("A"), Some("C"), Some("T")]),
            Some(&[Some("A"), Some("C"), Some("T")]),
            Some(&[Some("A"), Some("C"), None]),
            Some(&[Some("A")]),
            None,
            Some(&[Some("A"), Some("C"), Some("T")]),
            Some(&[Some("A"), Some("C"), Some("T")]),
        ]);
        let ancestral = strings(&[
            Some("T"),
            Some("A"),
            Some("t"),
            Some("A"),
            Some("A"),
            None,
            Some("T"),
        ]);
        let found = call(Polarize::new(), &[counts(rows), alleles, ancestral]).unwrap();
        assert_eq!(
            show(&found),
            [
                "[1, 7, 2]",
                "[7, 2, 1]",
                "NULL",
                "NULL",
                "NULL",
                "NULL",
                "[0, 7, 0]"
            ]
        );
    }

    #[test]
    fn fill_is_no_allele() {
        let alleles = lists(&[Some(&[Some("A"), Some("")])]);
        let found = call(
            Polarize::new(),
            &[counts(&[Some(&[1, 2])]), alleles, strings(&[Some("")])],
        )
        .unwrap();
        assert_eq!(show(&found), ["NULL"]);
        let found = call(Polarize::new(), &[null(), null(), null()]).unwrap();
        assert_eq!(show(&found), ["NULL"]);
    }

    #[test]
    fn a_fixed_width_stays_and_bounds_the_allele() {
        let alleles = lists(&[Some(&[Some("A"), Some("C"), Some("T")])]);
        let rows = || fixed_counts(2, &[Some(&[7, 2])]);
        let found = call(
            Polarize::new(),
            &[rows(), alleles.clone(), strings(&[Some("C")])],
        )
        .unwrap();
        assert!(matches!(found.data_type(), DataType::FixedSizeList(_, 2)));
        assert_eq!(show(&found), ["[2, 7]"]);
        let error = call(Polarize::new(), &[rows(), alleles, strings(&[Some("T")])])
            .unwrap_err()
            .to_string();
        assert!(error.contains("is allele 2"), "{error}");
    }

    #[test]
    fn the_number_of_copies_stays() {
        let field = with_copies(
            Field::new("ac", DataType::new_list(DataType::Int32, true), true),
            Some(20),
        );
        let args = ReturnFieldArgs {
            arg_fields: &[Arc::new(field)],
            scalar_arguments: &[None],
        };
        let found = Polarize::new().return_field_from_args(args).unwrap();
        assert_eq!(copies_of(&found).unwrap(), Some(Some(20)));
    }
}
