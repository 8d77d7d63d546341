//! Evaluates calls that no scan computes, on a genotype column of a batch, with the same result.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::Field;
use datafusion::common::{Result, exec_err};

use super::call::GenotypeCall;
use super::context::{GenotypeContext, genotype_shape};
use super::counted::{Counted, request_of};
use super::elements::elements_of;
use super::results::list_size;
use crate::counts::{ChunkCounts, CountError, CountScratch, Counter, SampleSet};
use crate::error::VczError;

/// Evaluates `call`, whose samples are those of `context`, on a genotype column. NULL rows (from outer joins) give NULL.
///
/// # Errors
/// If the genotypes have another number of samples or another ploidy than `context`, or a code is not that of an allele.
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
    let Some((element, codes)) = elements_of(copies.values()) else {
        return exec_err!("expected genotypes, found {}", genotypes.data_type());
    };
    if !matches!(
        call,
        GenotypeCall::GenotypeCounts(_) | GenotypeCall::GenotypePlanes(_)
    ) {
        context.n_alleles()?;
    }
    let (n_samples, ploidy) = (calls.value_length(), copies.value_length());
    let (request, _) = request_of([call], context, n_samples as usize, ploidy as usize);
    let failed = |error: CountError| VczError::Invalid(format!("call_genotype: {error}"));
    let counter = Counter::try_new(request, n_samples.max(1) as usize).map_err(failed)?;
    let mut counts = ChunkCounts::default();
    counts.reset(counter.request(), rows).map_err(failed)?;
    let mut scratch = CountScratch::default();
    counter
        .add_dense(codes, element, 0..rows, &mut counts, &mut scratch)
        .map_err(failed)?;
    let counted = Counted {
        request: counter.request(),
        counts: &counts,
        context,
    };
    counted.array(call, 0, 0..rows, nulls)
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
