//! `segregating_sites(ac)`: the number S of sites with at least two alleles.

use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Documentation;

use super::definition::{Call, Definition, document_one};
use super::sums::{Block, Site, SiteSums, Sums};
use super::sums_of::SumsOf;
use crate::functions::numeric::blocks::{self, Counts};
use crate::functions::numeric::site::is_segregating;

/// `segregating_sites`.
#[derive(Debug)]
pub(crate) struct SegregatingSites;

impl SiteSums<1, 0, 1> for SegregatingSites {
    type Output = Int64Type;

    #[inline]
    fn site([counts]: [&[i32]; 1]) -> Option<Site<0, 1>> {
        Some(Site {
            terms: [],
            counts: [i64::from(is_segregating(counts))],
        })
    }

    #[inline(always)] // into a loop with vector instructions
    fn block<const K: usize>([counts]: [&Counts<K>; 1]) -> Option<Block<0, 1>> {
        Some(Block {
            terms: [],
            counts: [blocks::segregating(counts)],
        })
    }

    fn finish(&self, sums: &Sums<0, 1>) -> Option<i64> {
        Some(sums.counts[0])
    }
}

impl Definition for SegregatingSites {
    type Statistic = SumsOf<Self, 1, 0, 1>;
    const NAME: &'static str = "segregating_sites";
    const COUNTS: usize = 1;

    fn return_type() -> DataType {
        DataType::Int64
    }

    fn default_value() -> Result<ScalarValue> {
        Ok(ScalarValue::Int64(Some(0)))
    }

    fn statistic(_call: &Call) -> Result<Self::Statistic> {
        Ok(SumsOf::new(Self))
    }

    fn documentation() -> Documentation {
        document_one(
            "The number of segregating sites: those where at least two alleles were called. A \
             site with three alleles counts once.",
            "segregating_sites(ac)",
            "SELECT segregating_sites(allele_counts(call_genotype, 'YRI')) FROM t",
        )
        .with_related_udf("theta_w")
        .build()
    }
}

#[cfg(test)]
mod tests {
    use crate::functions::aggregate::harness::{Call, counts};

    #[test]
    fn by_hand() {
        let column = counts(&[
            Some(vec![3, 1]),
            Some(vec![1, 1, 1]),
            Some(vec![0, 4]),
            Some(vec![0, 1, 1]),
            Some(vec![]),
            None,
        ]);
        let call = Call::new("segregating_sites", &[None], &[]).unwrap();
        assert_eq!(call.value(&[column]).unwrap(), 3i64.into());
    }
}
