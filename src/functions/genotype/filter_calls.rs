//! `filter_calls`: genotypes in which calls that fail a filter on a FORMAT field are set to missing.

use datafusion::logical_expr::ScalarUDF;

use crate::functions::documentation::document;
use crate::scan::FilterCalls;

/// Genotypes in which calls whose value of a FORMAT field is NULL or outside the bounds are set to missing.
pub fn udf() -> ScalarUDF {
    let documentation = document(
        "The genotypes with those calls missing whose value of a FORMAT field is NULL (missing or fill) or outside the bounds: their \
         existing copies become -1, and -2 (no such copy) stays. Every function of genotypes takes the result, and filters nest. With \
         no bounds, calls with any value pass.",
        "filter_calls(call_genotype, field [, min [, max]])",
        "SELECT sfs(filter_calls(filter_calls(call_genotype, call_GQ, 20), call_DP, 5, 100)) FROM chr22;",
    )
    .with_argument("call_genotype", "The genotype column of a VCZ table.")
    .with_argument(
        "field",
        "A FORMAT field of the same table with one value for each call, such as call_GQ, or call_value(call_AD, 2) of one with \
         several.",
    )
    .with_argument(
        "min",
        "The smallest number that passes, a constant; NULL, or left out, for no bound. For strings and flags the value that passes.",
    )
    .with_argument(
        "max",
        "The largest number that passes, a constant; NULL, or left out, for no bound.",
    )
    .with_related_udf("call_value")
    .with_related_udf("select_samples")
    .build();
    FilterCalls::udf(documentation)
}
