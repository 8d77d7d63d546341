//! `garud_h(call_genotype [, population])`: H1, H12, H123 and H2/H1 of the haplotypes of a window.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, StructArray};
use arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::Result;
use datafusion::logical_expr::{Accumulator, Documentation};

use super::haplotype_state::HaplotypeRow;
use super::haplotype_windows::{FrameRows, HaplotypeValue, HaplotypesOf};
use super::planes_udaf::{PlanesDefinition, Population, document_genotypes};
use crate::functions::numeric::haplotypes::Haplotypes;

/// `garud_h`.
#[derive(Debug)]
pub(crate) struct GarudH;

fn fields() -> Fields {
    let number = |name| Field::new(name, DataType::Float64, true);
    vec![
        number("h1"),
        number("h12"),
        number("h123"),
        number("h2_h1"),
        number("diversity"),
        Field::new("count", DataType::Int64, true),
        Field::new("n", DataType::Int64, false),
        Field::new("sites", DataType::Int64, false),
    ]
    .into()
}

impl HaplotypeValue for GarudH {
    const NAME: &'static str = "garud_h";

    fn column(rows: &[HaplotypeRow]) -> Result<ArrayRef> {
        let number = |of: fn(Haplotypes) -> Option<f64>| -> ArrayRef {
            let values = rows.iter().map(|row| row.statistics.and_then(of));
            Arc::new(values.collect::<Float64Array>())
        };
        let whole = |of: fn(&HaplotypeRow) -> Option<i64>| -> ArrayRef {
            Arc::new(rows.iter().map(of).collect::<Int64Array>())
        };
        let columns = vec![
            number(|of| Some(of.h1)),
            number(|of| Some(of.h12)),
            number(|of| Some(of.h123)),
            number(|of| Some(of.h2_h1)),
            number(|of| of.diversity),
            whole(|row| row.statistics.map(|of| of.count as i64)),
            whole(|row| Some(row.n)),
            whole(|row| Some(row.sites)),
        ];
        Ok(Arc::new(StructArray::try_new(fields(), columns, None)?))
    }
}

impl PlanesDefinition for GarudH {
    type Statistic = HaplotypesOf<Self>;
    const NAME: &'static str = <Self as HaplotypeValue>::NAME;

    fn return_type() -> DataType {
        DataType::Struct(fields())
    }

    fn statistic(population: &Population) -> Result<Self::Statistic> {
        Ok(HaplotypesOf::new(population.copies))
    }

    fn sliding(statistic: Self::Statistic) -> Box<dyn Accumulator> {
        Box::new(FrameRows::new(statistic))
    }

    fn documentation() -> Documentation {
        document_genotypes(
            "Garud's H statistics (Garud et al. 2015) of the haplotypes of a window, as a struct: h1 (the sum of squared haplotype \
             frequencies), h12, h123 (the same with the two and the three most frequent haplotypes as one), h2_h1, diversity (Nei \
             1987), count (of distinct haplotypes), n (copies) and sites. Every copy of the population is a haplotype, in stored \
             order: the phase is not checked. Rows where a copy is not called are left out, and copies that do not exist in some \
             row of the window (haploid calls). Without a site or a copy all but n and sites are NULL. In sliding frames every \
             value is computed anew.",
            "garud_h(call_genotype [, population])",
            "SELECT variant_contig, genome_bin(variant_position, 10000) AS w, garud_h(call_genotype, 'YRI')['h12'] FROM chr22 GROUP BY 1, 2;",
        )
        .with_related_udf("haplotype_diversity")
        .build()
    }
}
