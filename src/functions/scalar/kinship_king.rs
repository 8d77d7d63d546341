//! `kinship_king(het_het, opposite, het1, het2)`: the KING-robust kinship of two individuals.

use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl};

use super::support::{
    Inputs, check_arity, coerce_integer, document, function_identity, function_struct, numbers,
};
use crate::functions::numeric::kinship::king;

const SYNTAX: &str = "kinship_king(het_het, opposite, het1, het2)";
const ARGUMENTS: [&str; 4] = ["het_het", "opposite", "het1", "het2"];

function_struct! {
    /// `kinship_king(het_het, opposite, het1, het2)` → Float64: the KING-robust estimator of kinship between families (Manichaikul et
    /// al. 2010, equation 11), ½ − (4 opposite + het1 + het2 − 2 het_het) / (4 min(het1, het2)); NULL if the smaller of het1 and het2 is
    /// not positive.
    KinshipKing
}

fn documentation() -> Documentation {
    document(
        "The KING-robust kinship of two individuals (Manichaikul et al. 2010, equation 11) from the counts of sample_pairs: 1/2 - (4 \
         opposite + het1 + het2 - 2 het_het) / (4 min(het1, het2)). NULL if one of them is never heterozygous. About 0.5 for \
         duplicates and twins, 0.25 for first-degree relatives, 0 or less for unrelated individuals.",
        SYNTAX,
        "SELECT kinship_king(3, 0, 4, 5); -- 0.3125",
        &[
            ("het_het", "Variants at which both are heterozygous."),
            (
                "opposite",
                "Variants at which they are homozygous for different alleles.",
            ),
            ("het1", "Variants at which the first is heterozygous."),
            ("het2", "Variants at which the second is heterozygous."),
        ],
    )
}

impl ScalarUDFImpl for KinshipKing {
    function_identity!("kinship_king");

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        check_arity(SYNTAX, types, 4, 4)?;
        let types = types.iter().zip(ARGUMENTS).enumerate();
        types
            .map(|(at, (data_type, name))| coerce_integer(self.name(), at, name, data_type))
            .collect()
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let inputs = Inputs::new(self.name(), &args)?;
        let [het_het, opposite, het1, het2] = [0, 1, 2, 3].map(|at| inputs.integers(at));
        let (het_het, opposite, het1, het2) = (het_het?, opposite?, het1?, het2?);
        let array = numbers::<Float64Type>(inputs.rows, |row| {
            let counts = [&het_het, &opposite, &het1, &het2].map(|counts| counts.get(row));
            let [Some(het_het), Some(opposite), Some(het1), Some(het2)] = counts else {
                return Ok(None);
            };
            Ok(king([het_het, opposite, het1, het2]))
        })?;
        inputs.finish(array)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::scalar::testing::{call, floats, ints};

    #[test]
    fn the_rarer_heterozygote_scales() {
        let columns = [
            ints(&[Some(3), Some(10), Some(0), Some(0), None]),
            ints(&[Some(0), Some(0), Some(2), Some(1), Some(1)]),
            ints(&[Some(4), Some(10), Some(3), Some(0), Some(1)]),
            ints(&[Some(5), Some(10), Some(1), Some(9), Some(1)]),
        ];
        let expected = floats(&[Some(0.3125), Some(0.5), Some(-2.5), None, None]);
        assert_eq!(call(KinshipKing::new(), &columns).unwrap(), expected);
    }
}
