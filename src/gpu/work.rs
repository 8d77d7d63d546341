//! What a scan wants of an array's chunks: counts of sample sets, or the elements of some samples. Made once per scan and
//! shared by its chunks.

use std::sync::Arc;

use super::abi;
use super::chunk_sizes::ChunkSizes;
use super::plan::ChunkPlanner;
use crate::counts::{CountRequest, GENOTYPE_CLASSES, SampleSet};
use crate::gpu::error::GpuError;

/// A device counts at most this many alleles: it reads a row once for every four of them.
const MOST_ALLELES: usize = 1 << 16;

/// What a scan wants of the chunks of one array, and how they are decoded.
#[derive(Debug)]
pub struct Work {
    /// How chunks of the array are decoded.
    pub planner: ChunkPlanner,
    /// Sizes of the chunks that were planned.
    pub sizes: Arc<ChunkSizes>,
    /// The result for a chunk.
    pub wanted: WorkOutput,
}

/// The kind of result for a chunk.
#[derive(Debug)]
pub enum WorkOutput {
    /// Counts of sample sets.
    Counts(CountsOutput),
    /// Elements of some samples.
    Elements(ElementsOutput),
}

/// The counts of a request in an array's chunks: little-endian `i32`, for each allele set `[rows × K]`, then for each
/// genotype set `[rows × 5]`, then for each zygosity set `[rows × 2 K]`.
#[derive(Debug)]
pub struct CountsOutput {
    request: CountRequest,
    /// By sample chunk; `None` for one without a wanted sample.
    masks: Vec<Option<Arc<Masks>>>,
}

/// The sets of a request as bit masks over one sample chunk.
#[derive(Debug)]
pub struct Masks {
    /// The masks, in the order of [`abi::CountSpec::masks`], and two words of padding that kernels may read.
    pub words: Vec<u32>,
    /// Words of a mask of copies.
    pub mask_words: u32,
    /// Words of a mask of samples.
    pub sample_words: u32,
}

/// Elements `[rows × selected samples × inner]`, native-endian.
#[derive(Debug)]
pub struct ElementsOutput {
    /// By sample chunk: the selected samples, ascending, counted from the chunk's first.
    pub samples: Vec<Arc<Vec<u32>>>,
    /// Elements of a sample that are wanted.
    pub inner: u32,
    /// Bytes of an element.
    pub width: usize,
}

impl CountsOutput {
    /// Masks for `request` over chunks of `chunk_samples` samples, `copies` stored elements each.
    ///
    /// # Errors
    /// The reason, if sizes do not fit.
    pub fn try_new(
        request: CountRequest,
        chunk_samples: usize,
        copies: usize,
    ) -> Result<Self, GpuError> {
        request.check()?;
        if !request.planes.is_empty() {
            return Err("a GPU does not gather bit-planes of genotypes"
                .to_string()
                .into());
        }
        if request.n_alleles > MOST_ALLELES {
            return Err(format!(
                "{} alleles are more than a GPU counts ({MOST_ALLELES})",
                request.n_alleles
            )
            .into());
        }
        let too_large = || {
            format!("masks over {chunk_samples} samples of {copies} copies do not fit the device")
        };
        let row = chunk_samples
            .checked_mul(copies)
            .filter(|row| *row > 0 && u32::try_from(*row).is_ok())
            .ok_or_else(too_large)?;
        let mask_words = row.div_ceil(32);
        let sample_words = chunk_samples.div_ceil(32);
        let union = SampleSet::new(request.sets().flat_map(|set| set.iter()).collect());
        let of_samples = request.genotypes.len() + request.zygosity.len();
        let mut masks = Vec::new();
        for chunk in 0..request.n_samples.div_ceil(chunk_samples) {
            let first = chunk * chunk_samples;
            let stop = (first + chunk_samples).min(request.n_samples);
            let (Ok(first), Ok(stop)) = (u32::try_from(first), u32::try_from(stop)) else {
                return Err(too_large().into());
            };
            if union.within(first, stop).is_empty() {
                masks.push(None);
                continue;
            }
            let n_words = mask_words
                .checked_mul(1 + request.alleles.len())
                .and_then(|n| n.checked_add(sample_words.checked_mul(of_samples)?))
                .ok_or_else(too_large)?;
            let mut words = Vec::with_capacity(n_words + 2);
            for set in std::iter::once(&union).chain(request.alleles.iter().map(AsRef::as_ref)) {
                let at = words.len();
                words.resize(at + mask_words, 0u32);
                for sample in set.within(first, stop) {
                    let bit = (sample - first) as usize * copies;
                    for bit in bit..bit + request.ploidy {
                        words[at + bit / 32] |= 1 << (bit % 32);
                    }
                }
            }
            for set in request.genotypes.iter().chain(&request.zygosity) {
                let at = words.len();
                words.resize(at + sample_words, 0u32);
                for sample in set.within(first, stop) {
                    let bit = (sample - first) as usize;
                    words[at + bit / 32] |= 1 << (bit % 32);
                }
            }
            words.extend([0, 0]);
            // At most the elements of a row, which fit.
            let (mask_words, sample_words) = (mask_words as u32, sample_words as u32);
            masks.push(Some(Arc::new(Masks {
                words,
                mask_words,
                sample_words,
            })));
        }
        Ok(Self { request, masks })
    }

