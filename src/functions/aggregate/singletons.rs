//! `singletons(ac)` and `singletons_folded(ac)`: sites where one copy is derived, or differs from all others.

use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Documentation;

use super::definition::{Call, Definition, document_one};
use super::sums::{Block, Site, SiteSums, Sums};
use super::sums_of::SumsOf;
use crate::functions::numeric::blocks::{Counts, SpectrumSites};
use crate::functions::numeric::site::spectrum_site;

/// `singletons`.
#[derive(Debug)]
pub(crate) struct Singletons;
/// `singletons_folded`.
#[derive(Debug)]
pub(crate) struct SingletonsFolded;

#[inline(always)] // once per site
fn is_singleton(_n: f64, d: f64) -> bool {
    d == 1.0
}

#[inline(always)] // once per site
fn is_folded_singleton(n: f64, d: f64) -> bool {
    d == 1.0 || n - d == 1.0
}

impl SiteSums<1, 0, 1> for Singletons {
    type Output = Int64Type;

    #[inline(always)] // once per row, in the loop over them
    fn site([counts]: [&[i32]; 1]) -> Option<Site<0, 1>> {
        spectrum_site(counts).map(|(n, d)| Site {
            terms: [],
            counts: [i64::from(is_singleton(n, d))],
        })
    }

    #[inline(always)] // into a loop with vector instructions
    fn block<const K: usize>([counts]: [&Counts<K>; 1]) -> Option<Block<0, 1>> {
        Some(Block {
            terms: [],
            counts: [SpectrumSites::new(counts).matching(is_singleton)],
        })
    }

    fn finish(&self, sums: &Sums<0, 1>) -> Option<i64> {
        Some(sums.counts[0])
    }
}

impl SiteSums<1, 0, 1> for SingletonsFolded {
    type Output = Int64Type;

    #[inline(always)] // once per row, in the loop over them
    fn site([counts]: [&[i32]; 1]) -> Option<Site<0, 1>> {
        spectrum_site(counts).map(|(n, d)| Site {
            terms: [],
            counts: [i64::from(is_folded_singleton(n, d))],
        })
    }

    #[inline(always)] // into a loop with vector instructions
    fn block<const K: usize>([counts]: [&Counts<K>; 1]) -> Option<Block<0, 1>> {
        Some(Block {
            terms: [],
            counts: [SpectrumSites::new(counts).matching(is_folded_singleton)],
        })
    }

    fn finish(&self, sums: &Sums<0, 1>) -> Option<i64> {
        Some(sums.counts[0])
    }
}

impl Definition for Singletons {
    type Statistic = SumsOf<Self, 1, 0, 1>;
    const NAME: &'static str = "singletons";
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
            "The number of derived singletons (Fu and Li's eta_e, 1993): sites where exactly one of \
             the called copies is not the reference (or, after polarize, not the ancestral allele), \
             and at least one is.",
            "singletons(ac)",
            "SELECT singletons(allele_counts(call_genotype, 'YRI')) FROM t",
        )
        .with_related_udf("singletons_folded")
        .with_related_udf("fu_li_d")
        .build()
    }
}

impl Definition for SingletonsFolded {
    type Statistic = SumsOf<Self, 1, 0, 1>;
    const NAME: &'static str = "singletons_folded";
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
            "The number of singletons where it is not known which allele is ancestral (Fu and Li's \
             eta_s, 1993): sites where min(d, n - d) = 1, with n the called copies and d those that \
             are not the reference, all ALT alleles together.",
            "singletons_folded(ac)",
            "SELECT singletons_folded(allele_counts(call_genotype, 'YRI')) FROM t",
        )
        .with_related_udf("singletons")
        .with_related_udf("fu_li_d_star")
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
            Some(vec![3, 0, 1]),
            Some(vec![1, 1]),
            // One copy is the reference.
            Some(vec![1, 2, 1]),
            // No copy is, or no other.
            Some(vec![0, 1]),
            Some(vec![0, 3, 1]),
            Some(vec![1, 0]),
            Some(vec![]),
            None,
        ]);
        let value = |name| {
            let call = Call::new(name, &[None], &[]).unwrap();
            call.value(&[std::sync::Arc::clone(&column)]).unwrap()
        };
        assert_eq!(value("singletons"), 3i64.into());
        assert_eq!(value("singletons_folded"), 4i64.into());
    }
}
