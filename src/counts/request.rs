//! [`CountRequest`]: what to count in one pass over a genotype chunk. [`ChunkCounts`]: the counts of its rows.
//!
//! The scan turns the counting functions of a query into one [`CountRequest`]; the host counter and the GPU both fill
//! [`ChunkCounts`] for it, with the same integers.

use std::sync::Arc;

use super::columns::CountColumns;
use super::count_width::CountWidth;
use super::error::CountError;
use super::gathered::{GatheredPlanes, code_planes, most_row_words};
use super::resident::ChunkKey;
use super::sample_set::SampleSet;

/// Number of genotype classes of [`ChunkCounts::genotypes`].
pub const GENOTYPE_CLASSES: usize = 5;
/// All copies called, all of them reference.
pub const HOM_REF: usize = 0;
/// All copies called, not all equal.
pub const HET: usize = 1;
/// All copies called, all of them the same non-reference allele.
pub const HOM_ALT: usize = 2;
/// One copy, called.
pub const HAPLOID: usize = 3;
/// A copy is not called, or there are no copies.
pub const MISSING: usize = 4;

/// What to count in one pass over a chunk.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CountRequest {
    /// Sample sets whose alleles are counted.
    pub alleles: Vec<Arc<SampleSet>>,
    /// Sample sets whose genotypes are counted.
    pub genotypes: Vec<Arc<SampleSet>>,
    /// Sample sets whose zygosity is counted.
    pub zygosity: Vec<Arc<SampleSet>>,
    /// Sample sets whose genotypes are kept as bit-planes.
    pub planes: Vec<Arc<SampleSet>>,
    /// K, the width of `variant_allele`: codes are `0..K`.
    pub n_alleles: usize,
    /// Samples of the store.
    pub n_samples: usize,
    /// Copies of a call.
    pub ploidy: usize,
}

impl CountRequest {
    /// All sample sets.
    pub fn sets(&self) -> impl Iterator<Item = &Arc<SampleSet>> {
        let calls = self.genotypes.iter().chain(&self.zygosity);
        self.alleles.iter().chain(calls).chain(&self.planes)
    }

    /// Whether whole calls are counted, and not only alleles.
    pub fn counts_calls(&self) -> bool {
        !self.genotypes.is_empty() || !self.zygosity.is_empty()
    }

    /// Counts of one row of [`ChunkCounts::zygosity`]: 2 K.
    pub fn zygosity_width(&self) -> usize {
        self.n_alleles.saturating_mul(2)
    }

    /// Copies of a set.
    pub fn copies(&self, set: &SampleSet) -> usize {
        set.len().saturating_mul(self.ploidy)
    }

    /// The fewest bytes that hold every count.
    pub fn count_width(&self) -> CountWidth {
        let alleles = self.alleles.iter().map(|set| self.copies(set));
        let calls = self.genotypes.iter().chain(&self.zygosity);
        let most = alleles.chain(calls.map(|set| set.len())).max();
        CountWidth::of(most.unwrap_or(0))
    }

    /// Counts of one row, of all sets, and the most that its planes take, in 32-bit words.
    pub fn row_counts(&self) -> usize {
        let alleles = self.alleles.len().saturating_mul(self.n_alleles);
        let zygosity = self.zygosity.len().saturating_mul(self.zygosity_width());
        let genotypes = self.genotypes.len().saturating_mul(GENOTYPE_CLASSES);
        let words = |set: &Arc<SampleSet>| most_row_words(self.copies(set), self.n_alleles);
        let planes = self.planes.iter().map(words).fold(0, usize::saturating_add);
        alleles
            .saturating_add(genotypes)
            .saturating_add(zygosity)
            .saturating_add(planes.saturating_mul(2))
    }

    /// Checks that the request is valid: sizes are positive, sets are inside `0..n_samples`, counts fit in 32 bits.
    ///
    /// # Errors
    /// [`CountError::Request`] if it is not.
    pub fn check(&self) -> Result<(), CountError> {
        if self.n_alleles == 0 {
            return Err(CountError::Request(
                "expected at least one allele per variant (the width of variant_allele), found 0"
                    .into(),
            ));
        }
        if self.ploidy == 0 {
            return Err(CountError::Request(
                "expected a ploidy of at least 1, found 0".into(),
            ));
        }
        let copies = self.n_samples.checked_mul(self.ploidy);
        if copies.is_none_or(|n| n > i32::MAX as usize / 2) {
            return Err(CountError::Request(format!(
                "{} samples of ploidy {} are more copies than 32-bit counts hold",
                self.n_samples, self.ploidy
            )));
        }
        if !self.planes.is_empty() && code_planes(self.n_alleles).is_none() {
            return Err(CountError::Request(format!(
                "{} alleles are more than bit-planes of genotypes hold",
                self.n_alleles
            )));
        }
        for set in self.sets() {
            if let Some(&last) = set.indices().last()
                && last as usize >= self.n_samples
            {
                return Err(CountError::Request(format!(
                    "sample index {last} is outside the store's {} samples",
                    self.n_samples
                )));
            }
        }
        Ok(())
    }
}

