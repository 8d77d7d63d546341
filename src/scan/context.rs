//! What a genotype column means: its samples, populations, ploidy and number of alleles, found from the column's
//! field by a short key, so that field metadata stays small and functions know their column wherever it travels.
//!
//! Contexts belong to tables and to `select_samples` results; the registry here only points to them weakly.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Weak};

use arrow::datatypes::Field;
use parking_lot::{Mutex, RwLock};

use crate::counts::{Populations, SampleSet};
use crate::error::{Result, VczError};

/// Field-metadata key under which a genotype column carries its context's id.
pub const GENOTYPES_KEY: &str = "vcz.genotypes";

static REGISTRY: LazyLock<RwLock<HashMap<String, Weak<GenotypeContext>>>> = LazyLock::new(Default::default);
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
    sample_index: HashMap<String, u32>,
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
        populations: Populations,
        n_alleles: Option<usize>,
        ploidy: usize,
    ) -> Arc<Self> {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed).to_string();
        let sample_index = sample_ids.iter().zip(0u32..).map(|(name, at)| (name.clone(), at)).collect();
        let everyone = Arc::new(SampleSet::all(sample_ids.len()));
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

    /// Sample ids in column order.
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
            PopulationArg::Named(name) => match self.populations.get(name) {
                Some(samples) => Ok(Arc::clone(samples)),
                None => Err(VczError::Invalid(self.unknown_population(name))),
            },
            PopulationArg::Samples(ids) => {
                if ids.is_empty() {
                    return Err(VczError::Invalid(
                        "the list of samples is empty; give at least one sample id, or no population for every sample"
                            .to_string(),
                    ));
                }
                let indices: Result<Vec<u32>> = ids
                    .iter()
                    .map(|id| {
                        self.sample_index.get(id).copied().ok_or_else(|| {
                            VczError::Invalid(format!(
                                "store '{}' has no sample '{id}'; vcz_samples('table') lists its {} samples",
                                self.store,
                                self.sample_ids.len()
                            ))
                        })
                    })
                    .collect();
                Ok(Arc::new(SampleSet::new(indices?)))
            }
        }
    }

    fn unknown_population(&self, name: &str) -> String {
        let names: Vec<&str> = self.populations.names().collect();
        if names.is_empty() {
            return format!(
                "no population '{name}': the table of store '{}' was made without populations; \
                 set the option 'vcz.populations' of CREATE EXTERNAL TABLE, or give a list of sample ids",
                self.store
            );
        }
        let shown = names.iter().take(20).copied().collect::<Vec<_>>().join(", ");
        let more = if names.len() > 20 { format!(" and {} more", names.len() - 20) } else { String::new() };
        let hint = if self.sample_index.contains_key(name) {
            format!("; '{name}' is a sample: write ['{name}'] to count one sample")
        } else {
            String::new()
        };
        format!("no population '{name}' in store '{}'; it has {shown}{more}{hint}", self.store)
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
        let sample_ids = samples.iter().filter_map(|at| self.sample_ids.get(at as usize).cloned()).collect();
        let populations = self.populations.select(&position);
        let subset = Self::register(self.store.clone(), sample_ids, populations, self.n_alleles, self.ploidy);
        subsets.insert(Arc::clone(samples), Arc::clone(&subset));
        subset
    }
}
