//! `pca(call_genotype [, population], k [, scaling])`: the first principal components of individuals.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{ArrayRef, Float64Array, ListArray, StructArray, new_null_array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{Accumulator, Documentation};

use super::accumulator::StatisticAccumulator;
use super::count_errors::counted;
use super::pair_limit::check_pairs;
use super::pair_names::all_names;
use super::pair_state::{Group, PairValue, PairsOf};
use super::planes_udaf::{PlanesDefinition, Population, document_genotypes};
use crate::counts::gathered::plane_words;
use crate::counts::pairs::{CentredRows, Forms, Relationship, Shape, SiteRows};
use crate::counts::{CountError, Workers};
use crate::functions::interrupt;
use crate::functions::numeric::eigen::largest_eigenpairs;
use crate::functions::numeric::krylov::{MOST_VALUES, bytes_of, largest_of};
use crate::functions::numeric::lines::LowerTriangle;
use crate::functions::numeric::local_relationship::LocalRelationship;

/// `pca`.
#[derive(Debug)]
pub(crate) struct Pca;

/// The first `count` components of these individuals.
#[derive(Debug)]
pub(crate) struct Components {
    ids: Vec<String>,
    shape: Shape,
    count: usize,
    forms: Forms,
}

/// The components of one group.
#[derive(Debug)]
struct Found {
    values: Vec<f64>,
    trace: f64,
    vectors: Vec<Vec<f64>>,
}

const NAME: &str = "pca";
/// Rows of the matrix that a thread fills at a time.
const ROWS: usize = 16;
/// Fewer individuals than that have a small matrix.
const FEWEST_SAMPLES: usize = 128;
/// The most rows of a matrix that is only multiplied by vectors, for each individual.
const MOST_ROWS: usize = 2;
/// Groups that a thread finds the components of before threads that have become free are asked for.
const GROUPS_OF_THREAD: usize = 2;
/// Steps for a word of 64 copies in the products of a few rows with vectors, some dozen times.
const STEPS_OF_WORD: usize = 256;
/// Scaling by 1 / √(2p(1 − p)).
const PATTERSON: &str = "patterson";
/// Centring alone.
const COVARIANCE: &str = "covariance";

fn number() -> FieldRef {
    Arc::new(Field::new_list_field(DataType::Float64, false))
}

fn sample_fields() -> Fields {
    vec![
        Field::new("sample", DataType::Utf8, false),
        Field::new("pc", DataType::List(number()), false),
    ]
    .into()
}

fn sample() -> FieldRef {
    Arc::new(Field::new_list_field(
        DataType::Struct(sample_fields()),
        false,
    ))
}

fn fields() -> Fields {
    vec![
        Field::new("eigenvalues", DataType::List(number()), false),
        Field::new("trace", DataType::Float64, false),
        Field::new("samples", DataType::List(sample()), false),
    ]
    .into()
}

/// Lists of numbers, `len` each.
fn lists(
    numbers: Vec<f64>,
    len: usize,
    count: usize,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    Ok(Arc::new(ListArray::try_new(
        number(),
        OffsetBuffer::from_repeated_length(len, count),
        Arc::new(Float64Array::from(numbers)),
        nulls,
    )?))
}

impl Components {
    /// Whether the components of these rows may be found without their matrix.
    fn may_do_without_matrix(&self, rows: &SiteRows) -> bool {
        let samples = self.ids.len();
        let is_large = rows.len() > MOST_ROWS.saturating_mul(samples);
        samples >= FEWEST_SAMPLES && !is_large && self.count <= MOST_VALUES
    }

    /// The most bytes for the components of a group of few rows without its matrix.
    fn bytes_without_matrix(&self, rows: &SiteRows) -> usize {
        let samples = self.shape.samples;
        let (of_rows, with_dosages) = CentredRows::most(rows, self.shape);
        of_rows
            .saturating_add(LocalRelationship::bytes_of(with_dosages, samples))
            .saturating_add(bytes_of(samples, self.count))
    }

    /// The components of a group of few rows, without its matrix, if they are found so; `None` within if they are not defined.
    fn of_rows(
        &self,
        rows: &SiteRows,
        workers: &Workers<'_>,
    ) -> Result<Option<Option<Found>>, CountError> {
        if !self.may_do_without_matrix(rows) {
            return Ok(None);
        }
        let Some(rows) = CentredRows::try_new(rows, self.shape, self.forms)? else {
            return Ok(None);
        };
        let matrix = match self.forms {
            Forms::Covariance => LocalRelationship::covariance(&rows),
            _ => LocalRelationship::mean(&rows),
        };
        let Some(matrix) = matrix else {
            return Ok(Some(None));
        };
        let Some(pairs) = largest_of(&matrix, self.count, workers)? else {
            return Ok(None);
        };
        let (values, vectors) = pairs.into_iter().unzip();
        Ok(Some(Some(Found {
            values,
            trace: matrix.trace(),
            vectors,
        })))
    }

