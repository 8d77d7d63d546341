//! The host counter: encoded genotype chunks in, counts of every wanted set out.
//!
//! Built once for a request and an array; shared by threads, each with its own [`CountScratch`]. Absent chunks are counted
//! without decoding, others on bit-planes ([`planes`](super::planes)) or on decoded codes ([`bytes`](super::bytes)).

use std::ops::Range;
use std::sync::OnceLock;

use super::bytes::{Buffers, DecodedCodes, Width, count_codes};
use super::error::CountError;
use super::lanes::Level;
use super::masks::{ChunkMasks, DistinctSets};
use super::planes;
use super::reference::{bad_code, genotype_class};
use super::request::{ChunkCounts, ChunkShape, CountRequest};
use super::tally::Tally;
use crate::codec::blosc::BloscHeader;
use crate::codec::{CodecChain, Scratch};
use crate::store::{ArrayMeta, ElementType, FillValue};

/// Buffers that a counting thread keeps between chunks.
#[derive(Debug, Default)]
pub struct CountScratch {
    /// For decoding; other decoding on this thread may use it too.
    pub codec: Scratch,
    block: Vec<u8>,
    codes: Buffers,
}

impl CountScratch {
    /// Bytes that the buffers hold.
    pub fn retained_bytes(&self) -> usize {
        self.codec.retained_bytes() + self.block.capacity() + self.codes.retained_bytes()
    }
}

/// Counts chunks for one request. The masks of every wanted sample chunk are made once.
#[derive(Debug)]
pub struct Counter {
    request: CountRequest,
    chunk_samples: usize,
    distinct: DistinctSets,
    /// For each sample chunk; `None` for one without a wanted sample.
    chunks: Vec<Option<ChunkMasks>>,
    wanted: Vec<usize>,
    /// Masks over all samples, for [`Counter::add_dense`]; made when first needed.
    dense: OnceLock<Result<Option<ChunkMasks>, CountError>>,
    level: Level,
}

impl Counter {
    /// A counter for `request` over chunks of `chunk_samples` samples.
    ///
    /// # Errors
    /// [`CountError::Request`] if the request contradicts itself, [`CountError::TooLarge`] if its masks do not fit in memory.
    pub fn try_new(request: CountRequest, chunk_samples: usize) -> Result<Self, CountError> {
        Self::with_level(request, chunk_samples, Level::detect())
    }

    pub(super) fn with_level(
        request: CountRequest,
        chunk_samples: usize,
        level: Level,
    ) -> Result<Self, CountError> {
        request.check()?;
        let row_copies = match chunk_samples.checked_mul(request.ploidy) {
            Some(copies) if copies > 0 => copies,
            _ => {
                return Err(CountError::Request(format!(
                    "expected chunks of 1 sample or more, found {chunk_samples} of ploidy {}",
                    request.ploidy
                )));
            }
        };
        let distinct = DistinctSets::new(&request);
        let mut wanted = Vec::new();
        let mut chunks = Vec::new();
        for chunk in 0..request.n_samples.div_ceil(chunk_samples) {
            let first = chunk * chunk_samples;
            let samples = chunk_samples.min(request.n_samples - first);
            let masks = ChunkMasks::new(&distinct, request.ploidy, first, samples, row_copies)?;
            if masks.is_some() {
                wanted.push(chunk);
            }
            chunks.push(masks);
        }
        Ok(Self {
            request,
            chunk_samples,
            distinct,
            chunks,
            wanted,
            dense: OnceLock::new(),
            level,
        })
    }

    /// What is counted.
    pub fn request(&self) -> &CountRequest {
        &self.request
    }

    /// Sample chunks that hold a wanted sample, ascending; others need not be fetched.
    pub fn wanted_sample_chunks(&self) -> &[usize] {
        &self.wanted
    }

    /// Adds the counts of one chunk to rows `[0, rows)` of `out`; `rows` are those that exist, `encoded` is `None` for an absent
    /// chunk, whose codes are all the array's fill value. After an error the counts in `out` are undefined.
    ///
    /// # Errors
    /// [`CountError`]: a chunk that does not decode, an array that does not match the request, or a wanted code of K or more.
    #[allow(clippy::too_many_arguments)] // a chunk, its place, and where its counts go
    pub fn add_chunk(
        &self,
        chain: &CodecChain,
        array: &ArrayMeta,
        encoded: Option<&[u8]>,
        sample_chunk: usize,
        rows: usize,
        out: &mut ChunkCounts,
        scratch: &mut CountScratch,
    ) -> Result<(), CountError> {
        let width = Width::of(&array.element)?;
        let (shape, stored_ploidy) = self.shape(array, sample_chunk, rows)?;
        self.check_out(out, rows)?;
        let Some(masks) = self.chunks.get(sample_chunk).and_then(Option::as_ref) else {
            return Ok(());
        };
        let mut tally = Tally {
            masks,
            n_alleles: self.request.n_alleles,
            out,
        };
        let Some(encoded) = encoded else {
            return self.add_absent(&mut tally, array, width, rows);
        };
        tally.add_all_reference(0..rows);
        let row_copies = shape.chunk_samples * shape.ploidy;

        // Calls of more than two copies are counted whole, and blocks may split them.
        let in_blocks = !self.request.counts_calls() || shape.ploidy <= 2;
        if width == Width::One
            && stored_ploidy == shape.ploidy
            && in_blocks
            && chain.as_plain_blosc().is_some()
        {
            let header = BloscHeader::parse(encoded)?;
            let expected = shape.chunk_rows.checked_mul(row_copies);
            if expected != Some(header.nbytes()) {
                return Err(CountError::Mismatch(format!(
                    "blosc: the container holds {} bytes, expected {} rows of {row_copies}",
                    header.nbytes(),
                    shape.chunk_rows
                )));
            }
            if planes::is_countable(&header) {
                let buffers = (&mut scratch.block, &mut scratch.codec, &mut scratch.codes);
                return planes::count_container(
                    self.level, &mut tally, &header, encoded, rows, buffers,
                );
            }
        }

        let bytes = chain.decode_reusing(encoded, &mut scratch.block, &mut scratch.codec)?;
        self.count_decoded(
            bytes,
            &shape,
            stored_ploidy,
            width,
            &mut tally,
            &mut scratch.codes,
        )
    }

