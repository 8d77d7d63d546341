//! What a genotype column means: its samples, populations, ploidy and number of alleles, found from the column's
//! field by a short key, so that field metadata stays small and functions know their column wherever it travels.
//!
//! Contexts belong to tables and to `select_samples` results; the registry here only points to them weakly.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Weak};

use arrow::datatypes::Field;
use parking_lot::{Mutex, RwLock};

use crate::counts::{Populations, SampleSet, near_names};
use crate::error::{Result, VczError};

/// Field-metadata key under which a genotype column carries its context's id.
pub const GENOTYPES_KEY: &str = "vcz.genotypes";

static REGISTRY: LazyLock<RwLock<HashMap<String, Weak<GenotypeContext>>>> =
    LazyLock::new(Default::default);
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Which samples a call is about, as written in SQL.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PopulationArg {
    /// Every sample: no population was given.
    Everyone,
    /// A name from the table's populations file.
    Named(String),
    /// A list of sample ids; duplicates count once.
    Samples(Vec<String>),
}

/// Samples, populations and shape of one genotype column.
#[derive(Debug)]
pub struct GenotypeContext {
    id: String,
    store: String,
    sample_ids: Vec<String>,
    /// `None` for an id that occurs twice, which names no single sample.
    sample_index: HashMap<String, Option<u32>>,
    populations: Populations,
    n_alleles: Option<usize>,
    ploidy: usize,
    everyone: Arc<SampleSet>,
    subsets: Mutex<HashMap<Arc<SampleSet>, Arc<GenotypeContext>>>,
}

impl GenotypeContext {
    /// Makes and registers a context.
    ///
    /// `n_alleles` is the width of `variant_allele` (K), `None` where the store has no such array.
    pub fn register(
        store: String,
        sample_ids: Vec<String>,
        n_samples: usize,
        populations: Populations,
        n_alleles: Option<usize>,
        ploidy: usize,
    ) -> Arc<Self> {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed).to_string();
        let mut sample_index = HashMap::with_capacity(sample_ids.len());
        for (name, at) in sample_ids.iter().zip(0u32..) {
            sample_index
                .entry(name.clone())
                .and_modify(|known| *known = None)
                .or_insert(Some(at));
        }
        let everyone = Arc::new(SampleSet::all(u32::try_from(n_samples).unwrap_or(u32::MAX)));
        let context = Arc::new(Self {
            id: id.clone(),
            store,
            sample_ids,
            sample_index,
            populations,
            n_alleles,
            ploidy,
            everyone,
            subsets: Mutex::default(),
        });
        let mut registry = REGISTRY.write();
        registry.retain(|_, known| known.strong_count() > 0);
        registry.insert(id, Arc::downgrade(&context));
        context
    }

    /// The context of a genotype column, if its table is still there.
    pub fn of(field: &Field) -> Option<Arc<Self>> {
        let id = field.metadata().get(GENOTYPES_KEY)?;
        REGISTRY.read().get(id)?.upgrade()
    }

    /// `field` marked as a genotype column of this context.
    pub fn mark(&self, field: Field) -> Field {
        let mut metadata = field.metadata().clone();
        metadata.insert(GENOTYPES_KEY.to_string(), self.id.clone());
        field.with_metadata(metadata)
    }

    /// Number of samples: the second axis of `call_genotype`, also where the store does not name them.
    pub fn n_samples(&self) -> usize {
        self.everyone.len()
    }

    /// Sample ids in column order; empty where the store has no `sample_id`.
    pub fn sample_ids(&self) -> &[String] {
        &self.sample_ids
    }

    /// The named populations.
    pub fn populations(&self) -> &Populations {
        &self.populations
    }

    /// K, the width of `variant_allele`.
    pub fn n_alleles(&self) -> Result<usize> {
        self.n_alleles.ok_or_else(|| VczError::Metadata {
            store: self.store.clone(),
            what: "array 'variant_allele'".to_string(),
            reason: "the store has none, so the number of alleles to count is unknown".to_string(),
        })
    }

    /// Copies per individual, the last axis of `call_genotype`.
    pub fn ploidy(&self) -> usize {
        self.ploidy
    }

    /// The number of copies N of a set of samples: samples × ploidy.
    pub fn copies(&self, samples: &SampleSet) -> u64 {
        (samples.len() as u64).saturating_mul(self.ploidy as u64)
    }

    /// The samples that `population` stands for. Unknown names, unknown sample ids and empty lists are errors.
    pub fn resolve(&self, population: &PopulationArg) -> Result<Arc<SampleSet>> {
        match population {
            PopulationArg::Everyone => Ok(Arc::clone(&self.everyone)),
            PopulationArg::Named(name) => match self.populations.resolve(name) {
                Ok(samples) => Ok(Arc::clone(samples)),
                Err(_) if self.sample_index.contains_key(name) => Err(VczError::Invalid(format!(
                    "store '{}' has no population '{name}', but a sample of that name: write ['{name}'] for one sample",
                    self.store
                ))),
                Err(error) => Err(VczError::Invalid(format!(
                    "store '{}': {error}",
                    self.store
                ))),
            },
            PopulationArg::Samples(ids) => {
                if ids.is_empty() {
                    return Err(VczError::Invalid(
                        "the list of samples is empty; give at least one sample id, or no population for every sample"
                            .to_string(),
                    ));
                }
                let indices: Result<Vec<u32>> = ids.iter().map(|id| self.sample(id)).collect();
                Ok(Arc::new(SampleSet::new(indices?)))
            }
        }
    }

    fn sample(&self, id: &str) -> Result<u32> {
        match self.sample_index.get(id) {
            Some(Some(at)) => Ok(*at),
            Some(None) => Err(VczError::Invalid(format!(
                "sample '{id}' occurs more than once in sample_id of store '{}', so it names no single sample",
                self.store
            ))),
            None => Err(VczError::Invalid(format!(
                "store '{}' has no sample '{id}'{}",
                self.store,
                near_names(id, self.sample_ids.iter().map(String::as_str))
            ))),
        }
    }

    /// The context of `select_samples(call_genotype, …)`: the same table, seen through `samples` only.
    pub fn subset(&self, samples: &Arc<SampleSet>) -> Arc<Self> {
        if **samples == *self.everyone
            && let Some(whole) = REGISTRY.read().get(&self.id).and_then(Weak::upgrade)
        {
            return whole;
        }
        let mut subsets = self.subsets.lock();
        if let Some(known) = subsets.get(samples) {
            return Arc::clone(known);
        }
        let position: HashMap<u32, u32> = samples.iter().zip(0u32..).collect();
        let sample_ids = samples
            .iter()
            .filter_map(|at| self.sample_ids.get(at as usize).cloned())
            .collect();
        let populations = self.populations.select(&position);
        let subset = Self::register(
            self.store.clone(),
            sample_ids,
            samples.len(),
            populations,
            self.n_alleles,
            self.ploidy,
        );
        subsets.insert(Arc::clone(samples), Arc::clone(&subset));
        subset
    }
}
