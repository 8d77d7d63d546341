//! `ld_decay(call_genotype [, population], position, edges)`: linkage disequilibrium by bins of distance.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, ListArray, StructArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::Result;
use datafusion::logical_expr::Documentation;

use super::ld_bins::{ARGUMENTS, coerce, count_pairs, edges};
use super::mean_r2::R2Sum;
use super::planes_udaf::{PlanesDefinition, Population, document_genotypes};
use super::site_pair_sums::{
    AT_ONCE, Complete, EXACT_COPIES, MOMENT_COPIES, PairSums, Quotients, floats, sums_of_groups,
    wide,
};
use super::site_pairs::{Kept, SitePairValue, SitePairsOf};
use super::site_sweep::{Merge, in_order};
use crate::counts::Level;
use crate::counts::sites::{Copies, PairTotals, SiteRecord, SiteRecords, SiteTerms};
use crate::functions::numeric::FixedSum;
use crate::functions::numeric::fixed_sum::FixedSums;
use crate::functions::numeric::two_sites::{TwoSites, d_prime, falling_4};

/// `ld_decay`.
#[derive(Debug)]
pub(crate) struct LdDecay {
    edges: Vec<f64>,
}

const NAME: &str = "ld_decay";

fn fields() -> Fields {
    let number = |name, nullable| Field::new(name, DataType::Float64, nullable);
    let whole = |name| Field::new(name, DataType::Int64, false);
    vec![
        number("bin_start", false),
        number("bin_stop", false),
        whole("pairs"),
        whole("defined"),
        number("mean_r2", true),
        number("mean_d_prime", true),
        number("sum_dd", false),
        number("sum_pi2", false),
    ]
    .into()
}

fn item() -> FieldRef {
    Arc::new(Field::new_list_field(DataType::Struct(fields()), false))
}

/// The sums of one bin.
#[derive(Clone, Debug, Default)]
struct DecaySums {
    r2: R2Sum,
    d_prime: FixedSum,
    dd: Quotients,
    pi2: Quotients,
}

impl Merge for DecaySums {
    fn merge(&mut self, other: &Self) {
        self.r2.merge(&other.r2);
        self.d_prime.merge(other.d_prime);
        self.dd.merge(&other.dd);
        self.pi2.merge(&other.pi2);
    }
}

impl PairSums for DecaySums {
    const TERMS: SiteTerms = SiteTerms::Decay;

    fn of_device(totals: &PairTotals) -> Self {
        let [dd, _, pi2] = totals.moments.map(Quotients::of_device);
        Self {
            r2: R2Sum::of_device(totals),
            d_prime: FixedSum(totals.d_prime),
            dd,
            pi2,
        }
    }

    #[inline(always)]
    fn add_complete(&mut self, pairs: &Complete<'_>) {
        self.r2.add_complete(pairs);
        let has_moments = pairs.n >= MOMENT_COPIES;
        let is_exact = has_moments && pairs.n <= EXACT_COPIES;
        let mut d_primes = FixedSums::<AT_ONCE>::ZERO;
        let (mut dd, mut pi2) = ([0.0; AT_ONCE], [0.0; AT_ONCE]);
        for at in (0..pairs.x.len()).step_by(AT_ONCE) {
            let (sites, _) = pairs.eight(at);
            let mut terms = [0.0; AT_ONCE];
            for (term, sites) in terms.iter_mut().zip(sites) {
                *term = d_prime(sites);
            }
            d_primes.add(&terms);
            for (sums, sites) in dd.iter_mut().zip(&mut pi2).zip(sites) {
                *sums.0 += sites.dd();
                *sums.1 += sites.pi2();
            }
        }
        self.d_prime.merge(d_primes.total());
        if is_exact {
            self.dd.whole += dd.iter().sum::<f64>() as i128;
            self.pi2.whole += pi2.iter().sum::<f64>() as i128;
        } else if has_moments {
            for sites in pairs.each() {
                self.dd.whole += sites.dd();
                self.pi2.whole += sites.pi2();
            }
        }
    }

    #[inline(always)]
    fn add_pair(&mut self, sites: TwoSites<u32>) {
        let defined = self.r2.defined;
        self.r2.add_pair(sites);
        if self.r2.defined > defined {
            self.d_prime.add(d_prime(floats(sites)));
        }
        if sites.n >= MOMENT_COPIES {
            let below = falling_4(f64::from(sites.n));
            let sites = wide(sites);
            self.dd.add(sites.dd(), below);
            self.pi2.add(sites.pi2(), below);
        }
    }
}

impl SitePairValue for LdDecay {
    const NAME: &'static str = NAME;
    const IS_ON_DEVICE: bool = true;

