//! `grm(call_genotype [, population])`: genomic relationship matrices.

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
use crate::counts::pairs::{Forms, GrmPair, Relationship, pairs_of};
use crate::counts::{Setter, Unset, Workers};
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

/// Rows of the triangle that a thread fills at a time.
const ROWS: usize = 16;

/// Columns of the triangle of which a thread reads some rows at a time: the sums of a column are next to each other, so that it finds those of
/// the next row in its cache.
const COLUMNS: usize = 64;

/// A row of the triangle: the values of its pairs.
struct Row<'a> {
    i: usize,
    gcta: Setter<'a, f64>,
    vanraden: Setter<'a, f64>,
    sites: Setter<'a, i64>,
}

/// Sets the values of the pairs of some rows.
fn fill(mut rows: Vec<Row<'_>>, group: &Relationship) {
    let none = GrmPair {
        gcta: 0.0,
        vanraden: 0.0,
        sites: 0,
    };
    let end = rows.last().map_or(0, |row| row.i + 1);
    for first in (0..end).step_by(COLUMNS) {
        for row in &mut rows {
            for j in first..(first + COLUMNS).min(row.i + 1) {
                let pair = group.grm(j, row.i).unwrap_or(none);
                row.gcta.push(pair.gcta);
                row.vanraden.push(pair.vanraden);
                row.sites.push(pair.sites);
            }
        }
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
        groups: impl ExactSizeIterator<Item = Group<'a, Self>>,
    ) -> Result<ArrayRef> {
        let (number, samples) = (groups.len(), self.ids.len());
        let total = self.pairs().saturating_mul(number);
        let unset = |what| counted(NAME, Unset::try_new(total, what));
        let (mut gcta, mut vanraden) = (unset("relationships")?, unset("relationships")?);
        let mut sites = counted(NAME, Unset::try_new(total, "sites of pairs"))?;
        // Rows of the triangle of each group.
        let lens = || (0..number).flat_map(|_| 1..=samples);
        let columns = gcta
            .setters(lens())
            .into_iter()
            .zip(vanraden.setters(lens()));
        let mut columns = columns.zip(sites.setters(lens()));
        for group in groups {
            let group = group.counts()?;
            let rows = (0..samples).zip(columns.by_ref());
            let mut rows = rows.map(|(i, ((gcta, vanraden), sites))| Row {
                i,
                gcta,
                vanraden,
                sites,
            });
            let jobs = (0..samples).step_by(ROWS);
            let jobs: Vec<Vec<_>> = jobs.map(|_| rows.by_ref().take(ROWS).collect()).collect();
            let set = |workers: &Workers<'_>| {
                workers.each(jobs, |rows| {
                    fill(rows, &group);
                    Ok(())
                })
            };
            counted(NAME, interrupt::with_workers(set))?;
        }
        drop(columns);
        let (gcta, vanraden, sites) = (gcta.finish(), vanraden.finish(), sites.finish());
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
