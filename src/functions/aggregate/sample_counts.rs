//! `sample_counts(call_genotype [, population])`: for every individual the number of genotypes of each class, of singletons and of private
//! sites, and its inbreeding coefficient.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array, ListArray, StringArray,
    StructArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Decimal128Type, Field, Fields, Int64Type, UInt64Type};
use datafusion::common::{Result, exec_err, internal_err};
use datafusion::logical_expr::Documentation;

use super::pair_feed::PairFeed;
use super::planes_rows::{Lists, PlanesRows, list_type, lists, planes_row};
use super::planes_udaf::{PlanesDefinition, Population, document_genotypes};
use super::sample_feed::SampleFeed;
use super::sample_state::{FIELDS, Individuals, SampleRow, SampleState};
use super::statistic::{GroupState, SiteInput, Statistic, column};
use crate::counts::pairs::{PairDevice, SAMPLE_COUNTS, Shape};
use crate::counts::{Job, Lanes, Level};
use crate::functions::numeric::FixedSum;

/// `sample_counts`.
#[derive(Debug)]
pub(crate) struct SampleCounts;

const NAME: &str = "sample_counts";
/// The integers of the result's struct.
const COUNTS: [&str; 7] = [
    "hom_ref",
    "het",
    "hom_alt",
    "haploid",
    "missing",
    "singletons",
    "private_sites",
];
/// Sums of H_e in saved states.
const SUM: DataType = DataType::Decimal128(38, 0);

fn fields() -> Fields {
    let counts = COUNTS.map(|name| Field::new(name, DataType::Int64, false));
    std::iter::once(Field::new("sample", DataType::Utf8, false))
        .chain(counts)
        .chain([
            Field::new("expected_het", DataType::Float64, false),
            Field::new("inbreeding", DataType::Float64, true),
        ])
        .collect()
}

fn item() -> Field {
    Field::new_list_field(DataType::Struct(fields()), false)
}

/// The statistic behind `sample_counts`.
#[derive(Debug)]
pub(crate) struct CountedSamples {
    individuals: Individuals,
    ids: Vec<String>,
    level: Level,
    /// Sends rows to the device that counts genotypes, for the only state.
    feed: Option<Arc<SampleFeed>>,
}

/// Adds rows to a state, or removes them, with the host's best instruction set.
struct AddRows<'a, 'r, I> {
    individuals: Individuals,
    state: &'a mut SampleState,
    input: &'a PlanesRows<'r>,
    rows: I,
    sign: i64,
}

impl<I: Iterator<Item = usize>> Job for AddRows<'_, '_, I> {
    type Output = Result<()>;

    #[inline(always)]
    fn run<L: Lanes>(self, _lanes: L) -> Result<()> {
        let copies = self.individuals.copies();
        for row in self.rows {
            let row = planes_row(NAME, self.input.row(row), copies)?;
            self.individuals.add(self.state, row, self.sign);
        }
        Ok(())
    }
}

/// Saved states, viewed.
pub(crate) struct SavedSamples<'a> {
    rows: &'a Int64Array,
    expected: &'a Decimal128Array,
    counts: Lists<'a, Int64Type>,
    corrections: Lists<'a, Decimal128Type>,
    /// A single row's bit-planes that are not yet added to a state, or an empty list.
    planes: PlanesRows<'a>,
}

impl GroupState for SampleState {
    fn heap_size(&self) -> usize {
        self.heap_bytes()
    }
}

impl CountedSamples {
    fn run(
        &self,
        state: &mut SampleState,
        input: &PlanesRows<'_>,
        rows: impl Iterator<Item = usize>,
        sign: i64,
    ) -> Result<()> {
        self.level.run(AddRows {
            individuals: self.individuals,
            state,
            input,
            rows,
            sign,
        })
    }
}

impl Statistic for CountedSamples {
    type State = SampleState;
    type Input<'a> = PlanesRows<'a>;
    type Saved<'a> = SavedSamples<'a>;
    const ON_DEVICE: bool = true;

    fn use_device(&mut self, device: &Arc<dyn PairDevice>) -> Option<Arc<dyn PairFeed>> {
        if self.individuals.ploidy != 2 {
            return None;
        }
        let feed = Arc::new(SampleFeed::new(NAME, self.individuals.samples, device));
        self.feed = Some(Arc::clone(&feed));
        Some(feed)
    }

