//! The `sharding_indexed` codec: a chunk that is itself a grid of smaller, separately encoded chunks.
//!
//! A whole shard decodes like any chunk. Where the shard's object holds nothing but inner chunks and index
//! ([`CodecChain::sharding`](super::CodecChain::sharding)), a caller can fetch the index, then only the bytes that it
//! needs, and decode a *band* at a time: all inner chunks that share a range of rows along axis 0. A band is decoded like
//! a chunk of its own, with [`band_rows`](Sharding::band_rows) rows and the shard's other axes in full.

use std::borrow::Cow;
use std::ops::Range;

use super::CodecError;
use super::chain::{CodecChain, Sharding};
use super::shard_index::{IndexLocation, ShardIndex};
use super::{ChunkData, Scratch, StringChunk};

impl Sharding {
    /// Shape of a shard.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Shape of an inner chunk.
    pub fn inner_shape(&self) -> &[usize] {
        &self.inner_shape
    }

    /// Number of inner chunks along each axis.
    pub fn grid(&self) -> &[usize] {
        &self.grid
    }

    /// Number of inner chunks of a shard.
    pub fn n_inner(&self) -> usize {
        self.n_inner
    }

    /// How the inner chunks are encoded.
    pub fn inner(&self) -> &CodecChain {
        &self.inner
    }

    /// Bytes of the index.
    pub fn index_len(&self) -> usize {
        self.index.len()
    }

    /// Which end of the object holds the index.
    pub fn index_location(&self) -> IndexLocation {
        self.index.location
    }

    /// Decodes the index from its [`index_len`](Self::index_len) bytes. Every range is checked against `shard_len`, the length of
    /// the object; without it, a range may be outside the object, and fetching it fails.
    pub fn parse_index(
        &self,
        index: &[u8],
        shard_len: Option<u64>,
    ) -> Result<ShardIndex, CodecError> {
        self.index.decode(index, shard_len)
    }

    /// Decodes the index of a whole shard into `index`, whose memory is reused. After an error its contents are undefined.
    pub fn read_index(&self, shard: &[u8], index: &mut ShardIndex) -> Result<(), CodecError> {
        let bytes = self.index.of_shard(shard)?;
        self.index
            .decode_into(bytes, Some(shard.len() as u64), index)
    }

    /// Rows (along axis 0) of a band.
    pub fn band_rows(&self) -> usize {
        self.inner_shape.first().copied().unwrap_or(1)
    }

    /// Number of bands of a shard.
    pub fn n_bands(&self) -> usize {
        self.grid.first().copied().unwrap_or(1)
    }

    /// The inner chunks of a band, as indexes into a [`ShardIndex`]; empty past the last band.
    pub fn band_chunks(&self, band: usize) -> Range<usize> {
        let per_band = self.n_inner.checked_div(self.n_bands()).unwrap_or(0);
        let band = band.min(self.n_bands());
        let start = band * per_band;
        start..(start + per_band).min(self.n_inner)
    }

    /// The bands that hold any of these rows of the shard, in order and each once.
    pub fn bands_of_rows(&self, rows: &[Range<u64>]) -> Vec<usize> {
        let (height, n) = (self.band_rows() as u64, self.n_bands() as u64);
        let mut bands: Vec<usize> = rows
            .iter()
            .filter(|rows| rows.start < rows.end)
            .flat_map(|rows| (rows.start / height).min(n)..rows.end.div_ceil(height).min(n))
            // At most `n_bands`, which is a usize.
            .map(|band| band as usize)
            .collect();
        bands.sort_unstable();
        bands.dedup();
        bands
    }

    /// Decodes a band from the encoded bytes of its inner chunks, in the order of [`band_chunks`](Self::band_chunks);
    /// `None` for a chunk that is not stored. The result has `band_rows` rows and the shard's other axes in full.
    pub fn decode_band(
        &self,
        pieces: &[Option<&[u8]>],
        scratch: &mut Scratch,
    ) -> Result<ChunkData, CodecError> {
        let expected = self.band_chunks(0).len();
        if pieces.len() != expected {
            return Err(format!(
                "sharding_indexed: {} inner chunks of a band, expected {expected}",
                pieces.len()
            )
            .into());
        }
        self.inner.finish(
            self.elements(1),
            |dst, strings, scratch| match strings {
                Some(strings) => {
                    *strings = self.strings_of(pieces, 1, scratch)?;
                    Ok(())
                }
                None => self.fixed_of(pieces, dst, scratch),
            },
            scratch,
        )
    }

