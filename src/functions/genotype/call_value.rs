//! `call_value`: one value of each call of a FORMAT field that has several.

use datafusion::logical_expr::ScalarUDF;

use crate::functions::documentation::document;
use crate::scan::CallValue;

/// The n-th value of each call.
pub fn udf() -> ScalarUDF {
    let documentation = document(
        "The n-th value of each call of a FORMAT field that has several, such as call_AD: a list over samples, as fields with one value \
         are. Values are numbered from 1, as subscripts are, so that of call_AD the first is REF. (A subscript of the column itself is \
         a sample.)",
        "call_value(field, n)",
        "SELECT sfs(filter_calls(call_genotype, call_value(call_AD, 1), 3)) FROM chr22;",
    )
    .with_argument(
        "field",
        "A FORMAT field with several values for each call, such as call_AD.",
    )
    .with_argument("n", "The number of the value, a constant from 1 on.")
    .with_related_udf("filter_calls")
    .build();
    CallValue::udf(documentation)
}
