//! `jost_d(ac1, ac2, …)`: Jost's D of two or more populations, as a ratio of sums over sites.

use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::Result;
use datafusion::logical_expr::Documentation;

use super::definition::{Call, Definition, document_populations};
use super::many_sums_of::ManySumsOf;
use super::sums::{Block, ManySums, Site, Sums};
use crate::functions::numeric::blocks::Counts;
use crate::functions::numeric::many_blocks;
use crate::functions::numeric::populations::jost_d_terms;

/// `jost_d`.
#[derive(Debug)]
pub(crate) struct JostD;

impl ManySums<2, 0> for JostD {
    type Output = Float64Type;

    #[inline]
    fn site(counts: &[&[i32]], work: &mut Vec<f64>) -> Option<Site<2, 0>> {
        let (numerator, denominator) = jost_d_terms(counts, work)?;
        Some(Site {
            terms: [numerator, denominator],
            counts: [],
        })
    }

    #[inline(always)] // into a loop with vector instructions
    fn block<const K: usize>(counts: &[&Counts<K>]) -> Option<Block<2, 0>> {
        let terms = many_blocks::jost_d(counts)?;
        Some(Block { terms, counts: [] })
    }

    fn finish(&self, sums: &Sums<2, 0>) -> Option<f64> {
        sums.ratio()
    }
}

impl Definition for JostD {
    type Statistic = ManySumsOf<Self, 2, 0>;
    const NAME: &'static str = "jost_d";
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
            "Jost's D (Jost 2008), without bias, of two or more populations: the sum of D_B - H_S over \
             the sum of 1 - H_S, over the sites with at least two called copies in all of them, with \
             H_S the mean diversity within populations and D_B the mean divergence of pairs. NULL \
             where the denominator is 0.",
            "jost_d(ac1, ac2, …)",
            "SELECT jost_d(call_genotype, 'YRI', 'CEU', 'CHB') FROM t",
            &[("ac1", "the first population"), ("ac2", "the second population; any number may follow")],
        )
        .with_related_udf("fst_nei")
        .with_related_udf("fst_hudson")
        .build()
    }
}

#[cfg(test)]
mod tests {
    use crate::functions::aggregate::harness::{Call, sites};

    #[test]
    fn by_hand() {
        // 1 over 1; (1/2 - 1) over 0; one copy: no site.
        let first = sites(&[[4, 0], [1, 1], [1, 0]]);
        let second = sites(&[[0, 4], [1, 1], [4, 0]]);
        let call = Call::new("jost_d", &[None; 2], &[]).unwrap();
        let value = |from: usize, rows: usize| {
            call.value(&[first.slice(from, rows), second.slice(from, rows)])
                .unwrap()
        };
        assert_eq!(value(0, 3), 0.5.into());
        assert_eq!(value(0, 1), 1.0.into());
        assert!(value(1, 2).is_null());
    }
}
