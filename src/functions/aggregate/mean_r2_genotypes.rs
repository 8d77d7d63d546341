//! `mean_r2_genotypes(call_genotype [, population])`: the mean r² of unphased genotypes over all pairs of sites.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::Documentation;

use super::mean_r2::{ALL_PAIRS, R2Sum, check_sites};
use super::planes_udaf::{PlanesDefinition, Population, document_genotypes};
use super::site_genotype_sums::{DosageSums, GenotypePairs};
use super::site_pairs::{Kept, SitePairValue, SitePairsOf};
use super::site_sweep::in_order;
use crate::counts::Level;
use crate::counts::pairs::Shape;
use crate::counts::sites::{Copies, SiteRecords};
use crate::functions::numeric::two_dosages::TwoDosages;

/// `mean_r2_genotypes`.
#[derive(Debug)]
pub(crate) struct MeanR2Genotypes {
    shape: Shape,
}

const NAME: &str = "mean_r2_genotypes";

impl DosageSums for R2Sum {
    const HIGHER: bool = false;

    #[inline(always)]
    fn add(&mut self, dosages: TwoDosages) {
        if let Some(r2) = dosages.r2() {
            self.defined += 1;
            self.sum.add(r2);
        }
    }
}

impl SitePairValue for MeanR2Genotypes {
    const NAME: &'static str = NAME;

    fn kept(&self) -> Kept {
        Kept::SegregatingDiploids(self.shape)
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
        let mut values = Vec::with_capacity(groups.len());
        for group in groups {
            let sites = in_order(group, copies)?;
            let positions = vec![0.0; sites.len()];
            let sums: Vec<R2Sum> =
                GenotypePairs::sums(&sites, &positions, &ALL_PAIRS, copies.first, level)?;
            values.push(sums.first().and_then(|sum| sum.mean()));
        }
        Ok(Arc::new(Float64Array::from(values)))
    }
}

impl PlanesDefinition for MeanR2Genotypes {
    type Statistic = SitePairsOf<Self>;
    const NAME: &'static str = NAME;
    const NAMES_SAMPLES: bool = true;

    fn return_type() -> DataType {
        DataType::Float64
    }

    fn statistic(population: &Population) -> Result<Self::Statistic> {
        let shape = population.shape(NAME)?;
        Ok(SitePairsOf::new(population.of_copies(), Self { shape }))
    }

    fn documentation() -> Documentation {
        document_genotypes(
            "The mean r² of genotypes over all pairs of segregating sites of a group: the squared correlation of the numbers of copies with \
             another allele than the reference (Rogers and Huff 2009), over individuals that are complete diploids at both sites. It \
             needs no phase. Pairs at which all individuals have the same number at a site are left out; NULL without a pair. At most \
             2^33 pairs of segregating sites in a group. In sliding frames every value is computed anew.",
            "mean_r2_genotypes(call_genotype [, population])",
            "SELECT genome_bin(variant_position, 100000) AS w, mean_r2_genotypes(call_genotype, 'YRI') FROM chr22 GROUP BY 1;",
        )
        .with_related_udf("mean_r2")
        .with_related_udf("ld_moments_genotypes")
        .build()
    }
}
