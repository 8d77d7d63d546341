//! `haplotype_count(call_genotype [, population])`: the number of distinct haplotypes of a window.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{Accumulator, Documentation};

use super::haplotype_state::HaplotypeRow;
use super::haplotype_windows::{FrameRows, HaplotypeValue, HaplotypesOf};
use super::planes_udaf::{PlanesDefinition, Population, document_genotypes};

/// `haplotype_count`.
#[derive(Debug)]
pub(crate) struct HaplotypeCount;

impl HaplotypeValue for HaplotypeCount {
    const NAME: &'static str = "haplotype_count";

    fn column(rows: &[HaplotypeRow]) -> Result<ArrayRef> {
        let values = rows.iter().map(|row| Some(row.statistics?.count as i64));
        Ok(Arc::new(values.collect::<Int64Array>()))
    }
}

impl PlanesDefinition for HaplotypeCount {
    type Statistic = HaplotypesOf<Self>;
    const NAME: &'static str = <Self as HaplotypeValue>::NAME;

    fn return_type() -> DataType {
        DataType::Int64
    }

    fn statistic(population: &Population) -> Result<Self::Statistic> {
        Ok(HaplotypesOf::new(population.copies))
    }

    fn sliding(statistic: Self::Statistic) -> Box<dyn Accumulator> {
        Box::new(FrameRows::new(statistic))
    }

    fn documentation() -> Documentation {
        document_genotypes(
            "The number of distinct haplotypes of a window; NULL without a site or a copy. Which rows and copies count: garud_h.",
            "haplotype_count(call_genotype [, population])",
            "SELECT variant_contig, genome_bin(variant_position, 10000) AS w, haplotype_count(call_genotype) FROM chr22 GROUP BY 1, 2;",
        )
        .with_related_udf("garud_h")
        .build()
    }
}
