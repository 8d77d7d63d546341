//! Translates the calls of a query to a request for counts, and the counts to the calls' values. Used by scans and by the evaluation on
//! a column.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::buffer::NullBuffer;
use datafusion::common::{Result, exec_err, internal_err};

use super::call::GenotypeCall;
use super::context::GenotypeContext;
use super::planes::genotype_planes_array;
use super::population_pairs::population_pair_counts_array;
use super::results::{
    GENOTYPE_CLASSES, allele_counts_array, genotype_counts_array, population_counts_array,
    zygosity_counts_array,
};
use crate::counts::{ChunkCounts, CountColumns, CountRequest};

/// The counts that `calls` need of genotypes of `n_samples` samples and ploidy `ploidy`; and for each call, the index of its first set
/// among the sets of its kind.
pub fn request_of<'a>(
    calls: impl IntoIterator<Item = &'a GenotypeCall>,
    context: &GenotypeContext,
    n_samples: usize,
    ploidy: usize,
) -> (CountRequest, Vec<usize>) {
    let mut request = CountRequest {
        alleles: vec![],
        genotypes: vec![],
        zygosity: vec![],
        planes: vec![],
        n_alleles: context.n_alleles().unwrap_or(usize::from(u8::MAX)),
        n_samples,
        ploidy,
    };
    let mut first_set = vec![];
    for call in calls {
        first_set.push(match call {
            GenotypeCall::GenotypeCounts(_) => request.genotypes.len(),
            GenotypeCall::ZygosityCounts(_) => request.zygosity.len(),
            GenotypeCall::GenotypePlanes(_) => request.planes.len(),
            _ => request.alleles.len(),
        });
        request.alleles.extend(call.allele_sets());
        match call {
            GenotypeCall::GenotypeCounts(samples) => request.genotypes.push(Arc::clone(samples)),
            GenotypeCall::ZygosityCounts(samples) => request.zygosity.push(Arc::clone(samples)),
            GenotypeCall::GenotypePlanes(samples) => request.planes.push(Arc::clone(samples)),
            _ => {}
        }
    }
    (request, first_set)
}

/// Counts that were made for a request.
pub struct Counted<'a> {
    /// What was counted.
    pub request: &'a CountRequest,
    /// The counts.
    pub counts: &'a ChunkCounts,
    /// The samples and populations of the genotypes.
    pub context: &'a GenotypeContext,
}

impl<'a> Counted<'a> {
    /// The values of `call` for `rows`; its sets start at `first` among those of its kind.
    ///
    /// # Errors
    /// If the call has no counts, or the counts do not fit in one batch.
    pub fn array(
        &self,
        call: &GenotypeCall,
        first: usize,
        rows: Range<usize>,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        let (counts, n_alleles) = (self.counts, self.request.n_alleles);
        let of_rows = |columns: &'a CountColumns, set: usize, width: usize| {
            let column = columns.get(set);
            let of_rows =
                column.and_then(|column| column.get(rows.start * width..rows.end * width));
            of_rows.map_or_else(
                || internal_err!("no counts of set {set}, rows {rows:?}"),
                Ok,
            )
        };
        let alleles = |set: usize| of_rows(&counts.alleles, set, n_alleles);
        match call {
            GenotypeCall::AlleleCounts(_) => {
                let range = rows.start * n_alleles..rows.end * n_alleles;
                match counts.alleles.part(first, range) {
                    Some(counts) => allele_counts_array(counts, n_alleles, nulls),
                    None => internal_err!("no counts of set {first}, rows {rows:?}"),
                }
            }
            GenotypeCall::PopulationCounts(populations) => {
                let sets = first..first + populations.len();
                let counts = sets.map(alleles).collect::<Result<Vec<_>>>()?;
                population_counts_array(&counts, rows.len(), populations, self.context, nulls)
            }
            GenotypeCall::PopulationPairCounts(populations) => {
                let sets = first..first + populations.len();
                let counts = sets.map(alleles).collect::<Result<Vec<_>>>()?;
                population_pair_counts_array(&counts, rows.len(), populations, self.context, nulls)
            }
            GenotypeCall::GenotypeCounts(_) => {
                let counts = of_rows(&counts.genotypes, first, GENOTYPE_CLASSES.len())?;
                genotype_counts_array(counts, nulls)
            }
            GenotypeCall::ZygosityCounts(_) => {
                let counts = of_rows(&counts.zygosity, first, self.request.zygosity_width())?;
                zygosity_counts_array(counts, n_alleles, rows.len(), nulls)
            }
            GenotypeCall::GenotypePlanes(_) => {
                genotype_planes_array(&counts.planes[first], rows, nulls)
            }
            GenotypeCall::SelectSamples(_) => exec_err!("select_samples counts nothing"),
        }
    }
}