/// Counts of the rows of one chunk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChunkCounts {
    /// Number of rows (variants).
    pub rows: usize,
    /// For each set of [`CountRequest::alleles`]: row-major `[rows × K]`, called copies of each allele.
    pub alleles: CountColumns,
    /// For each set of [`CountRequest::genotypes`]: row-major `[rows × 5]`, individuals by class, in the order
    /// hom_ref, het, hom_alt, haploid, missing.
    pub genotypes: CountColumns,
    /// For each set of [`CountRequest::zygosity`]: row-major `[rows × 2 K]`, complete diploids: those homozygous for each allele, then
    /// for each allele the heterozygous ones that carry it. A complete diploid has exactly two codes other than -2, both called.
    pub zygosity: CountColumns,
    /// For each set of [`CountRequest::planes`]: its genotypes.
    pub planes: Vec<GatheredPlanes>,
}

impl ChunkCounts {
    /// Whether rows of planes have stayed on a device.
    pub fn has_resident(&self) -> bool {
        self.planes.iter().any(GatheredPlanes::has_resident)
    }

    /// Sets the chunk of the rows of planes that have stayed on a device.
    pub fn set_resident(&mut self, chunk: ChunkKey) {
        for (set, planes) in (0..).zip(&mut self.planes) {
            planes.set_resident(chunk, set);
        }
    }

    /// Makes room for `rows` rows of `request` and sets them to zero; allocations are reused.
    ///
    /// # Errors
    /// [`CountError::TooLarge`] if the counts do not fit in memory.
    pub fn reset(&mut self, request: &CountRequest, rows: usize) -> Result<(), CountError> {
        self.rows = rows;
        self.alleles
            .reset(request.alleles.len(), rows, request.n_alleles)?;
        self.genotypes
            .reset(request.genotypes.len(), rows, GENOTYPE_CLASSES)?;
        self.zygosity
            .reset(request.zygosity.len(), rows, request.zygosity_width())?;
        self.planes
            .resize_with(request.planes.len(), GatheredPlanes::default);
        let mut planes = self.planes.iter_mut().zip(&request.planes);
        planes.try_for_each(|(planes, set)| {
            planes.reset(rows, request.copies(set), request.n_alleles)
        })
    }
}

/// The shape of one genotype chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkShape {
    /// Rows that exist; an edge chunk has fewer than `chunk_rows`.
    pub rows: usize,
    /// Index of the chunk's first sample.
    pub first_sample: usize,
    /// Samples that exist; an edge chunk has fewer than `chunk_samples`.
    pub samples: usize,
    /// Samples per row as stored, padding included.
    pub chunk_samples: usize,
    /// Rows as stored, padding included.
    pub chunk_rows: usize,
    /// Copies of a call.
    pub ploidy: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> CountRequest {
        CountRequest {
            alleles: vec![Arc::new(SampleSet::new(vec![0, 4]))],
            genotypes: vec![],
            zygosity: vec![],
            planes: vec![],
            n_alleles: 3,
            n_samples: 5,
            ploidy: 2,
        }
    }

    #[test]
    fn requests_are_checked() {
        assert!(request().check().is_ok());
        let wrong = |change: fn(&mut CountRequest)| {
            let mut r = request();
            change(&mut r);
            r.check().unwrap_err().to_string()
        };
        assert!(wrong(|r| r.n_alleles = 0).contains("allele"));
        assert!(wrong(|r| r.ploidy = 0).contains("ploidy"));
        assert!(wrong(|r| r.n_samples = 4).contains("sample index 4"));
        assert!(wrong(|r| r.n_samples = usize::MAX).contains("32-bit"));
    }

    #[test]
    fn counts_are_reset() {
        let mut counts = ChunkCounts::default();
        counts.reset(&request(), 2).unwrap();
        assert_eq!(counts.alleles.iter().collect::<Vec<_>>(), [[0; 6]]);
        counts.alleles.get_mut(0).unwrap()[3] = 7;
        counts.reset(&request(), 1).unwrap();
        assert_eq!(counts.alleles.iter().collect::<Vec<_>>(), [[0; 3]]);
        assert!(counts.reset(&request(), usize::MAX).is_err());
    }
}
