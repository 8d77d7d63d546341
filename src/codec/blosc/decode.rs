//! Decompression of Blosc containers and of single blocks, with and without un-shuffling.
//!
//! [`decompress_block_planes`] is for counting on bit-planes: it leaves a block bit-shuffled and does not write planes at its end
//! that are zero, as in most blocks of genotypes, or copies of a plane, as in blocks with missing calls.

use super::super::CodecError;
use super::super::zstd::tail::decompress_planes;
use super::super::{Scratch, blosclz, unshuffle};
use super::header::{BloscHeader, Compressor, Shuffle, Split};

/// A block left as the compressor wrote it, for counting on bit-planes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaneBlock {
    /// Decoded bytes of the block.
    pub len: usize,
    /// Bytes at the start of the output that were written. The rest was **not** written; it is zero, or see
    /// [`repeats`](Self::repeats). In a bit-shuffled block this is a whole number of planes, or all of the block.
    pub decoded: usize,
    /// Whether every plane that was not written equals the last one that was. Only where the block is bit-shuffled.
    pub repeats: bool,
    /// Whether the block is bit-shuffled; otherwise it holds plain (or byte-shuffled, see
    /// [`BloscHeader::block_shuffle`]) elements.
    pub bit_planes: bool,
    /// Bytes of one bit-plane, an eighth of the number of elements; 0 where the block is not bit-shuffled.
    pub plane_len: usize,
}

impl PlaneBlock {
    /// Number of planes that were written; the others are zero or equal the last one. 0 where the block is not bit-shuffled.
    pub fn n_planes(&self) -> usize {
        self.decoded.checked_div(self.plane_len).unwrap_or(0)
    }
}

/// Decompresses a whole container, un-shuffled, into `dst`. The container must hold exactly `expected_len` bytes, and
/// so must `dst`.
pub fn decompress(
    src: &[u8],
    expected_len: usize,
    dst: &mut [u8],
    scratch: &mut Scratch,
) -> Result<(), CodecError> {
    let header = BloscHeader::parse(src)?;
    if header.nbytes() != expected_len || dst.len() != expected_len {
        return Err(format!(
            "blosc: the container holds {} bytes, expected {expected_len} (room for {})",
            header.nbytes(),
            dst.len()
        )
        .into());
    }
    for i in 0..header.n_blocks() {
        let block = dst.get_mut(header.block_range(i)).unwrap_or_default();
        decompress_block(&header, src, i, block, scratch)?;
    }
    Ok(())
}

/// Decompresses and un-shuffles block `i` into the first `header.block_len(i)` bytes of `dst`.
pub fn decompress_block(
    header: &BloscHeader,
    src: &[u8],
    i: usize,
    dst: &mut [u8],
    scratch: &mut Scratch,
) -> Result<(), CodecError> {
    let shuffle = header.block_shuffle(i);
    if shuffle == Shuffle::None {
        return decompress_block_raw(header, src, i, dst, scratch);
    }
    let dst = room(header, i, dst)?;
    // Taken out of `scratch`, which decompression needs.
    let mut buffer = std::mem::take(&mut scratch.block);
    let block = buffer.slice(dst.len());
    let result = if shuffle == Shuffle::Bit && header.typesize() == 1 {
        decompress_block_planes(header, src, i, block, scratch).map(|planes| {
            let planes = with_repeated(planes, block);
            unshuffle::bits_of_planes(used_planes(&planes, block), block, dst);
        })
    } else {
        decompress_block_raw(header, src, i, block, scratch).map(|()| match shuffle {
            Shuffle::Bit => unshuffle::bits(header.typesize(), block, dst),
            _ => unshuffle::bytes(header.typesize(), block, dst),
        })
    };
    scratch.block = buffer;
    result
}

/// Decompresses block `i` into the first `header.block_len(i)` bytes of `dst`, still shuffled as
/// [`BloscHeader::block_shuffle`] says.
pub fn decompress_block_raw(
    header: &BloscHeader,
    src: &[u8],
    i: usize,
    dst: &mut [u8],
    scratch: &mut Scratch,
) -> Result<(), CodecError> {
    let mut rest = room(header, i, dst)?;
    for split in header.splits(src, i)? {
        let split = split?;
        let Some((to, tail)) = std::mem::take(&mut rest).split_at_mut_checked(split.len) else {
            return Err(format!("blosc: block {i}: its splits are longer than the block").into());
        };
        decompress_split(header.compressor(), &split, to, scratch)
            .map_err(|e| format!("blosc: block {i}: {e}"))?;
        rest = tail;
    }
    Ok(())
}

