//! Which arrays a GPU can decode, and the plan of each of their chunks.

use std::ops::Range;

use super::chunk_plan::{ChunkPlan, Frame, FrameCodec, Place, PlannedBlock, Tile};
use super::estimate::{self, Estimate};
use super::{blosc, deflate};
use crate::codec::blosc::{Compressor, Shuffle};
use crate::codec::zstd_frame::FrameSummary;
use crate::codec::{BytesCodec, CodecChain, Serializer, Sharding, checksum};
use crate::store::{ArrayMeta, ElementType, Endianness, FillValue};

/// Plans the chunks of one array. Built once per array, and shared by the threads that read its chunks.
#[derive(Debug, Clone)]
pub struct ChunkPlanner {
    /// Of the chunk's object; no compressor is outside a shard.
    outer: Vec<Crc32c>,
    sharding: Option<Sharding>,
    encoding: Encoding,
    tile: TileShape,
    chunk_len: usize,
    big_endian: bool,
    summary: String,
    estimate: Estimate,
}

/// How one tile's bytes are encoded.
#[derive(Debug, Clone)]
struct Encoding {
    compressor: Option<Codec>,
    checksums: Vec<Crc32c>,
}

#[derive(Debug, Clone, Copy)]
enum Codec {
    Blosc,
    Zstd,
    Lz4,
    Gzip,
    Zlib,
}

/// A checksum after everything else. Checked on the host, while the bytes are in its caches.
#[derive(Debug, Clone, Copy)]
struct Crc32c {
    at_start: bool,
}

/// The shape of a tile, and its sizes.
#[derive(Debug, Clone)]
pub(super) struct TileShape {
    rows: u32,
    samples: u32,
    copies: u32,
    pub(super) elements: u32,
    /// Bytes of an element: 1, 2, 4 or 8.
    pub(super) width: usize,
    /// Bytes of the tile.
    pub(super) len: usize,
}

impl ChunkPlanner {
    /// Looks at an array and its chain, which must be [`CodecChain::try_new`] of it.
    ///
    /// # Errors
    /// The reason, in words, where a GPU cannot decode this array.
    pub fn try_new(array: &ArrayMeta, chain: &CodecChain) -> Result<ChunkPlanner, String> {
        if array.element.is_text() {
            return Err("text is decoded on the host".to_string());
        }
        if !chain.transpose().is_identity() {
            return Err("transposed chunks are decoded on the host".to_string());
        }
        // Absent chunks are zeros to a device.
        match &array.fill_value {
            FillValue::Null => {}
            FillValue::Bytes(bytes) if bytes.iter().all(|byte| *byte == 0) => {}
            _ => return Err("a fill value other than 0 is left to the host".to_string()),
        }
        let (sharding, encoding, inner) = match chain.serializer() {
            Serializer::Sharding(sharding) => (
                Some(sharding.as_ref().clone()),
                Encoding::try_new(sharding.inner(), "inside a shard")?,
                sharding.inner(),
            ),
            _ => (None, Encoding::try_new(chain, "")?, chain),
        };
        let outer = match &sharding {
            Some(_) => {
                let (rest, checksums) = outermost_checksums(chain.compressors());
                if let Some(codec) = rest.first() {
                    return Err(format!(
                        "shards that are compressed again ({}) are decoded on the host",
                        codec.summary()
                    ));
                }
                checksums
            }
            None => Vec::new(),
        };
        let tile = TileShape::try_new(array.element, inner.shape())?;
        check_copies(array, inner.shape(), sharding.as_ref())?;
        let chunk_len = chain.fixed_len()?;
        if u32::try_from(chunk_len).is_err() {
            return Err(format!(
                "chunks of {chunk_len} bytes are too large for the GPU, which takes less than 4 GiB"
            ));
        }
        let big_endian = matches!(inner.serializer(), Serializer::Bytes(Endianness::Big));
        Ok(ChunkPlanner {
            estimate: estimate::of(array, chain, chunk_len),
            summary: chain.summary(),
            big_endian: big_endian && tile.width > 1,
            outer,
            sharding,
            encoding,
            tile,
            chunk_len,
        })
    }

