//! `mean_r2(call_genotype [, population])`: the mean r² of haplotypes over all pairs of sites (Kelly's ZnS).

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array};
use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::Documentation;

use super::planes_udaf::{PlanesDefinition, Population, document_genotypes};
use super::site_pair_sums::{AT_ONCE, Complete, PairSums, floats, sums_of_groups};
use super::site_pairs::{Kept, SitePairValue, SitePairsOf};
use super::site_sweep::{Merge, read_records};
use crate::counts::Level;
use crate::counts::sites::{Copies, PairTotals, SiteRecords, SiteTerms};
use crate::functions::numeric::FixedSum;
use crate::functions::numeric::fixed_sum::FixedSums;
use crate::functions::numeric::two_sites::{TwoSites, inverse_spread, r2_term};

/// `mean_r2`.
#[derive(Debug)]
pub(crate) struct MeanR2;

const NAME: &str = "mean_r2";
/// Pairs of sites that a group may have.
const MOST_PAIRS: usize = 1 << 33;
/// Every pair is in one bin of distances, all of which are 0.
pub(super) const ALL_PAIRS: [f64; 2] = [0.0, f64::INFINITY];

/// A sum of r², and how many pairs have one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct R2Sum {
    /// Pairs with an r².
    pub(super) defined: u64,
    /// The sum.
    pub(super) sum: FixedSum,
}

impl R2Sum {
    /// The mean; `None` over nothing.
    pub(super) fn mean(self) -> Option<f64> {
        (self.defined > 0).then(|| self.sum.to_f64() / self.defined as f64)
    }
}

impl Merge for R2Sum {
    fn merge(&mut self, other: &Self) {
        self.defined += other.defined;
        self.sum.merge(other.sum);
    }
}

impl PairSums for R2Sum {
    const TERMS: SiteTerms = SiteTerms::R2;

    fn of_device(totals: &PairTotals) -> Self {
        Self {
            defined: totals.defined,
            sum: FixedSum(totals.r2),
        }
    }

    #[inline(always)]
    fn add_complete(&mut self, pairs: &Complete<'_>) {
        self.defined += pairs.x.len() as u64;
        let mut sums = FixedSums::<AT_ONCE>::ZERO;
        for at in (0..pairs.x.len()).step_by(AT_ONCE) {
            let (sites, inverses) = pairs.eight(at);
            let mut terms = [0.0; AT_ONCE];
            for (term, (sites, inverse)) in terms.iter_mut().zip(sites.into_iter().zip(inverses)) {
                *term = r2_term(sites.delta(), inverse);
            }
            sums.add(&terms);
        }
        self.sum.merge(sums.total());
    }

    #[inline(always)]
    fn add_pair(&mut self, sites: TwoSites<u32>) {
        let sites = floats(sites);
        let inverse = inverse_spread(sites.n, sites.a) * inverse_spread(sites.n, sites.b);
        if inverse > 0.0 {
            self.defined += 1;
            self.sum.add(r2_term(sites.delta(), inverse));
        }
    }
}

/// Returns an error if a group has too many sites that vary.
pub(super) fn check_sites(name: &str, sites: usize) -> Result<()> {
    let pairs = sites.saturating_mul(sites.saturating_sub(1)) / 2;
    if pairs <= MOST_PAIRS {
        return Ok(());
    }
    exec_err!(
        "{name}: a group has more than {:.1e} pairs of segregating sites: make smaller groups, as with GROUP BY variant_contig, \
         genome_bin(variant_position, 100000), or compare sites at some distances alone with ld_decay(call_genotype [, population], \
         variant_position, edges)",
        MOST_PAIRS as f64
    )
}

impl SitePairValue for MeanR2 {
    const NAME: &'static str = NAME;
    const IS_ON_DEVICE: bool = true;

    fn kept(&self) -> Kept {
        Kept::Segregating
    }

    fn check_sites(&self, sites: usize) -> Result<()> {
        check_sites(NAME, sites)
    }

    fn column<'a>(
        &self,
        groups: impl ExactSizeIterator<Item = &'a SiteRecords>,
        copies: Copies,
        level: Level,
    ) -> Result<ArrayRef> {
        let sites_of = |group| {
            let mut sites = read_records(group, copies)?;
            // They have no positions. Those without missing calls are compared faster among themselves.
            sites.sort_by_key(|site| site.called[0].is_some());
            Ok(sites)
        };
        let sums: Vec<R2Sum> =
            sums_of_groups(groups.map(sites_of), &ALL_PAIRS, copies.first, level)?;
        let means = sums.into_iter().map(R2Sum::mean);
        Ok(Arc::new(Float64Array::from_iter(means)))
    }
}

impl PlanesDefinition for MeanR2 {
    type Statistic = SitePairsOf<Self>;
    const NAME: &'static str = NAME;

    fn return_type() -> DataType {
        DataType::Float64
    }

    fn statistic(population: &Population) -> Result<Self::Statistic> {
        Ok(SitePairsOf::new(population.of_copies(), Self))
    }

    fn documentation() -> Documentation {
        document_genotypes(
            "The mean r² of haplotypes over all pairs of segregating sites of a group (Kelly 1997, ZnS): a measure of linkage \
             disequilibrium in a window. Alleles are pooled to the reference and the others; every copy of the population is a \
             haplotype, in stored order: the phase is not checked. r² is over the copies that are called at both sites, and pairs at \
             which a site does not vary among these are left out. NULL without a pair. At most 2^33 pairs of segregating sites in a \
             group. In sliding frames every value is computed anew.",
            "mean_r2(call_genotype [, population])",
            "SELECT genome_bin(variant_position, 100000) AS w, mean_r2(call_genotype, 'YRI') FROM chr22 GROUP BY 1;",
        )
        .with_related_udf("mean_r2_genotypes")
        .with_related_udf("ld_decay")
        .build()
    }
}
