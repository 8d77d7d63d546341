//! `fst_hudson(ac1, ac2)`: Hudson's F_ST, as a ratio of sums over sites.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::Result;
use datafusion::logical_expr::Documentation;

use super::definition::{Call, Definition, document_two};
use super::statistic::{Pair, two_populations};
use super::sums::{Site, SiteSums, Sums, SumsOf};
use crate::functions::numeric::FixedSum;
use crate::functions::numeric::site::fst_hudson_terms;

/// `fst_hudson`.
#[derive(Debug)]
pub(crate) struct FstHudson;

impl SiteSums<2, 0> for FstHudson {
    type Input<'a> = Pair<'a>;
    type Output = Float64Type;

    fn input(values: &[ArrayRef]) -> Result<Pair<'_>> {
        two_populations(values)
    }

    #[inline]
    fn site(sites: &Pair<'_>, row: usize) -> Option<Site<2, 0>> {
        let (numerator, denominator) = fst_hudson_terms(sites.0.row(row), sites.1.row(row))?;
        Some(Site { terms: [numerator, denominator], counts: [] })
    }

    fn finish(&self, sums: &Sums<2, 0>) -> Option<f64> {
        let [numerator, denominator] = sums.terms;
        (denominator != FixedSum::ZERO).then(|| numerator.to_f64() / denominator.to_f64())
    }
}

impl Definition for FstHudson {
    type Statistic = SumsOf<Self, 2, 0>;
    const NAME: &'static str = "fst_hudson";
    const COUNTS: usize = 2;

    fn return_type() -> DataType {
        DataType::Float64
    }

    fn statistic(_call: &Call) -> Result<Self::Statistic> {
        Ok(SumsOf(Self))
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