/// Decompresses block `i`, still shuffled, into the start of `dst`, which has room for `header.block_len(i)` bytes;
/// planes of zeros or copies at the end of the block's zstd frame are not written.
pub fn decompress_block_planes(
    header: &BloscHeader,
    src: &[u8],
    i: usize,
    dst: &mut [u8],
    scratch: &mut Scratch,
) -> Result<PlaneBlock, CodecError> {
    let dst = room(header, i, dst)?;
    let len = dst.len();
    let bit_planes = header.block_shuffle(i) == Shuffle::Bit;
    let plane_len = if bit_planes {
        len / header.typesize() / 8
    } else {
        0
    };
    let mut block = PlaneBlock {
        len,
        decoded: len,
        repeats: false,
        bit_planes,
        plane_len,
    };
    if header.compressor() == Compressor::Zstd
        && header.n_splits(i) == 1
        && let Some(split) = header.splits(src, i)?.next().transpose()?
        && !split.stored
    {
        let planes = decompress_planes(split.payload, dst, plane_len, &mut scratch.zstd)
            .map_err(|e| format!("blosc: block {i}: {e}"))?;
        (block.decoded, block.repeats) = (planes.written, planes.repeats);
        return Ok(block);
    }
    decompress_block_raw(header, src, i, dst, scratch)?;
    Ok(block)
}

/// Writes the planes that equal the last one that was written.
fn with_repeated(planes: PlaneBlock, block: &mut [u8]) -> PlaneBlock {
    if !planes.repeats || planes.plane_len == 0 {
        return planes;
    }
    let (written, missing) = block.split_at_mut(planes.decoded);
    let last = written.len() - planes.plane_len;
    for plane in missing.chunks_exact_mut(planes.plane_len) {
        plane.copy_from_slice(written.get(last..).unwrap_or_default());
    }
    PlaneBlock {
        decoded: planes.len,
        repeats: false,
        ..planes
    }
}

/// Planes of a decompressed block up to the last that is not all zero. This check costs far less than un-shuffling zeros.
fn used_planes(planes: &PlaneBlock, block: &[u8]) -> usize {
    let is_zero = |k: usize| {
        let plane = block.get(k * planes.plane_len..(k + 1) * planes.plane_len);
        plane.is_some_and(|plane| {
            plane
                .chunks(64)
                .all(|bytes| bytes.iter().fold(0, |all, byte| all | byte) == 0)
        })
    };
    let n = planes.n_planes();
    (0..n).rev().find(|k| !is_zero(*k)).map_or(0, |k| k + 1)
}

/// Decompresses one split into `dst`, which has its decoded length.
fn decompress_split(
    compressor: Compressor,
    split: &Split<'_>,
    dst: &mut [u8],
    scratch: &mut Scratch,
) -> Result<(), CodecError> {
    if split.stored {
        dst.copy_from_slice(split.payload);
        return Ok(());
    }
    let written = match compressor {
        Compressor::Blosclz => blosclz::decompress(split.payload, dst)?,
        Compressor::Lz4 => {
            lz4_flex::block::decompress_into(split.payload, dst).map_err(|e| format!("lz4: {e}"))?
        }
        Compressor::Snappy => snap::raw::Decoder::new()
            .decompress(split.payload, dst)
            .map_err(|e| format!("snappy: {e}"))?,
        // Bytes after the stream are ignored, as by zlib's `uncompress` and so by c-blosc.
        Compressor::Zlib => return scratch.zlib_prefix(split.payload, dst).map(drop),
        Compressor::Zstd => scratch.zstd.decompress(split.payload, dst)?,
    };
    if written != dst.len() {
        return Err(format!(
            "{}: decoded {written} bytes, expected {}",
            compressor.name(),
            dst.len()
        )
        .into());
    }
    Ok(())
}

/// The part of `dst` that block `i` fills.
fn room<'a>(header: &BloscHeader, i: usize, dst: &'a mut [u8]) -> Result<&'a mut [u8], CodecError> {
    let (len, room) = (header.block_len(i), dst.len());
    if len == 0 {
        return Err(format!("blosc: there is no block {i}, only {}", header.n_blocks()).into());
    }
    dst.get_mut(..len).ok_or_else(|| {
        format!("blosc: block {i} has {len} bytes, the output has room for {room}").into()
    })
}
