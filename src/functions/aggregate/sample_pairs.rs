//! `sample_pairs(call_genotype [, population])`: for every pair of individuals identity by state, the counts of KING, and distance.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, ListArray, StructArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::Result;
use datafusion::logical_expr::{Accumulator, Documentation};

use super::accumulator::StatisticAccumulator;
use super::count_errors::counted;
use super::pair_limit::check_pairs;
use super::pair_names::PairNames;
use super::pair_state::{Group, PairValue, PairsOf};
use super::planes_udaf::{PlanesDefinition, Population, document_genotypes};
use crate::counts::Workers;
use crate::counts::pairs::{IndividualPair, IndividualPairs, pairs_of};
use crate::functions::interrupt;

/// `sample_pairs`.
#[derive(Debug)]
pub(crate) struct SamplePairs;

/// The pairs of these individuals.
#[derive(Debug)]
pub(crate) struct PairsOfSamples {
    names: PairNames,
}

const NAME: &str = "sample_pairs";
/// What has no limit of pairs.
const STREAMS: &str = "vcz_sample_pairs('table' [, population [, min_kinship]]), which streams";
/// A field of a pair: its name, and its value.
type Count = (&'static str, fn(&IndividualPair) -> i64);
/// The whole numbers of a pair.
const COUNTS: [Count; 9] = [
    ("sites", |pair| pair.sites),
    ("ibs0", |pair| pair.ibs[0]),
    ("ibs1", |pair| pair.ibs[1]),
    ("ibs2", |pair| pair.ibs[2]),
    ("het_het", |pair| pair.het_het),
    ("opposite", |pair| pair.opposite),
    ("het1", |pair| pair.het[0]),
    ("het2", |pair| pair.het[1]),
    ("distance_sites", |pair| pair.distance_sites),
];

fn fields() -> Fields {
    let field = |name, data_type| Field::new(name, data_type, false);
    let samples = ["sample1", "sample2"].map(|name| field(name, DataType::Utf8));
    let counts = COUNTS.map(|(name, _)| field(name, DataType::Int64));
    samples
        .into_iter()
        .chain(counts)
        .chain([field("distance", DataType::Float64)])
        .collect()
}

fn item() -> Field {
    Field::new_list_field(DataType::Struct(fields()), false)
}

/// Appends the numbers of a group to those of the groups before it, of which there will be `total`; those of the only group are not copied.
fn append<T: Copy>(to: &mut Vec<T>, of_group: Vec<T>, total: usize) {
    if of_group.len() == total {
        *to = of_group;
    } else {
        to.reserve_exact(total - to.len());
        to.extend_from_slice(&of_group);
    }
}

/// Pairs i < j.
pub(super) fn each_pair(units: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..units).flat_map(move |i| (i + 1..units).map(move |j| (i, j)))
}

impl PairValue for PairsOfSamples {
    const NAME: &'static str = NAME;
    type Matrix = IndividualPairs;

    fn column<'a>(
        &self,
        groups: impl ExactSizeIterator<Item = Group<'a, Self>>,
    ) -> Result<ArrayRef> {
        let number = groups.len();
        let pairs = pairs_of(self.names.ids().len());
        let total = pairs.saturating_mul(number);
        let (mut counts, mut distances) = (vec![vec![]; COUNTS.len()], vec![]);
        for group in groups {
            let group = group.counts()?;
            let of_pair = |pair: &IndividualPair| COUNTS.map(|(_, count)| count(pair));
            // A pair takes some ten nanoseconds.
            let read = interrupt::long(pairs.saturating_mul(16), || {
                interrupt::with_workers(|workers| group.read_pairs(workers, of_pair))
            });
            let (of_group, distances_of_group) = counted(NAME, read)?;
            for (counts, of_group) in counts.iter_mut().zip(of_group) {
                append(counts, of_group, total);
            }
            append(&mut distances, distances_of_group, total);
        }
        let mut columns = self.names.columns(number)?.to_vec();
        let counts = counts.into_iter();
        columns.extend(counts.map(|counts| Arc::new(Int64Array::from(counts)) as ArrayRef));
        columns.push(Arc::new(Float64Array::from(distances)));
        let structs = StructArray::try_new_with_length(fields(), columns, None, total)?;
        Ok(Arc::new(ListArray::try_new(
            Arc::new(item()),
            OffsetBuffer::from_repeated_length(pairs, number),
            Arc::new(structs),
            None,
        )?))
    }

    fn make_ahead(&self, workers: &Workers<'_>) -> Result<()> {
        self.names.make_ahead(workers)
    }

    fn check_groups(&self, groups: usize) -> Result<()> {
        let samples = self.names.ids().len();
        check_pairs(NAME, "samples", samples, groups, Some(STREAMS))
    }

    fn size(&self) -> usize {
        let ids = self.names.ids();
        pairs_of(ids.len()).saturating_mul(size_of_pair(ids, COUNTS.len() + 1))
    }
}

/// Bytes of a pair with two ids and so many numbers.
pub(super) fn size_of_pair(ids: &[String], numbers: usize) -> usize {
    let longest = ids.iter().map(String::len).max().unwrap_or(0);
    2 * (longest + size_of::<i32>()) + numbers * size_of::<i64>()
}

impl PlanesDefinition for SamplePairs {
    type Statistic = PairsOf<PairsOfSamples>;
    const NAME: &'static str = NAME;
    const NAMES_SAMPLES: bool = true;

    fn return_type() -> DataType {
        DataType::List(Arc::new(item()))
    }

    fn statistic(population: &Population) -> Result<Self::Statistic> {
        let (shape, ids) = population.individuals(NAME)?;
        check_pairs(NAME, "samples", ids.len(), 1, Some(STREAMS))?;
        let names = PairNames::new(NAME, ids, |first, samples| first + 1..samples);
        Ok(PairsOf::new(shape, (), PairsOfSamples { names }))
    }

    fn sliding(statistic: Self::Statistic) -> Box<dyn Accumulator> {
        Box::new(StatisticAccumulator::new(statistic.keeping_rows()))
    }

    fn documentation() -> Documentation {
        document_genotypes(
            "Compares every pair of individuals of a population: a list of structs (sample1, sample2, sites, ibs0, ibs1, ibs2, \
             het_het, opposite, het1, het2, distance_sites, distance), for UNNEST, with sample1 before sample2 in store order. sites \
             counts the variants at which both are complete diploids; ibs0, ibs1 and ibs2 those of them at which the genotypes share 0, \
             1 and 2 alleles; het_het, opposite, het1 and het2, with all alleles other than the reference pooled, those at which both \
             are heterozygous, they are homozygous for different alleles, the first is heterozygous, and the second. distance is the \
             sum over the distance_sites variants at which both have a called copy of the probability that a copy of the one differs \
             from a copy of the other. The identity by state of plink (DST) is (ibs2 + ibs1 / 2) / sites, and kinship_king gives the \
             kinship of KING. At most 2^26 pairs in all groups; the table function vcz_sample_pairs has no such limit.",
            "sample_pairs(call_genotype [, population])",
            "SELECT p['sample1'], p['sample2'], kinship_king(p['het_het'], p['opposite'], p['het1'], p['het2']) AS kinship FROM \
             (SELECT unnest(sample_pairs(call_genotype, 'YRI')) AS p FROM chr22) ORDER BY kinship DESC NULLS LAST LIMIT 20;",
        )
        .with_related_udf("kinship_king")
        .with_related_udf("haplotype_pairs")
        .with_related_udf("grm")
        .build()
    }
}
