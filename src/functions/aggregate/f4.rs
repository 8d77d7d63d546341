//! `f4(a, b, c, d)`: the f4 statistic of four populations, a mean over sites.

use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::Result;
use datafusion::logical_expr::Documentation;

use super::definition::{Call, Definition, document_populations};
use super::sums::{Block, Site, SiteSums, Sums};
use super::sums_of::SumsOf;
use crate::functions::numeric::blocks::{self, Counts};
use crate::functions::numeric::populations::site_f4;

/// `f4`.
#[derive(Debug)]
pub(crate) struct F4;

impl SiteSums<4, 1, 1> for F4 {
    type Output = Float64Type;

    #[inline(always)] // once per row, in the loop over them
    fn site(counts: [&[i32]; 4]) -> Option<Site<1, 1>> {
        let term = site_f4(counts)?;
        Some(Site {
            terms: [term],
            counts: [1],
        })
    }

    #[inline(always)] // into a loop with vector instructions
    fn block<const K: usize>(counts: [&Counts<K>; 4]) -> Option<Block<1, 1>> {
        let (terms, sites) = blocks::f4(counts)?;
        Some(Block {
            terms: [terms],
            counts: [sites],
        })
    }

    fn finish(&self, sums: &Sums<1, 1>) -> Option<f64> {
        sums.mean()
    }
}

impl Definition for F4 {
    type Statistic = SumsOf<Self, 4, 1, 1>;
    const NAME: &'static str = "f4";
    const COUNTS: usize = 4;

    fn return_type() -> DataType {
        DataType::Float64
    }

    fn statistic(_call: &Call) -> Result<Self::Statistic> {
        Ok(SumsOf::new(Self))
    }

    fn documentation() -> Documentation {
        document_populations(
            "The f4 statistic of four populations (Patterson et al. 2012): the mean of (d_ad + d_bc - \
             d_ac - d_bd) / 2, d the divergence of a pair at a site, which is half of the sum over \
             alleles of (a - b)(c - d) of frequencies, over the sites with a called copy in all \
             four, sites that do not vary included. NULL where there is no such site.",
            "f4(a, b, c, d)",
            "SELECT f4(call_genotype, 'YRI', 'LWK', 'CEU', 'CHB') FROM t",
            &[("a", "the first population"), ("b", "the second population"), ("c", "the third population"), ("d", "the fourth population")],
        )
        .with_related_udf("site_f4")
        .with_related_udf("patterson_d")
        .with_related_udf("f2")
        .with_related_udf("jackknife")
        .build()
    }
}

#[cfg(test)]
mod tests {
    use crate::functions::aggregate::harness::{Call, sites};

    #[test]
    fn by_hand() {
        // a and c have one allele, b and d the other: 1. Frequencies 1, 1/2, 1/2, 0: (1 - 1/2)(1/2 - 0). No call in d: no site.
        let columns = [
            sites(&[[1, 0], [4, 0], [1, 0]]),
            sites(&[[0, 2], [1, 1], [1, 0]]),
            sites(&[[2, 0], [2, 2], [1, 0]]),
            sites(&[[0, 1], [0, 3], [0, 0]]),
        ];
        let call = Call::new("f4", &[None; 4], &[]).unwrap();
        assert_eq!(call.value(&columns).unwrap(), ((1.0 + 0.25) / 2.0).into());
    }
}