    /// Adds the counts of a decoded chunk, as it is stored with padding, to rows `[0, rows)` of `out`; `rows` are those that exist.
    /// After an error the counts in `out` are undefined.
    ///
    /// # Errors
    /// [`CountError`]: an array or a length that does not match the request, or a wanted code of K or more.
    pub fn add_decoded(
        &self,
        array: &ArrayMeta,
        bytes: &[u8],
        sample_chunk: usize,
        rows: usize,
        out: &mut ChunkCounts,
        scratch: &mut CountScratch,
    ) -> Result<(), CountError> {
        let width = Width::of(&array.element)?;
        let (shape, stored_ploidy) = self.shape(array, sample_chunk, rows)?;
        self.check_out(out, rows)?;
        let Some(masks) = self.chunks.get(sample_chunk).and_then(Option::as_ref) else {
            return Ok(());
        };
        let mut tally = Tally {
            masks,
            n_alleles: self.request.n_alleles,
            out,
        };
        tally.add_all_reference(0..rows);
        self.count_decoded(
            bytes,
            &shape,
            stored_ploidy,
            width,
            &mut tally,
            &mut scratch.codes,
        )
    }

    /// Counts the codes of a decoded chunk of `shape`, with calls of `stored_ploidy` codes.
    fn count_decoded(
        &self,
        stored: &[u8],
        shape: &ChunkShape,
        stored_ploidy: usize,
        width: Width,
        tally: &mut Tally<'_>,
        codes: &mut Buffers,
    ) -> Result<(), CountError> {
        let row_copies = shape.chunk_samples * shape.ploidy;
        let mut bytes = stored;
        let repacked;
        if stored_ploidy != shape.ploidy {
            repacked = without_padding_copies(bytes, width.bytes(), stored_ploidy, shape.ploidy);
            bytes = &repacked;
        }
        let expected = shape
            .chunk_rows
            .checked_mul(row_copies)
            .and_then(|n| n.checked_mul(width.bytes()));
        if expected != Some(bytes.len()) {
            return Err(CountError::Mismatch(format!(
                "expected {} rows of {row_copies} codes of {} bytes, found {} bytes",
                shape.chunk_rows,
                width.bytes(),
                bytes.len()
            )));
        }
        let decoded = DecodedCodes {
            bytes,
            width,
            first: 0,
            row_copies,
            rows: shape.rows,
        };
        count_codes(self.level, tally, decoded, codes)
    }

    /// Adds the counts of a decoded matrix `[rows, n_samples, ploidy]`, row-major and without padding, to the rows `rows` of `out`.
    /// After an error the counts in `out` are undefined.
    ///
    /// # Errors
    /// [`CountError`]: a wrong element type or length, or a wanted code of K or more.
    pub fn add_dense(
        &self,
        elements: &[u8],
        element: ElementType,
        rows: Range<usize>,
        out: &mut ChunkCounts,
        scratch: &mut CountScratch,
    ) -> Result<(), CountError> {
        let width = Width::of(&element)?;
        self.check_out(out, rows.end)?;
        let n_samples = self.request.n_samples;
        let row_copies = n_samples * self.request.ploidy;
        let expected = rows
            .len()
            .checked_mul(row_copies)
            .and_then(|n| n.checked_mul(width.bytes()));
        if expected != Some(elements.len()) {
            return Err(CountError::Mismatch(format!(
                "expected {} rows of {row_copies} {element} codes, found {} bytes",
                rows.len(),
                elements.len()
            )));
        }
        let masks = match self.chunks.first() {
            // With one sample chunk, its masks at phase 0 are those of the matrix.
            Some(masks) if self.chunk_samples >= n_samples => masks,
            _ => self
                .dense
                .get_or_init(|| {
                    ChunkMasks::new(
                        &self.distinct,
                        self.request.ploidy,
                        0,
                        n_samples,
                        row_copies,
                    )
                })
                .as_ref()
                .map_err(CountError::clone)?,
        };
        let Some(masks) = masks else {
            return Ok(());
        };
        let mut tally = Tally {
            masks,
            n_alleles: self.request.n_alleles,
            out,
        };
        tally.add_all_reference(rows.clone());
        let codes = DecodedCodes {
            bytes: elements,
            width,
            // Every row is there from its first copy on.
            first: rows.start.saturating_mul(row_copies),
            row_copies,
            rows: rows.end,
        };
        count_codes(self.level, &mut tally, codes, &mut scratch.codes)
    }

