//! `genotype_planes`: the genotypes of a population as bit-planes. Planning inserts calls of it; it is not registered for SQL.

use datafusion::logical_expr::ScalarUDF;

use crate::functions::documentation::document;
use crate::scan::{GenotypeFunction, GenotypeUdf};

/// The genotypes of a population as bit-planes, a list of 64-bit words per row, for aggregates over individuals and haplotypes.
pub fn udf() -> ScalarUDF {
    let documentation = document(
        "The genotypes of a population as bit-planes, for aggregates over individuals and haplotypes.",
        "genotype_planes(call_genotype [, population])",
        "SELECT sample_counts(call_genotype) FROM chr22;",
    )
    .build();
    GenotypeUdf::udf(GenotypeFunction::GenotypePlanes, documentation)
}