    /// Plans one encoded chunk, which is all bytes of its object. `plan` is cleared and filled.
    ///
    /// `encoded` is a copy of the chunk for the device: frames that end in zeros are cut there, which
    /// [`ChunkPlan::restore`] undoes. After an error it is as it was, and `plan` is empty.
    ///
    /// # Errors
    /// The reason why this chunk is left to the host, which decodes it or finds out what is wrong.
    pub fn plan(&self, encoded: &mut [u8], plan: &mut ChunkPlan) -> Result<(), String> {
        plan.clear();
        let result = self.fill(encoded, plan).and_then(|()| plan.finish(encoded));
        if result.is_err() {
            plan.clear();
        }
        result
    }

    /// What a chunk is expected to cost, from metadata alone.
    pub fn estimate(&self) -> Estimate {
        self.estimate
    }

    /// A short description of the encoding, e.g. `blosc(zstd, bitshuffle)`.
    pub fn summary(&self) -> String {
        self.summary.clone()
    }

    /// Whether the bytes of every element are stored the most significant first.
    pub fn big_endian(&self) -> bool {
        self.big_endian
    }

    /// Bytes of an element: 1, 2, 4 or 8.
    pub fn width(&self) -> usize {
        self.tile.width
    }

    /// Bytes of a decoded chunk.
    pub fn chunk_len(&self) -> usize {
        self.chunk_len
    }

    fn fill(&self, encoded: &[u8], plan: &mut ChunkPlan) -> Result<(), String> {
        let object = strip(&self.outer, encoded, 0..encoded.len())?;
        let Some(sharding) = &self.sharding else {
            return self.tile(encoded, object, [0, 0], plan);
        };
        let columns = sharding.grid().get(1).copied().unwrap_or(1);
        plan.shared_rows = columns > 1;
        self.inner_tiles(encoded, object, sharding, columns, plan)
    }

    /// Plans the inner chunks of a shard, `columns` to a band of rows.
    fn inner_tiles(
        &self,
        encoded: &[u8],
        shard: Range<usize>,
        sharding: &Sharding,
        columns: usize,
        plan: &mut ChunkPlan,
    ) -> Result<(), String> {
        let bytes = encoded.get(shard.clone()).unwrap_or_default();
        // Taken out, so that the plan can be written while it is read.
        let mut index = std::mem::take(&mut plan.index);
        let mut run = || {
            sharding.read_index(bytes, &mut index)?;
            for (i, range) in index.ranges().iter().enumerate() {
                // Below the lengths of the chunk, which were checked.
                let row0 = (i / columns) as u32 * self.tile.rows;
                let sample0 = (i % columns) as u32 * self.tile.samples;
                let Some(range) = range else {
                    self.absent_tile([row0, sample0], plan)?;
                    continue;
                };
                // The index was checked against the shard's length.
                let piece = shard.start + range.start as usize..shard.start + range.end as usize;
                self.tile(encoded, piece, [row0, sample0], plan)
                    .map_err(|e| format!("inner chunk {i}: {e}"))?;
            }
            Ok(())
        };
        let result = run();
        plan.index = index;
        result
    }

    /// A tile of zeros.
    fn absent_tile(&self, origin: [u32; 2], plan: &mut ChunkPlan) -> Result<(), String> {
        let first = plan.blocks.len();
        plan.block(PlannedBlock {
            place: Place::Zero,
            elements: self.tile.elements,
            shuffle: Shuffle::None,
            planes: 0,
        })?;
        self.push_tile(first, self.tile.elements, origin, plan);
        Ok(())
    }

    /// Plans the tile whose encoded bytes are `piece` of `encoded`.
    fn tile(
        &self,
        encoded: &[u8],
        piece: Range<usize>,
        origin: [u32; 2],
        plan: &mut ChunkPlan,
    ) -> Result<(), String> {
        let (first, tile) = (plan.blocks.len(), &self.tile);
        let piece = strip(&self.encoding.checksums, encoded, piece)?;
        let bytes = encoded
            .get(piece.clone())
            .ok_or("a range outside the chunk")?;
        let block_elements = match self.encoding.compressor {
            Some(Codec::Blosc) => blosc::plan(bytes, piece.start, tile, plan)?,
            None => {
                if bytes.len() != tile.len {
                    return Err(format!("{} bytes, expected {}", bytes.len(), tile.len));
                }
                plan.encoded_block(piece, tile.elements, Shuffle::None, 1)?;
                tile.elements
            }
            Some(codec) => {
                self.bare_frame(codec, bytes, piece, plan)?;
                tile.elements
            }
        };
        self.push_tile(first, block_elements, origin, plan);
        Ok(())
    }

