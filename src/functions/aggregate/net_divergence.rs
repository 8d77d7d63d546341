//! `net_divergence(ac1, ac2)`: net nucleotide divergence d_a summed over sites.

use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Documentation;

use super::definition::{Call, Definition, document_two};
use super::sums::{Block, Site, SiteSums, Sums};
use super::sums_of::SumsOf;
use crate::functions::numeric::blocks::{self, Counts};
use crate::functions::numeric::populations::site_f2;

/// `net_divergence`.
#[derive(Debug)]
pub(crate) struct NetDivergence;

impl SiteSums<2, 1, 0> for NetDivergence {
    type Output = Float64Type;

    #[inline(always)] // once per row, in the loop over them
    fn site([first, second]: [&[i32]; 2]) -> Option<Site<1, 0>> {
        let term = site_f2(first, second)?;
        Some(Site {
            terms: [term],
            counts: [],
        })
    }

    #[inline(always)] // into a loop with vector instructions
    fn block<const K: usize>(counts: [&Counts<K>; 2]) -> Option<Block<1, 0>> {
        let ([terms, _], _) = blocks::fst_hudson(counts)?;
        Some(Block {
            terms: [terms],
            counts: [],
        })
    }

    fn finish(&self, sums: &Sums<1, 0>) -> Option<f64> {
        Some(sums.terms[0].to_f64())
    }
}

impl Definition for NetDivergence {
    type Statistic = SumsOf<Self, 2, 1, 0>;
    const NAME: &'static str = "net_divergence";
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
            "Net nucleotide divergence between two populations (d_a; Nei and Li 1979), summed over the \
             sites with at least two called copies in both: the sum of divergence - (diversity1 + \
             diversity2) / 2. Divide by the number of bases looked at for a rate.",
            "net_divergence(ac1, ac2)",
            "SELECT net_divergence(call_genotype, 'YRI', 'CEU') / 10000 FROM t",
        )
        .with_related_udf("divergence")
        .with_related_udf("f2")
        .with_related_udf("fst_hudson")
        .build()
    }
}

#[cfg(test)]
mod tests {
    use crate::functions::aggregate::harness::{Call, counts};

    #[test]
    fn by_hand() {
        // Fixed for different alleles: 1. Alike: 1/2 - 2/3. One copy in the second: no site.
        let first = counts(&[Some(vec![4]), Some(vec![2, 2]), Some(vec![2, 2]), None]);
        let second = counts(&[
            Some(vec![0, 4]),
            Some(vec![2, 2]),
            Some(vec![1]),
            Some(vec![2]),
        ]);
        let call = Call::new("net_divergence", &[None, None], &[]).unwrap();
        let value = call.value(&[first, second]).unwrap();
        assert_eq!(value, (1.0 + (0.5 - 2.0 / 3.0)).into());
    }
}
