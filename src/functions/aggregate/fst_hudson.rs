//! `fst_hudson(ac1, ac2)`: Hudson's F_ST, as a ratio of sums over sites.

use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::Result;
use datafusion::logical_expr::Documentation;

use super::definition::{Call, Definition, document_two};
use super::sums::{Block, Site, SiteSums, Sums};
use super::sums_of::SumsOf;
use crate::functions::numeric::blocks::{self, Counts};
use crate::functions::numeric::site::fst_hudson_terms;

/// `fst_hudson`.
#[derive(Debug)]
pub(crate) struct FstHudson;

impl SiteSums<2, 2, 0> for FstHudson {
    type Output = Float64Type;

    #[inline(always)] // once per row, in the loop over them
    fn site([first, second]: [&[i32]; 2]) -> Option<Site<2, 0>> {
        let (numerator, denominator) = fst_hudson_terms(first, second)?;
        Some(Site {
            terms: [numerator, denominator],
            counts: [],
        })
    }

    #[inline(always)] // into a loop with vector instructions
    fn block<const K: usize>(counts: [&Counts<K>; 2]) -> Option<Block<2, 0>> {
        let (terms, _) = blocks::fst_hudson(counts)?;
        Some(Block { terms, counts: [] })
    }

    fn finish(&self, sums: &Sums<2, 0>) -> Option<f64> {
        sums.ratio()
    }
}

impl Definition for FstHudson {
    type Statistic = SumsOf<Self, 2, 2, 0>;
    const NAME: &'static str = "fst_hudson";
    const COUNTS: usize = 2;

    fn return_type() -> DataType {
        DataType::Float64
    }

    fn statistic(_call: &Call) -> Result<Self::Statistic> {
        Ok(SumsOf::new(Self))
    }

    fn documentation() -> Documentation {
        document_two(
            "Hudson's F_ST (Hudson, Slatkin and Maddison 1992), as a ratio of sums over the sites \
             with at least two called copies in both populations: sum(b - (w1 + w2) / 2) / \
             sum(b), w the diversity within and b the divergence between at a site. NULL where \
             sum(b) is 0.",
            "fst_hudson(ac1, ac2)",
            "SELECT fst_hudson(call_genotype, 'YRI', 'CEU') FROM t",
        )
        .with_related_udf("divergence")
        .with_related_udf("diversity")
        .build()
    }
}

#[cfg(test)]
mod tests {
    use crate::functions::aggregate::harness::{Call, sites};

    #[test]
    fn by_hand() {
        // Fixed for different alleles: 1 over 1. Alike: (1/2 - 2/3) over 1/2. The third has n1 = 1.
        let first = sites(&[[4, 0], [2, 2], [1, 0]]);
        let second = sites(&[[0, 4], [2, 2], [0, 4]]);
        let call = Call::new("fst_hudson", &[None, None], &[]).unwrap();
        let value = call.value(&[first, second]).unwrap();
        let datafusion::common::ScalarValue::Float64(Some(value)) = value else {
            panic!()
        };
        assert!((value - (1.0 - 1.0 / 6.0) / 1.5).abs() < 1e-15);
    }

    #[test]
    fn no_divergence_is_null() {
        let fixed = sites(&[[4, 0], [4, 0]]);
        let call = Call::new("fst_hudson", &[None, None], &[]).unwrap();
        assert!(
            call.value(&[std::sync::Arc::clone(&fixed), fixed])
                .unwrap()
                .is_null()
        );
    }
}