    /// Plans a tile that is one frame.
    fn bare_frame(
        &self,
        codec: Codec,
        bytes: &[u8],
        piece: Range<usize>,
        plan: &mut ChunkPlan,
    ) -> Result<(), String> {
        let tile = &self.tile;
        let whole = 0..bytes.len();
        let (codec, part, check) = match codec {
            Codec::Lz4 => {
                // numcodecs: the decoded length, then a raw block.
                let len = bytes.first_chunk::<4>().map(|len| u32::from_le_bytes(*len));
                if len.map(|len| len as usize) != Some(tile.len) {
                    return Err(format!(
                        "lz4: the header says {len:?} bytes, expected {}",
                        tile.len
                    ));
                }
                (FrameCodec::Lz4, 4..bytes.len(), None)
            }
            Codec::Gzip => {
                let (stream, check) = deflate::gzip(bytes, tile.len)?;
                (FrameCodec::Deflate, stream, Some(check))
            }
            Codec::Zlib => {
                let (stream, check) = deflate::zlib(bytes)?;
                (FrameCodec::Deflate, stream, Some(check))
            }
            Codec::Zstd | Codec::Blosc => {
                zstd_summary(bytes, tile.len)?;
                (FrameCodec::Zstd, whole, None)
            }
        };
        let dst = plan.room(tile.len)?;
        plan.frame(Frame {
            codec,
            src: piece.start + part.start..piece.start + part.end,
            dst,
            len: tile.len,
            check,
        })?;
        plan.block(PlannedBlock {
            place: Place::Decoded(dst),
            elements: tile.elements,
            shuffle: Shuffle::None,
            planes: 1,
        })
    }

    fn push_tile(&self, first: usize, block_elements: u32, origin: [u32; 2], plan: &mut ChunkPlan) {
        let [row0, sample0] = origin;
        let TileShape {
            rows,
            samples,
            copies,
            ..
        } = self.tile;
        plan.tiles.push(Tile {
            blocks: first..plan.blocks.len(),
            block_elements,
            row0,
            rows,
            // No more than the elements of the tile.
            row_elements: samples * copies,
            sample0,
            samples,
            copies,
        });
    }
}

impl Encoding {
    /// The encoding of tiles by `chain`; `place` says where, in messages.
    fn try_new(chain: &CodecChain, place: &str) -> Result<Encoding, String> {
        if !chain.transpose().is_identity() {
            return Err("transposed chunks are decoded on the host".to_string());
        }
        match chain.serializer() {
            Serializer::Bytes(_) => {}
            Serializer::Sharding(_) => {
                return Err("shards in shards are decoded on the host".to_string());
            }
            Serializer::VlenUtf8 => return Err("text is decoded on the host".to_string()),
        }
        let (codecs, checksums) = outermost_checksums(chain.compressors());
        let compressor = match codecs {
            [] => None,
            [BytesCodec::Crc32c { .. }, ..] | [_, BytesCodec::Crc32c { .. }, ..] => {
                return Err("crc32c inside a compressor is checked on the host".to_string());
            }
            [BytesCodec::Blosc { compressor, .. }] => match compressor {
                Compressor::Zstd | Compressor::Lz4 | Compressor::Zlib => Some(Codec::Blosc),
                Compressor::Blosclz | Compressor::Snappy => return Err(no_decoder(*compressor)),
            },
            [BytesCodec::Zstd] => Some(Codec::Zstd),
            [BytesCodec::Lz4] => Some(Codec::Lz4),
            [BytesCodec::Gzip] => Some(Codec::Gzip),
            [BytesCodec::Zlib] => Some(Codec::Zlib),
            [first, second, ..] => {
                let place = if place.is_empty() { "" } else { " " }.to_string() + place;
                return Err(format!(
                    "one compressor after another{place} ({}, then {}) is decoded on the host",
                    first.summary(),
                    second.summary()
                ));
            }
        };
        Ok(Encoding {
            compressor,
            checksums,
        })
    }
}

