//! `f2(ac1, ac2)`: the f2 statistic of two populations, a mean over sites.

use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::Result;
use datafusion::logical_expr::Documentation;

use super::definition::{Call, Definition, document_two};
use super::sums::{Block, Site, SiteSums, Sums};
use super::sums_of::SumsOf;
use crate::functions::numeric::blocks::{self, Counts};
use crate::functions::numeric::populations::site_f2;

/// `f2`.
#[derive(Debug)]
pub(crate) struct F2;

impl SiteSums<2, 1, 1> for F2 {
    type Output = Float64Type;

    #[inline(always)] // once per row, in the loop over them
    fn site([first, second]: [&[i32]; 2]) -> Option<Site<1, 1>> {
        let term = site_f2(first, second)?;
        Some(Site {
            terms: [term],
            counts: [1],
        })
    }

    #[inline(always)] // into a loop with vector instructions
    fn block<const K: usize>(counts: [&Counts<K>; 2]) -> Option<Block<1, 1>> {
        let ([terms, _], sites) = blocks::fst_hudson(counts)?;
        Some(Block {
            terms: [terms],
            counts: [sites],
        })
    }

    fn finish(&self, sums: &Sums<1, 1>) -> Option<f64> {
        sums.mean()
    }
}

impl Definition for F2 {
    type Statistic = SumsOf<Self, 2, 1, 1>;
    const NAME: &'static str = "f2";
    const COUNTS: usize = 2;

    fn return_type() -> DataType {
        DataType::Float64
    }

    fn statistic(_call: &Call) -> Result<Self::Statistic> {
        Ok(SumsOf::new(Self))
    }

    fn documentation() -> Documentation {
        document_two(
            "The f2 statistic of two populations (Reich et al. 2009, Patterson et al. 2012), without bias: \
             the mean of divergence - (diversity1 + diversity2) / 2 over the sites with at least \
             two called copies in both, sites that do not vary included; exact for any number of \
             alleles. NULL where there is no such site.",
            "f2(ac1, ac2)",
            "SELECT f2(call_genotype, 'YRI', 'CEU') FROM t",
        )
        .with_related_udf("site_f2")
        .with_related_udf("f3")
        .with_related_udf("f4")
        .with_related_udf("net_divergence")
        .build()
    }
}

#[cfg(test)]
mod tests {
    use crate::functions::aggregate::harness::{Call, sites};

    #[test]
    fn by_hand() {
        // 1/2 - (0 + 2/3)/2; a site that does not vary; one copy in the first: no site.
        let first = sites(&[[4, 0], [4, 0], [1, 0]]);
        let second = sites(&[[2, 2], [4, 0], [2, 2]]);
        let call = Call::new("f2", &[None, None], &[]).unwrap();
        let value = call.value(&[first, second]).unwrap();
        assert_eq!(value, ((0.5 - (2.0 / 3.0) / 2.0) / 2.0).into());
    }
}
