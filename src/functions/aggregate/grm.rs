//! `grm(call_genotype [, population])`: genomic relationship matrices.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{ArrayRef, Float64Array, Int64Array, ListArray, StructArray};
use arrow::buffer::{BooleanBuffer, NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::Result;
use datafusion::logical_expr::{Accumulator, Documentation};

use super::accumulator::StatisticAccumulator;
use super::count_errors::counted;
use super::pair_limit::check_pairs;
use super::pair_names::PairNames;
use super::pair_state::{Group, PairValue, PairsOf};
use super::planes_udaf::{PlanesDefinition, Population, document_genotypes};
use super::sample_pairs::size_of_pair;
use crate::counts::pairs::{Forms, GrmPair, GrmRows, Relationship, pairs_of};
use crate::counts::{Setter, Unset, Workers};
use crate::functions::interrupt;

/// `grm`.
#[derive(Debug)]
pub(crate) struct Grm;

/// The matrices of these individuals.
#[derive(Debug)]
pub(crate) struct Relationships {
    names: PairNames,
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
const ROWS: usize = 32;

/// Columns of the triangle of which a thread reads some rows at a time: the sums of a column are next to each other.
const COLUMNS: usize = 32;

/// A row of the triangle: the values of its pairs.
struct Row<'a> {
    gcta: Setter<'a, f64>,
    vanraden: Setter<'a, f64>,
    sites: Setter<'a, i64>,
}

/// The values of some columns of a row.
#[derive(Clone, Copy)]
struct Tile {
    gcta: [f64; COLUMNS],
    vanraden: [f64; COLUMNS],
    sites: [i64; COLUMNS],
}

/// Sets the values of the pairs of some rows, of which `first` is the first; returns whether all are defined.
fn fill(first: usize, mut rows: Vec<Row<'_>>, group: &GrmRows<'_>) -> bool {
    let end = first + rows.len();
    let mut tiles = vec![
        Tile {
            gcta: [0.0; COLUMNS],
            vanraden: [0.0; COLUMNS],
            sites: [0; COLUMNS],
        };
        rows.len()
    ];
    let mut are_defined = true;
    for begin in (0..end).step_by(COLUMNS) {
        for j in begin..end.min(begin + COLUMNS) {
            let at = j - begin;
            let row = group.row(j);
            for i in first.max(j)..end {
                let pair = row.pair(i - j);
                are_defined &= pair.is_some();
                let pair = pair.unwrap_or(GrmPair {
                    gcta: 0.0,
                    vanraden: 0.0,
                    sites: 0,
                });
                let tile = &mut tiles[i - first];
                tile.gcta[at] = pair.gcta;
                tile.vanraden[at] = pair.vanraden;
                tile.sites[at] = pair.sites;
            }
        }
        for ((i, row), tile) in (first..).zip(&mut rows).zip(&tiles) {
            let columns = 0..(i + 1).saturating_sub(begin).min(COLUMNS);
            row.gcta.extend_from_slice(&tile.gcta[columns.clone()]);
            row.vanraden
                .extend_from_slice(&tile.vanraden[columns.clone()]);
            row.sites.extend_from_slice(&tile.sites[columns]);
        }
    }
    are_defined
}

impl Relationships {
    fn samples(&self) -> usize {
        self.names.ids().len()
    }

    fn pairs(&self) -> usize {
        pairs_of(self.samples()).saturating_add(self.samples())
    }
}

impl PairValue for Relationships {
    const NAME: &'static str = NAME;
    type Matrix = Relationship;

    fn column<'a>(
        &self,
        groups: impl ExactSizeIterator<Item = Group<'a, Self>>,
    ) -> Result<ArrayRef> {
        let (number, samples) = (groups.len(), self.samples());
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
        let are_defined = AtomicBool::new(true);
        for group in groups {
            let group = group.counts()?;
            let group = GrmRows::new(&group);
            let rows = columns.by_ref().take(samples);
            let mut rows = rows.map(|((gcta, vanraden), sites)| Row {
                gcta,
                vanraden,
                sites,
            });
            let jobs = (0..samples).step_by(ROWS);
            let jobs = jobs.map(|first| (first, rows.by_ref().take(ROWS).collect::<Vec<_>>()));
            let jobs: Vec<_> = jobs.collect();
            let set = |workers: &Workers<'_>| {
                // The longest rows first, so that threads end at about the same time.
                workers.each(jobs.into_iter().rev(), |(first, rows)| {
                    if !fill(first, rows, &group) {
                        are_defined.store(false, Ordering::Relaxed);
                    }
                    Ok(())
                })
            };
            counted(NAME, interrupt::with_workers(set))?;
        }
        drop(columns);
        let (gcta, vanraden, sites) = (gcta.finish(), vanraden.finish(), sites.finish());
        let defined = (!are_defined.into_inner()).then(|| {
            // A pair has values where it has sites.
            NullBuffer::new(BooleanBuffer::collect_bool(total, |at| sites[at] > 0))
        });
        let numbers = |numbers: Vec<f64>| Float64Array::new(numbers.into(), defined.clone());
        let [sample1, sample2] = self.names.columns(number)?;
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

    fn make_ahead(&self, workers: &Workers<'_>) -> Result<()> {
        self.names.make_ahead(workers)
    }

    fn check_groups(&self, groups: usize) -> Result<()> {
        check_pairs(NAME, "samples", self.samples(), groups, None)
    }

    fn size(&self) -> usize {
        self.pairs()
            .saturating_mul(size_of_pair(self.names.ids(), 4))
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
        let names = PairNames::new(NAME, ids, |first, _| 0..first + 1);
        Ok(PairsOf::new(shape, Forms::Grm, Relationships { names }))
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