    fn finish(&self, state: &mut SampleState) -> Result<()> {
        if let Some(feed) = &self.feed
            && let Some(counted) = feed.take()?
        {
            self.individuals.add_counted(state, &counted);
        }
        Ok(())
    }

    fn state_columns() -> Vec<(String, DataType)> {
        [
            ("rows", DataType::Int64),
            ("expected", SUM),
            ("counts", list_type(DataType::Int64)),
            ("corrections", list_type(SUM)),
            ("planes", list_type(DataType::UInt64)),
        ]
        .map(|(name, data_type)| (name.to_string(), data_type))
        .to_vec()
    }

    fn input(values: &[ArrayRef]) -> Result<PlanesRows<'_>> {
        Lists::try_new(values, 0)
    }

    fn add(
        &self,
        state: &mut SampleState,
        input: &PlanesRows<'_>,
        rows: impl Iterator<Item = usize>,
    ) -> Result<()> {
        self.run(state, input, rows, 1)
    }

    fn add_run(
        &self,
        state: &mut SampleState,
        input: &PlanesRows<'_>,
        rows: Range<usize>,
    ) -> Result<()> {
        self.run(state, input, rows, 1)
    }

    fn remove(
        &self,
        state: &mut SampleState,
        input: &PlanesRows<'_>,
        rows: impl Iterator<Item = usize>,
    ) -> Result<()> {
        self.run(state, input, rows, -1)
    }

    fn saved(states: &[ArrayRef]) -> Result<SavedSamples<'_>> {
        let rows = column(states, 0)?.as_primitive_opt();
        let expected = column(states, 1)?.as_primitive_opt();
        let (Some(rows), Some(expected)) = (rows, expected) else {
            return internal_err!("{NAME}: a saved state must begin with rows and a sum");
        };
        Ok(SavedSamples {
            rows,
            expected,
            counts: Lists::try_new(states, 2)?,
            corrections: Lists::try_new(states, 3)?,
            planes: Lists::try_new(states, 4)?,
        })
    }

    fn merge(&self, state: &mut SampleState, saved: &SavedSamples<'_>, row: usize) -> Result<()> {
        let (counts, corrections) = (saved.counts.row(row), saved.corrections.row(row));
        let samples = self.individuals.samples;
        let fits = |found: usize, expected: usize| found == 0 || found == expected;
        if !fits(counts.len(), samples.saturating_mul(FIELDS)) || !fits(corrections.len(), samples)
        {
            return internal_err!("{NAME}: a saved state is not of {samples} samples");
        }
        if saved.rows.is_valid(row) && saved.expected.is_valid(row) {
            let expected = FixedSum::from_state(saved.expected.value(row));
            state.merge(saved.rows.value(row), expected, counts, corrections);
        }
        if saved.planes.row(row).is_empty() {
            return Ok(());
        }
        self.run(state, &saved.planes, std::iter::once(row), 1)
    }

    fn save(&self, states: &[SampleState]) -> Result<Vec<ArrayRef>> {
        let rows: Int64Array = states.iter().map(|state| Some(state.rows)).collect();
        let expected: Decimal128Array = states
            .iter()
            .map(|state| Some(state.expected.state()))
            .collect();
        let counts = states.iter().map(|state| self.individuals.counts(state));
        let corrections = states.iter().map(|state| state.corrections.clone());
        Ok(vec![
            Arc::new(rows),
            Arc::new(expected.with_precision_and_scale(38, 0)?),
            lists::<Int64Type>(DataType::Int64, counts)?,
            lists::<Decimal128Type>(SUM, corrections)?,
            lists::<UInt64Type>(DataType::UInt64, states.iter().map(|_| vec![]))?,
        ])
    }

    /// Saves the rows' bit-planes, which are much smaller than the states of single rows.
    fn save_rows(
        &self,
        input: &PlanesRows<'_>,
        kept: impl Fn(usize) -> bool,
    ) -> Result<Vec<ArrayRef>> {
        let rows = input.len();
        let zeros = Decimal128Array::from(vec![0; rows]).with_precision_and_scale(38, 0)?;
        let planes = (0..rows).map(|row| match kept(row) {
            true => input.row(row).to_vec(),
            false => vec![],
        });
        Ok(vec![
            Arc::new(Int64Array::from(vec![0; rows])),
            Arc::new(zeros),
            lists::<Int64Type>(DataType::Int64, (0..rows).map(|_| vec![]))?,
            lists::<Decimal128Type>(SUM, (0..rows).map(|_| vec![]))?,
            lists::<UInt64Type>(DataType::UInt64, planes)?,
        ])
    }

    fn evaluate(&mut self, states: &[SampleState]) -> Result<ArrayRef> {
        let total = states.len().saturating_mul(self.ids.len());
        if i32::try_from(total).is_err() {
            return exec_err!(
                "{NAME}: {} groups of {} samples overflow one batch; lower datafusion.execution.batch_size",
                states.len(),
                self.ids.len()
            );
        }
        let mut rows: Vec<SampleRow> = Vec::with_capacity(total);
        for state in states {
            rows.extend(self.individuals.rows(state));
        }
        let names: Vec<&str> = states
            .iter()
            .flat_map(|_| &self.ids)
            .map(String::as_str)
            .collect();
        let mut columns: Vec<ArrayRef> = vec![Arc::new(StringArray::from(names))];
        for at in 0..COUNTS.len() {
            let counts = rows.iter().map(|row| row.counts.get(at).copied());
            columns.push(Arc::new(counts.collect::<Int64Array>()));
        }
        let expected = rows.iter().map(|row| Some(row.expected));
        columns.push(Arc::new(expected.collect::<Float64Array>()));
        let inbreeding = rows.iter().map(|row| row.inbreeding);
        columns.push(Arc::new(inbreeding.collect::<Float64Array>()));
        let structs = StructArray::try_new_with_length(fields(), columns, None, total)?;
        Ok(Arc::new(ListArray::try_new(
            Arc::new(item()),
            OffsetBuffer::from_repeated_length(self.ids.len(), states.len()),
            Arc::new(structs),
            None,
        )?))
    }

    /// Bytes of what a device has counted, and of the state that it is added to.
    fn heap_size(&self) -> usize {
        let of_sample = FIELDS * size_of::<i64>() + SAMPLE_COUNTS * size_of::<u32>();
        // Rows are counted by the number of copies, too.
        let of_sample = of_sample + self.individuals.ploidy * size_of::<u64>();
        match &self.feed {
            Some(_) => self.individuals.samples.saturating_mul(of_sample),
            None => 0,
        }
    }

    fn value_size(&self) -> usize {
        let numbers = (COUNTS.len() + 2) * size_of::<i64>() + size_of::<i32>();
        let ids = self.ids.iter().map(String::len).sum::<usize>();
        ids.saturating_add(self.ids.len().saturating_mul(numbers))
    }
}