    /// Decodes, from a whole shard, the bands that hold any of `rows`: the rows of each band, and its elements.
    pub fn decode_rows(
        &self,
        shard: &[u8],
        rows: &[Range<u64>],
        scratch: &mut Scratch,
    ) -> Result<Vec<(Range<u64>, ChunkData)>, CodecError> {
        let index = self.parse_index(self.index.of_shard(shard)?, Some(shard.len() as u64))?;
        let height = self.band_rows() as u64;
        let decode = |band: usize| {
            let pieces = self.pieces(shard, &index, self.band_chunks(band))?;
            let rows = band as u64 * height..(band as u64 + 1) * height;
            Ok((rows, self.decode_band(&pieces, scratch)?))
        };
        self.bands_of_rows(rows).into_iter().map(decode).collect()
    }

    /// Decodes a whole shard of fixed-size elements.
    pub(super) fn fixed_into(
        &self,
        shard: &[u8],
        dst: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), CodecError> {
        let index = self.parse_index(self.index.of_shard(shard)?, Some(shard.len() as u64))?;
        let pieces = self.pieces(shard, &index, 0..self.n_inner)?;
        self.fixed_of(&pieces, dst, scratch)
    }

    /// Decodes a whole shard of strings.
    pub(super) fn strings(
        &self,
        shard: &[u8],
        scratch: &mut Scratch,
    ) -> Result<StringChunk, CodecError> {
        let index = self.parse_index(self.index.of_shard(shard)?, Some(shard.len() as u64))?;
        let pieces = self.pieces(shard, &index, 0..self.n_inner)?;
        self.strings_of(&pieces, self.n_bands(), scratch)
    }

