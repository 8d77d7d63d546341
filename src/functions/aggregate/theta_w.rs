//! `theta_w(ac)`: Watterson's estimator of θ summed over sites.

use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Documentation;

use super::definition::{Call, Definition, document_one};
use super::sums::{Block, Site, SiteSums, Sums};
use super::sums_of::SumsOf;
use crate::functions::numeric::blocks::{self, Counts};
use crate::functions::numeric::harmonic::inverse_harmonic;
use crate::functions::numeric::site::{allele_number, is_segregating};

/// `theta_w`.
#[derive(Debug)]
pub(crate) struct ThetaW;

impl SiteSums<1, 1, 0> for ThetaW {
    type Output = Float64Type;

    #[inline]
    fn site([counts]: [&[i32]; 1]) -> Option<Site<1, 0>> {
        is_segregating(counts).then(|| {
            // A sum of counts that are not negative.
            let term = inverse_harmonic(allele_number(counts) as u64);
            Site {
                terms: [term],
                counts: [],
            }
        })
    }

    #[inline(always)] // into a loop with vector instructions
    fn block<const K: usize>([counts]: [&Counts<K>; 1]) -> Option<Block<1, 0>> {
        let terms = blocks::theta_w(counts)?;
        Some(Block {
            terms: [terms],
            counts: [],
        })
    }

    fn finish(&self, sums: &Sums<1, 0>) -> Option<f64> {
        Some(sums.terms[0].to_f64())
    }
}

impl Definition for ThetaW {
    type Statistic = SumsOf<Self, 1, 1, 0>;
    const NAME: &'static str = "theta_w";
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
            "Watterson's estimator of theta (Watterson 1975), summed over sites: the sum, over \
             segregating sites, of 1 / h(n) with h(n) = 1 + 1/2 + ... + 1/(n - 1) and n the \
             called copies of that very site. Divide by the number of bases looked at for a rate.",
            "theta_w(ac)",
            "SELECT theta_w(allele_counts(call_genotype, 'YRI')) / 10000 FROM t",
        )
        .with_related_udf("diversity")
        .with_related_udf("tajimas_d")
        .build()
    }
}

#[cfg(test)]
mod tests {
    use crate::functions::aggregate::harness::{Call, sites};

    #[test]
    fn by_hand() {
        // n = 3: 1/1.5; n = 2: 1; the others do not segregate.
        let column = sites(&[[2, 1, 0], [0, 1, 1], [3, 0, 0], [0, 0, 0]]);
        let call = Call::new("theta_w", &[None], &[]).unwrap();
        let found = call.value(&[column]).unwrap();
        assert_eq!(found, (1.0 + 1.0 / 1.5).into());
    }
}
