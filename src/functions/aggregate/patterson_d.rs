//! `patterson_d(a, b, c, d)`: Patterson's D of four populations, the test of ABBA and BABA, as a ratio of sums.

use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::Result;
use datafusion::logical_expr::Documentation;

use super::definition::{Call, Definition, document_populations};
use super::sums::{Block, Site, SiteSums, Sums};
use super::sums_of::SumsOf;
use crate::functions::numeric::blocks::Counts;
use crate::functions::numeric::many_blocks;
use crate::functions::numeric::populations::patterson_d_terms;

/// `patterson_d`.
#[derive(Debug)]
pub(crate) struct PattersonD;

impl SiteSums<4, 2, 0> for PattersonD {
    type Output = Float64Type;

    #[inline(always)] // once per row, in the loop over them
    fn site(counts: [&[i32]; 4]) -> Option<Site<2, 0>> {
        let (numerator, denominator) = patterson_d_terms(counts)?;
        Some(Site {
            terms: [numerator, denominator],
            counts: [],
        })
    }

    #[inline(always)] // into a loop with vector instructions
    fn block<const K: usize>(counts: [&Counts<K>; 4]) -> Option<Block<2, 0>> {
        let terms = many_blocks::patterson_d(counts)?;
        Some(Block { terms, counts: [] })
    }

    fn finish(&self, sums: &Sums<2, 0>) -> Option<f64> {
        sums.ratio()
    }
}

impl Definition for PattersonD {
    type Statistic = SumsOf<Self, 4, 2, 0>;
    const NAME: &'static str = "patterson_d";
    const COUNTS: usize = 4;

    fn return_type() -> DataType {
        DataType::Float64
    }

    fn statistic(_call: &Call) -> Result<Self::Statistic> {
        Ok(SumsOf::new(Self))
    }

    fn documentation() -> Documentation {
        document_populations(
            "Patterson's D (Patterson et al. 2012): the sum of BABA - ABBA over the sum of BABA + ABBA, \
             over the sites with a called copy in all four populations. BABA is the probability that \
             of one copy from each, a and c carry one allele and b and d another one; ABBA that a \
             and d, and b and c do. An excess of alleles shared by b and c is negative here, as in \
             scikit-allel and unlike Durand et al. 2011 and Dsuite. NULL where the denominator is 0.",
            "patterson_d(a, b, c, d)",
            "SELECT patterson_d(call_genotype, 'YRI', 'CEU', 'Vindija', 'chimp') FROM t",
            &[("a", "the first population"), ("b", "the second population"), ("c", "the third population"), ("d", "the fourth population, the outgroup")],
        )
        .with_related_udf("site_patterson_d")
        .with_related_udf("f4")
        .with_related_udf("f_d")
        .with_related_udf("jackknife")
        .build()
    }
}

#[cfg(test)]
mod tests {
    use crate::functions::aggregate::harness::{Call, sites};

    #[test]
    fn by_hand() {
        // BABA; ABBA with b at 1/2; a and b alike, which is neither; no call in d.
        let columns = [
            sites(&[[0, 1], [1, 0], [1, 1], [1, 0]]),
            sites(&[[2, 0], [1, 1], [2, 2], [0, 1]]),
            sites(&[[0, 1], [0, 2], [3, 0], [0, 1]]),
            sites(&[[1, 0], [2, 0], [4, 0], [0, 0]]),
        ];
        let call = Call::new("patterson_d", &[None; 4], &[]).unwrap();
        assert_eq!(call.value(&columns).unwrap(), (0.5 / 1.5).into());
        let neither = columns.map(|column| column.slice(2, 2));
        assert!(call.value(&neither).unwrap().is_null());
    }
}
