//! What a scan wants of an array's chunks: counts and bit-planes of sample sets, or the elements of some samples. Made once per scan and
//! shared by its chunks.

use std::sync::Arc;
use std::time::Duration;

use arrow::buffer::Buffer;

use super::abi;
use super::call_filter::PlannedCallFilter;
use super::chunk_sizes::ChunkSizes;
use super::cost;
use super::plan::ChunkPlanner;
use super::sparse_sets::SparseSets;
use crate::counts::gathered::{OTHER_PLANES, code_planes};
use crate::counts::{
    ComputedCounts, ComputedLayout, CountRequest, CountWidth, ResidentChunk, SampleSet,
};
use crate::gpu::error::GpuError;

/// A device counts at most this many alleles: it reads a row once for every four of them.
const MOST_ALLELES: usize = 1 << 16;
/// Where rows may stay on a device, a set has fewer copies: an entry has the number of bits beside the planes.
const MOST_RESIDENT_COPIES: usize = 1 << 24;
/// Where rows may stay on a device, a row has at most so many planes.
const MOST_RESIDENT_PLANES: usize = 7;
/// Where rows may stay on a device, there is room for this part of the planes that there can be, and for this number of rows. The host decodes
/// chunks that need more.
const RESIDENT_PART: usize = 8;
/// See [`RESIDENT_PART`].
const RESIDENT_ROWS: usize = 64;

/// What a scan wants of the chunks of one array, and how they are decoded.
#[derive(Debug)]
pub struct Work {
    /// How chunks of the array are decoded.
    pub planner: ChunkPlanner,
    /// Which calls are taken as missing; `None` for none.
    pub filter: Option<PlannedCallFilter>,
    /// Sizes of the chunks that were planned.
    pub sizes: Arc<ChunkSizes>,
    /// The result for a chunk.
    pub wanted: WorkOutput,
}

/// The kind of result for a chunk.
#[derive(Debug)]
pub enum WorkOutput {
    /// Counts and bit-planes of sample sets.
    Counts(CountsOutput),
    /// Elements of some samples.
    Elements(ElementsOutput),
}

/// The counts and bit-planes of a request in an array's chunks, laid out as [`ComputedLayout`] says.
#[derive(Debug)]
pub struct CountsOutput {
    request: CountRequest,
    width: CountWidth,
    shares_rows: bool,
    /// The devices, as bits, on which rows of two alleles without missing calls may stay; `None` if none may.
    keeps_rows: Option<u64>,
    /// By sample chunk; `None` for one without a wanted sample.
    masks: Vec<Option<Arc<Masks>>>,
    /// By sample chunk, for each set of planes: its samples there, ascending, counted from the chunk's first.
    planes: Vec<Vec<Vec<u32>>>,
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
    /// The allele sets once more, if they are counted faster so.
    pub sparse: Option<SparseSets>,
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
    /// Masks for `request` over chunks of `chunk_samples` samples, `copies` stored elements each. `shares_rows`: several tiles of a chunk
    /// have the same rows.
    ///
    /// # Errors
    /// The reason, if sizes do not fit.
    pub fn try_new(
        request: CountRequest,
        chunk_samples: usize,
        copies: usize,
        shares_rows: bool,
    ) -> Result<Self, GpuError> {
        request.check()?;
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
        let (mut masks, mut planes) = (Vec::new(), Vec::new());
        for chunk in 0..request.n_samples.div_ceil(chunk_samples) {
            let first = chunk * chunk_samples;
            let stop = (first + chunk_samples).min(request.n_samples);
            let (Ok(first), Ok(stop)) = (u32::try_from(first), u32::try_from(stop)) else {
                return Err(too_large().into());
            };
            let within = |set: &Arc<SampleSet>| -> Vec<u32> {
                let samples = set.within(first, stop).iter();
                samples.map(|sample| sample - first).collect()
            };
            planes.push(request.planes.iter().map(within).collect());
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
            let of_alleles = words.chunks_exact(mask_words).skip(1);
            let of_alleles = of_alleles.take(request.alleles.len());
            let sparse = match shares_rows {
                true => None,
                false => SparseSets::try_new(of_alleles, row, request.n_alleles),
            };
            // At most the elements of a row, which fit.
            let (mask_words, sample_words) = (mask_words as u32, sample_words as u32);
            masks.push(Some(Arc::new(Masks {
                words,
                mask_words,
                sample_words,
                sparse,
            })));
        }
        // Tiles add to the rows that they share, which needs four bytes.
        let width = match shares_rows {
            true => CountWidth::Four,
            false => request.count_width(),
        };
        Ok(Self {
            request,
            width,
            shares_rows,
            keeps_rows: None,
            masks,
            planes,
        })
    }

