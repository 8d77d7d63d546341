//! Evaluates calls that no scan computes, on a genotype column of a batch, with the same result.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, FixedSizeListArray, UInt64Array};
use arrow::datatypes::DataType;
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
        return Ok(Arc::new(select_samples(calls, samples)?));
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

/// The calls of `samples`, which are indices into each list.
pub(super) fn select_samples(
    calls: &FixedSizeListArray,
    samples: &SampleSet,
) -> Result<FixedSizeListArray> {
    let width = u64::try_from(calls.value_length()).unwrap_or(0);
    let indices: UInt64Array = (0..calls.len() as u64)
        .flat_map(|row| {
            let start = row * width;
            samples.iter().map(move |sample| start + u64::from(sample))
        })
        .collect();
    let values = arrow::compute::take(calls.values(), &indices, None)?;
    let DataType::FixedSizeList(item, _) = calls.data_type() else {
        return exec_err!("expected a list of calls, found {}", calls.data_type());
    };
    let (item, nulls) = (Arc::clone(item), calls.nulls().cloned());
    Ok(FixedSizeListArray::try_new_with_length(
        item,
        list_size(samples.len())?,
        values,
        nulls,
        calls.len(),
    )?)
}