    /// The components; `None` if the matrix is not defined.
    fn of(&self, group: &Relationship) -> Result<Option<Found>> {
        let samples = self.ids.len();
        if group.rows() == 0 {
            return Ok(None);
        }
        let is_undefined = AtomicBool::new(false);
        let of = |i: usize, j: usize| {
            let covariance = match self.forms {
                Forms::Covariance => group.covariance(j, i),
                _ => Some(group.gcta_over_rows(j, i)),
            };
            covariance.unwrap_or_else(|| {
                is_undefined.store(true, Ordering::Relaxed);
                0.0
            })
        };
        let fill = |workers: &Workers<'_>| {
            LowerTriangle::try_new(samples, ROWS, |rows| {
                workers.each(rows, |rows| {
                    rows.set(of);
                    Ok(())
                })
            })
        };
        let mut matrix = counted(NAME, interrupt::with_workers(fill))?;
        if is_undefined.into_inner() {
            return Ok(None);
        }
        let trace = matrix.trace();
        let mut find = |workers: &Workers<'_>| largest_eigenpairs(&mut matrix, self.count, workers);
        let pairs = interrupt::long(samples.saturating_pow(3), || {
            interrupt::with_workers(&mut find)
        });
        let pairs = counted(NAME, pairs)?;
        let (values, vectors) = pairs.into_iter().unzip();
        Ok(Some(Found {
            values,
            trace,
            vectors,
        }))
    }
}

impl PairValue for Components {
    const NAME: &'static str = NAME;
    type Matrix = Relationship;

    fn column<'a>(
        &self,
        groups: impl ExactSizeIterator<Item = Group<'a, Self>>,
    ) -> Result<ArrayRef> {
        let (number, samples) = (groups.len(), self.ids.len());
        if number == 0 {
            return Ok(new_null_array(&DataType::Struct(fields()), 0));
        }
        let mut valid = Vec::with_capacity(number);
        let (mut values, mut traces, mut components) = (vec![], vec![], vec![]);
        let groups: Vec<_> = groups.collect();
        let mut of_rows: Vec<_> = groups.iter().map(|_| None).collect();
        let few = || {
            let few = groups.iter().filter_map(Group::few_rows);
            few.filter(|rows| self.may_do_without_matrix(rows))
        };
        let words = few().map(|rows| rows.len().saturating_mul(plane_words(self.shape.copies())));
        let words = words.fold(0, usize::saturating_add);
        // Many groups have one thread each, as long as all take no more memory than a matrix, for which there is room.
        let memory = groups.first().map_or(0, Group::matrix_bytes);
        let of_group = few().map(|rows| self.bytes_without_matrix(rows)).max();
        let threads = (memory / of_group.unwrap_or(0).max(1)).max(1);
        let mut left = groups.iter().zip(&mut of_rows);
        let mut find_some = |workers: &Workers<'_>| {
            let some = left.by_ref().take(GROUPS_OF_THREAD * workers.threads());
            let some: Vec<_> = some.collect();
            let alone = workers.at_most(1);
            let is_last = some.is_empty();
            workers.each(some, |(group, found)| {
                if let Some(rows) = group.few_rows() {
                    *found = self.of_rows(rows, &alone)?;
                }
                Ok(())
            })?;
            Ok::<_, CountError>(is_last)
        };
        let find = || {
            // Partitions that have more groups than others get the threads of those in the end.
            while !interrupt::with_some_workers(threads, &mut find_some)? {}
            Ok(())
        };
        let steps = words.saturating_mul(STEPS_OF_WORD);
        counted(NAME, interrupt::long(steps, find))?;
        for (group, of_rows) in groups.into_iter().zip(of_rows) {
            let found = match of_rows {
                Some(found) => found,
                None => self.of(group.counts()?.as_ref())?,
            };
            valid.push(found.is_some());
            let found = found.unwrap_or_else(|| Found {
                values: vec![0.0; self.count],
                trace: 0.0,
                vectors: vec![vec![0.0; samples]; self.count],
            });
            values.extend(found.values);
            traces.push(found.trace);
            for sample in 0..samples {
                let of_sample = |vector: &Vec<f64>| vector.get(sample).copied().unwrap_or(0.0);
                components.extend(found.vectors.iter().map(of_sample));
            }
        }
        let of_samples: Vec<ArrayRef> = vec![
            all_names(NAME, &self.ids, number)?,
            lists(components, self.count, number * samples, None)?,
        ];
        let of_samples = StructArray::try_new(sample_fields(), of_samples, None)?;
        let nulls = Some(NullBuffer::from(valid)).filter(|nulls| nulls.null_count() > 0);
        // The fields of a NULL struct are NULL, too, because access to a field ignores the struct's validity.
        let columns: Vec<ArrayRef> = vec![
            lists(values, self.count, number, nulls.clone())?,
            Arc::new(Float64Array::try_new(traces.into(), nulls.clone())?),
            Arc::new(ListArray::try_new(
                sample(),
                OffsetBuffer::from_repeated_length(samples, number),
                Arc::new(of_samples),
                nulls.clone(),
            )?),
        ];
        Ok(Arc::new(StructArray::try_new(fields(), columns, nulls)?))
    }

    fn check_groups(&self, groups: usize) -> Result<()> {
        let numbers = self.size().saturating_mul(groups) / size_of::<f64>();
        if i32::try_from(numbers).is_ok() {
            return Ok(());
        }
        exec_err!(
            "{NAME}: {groups} groups of {} samples overflow one batch; lower datafusion.execution.batch_size",
            self.ids.len()
        )
    }

    fn size(&self) -> usize {
        let numbers = self.count.saturating_mul(self.ids.len() + 1);
        let ids: usize = self
            .ids
            .iter()
            .map(|id| id.len() + 2 * size_of::<i32>())
            .sum();
        numbers.saturating_mul(size_of::<f64>()).saturating_add(ids)
    }
}

