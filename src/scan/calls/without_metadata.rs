//! [`without_metadata`]: removes metadata of a column that identify its samples or copies. Planning inserts it into the branches of a UNION
//! whose columns disagree: genotypes of different samples, stores or populations, counts of different numbers of copies. The batches of
//! all branches then have the schema of the UNION and can be stored as its rows.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExpressionPlacement, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, lit,
};

/// `expr` without the metadata of `keys`.
pub fn without_metadata(expr: Expr, keys: impl IntoIterator<Item = String>) -> Expr {
    let args = std::iter::once(expr).chain(keys.into_iter().map(lit));
    without_metadata_udf().call(args.collect())
}

/// The function that [`without_metadata`] calls.
pub fn without_metadata_udf() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        Arc::new(ScalarUDF::new_from_impl(WithoutMetadata {
            signature: Signature::variadic_any(Volatility::Immutable),
        }))
    });
    Arc::clone(&FUNCTION)
}

/// The function: a column, then the keys as constants.
#[derive(Debug, PartialEq, Eq, Hash)]
struct WithoutMetadata {
    signature: Signature,
}

impl ScalarUDFImpl for WithoutMetadata {
    fn name(&self) -> &str {
        "vcz_without_metadata"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let field: &Field = &args.arg_fields[0];
        let mut metadata = field.metadata().clone();
        for key in &args.scalar_arguments[1..] {
            match key.and_then(|key| key.try_as_str().flatten()) {
                Some(key) => metadata.remove(key),
                None => return plan_err!("{}: keys must be constants", self.name()),
            };
        }
        Ok(Arc::new(
            field.clone().with_name(self.name()).with_metadata(metadata),
        ))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args[0].clone())
    }

    fn placement(&self, args: &[ExpressionPlacement]) -> ExpressionPlacement {
        // Placed like its argument, so that it stays next to a call on genotypes, at the scan.
        match args.first() {
            Some(ExpressionPlacement::MoveTowardsLeafNodes) => {
                ExpressionPlacement::MoveTowardsLeafNodes
            }
            _ => ExpressionPlacement::KeepInPlace,
        }
    }
}
