//! `observed_heterozygosity(zc)`: the share of heterozygous individuals of one site.

use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl};

use super::diploids::{Argument, ZYGOSITY, coerce_zygosity};
use super::support::{Inputs, document, function_identity, function_struct, numbers};

const SYNTAX: &str =
    "observed_heterozygosity(zc) or observed_heterozygosity(call_genotype [, population])";

function_struct! {
    /// `observed_heterozygosity(zc)` → Float64: Σ het / 2 over individuals, in [0, 1]; NULL without complete diploids.
    ObservedHeterozygosity
}

fn documentation() -> Documentation {
    document(
        "Observed heterozygosity of one site: the share of heterozygous individuals among complete diploids. NULL where there are none.",
        SYNTAX,
        "SELECT variant_position, observed_heterozygosity(call_genotype, 'YRI') FROM chr22;",
        &[ZYGOSITY],
    )
}

impl ScalarUDFImpl for ObservedHeterozygosity {
    function_identity!("observed_heterozygosity");

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
                .and_then(|site| site.observed_heterozygosity()))
        })?)
    }
}
