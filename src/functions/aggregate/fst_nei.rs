//! `fst_nei(ac1, ac2, …)`: Nei's F_ST (G_ST) of two or more populations, as a ratio of sums over sites.

use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::Result;
use datafusion::logical_expr::Documentation;

use super::definition::{Call, Definition, document_populations};
use super::many_sums_of::ManySumsOf;
use super::sums::{Block, ManySums, Site, Sums};
use crate::functions::numeric::blocks::Counts;
use crate::functions::numeric::many_blocks;
use crate::functions::numeric::populations::fst_nei_terms;

/// `fst_nei`.
#[derive(Debug)]
pub(crate) struct FstNei;

impl ManySums<2, 0> for FstNei {
    type Output = Float64Type;

    #[inline]
    fn site(counts: &[&[i32]], work: &mut Vec<f64>) -> Option<Site<2, 0>> {
        let (numerator, denominator) = fst_nei_terms(counts, work)?;
        Some(Site {
            terms: [numerator, denominator],
            counts: [],
        })
    }

    #[inline(always)] // into a loop with vector instructions
    fn block<const K: usize>(counts: &[&Counts<K>]) -> Option<Block<2, 0>> {
        let terms = many_blocks::fst_nei(counts)?;
        Some(Block { terms, counts: [] })
    }

    fn finish(&self, sums: &Sums<2, 0>) -> Option<f64> {
        sums.ratio()
    }
}

impl Definition for FstNei {
    type Statistic = ManySumsOf<Self, 2, 0>;
    const NAME: &'static str = "fst_nei";
    const COUNTS: usize = 2;
    const VARIADIC: bool = true;

    fn return_type() -> DataType {
        DataType::Float64
    }

    fn statistic(_call: &Call) -> Result<Self::Statistic> {
        Ok(ManySumsOf::new(Self))
    }

    fn documentation() -> Documentation {
        document_populations(
            "Nei's F_ST, G_ST (Nei 1973), without bias, of two or more populations: the sum of H_T - H_S \
             over the sum of H_T, over the sites with at least two called copies in all of them. H_S \
             is the mean diversity within the r populations, H_T = H_S / r + (r - 1) D_B / r, and D_B \
             the mean divergence of pairs; with equal n that is Nei and Chesser 1983. NULL where the \
             denominator is 0.",
            "fst_nei(ac1, ac2, …)",
            "SELECT fst_nei(call_genotype, 'YRI', 'CEU', 'CHB') FROM t",
            &[("ac1", "the first population"), ("ac2", "the second population; any number may follow")],
        )
        .with_related_udf("jost_d")
        .with_related_udf("fst_hudson")
        .build()
    }
}

#[cfg(test)]
mod tests {
    use crate::functions::aggregate::harness::{Call, sites};

    #[test]
    fn by_hand() {
        // Fixed for different alleles: H_S = 0, H_T = 1/2. The second site has one copy in the first, so it is left out.
        let columns = [
            sites(&[[4, 0], [1, 0]]),
            sites(&[[0, 4], [0, 4]]),
            sites(&[[1, 1], [2, 2]]),
        ];
        let call = |populations: usize| {
            let call = Call::new("fst_nei", &vec![None; populations], &[]).unwrap();
            call.value(&columns[..populations]).unwrap()
        };
        assert_eq!(call(2), 1.0.into());
        // H_S = 1/3, D_B = (1 + 1/2 + 1/2)/3 = 2/3, H_T = 1/9 + 4/9.
        let datafusion::common::ScalarValue::Float64(Some(three)) = call(3) else {
            panic!()
        };
        assert!((three - (5.0 / 9.0 - 1.0 / 3.0) / (5.0 / 9.0)).abs() < 1e-15);
    }

    #[test]
    fn what_does_not_vary_is_null() {
        let call = Call::new("fst_nei", &[None; 3], &[]).unwrap();
        let fixed = sites(&[[4, 0], [0, 3]]);
        let columns = [(); 3].map(|()| std::sync::Arc::clone(&fixed));
        assert!(call.value(&columns).unwrap().is_null());
    }
}
