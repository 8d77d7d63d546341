//! `theta_h(ac)`: Fay and Wu's estimator of θ summed over sites.

use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Documentation;

use super::definition::{Call, Definition, document_one};
use super::sums::{Block, Site, SiteSums, Sums};
use super::sums_of::SumsOf;
use crate::functions::numeric::blocks::{Counts, SpectrumSites};
use crate::functions::numeric::site::spectrum_site;
use crate::functions::numeric::spectrum::Theta;

/// `theta_h`.
#[derive(Debug)]
pub(crate) struct ThetaH;

/// Half of a site's weight: the weight itself may be up to 2.
#[inline(always)] // once per site
fn half(n: f64, d: f64) -> f64 {
    Theta::H.weight(n, d) / 2.0
}

impl SiteSums<1, 1, 0> for ThetaH {
    type Output = Float64Type;

    #[inline(always)] // once per row, in the loop over them
    fn site([counts]: [&[i32]; 1]) -> Option<Site<1, 0>> {
        spectrum_site(counts).map(|(n, d)| Site {
            terms: [half(n, d)],
            counts: [],
        })
    }

    #[inline(always)] // into a loop with vector instructions
    fn block<const K: usize>([counts]: [&Counts<K>; 1]) -> Option<Block<1, 0>> {
        Some(Block {
            terms: [SpectrumSites::new(counts).terms(half)],
            counts: [],
        })
    }

    fn finish(&self, sums: &Sums<1, 0>) -> Option<f64> {
        Some(2.0 * sums.terms[0].to_f64())
    }
}

impl Definition for ThetaH {
    type Statistic = SumsOf<Self, 1, 1, 0>;
    const NAME: &'static str = "theta_h";
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
            "Fay and Wu's estimator of theta (2000), summed over sites: the sum of 2 d^2 / (n (n - 1)) \
             over the sites where 0 < d < n, with n the called copies of the site and d those that are not \
             the reference, all ALT alleles together (or, after polarize, not the ancestral one). Restrict \
             to biallelic sites with is_biallelic(variant_allele) where d is to be one allele's count.",
            "theta_h(ac)",
            "SELECT theta_h(polarize(allele_counts(call_genotype, 'YRI'), variant_allele, variant_AA)) FROM t",
        )
        .with_related_udf("theta_l")
        .with_related_udf("fay_wu_h")
        .with_related_udf("spectrum_theta")
        .build()
    }
}

#[cfg(test)]
mod tests {
    use crate::functions::aggregate::harness::{Call, counts};

    #[test]
    fn by_hand() {
        // d = 1 and 3 of 4: 2/12 and 18/12; 1 of 2: 2/2; the others have no reference copy, or no other.
        let column = counts(&[
            Some(vec![3, 1]),
            Some(vec![1, 2, 1]),
            Some(vec![1, 1]),
            Some(vec![4, 0]),
            Some(vec![0, 2, 2]),
            Some(vec![1]),
            Some(vec![]),
            None,
        ]);
        let call = Call::new("theta_h", &[None], &[]).unwrap();
        assert_eq!(call.value(&[column]).unwrap(), (8.0 / 3.0).into());
    }
}
