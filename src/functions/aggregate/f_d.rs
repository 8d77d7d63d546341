//! `f_d(p1, p2, p3, o)`: the fraction f_d of introgression between the second and third population, as a ratio of sums.

use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::Result;
use datafusion::logical_expr::Documentation;

use super::definition::{Call, Definition, document_populations};
use super::sums::{Block, Site, SiteSums, Sums};
use super::sums_of::SumsOf;
use crate::functions::numeric::blocks::Counts;
use crate::functions::numeric::many_blocks;
use crate::functions::numeric::populations::f_d_terms;

/// `f_d`.
#[derive(Debug)]
pub(crate) struct Fd;

impl SiteSums<4, 2, 0> for Fd {
    type Output = Float64Type;

    #[inline(always)] // once per row, in the loop over them
    fn site(counts: [&[i32]; 4]) -> Option<Site<2, 0>> {
        let (numerator, denominator) = f_d_terms(counts)?;
        Some(Site {
            terms: [numerator, denominator],
            counts: [],
        })
    }

    #[inline(always)] // into a loop with vector instructions
    fn block<const K: usize>(counts: [&Counts<K>; 4]) -> Option<Block<2, 0>> {
        let terms = many_blocks::f_d(counts)?;
        Some(Block { terms, counts: [] })
    }

    fn finish(&self, sums: &Sums<2, 0>) -> Option<f64> {
        sums.ratio()
    }
}

impl Definition for Fd {
    type Statistic = SumsOf<Self, 4, 2, 0>;
    const NAME: &'static str = "f_d";
    const COUNTS: usize = 4;

    fn return_type() -> DataType {
        DataType::Float64
    }

    fn statistic(_call: &Call) -> Result<Self::Statistic> {
        Ok(SumsOf::new(Self))
    }

    fn documentation() -> Documentation {
        document_populations(
            "f_d (Martin, Davey and Jiggins 2015), the fraction of the genome that p2 and p3 share by \
             introgression, relative to complete introgression: the sum of (p2 - p1) p3 (1 - o) over \
             the sum of (q - p1) q (1 - o), q the larger of p2 and p3, of the frequencies of derived \
             (non-reference) alleles, over the sites with a called copy in all four populations. \
             Use polarize where the reference is not ancestral. NULL where the denominator is not \
             positive.",
            "f_d(p1, p2, p3, o)",
            "SELECT f_d(call_genotype, 'YRI', 'CEU', 'Vindija', 'chimp') FROM t",
            &[("p1", "the population without introgression"), ("p2", "its sister population"), ("p3", "the population that exchanged genes with p2"), ("o", "the outgroup")],
        )
        .with_related_udf("patterson_d")
        .with_related_udf("polarize")
        .build()
    }
}

#[cfg(test)]
mod tests {
    use crate::functions::aggregate::harness::{Call, sites};

    #[test]
    fn by_hand() {
        // (1/4 - 0) 1/2 over (1/2 - 0) 1/2; (1/2 - 1)(1/2) over the same; no call in p1.
        let columns = [
            sites(&[[2, 0], [0, 2], [0, 0]]),
            sites(&[[3, 1], [1, 1], [1, 0]]),
            sites(&[[1, 1], [2, 2], [1, 0]]),
            sites(&[[1, 0], [1, 0], [1, 0]]),
        ];
        let call = Call::new("f_d", &[None; 4], &[]).unwrap();
        let one = columns.each_ref().map(|column| column.slice(0, 1));
        assert_eq!(call.value(&one).unwrap(), 0.5.into());
        // A denominator of 1/4 - 1/4.
        assert!(call.value(&columns).unwrap().is_null());
    }
}
