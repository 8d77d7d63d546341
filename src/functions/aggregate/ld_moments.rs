//! `ld_moments(call_genotype [, population1 [, population2]], position, edges)`: moments of linkage disequilibrium by bins of distance.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, ListArray, StringArray, StructArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::Result;
use datafusion::logical_expr::Documentation;

use super::ld_bins::{ARGUMENTS, coerce, count_pairs, edges};
use super::planes_udaf::{PlanesDefinition, Population, document_genotypes};
use super::site_pair_sums::{
    AT_ONCE, Complete, EXACT_COPIES, MOMENT_COPIES, PairSums, Quotients, sums_of_groups, wide,
};
use super::site_pairs::{Kept, SitePairValue, SitePairsOf};
use super::site_sweep::{Merge, Tiles, clip, in_order, load, merge_all, no_counts, sweep};
use crate::counts::Level;
use crate::counts::sites::{
    Block, Copies, JointCounts, PairTotals, Ranges, SiteRecord, SiteRecords, SiteTerms,
    joint_counts,
};
use crate::functions::numeric::two_populations::{
    MOMENTS, Moment, OF_ONE, OF_TWO, denominators, numerators,
};
use crate::functions::numeric::two_sites::{TwoSites, falling_4};

/// `ld_moments`.
#[derive(Debug)]
pub(crate) struct LdMoments {
    edges: Vec<f64>,
    moments: &'static [Moment],
}

const NAME: &str = "ld_moments";
/// The most copies of both populations of which whole numbers of 64 bits hold every term, which is at most 4 n⁴.
const NARROW_COPIES: u32 = 1 << 15;

fn fields() -> Fields {
    let number = |name| Field::new(name, DataType::Float64, false);
    vec![
        number("bin_start"),
        number("bin_stop"),
        Field::new("pairs", DataType::Int64, false),
        Field::new("statistic", DataType::Utf8, false),
        number("sum"),
    ]
    .into()
}

fn item() -> FieldRef {
    Arc::new(Field::new_list_field(DataType::Struct(fields()), false))
}

/// The type of the result: a row for each bin and statistic.
pub(super) fn rows_type() -> DataType {
    DataType::List(item())
}

/// The rows of groups: for each group, each bin and each of these statistics, the number of pairs and the sum.
pub(super) fn long_rows(
    edges: &[f64],
    names: &[&str],
    groups: usize,
    counts: Vec<i64>,
    sums: Vec<f64>,
) -> Result<ArrayRef> {
    let bins = edges.len().saturating_sub(1);
    let of_group = bins * names.len();
    let rows = || {
        (0..groups).flat_map(|_| (0..bins).flat_map(|bin| names.iter().map(move |of| (bin, of))))
    };
    let bounds = |from: usize| -> ArrayRef {
        let bounds = rows().map(|(bin, _)| edges[bin + from]);
        Arc::new(Float64Array::from_iter_values(bounds))
    };
    let statistics: Vec<&str> = rows().map(|(_, name)| *name).collect();
    let columns: Vec<ArrayRef> = vec![
        bounds(0),
        bounds(1),
        Arc::new(Int64Array::from(counts)),
        Arc::new(StringArray::from(statistics)),
        Arc::new(Float64Array::from(sums)),
    ];
    let structs = StructArray::try_new_with_length(fields(), columns, None, groups * of_group)?;
    Ok(Arc::new(ListArray::try_new(
        item(),
        OffsetBuffer::from_repeated_length(of_group, groups),
        Arc::new(structs),
        None,
    )?))
}

/// The sums of one bin for one population: DD, Dz and π₂.
#[derive(Clone, Debug, Default)]
struct MomentSums([Quotients; OF_ONE.len()]);

impl Merge for MomentSums {
    fn merge(&mut self, other: &Self) {
        self.0.merge(&other.0);
    }
}

impl<const N: usize> Merge for [Quotients; N] {
    fn merge(&mut self, other: &Self) {
        for (to, from) in self.iter_mut().zip(other) {
            to.merge(from);
        }
    }
}

impl PairSums for MomentSums {
    const TERMS: SiteTerms = SiteTerms::Moments;

    fn of_device(totals: &PairTotals) -> Self {
        Self(totals.moments.map(Quotients::of_device))
    }

    #[inline(always)]
    fn add_complete(&mut self, pairs: &Complete<'_>) {
        if pairs.n < MOMENT_COPIES {
            return;
        }
        let Self([dd, dz, pi2]) = self;
        if pairs.n > EXACT_COPIES {
            for sites in pairs.each() {
                dd.whole += sites.dd();
                dz.whole += sites.dz();
                pi2.whole += sites.pi2();
            }
            return;
        }
        let mut sums = [[0.0; AT_ONCE]; OF_ONE.len()];
        for at in (0..pairs.x.len()).step_by(AT_ONCE) {
            let (sites, _) = pairs.eight(at);
            for (lane, sites) in sites.into_iter().enumerate() {
                sums[0][lane] += sites.dd();
                sums[1][lane] += sites.dz();
                sums[2][lane] += sites.pi2();
            }
        }
        for (total, sums) in [dd, dz, pi2].into_iter().zip(sums) {
            total.whole += sums.iter().sum::<f64>() as i128;
        }
    }

