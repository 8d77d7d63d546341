//! `expected_heterozygosity(zc)`: the expected heterozygosity of one site.

use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl};

use super::diploids::{Argument, ZYGOSITY, coerce_zygosity};
use super::support::{Inputs, document, function_identity, function_struct, numbers};

const SYNTAX: &str =
    "expected_heterozygosity(zc) or expected_heterozygosity(call_genotype [, population])";

function_struct! {
    /// `expected_heterozygosity(zc)` → Float64: 1 − Σ ac(ac−1) / (c(c−1)), c = Σ ac, in [0, 1] (Nei 1978, without bias); NULL where c < 2.
    ExpectedHeterozygosity
}

fn documentation() -> Documentation {
    document(
        "Expected heterozygosity of one site, without bias (Nei 1978): 1 - sum(ac (ac - 1)) / (c (c - 1)), with c the copies of complete diploids. NULL where there are none.",
        SYNTAX,
        "SELECT variant_position, expected_heterozygosity(call_genotype, 'YRI') FROM chr22;",
        &[ZYGOSITY],
    )
}

impl ScalarUDFImpl for ExpectedHeterozygosity {
    function_identity!("expected_heterozygosity");

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        coerce_zygosity(self.name(), SYNTAX, types, 1..=1)
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let inputs = Inputs::new(self.name(), &args)?;
        let diploids = Argument::try_new(&inputs, 0)?;
        inputs.finish(numbers::<Float64Type>(inputs.rows, |row| {
            Ok(diploids
                .get(row)
                .and_then(|site| site.expected_heterozygosity()))
        })?)
    }
}
