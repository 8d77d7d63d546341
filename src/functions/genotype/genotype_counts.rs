//! `genotype_counts`: individuals by genotype class.

use datafusion::logical_expr::{DocSection, Documentation, ScalarUDF};

use crate::scan::{GenotypeFunction, GenotypeUdf};

/// Counts individuals by genotype: a struct of hom_ref, het, hom_alt, haploid and missing. The copies of a call are its codes other than
/// -2. A call with one copy, called, is haploid. With more copies, all called, it is hom_ref or hom_alt if they are equal and het if they
/// differ (1/2 too). Any other call is missing.
pub fn udf() -> ScalarUDF {
    let documentation = Documentation::builder(
        DocSection { include: true, label: "Population Genetics Functions", description: None },
        "Counts individuals by genotype: a struct of hom_ref, het, hom_alt, haploid and missing. The copies of a call are its codes other than -2; all called and equal is hom_ref or hom_alt, all called and different is het (1/2 too), one called copy is haploid, anything else is missing.",
        "genotype_counts(call_genotype [, population])",
    )
    .with_sql_example("```sql\nSELECT genotype_counts(call_genotype)['het'] FROM chr22;\n```")
    .with_argument("call_genotype", "The genotype column of a VCZ table.")
    .with_argument(
        "population",
        "A name from the table's populations file, a list of sample ids, or an uncorrelated scalar subquery that gives \
         one; every sample when left out.",
    )
    .build();
    GenotypeUdf::udf(GenotypeFunction::GenotypeCounts, documentation)
}
