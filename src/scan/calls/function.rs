//! The scalar functions over genotypes, by name and number of arguments.

/// Which function over genotypes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GenotypeFunction {
    /// `allele_counts(call_genotype [, population])`
    AlleleCounts,
    /// `population_counts(call_genotype)`
    PopulationCounts,
    /// `population_pair_counts(call_genotype)`
    PopulationPairCounts,
    /// `genotype_counts(call_genotype [, population])`
    GenotypeCounts,
    /// `zygosity_counts(call_genotype [, population])`
    ZygosityCounts,
    /// `select_samples(call_genotype, population)`
    SelectSamples,
    /// `genotype_planes(call_genotype [, population])`, which only planning rules insert.
    GenotypePlanes,
}

impl GenotypeFunction {
    /// The function's SQL name.
    pub fn name(self) -> &'static str {
        match self {
            Self::AlleleCounts => "allele_counts",
            Self::PopulationCounts => "population_counts",
            Self::PopulationPairCounts => "population_pair_counts",
            Self::GenotypeCounts => "genotype_counts",
            Self::ZygosityCounts => "zygosity_counts",
            Self::SelectSamples => "select_samples",
            Self::GenotypePlanes => "genotype_planes",
        }
    }

    /// The most arguments that it takes.
    pub fn max_arguments(self) -> usize {
        match self {
            Self::PopulationCounts | Self::PopulationPairCounts => 1,
            _ => 2,
        }
    }

    /// The fewest arguments that it takes.
    pub fn min_arguments(self) -> usize {
        if self == Self::SelectSamples { 2 } else { 1 }
    }
}
