//! `mean_r2_genotypes(call_genotype [, population])`: the mean r² of unphased genotypes over all pairs of sites.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::Documentation;

use super::mean_r2::{ALL_PAIRS, R2Sum, check_sites};
use super::planes_udaf::{PlanesDefinition, Population, document_genotypes};
use super::site_pairs::{Kept, SitePairValue, SitePairsOf};
use super::site_sweep::{Tiles, in_order, load, no_counts, sweep};
use crate::counts::pairs::Shape;
use crate::counts::sites::{
    Block, Copies, JointCounts, Ranges, SiteRecord, SiteRecords, joint_counts,
};
use crate::counts::{Job, Lanes, Level};
use crate::functions::numeric::two_dosages::TwoDosages;

/// `mean_r2_genotypes`.
#[derive(Debug)]
pub(crate) struct MeanR2Genotypes {
    shape: Shape,
}

const NAME: &str = "mean_r2_genotypes";

/// Products of planes of two sites: of alternates, which copies of one individual both have or each has in the other's place; those
/// of alternates, and of homozygotes, with called copies; of called copies. Only the first two are needed where every individual is
/// a complete diploid.
const PRODUCTS: usize = 7;
const COMPLETE_PRODUCTS: usize = 2;

/// The pairs of a population's sites.
struct Genotypes<'a> {
    records: &'a [SiteRecord<'a>],
    level: Level,
    first: Block,
    second: Block,
    counts: [Box<JointCounts>; PRODUCTS],
    sum: R2Sum,
}

impl Tiles for Genotypes<'_> {
    fn first(&mut self, sites: Range<usize>) {
        load(&mut self.first, self.records, sites, 0);
        self.first.add_genotypes();
    }

    fn second(&mut self, sites: Range<usize>, ranges: &Ranges, _: &[Vec<usize>]) -> Result<()> {
        load(&mut self.second, self.records, sites, 0);
        self.second.add_genotypes();
        let complete = self.first.is_complete() && self.second.is_complete();
        if !complete {
            self.first.fill_called();
            self.second.fill_called();
        }
        let (one, two) = (&self.first, &self.second);
        let planes = [
            (&one.alternate, &two.alternate),
            (&one.alternate, &two.swapped),
            (&one.alternate, &two.called),
            (&one.called, &two.alternate),
            (&one.homozygous, &two.called),
            (&one.called, &two.homozygous),
            (&one.called, &two.called),
        ];
        let wanted = if complete {
            COMPLETE_PRODUCTS
        } else {
            PRODUCTS
        };
        for ((one, two), counts) in planes.iter().zip(&mut self.counts).take(wanted) {
            joint_counts(self.level, one, two, ranges, counts);
        }
        self.level.run(Terms {
            first: &self.first,
            second: &self.second,
            complete,
            ranges,
            counts: &self.counts,
            sum: &mut self.sum,
        });
        Ok(())
    }
}

/// Adds the terms of the pairs of a tile.
struct Terms<'a> {
    first: &'a Block,
    second: &'a Block,
    complete: bool,
    ranges: &'a Ranges,
    counts: &'a [Box<JointCounts>; PRODUCTS],
    sum: &'a mut R2Sum,
}

impl Job for Terms<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, _lanes: L) {
        for (row, range) in self.ranges.iter().enumerate() {
            for other in usize::from(range.start)..usize::from(range.end) {
                let count = |product: usize| f64::from(self.counts[product][row][other]);
                let (one, two) = (self.first, self.second);
                let xy = count(0) + count(1);
                let dosages = match self.complete {
                    true => TwoDosages {
                        individuals: f64::from(one.n[row]) / 2.0,
                        x: f64::from(one.d[row]),
                        y: f64::from(two.d[other]),
                        xx: f64::from(one.d[row]) + 2.0 * f64::from(one.homozygotes[row]),
                        yy: f64::from(two.d[other]) + 2.0 * f64::from(two.homozygotes[other]),
                        xy,
                    },
                    false => TwoDosages {
                        individuals: count(6) / 2.0,
                        x: count(2),
                        y: count(3),
                        xx: count(2) + count(4),
                        yy: count(3) + count(5),
                        xy,
                    },
                };
                if let Some(r2) = dosages.r2() {
                    self.sum.defined += 1;
                    self.sum.sum.add(r2);
                }
            }
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
            let sites = in_order(group.iter(copies));
            let mut tiles = Genotypes {
                records: &sites,
                level,
                first: Block::new(copies.first),
                second: Block::new(copies.first),
                counts: std::array::from_fn(|_| no_counts()),
                sum: R2Sum::default(),
            };
            sweep(&vec![0.0; sites.len()], &ALL_PAIRS, &mut tiles)?;
            values.push(tiles.sum.mean());
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
        .build()
    }
}
