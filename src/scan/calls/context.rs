//! [`GenotypeContext`]: the samples, populations and shape of a genotype column, and the field metadata that names them.
//!
//! The metadata of a column's field have short keys that mean the same in every process: the store's location (for messages), the
//! number and a digest of its sample ids, a digest of its populations, and K. A call on genotypes is bound to a context while
//! planning (`crate::session`), by comparing these keys with those of the tables in the query. Equal digests mean the same
//! samples in the same order, so a column is never used with another store's samples.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field};

use crate::counts::{Populations, SampleSet, near_names};
use crate::error::{Result, VczError};

/// Field-metadata key of a genotype column, and of FORMAT fields: the location of its store.
pub const STORE_KEY: &str = "vcz.store";
/// Field-metadata key of a genotype column, and of FORMAT fields: number and digest of its sample ids, in column order.
pub const SAMPLES_KEY: &str = "vcz.samples";
/// Field-metadata key of a genotype column: digest of its named populations; absent where there are none.
pub const POPULATIONS_KEY: &str = "vcz.populations";
/// Field-metadata key of a genotype column: K, the number of alleles to count.
pub const ALLELES_KEY: &str = "vcz.alleles";
/// Value of [`SAMPLES_KEY`] while it is not known which samples a population selects.
pub const SAMPLES_DEFERRED: &str = "deferred";
/// All field-metadata keys of a genotype column.
pub const GENOTYPE_KEYS: [&str; 4] = [STORE_KEY, SAMPLES_KEY, POPULATIONS_KEY, ALLELES_KEY];

/// The population argument of a call, as written in SQL.
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
    /// Location of the store, for messages; `None` if the column's metadata lack it.
    store: Option<String>,
    /// `None` for a column whose store is not in the query: the number of samples is known, but not their ids.
    known: Option<Arc<KnownSamples>>,
    /// Value of [`SAMPLES_KEY`]; `None` if the column's metadata lack it.
    samples_key: Option<String>,
    /// Value of [`POPULATIONS_KEY`].
    populations_key: Option<String>,
    populations: Arc<Populations>,
    n_alleles: Option<usize>,
    ploidy: usize,
    everyone: Arc<SampleSet>,
}

/// The sample ids of a column.
#[derive(Debug)]
struct KnownSamples {
    ids: Vec<String>,
    /// `None` for an id that occurs more than once and so is ambiguous.
    index: HashMap<String, Option<u32>>,
}

impl KnownSamples {
    fn new(ids: Vec<String>) -> Self {
        let mut index = HashMap::with_capacity(ids.len());
        for (name, at) in ids.iter().zip(0u32..) {
            index
                .entry(name.clone())
                .and_modify(|known| *known = None)
                .or_insert(Some(at));
        }
        Self { ids, index }
    }
}

/// What a context is made of, for sending it to another process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextParts {
    /// Location of the store.
    pub store: Option<String>,
    /// Sample ids in column order, if they are known.
    pub ids: Option<Vec<String>>,
    /// Value of [`SAMPLES_KEY`].
    pub samples_key: Option<String>,
    /// Value of [`POPULATIONS_KEY`].
    pub populations_key: Option<String>,
    /// The named populations.
    pub populations: Arc<Populations>,
    /// K.
    pub n_alleles: Option<usize>,
    /// Copies per individual.
    pub ploidy: usize,
    /// Number of samples.
    pub n_samples: usize,
}

/// Contexts are equal if their columns have the same samples, populations and shape, whichever table they come from.
impl PartialEq for GenotypeContext {
    fn eq(&self, other: &Self) -> bool {
        self.samples_key == other.samples_key
            && self.populations_key == other.populations_key
            && self.n_samples() == other.n_samples()
            && self.n_alleles == other.n_alleles
            && self.ploidy == other.ploidy
    }
}

impl Eq for GenotypeContext {}

impl Hash for GenotypeContext {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.samples_key.hash(state);
        self.populations_key.hash(state);
    }
}