    /// The samples of a sample chunk.
    pub(super) fn samples_of(&self, sample_chunk: usize) -> Range<usize> {
        let n = self.request.n_samples;
        let first = sample_chunk.saturating_mul(self.chunk_samples).min(n);
        first..first.saturating_add(self.chunk_samples).min(n)
    }

    /// The chunk's shape in the array, checked against the request, and the stored copies of a call (more than the ploidy if the
    /// chunk is padded).
    fn shape(
        &self,
        array: &ArrayMeta,
        sample_chunk: usize,
        rows: usize,
    ) -> Result<(ChunkShape, usize), CountError> {
        let (
            CountRequest {
                n_samples, ploidy, ..
            },
            chunk_samples,
        ) = (&self.request, self.chunk_samples);
        let fits = |n: &u64| usize::try_from(*n).ok();
        let sizes = |sizes: &[u64]| sizes.iter().map(fits).collect::<Option<Vec<usize>>>();
        let (Some(chunks), Some(shape)) = (sizes(&array.chunks), sizes(&array.shape)) else {
            return Err(CountError::TooLarge(format!("chunks {:?}", array.chunks)));
        };
        match (shape[..].get(1..), &chunks[..]) {
            (Some([n, p]), &[chunk_rows, samples, copies])
                if (n, p, samples) == (n_samples, ploidy, chunk_samples)
                    && copies >= *ploidy
                    && rows <= chunk_rows
                    && sample_chunk < self.chunks.len() =>
            {
                let first_sample = sample_chunk * samples;
                let shape = ChunkShape {
                    rows,
                    first_sample,
                    samples: samples.min(n_samples - first_sample),
                    chunk_samples,
                    chunk_rows,
                    ploidy: *ploidy,
                };
                Ok((shape, copies))
            }
            _ => Err(CountError::Mismatch(format!(
                "expected {rows} rows of sample chunk {sample_chunk} of an array [variants, {n_samples}, {ploidy}] in \
                 chunks of {chunk_samples} samples and all {ploidy} copies, found shape {:?} in chunks {:?}",
                array.shape, array.chunks
            ))),
        }
    }

    pub(super) fn check_out(&self, out: &ChunkCounts, rows: usize) -> Result<(), CountError> {
        if rows <= out.rows
            && out.alleles.len() == self.request.alleles.len()
            && out.genotypes.len() == self.request.genotypes.len()
            && out.zygosity.len() == self.request.zygosity.len()
            && out.planes.len() == self.request.planes.len()
        {
            Ok(())
        } else {
            Err(CountError::Mismatch(format!(
                "expected counts reset for this request and {rows} rows, found {} rows",
                out.rows
            )))
        }
    }

    /// Counts an absent chunk from the fill value.
    fn add_absent(
        &self,
        tally: &mut Tally,
        array: &ArrayMeta,
        width: Width,
        rows: usize,
    ) -> Result<(), CountError> {
        let code = match &array.fill_value {
            FillValue::Null => 0,
            FillValue::Bytes(bytes) if bytes.len() == width.bytes() => {
                width.get_little_endian(bytes)
            }
            other => {
                return Err(CountError::Mismatch(format!(
                    "expected a fill value of type {}, found {other:?}",
                    array.element
                )));
            }
        };
        if code == 0 {
            tally.add_all_reference(0..rows);
            return Ok(());
        }
        let allele = usize::try_from(code).ok();
        if allele.is_some_and(|allele| allele >= self.request.n_alleles) && rows > 0 {
            let sample = self
                .distinct
                .union()
                .indices()
                .iter()
                .find(|s| **s as usize >= tally.masks.first_sample);
            let sample = sample.map_or(tally.masks.first_sample, |s| *s as usize);
            let code = bad_code(0, sample, code, self.request.n_alleles);
            return Err(CountError::AbsentChunk(Box::new(code)));
        }
        // All copies are equal, so two have the same class as any larger number of them.
        let class = genotype_class([code; 2].get(..self.request.ploidy).unwrap_or(&[code; 2]));
        tally.add_uniform(0..rows, allele, class);
        tally.gather_uniform(rows, code);
        Ok(())
    }
}

/// Codes without the padding of calls that are stored with more copies than the array has.
fn without_padding_copies(bytes: &[u8], width: usize, stored: usize, ploidy: usize) -> Vec<u8> {
    bytes
        .chunks_exact(stored * width)
        .flat_map(|call| call.get(..ploidy * width).unwrap_or(call))
        .copied()
        .collect()
}
