//! The calls on genotypes that a scan can compute: their inputs and their results. Used by the scan (pushed down) and by
//! [`super::genotype_udf`] (evaluated on a genotype column).

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::common::Result;

use super::context::GenotypeContext;
use super::copies::with_copies;
use super::filters::CallFilters;
use super::planes::genotype_planes_type;
use super::population_pairs::population_pair_counts_type;
use super::results::{
    allele_counts_type, genotype_counts_fields, population_counts_type, selected_type,
    zygosity_counts_fields,
};
use crate::counts::{Populations, SampleSet};

/// A call on genotypes with its samples resolved to columns of the genotype array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GenotypeCall {
    /// `allele_counts(call_genotype [, population])`
    AlleleCounts(Arc<SampleSet>),
    /// `population_counts(call_genotype)`
    PopulationCounts(Arc<Populations>),
    /// `population_pair_counts(call_genotype)`
    PopulationPairCounts(Arc<Populations>),
    /// `genotype_counts(call_genotype [, population])`
    GenotypeCounts(Arc<SampleSet>),
    /// `zygosity_counts(call_genotype [, population])`
    ZygosityCounts(Arc<SampleSet>),
    /// `select_samples(call_genotype, population)`
    SelectSamples(Arc<SampleSet>),
    /// `genotype_planes(call_genotype [, population])`
    GenotypePlanes(Arc<SampleSet>),
}

/// Hashes only the function and the number of samples, because the optimizer hashes expressions often, and lists of samples are long.
impl Hash for GenotypeCall {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Self::AlleleCounts(samples)
            | Self::GenotypeCounts(samples)
            | Self::ZygosityCounts(samples)
            | Self::SelectSamples(samples)
            | Self::GenotypePlanes(samples) => samples.len().hash(state),
            Self::PopulationCounts(populations) | Self::PopulationPairCounts(populations) => {
                populations.len().hash(state)
            }
        }
    }
}

impl GenotypeCall {
    /// The field of this call's result over `genotypes`, the field of a genotype column of `context`, with N in the metadata of counts.
    pub fn field(&self, name: &str, genotypes: &Field, context: &GenotypeContext) -> Result<Field> {
        let nullable = genotypes.is_nullable();
        Ok(match self {
            Self::AlleleCounts(samples) => with_copies(
                Field::new(name, allele_counts_type(context.n_alleles()?)?, nullable),
                Some(context.copies(samples)),
            ),
            Self::PopulationCounts(_) => Field::new(
                name,
                population_counts_type(context.n_alleles()?)?,
                nullable,
            ),
            Self::PopulationPairCounts(_) => Field::new(
                name,
                population_pair_counts_type(context.n_alleles()?)?,
                nullable,
            ),
            Self::GenotypeCounts(_) => {
                Field::new(name, DataType::Struct(genotype_counts_fields()), nullable)
            }
            Self::ZygosityCounts(_) => {
                let fields = zygosity_counts_fields(context.n_alleles()?)?;
                Field::new(name, DataType::Struct(fields), nullable)
            }
            Self::SelectSamples(samples) => Field::new(
                name,
                selected_type(genotypes.data_type(), samples.len())?,
                nullable,
            ),
            Self::GenotypePlanes(samples) => with_copies(
                Field::new(name, genotype_planes_type(), nullable),
                Some(context.copies(samples)),
            ),
        })
    }

    /// The sample sets whose alleles this call counts, in the order in which it uses them.
    pub fn allele_sets(&self) -> Vec<Arc<SampleSet>> {
        match self {
            Self::AlleleCounts(samples) => vec![Arc::clone(samples)],
            Self::PopulationCounts(populations) | Self::PopulationPairCounts(populations) => {
                populations
                    .iter()
                    .map(|(_, samples)| Arc::clone(samples))
                    .collect()
            }
            Self::GenotypeCounts(_)
            | Self::ZygosityCounts(_)
            | Self::SelectSamples(_)
            | Self::GenotypePlanes(_) => vec![],
        }
    }

