//! `haplotype_pairs(call_genotype [, population])`: for every pair of copies the variants at which they differ.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, ListArray, StructArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::Result;
use datafusion::logical_expr::{Accumulator, Documentation};

use super::accumulator::StatisticAccumulator;
use super::pair_limit::check_pairs;
use super::pair_state::{Group, PairValue, PairsOf};
use super::planes_udaf::{PlanesDefinition, Population, document_genotypes};
use super::sample_pairs::each_pair;
use crate::counts::pairs::{HaplotypePairs, Shape, pairs_of};

/// `haplotype_pairs`.
#[derive(Debug)]
pub(crate) struct HaplotypePairsAggregate;

/// The pairs of so many copies.
#[derive(Debug)]
pub(crate) struct PairsOfCopies {
    copies: usize,
}

const NAME: &str = "haplotype_pairs";
const FIELDS: [&str; 4] = ["copy1", "copy2", "sites", "differences"];

fn fields() -> Fields {
    let fields = FIELDS.map(|name| Field::new(name, DataType::Int64, false));
    fields.to_vec().into()
}

fn item() -> Field {
    Field::new_list_field(DataType::Struct(fields()), false)
}

impl PairValue for PairsOfCopies {
    const NAME: &'static str = NAME;
    type Matrix = HaplotypePairs;

    fn column<'a>(
        &self,
        groups: impl ExactSizeIterator<Item = Group<'a, Self>>,
    ) -> Result<ArrayRef> {
        let number = groups.len();
        let pairs = pairs_of(self.copies);
        let total = pairs.saturating_mul(number);
        let mut columns: [Vec<i64>; FIELDS.len()] = Default::default();
        columns
            .iter_mut()
            .for_each(|column| column.reserve_exact(total));
        for group in groups {
            let group = group.counts()?;
            for (i, j) in each_pair(self.copies) {
                // There are fewer than 2^63 copies and sites.
                let (sites, differences) = group.pair(i, j);
                let row = [i as i64, j as i64, sites as i64, differences as i64];
                for (column, number) in columns.iter_mut().zip(row) {
                    column.push(number);
                }
            }
        }
        let columns = columns.map(|column| Arc::new(Int64Array::from(column)) as ArrayRef);
        let structs = StructArray::try_new_with_length(fields(), columns.to_vec(), None, total)?;
        Ok(Arc::new(ListArray::try_new(
            Arc::new(item()),
            OffsetBuffer::from_repeated_length(pairs, number),
            Arc::new(structs),
            None,
        )?))
    }

    fn check_groups(&self, groups: usize) -> Result<()> {
        check_pairs(NAME, "copies", self.copies, groups, None)
    }

    fn size(&self) -> usize {
        pairs_of(self.copies).saturating_mul(FIELDS.len() * size_of::<i64>())
    }
}

impl PlanesDefinition for HaplotypePairsAggregate {
    type Statistic = PairsOf<PairsOfCopies>;
    const NAME: &'static str = NAME;

    fn return_type() -> DataType {
        DataType::List(Arc::new(item()))
    }

    fn statistic(population: &Population) -> Result<Self::Statistic> {
        let copies = population.copies;
        check_pairs(NAME, "copies", copies, 1, None)?;
        // Every copy by itself.
        let shape = Shape {
            samples: copies,
            ploidy: 1,
        };
        Ok(PairsOf::new(shape, (), PairsOfCopies { copies }))
    }

    fn sliding(statistic: Self::Statistic) -> Box<dyn Accumulator> {
        Box::new(StatisticAccumulator::new(statistic.keeping_rows()))
    }

    fn documentation() -> Documentation {
        document_genotypes(
            "Compares every pair of copies of a population: a list of structs (copy1, copy2, sites, differences), for UNNEST, with \
             copy1 < copy2. A copy's number is the individual's place in the population, from 0, times the ploidy, plus its place in \
             the call. sites counts the variants at which both are called, and differences those at which they have different alleles. \
             At most 2^26 pairs in all groups.",
            "haplotype_pairs(call_genotype [, population])",
            "SELECT avg(1.0 * p['differences']) FROM (SELECT unnest(haplotype_pairs(call_genotype, 'YRI')) AS p FROM chr22);",
        )
        .with_related_udf("sample_pairs")
        .with_related_udf("garud_h")
        .build()
    }
}
