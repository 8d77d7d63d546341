//! The encodings of a tile that a device can decode, and the plan of a tile that is one frame.

use std::ops::Range;

use super::chunk_plan::{BlockLocation, ChunkPlan, FrameCodec, PlannedBlock, PlannedFrame};
use super::tile::TileShape;
use super::zstd::zstd_summary;
use super::{blosc, deflate};
use crate::codec::blosc::{Compressor, Shuffle};
use crate::codec::{BytesCodec, CodecChain, Serializer, checksum};
use crate::gpu::error::GpuError;

/// The encoding of a tile.
#[derive(Debug, Clone)]
pub(super) struct Encoding {
    compression: Compression,
    checksums: Vec<Crc32c>,
}

#[derive(Debug, Clone, Copy)]
enum Compression {
    None,
    Blosc,
    /// All bytes are one frame.
    Frame(Wrapping),
}

/// The wrapping of a frame.
#[derive(Debug, Clone, Copy)]
enum Wrapping {
    /// Nothing.
    Zstd,
    /// numcodecs' length of an LZ4 block.
    Lz4,
    /// A DEFLATE stream's header and trailer.
    Gzip,
    /// A DEFLATE stream's header and trailer.
    Zlib,
}

/// An outermost checksum. The host verifies it, while the bytes are in its caches.
#[derive(Debug, Clone, Copy)]
pub(super) struct Crc32c {
    at_start: bool,
}

impl Encoding {
    /// The encoding of tiles by `chain`. The error says why a device cannot decode them.
    pub(super) fn try_new(chain: &CodecChain) -> Result<Encoding, GpuError> {
        if !chain.transpose().is_identity() {
            return Err("transposed chunks are decoded on the host".into());
        }
        match chain.serializer() {
            Serializer::Bytes(_) => {}
            Serializer::Sharding(_) => {
                return Err("shards in shards are decoded on the host".into());
            }
            Serializer::Vlen(_) => return Err("text is decoded on the host".into()),
            Serializer::Foreign(foreign) => {
                return Err(format!("{} is decoded on the host", foreign.summary()).into());
            }
        }
        let (codecs, checksums) = outermost_checksums(chain.compressors());
        let compression = match codecs {
            [] => Compression::None,
            [BytesCodec::Crc32c { .. }, ..] | [_, BytesCodec::Crc32c { .. }, ..] => {
                return Err("crc32c inside a compressor is checked on the host".into());
            }
            [BytesCodec::Blosc { compressor, .. }] => match compressor {
                Compressor::Zstd | Compressor::Lz4 | Compressor::Zlib => Compression::Blosc,
                Compressor::Blosclz | Compressor::Snappy => {
                    return Err(blosc::no_decoder(*compressor).into());
                }
            },
            [BytesCodec::Zstd] => Compression::Frame(Wrapping::Zstd),
            [BytesCodec::Lz4] => Compression::Frame(Wrapping::Lz4),
            [BytesCodec::Gzip] => Compression::Frame(Wrapping::Gzip),
            [BytesCodec::Zlib] => Compression::Frame(Wrapping::Zlib),
            [first, second, ..] => {
                return Err(format!(
                    "one compressor after another ({}, then {}) is decoded on the host",
                    first.summary(),
                    second.summary()
                )
                .into());
            }
        };
        Ok(Encoding {
            compression,
            checksums,
        })
    }

    /// Whether encoded tiles are exactly their elements.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self.compression, Compression::None) && self.checksums.is_empty()
    }

    /// Plans the tile whose encoded bytes are `piece` of `encoded`. Returns the elements of each of its blocks but the last.
    pub(super) fn plan(
        &self,
        encoded: &[u8],
        piece: Range<usize>,
        tile: &TileShape,
        plan: &mut ChunkPlan,
    ) -> Result<u32, GpuError> {
        let piece = strip(&self.checksums, encoded, piece)?;
        let bytes = encoded
            .get(piece.clone())
            .ok_or("a range outside the chunk")?;
        match self.compression {
            Compression::Blosc => return blosc::plan(bytes, piece.start, tile, plan),
            Compression::Frame(wrapping) => {
                bare_frame(wrapping, bytes, piece.start, tile, plan)?;
            }
            Compression::None if bytes.len() == tile.len => {
                plan.encoded_block(piece, tile.elements, Shuffle::None, 1)?;
            }
            Compression::None => {
                return Err(format!("{} bytes, expected {}", bytes.len(), tile.len).into());
            }
        }
        Ok(tile.elements)
    }
}

/// Plans a tile that is one frame.
fn bare_frame(
    wrapping: Wrapping,
    bytes: &[u8],
    start: usize,
    tile: &TileShape,
    plan: &mut ChunkPlan,
) -> Result<(), GpuError> {
    let (codec, part, check) = match wrapping {
        Wrapping::Lz4 => {
            // numcodecs: the decoded length, then a raw block.
            let len = bytes.first_chunk::<4>().map(|len| u32::from_le_bytes(*len));
            if len.map(|len| len as usize) != Some(tile.len) {
                return Err(
                    format!("lz4: the header says {len:?} bytes, expected {}", tile.len).into(),
                );
            }
            (FrameCodec::Lz4, 4..bytes.len(), None)
        }
        Wrapping::Gzip => {
            let (stream, check) = deflate::gzip(bytes, tile.len)?;
            (FrameCodec::Deflate, stream, Some(check))
        }
        Wrapping::Zlib => {
            let (stream, check) = deflate::zlib(bytes)?;
            (FrameCodec::Deflate, stream, Some(check))
        }
        Wrapping::Zstd => {
            zstd_summary(bytes, tile.len)?;
            (FrameCodec::Zstd, 0..bytes.len(), None)
        }
    };
    let dst = plan.room(tile.len)?;
    plan.frame(PlannedFrame {
        codec,
        src: start + part.start..start + part.end,
        dst,
        len: tile.len,
        check,
    })?;
    plan.block(PlannedBlock {
        location: BlockLocation::Decoded(dst),
        elements: tile.elements,
        shuffle: Shuffle::None,
        planes: 1,
        repeats: false,
    })
}

/// Splits off the outermost checksums; they are in decoding order.
pub(super) fn outermost_checksums(codecs: &[BytesCodec]) -> (&[BytesCodec], Vec<Crc32c>) {
    let (mut rest, mut checksums) = (codecs, Vec::new());
    while let Some((BytesCodec::Crc32c { at_start }, before)) = rest.split_last() {
        checksums.push(Crc32c {
            at_start: *at_start,
        });
        rest = before;
    }
    (rest, checksums)
}

/// Verifies the checksums around `range` of `encoded`. Returns the range that they protect.
pub(super) fn strip(
    checksums: &[Crc32c],
    encoded: &[u8],
    mut range: Range<usize>,
) -> Result<Range<usize>, GpuError> {
    for Crc32c { at_start } in checksums {
        let bytes = encoded
            .get(range.clone())
            .ok_or("a range outside the chunk")?;
        checksum::strip(bytes, *at_start)?;
        if *at_start {
            range.start += checksum::LEN;
        } else {
            range.end -= checksum::LEN;
        }
    }
    Ok(range)
}
