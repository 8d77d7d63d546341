//! `allele_counts`: calls of each allele in a population.

use datafusion::logical_expr::{DocSection, Documentation, ScalarUDF};

use crate::scan::{GenotypeFunction, GenotypeUdf};

/// Counts the calls of allele 0, 1, … in a population, as a fixed-size list of K integers (K is the width of variant_allele). Missing
/// calls are not counted.
pub fn udf() -> ScalarUDF {
    let documentation = Documentation::builder(
        DocSection { include: true, label: "Population Genetics Functions", description: None },
        "Counts the calls of allele 0, 1, … in a population, as a fixed-size list of K integers (K is the width of variant_allele). Missing calls are not counted.",
        "allele_counts(call_genotype [, population])",
    )
    .with_sql_example("```sql\nSELECT variant_position, allele_counts(call_genotype, 'YRI') FROM chr22;\n```")
    .with_argument("call_genotype", "The genotype column of a VCZ table.")
    .with_argument(
        "population",
        "A name from the table's populations file, a list of sample ids, or an uncorrelated scalar subquery that gives \
         one; every sample when left out.",
    )
    .build();
    GenotypeUdf::udf(GenotypeFunction::AlleleCounts, documentation)
}
