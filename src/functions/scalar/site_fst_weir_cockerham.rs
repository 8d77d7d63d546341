//! `site_fst_weir_cockerham(zc1, zc2, …)`: Weir and Cockerham's variance components of one site.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, StructArray};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl};

use super::diploids::{Argument, coerce_zygosity};
use super::support::{Inputs, document, function_identity, function_struct};
use crate::functions::numeric::zygosity::{Diploids, weir_cockerham};

const SYNTAX: &str = "site_fst_weir_cockerham(zc1, zc2, …) or site_fst_weir_cockerham(call_genotype, population1, population2, …)";

function_struct! {
    /// `site_fst_weir_cockerham(zc1, zc2, …)` → Struct(a, b, c) Float64: variance components among populations, among individuals
    /// within populations, and within individuals, summed over alleles (Weir and Cockerham 1984, eqs 2 to 4); NULL unless every
    /// population has a complete diploid, and more than one on average.
    SiteFstWeirCockerham
}

fn documentation() -> Documentation {
    document(
        "Variance components of one site (Weir and Cockerham 1984, eqs 2 to 4), summed over its alleles: a among populations, b among individuals within populations, c within individuals. F_ST is sum(a) / sum(a + b + c), F_IS 1 - sum(c) / sum(b + c), F_IT 1 - sum(c) / sum(a + b + c). NULL unless every population has a complete diploid, and more than one on average.",
        SYNTAX,
        "SELECT 1 - exact_sum(f['c']) / exact_sum(f['b'] + f['c']) AS f_is\nFROM (SELECT site_fst_weir_cockerham(call_genotype, 'YRI', 'CEU') AS f FROM chr22);",
        &[
            (
                "zc1",
                "Complete diploids of the first population, as `zygosity_counts(call_genotype, 'POP')` gives them; or, in place of all, `call_genotype` and then the populations.",
            ),
            (
                "zc2",
                "Complete diploids of the second population; any number may follow.",
            ),
        ],
    )
}

fn fields() -> Fields {
    ["a", "b", "c"]
        .map(|name| Field::new(name, DataType::Float64, true))
        .to_vec()
        .into()
}

impl ScalarUDFImpl for SiteFstWeirCockerham {
    function_identity!("site_fst_weir_cockerham");

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        coerce_zygosity(self.name(), SYNTAX, types, 2..=usize::MAX)
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Struct(fields()))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let inputs = Inputs::new(self.name(), &args)?;
        let populations = (0..inputs.len())
            .map(|at| Argument::try_new(&inputs, at))
            .collect::<Result<Vec<_>>>()?;
        let mut parts: [Vec<f64>; 3] = Default::default();
        let mut valid = Vec::with_capacity(inputs.rows);
        for row in 0..inputs.rows {
            let site: Option<Vec<Diploids>> = populations.iter().map(|of| of.get(row)).collect();
            let components = site.and_then(|site| weir_cockerham(site.into_iter()));
            valid.push(components.is_some());
            for (part, component) in parts.iter_mut().zip(components.unwrap_or_default()) {
                part.push(component);
            }
        }
        let nulls = Some(NullBuffer::from(valid)).filter(|nulls| nulls.null_count() > 0);
        // The fields of a NULL struct are NULL, too, because access to a field ignores the struct's validity.
        let parts = parts
            .into_iter()
            .map(|part| {
                Ok(Arc::new(Float64Array::try_new(
                    ScalarBuffer::from(part),
                    nulls.clone(),
                )?) as ArrayRef)
            })
            .collect::<Result<_>>()?;
        inputs.finish(Arc::new(StructArray::try_new(fields(), parts, nulls)?))
    }
}