    #[inline(always)]
    fn add_pair(&mut self, sites: TwoSites<u32>) {
        if sites.n < MOMENT_COPIES {
            return;
        }
        let below = falling_4(f64::from(sites.n));
        let sites = wide(sites);
        let Self([dd, dz, pi2]) = self;
        dd.add(sites.dd(), below);
        dz.add(sites.dz(), below);
        pi2.add(sites.pi2(), below);
    }
}

/// The pairs of sites of two populations.
struct TwoPopulations<'a> {
    records: &'a [SiteRecord<'a>],
    level: Level,
    copies: [u32; 2],
    first: [Block; 2],
    second: [Block; 2],
    /// For each population, as in `OnePopulation`.
    counts: [[Box<JointCounts>; 4]; 2],
    sums: Vec<[Quotients; MOMENTS]>,
}

impl TwoPopulations<'_> {
    fn sites(&self, row: usize, other: usize, of: usize, complete: bool) -> TwoSites<u32> {
        let [alternates, a, b, n] = &self.counts[of];
        let x = alternates[row][other];
        match complete {
            true => TwoSites {
                n: self.copies[of],
                a: self.first[of].d[row],
                b: self.second[of].d[other],
                x,
            },
            false => TwoSites {
                n: n[row][other],
                a: a[row][other],
                b: b[row][other],
                x,
            },
        }
    }
}

fn narrow(sites: TwoSites<u32>) -> TwoSites<i64> {
    let TwoSites { n, a, b, x } = sites;
    TwoSites {
        n: i64::from(n),
        a: i64::from(a),
        b: i64::from(b),
        x: i64::from(x),
    }
}

/// Adds a pair.
fn add_pair(sums: &mut [Quotients; MOMENTS], pair: [TwoSites<u32>; 2], complete: bool) {
    let numbers = match pair[0].n.max(pair[1].n) <= NARROW_COPIES {
        true => numerators(narrow(pair[0]), narrow(pair[1])).map(i128::from),
        false => numerators(wide(pair[0]), wide(pair[1])),
    };
    if complete {
        for (sum, number) in sums.iter_mut().zip(numbers) {
            sum.whole += number;
        }
        return;
    }
    let below = denominators(f64::from(pair[0].n), f64::from(pair[1].n));
    let enough = |moment: &Moment| {
        pair.iter()
            .zip(moment.least)
            .all(|(sites, least)| sites.n as usize >= least)
    };
    for (((sum, number), below), moment) in sums.iter_mut().zip(numbers).zip(below).zip(&OF_TWO) {
        if enough(moment) {
            sum.add(number, below);
        }
    }
}

impl Tiles for TwoPopulations<'_> {
    fn first(&mut self, sites: Range<usize>) {
        for (of, block) in self.first.iter_mut().enumerate() {
            load(block, self.records, sites.clone(), of);
        }
    }

    fn second(&mut self, sites: Range<usize>, ranges: &Ranges, bounds: &[Vec<usize>]) {
        let mut complete = [true; 2];
        for (of, complete) in complete.iter_mut().enumerate() {
            load(&mut self.second[of], self.records, sites.clone(), of);
            let (first, second) = (&mut self.first[of], &mut self.second[of]);
            *complete = first.is_complete() && second.is_complete();
            if !*complete {
                first.fill_called();
                second.fill_called();
            }
            let planes = [
                (&first.alternate, &second.alternate),
                (&first.alternate, &second.called),
                (&first.called, &second.alternate),
                (&first.called, &second.called),
            ];
            let wanted = if *complete { 1 } else { planes.len() };
            for ((one, two), counts) in planes.iter().zip(&mut self.counts[of]).take(wanted) {
                joint_counts(self.level, one, two, ranges, counts);
            }
        }
        for (row, bounds) in bounds.iter().enumerate() {
            let starts = bounds.iter().zip(bounds.iter().skip(1));
            for (bin, (start, end)) in starts.enumerate() {
                for other in clip(*start..*end, &sites) {
                    let pair = [0, 1].map(|of| self.sites(row, other, of, complete[of]));
                    let all_called = pair[0].n == self.copies[0] && pair[1].n == self.copies[1];
                    add_pair(&mut self.sums[bin], pair, all_called);
                }
            }
        }
    }
}