impl GenotypeContext {
    /// The context of a store's genotype column.
    ///
    /// `n_alleles` is the width of `variant_allele` (K), `None` where the store has no such array.
    pub fn new(
        store: String,
        sample_ids: Vec<String>,
        n_samples: usize,
        populations: Populations,
        n_alleles: Option<usize>,
        ploidy: usize,
    ) -> Arc<Self> {
        let samples_key = format!("{n_samples}:{}", digest_of(sample_ids.iter()));
        let populations_key = (!populations.is_empty()).then(|| populations_digest(&populations));
        Arc::new(Self {
            store: Some(store),
            known: Some(Arc::new(KnownSamples::new(sample_ids))),
            samples_key: Some(samples_key),
            populations_key,
            populations: Arc::new(populations),
            n_alleles,
            ploidy,
            everyone: everyone(n_samples),
        })
    }

    /// What this context is made of.
    pub fn parts(&self) -> ContextParts {
        ContextParts {
            store: self.store.clone(),
            ids: self.known.as_ref().map(|known| known.ids.clone()),
            samples_key: self.samples_key.clone(),
            populations_key: self.populations_key.clone(),
            populations: Arc::clone(&self.populations),
            n_alleles: self.n_alleles,
            ploidy: self.ploidy,
            n_samples: self.n_samples(),
        }
    }

    /// The context of these parts, which are another context's.
    pub fn of_parts(parts: ContextParts) -> Arc<Self> {
        Arc::new(Self {
            store: parts.store,
            known: parts.ids.map(|ids| Arc::new(KnownSamples::new(ids))),
            samples_key: parts.samples_key,
            populations_key: parts.populations_key,
            populations: parts.populations,
            n_alleles: parts.n_alleles,
            ploidy: parts.ploidy,
            everyone: everyone(parts.n_samples),
        })
    }

    /// The context of a genotype column whose store is not in the query, from the type and metadata of `field`. `None` if
    /// `field` does not hold genotypes.
    pub fn detached(field: &Field) -> Option<Arc<Self>> {
        let (n_samples, ploidy) = genotype_shape(field.data_type())?;
        let text = |key: &str| field.metadata().get(key).cloned();
        Some(Arc::new(Self {
            store: text(STORE_KEY),
            known: None,
            samples_key: text(SAMPLES_KEY),
            populations_key: text(POPULATIONS_KEY),
            populations: Arc::default(),
            n_alleles: text(ALLELES_KEY).and_then(|k| k.parse().ok()),
            ploidy,
            everyone: everyone(n_samples),
        }))
    }

    /// `field` with the keys of this context in its metadata.
    pub fn mark(&self, field: Field) -> Field {
        let mut metadata = field.metadata().clone();
        let values = [
            self.store.clone(),
            self.samples_key.clone(),
            self.populations_key.clone(),
            self.n_alleles.map(|k| k.to_string()),
        ];
        for (key, value) in GENOTYPE_KEYS.into_iter().zip(values) {
            match value {
                Some(value) => metadata.insert(key.to_string(), value),
                None => metadata.remove(key),
            };
        }
        field.with_metadata(metadata)
    }

    /// `field`, a FORMAT field, with the keys of its store and samples in its metadata.
    pub fn mark_calls(&self, field: Field) -> Field {
        let mut metadata = field.metadata().clone();
        let values = [(STORE_KEY, &self.store), (SAMPLES_KEY, &self.samples_key)];
        for (key, value) in values {
            if let Some(value) = value {
                metadata.insert(key.to_string(), value.clone());
            }
        }
        field.with_metadata(metadata)
    }

    /// Whether `field` is a genotype column of exactly these samples: their number and the digest of their ids agree.
    pub fn has_samples_of(&self, field: &Field) -> bool {
        self.samples_key.is_some()
            && self.samples_key.as_ref() == field.metadata().get(SAMPLES_KEY)
            && genotype_shape(field.data_type()) == Some((self.n_samples(), self.ploidy))
    }

    /// Whether the samples key of `field`, a column of any type, is that of these samples, and their ids are known.
    pub fn has_sample_ids_of(&self, field: &Field) -> bool {
        self.known.is_some() && self.samples_key.as_ref() == field.metadata().get(SAMPLES_KEY)
    }

    /// Whether `field` has these populations, too.
    pub fn has_populations_of(&self, field: &Field) -> bool {
        self.populations_key.as_ref() == field.metadata().get(POPULATIONS_KEY)
    }