    /// What is counted.
    pub fn request(&self) -> &CountRequest {
        &self.request
    }

    /// The masks of a sample chunk; `None` if it holds no wanted sample.
    pub fn masks(&self, sample_chunk: usize) -> Option<&Arc<Masks>> {
        self.masks.get(sample_chunk).and_then(Option::as_ref)
    }

    /// Number of counts of `rows` rows.
    pub fn len(&self, rows: usize) -> Option<usize> {
        let (request, alleles) = (&self.request, self.request.alleles.len());
        let per_row = alleles
            .checked_mul(request.n_alleles)?
            .checked_add(request.genotypes.len().checked_mul(GENOTYPE_CLASSES)?)?
            .checked_add(
                request
                    .zygosity
                    .len()
                    .checked_mul(request.zygosity_width())?,
            )?;
        per_row.checked_mul(rows)
    }

    /// The request as the kernels read it, with its masks at device address `masks`.
    pub fn spec(&self, of: &Masks, masks: u64) -> abi::CountSpec {
        abi::CountSpec {
            masks,
            mask_words: of.mask_words,
            allele_sets: self.request.alleles.len() as u32,
            genotype_sets: self.request.genotypes.len() as u32,
            zygosity_sets: self.request.zygosity.len() as u32,
            sample_words: of.sample_words,
            n_alleles: self.request.n_alleles as u32,
            ploidy: self.request.ploidy as u32,
            pad: 0,
        }
    }
}

impl Work {
    /// Bytes of the results for `rows` rows of a sample chunk.
    ///
    /// # Errors
    /// The reason, if there are more than fit in memory.
    pub fn output_bytes(&self, sample_chunk: usize, rows: usize) -> Result<usize, GpuError> {
        let bytes = match &self.wanted {
            WorkOutput::Counts(counts) => counts.len(rows).and_then(|n| n.checked_mul(4)),
            WorkOutput::Elements(elements) => elements
                .samples
                .get(sample_chunk)
                .and_then(|samples| samples.len().checked_mul(elements.inner as usize))
                .and_then(|n| n.checked_mul(elements.width))
                .and_then(|n| n.checked_mul(rows)),
        };
        bytes.ok_or_else(|| format!("the results of {rows} rows do not fit in memory").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_cover_stored_copies() {
        let request = CountRequest {
            alleles: vec![Arc::new(SampleSet::new(vec![0, 5]))],
            genotypes: vec![Arc::new(SampleSet::new(vec![6]))],
            zygosity: vec![Arc::new(SampleSet::new(vec![4, 6]))],
            planes: vec![],
            n_alleles: 2,
            n_samples: 9,
            ploidy: 2,
        };
        // Three stored elements a sample, of which two are copies; chunks of four samples.
        let counts = CountsOutput::try_new(request, 4, 3).unwrap();
        assert_eq!(counts.masks(0).unwrap().words, [0b11, 0b11, 0, 0, 0, 0]);
        let second = counts.masks(1).unwrap();
        assert_eq!(
            second.words,
            [0b011_011_011, 0b000_011_000, 0b0100, 0b0101, 0, 0],
            "the union, the allele set, the genotype set, the zygosity set, and two words of padding"
        );
        assert!(counts.masks(2).is_none() && counts.masks(3).is_none());
        assert_eq!(counts.len(10), Some(10 * 2 + 10 * 5 + 10 * 4));
        assert_eq!(counts.len(usize::MAX), None);
        let many = CountRequest {
            n_alleles: MOST_ALLELES + 1,
            ..counts.request().clone()
        };
        let refused = CountsOutput::try_new(many, 4, 3).unwrap_err();
        assert_eq!(
            &*refused,
            "65537 alleles are more than a GPU counts (65536)"
        );
    }
}
