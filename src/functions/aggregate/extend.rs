//! Aggregates of other crates: a statistic that is a function of sums over sites, as an aggregate function with everything that those of
//! this crate have: GROUP BY, FILTER, OVER with sliding frames, partial aggregation, and the same bits in any order of the rows.
//!
//! [`SumStatistic`] is the trait, [`aggregate_of_sums`] makes the function of it, which `SessionContext::register_udaf` adds to a session.
//! Statistics that are no functions of sums implement [`CellStatistic`](super::CellStatistic). Both take counts, or `call_genotype` and
//! populations: planning recognises them by the type that `added` wraps them in.
//!
//! Not public are statistics of any number of populations, of zygosity, and of the bit-planes of genotypes. Their inputs are views whose
//! layout follows the counters of this crate, and changes with them.

use std::fmt;
use std::marker::PhantomData;

use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{AggregateUDF, Documentation};

use super::added::added;
use super::definition::{Call, Definition};
use super::sums::{Block, Site, SiteSums, Sums};
use super::sums_of::SumsOf;
use crate::functions::numeric::blocks::Counts;

/// What one site adds to a statistic, or the sums over all sites: `TERMS` numbers and `COUNTS` whole numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SiteTerms<const TERMS: usize, const COUNTS: usize> {
    /// Numbers. Those of a site are in [−1, 1]: divide by a bound, and multiply the sum by it. Another one is an error of the program,
    /// which a development build panics at; in a release build the sum is then unspecified.
    pub terms: [f64; TERMS],
    /// Whole numbers, such as 1 for each site.
    pub counts: [i64; COUNTS],
}

/// A statistic of the allele counts of `POPULATIONS` populations that is a function of sums over sites, `TERMS` of numbers and `COUNTS`
/// of whole numbers.
///
/// Here it is Nei's (1987, equation 8.4) average heterozygosity of biallelic sites: the mean over sites of 2 d (n − d) / (n (n − 1)).
///
/// ```
/// use datafusion::common::Result;
/// use datafusion::logical_expr::Documentation;
/// use datafusion::logical_expr::DocSection;
/// use datafusion_vcz::functions::{SiteTerms, SumStatistic, aggregate_of_sums};
///
/// struct MeanHeterozygosity;
///
/// impl SumStatistic<1, 1, 1> for MeanHeterozygosity {
///     const NAME: &'static str = "mean_heterozygosity";
///
///     fn site([ac]: [&[i32]; 1]) -> Option<SiteTerms<1, 1>> {
///         let n: f64 = ac.iter().map(|&copies| f64::from(copies)).sum();
///         let d = n - f64::from(*ac.first()?);
///         let terms = [2.0 * d * (n - d) / (n * (n - 1.0))];
///         (n >= 2.0).then_some(SiteTerms { terms, counts: [1] })
///     }
///
///     fn value(sums: SiteTerms<1, 1>) -> Option<f64> {
///         let ([sum], [sites]) = (sums.terms, sums.counts);
///         (sites > 0).then(|| sum / sites as f64)
///     }
///
///     fn documentation() -> Documentation {
///         let section = DocSection::default();
///         Documentation::builder(section, "Mean heterozygosity of sites.", "mean_heterozygosity(ac)").build()
///     }
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<()> {
/// let ctx = datafusion_vcz::session::context(Default::default(), Default::default())?;
/// ctx.register_udaf(aggregate_of_sums::<MeanHeterozygosity, 1, 1, 1>());
/// let query = "SELECT mean_heterozygosity(call_genotype) AS ours, \
///                     diversity(call_genotype) / count(*) AS same \
///              FROM 'tests/fixtures/sim.vcz.zip' WHERE is_biallelic(variant_allele)";
/// let rows = ctx.sql(query).await?.collect().await?;
/// # use datafusion::arrow::array::AsArray;
/// # use datafusion::arrow::datatypes::Float64Type;
/// let column = |at: usize| rows[0].column(at).as_primitive::<Float64Type>().value(0);
/// assert!(column(0) > 0.0 && (column(0) - column(1)).abs() < 1e-12);
/// # Ok(())
/// # }
/// ```
///
/// Like the aggregates of this crate it takes counts, `mean_heterozygosity(allele_counts(call_genotype, 'YRI'))`, or `call_genotype` and a
/// population for each list of counts, `mean_heterozygosity(call_genotype, 'YRI')`, and works in overlapping windows.
pub trait SumStatistic<const POPULATIONS: usize, const TERMS: usize, const COUNTS: usize>:
    Send + Sync + 'static
{
    /// The function's name in SQL. Sessions of [`session::context`](crate::session::context) take identifiers as they are written;
    /// others make them lower case.
    const NAME: &'static str;

    /// What a site adds, or `None` for a site that is left out. `counts` has a list for each population: the called copies of allele 0
    /// (the reference, or the ancestral one after `polarize`), 1, …; none is negative, and lists may be shorter than the site has alleles.
    fn site(counts: [&[i32]; POPULATIONS]) -> Option<SiteTerms<TERMS, COUNTS>>;

    /// The value of the sums over all sites; `None` is NULL. If it is not NULL where there are no sites (all sums are 0), it never is.
    fn value(sums: SiteTerms<TERMS, COUNTS>) -> Option<f64>;

    /// What `information_schema.routines` and `\h` show.
    fn documentation() -> Documentation;
}

/// The aggregate function of a statistic, to be registered in a session.
pub fn aggregate_of_sums<S, const POPULATIONS: usize, const TERMS: usize, const COUNTS: usize>()
-> AggregateUDF
where
    S: SumStatistic<POPULATIONS, TERMS, COUNTS>,
{
    added::<Of<S, POPULATIONS, TERMS, COUNTS>>()
}

/// A [`SumStatistic`] as the aggregates of this crate are defined.
struct Of<S, const P: usize, const F: usize, const C: usize>(PhantomData<fn() -> S>);

impl<S: SumStatistic<P, F, C>, const P: usize, const F: usize, const C: usize> fmt::Debug
    for Of<S, P, F, C>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(S::NAME)
    }
}

impl<S: SumStatistic<P, F, C>, const P: usize, const F: usize, const C: usize> SiteSums<P, F, C>
    for Of<S, P, F, C>
{
    type Output = Float64Type;

    #[inline(always)] // once per row, in the loop over them
    fn site(counts: [&[i32]; P]) -> Option<Site<F, C>> {
        S::site(counts).map(|SiteTerms { terms, counts }| Site { terms, counts })
    }

    #[inline(always)]
    fn block<const K: usize>(_counts: [&Counts<K>; P]) -> Option<Block<F, C>> {
        None
    }

    fn finish(&self, sums: &Sums<F, C>) -> Option<f64> {
        S::value(SiteTerms {
            terms: sums.terms.map(|sum| sum.to_f64()),
            counts: sums.counts,
        })
    }
}

impl<S: SumStatistic<P, F, C>, const P: usize, const F: usize, const C: usize> Definition
    for Of<S, P, F, C>
{
    type Statistic = SumsOf<Self, P, F, C>;
    const NAME: &'static str = S::NAME;
    const COUNTS: usize = P;

    fn return_type() -> DataType {
        DataType::Float64
    }

    fn default_value() -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(S::value(SiteTerms {
            terms: [0.0; F],
            counts: [0; C],
        })))
    }

    fn statistic(_call: &Call) -> Result<Self::Statistic> {
        Ok(SumsOf::new(Self(PhantomData)))
    }

    fn documentation() -> Documentation {
        S::documentation()
    }
}
