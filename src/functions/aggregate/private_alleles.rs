//! `private_alleles(ac1, ac2)`: the number of alleles that occur in the first population and not in the second.

use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Documentation;

use super::definition::{Call, Definition, document_two};
use super::sums::{Block, Site, SiteSums, Sums};
use super::sums_of::SumsOf;
use crate::functions::numeric::blocks::Counts;
use crate::functions::numeric::many_blocks;
use crate::functions::numeric::populations::private_alleles;

/// `private_alleles`.
#[derive(Debug)]
pub(crate) struct PrivateAlleles;

impl SiteSums<2, 0, 1> for PrivateAlleles {
    type Output = Int64Type;

    #[inline(always)] // once per row, in the loop over them
    fn site([first, second]: [&[i32]; 2]) -> Option<Site<0, 1>> {
        Some(Site {
            terms: [],
            counts: [private_alleles(first, second)?],
        })
    }

    #[inline(always)] // into a loop with vector instructions
    fn block<const K: usize>(counts: [&Counts<K>; 2]) -> Option<Block<0, 1>> {
        Some(Block {
            terms: [],
            counts: [many_blocks::private_alleles(counts)],
        })
    }

    fn finish(&self, sums: &Sums<0, 1>) -> Option<i64> {
        Some(sums.counts[0])
    }
}

impl Definition for PrivateAlleles {
    type Statistic = SumsOf<Self, 2, 0, 1>;
    const NAME: &'static str = "private_alleles";
    const COUNTS: usize = 2;

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
        document_two(
            "The number of alleles, the reference too, that were seen in the first population and not in \
             the second, summed over the sites with a called copy in both. Against several \
             populations: private_alleles(ac1, add_counts(ac2, ac3)).",
            "private_alleles(ac1, ac2)",
            "SELECT private_alleles(call_genotype, 'YRI', 'CEU') FROM t",
        )
        .with_related_udf("shared_polymorphism")
        .with_related_udf("add_counts")
        .build()
    }
}

#[cfg(test)]
mod tests {
    use crate::functions::aggregate::harness::{Call, counts};

    #[test]
    fn by_hand() {
        // Two private alleles; the reference is private; none; no calls in the second.
        let first = counts(&[
            Some(vec![1, 1, 2]),
            Some(vec![3, 1]),
            Some(vec![1]),
            Some(vec![1, 1]),
            None,
        ]);
        let second = counts(&[
            Some(vec![4]),
            Some(vec![0, 2]),
            Some(vec![3, 1]),
            Some(vec![0]),
            Some(vec![1]),
        ]);
        let call = Call::new("private_alleles", &[None, None], &[]).unwrap();
        assert_eq!(call.value(&[first, second]).unwrap(), 3i64.into());
    }
}