impl TileShape {
    /// The shape of tiles of `[rows]`, `[rows, samples]` or `[rows, samples, copies]`.
    fn try_new(element: ElementType, shape: &[usize]) -> Result<TileShape, String> {
        let too_large = || format!("chunks of shape {shape:?} are too large for the GPU");
        let width = match element.size() {
            Some(width @ (1 | 2 | 4 | 8)) => width,
            _ => {
                return Err(format!(
                    "elements of type {element} are decoded on the host"
                ));
            }
        };
        let [rows, samples, copies] = match *shape {
            [rows] => [rows, 1, 1],
            [rows, samples] => [rows, samples, 1],
            [rows, samples, copies] => [rows, samples, copies],
            _ => {
                return Err(format!(
                    "an array of {} dimensions is decoded on the host",
                    shape.len()
                ));
            }
        };
        let elements = rows
            .checked_mul(samples)
            .and_then(|n| n.checked_mul(copies))
            .ok_or_else(too_large)?;
        let len = elements.checked_mul(width).ok_or_else(too_large)?;
        let fits = |n: usize| u32::try_from(n).map_err(|_| too_large());
        if elements == 0 {
            return Err(format!("chunks of shape {shape:?} hold nothing"));
        }
        fits(len)?;
        Ok(TileShape {
            rows: fits(rows)?,
            samples: fits(samples)?,
            copies: fits(copies)?,
            elements: fits(elements)?,
            width,
            len,
        })
    }
}

/// Refuses arrays whose third axis is cut by chunks, or by the inner chunks of shards.
fn check_copies(
    array: &ArrayMeta,
    tile: &[usize],
    sharding: Option<&Sharding>,
) -> Result<(), String> {
    let in_shards = sharding.is_none_or(|sharding| sharding.grid().get(2).is_none_or(|n| *n == 1));
    match (array.shape.get(2), tile.get(2)) {
        (Some(copies), Some(len)) if *copies > *len as u64 || !in_shards => Err(format!(
            "chunks of {len} of the {copies} values of a call are decoded on the host"
        )),
        _ => Ok(()),
    }
}

/// Splits off the checksums that come after everything else; these are in decoding order.
fn outermost_checksums(codecs: &[BytesCodec]) -> (&[BytesCodec], Vec<Crc32c>) {
    let (mut rest, mut checksums) = (codecs, Vec::new());
    while let Some((BytesCodec::Crc32c { at_start }, before)) = rest.split_last() {
        checksums.push(Crc32c {
            at_start: *at_start,
        });
        rest = before;
    }
    (rest, checksums)
}

/// Verifies checksums around `range` of `encoded`; the range that they protect.
fn strip(
    checksums: &[Crc32c],
    encoded: &[u8],
    mut range: Range<usize>,
) -> Result<Range<usize>, String> {
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

/// The summary of `frame`, if that is one whole frame of `len` decoded bytes that a device decodes: one that says how
/// many there are, without checksum or dictionary.
pub(super) fn zstd_summary(frame: &[u8], len: usize) -> Result<FrameSummary, String> {
    let summary = FrameSummary::parse(frame)?;
    let header = &summary.header;
    if header.content_size != Some(len as u64) {
        let size = header.content_size;
        return Err(format!("zstd: a content size of {size:?}, expected {len}"));
    }
    if header.checksum || header.dictionary_id != 0 {
        return Err("zstd: a frame with a checksum or a dictionary".to_string());
    }
    if summary.len != frame.len() {
        return Err(format!(
            "zstd: {} bytes, of which a frame takes {}",
            frame.len(),
            summary.len
        ));
    }
    Ok(summary)
}

/// Why a container by this compressor is left to the host.
pub(super) fn no_decoder(compressor: Compressor) -> String {
    format!(
        "the codec {} inside blosc has no decoder on the GPU",
        compressor.name()
    )
}
