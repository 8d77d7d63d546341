//! [`unlabelled`]: a column without the metadata that says whose it is. Planning puts it into the branches of a UNION whose columns
//! disagree: genotypes of different samples, counts of different numbers of copies. DataFusion would give the rows of all branches
//! the metadata of one.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExpressionPlacement, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};

use super::context::{POPULATIONS_KEY, SAMPLES_KEY, STORE_KEY};
use super::copies::COPIES_KEY;

/// `expr` without the metadata of samples, populations and copies. The number of alleles stays: it is the counts' width.
pub fn unlabelled(expr: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        Arc::new(ScalarUDF::new_from_impl(Unlabelled {
            signature: Signature::any(1, Volatility::Immutable),
        }))
    });
    FUNCTION.call(vec![expr])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Unlabelled {
    signature: Signature,
}

impl ScalarUDFImpl for Unlabelled {
    fn name(&self) -> &str {
        "vcz_unlabelled"
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
        for key in [STORE_KEY, SAMPLES_KEY, POPULATIONS_KEY, COPIES_KEY] {
            metadata.remove(key);
        }
        Ok(Arc::new(
            field.clone().with_name(self.name()).with_metadata(metadata),
        ))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args[0].clone())
    }

    fn placement(&self, args: &[ExpressionPlacement]) -> ExpressionPlacement {
        // With a call on genotypes it stays beside the scan.
        match args.first() {
            Some(ExpressionPlacement::MoveTowardsLeafNodes) => {
                ExpressionPlacement::MoveTowardsLeafNodes
            }
            _ => ExpressionPlacement::KeepInPlace,
        }
    }
}