impl PlanesDefinition for SampleCounts {
    type Statistic = CountedSamples;
    const NAME: &'static str = NAME;
    const NAMES_SAMPLES: bool = true;

    fn return_type() -> DataType {
        DataType::List(Arc::new(item()))
    }

    fn statistic(population: &Population) -> Result<CountedSamples> {
        let (Shape { samples, ploidy }, ids) = population.individuals(NAME)?;
        let individuals = Individuals { samples, ploidy };
        Ok(CountedSamples {
            individuals,
            ids,
            level: Level::detect(),
            feed: None,
        })
    }

    fn documentation() -> Documentation {
        document_genotypes(
            "Counts the genotypes of every individual of a population, in store order: a list of structs (sample, hom_ref, het, \
             hom_alt, haploid, missing, singletons, private_sites, expected_het, inbreeding), for UNNEST. The classes are those of \
             genotype_counts. Singletons are alleles other than the reference of which the population has one copy, which this \
             individual carries; private sites those at which it is the only one to carry any. expected_het is the sum, over sites \
             where it is a complete diploid, of the population's expected heterozygosity (Nei 1978), and inbreeding is 1 - \
             heterozygous complete diploid calls / expected_het (NULL where that is 0), the F of plink2 --het small-sample. The \
             singletons of bcftools stats and plink2 --sample-counts are private_sites here.",
            "sample_counts(call_genotype [, population])",
            "SELECT unnest(sample_counts(call_genotype, 'YRI')) FROM chr22;",
        )
        .with_related_udf("genotype_counts")
        .build()
    }
}

#[cfg(test)]
#[path = "sample_device_tests.rs"]
mod device_tests;
