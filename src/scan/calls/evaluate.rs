//! Evaluates calls on genotypes that are a column of a batch: the way of a call that no scan computes, with the same result.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, Int8Type, Int16Type, Int32Type, Int64Type};
use datafusion::common::{Result, exec_err};

use super::call::GenotypeCall;
use super::context::{GenotypeContext, genotype_shape};
use super::planes::genotype_planes_array;
use super::population_pairs::population_pair_counts_array;
use super::results::{
    allele_counts_array, genotype_counts_array, list_size, population_counts_array,
    zygosity_counts_array,
};
use crate::counts::{ChunkCounts, CountError, CountRequest, Counter, SampleSet};
use crate::error::VczError;
use crate::store::ElementType;

/// Evaluates `call`, whose samples are those of `context`, on genotypes that a scan gave as a column. NULL rows (from outer
/// joins) give NULL.
///
/// # Errors
/// Where the genotypes have another number of samples or another ploidy than `context`, or a code is no allele.
pub fn evaluate(
    call: &GenotypeCall,
    genotypes: &ArrayRef,
    context: &GenotypeContext,
) -> Result<ArrayRef> {
    let expected = (context.n_samples(), context.ploidy());
    if genotype_shape(genotypes.data_type()) != Some(expected) {
        return exec_err!(
            "expected genotypes of {} samples and ploidy {} (store '{}'), found {}",
            expected.0,
            expected.1,
            context.store_name(),
            genotypes.data_type()
        );
    }
    let calls = genotypes.as_fixed_size_list();
    let copies = calls.values().as_fixed_size_list();
    let rows = genotypes.len();
    let nulls = genotypes.nulls().cloned();
    if let GenotypeCall::SelectSamples(samples) = call {
        return select_samples(
            calls.value_length() as usize,
            calls.values(),
            samples,
            rows,
            nulls,
        );
    }
    let (element, codes) = codes_of(copies.values())?;
    let genotype_sets = match call {
        GenotypeCall::GenotypeCounts(samples) => vec![Arc::clone(samples)],
        _ => vec![],
    };
    let zygosity = match call {
        GenotypeCall::ZygosityCounts(samples) => vec![Arc::clone(samples)],
        _ => vec![],
    };
    let planes = match call {
        GenotypeCall::GenotypePlanes(samples) => vec![Arc::clone(samples)],
        _ => vec![],
    };
    let n_alleles = match call {
        GenotypeCall::GenotypeCounts(_) | GenotypeCall::GenotypePlanes(_) => {
            context.n_alleles().unwrap_or(usize::from(u8::MAX))
        }
        _ => context.n_alleles()?,
    };
    let request = CountRequest {
        alleles: call.allele_sets(),
        genotypes: genotype_sets,
        zygosity,
        planes,
        n_alleles,
        n_samples: calls.value_length() as usize,
        ploidy: copies.value_length() as usize,
    };
    let failed = |error: CountError| VczError::Invalid(format!("call_genotype: {error}"));
    let n_samples = request.n_samples;
    let counter = Counter::try_new(request, n_samples.max(1)).map_err(failed)?;
    let mut counts = ChunkCounts::default();
    counts.reset(counter.request(), rows).map_err(failed)?;
    counter
        .add_dense(codes, element, rows, &mut counts)
        .map_err(failed)?;
    match call {
        GenotypeCall::AlleleCounts(_) => allele_counts_array(&counts.alleles[0], n_alleles, nulls),
        GenotypeCall::GenotypeCounts(_) => genotype_counts_array(&counts.genotypes[0], nulls),
        GenotypeCall::ZygosityCounts(_) => {
            zygosity_counts_array(&counts.zygosity[0], n_alleles, rows, nulls)
        }
        GenotypeCall::PopulationCounts(populations) => {
            let all: Vec<&[i32]> = counts.alleles.iter().map(Vec::as_slice).collect();
            population_counts_array(&all, rows, populations, context, nulls)
        }
        GenotypeCall::PopulationPairCounts(populations) => {
            let all: Vec<&[i32]> = counts.alleles.iter().map(Vec::as_slice).collect();
            population_pair_counts_array(&all, rows, populations, context, nulls)
        }
        GenotypeCall::GenotypePlanes(_) => genotype_planes_array(&counts.planes[0], 0..rows, nulls),
        GenotypeCall::SelectSamples(_) => exec_err!("select_samples counts nothing"),
    }
}

fn codes_of(codes: &ArrayRef) -> Result<(ElementType, &[u8])> {
    Ok(match codes.data_type() {
        DataType::Int8 => (
            ElementType::Int8,
            bytemuck::cast_slice(codes.as_primitive::<Int8Type>().values()),
        ),
        DataType::Int16 => (
            ElementType::Int16,
            bytemuck::cast_slice(codes.as_primitive::<Int16Type>().values()),
        ),
        DataType::Int32 => (
            ElementType::Int32,
            bytemuck::cast_slice(codes.as_primitive::<Int32Type>().values()),
        ),
        DataType::Int64 => (
            ElementType::Int64,
            bytemuck::cast_slice(codes.as_primitive::<Int64Type>().values()),
        ),
        other => return exec_err!("genotype codes must be signed integers, found {other}"),
    })
}

fn select_samples(
    width: usize,
    calls: &ArrayRef,
    samples: &SampleSet,
    rows: usize,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let indices: Vec<u64> = (0..rows as u64)
        .flat_map(|row| {
            samples
                .iter()
                .map(move |sample| row * width as u64 + u64::from(sample))
        })
        .collect();
    let indices = arrow::array::UInt64Array::from(indices);
    let values = arrow::compute::take(calls, &indices, None)?;
    let item = Arc::new(Field::new_list_field(values.data_type().clone(), false));
    let size = list_size(samples.len())?;
    Ok(Arc::new(arrow::array::FixedSizeListArray::try_new(
        item, size, values, nulls,
    )?))
}