    fn kept(&self) -> Kept {
        Kept::All
    }

    fn column<'a>(
        &self,
        groups: impl ExactSizeIterator<Item = &'a SiteRecords>,
        copies: Copies,
        level: Level,
    ) -> Result<ArrayRef> {
        let (number, bins) = (groups.len(), self.edges.len() - 1);
        let total = number * bins;
        let mut wholes: [Vec<i64>; 2] = Default::default();
        let mut means: [Vec<Option<f64>>; 2] = Default::default();
        let mut sums: [Vec<f64>; 2] = Default::default();
        let denominator = falling_4(copies.first as f64);
        let mut pairs = vec![];
        let varying_of = |group| {
            let mut sites = in_order(group, copies)?;
            let of_group =
                count_pairs(&sites, copies, &self.edges, &[[MOMENT_COPIES as usize, 0]])?;
            pairs.extend(of_group.into_iter().flatten());
            sites.retain(SiteRecord::varies);
            Ok(sites)
        };
        let of_bins: Vec<DecaySums> =
            sums_of_groups(groups.map(varying_of), &self.edges, copies.first, level)?;
        for (bin, pairs) in of_bins.iter().zip(pairs) {
            // There are fewer than 2^63 pairs.
            wholes[0].push(pairs as i64);
            wholes[1].push(bin.r2.defined as i64);
            means[0].push(bin.r2.mean());
            let mean = R2Sum {
                sum: bin.d_prime,
                ..bin.r2
            };
            means[1].push(mean.mean());
            sums[0].push(bin.dd.total(denominator));
            sums[1].push(bin.pi2.total(denominator));
        }
        let edges = |from: usize| -> ArrayRef {
            let of_group = &self.edges[from..from + bins];
            let all = (0..number).flat_map(|_| of_group.iter().copied());
            Arc::new(Float64Array::from_iter_values(all))
        };
        let mut columns: Vec<ArrayRef> = vec![edges(0), edges(1)];
        columns.extend(wholes.map(|whole| Arc::new(Int64Array::from(whole)) as ArrayRef));
        columns.extend(means.map(|mean| Arc::new(Float64Array::from(mean)) as ArrayRef));
        columns.extend(sums.map(|sum| Arc::new(Float64Array::from(sum)) as ArrayRef));
        let structs = StructArray::try_new_with_length(fields(), columns, None, total)?;
        Ok(Arc::new(ListArray::try_new(
            item(),
            OffsetBuffer::from_repeated_length(bins, number),
            Arc::new(structs),
            None,
        )?))
    }

    fn size(&self) -> usize {
        self.edges.len() * fields().len() * size_of::<f64>()
    }
}

impl PlanesDefinition for LdDecay {
    type Statistic = SitePairsOf<Self>;
    const NAME: &'static str = NAME;
    const TAKES_CONTIG: bool = true;
    const OTHERS: &'static str = ARGUMENTS;

    fn return_type() -> DataType {
        DataType::List(item())
    }

    fn coerce_others(types: &[DataType]) -> Option<Vec<DataType>> {
        coerce(types)
    }

    fn statistic(population: &Population) -> Result<Self::Statistic> {
        let edges = edges(NAME, &population.others)?;
        Ok(SitePairsOf::new(population.of_copies(), Self { edges }))
    }

    fn documentation() -> Documentation {
        document_genotypes(
            "Linkage disequilibrium by distance: a list of structs, one for each bin (bin_start up to bin_stop, which is not in it), \
             for UNNEST. pairs counts the pairs of variants at that distance with at least four copies called at both, variants that do \
             not vary included; defined those with an r². mean_r2 is the mean r² of haplotypes, and mean_d_prime that of the signed D'. \
             sum_dd and sum_pi2 are sums over pairs of the unbiased estimators of D² and of p(1 - p)q(1 - q) (Ragsdale and Gravel \
             2019); their quotient is σ_D². Alleles are pooled to the reference and the others; every copy of the population is a \
             haplotype, in stored order: the phase is not checked. Every group must be of one contig. Positions may be any numbers, \
             such as those of a genetic map. In sliding frames every value is computed anew.",
            "ld_decay(call_genotype [, population], position, edges [, contig])",
            "SELECT unnest(ld_decay(call_genotype, 'YRI', variant_position, [1, 1000, 10000, 100000])) FROM chr22;",
        )
        .with_argument("position", "The position of the variant, variant_position or a number on another scale.")
        .with_argument("edges", "The bounds of the bins, a constant list of 2 to 1,000 ascending numbers.")
        .with_argument("contig", "The contig of the variant; the column variant_contig beside call_genotype when left out.")
        .with_related_udf("ld_moments")
        .with_related_udf("mean_r2")
        .build()
    }
}