    /// Whether these are the samples of `other`: their number and the digest of their ids agree.
    pub fn has_samples_like(&self, other: &Self) -> bool {
        self.samples_key.is_some()
            && self.samples_key == other.samples_key
            && self.n_samples() == other.n_samples()
            && self.ploidy == other.ploidy
    }

    /// This context with the K of `field`, because stores of the same samples may differ in their number of alleles.
    pub fn with_alleles_of(self: &Arc<Self>, field: &Field) -> Arc<Self> {
        let k = field
            .metadata()
            .get(ALLELES_KEY)
            .and_then(|k| k.parse().ok());
        if k == self.n_alleles {
            return Arc::clone(self);
        }
        Arc::new(Self {
            store: self.store.clone(),
            known: self.known.clone(),
            samples_key: self.samples_key.clone(),
            populations_key: self.populations_key.clone(),
            populations: Arc::clone(&self.populations),
            n_alleles: k,
            ploidy: self.ploidy,
            everyone: Arc::clone(&self.everyone),
        })
    }

    /// Number of samples: the length of the second axis of `call_genotype`, even if the store has no sample ids.
    pub fn n_samples(&self) -> usize {
        self.everyone.len()
    }

    /// Sample ids in column order; empty where they are not known.
    pub fn sample_ids(&self) -> &[String] {
        self.known.as_ref().map_or(&[], |known| &known.ids)
    }

    /// The named populations.
    pub fn populations(&self) -> &Arc<Populations> {
        &self.populations
    }

