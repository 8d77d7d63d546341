//! The functions on genotypes, one file each. The scan computes them (see [`crate::scan::GenotypeUdf`]); these files hold their names
//! and documentation.

mod allele_counts;
mod call_value;
mod filter_calls;
mod genotype_counts;
mod genotype_planes;
mod population_counts;
mod population_pair_counts;
mod select_samples;
mod zygosity_counts;

use datafusion::logical_expr::ScalarUDF;

pub use allele_counts::udf as allele_counts_udf;
pub use genotype_planes::udf as genotype_planes_udf;
pub use zygosity_counts::udf as zygosity_counts_udf;

/// All functions on genotypes that SQL may name.
pub fn all() -> Vec<ScalarUDF> {
    vec![
        allele_counts::udf(),
        call_value::udf(),
        filter_calls::udf(),
        population_counts::udf(),
        population_pair_counts::udf(),
        genotype_counts::udf(),
        select_samples::udf(),
        zygosity_counts::udf(),
    ]
}
