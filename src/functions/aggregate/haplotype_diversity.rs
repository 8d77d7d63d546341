//! `haplotype_diversity(call_genotype [, population])`: the probability that two haplotypes of a window differ.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{Accumulator, Documentation};

use super::haplotype_state::HaplotypeRow;
use super::haplotype_windows::{FrameRows, HaplotypeValue, HaplotypesOf};
use super::planes_udaf::{PlanesDefinition, Population, document_genotypes};

/// `haplotype_diversity`.
#[derive(Debug)]
pub(crate) struct HaplotypeDiversity;

impl HaplotypeValue for HaplotypeDiversity {
    const NAME: &'static str = "haplotype_diversity";

    fn column(rows: &[HaplotypeRow]) -> Result<ArrayRef> {
        let values = rows.iter().map(|row| row.statistics?.diversity);
        Ok(Arc::new(values.collect::<Float64Array>()))
    }
}

impl PlanesDefinition for HaplotypeDiversity {
    type Statistic = HaplotypesOf<Self>;
    const NAME: &'static str = <Self as HaplotypeValue>::NAME;

    fn return_type() -> DataType {
        DataType::Float64
    }

    fn statistic(population: &Population) -> Result<Self::Statistic> {
        Ok(HaplotypesOf::new(population.copies))
    }

    fn sliding(statistic: Self::Statistic) -> Box<dyn Accumulator> {
        Box::new(FrameRows::new(statistic))
    }

    fn documentation() -> Documentation {
        document_genotypes(
            "Haplotype diversity of a window (Nei 1987): (1 - the sum of squared haplotype frequencies) n/(n-1). NULL without a \
             site, or with fewer than two copies. Which rows and copies count: garud_h.",
            "haplotype_diversity(call_genotype [, population])",
            "SELECT variant_contig, genome_bin(variant_position, 10000) AS w, haplotype_diversity(call_genotype) FROM chr22 GROUP BY 1, 2;",
        )
        .with_related_udf("garud_h")
        .build()
    }
}