    /// K, the number of alleles to count: the width of `variant_allele`.
    pub fn n_alleles(&self) -> Result<usize> {
        self.n_alleles.ok_or_else(|| match (&self.store, &self.known) {
            (Some(store), Some(_)) => VczError::Metadata {
                store: store.clone(),
                what: "array 'variant_allele'".to_string(),
                reason: "the store has none, so the number of alleles to count is unknown".to_string(),
            },
            _ => VczError::Invalid(format!(
                "the number of alleles of these genotypes is unknown: their field has no metadata '{ALLELES_KEY}'. Give the column \
                 call_genotype itself, not CASE or coalesce of it (WHERE and FILTER leave sites out, filter_calls leaves calls out); \
                 count in the query that reads the VCZ table, and in each branch of a UNION of stores with different numbers of \
                 alleles (stores with the same samples can be one table: LOCATION ('…', '…')), or write the column to Parquet with \
                 its metadata"
            )),
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

    /// The samples of `population`. Unknown names, unknown sample ids and empty lists are errors.
    pub fn resolve(&self, population: &PopulationArg) -> Result<Arc<SampleSet>> {
        let named = match population {
            PopulationArg::Everyone => return Ok(Arc::clone(&self.everyone)),
            PopulationArg::Named(name) => format!("population '{name}'"),
            PopulationArg::Samples(ids) if ids.is_empty() => {
                return Err(VczError::Invalid(
                    "the list of samples is empty; give at least one sample id, or no population for every sample"
                        .to_string(),
                ));
            }
            PopulationArg::Samples(ids) => format!("sample '{}'", ids[0]),
        };
        let Some(known) = &self.known else {
            return Err(VczError::Invalid(self.unknown_samples(&named)));
        };
        match population {
            PopulationArg::Named(name) => match self.populations.resolve(name) {
                Ok(samples) => Ok(Arc::clone(samples)),
                Err(_) if known.index.contains_key(name) => Err(VczError::Invalid(format!(
                    "store '{}' has no population '{name}', but a sample of that name: write ['{name}'] for one sample",
                    self.store_name()
                ))),
                Err(error) => Err(VczError::Invalid(format!(
                    "store '{}': {error}",
                    self.store_name()
                ))),
            },
            PopulationArg::Samples(ids) => {
                let indices: Result<Vec<u32>> =
                    ids.iter().map(|id| self.sample(known, id)).collect();
                Ok(Arc::new(SampleSet::new(indices?)))
            }
            PopulationArg::Everyone => Ok(Arc::clone(&self.everyone)),
        }
    }

    /// An error message: a name cannot be looked up in a column whose store is not in the query, and what to do.
    fn unknown_samples(&self, named: &str) -> String {
        let column = match &self.store {
            Some(store) => format!("this genotype column was read from store '{store}'"),
            None => "the store of this genotype column is unknown".to_string(),
        };
        let n = self.n_samples();
        format!(
            "{named} cannot be looked up: {column}, and no table of the query has the same samples and populations. Count in the \
             query that reads the VCZ table (and in each branch of a UNION of different stores) and keep the counts, or leave the \
             population out for all {n} samples"
        )
    }

    /// The store's location, for messages.
    pub fn store_name(&self) -> &str {
        self.store.as_deref().unwrap_or("unknown")
    }

    fn sample(&self, known: &KnownSamples, id: &str) -> Result<u32> {
        match known.index.get(id) {
            Some(Some(at)) => Ok(*at),
            Some(None) => Err(VczError::Invalid(format!(
                "sample '{id}' occurs more than once in sample_id of store '{}', so it names no single sample",
                self.store_name()
            ))),
            None => Err(VczError::Invalid(format!(
                "store '{}' has no sample '{id}'{}; vcz_samples('table') lists all {}",
                self.store_name(),
                near_names(id, known.ids.iter().map(String::as_str)),
                known.ids.len()
            ))),
        }
    }

    /// The context of `select_samples(call_genotype, …)`: the same column with `samples` only.
    pub fn subset(self: &Arc<Self>, samples: &SampleSet) -> Arc<Self> {
        if *samples == *self.everyone {
            return Arc::clone(self);
        }
        let Some(known) = &self.known else {
            return self.deferred_subset(samples.len());
        };
        let position: HashMap<u32, u32> = samples.iter().zip(0u32..).collect();
        let sample_ids = samples
            .iter()
            .filter_map(|at| known.ids.get(at as usize).cloned())
            .collect();
        Self::new(
            self.store_name().to_string(),
            sample_ids,
            samples.len(),
            self.populations.select(&position),
            self.n_alleles,
            self.ploidy,
        )
    }

    /// Whether the samples are not known yet, because planning still has to look up a population or run a subquery.
    pub fn is_deferred(&self) -> bool {
        self.samples_key.as_deref() == Some(SAMPLES_DEFERRED)
    }

    /// The context of `n_samples` of these samples, while it is not known which.
    pub fn deferred_subset(&self, n_samples: usize) -> Arc<Self> {
        Arc::new(Self {
            store: self.store.clone(),
            known: None,
            samples_key: Some(SAMPLES_DEFERRED.to_string()),
            populations_key: None,
            populations: Arc::default(),
            n_alleles: self.n_alleles,
            ploidy: self.ploidy,
            everyone: everyone(n_samples),
        })
    }

    /// The named populations, for all of them at once.
    ///
    /// # Errors
    /// If the column's store is not in the query.
    pub fn known_populations(&self) -> Result<&Arc<Populations>> {
        match &self.known {
            Some(_) => Ok(&self.populations),
            None => Err(VczError::Invalid(
                self.unknown_samples("the named populations"),
            )),
        }
    }
}

/// Number of samples and ploidy of genotypes of this type; `None` for another type.
pub fn genotype_shape(data_type: &DataType) -> Option<(usize, usize)> {
    let DataType::FixedSizeList(copies, samples) = data_type else {
        return None;
    };
    match copies.data_type() {
        DataType::FixedSizeList(code, ploidy) if code.data_type().is_integer() => Some((
            usize::try_from(*samples).ok()?,
            usize::try_from(*ploidy).ok()?,
        )),
        _ => None,
    }
}

fn everyone(n_samples: usize) -> Arc<SampleSet> {
    Arc::new(SampleSet::all(u32::try_from(n_samples).unwrap_or(u32::MAX)))
}

/// The first 128 bits of BLAKE3 over texts, each after its length.
fn digest_of<'a>(texts: impl Iterator<Item = &'a String>) -> String {
    let mut hasher = blake3::Hasher::new();
    for text in texts {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    }
    short_hex(&hasher)
}

/// A digest of names and members of populations.
fn populations_digest(populations: &Populations) -> String {
    let mut hasher = blake3::Hasher::new();
    for (name, samples) in populations.iter() {
        hasher.update(&(name.len() as u64).to_le_bytes());
        hasher.update(name.as_bytes());
        hasher.update(&(samples.len() as u64).to_le_bytes());
        for sample in samples.iter() {
            hasher.update(&sample.to_le_bytes());
        }
    }
    short_hex(&hasher)
}

fn short_hex(hasher: &blake3::Hasher) -> String {
    hasher.finalize().to_hex()[..32].to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    fn context(names: &[&str], file: &str) -> Arc<GenotypeContext> {
        let populations = match file {
            "" => Populations::default(),
            file => {
                let file = crate::counts::PopulationsFile {
                    name: "p.tsv",
                    text: file.as_bytes(),
                    columns: None,
                    unknown_samples: Default::default(),
                };
                Populations::parse(file, &ids(names)).unwrap()
            }
        };
        GenotypeContext::new(
            "x.vcz".into(),
            ids(names),
            names.len(),
            populations,
            Some(4),
            2,
        )
    }

    fn field(samples: i32, ploidy: i32) -> Field {
        let code = Arc::new(Field::new_list_field(DataType::Int8, false));
        let copies = DataType::FixedSizeList(code, ploidy);
        let copies = Arc::new(Field::new_list_field(copies, false));
        Field::new("g", DataType::FixedSizeList(copies, samples), false)
    }

    #[test]
    fn the_same_samples_in_another_store_are_the_same_column() {
        let (a, b) = (context(&["s1", "s2"], ""), context(&["s1", "s2"], ""));
        assert!(a.has_samples_of(&b.mark(field(2, 2))));
        assert_eq!(a, b);
    }

    #[test]
    fn other_samples_another_order_or_another_shape_are_another_column() {
        let a = context(&["s1", "s2"], "");
        for other in [
            context(&["s2", "s1"], ""),
            context(&["s1s", "2"], ""),
            context(&["s1"], ""),
        ] {
            let (n, p) = (other.n_samples() as i32, 2);
            assert!(!a.has_samples_of(&other.mark(field(n, p))));
            assert_ne!(a, other);
        }
        assert!(!a.has_samples_of(&a.mark(field(3, 2))));
        assert!(!a.has_samples_of(&a.mark(field(2, 1))));
        assert!(!a.has_samples_of(&field(2, 2)));
    }

    #[test]
    fn populations_have_a_digest_of_their_own() {
        let a = context(&["s1", "s2"], "s1\tp\ns2\tq\n");
        let b = context(&["s1", "s2"], "s1\tq\ns2\tp\n");
        let marked = b.mark(field(2, 2));
        assert!(a.has_samples_of(&marked) && !a.has_populations_of(&marked));
        assert!(a.has_populations_of(&a.mark(field(2, 2))));
        assert!(
            !marked
                .metadata()
                .contains_key(&context(&["s1"], "").samples_key.clone().unwrap())
        );
    }

    #[test]
    fn a_detached_column_knows_how_many_and_not_who() {
        let marked = context(&["s1", "s2"], "s1\tp\n").mark(field(2, 2));
        let detached = GenotypeContext::detached(&marked).unwrap();
        assert_eq!(detached.resolve(&PopulationArg::Everyone).unwrap().len(), 2);
        assert_eq!(detached.n_alleles().unwrap(), 4);
        for population in [
            PopulationArg::Named("p".into()),
            PopulationArg::Samples(vec!["s1".into()]),
        ] {
            let error = detached.resolve(&population).unwrap_err().to_string();
            assert!(
                error.contains("'x.vcz'") && error.contains("all 2 samples"),
                "{error}"
            );
        }
        let bare = GenotypeContext::detached(&field(2, 2)).unwrap();
        assert!(
            bare.n_alleles()
                .unwrap_err()
                .to_string()
                .contains(ALLELES_KEY)
        );
        assert!(GenotypeContext::detached(&Field::new("x", DataType::Int8, false)).is_none());
    }

    #[test]
    fn a_subset_is_a_column_of_its_own() {
        let a = context(&["s1", "s2", "s3"], "s1\tp\ns3\tp\ns2\tq\n");
        let subset = a.subset(&SampleSet::new(vec![0, 2]));
        assert_eq!(subset.sample_ids(), ["s1", "s3"]);
        assert_eq!(subset, a.subset(&SampleSet::new(vec![2, 0])));
        assert_ne!(subset, a);
        let p = subset.resolve(&PopulationArg::Named("p".into())).unwrap();
        assert_eq!(p.indices(), [0, 1]);
        assert_eq!(*a.subset(&SampleSet::all(3)), *a);
    }
}
