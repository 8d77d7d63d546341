//! `site_fst_hudson(ac1, ac2)`: numerator and denominator of Hudson's FST at one site.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, StructArray};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl};

use super::support::{
    Inputs, check_arity, coerce_all_counts, document, function_identity, function_struct,
};
use crate::functions::numeric::site;

const SYNTAX: &str = "site_fst_hudson(ac1, ac2)";

function_struct! {
    /// `site_fst_hudson(ac1, ac2)` → Struct(num, den) Float64: b − (w1 + w2)/2 and b, with w the site's diversities and b its
    /// divergence; NULL unless two copies are called in each population (Hudson et al. 1992, Bhatia et al. 2013).
    SiteFstHudson
}

fn documentation() -> Documentation {
    document(
        "Hudson's FST of one site as numerator and denominator: the ratio of their sums over sites is the estimate \
         (Bhatia et al. 2013), never the mean of ratios. NULL unless two copies are called in each population.",
        SYNTAX,
        "SELECT exact_sum(f['num']) / exact_sum(f['den'])\nFROM (SELECT site_fst_hudson(ac1, ac2) AS f FROM sites);",
        &[
            ("ac1", "Allele counts of the first population."),
            ("ac2", "Allele counts of the second population."),
        ],
    )
}

fn fields() -> Fields {
    ["num", "den"]
        .map(|name| Field::new(name, DataType::Float64, true))
        .to_vec()
        .into()
}

impl ScalarUDFImpl for SiteFstHudson {
    function_identity!("site_fst_hudson");

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        check_arity(SYNTAX, types, 2, 2)?;
        coerce_all_counts(self.name(), types)
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Struct(fields()))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let inputs = Inputs::new(self.name(), &args)?;
        let (first, second) = (inputs.counts(0)?, inputs.counts(1)?);
        let mut numerators = Vec::with_capacity(inputs.rows);
        let mut denominators = Vec::with_capacity(inputs.rows);
        let mut valid = Vec::with_capacity(inputs.rows);
        for row in 0..inputs.rows {
            let terms = match (first.get(row), second.get(row)) {
                (Some(first), Some(second)) => site::fst_hudson_terms(first, second),
                _ => None,
            };
            let (numerator, denominator) = terms.unwrap_or_default();
            numerators.push(numerator);
            denominators.push(denominator);
            valid.push(terms.is_some());
        }
        let nulls = Some(NullBuffer::from(valid)).filter(|nulls| nulls.null_count() > 0);
        // The parts of a NULL are NULL too: access to a field of a NULL struct reads the part.
        let part = |values: Vec<f64>| -> Result<ArrayRef> {
            Ok(Arc::new(Float64Array::try_new(
                ScalarBuffer::from(values),
                nulls.clone(),
            )?))
        };
        let parts = vec![part(numerators)?, part(denominators)?];
        inputs.finish(Arc::new(StructArray::try_new(
            fields(),
            parts,
            nulls.clone(),
        )?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::scalar::testing::{call, counts, show};

    #[test]
    fn parts_of_hudsons_fst() {
        let first = counts(&[Some(&[4, 0]), Some(&[1, 1]), Some(&[1]), None]);
        let second = counts(&[Some(&[0, 4]), Some(&[1, 1]), Some(&[4]), Some(&[4])]);
        let found = call(SiteFstHudson::new(), &[first, second]).unwrap();
        assert_eq!(
            show(&found),
            [
                "{num: 1.0, den: 1.0}",
                "{num: -0.5, den: 0.5}",
                "NULL",
                "NULL"
            ]
        );
    }
}