    /// The same, of which rows of two alleles without missing calls may stay on these devices, as bits; `None` if they cannot.
    pub fn keeping_rows(mut self, devices: u64) -> Option<Self> {
        let planes = code_planes(self.request.n_alleles)? + OTHER_PLANES;
        let fits = |set: &Arc<SampleSet>| self.request.copies(set) < MOST_RESIDENT_COPIES;
        let wanted = self.masks.iter().filter(|masks| masks.is_some()).count();
        let can = !self.shares_rows
            && wanted == 1
            && planes <= MOST_RESIDENT_PLANES
            && !self.request.planes.is_empty()
            && self.request.planes.iter().all(fits);
        self.keeps_rows = Some(devices);
        can.then_some(self)
    }

    /// The devices, as bits, on which rows of two alleles without missing calls may stay; `None` if none may.
    pub fn keeps_rows(&self) -> Option<u64> {
        self.keeps_rows
    }

    /// 64-bit words that there is room for of the planes of rows that do not stay on the device, where `layout` is that of the results.
    pub fn room(&self, layout: &ComputedLayout) -> usize {
        let most = (layout.len - layout.data) / size_of::<u64>();
        let of_row = layout
            .widths
            .iter()
            .sum::<usize>()
            .saturating_mul(layout.planes);
        match self.keeps_rows {
            Some(_) => (most / RESIDENT_PART)
                .max(of_row.saturating_mul(RESIDENT_ROWS))
                .min(most),
            None => most,
        }
    }

    /// Bytes of a count.
    pub fn width(&self) -> CountWidth {
        self.width
    }

    /// The results of a chunk, and its rows that have stayed on the device.
    pub fn computed(&self, bytes: Buffer, resident: Option<ResidentChunk>) -> ComputedCounts {
        ComputedCounts {
            bytes,
            width: self.width,
            shares_rows: self.shares_rows,
            resident,
        }
    }

    /// What is counted.
    pub fn request(&self) -> &CountRequest {
        &self.request
    }

    /// The masks of a sample chunk; `None` if it holds no wanted sample.
    pub fn masks(&self, sample_chunk: usize) -> Option<&Arc<Masks>> {
        self.masks.get(sample_chunk).and_then(Option::as_ref)
    }

    /// For each set of planes, its samples in a sample chunk, ascending, counted from the chunk's first.
    pub fn planes(&self, sample_chunk: usize) -> &[Vec<u32>] {
        self.planes.get(sample_chunk).map_or(&[], Vec::as_slice)
    }

    /// Where the results of `rows` rows of a sample chunk are; `None` if they do not fit in memory.
    pub fn layout(&self, sample_chunk: usize, rows: usize) -> Option<ComputedLayout> {
        let copies = self.planes(sample_chunk).iter();
        let copies: Vec<usize> = copies
            .map(|samples| samples.len().saturating_mul(self.request.ploidy))
            .collect();
        ComputedLayout::try_new(&self.request, &copies, rows, self.width)
    }

    /// The sets of planes as the kernels read them, with their samples at these device addresses.
    pub fn plane_sets(&self, sample_chunk: usize, addresses: &[u64]) -> Vec<abi::PlaneSet> {
        let Some(layout) = self.layout(sample_chunk, 1) else {
            return vec![];
        };
        let mut before = 0;
        let sets = self.planes(sample_chunk).iter().zip(addresses);
        let sets = sets.zip(&layout.widths).map(|((samples, address), width)| {
            let set = abi::PlaneSet {
                samples: *address,
                before,
                n_samples: samples.len() as u32,
                width: *width as u32,
            };
            before += (width * layout.planes) as u64;
            set
        });
        sets.collect()
    }

    /// The request as the kernels read it, with these device addresses of its masks, its sets of planes, and its sparse sets (0 for none).
    pub fn spec(&self, of: &Masks, [masks, planes, sparse]: [u64; 3]) -> abi::CountSpec {
        abi::CountSpec {
            masks,
            planes,
            sparse,
            mask_words: of.mask_words,
            allele_sets: self.request.alleles.len() as u32,
            genotype_sets: self.request.genotypes.len() as u32,
            zygosity_sets: self.request.zygosity.len() as u32,
            sample_words: of.sample_words,
            n_alleles: self.request.n_alleles as u32,
            ploidy: self.request.ploidy as u32,
            plane_sets: self.request.planes.len() as u32,
            count_bytes: self.width.bytes() as u32,
            pad: 0,
        }
    }
}

