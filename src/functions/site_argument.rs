//! The site arguments of functions: allele counts, zygosity or bit-planes, one argument for each population. In place of all of them a
//! call may have `call_genotype` and the populations, which an analyzer rule rewrites into the first form.

use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::logical_expr::ScalarUDF;

use super::counts_arg::is_counts_type;
use super::genotype::{allele_counts_udf, genotype_planes_udf, zygosity_counts_udf};
use super::zygosity_arg::is_zygosity_type;
use crate::scan::is_planes_type;

/// What an argument holds for each site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SiteArgument {
    /// Called copies of each allele, a list of integers.
    AlleleCounts,
    /// Complete diploids by allele and zygosity, a struct.
    Zygosity,
    /// The genotypes of a population as bit-planes, a list of 64-bit words. Only planning creates such arguments.
    GenotypePlanes,
}

impl SiteArgument {
    /// Whether an argument of this type can be such a site argument.
    pub fn is(self, data_type: &DataType) -> bool {
        match self {
            Self::AlleleCounts => is_counts_type(data_type),
            Self::Zygosity => is_zygosity_type(data_type),
            Self::GenotypePlanes => is_planes_type(data_type),
        }
    }

    /// The name of such an argument in documentation and errors.
    pub fn name(self) -> &'static str {
        match self {
            Self::AlleleCounts => "ac",
            Self::Zygosity => "zc",
            Self::GenotypePlanes => "call_genotype",
        }
    }

    /// What an argument must be, for errors.
    pub fn expected(self) -> &'static str {
        match self {
            Self::AlleleCounts => "allele counts (a list of integers)",
            Self::Zygosity => "what zygosity_counts(call_genotype [, population]) gives",
            Self::GenotypePlanes => "genotypes such as call_genotype",
        }
    }

    /// The name of the function of genotypes that gives it.
    pub fn function(self) -> &'static str {
        match self {
            Self::AlleleCounts => "allele_counts",
            Self::Zygosity => "zygosity_counts",
            Self::GenotypePlanes => "genotype_planes",
        }
    }

    /// The function of genotypes that gives it.
    pub fn udf(self) -> Arc<ScalarUDF> {
        Arc::new(match self {
            Self::AlleleCounts => allele_counts_udf(),
            Self::Zygosity => zygosity_counts_udf(),
            Self::GenotypePlanes => genotype_planes_udf(),
        })
    }
}

/// The site arguments of a function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SiteArguments {
    /// What each of them is.
    pub of: SiteArgument,
    /// How many there may be, one for each population. Other arguments may follow.
    pub populations: RangeInclusive<usize>,
}
