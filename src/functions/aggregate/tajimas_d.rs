//! `tajimas_d(ac [, n])`: Tajima's D.

use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::Result;
use datafusion::logical_expr::Documentation;

use super::definition::{Call, Definition, document_one};
use super::neutrality_test::{FEWEST_SITES, sample_size};
use super::sums::{Block, Site, SiteSums, Sums};
use super::sums_of::SumsOf;
use crate::functions::numeric::blocks::{self, Counts};
use crate::functions::numeric::harmonic::{
    TajimaConstants, inverse_harmonic, rounded_harmonic_mean,
};
use crate::functions::numeric::site::{allele_number, is_segregating, site_diversity};

/// `tajimas_d`: D, with the sample size where it is given.
#[derive(Debug)]
pub(crate) struct TajimasD {
    n: Option<u64>,
}

/// The smallest sample in which D varies: with 2 or 3 copies every segregating site gives π = θ_W, and the variance is 0
/// up to rounding.
const SMALLEST: u64 = 4;

impl SiteSums<1, 3, 1> for TajimasD {
    type Output = Float64Type;

    /// π, 1/h(n), 1/n and 1, of segregating sites; the others add nothing to any of them.
    #[inline]
    fn site([counts]: [&[i32]; 1]) -> Option<Site<3, 1>> {
        if !is_segregating(counts) {
            return None;
        }
        // A sum of counts that are not negative; at least 2, as the site segregates.
        let n = allele_number(counts) as u64;
        let terms = [site_diversity(counts)?, inverse_harmonic(n), 1.0 / n as f64];
        Some(Site { terms, counts: [1] })
    }

    #[inline(always)] // into a loop with vector instructions
    fn block<const K: usize>([counts]: [&Counts<K>; 1]) -> Option<Block<3, 1>> {
        let (terms, sites) = blocks::tajimas_d(counts)?;
        Some(Block {
            terms,
            counts: [sites],
        })
    }

    fn finish(&self, sums: &Sums<3, 1>) -> Option<f64> {
        let ([mut difference, theta, inverses], [sites]) = (sums.terms, sums.counts);
        if sites < FEWEST_SITES {
            return None;
        }
        let n = self
            .n
            .unwrap_or_else(|| rounded_harmonic_mean(sites, inverses.to_f64()));
        if n < SMALLEST {
            return None;
        }
        let variance = TajimaConstants::new(n)?.variance(sites as u64);
        // π − θ_W as integers, so that no digits cancel.
        difference.unmerge(theta);
        (variance > 0.0).then(|| difference.to_f64() / variance.sqrt())
    }
}

impl Definition for TajimasD {
    type Statistic = SumsOf<Self, 1, 3, 1>;
    const NAME: &'static str = "tajimas_d";
    const COUNTS: usize = 1;
    const NUMBERS: &'static [&'static str] = &["n"];
    const OPTIONAL: usize = 1;

    fn return_type() -> DataType {
        DataType::Float64
    }

    fn statistic(call: &Call) -> Result<Self::Statistic> {
        let n = sample_size(Self::NAME, call)?;
        Ok(SumsOf::new(Self { n }))
    }

    fn documentation() -> Documentation {
        document_one(
            "Tajima's D (Tajima 1989): (diversity - theta_w) / sqrt(e1 S + e2 S (S - 1)), with S \
             the number of segregating sites and e1, e2 the constants for a sample of n copies, \
             or, if n is not given, of the harmonic mean of the called copies over segregating \
             sites, rounded. NULL where S < 3 or the variance is not positive.",
            "tajimas_d(ac [, n])",
            "SELECT tajimas_d(allele_counts(call_genotype, 'YRI')) FROM t",
        )
        .with_argument("n", "Sample size that e1 and e2 are taken at, a constant; if left out, the harmonic mean of the called copies, rounded.")
        .with_related_udf("diversity")
        .with_related_udf("theta_w")
        .with_related_udf("segregating_sites")
        .build()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::common::ScalarValue;

    use crate::functions::aggregate::harness::{Call, sites};

    fn tajimas_d<const K: usize>(rows: &[[i32; K]], n: &[i64]) -> Option<f64> {
        let call = Call::new("tajimas_d", &[None], n).unwrap();
        match call.value(&[sites(rows)]).unwrap() {
            ScalarValue::Float64(value) => value,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn by_hand() {
        // n = 4, three singletons: pi = 3/2, a1 = 11/6, a2 = 49/36, theta = 18/11, e1 = 1/99 (c1 = 5/9 - 6/11),
        // c2 = 23/54 - 9/11 + 49/121, e2 = c2 / (a1^2 + a2).
        let c2: f64 = 23.0 / 54.0 - 9.0 / 11.0 + 49.0 / 121.0;
        let e2 = c2 / (121.0 / 36.0 + 49.0 / 36.0);
        let e1 = (5.0 / 9.0 - 6.0 / 11.0) * 6.0 / 11.0;
        let expected = (1.5 - 18.0 / 11.0) / (3.0 * e1 + 6.0 * e2).sqrt();
        let rows = [[3, 1], [1, 3], [3, 1], [4, 0]];
        assert!((tajimas_d(&rows, &[]).unwrap() - expected).abs() < 1e-12);
        assert!((tajimas_d(&rows, &[4]).unwrap() - expected).abs() < 1e-12);
        assert_ne!(tajimas_d(&rows, &[10]), tajimas_d(&rows, &[4]));
    }

    #[test]
    fn too_little_is_null() {
        assert_eq!(tajimas_d(&[[3, 1], [2, 2]], &[]), None);
        assert_eq!(tajimas_d(&[[4, 0]; 9], &[]), None);
        // Every D of 2 or 3 copies would be 0 / 0.
        assert_eq!(tajimas_d(&[[1, 1]; 9], &[]), None);
        assert_eq!(tajimas_d(&[[2, 1]; 9], &[]), None);
        assert_eq!(tajimas_d(&[[3, 1]; 9], &[3]), None);
    }
}