impl Work {
    /// The fields by which calls are filtered.
    pub fn fields(&self) -> &[ChunkPlanner] {
        self.filter.as_ref().map_or(&[], PlannedCallFilter::fields)
    }

    /// The planners of everything that is decoded.
    fn planners(&self) -> impl Iterator<Item = &ChunkPlanner> {
        std::iter::once(&self.planner).chain(self.fields())
    }

    /// Most bytes of device memory for a chunk: decoded, and for a filter, the fields, which calls pass and the filtered genotypes.
    pub fn decoded_bytes(&self) -> usize {
        let decoded = |planner: &ChunkPlanner| planner.estimate().decoded_bytes;
        let all = self.planners().map(decoded).fold(0, usize::saturating_add);
        if self.filter.is_none() {
            return all;
        }
        // A bit of a call is an eighth of a code at most.
        let genotypes = decoded(&self.planner);
        all.saturating_add(genotypes).saturating_add(genotypes / 8)
    }

    /// A guess at the encoded bytes that are decoded for a chunk.
    pub fn encoded_bytes(&self) -> usize {
        let encoded = |planner: &ChunkPlanner| planner.estimate().encoded_bytes();
        self.planners().map(encoded).fold(0, usize::saturating_add)
    }

    /// How long a batch of large frames waits for more chunks; `None` for other chunks.
    pub fn max_wait(&self) -> Option<Duration> {
        self.planners()
            .filter_map(|planner| cost::max_wait(&planner.estimate()))
            .max()
    }

    /// Bytes of device memory of `rows` rows of a sample chunk that stay there, at most.
    pub fn resident_bytes(&self, sample_chunk: usize, rows: usize) -> usize {
        match &self.wanted {
            WorkOutput::Counts(counts) if counts.keeps_rows().is_some() => {
                let words = counts.layout(sample_chunk, 1).map(|layout| layout.widths);
                let words = words.unwrap_or_default().into_iter();
                let bytes = words
                    .fold(0, usize::saturating_add)
                    .saturating_mul(size_of::<u64>());
                bytes.saturating_mul(rows)
            }
            _ => 0,
        }
    }

    /// Bytes of the results for `rows` rows of a sample chunk, at most.
    ///
    /// # Errors
    /// The reason, if there are more than fit in memory.
    pub fn output_bytes(&self, sample_chunk: usize, rows: usize) -> Result<usize, GpuError> {
        let bytes = match &self.wanted {
            WorkOutput::Counts(counts) => {
                let layout = counts.layout(sample_chunk, rows);
                layout.map(|layout| layout.data + counts.room(&layout) * size_of::<u64>())
            }
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
            planes: vec![Arc::new(SampleSet::new(vec![5, 7]))],
            n_alleles: 2,
            n_samples: 9,
            ploidy: 2,
        };
        // Three stored elements a sample, of which two are copies; chunks of four samples.
        let counts = CountsOutput::try_new(request, 4, 3, false).unwrap();
        assert_eq!(counts.masks(0).unwrap().words, [0b11, 0b11, 0, 0, 0, 0]);
        let second = counts.masks(1).unwrap();
        assert_eq!(
            second.words,
            [0b011_011_011_011, 0b000_011_000, 0b0100, 0b0101, 0, 0],
            "the union, the allele set, the genotype set, the zygosity set, and two words of padding"
        );
        assert!(counts.masks(2).is_none() && counts.masks(3).is_none());
        let layout = counts.layout(1, 10).unwrap();
        assert_eq!(layout.counts, 10 * 2 + 10 * 5 + 10 * 4);
        // Samples 5 and 7, two copies each: a word for each of three planes.
        assert_eq!(counts.planes(1), [vec![1, 3]]);
        assert_eq!(
            layout.entries,
            layout.counts.next_multiple_of(8),
            "a byte each"
        );
        assert_eq!(layout.len, layout.entries + 10 * 8 + 10 * 3 * 8);
        assert_eq!(counts.layout(1, usize::MAX), None);
        let many = CountRequest {
            n_alleles: MOST_ALLELES + 1,
            ..counts.request().clone()
        };
        let refused = CountsOutput::try_new(many, 4, 3, false).unwrap_err();
        assert_eq!(
            &*refused,
            "65537 alleles are more than a GPU counts (65536)"
        );
    }
}
