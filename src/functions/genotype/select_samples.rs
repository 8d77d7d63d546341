//! `select_samples`: the genotypes of some samples, or their values of a FORMAT field.

use datafusion::logical_expr::{DocSection, Documentation, ScalarUDF};

use crate::scan::{GenotypeFunction, GenotypeUdf};

/// The genotypes of some samples only, in store order.
pub fn udf() -> ScalarUDF {
    let documentation = Documentation::builder(
        DocSection { include: true, label: "Population Genetics Functions", description: None },
        "The genotypes of some samples only, or their values of a FORMAT field, in store order.",
        "select_samples(call_genotype, population)",
    )
    .with_sql_example("```sql\nSELECT select_samples(call_genotype, ['NA12878']) FROM chr22;\n```")
    .with_argument(
        "call_genotype",
        "The genotype column of a VCZ table, or a FORMAT field such as call_DP.",
    )
    .with_argument(
        "population",
        "A name from the table's populations file, a list of sample ids, or an uncorrelated scalar subquery that gives \
         one; every sample when left out.",
    )
    .build();
    GenotypeUdf::udf(GenotypeFunction::SelectSamples, documentation)
}