    /// One more than the highest index of its samples; 0 if there are none.
    pub fn samples_end(&self) -> usize {
        let end = |samples: &SampleSet| {
            samples
                .indices()
                .last()
                .map_or(0, |last| *last as usize + 1)
        };
        match self {
            Self::AlleleCounts(samples)
            | Self::GenotypeCounts(samples)
            | Self::ZygosityCounts(samples)
            | Self::SelectSamples(samples)
            | Self::GenotypePlanes(samples) => end(samples),
            Self::PopulationCounts(populations) | Self::PopulationPairCounts(populations) => {
                let ends = populations.iter().map(|(_, samples)| end(samples));
                ends.max().unwrap_or(0)
            }
        }
    }

    /// A call on `select_samples(g, …)` as a call on `g`: this call's sample indices, which are positions in `selected`, become those of
    /// the whole column.
    pub fn of_selected(&self, selected: &SampleSet) -> Self {
        let within = selected.indices();
        let original = |samples: &SampleSet| {
            let samples = samples
                .iter()
                .filter_map(|at| within.get(at as usize).copied())
                .collect();
            Arc::new(SampleSet::new(samples))
        };
        match self {
            Self::AlleleCounts(samples) => Self::AlleleCounts(original(samples)),
            Self::GenotypeCounts(samples) => Self::GenotypeCounts(original(samples)),
            Self::ZygosityCounts(samples) => Self::ZygosityCounts(original(samples)),
            Self::SelectSamples(samples) => Self::SelectSamples(original(samples)),
            Self::GenotypePlanes(samples) => Self::GenotypePlanes(original(samples)),
            Self::PopulationCounts(populations) => {
                Self::PopulationCounts(Arc::new(populations.map(original)))
            }
            Self::PopulationPairCounts(populations) => {
                Self::PopulationPairCounts(Arc::new(populations.map(original)))
            }
        }
    }
}

/// A call on genotypes and the filters of their calls: what a scan computes.
#[derive(Debug, Clone, PartialEq)]
pub struct FilteredCall {
    /// The call.
    pub call: GenotypeCall,
    /// Filters that are applied to the genotypes.
    pub filters: CallFilters,
}

/// Calls on genotypes with the same filters.
type CallsByFilters = Vec<(CallFilters, Vec<GenotypeCall>)>;

/// The calls by their filters; and for each call, its group and its index there.
pub fn by_filters(calls: Vec<FilteredCall>) -> (CallsByFilters, Vec<(usize, usize)>) {
    let mut groups: CallsByFilters = vec![];
    let mut places = Vec::with_capacity(calls.len());
    for FilteredCall { call, filters } in calls {
        let group = match groups.iter().position(|(known, _)| *known == filters) {
            Some(group) => group,
            None => {
                groups.push((filters, vec![]));
                groups.len() - 1
            }
        };
        places.push((group, groups[group].1.len()));
        groups[group].1.push(call);
    }
    (groups, places)
}

/// Displays a call in EXPLAIN, with the names of the table's populations.
pub struct DisplayCall<'a>(pub &'a FilteredCall, pub &'a GenotypeContext);

impl fmt::Display for DisplayCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FilteredCall { call, filters } = self.0;
        let genotypes = match filters.is_empty() {
            true => String::new(),
            false => format!("{filters}, "),
        };
        let (name, samples) = match call {
            GenotypeCall::AlleleCounts(samples) => ("allele_counts", samples),
            GenotypeCall::GenotypeCounts(samples) => ("genotype_counts", samples),
            GenotypeCall::ZygosityCounts(samples) => ("zygosity_counts", samples),
            GenotypeCall::SelectSamples(samples) => ("select_samples", samples),
            GenotypeCall::GenotypePlanes(samples) => ("genotype_planes", samples),
            GenotypeCall::PopulationCounts(populations) => {
                let populations = populations.len();
                return write!(f, "population_counts({genotypes}{populations} populations)");
            }
            GenotypeCall::PopulationPairCounts(populations) => {
                let populations = populations.len();
                return write!(
                    f,
                    "population_pair_counts({genotypes}{populations} populations)"
                );
            }
        };
        if samples.len() == self.1.n_samples() {
            return match (call, filters.is_empty()) {
                (GenotypeCall::SelectSamples(_), false) => write!(f, "{filters}"),
                _ => write!(f, "{name}({genotypes}all)"),
            };
        }
        let known = self.1.populations();
        match known.iter().find(|(_, known)| *known == samples) {
            Some((population, _)) => write!(f, "{name}({genotypes}{population})"),
            None => write!(f, "{name}({genotypes}{} samples)", samples.len()),
        }
    }
}
