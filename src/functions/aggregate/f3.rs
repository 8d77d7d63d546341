//! `f3(c, a, b)` and `f3_normalized(c, a, b)`: the f3 statistic of a target and two other populations.

use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::Result;
use datafusion::logical_expr::Documentation;

use super::definition::{Call, Definition, document_populations};
use super::sums::{Block, Site, SiteSums, Sums};
use super::sums_of::SumsOf;
use crate::functions::numeric::blocks::{self, Counts};
use crate::functions::numeric::populations::f3_terms;

/// `f3`.
#[derive(Debug)]
pub(crate) struct F3;
/// `f3_normalized`.
#[derive(Debug)]
pub(crate) struct F3Normalized;

/// The counts arguments and their populations.
const POPULATIONS: [(&str, &str); 3] = [
    ("c", "the target"),
    ("a", "the first of the other populations"),
    ("b", "the second of the other populations"),
];

impl SiteSums<3, 1, 1> for F3 {
    type Output = Float64Type;

    #[inline(always)] // once per row, in the loop over them
    fn site(counts: [&[i32]; 3]) -> Option<Site<1, 1>> {
        let (term, _) = f3_terms(counts)?;
        Some(Site {
            terms: [term],
            counts: [1],
        })
    }

    #[inline(always)] // into a loop with vector instructions
    fn block<const K: usize>(counts: [&Counts<K>; 3]) -> Option<Block<1, 1>> {
        let ([terms, _], sites) = blocks::f3(counts)?;
        Some(Block {
            terms: [terms],
            counts: [sites],
        })
    }

    fn finish(&self, sums: &Sums<1, 1>) -> Option<f64> {
        sums.mean()
    }
}

impl SiteSums<3, 2, 0> for F3Normalized {
    type Output = Float64Type;

    #[inline(always)] // once per row, in the loop over them
    fn site(counts: [&[i32]; 3]) -> Option<Site<2, 0>> {
        let (numerator, denominator) = f3_terms(counts)?;
        Some(Site {
            terms: [numerator, denominator],
            counts: [],
        })
    }

    #[inline(always)] // into a loop with vector instructions
    fn block<const K: usize>(counts: [&Counts<K>; 3]) -> Option<Block<2, 0>> {
        let (terms, _) = blocks::f3(counts)?;
        Some(Block { terms, counts: [] })
    }

    fn finish(&self, sums: &Sums<2, 0>) -> Option<f64> {
        sums.ratio()
    }
}

impl Definition for F3 {
    type Statistic = SumsOf<Self, 3, 1, 1>;
    const NAME: &'static str = "f3";
    const COUNTS: usize = 3;

    fn return_type() -> DataType {
        DataType::Float64
    }

    fn statistic(_call: &Call) -> Result<Self::Statistic> {
        Ok(SumsOf::new(Self))
    }

    fn documentation() -> Documentation {
        document_populations(
            "The f3 statistic of a target c, given first, and two other populations (Patterson et al. \
             2012): the mean of (d_ca + d_cb - d_ab - pi_c) / 2, d the divergence of a pair and pi_c \
             the target's diversity at a site, over the sites with at least two called copies in c \
             and one in a and b, sites that do not vary included. Below 0, c is admixed. Exact for \
             any number of alleles. NULL where there is no such site.",
            "f3(c, a, b)",
            "SELECT f3(call_genotype, 'ASW', 'YRI', 'CEU') FROM t",
            &POPULATIONS,
        )
        .with_related_udf("site_f3")
        .with_related_udf("f3_normalized")
        .with_related_udf("f2")
        .with_related_udf("f4")
        .build()
    }
}

impl Definition for F3Normalized {
    type Statistic = SumsOf<Self, 3, 2, 0>;
    const NAME: &'static str = "f3_normalized";
    const COUNTS: usize = 3;

    fn return_type() -> DataType {
        DataType::Float64
    }

    fn statistic(_call: &Call) -> Result<Self::Statistic> {
        Ok(SumsOf::new(Self))
    }

    fn documentation() -> Documentation {
        document_populations(
            "The normalised f3 statistic of a target c, given first, and two other populations (f3* of \
             Patterson et al. 2012): the sum of f3 over the sum of the target's diversity, over the \
             sites that f3 takes. NULL where that diversity is 0.",
            "f3_normalized(c, a, b)",
            "SELECT f3_normalized(call_genotype, 'ASW', 'YRI', 'CEU') FROM t",
            &POPULATIONS,
        )
        .with_related_udf("site_f3_normalized")
        .with_related_udf("f3")
        .build()
    }
}

#[cfg(test)]
mod tests {
    use crate::functions::aggregate::harness::{Call, sites};

    #[test]
    fn by_hand() {
        // The target has both alleles, the others one each: (1/2 + 1/2 - 1 - 2/3)/2 = -1/3 over 2/3; it is fixed, they are not:
        // (1 + 1 - 0 - 0)/2 over 0; one copy of the target: no site.
        let c = sites(&[[2, 2], [4, 0], [1, 0]]);
        let a = sites(&[[1, 0], [0, 1], [1, 0]]);
        let b = sites(&[[0, 3], [0, 2], [0, 1]]);
        let columns = [c, a, b];
        let call = |name| Call::new(name, &[None; 3], &[]).unwrap();
        let third = (0.5 + 0.5 - 1.0 - 2.0 / 3.0) / 2.0;
        let mean = call("f3").value(&columns).unwrap();
        assert_eq!(mean, ((third + 1.0) / 2.0).into());
        let ratio = call("f3_normalized").value(&columns).unwrap();
        assert_eq!(ratio, ((third + 1.0) / (2.0 / 3.0)).into());
        let fixed = columns.map(|column| column.slice(1, 1));
        assert!(call("f3_normalized").value(&fixed).unwrap().is_null());
    }
}