impl LdMoments {
    /// The sums of each bin of a group, of two populations.
    fn sums_of_two(
        &self,
        sites: &[SiteRecord<'_>],
        first: usize,
        second: usize,
        level: Level,
    ) -> Result<Vec<f64>> {
        let bins = self.edges.len() - 1;
        let positions: Vec<f64> = sites.iter().map(|site| site.position).collect();
        let copies = [first, second];
        let start = || TwoPopulations {
            records: sites,
            level,
            copies: copies.map(|copies| copies as u32),
            first: copies.map(Block::new),
            second: copies.map(Block::new),
            counts: std::array::from_fn(|_| std::array::from_fn(|_| no_counts())),
            sums: vec![[Quotients::default(); MOMENTS]; bins],
        };
        let mut of_bins = vec![[Quotients::default(); MOMENTS]; bins];
        sweep(&positions, &self.edges, start, |tiles| {
            merge_all(&mut of_bins, &tiles.sums);
        })?;
        let below = denominators(copies[0] as f64, copies[1] as f64);
        let mut values = Vec::with_capacity(bins * MOMENTS);
        for sums in &of_bins {
            for ((sum, below), moment) in sums.iter().zip(below).zip(&OF_TWO) {
                let mut least = moment.least.iter().zip(copies);
                let enough = least.all(|(least, copies)| copies >= *least);
                values.push(if enough { sum.total(below) } else { 0.0 });
            }
        }
        Ok(values)
    }
}

impl SitePairValue for LdMoments {
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
        let least: Vec<[usize; 2]> = self.moments.iter().map(|moment| moment.least).collect();
        let mut counts = vec![];
        let varying_of = |group| {
            let mut sites = in_order(group, copies)?;
            let pairs = count_pairs(&sites, copies, &self.edges, &least)?;
            for bin in 0..bins {
                // There are fewer than 2^63 pairs.
                counts.extend(pairs.iter().map(|of_bins| of_bins[bin] as i64));
            }
            sites.retain(SiteRecord::varies);
            Ok(sites)
        };
        let varying = groups.map(varying_of);
        let mut sums: Vec<f64> = vec![];
        match copies.second {
            None => {
                let of_bins: Vec<MomentSums> =
                    sums_of_groups(varying, &self.edges, copies.first, level)?;
                let below = falling_4(copies.first as f64);
                let all = of_bins.iter().flat_map(|sums| sums.0);
                sums.extend(all.map(|sum| sum.total(below)));
            }
            Some(second) => {
                for group in varying {
                    let group = group?;
                    sums.append(&mut self.sums_of_two(&group, copies.first, second, level)?);
                }
            }
        }
        let names: Vec<&str> = self.moments.iter().map(|moment| moment.name).collect();
        long_rows(&self.edges, &names, number, counts, sums)
    }

    fn size(&self) -> usize {
        self.edges.len() * self.moments.len() * 6 * size_of::<f64>()
    }
}

impl PlanesDefinition for LdMoments {
    type Statistic = SitePairsOf<Self>;
    const NAME: &'static str = NAME;
    const POPULATIONS: usize = 2;
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
        let copies = population.of_copies();
        let moments: &[Moment] = match copies.second {
            None => &OF_ONE,
            Some(_) => &OF_TWO,
        };
        Ok(SitePairsOf::new(copies, Self { edges, moments }))
    }

    fn documentation() -> Documentation {
        document_genotypes(
            "Moments of linkage disequilibrium by distance (Ragsdale and Gravel 2019), of haplotypes of one population or two: a list of \
             structs (bin_start, bin_stop, pairs, statistic, sum) for UNNEST, each statistic of each bin under its name in moments: \
             DD_0_0, Dz_0_0_0 and pi2_0_0_0_0, or the 15 of two populations. sum is over the pairs of variants at a distance of bin_start \
             up to bin_stop, which is not in it, and sum / pairs the mean. Each term is an average over distinct copies among those called \
             at both variants, the same number as by the published polynomials; pairs counts those with enough copies for it, variants that \
             do not vary included. moments takes only biallelic variants that vary among all samples: WHERE is_biallelic(variant_allele) \
             AND is_segregating(allele_counts(call_genotype)). The order of two variants at one position, which matters for statistics \
             such as Dz_0_0_1 alone, is that of their genotypes. The phase is not checked: of unphased genotypes use ld_moments_genotypes. Every group must be of one contig. In sliding \
             frames every value is computed anew.",
            "ld_moments(call_genotype [, population [, population2]], position, edges [, contig])",
            "SELECT unnest(ld_moments(call_genotype, 'YRI', 'CEU', variant_position, [0, 10000, 50000])) FROM chr22;",
        )
        .with_argument("population2", "A second population; statistics of one when left out.")
        .with_argument("position", "The position of the variant, variant_position or a number on another scale.")
        .with_argument("edges", "The bounds of the bins, a constant list of 2 to 1,000 ascending numbers.")
        .with_argument("contig", "The contig of the variant; the column variant_contig beside call_genotype when left out.")
        .with_related_udf("ld_decay")
        .with_related_udf("ld_moments_genotypes")
        .build()
    }
}