/// The number of components and what is summed, from the arguments after the population.
fn arguments(others: &[Option<ScalarValue>], samples: usize) -> Result<(usize, Forms)> {
    let count = match others.first() {
        Some(Some(ScalarValue::Int64(Some(count)))) => *count,
        found => {
            let found = match found {
                Some(Some(value)) => value.to_string(),
                _ => "an expression".to_string(),
            };
            return exec_err!(
                "{NAME}: k, the number of components, must be a constant whole number, found {found}"
            );
        }
    };
    let within = usize::try_from(count).ok();
    let Some(within) = within.filter(|count| (1..=samples).contains(count)) else {
        return exec_err!(
            "{NAME}: k, the number of components, must be from 1 to the number of samples, which is {samples}, found {count}"
        );
    };
    let forms = match others.get(1) {
        None => Forms::Gcta,
        Some(Some(value)) if value.try_as_str() == Some(Some(PATTERSON)) => Forms::Gcta,
        Some(Some(value)) if value.try_as_str() == Some(Some(COVARIANCE)) => Forms::Covariance,
        Some(found) => {
            let found = found
                .as_ref()
                .map_or("an expression".to_string(), ToString::to_string);
            return exec_err!(
                "{NAME}: the scaling must be '{PATTERSON}' or '{COVARIANCE}', found {found}"
            );
        }
    };
    Ok((within, forms))
}

impl PlanesDefinition for Pca {
    type Statistic = PairsOf<Components>;
    const NAME: &'static str = NAME;
    const NAMES_SAMPLES: bool = true;
    const OTHERS: &'static str = ", k [, scaling]";

    fn return_type() -> DataType {
        DataType::Struct(fields())
    }

    fn coerce_others(types: &[DataType]) -> Option<Vec<DataType>> {
        let is_count = |count: &DataType| count.is_integer() || count.is_null();
        match types {
            [count] if is_count(count) => Some(vec![DataType::Int64]),
            [count, scaling] if is_count(count) && (scaling.is_string() || scaling.is_null()) => {
                Some(vec![DataType::Int64, DataType::Utf8])
            }
            _ => None,
        }
    }

    fn statistic(population: &Population) -> Result<Self::Statistic> {
        let (shape, ids) = population.individuals(NAME)?;
        let (count, forms) = arguments(&population.others, ids.len())?;
        check_pairs(NAME, "samples", ids.len(), 1, None)?;
        Ok(PairsOf::new(
            shape,
            forms,
            Components {
                ids,
                shape,
                count,
                forms,
            },
        ))
    }

    fn sliding(statistic: Self::Statistic) -> Box<dyn Accumulator> {
        Box::new(StatisticAccumulator::new(statistic.keeping_rows()))
    }

    fn documentation() -> Documentation {
        document_genotypes(
            "Principal components of the individuals of a population: a struct of the k largest eigenvalues, the trace (the sum of all \
             of them), and samples, a list of structs (sample, pc) with each individual's components of the k eigenvectors, which have \
             length 1 and whose largest component is positive. The matrix is that of the means over the M variants with 0 < p < 1 of \
             (x1 - 2p)(x2 - 2p) / (2p(1 - p)), where individuals that are no complete diploids count as 0 (x and p as in grm). Patterson \
             et al. 2006 scale by p(1 - p): their eigenvalues are twice these, with the same eigenvectors. With 'covariance' it is the \
             covariance of x - 2p over all variants at which both are complete diploids, as lostruct has it in windows (Li and Ralph 2019). \
             NULL if M is 0, or two individuals share fewer than two variants. Linked variants, such as those of an inversion, dominate \
             components: leave them out first.",
            "pca(call_genotype [, population], k [, 'patterson' | 'covariance'])",
            "SELECT unnest(unnest(pca(call_genotype, 10)['samples'])) FROM chr22;",
        )
        .with_argument("k", "The number of components, a constant.")
        .with_argument("scaling", "'patterson', which is used when left out, or 'covariance'.")
        .with_related_udf("grm")
        .build()
    }
}

#[cfg(test)]
#[path = "pca_tests.rs"]
mod tests;
