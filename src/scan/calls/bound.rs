//! [`BoundCall`]: a call on genotypes with everything it needs: the samples, their column and the number of alleles.
//!
//! Planning binds calls (`crate::session`), so that a plan gives the same result wherever it is executed.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::Field;
use datafusion::common::Result;

use super::call::GenotypeCall;
use super::context::{GenotypeContext, PopulationArg};
use super::evaluate::evaluate;
use super::function::GenotypeFunction;
use super::population_pairs::check_pairs;

/// A call on the genotypes of one context.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BoundCall {
    call: GenotypeCall,
    genotypes: Arc<GenotypeContext>,
    /// The context of the result of `select_samples` and `genotype_planes`; `None` for the other functions.
    selected: Option<Arc<GenotypeContext>>,
}

impl BoundCall {
    /// `function` on genotypes of the context `genotypes`, for `population`.
    ///
    /// # Errors
    /// If the population, one of its samples, or the number of alleles to count is not known, or there are too many populations to list
    /// all pairs.
    pub fn try_new(
        function: GenotypeFunction,
        population: &PopulationArg,
        genotypes: Arc<GenotypeContext>,
    ) -> Result<Self> {
        let samples = genotypes.resolve(population)?;
        let mut selected = None;
        let call = match function {
            GenotypeFunction::AlleleCounts => GenotypeCall::AlleleCounts(samples),
            GenotypeFunction::GenotypeCounts => GenotypeCall::GenotypeCounts(samples),
            GenotypeFunction::ZygosityCounts => GenotypeCall::ZygosityCounts(samples),
            GenotypeFunction::PopulationCounts => {
                GenotypeCall::PopulationCounts(Arc::clone(genotypes.known_populations()?))
            }
            GenotypeFunction::PopulationPairCounts => {
                let populations = genotypes.known_populations()?;
                check_pairs(populations)?;
                GenotypeCall::PopulationPairCounts(Arc::clone(populations))
            }
            GenotypeFunction::SelectSamples => {
                selected = Some(genotypes.subset(&samples));
                GenotypeCall::SelectSamples(samples)
            }
            GenotypeFunction::GenotypePlanes => {
                selected = Some(genotypes.subset(&samples));
                GenotypeCall::GenotypePlanes(samples)
            }
        };
        Ok(Self {
            call,
            genotypes,
            selected,
        })
    }

    /// The call of these parts, which are those of another one: its call, the context of the genotypes, and that of its result.
    pub fn of_parts(
        call: GenotypeCall,
        genotypes: Arc<GenotypeContext>,
        selected: Option<Arc<GenotypeContext>>,
    ) -> Self {
        Self {
            call,
            genotypes,
            selected,
        }
    }

    /// The call.
    pub fn call(&self) -> &GenotypeCall {
        &self.call
    }

    /// The context of the genotypes that are counted.
    pub fn genotypes(&self) -> &Arc<GenotypeContext> {
        &self.genotypes
    }

    /// The context of the genotypes that `select_samples` or `genotype_planes` returns.
    pub fn selected(&self) -> Option<&Arc<GenotypeContext>> {
        self.selected.as_ref()
    }

    /// The field of the result, named `name`, over `genotypes`.
    pub fn field(&self, name: &str, genotypes: &Field) -> Result<Field> {
        let field = self.call.field(name, genotypes, &self.genotypes)?;
        Ok(match &self.selected {
            Some(selected) => selected.mark(field),
            None => field,
        })
    }

    /// The result over a column of genotypes.
    pub fn evaluate(&self, genotypes: &ArrayRef) -> Result<ArrayRef> {
        evaluate(&self.call, genotypes, &self.genotypes)
    }
}
