//! Sets of samples, populations and contexts of genotypes.

use std::sync::Arc;

use datafusion::common::Result;

use super::frame::broken;
use super::messages::{Context, Population, Samples};
use crate::counts::{Populations, SampleSet};
use crate::scan::{ContextParts, GenotypeContext};

/// The most samples of a column that is sent to a worker: several times those of the largest data sets.
const MOST_SAMPLES: u64 = 10_000_000;

/// A set as runs of indices.
pub fn of_samples(samples: &SampleSet) -> Samples {
    let mut runs: Vec<u32> = vec![];
    let mut end = 0;
    for index in samples.iter() {
        match runs.last_mut() {
            Some(length) if index == end => *length += 1,
            _ => runs.extend([index - end, 1]),
        }
        end = index + 1;
    }
    Samples { runs }
}

/// The set of these runs.
///
/// # Errors
/// If there are too many indices.
pub fn to_samples(samples: &Samples) -> Result<Arc<SampleSet>> {
    let total = samples.runs.iter().map(|&run| u64::from(run)).sum::<u64>();
    if total > MOST_SAMPLES {
        return Err(broken("a set of too many samples"));
    }
    let mut indices = vec![];
    let mut end = 0u32;
    for (at, run) in samples.runs.iter().enumerate() {
        let next = end.saturating_add(*run);
        if at % 2 == 1 {
            indices.extend(end..next);
        }
        end = next;
    }
    Ok(Arc::new(SampleSet::new(indices)))
}

/// Named sets.
pub fn of_populations(populations: &Populations) -> Vec<Population> {
    let sets = populations.iter();
    sets.map(|(name, samples)| Population {
        name: name.to_string(),
        samples: of_samples(samples),
    })
    .collect()
}

/// The populations of these sets.
///
/// # Errors
/// If a set is broken.
pub fn to_populations(populations: &[Population]) -> Result<Populations> {
    let sets = populations.iter();
    let sets = sets.map(|of| Ok((of.name.clone(), to_samples(&of.samples)?)));
    Ok(Populations::of_sets(sets.collect::<Result<_>>()?))
}

/// The samples of a genotype column.
pub fn of_context(context: &GenotypeContext) -> Context {
    let parts = context.parts();
    Context {
        store: parts.store,
        has_ids: parts.ids.is_some(),
        ids: parts.ids.unwrap_or_default(),
        samples_key: parts.samples_key,
        populations_key: parts.populations_key,
        populations: of_populations(&parts.populations),
        n_alleles: parts.n_alleles.map(|k| k as u64),
        ploidy: parts.ploidy as u64,
        n_samples: parts.n_samples as u64,
    }
}

/// The samples of a genotype column.
///
/// # Errors
/// If a set is broken, or there are too many samples.
pub fn to_context(context: Context) -> Result<Arc<GenotypeContext>> {
    if context.n_samples > MOST_SAMPLES {
        return Err(broken("a column of too many samples"));
    }
    Ok(GenotypeContext::of_parts(ContextParts {
        store: context.store,
        ids: context.has_ids.then_some(context.ids),
        samples_key: context.samples_key,
        populations_key: context.populations_key,
        populations: Arc::new(to_populations(&context.populations)?),
        n_alleles: context.n_alleles.map(|k| k as usize),
        ploidy: context.ploidy as usize,
        n_samples: context.n_samples as usize,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_return() {
        for indices in [
            vec![],
            vec![0],
            vec![7],
            vec![0, 1, 2, 9, 10, 77],
            (3..5000).collect(),
        ] {
            let set = SampleSet::new(indices);
            let message = of_samples(&set);
            assert!(message.runs.len() <= 2 * set.len());
            assert_eq!(*to_samples(&message).unwrap(), set);
        }
        let everyone = of_samples(&SampleSet::all(100_000));
        assert_eq!(everyone.runs, [0, 100_000]);
        let lying = Samples {
            runs: vec![1, u32::MAX, 1],
        };
        assert!(to_samples(&lying).is_err());
    }
}
