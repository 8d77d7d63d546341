//! `inbreeding(zc)`: the inbreeding coefficient F, as a ratio of sums over sites.

use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::Result;
use datafusion::logical_expr::Documentation;

use super::definition::{Call, Definition, document_zygosity};
use super::many_sums_of::ManySumsOf;
use super::sums::{Block, ManySums, Site, Sums};
use crate::functions::numeric::blocks::Counts;
use crate::functions::numeric::many_blocks;
use crate::functions::numeric::zygosity::Diploids;
use crate::functions::site_argument::SiteArgument;

/// `inbreeding`.
#[derive(Debug)]
pub(crate) struct Inbreeding;

impl ManySums<2, 0> for Inbreeding {
    type Output = Float64Type;

    #[inline]
    fn site(counts: &[&[i32]], _work: &mut Vec<f64>) -> Option<Site<2, 0>> {
        let &[ac, het] = counts else { return None };
        let site = Diploids { ac, het };
        Some(Site {
            terms: [
                site.observed_heterozygosity()?,
                site.expected_heterozygosity()?,
            ],
            counts: [],
        })
    }

    #[inline(always)] // into a loop with vector instructions
    fn block<const K: usize>(counts: &[&Counts<K>]) -> Option<Block<2, 0>> {
        let &[ac, het] = counts else { return None };
        let terms = many_blocks::heterozygosity(ac, het)?;
        Some(Block { terms, counts: [] })
    }

    fn finish(&self, sums: &Sums<2, 0>) -> Option<f64> {
        sums.ratio().map(|ratio| 1.0 - ratio)
    }
}

impl Definition for Inbreeding {
    type Statistic = ManySumsOf<Self, 2, 0>;
    const NAME: &'static str = "inbreeding";
    const ARGUMENT: SiteArgument = SiteArgument::Zygosity;
    const COUNTS: usize = 1;

    fn return_type() -> DataType {
        DataType::Float64
    }

    fn statistic(_call: &Call) -> Result<Self::Statistic> {
        Ok(ManySumsOf::new(Self))
    }

    fn documentation() -> Documentation {
        document_zygosity(
            "The inbreeding coefficient F of a population (Wright 1922): 1 minus the sum of observed over \
             the sum of expected heterozygosity (Nei 1978, without bias), over the sites with a complete \
             diploid. Below 0 with more heterozygous individuals than expected. NULL where no site varies.",
            "inbreeding(zc)",
            "SELECT inbreeding(call_genotype, 'YRI') FROM t",
            &[("zc", "the population")],
        )
        .with_related_udf("observed_heterozygosity")
        .with_related_udf("expected_heterozygosity")
        .with_related_udf("fst_weir_cockerham")
        .build()
    }
}

#[cfg(test)]
mod tests {
    use crate::functions::aggregate::harness::{Call, zygosity, zygosity_field};

    #[test]
    fn by_hand() {
        // Two heterozygotes: 1 of 2/3. Two homozygotes: 0 of 2/3. No individual, and NULL: no sites.
        let column = zygosity(&[
            Some([vec![2, 2], vec![2, 2]]),
            Some([vec![2, 2], vec![0, 0]]),
            Some([vec![0, 0], vec![0, 0]]),
            None,
        ]);
        let call = Call::on("inbreeding", vec![zygosity_field("zc")], &[]).unwrap();
        let found = call.value(std::slice::from_ref(&column)).unwrap();
        assert_eq!(found, (1.0 - 1.0 / (4.0 / 3.0)).into());
        assert!(call.value(&[column.slice(2, 2)]).unwrap().is_null());
    }
}
