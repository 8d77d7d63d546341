//! `grm(call_genotype [, population])`: genomic relationship matrices.

use std::mem::take;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, ListArray, StructArray};
use arrow::buffer::{BooleanBuffer, NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::Result;
use datafusion::logical_expr::{Accumulator, Documentation};

use super::accumulator::StatisticAccumulator;
use super::count_errors::counted;
use super::pair_names::pair_names;
use super::pair_state::{Group, PairValue, PairsOf, check_pairs};
use super::planes_udaf::{PlanesDefinition, Population, document_genotypes};
use super::sample_pairs::size_of_pair;
use crate::counts::Workers;
use crate::counts::pairs::{Forms, Relationship, pairs_of};
use crate::functions::interrupt;

/// `grm`.
#[derive(Debug)]
pub(crate) struct Grm;

/// The matrices of these individuals.
#[derive(Debug)]
pub(crate) struct Relationships {
    ids: Vec<String>,
}

const NAME: &str = "grm";

fn fields() -> Fields {
    vec![
        Field::new("sample1", DataType::Utf8, false),
        Field::new("sample2", DataType::Utf8, false),
        Field::new("gcta", DataType::Float64, true),
        Field::new("vanraden", DataType::Float64, true),
        Field::new("sites", DataType::Int64, false),
    ]
    .into()
}

fn item() -> Field {
    Field::new_list_field(DataType::Struct(fields()), false)
}

/// The columns of one group's pairs, or of those of some rows of the triangle.
struct Columns<'a> {
    gcta: &'a mut [f64],
    vanraden: &'a mut [f64],
    sites: &'a mut [i64],
}

/// Rows of the triangle that a thread fills at a time.
const ROWS: usize = 64;

impl Columns<'_> {
    /// Sets the values of all pairs.
    fn fill(self, group: &Relationship, samples: usize) -> Result<()> {
        let Self {
            mut gcta,
            mut vanraden,
            mut sites,
        } = self;
        let mut parts = vec![];
        for first in (0..samples).step_by(ROWS) {
            let rows = first..samples.min(first + ROWS);
            let pairs = rows.clone().map(|row| row + 1).sum();
            let (part, rest) = take(&mut gcta).split_at_mut(pairs);
            let (of_vanraden, rest_of_vanraden) = take(&mut vanraden).split_at_mut(pairs);
            let (of_sites, rest_of_sites) = take(&mut sites).split_at_mut(pairs);
            (gcta, vanraden, sites) = (rest, rest_of_vanraden, rest_of_sites);
            let part = Columns {
                gcta: part,
                vanraden: of_vanraden,
                sites: of_sites,
            };
            parts.push((rows, part));
        }
        let fill = |workers: &Workers<'_>| {
            workers.each(parts, |(rows, part)| {
                let numbers = part.gcta.iter_mut().zip(part.vanraden).zip(part.sites);
                let pairs = rows.flat_map(|i| (0..=i).map(move |j| (i, j)));
                for (((gcta, vanraden), sites), (i, j)) in numbers.zip(pairs) {
                    if let Some(pair) = group.grm(j, i) {
                        (*gcta, *vanraden, *sites) = (pair.gcta, pair.vanraden, pair.sites);
                    }
                }
                Ok(())
            })
        };
        counted(NAME, interrupt::with_workers(fill))
    }
}

impl Relationships {
    fn pairs(&self) -> usize {
        pairs_of(self.ids.len()).saturating_add(self.ids.len())
    }
}

impl PairValue for Relationships {
    const NAME: &'static str = NAME;
    type Matrix = Relationship;

    fn column<'a>(
        &self,
        groups: impl ExactSizeIterator<Item = Group<'a, Relationship>>,
    ) -> Result<ArrayRef> {
        let (number, samples) = (groups.len(), self.ids.len());
        let total = self.pairs().saturating_mul(number);
        let (mut gcta, mut vanraden) = (vec![0.0; total], vec![0.0; total]);
        let mut sites = vec![0; total];
        for (at, group) in groups.enumerate() {
            let pairs = at * self.pairs()..(at + 1) * self.pairs();
            let columns = Columns {
                gcta: gcta.get_mut(pairs.clone()).unwrap_or_default(),
                vanraden: vanraden.get_mut(pairs.clone()).unwrap_or_default(),
                sites: sites.get_mut(pairs).unwrap_or_default(),
            };
            columns.fill(group?.as_ref(), samples)?;
        }
        // A pair has values where it has sites.
        let defined = BooleanBuffer::collect_bool(total, |at| sites[at] > 0);
        let defined = NullBuffer::new(defined);
        let numbers = |numbers: Vec<f64>| Float64Array::new(numbers.into(), Some(defined.clone()));
        let runs = (0..number).flat_map(|_| (0..samples).map(|i| (i, 0..i + 1)));
        let [sample1, sample2] = pair_names(NAME, &self.ids, runs.collect())?;
        let columns: Vec<ArrayRef> = vec![
            sample1,
            sample2,
            Arc::new(numbers(gcta)),
            Arc::new(numbers(vanraden)),
            Arc::new(Int64Array::from(sites)),
        ];
        let structs = StructArray::try_new_with_length(fields(), columns, None, total)?;
        Ok(Arc::new(ListArray::try_new(
            Arc::new(item()),
            OffsetBuffer::from_repeated_length(self.pairs(), number),
            Arc::new(structs),
            None,
        )?))
    }

    fn check_groups(&self, groups: usize) -> Result<()> {
        check_pairs(NAME, "samples", self.ids.len(), groups, None)
    }

    fn size(&self) -> usize {
        self.pairs().saturating_mul(size_of_pair(&self.ids, 4))
    }
}

impl PlanesDefinition for Grm {
    type Statistic = PairsOf<Relationships>;
    const NAME: &'static str = NAME;
    const NAMES_SAMPLES: bool = true;

    fn return_type() -> DataType {
        DataType::List(Arc::new(item()))
    }

    fn statistic(population: &Population) -> Result<Self::Statistic> {
        let (shape, ids) = population.individuals(NAME)?;
        check_pairs(NAME, "samples", ids.len(), 1, None)?;
        Ok(PairsOf::new(shape, Forms::Grm, Relationships { ids }))
    }

    fn sliding(statistic: Self::Statistic) -> Box<dyn Accumulator> {
        Box::new(StatisticAccumulator::new(statistic.keeping_rows()))
    }

    fn documentation() -> Documentation {
        document_genotypes(
            "Genomic relationship matrices of a population: a list of structs (sample1, sample2, gcta, vanraden, sites), for UNNEST, the \
             lower triangle by rows with the diagonal. With x the number of copies other than the reference of a complete diploid and p \
             their frequency among the complete diploids of the population, over the sites variants with 0 < p < 1 at which both are \
             complete diploids: gcta is the mean of (x1 - 2p)(x2 - 2p) / (2p(1 - p)) (Yang et al. 2011; the diagonal, too, by this \
             formula), and vanraden is the sum of (x1 - 2p)(x2 - 2p) over the sum of 2p(1 - p) (VanRaden 2008, method 1). NULL without \
             such a variant. Exact to 1e-9. plink2 --make-rel divides by all variants, also those with p = 0 or 1. At most 2^26 pairs in \
             all groups.",
            "grm(call_genotype [, population])",
            "SELECT unnest(unnest(grm(call_genotype, 'YRI'))) FROM chr22;",
        )
        .with_related_udf("pca")
        .with_related_udf("sample_pairs")
        .build()
    }
}
