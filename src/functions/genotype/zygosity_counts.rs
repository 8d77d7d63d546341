//! `zygosity_counts`: complete diploids by allele and zygosity.

use datafusion::logical_expr::{DocSection, Documentation, ScalarUDF};

use crate::scan::{GenotypeFunction, GenotypeUdf};

/// Counts complete diploids by zygosity: a struct of individuals, their number; ac, their copies of each allele; and het, for each allele
/// the number of heterozygous individuals that carry it. A complete diploid has exactly two copies (codes other than -2), both called:
/// half-calls, haploids and polyploids are left out. `(ac[k] - het[k]) / 2` individuals are homozygous for allele k.
pub fn udf() -> ScalarUDF {
    let documentation = Documentation::builder(
        DocSection { include: true, label: "Population Genetics Functions", description: None },
        "Counts complete diploids by zygosity: a struct of individuals, their number; ac, their copies of each allele; and het, for each allele the heterozygous ones that carry it. A complete diploid has exactly two copies (codes other than -2), both called: half-calls, haploids and polyploids are left out. Individuals homozygous for allele k are (ac[k] - het[k]) / 2.",
        "zygosity_counts(call_genotype [, population])",
    )
    .with_sql_example("```sql\nSELECT observed_heterozygosity(zygosity_counts(call_genotype, 'YRI')) FROM chr22;\n```")
    .with_argument("call_genotype", "The genotype column of a VCZ table.")
    .with_argument(
        "population",
        "A name from the table's populations file, a list of sample ids, or an uncorrelated scalar subquery that gives \
         one; every sample when left out.",
    )
    .with_related_udf("genotype_counts")
    .with_related_udf("observed_heterozygosity")
    .with_related_udf("expected_heterozygosity")
    .with_related_udf("hwe_exact")
    .build();
    GenotypeUdf::udf(GenotypeFunction::ZygosityCounts, documentation)
}
