//! `population_pair_counts`: allele counts of every pair of named populations.

use datafusion::logical_expr::{DocSection, Documentation, ScalarUDF};

use crate::scan::{GenotypeFunction, GenotypeUdf};

/// Counts the alleles of every named population at once, and lists every pair of them in the order of the populations file: structs
/// (population1, population2, copies1, copies2, ac1, ac2), for UNNEST and GROUP BY. Each population is counted once. More than 1,000
/// populations are an error.
pub fn udf() -> ScalarUDF {
    let documentation = Documentation::builder(
        DocSection { include: true, label: "Population Genetics Functions", description: None },
        "Counts the alleles of every named population at once, and lists every pair of them in the order of the populations file: structs (population1, population2, copies1, copies2, ac1, ac2), for UNNEST and GROUP BY. Each population is counted once. More than 1,000 populations are an error.",
        "population_pair_counts(call_genotype)",
    )
    .with_sql_example("```sql\nSELECT p['population1'], p['population2'], fst_hudson(p['ac1'], p['ac2']) FROM (SELECT unnest(population_pair_counts(call_genotype)) AS p FROM chr22) GROUP BY 1, 2;\n```")
    .with_argument("call_genotype", "The genotype column of a VCZ table.")
    .build();
    GenotypeUdf::udf(GenotypeFunction::PopulationPairCounts, documentation)
}
