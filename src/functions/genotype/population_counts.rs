//! `population_counts`: allele counts of every named population.

use datafusion::logical_expr::{DocSection, Documentation, ScalarUDF};

use crate::scan::{GenotypeFunction, GenotypeUdf};

/// Counts the alleles of every named population at once: a list of structs (population, copies, ac), for UNNEST and GROUP BY population.
pub fn udf() -> ScalarUDF {
    let documentation = Documentation::builder(
        DocSection { include: true, label: "Population Genetics Functions", description: None },
        "Counts the alleles of every named population at once: a list of structs (population, copies, ac), for UNNEST and GROUP BY population. sfs(p['ac']) takes N from p['copies'].",
        "population_counts(call_genotype)",
    )
    .with_sql_example("```sql\nSELECT unnest(population_counts(call_genotype)) FROM chr22;\n```")
    .with_argument("call_genotype", "The genotype column of a VCZ table.")
    .build();
    GenotypeUdf::udf(GenotypeFunction::PopulationCounts, documentation)
}
