//! `diversity(ac)`: nucleotide diversity π summed over sites.

use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Documentation;

use super::definition::{Call, Definition, document_one};
use super::sums::{Block, Site, SiteSums, Sums};
use super::sums_of::SumsOf;
use crate::functions::numeric::blocks::{self, Counts};
use crate::functions::numeric::site::site_diversity;

/// `diversity`.
#[derive(Debug)]
pub(crate) struct Diversity;

impl SiteSums<1, 1, 0> for Diversity {
    type Output = Float64Type;

    #[inline(always)] // once per row, in the loop over them
    fn site([counts]: [&[i32]; 1]) -> Option<Site<1, 0>> {
        site_diversity(counts).map(|term| Site {
            terms: [term],
            counts: [],
        })
    }

    #[inline(always)] // into a loop with vector instructions
    fn block<const K: usize>([counts]: [&Counts<K>; 1]) -> Option<Block<1, 0>> {
        let terms = blocks::diversity(counts)?;
        Some(Block {
            terms: [terms],
            counts: [],
        })
    }

    fn finish(&self, sums: &Sums<1, 0>) -> Option<f64> {
        Some(sums.terms[0].to_f64())
    }
}

impl Definition for Diversity {
    type Statistic = SumsOf<Self, 1, 1, 0>;
    const NAME: &'static str = "diversity";
    const COUNTS: usize = 1;

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
        document_one(
            "Nucleotide diversity (Nei and Li 1979), summed over sites: the sum, over sites with \
             n >= 2 called copies, of 1 - sum(a (a - 1)) / (n (n - 1)), where a are the counts of \
             all alleles. Divide by the number of bases looked at for a rate.",
            "diversity(ac)",
            "SELECT diversity(allele_counts(call_genotype, 'YRI')) / 10000 FROM t",
        )
        .with_related_udf("theta_w")
        .with_related_udf("divergence")
        .build()
    }
}

#[cfg(test)]
mod tests {
    use crate::functions::aggregate::harness::{Call, counts};

    #[test]
    fn by_hand() {
        // 1 - (3·2)/(4·3) = 1/2; three alleles 1 - 2/(4·3) = 5/6; one copy: no site.
        let column = counts(&[
            Some(vec![3, 1]),
            Some(vec![2, 1, 1]),
            Some(vec![1, 0]),
            None,
            Some(vec![]),
        ]);
        let call = Call::new("diversity", &[None], &[]).unwrap();
        let value = call.value(&[column]).unwrap();
        assert_eq!(value, (0.5 + 5.0 / 6.0).into());
    }
}
