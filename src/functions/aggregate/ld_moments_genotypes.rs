//! `ld_moments_genotypes(call_genotype [, population], position, edges)`: moments of linkage disequilibrium of unphased genotypes, by bins of
//! distance.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::Documentation;

use super::ld_bins::{ARGUMENTS, coerce, count_pairs, edges};
use super::ld_moments::{long_rows, rows_type};
use super::planes_udaf::{PlanesDefinition, Population, document_genotypes};
use super::site_genotype_sums::{DosageSums, GenotypePairs};
use super::site_pairs::{Kept, SitePairValue, SitePairsOf};
use super::site_sweep::{Merge, in_order};
use crate::counts::Level;
use crate::counts::pairs::Shape;
use crate::counts::sites::{Copies, SiteRecords};
use crate::functions::numeric::FixedSum;
use crate::functions::numeric::two_dosages::TwoDosages;
use crate::functions::numeric::two_populations::OF_ONE;
use crate::functions::numeric::two_sites::falling_4;

/// `ld_moments_genotypes`.
#[derive(Debug)]
pub(crate) struct LdMomentsGenotypes {
    edges: Vec<f64>,
    shape: Shape,
}

const NAME: &str = "ld_moments_genotypes";
/// The fewest individuals at both sites for which the moments are defined.
const INDIVIDUALS: usize = 4;
/// The denominators of DD, Dz and π₂ are these times n (n−1) (n−2) (n−3).
const TIMES: [f64; OF_ONE.len()] = [4.0, 2.0, 16.0];
/// A term is below this number, so that its quotient with it fits a fixed-point sum. A power of two, so that nothing is rounded.
const LARGEST: f64 = 4.0;

/// The sums of one bin: DD, Dz and π₂.
#[derive(Clone, Debug, Default)]
struct MomentSums([FixedSum; OF_ONE.len()]);

impl Merge for MomentSums {
    fn merge(&mut self, other: &Self) {
        for (to, from) in self.0.iter_mut().zip(other.0) {
            to.merge(from);
        }
    }
}

impl DosageSums for MomentSums {
    const HIGHER: bool = true;

    #[inline(always)]
    fn add(&mut self, dosages: TwoDosages) {
        if dosages.individuals < INDIVIDUALS as f64 {
            return;
        }
        let below = falling_4(dosages.individuals) * LARGEST;
        let terms = dosages.moments().into_iter().zip(TIMES);
        for (sum, (numerator, times)) in self.0.iter_mut().zip(terms) {
            sum.add((numerator as f64 / (times * below)).clamp(-1.0, 1.0));
        }
    }
}

impl SitePairValue for LdMomentsGenotypes {
    const NAME: &'static str = NAME;

    fn kept(&self) -> Kept {
        Kept::Diploids(self.shape)
    }

    fn column<'a>(
        &self,
        groups: impl ExactSizeIterator<Item = &'a SiteRecords>,
        copies: Copies,
        level: Level,
    ) -> Result<ArrayRef> {
        let number = groups.len();
        let (mut counts, mut sums) = (vec![], vec![]);
        for group in groups {
            let all = in_order(group, copies)?;
            // An individual has two copies.
            let pairs = count_pairs(&all, copies, &self.edges, &[[2 * INDIVIDUALS, 0]])?;
            let varying: Vec<_> = all.into_iter().filter(|site| site.varies()).collect();
            let positions: Vec<f64> = varying.iter().map(|site| site.position).collect();
            let of_bins: Vec<MomentSums> =
                GenotypePairs::sums(&varying, &positions, &self.edges, copies.first, level)?;
            for (of_bin, MomentSums(of_moments)) in pairs[0].iter().zip(&of_bins) {
                // There are fewer than 2^63 pairs.
                counts.extend([*of_bin as i64; OF_ONE.len()]);
                sums.extend(of_moments.iter().map(|sum| sum.to_f64() * LARGEST));
            }
        }
        let names: Vec<&str> = OF_ONE.iter().map(|moment| moment.name).collect();
        long_rows(&self.edges, &names, number, counts, sums)
    }

    fn size(&self) -> usize {
        self.edges.len() * OF_ONE.len() * 6 * size_of::<f64>()
    }
}

impl PlanesDefinition for LdMomentsGenotypes {
    type Statistic = SitePairsOf<Self>;
    const NAME: &'static str = NAME;
    const NAMES_SAMPLES: bool = true;
    const TAKES_CONTIG: bool = true;
    const OTHERS: &'static str = ARGUMENTS;

    fn return_type() -> DataType {
        rows_type()
    }

    fn coerce_others(types: &[DataType]) -> Option<Vec<DataType>> {
        coerce(types)
    }

    fn statistic(population: &Population) -> Result<Self::Statistic> {
        let edges = edges(NAME, &population.others)?;
        let shape = population.shape(NAME)?;
        Ok(SitePairsOf::new(
            population.of_copies(),
            Self { edges, shape },
        ))
    }

    fn documentation() -> Documentation {
        document_genotypes(
            "Moments of linkage disequilibrium by distance of unphased genotypes (Ragsdale and Gravel 2020), as moments computes them with \
             use_genotypes: a list of structs (bin_start, bin_stop, pairs, statistic, sum) for UNNEST, with the statistics DD_0_0, \
             Dz_0_0_0 and pi2_0_0_0_0. sum is over the pairs of variants at a distance of bin_start up to bin_stop, which is not in it, and \
             sum / pairs the mean. Each term is an average over four distinct individuals that are complete diploids at both variants; \
             pairs counts those with four or more, variants that do not vary included. It needs no phase. moments takes only biallelic \
             variants that vary among all samples: WHERE is_biallelic(variant_allele) AND is_segregating(allele_counts(call_genotype)). \
             Every group must be of one contig. In sliding frames every value is computed anew.",
            "ld_moments_genotypes(call_genotype [, population], position, edges [, contig])",
            "SELECT unnest(ld_moments_genotypes(call_genotype, 'YRI', variant_position, [0, 10000, 50000])) FROM chr22;",
        )
        .with_argument("position", "The position of the variant, variant_position or a number on another scale.")
        .with_argument("edges", "The bounds of the bins, a constant list of 2 to 1,000 ascending numbers.")
        .with_argument("contig", "The contig of the variant; the column variant_contig beside call_genotype when left out.")
        .with_related_udf("ld_moments")
        .build()
    }
}
