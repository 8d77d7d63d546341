//! Shared by the tests of neutrality that compare two estimators of θ which are linear in the spectrum: their sums over sites,
//! their standard deviation, and their documentation. A test's file implements [`NeutralityTest`].

use std::collections::HashMap;
use std::fmt::Debug;
use std::marker::PhantomData;

use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::Documentation;

use super::definition::{Call, Definition, document_one};
use super::sums::{Block, Site, SiteSums, Sums};
use super::sums_of::SumsOf;
use crate::functions::interrupt;
use crate::functions::numeric::blocks::{Counts, SpectrumSites};
use crate::functions::numeric::harmonic::rounded_harmonic_mean;
use crate::functions::numeric::site::spectrum_site;
use crate::functions::numeric::spectrum::Theta;
use crate::functions::numeric::spectrum_variance::SpectrumVariance;

/// With fewer sites a test is NULL.
pub(super) const FEWEST_SITES: i64 = 3;

/// A test of neutrality: the difference of two estimators of θ over its standard deviation.
///
/// The estimators are sums over the sites with 0 < d < n, each with its own n; the variance is that of a sample of m copies
/// (Achaz 2009), m the harmonic mean of n over these sites, rounded, unless the call says otherwise.
pub(crate) trait NeutralityTest: Debug + Send + Sync + 'static {
    /// Its SQL name.
    const NAME: &'static str;
    /// The estimators; the second is subtracted from the first. Their weights are in [0, 1].
    const ESTIMATORS: [Theta; 2];
    /// The smallest sample in which their difference varies.
    const SMALLEST: u64 = 3;
    /// The test's authors and the difference, for the documentation.
    const DIFFERENCE: &'static str;
    /// Functions that its documentation points to.
    const RELATED: &'static [&'static str];
}

/// A test, with the sample size if the call gives it.
#[derive(Debug)]
pub(crate) struct Standardised<T> {
    n: Option<u64>,
    /// Cached variances by sample size.
    variances: HashMap<u64, Option<SpectrumVariance>>,
    of: PhantomData<T>,
}

/// The sample size of a call, its first integer argument, if it is given.
pub(super) fn sample_size(function: &str, call: &Call) -> Result<Option<u64>> {
    match call.number(0).map(u64::try_from) {
        None => Ok(None),
        Some(Ok(n)) if n >= 2 => Ok(Some(n)),
        _ => exec_err!(
            "{function}: n must be a sample size of at least 2, found {}",
            call.number(0).unwrap_or_default()
        ),
    }
}

impl<T: NeutralityTest> Standardised<T> {
    /// The sample size m for the variance; `None` where there is no value.
    fn sample(&self, sums: &Sums<3, 1>) -> Option<u64> {
        let [sites] = sums.counts;
        if sites < FEWEST_SITES {
            return None;
        }
        let m = self
            .n
            .unwrap_or_else(|| rounded_harmonic_mean(sites, sums.terms[2].to_f64()));
        (m >= T::SMALLEST).then_some(m)
    }
}

impl<T: NeutralityTest> SiteSums<1, 3, 1> for Standardised<T> {
    type Output = Float64Type;

    /// Both estimators, 1/n and 1.
    #[inline(always)] // once per row, in the loop over them
    fn site([counts]: [&[i32]; 1]) -> Option<Site<3, 1>> {
        spectrum_site(counts).map(|(n, d)| {
            let [first, second] = T::ESTIMATORS.map(|theta| theta.weight(n, d));
            Site {
                terms: [first, second, 1.0 / n],
                counts: [1],
            }
        })
    }

    #[inline(always)] // into a loop with vector instructions
    fn block<const K: usize>([counts]: [&Counts<K>; 1]) -> Option<Block<3, 1>> {
        let sites = SpectrumSites::new(counts);
        let [first, second] = T::ESTIMATORS;
        Some(Block {
            terms: [
                sites.weights(first),
                sites.weights(second),
                sites.inverse_copies(),
            ],
            counts: [sites.used()],
        })
    }

    fn prepare(&mut self, groups: &[Sums<3, 1>]) -> Result<()> {
        for sums in groups {
            interrupt::check()?;
            let Some(m) = self.sample(sums) else {
                continue;
            };
            if m > SpectrumVariance::MOST_COPIES {
                return exec_err!(
                    "{}: the variance is computed for samples of at most {} copies, found {m}; give a smaller n as last argument",
                    <T as NeutralityTest>::NAME,
                    SpectrumVariance::MOST_COPIES
                );
            }
            let [first, second] = T::ESTIMATORS;
            self.variances.entry(m).or_insert_with(|| {
                let weight = |theta: Theta, i: u64| theta.weight(m as f64, i as f64);
                SpectrumVariance::new(m, |i| weight(first, i) - weight(second, i))
            });
        }
        Ok(())
    }

    fn finish(&self, sums: &Sums<3, 1>) -> Option<f64> {
        let variance = self.variances.get(&self.sample(sums)?).copied()??;
        let [mut difference, second, _] = sums.terms;
        // Subtracted as integers, so that no digits cancel.
        difference.unmerge(second);
        variance.standardise(difference.to_f64(), sums.counts[0] as f64)
    }
}