    fn pieces<'a>(
        &self,
        shard: &'a [u8],
        index: &ShardIndex,
        chunks: Range<usize>,
    ) -> Result<Vec<Option<&'a [u8]>>, CodecError> {
        chunks
            .map(|i| {
                let Some(range) = index.range(i) else {
                    return Ok(None);
                };
                let piece = match (usize::try_from(range.start), usize::try_from(range.end)) {
                    (Ok(start), Ok(end)) => shard.get(start..end),
                    _ => None,
                };
                piece.map(Some).ok_or_else(|| {
                    format!("sharding_indexed: inner chunk {i} lies outside the shard").into()
                })
            })
            .collect()
    }

    /// Elements of `bands` bands.
    fn elements(&self, bands: usize) -> usize {
        // No more than those of a shard, which were checked.
        let rest: usize = self.shape.iter().skip(1).product();
        bands * self.band_rows() * rest
    }

    /// Decodes consecutive inner chunks, a whole number of bands of them, into `dst`.
    fn fixed_of(
        &self,
        pieces: &[Option<&[u8]>],
        dst: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), CodecError> {
        let piece_len = self.inner.fixed_len()?;
        if piece_len.checked_mul(pieces.len()) != Some(dst.len()) {
            return Err(format!(
                "sharding_indexed: {} inner chunks of {piece_len} bytes into {}",
                pieces.len(),
                dst.len()
            )
            .into());
        }
        let contiguous = self
            .inner_shape
            .iter()
            .skip(1)
            .eq(self.shape.iter().skip(1));
        if contiguous {
            for (i, (piece, dst)) in pieces
                .iter()
                .zip(dst.chunks_exact_mut(piece_len.max(1)))
                .enumerate()
            {
                self.piece_into(i, *piece, dst, scratch)?;
            }
            return Ok(());
        }
        let mut buffer = std::mem::take(&mut scratch.inner);
        let mut run = || {
            let size = piece_len / self.inner.elements().max(1);
            for (i, piece) in pieces.iter().enumerate() {
                let elements = buffer.slice(piece_len);
                self.piece_into(i, *piece, elements, scratch)?;
                let mut rest: &[u8] = elements;
                self.runs(i, |to, n| {
                    let outside =
                        || "sharding_indexed: an inner chunk outside the shard".to_string();
                    let (run, tail) = rest.split_at_checked(n * size).ok_or_else(outside)?;
                    rest = tail;
                    dst.get_mut(to * size..(to + n) * size)
                        .ok_or_else(outside)?
                        .copy_from_slice(run);
                    Ok(())
                })?;
            }
            Ok(())
        };
        let result = run();
        scratch.inner = buffer;
        result
    }

    fn piece_into(
        &self,
        i: usize,
        piece: Option<&[u8]>,
        dst: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), CodecError> {
        match piece {
            None => self.inner.fill.fill(dst),
            Some(piece) => self
                .inner
                .fixed_into(piece, dst, scratch)
                .map_err(|e| format!("sharding_indexed: inner chunk {i}: {e}"))?,
        }
        Ok(())
    }

    /// Decodes consecutive inner chunks of strings, `bands` bands of them.
    fn strings_of(
        &self,
        pieces: &[Option<&[u8]>],
        bands: usize,
        scratch: &mut Scratch,
    ) -> Result<StringChunk, CodecError> {
        let absent = self.inner.fill.strings(self.inner.elements())?;
        let chunks = pieces
            .iter()
            .enumerate()
            .map(|(i, piece)| match piece {
                None => Ok(Cow::Borrowed(&absent)),
                Some(piece) => self
                    .inner
                    .strings(piece, scratch)
                    .map(Cow::Owned)
                    .map_err(|e| format!("sharding_indexed: inner chunk {i}: {e}")),
            })
            .collect::<Result<Vec<_>, _>>()?;
        // The runs of all inner chunks, ordered by their position in the shard.
        let mut runs = Vec::new();
        for i in 0..chunks.len() {
            let mut from = 0;
            self.runs(i, |to, n| {
                runs.push((to, i, from, n));
                from += n;
                Ok(())
            })?;
        }
        runs.sort_unstable();
        let mut out = StringChunk::default();
        for (_, i, from, n) in runs {
            if let Some(chunk) = chunks.get(i) {
                out.extend(chunk, from, n)?;
            }
        }
        if out.len() != self.elements(bands) {
            return Err(format!(
                "sharding_indexed: {} strings, expected {}",
                out.len(),
                self.elements(bands)
            )
            .into());
        }
        Ok(out)
    }

    /// Calls `f(to, n)` for every run of `n` neighbouring elements of inner chunk `i`, in that chunk's order, with where
    /// the run starts among the elements of the shard (or of the bands that start with inner chunk 0).
    fn runs(
        &self,
        i: usize,
        mut f: impl FnMut(usize, usize) -> Result<(), CodecError>,
    ) -> Result<(), CodecError> {
        let Some((run, outer)) = self.inner_shape.split_last() else {
            return f(0, 1);
        };
        // Strides of the shard, and the chunk's first element in it.
        let mut strides = vec![1; self.shape.len()];
        for (axis, len) in self.shape.iter().enumerate().skip(1).rev() {
            let stride = strides.get(axis).copied().unwrap_or(1) * len;
            if let Some(before) = strides.get_mut(axis - 1) {
                *before = stride;
            }
        }
        let (mut rest, mut origin) = (i, 0);
        for ((cells, inner), stride) in self.grid.iter().zip(&self.inner_shape).zip(&strides).rev()
        {
            origin += rest % cells.max(&1) * inner * stride;
            rest /= cells.max(&1);
        }
        let mut index = vec![0; outer.len()];
        'next: loop {
            let offset: usize = index
                .iter()
                .zip(&strides)
                .map(|(i, stride)| i * stride)
                .sum();
            f(origin + offset, *run)?;
            for (i, len) in index.iter_mut().zip(outer).rev() {
                *i += 1;
                if *i < *len {
                    continue 'next;
                }
                *i = 0;
            }
            return Ok(());
        }
    }
}
