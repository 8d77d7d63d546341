//! `divergence(ac1, ac2)`: nucleotide divergence d_xy summed over sites.

use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Documentation;

use super::definition::{Call, Definition, document_two};
use super::sums::{Block, Site, SiteSums, Sums};
use super::sums_of::SumsOf;
use crate::functions::numeric::blocks::{self, Counts};
use crate::functions::numeric::site::site_divergence;

/// `divergence`.
#[derive(Debug)]
pub(crate) struct Divergence;

impl SiteSums<2, 1, 0> for Divergence {
    type Output = Float64Type;

    #[inline(always)] // once per row, in the loop over them
    fn site([first, second]: [&[i32]; 2]) -> Option<Site<1, 0>> {
        let term = site_divergence(first, second)?;
        Some(Site {
            terms: [term],
            counts: [],
        })
    }

    #[inline(always)] // into a loop with vector instructions
    fn block<const K: usize>(counts: [&Counts<K>; 2]) -> Option<Block<1, 0>> {
        let terms = blocks::divergence(counts)?;
        Some(Block {
            terms: [terms],
            counts: [],
        })
    }

    fn finish(&self, sums: &Sums<1, 0>) -> Option<f64> {
        Some(sums.terms[0].to_f64())
    }
}

impl Definition for Divergence {
    type Statistic = SumsOf<Self, 2, 1, 0>;
    const NAME: &'static str = "divergence";
    const COUNTS: usize = 2;

    fn return_type() -> DataType {
        DataType::Float64
    }

    fn default_value() -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(Some(0.0)))
    }

    fn statistic(_call: &Call) -> Result<Self::Statistic> {
        Ok(SumsOf::new(Self))
    }

    fn documentation() -> Documentation {
        document_two(
            "Nucleotide divergence between two populations (d_xy; Nei 1987), summed over sites: \
             the sum, over sites with calls in both, of 1 - sum(a1 a2) / (n1 n2). Divide by the \
             number of bases looked at for a rate.",
            "divergence(ac1, ac2)",
            "SELECT divergence(call_genotype, 'YRI', 'CEU') / 10000 FROM t",
        )
        .with_related_udf("diversity")
        .with_related_udf("fst_hudson")
        .build()
    }
}

#[cfg(test)]
mod tests {
    use crate::functions::aggregate::harness::{Call, counts};

    #[test]
    fn by_hand() {
        // 1 - (3·1 + 1·1)/(4·2) = 1/2; no allele in common: 1; no calls in the second: no site.
        let first = counts(&[Some(vec![3, 1]), Some(vec![2]), Some(vec![2]), None]);
        let second = counts(&[
            Some(vec![1, 1]),
            Some(vec![0, 2]),
            Some(vec![0]),
            Some(vec![1]),
        ]);
        let call = Call::new("divergence", &[None, None], &[]).unwrap();
        assert_eq!(call.value(&[first, second]).unwrap(), 1.5.into());
    }
}