impl<T: NeutralityTest> Definition for T {
    type Statistic = SumsOf<Standardised<T>, 1, 3, 1>;
    const NAME: &'static str = <T as NeutralityTest>::NAME;
    const COUNTS: usize = 1;
    const NUMBERS: &'static [&'static str] = &["n"];
    const OPTIONAL: usize = 1;
    /// The variance, for large samples.
    const IS_SLOW: bool = true;

    fn return_type() -> DataType {
        DataType::Float64
    }

    fn statistic(call: &Call) -> Result<Self::Statistic> {
        Ok(SumsOf::new(Standardised {
            n: sample_size(<T as NeutralityTest>::NAME, call)?,
            variances: HashMap::new(),
            of: PhantomData,
        }))
    }

    fn documentation() -> Documentation {
        let name = <T as NeutralityTest>::NAME;
        let mut documentation = document_one(
            &format!(
                "{}; over the square root of its variance under the neutral model (Achaz 2009, with \
                 the covariances of Fu 1995). The estimators are sums over the S sites where 0 < d < n, \
                 with n the called copies of the site and d those that are not the reference, all ALT \
                 alleles together (or, after polarize, not the ancestral one); the variance is for a \
                 sample of n copies, or, if n is not given, of their harmonic mean over these sites, \
                 rounded. NULL where S < 3, n < {}, or the variance is not positive. Restrict to \
                 biallelic sites with is_biallelic(variant_allele) where d is to be one allele's count.",
                T::DIFFERENCE,
                T::SMALLEST
            ),
            &format!("{name}(ac [, n])"),
            &format!("SELECT {name}(allele_counts(call_genotype, 'YRI')) FROM t"),
        )
        .with_argument("n", "Sample size that the variance is taken at, a constant; if left out, the harmonic mean of the called copies, rounded.");
        for related in T::RELATED {
            documentation = documentation.with_related_udf(*related);
        }
        documentation.build()
    }
}

/// For the unit tests of each test of neutrality.
#[cfg(test)]
pub(super) mod testing {
    use datafusion::common::{Result, ScalarValue};

    use crate::functions::aggregate::harness::{Call, sites};

    /// Every test.
    pub(in crate::functions::aggregate) const TESTS: [&str; 6] = [
        "fay_wu_h_norm",
        "zeng_e",
        "fu_li_d",
        "fu_li_f",
        "fu_li_d_star",
        "fu_li_f_star",
    ];

    /// A test of these sites.
    pub(in crate::functions::aggregate) fn test<const K: usize>(
        name: &str,
        rows: &[[i32; K]],
        n: &[i64],
    ) -> Result<Option<f64>> {
        let call = Call::new(name, &[None], n)?;
        match call.value(&[sites(rows)])? {
            ScalarValue::Float64(value) => Ok(value),
            other => panic!("{other:?}"),
        }
    }

    /// Asserts the value of a test for ξ = (2, 1, 1) of four copies, from the difference of the estimators and α and β of its
    /// variance, where a = 11/6 and a² + b = 85/18.
    pub(in crate::functions::aggregate) fn assert_by_hand(
        name: &str,
        difference: f64,
        alpha: f64,
        beta: f64,
    ) {
        let rows = [
            [3, 1, 0],
            [3, 0, 1],
            [4, 0, 0],
            [2, 1, 1],
            [1, 3, 0],
            [0, 2, 2],
            [0, 0, 0],
        ];
        let variance = alpha * 4.0 * 6.0 / 11.0 + beta * 4.0 * 3.0 * 18.0 / 85.0;
        let expected = difference / variance.sqrt();
        for n in [&[][..], &[4]] {
            let found = test(name, &rows, n).unwrap().unwrap();
            assert!((found - expected).abs() < 1e-12, "{found}, {expected}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{TESTS, test};

    #[test]
    fn too_little_is_null() {
        for name in TESTS {
            let null =
                |rows: &[[i32; 2]], n: &[i64]| assert_eq!(test(name, rows, n).unwrap(), None);
            null(&[], &[]);
            null(&[[3, 1], [2, 2]], &[]);
            null(&[[4, 0]; 9], &[]);
            null(&[[0, 4]; 9], &[]);
            null(&[[1, 1]; 9], &[]);
            null(&[[3, 1]; 9], &[2]);
            // With three copies, every site has a folded singleton; only the ancestral allele distinguishes them.
            let found = test(name, &[[2, 1]; 9], &[]).unwrap();
            assert_eq!(found.is_none(), name.ends_with("star"), "{name}");
            assert_eq!(
                test(name, &[[3, 1]; 9], &[3]).unwrap().is_none(),
                name.ends_with("star")
            );
        }
    }

    #[test]
    fn each_site_has_its_own_number_of_copies() {
        // Harmonic mean of 4, 5 and 8: 5.2.
        let rows = [[3, 1], [2, 3], [1, 7]];
        for name in TESTS {
            let found = test(name, &rows, &[]).unwrap();
            assert!(found.is_some());
            assert_eq!(found, test(name, &rows, &[5]).unwrap(), "{name}");
            assert_ne!(found, test(name, &rows, &[6]).unwrap(), "{name}");
        }
    }

    #[test]
    fn samples_are_checked() {
        for name in TESTS {
            for n in [1, 0, -5] {
                let error = test(name, &[[3, 1]; 3], &[n]).unwrap_err().to_string();
                assert!(error.contains("at least 2"), "{error}");
            }
            for (rows, n) in [
                ([[i32::MAX, 1]; 3], &[][..]),
                ([[3, 1]; 3], &[i64::MAX][..]),
            ] {
                let error = test(name, &rows, n).unwrap_err().to_string();
                assert!(error.contains("at most 16777216 copies"), "{error}");
            }
        }
    }
}
