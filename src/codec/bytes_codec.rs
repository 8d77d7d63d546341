//! The bytes → bytes codecs as data, and decoding through one of them.
//!
//! To add a codec: a file of its own with its decoder, then a variant and a line in each `match` here.

use serde_json::{Map, Value};

use super::CodecError;
use super::blosc::{self, BloscHeader, Compressor, Shuffle};
use super::{Scratch, checksum, deflate, lz4, zstd};
use crate::store::ElementType;

/// The names that [`BytesCodec::parse`] knows, for messages.
pub(super) const SUPPORTED: &str =
    "blosc (zstd, lz4, lz4hc, zlib, blosclz, snappy), zstd, gzip, zlib, lz4, crc32c";

/// Largest ratio of decoded to encoded bytes of any format here: a run-length encoded zstd block of four bytes is 128 KiB.
/// Deflate reaches 1,032, LZ4 and BloscLZ 255.
pub(super) const MAX_RATIO: usize = 32 * 1024;

/// One bytes → bytes codec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BytesCodec {
    /// A Blosc-1 container. These fields are from the metadata; decoding follows the header of each container.
    Blosc {
        /// The compressor of its splits.
        compressor: Compressor,
        /// Whether the encoder was LZ4HC, which is decoded as LZ4.
        high_compression: bool,
        /// How its blocks are shuffled.
        shuffle: Shuffle,
    },
    /// Zstandard frames.
    Zstd,
    /// Gzip members.
    Gzip,
    /// One zlib stream.
    Zlib,
    /// numcodecs' LZ4: the length, then a raw block.
    Lz4,
    /// A CRC-32C.
    Crc32c {
        /// Whether it comes before the bytes.
        at_start: bool,
    },
}

impl BytesCodec {
    /// The codec called `name` (without a `numcodecs.` prefix); `None` if there is no such codec here.
    pub(super) fn parse(
        name: &str,
        configuration: &Map<String, Value>,
        element: &ElementType,
    ) -> Result<Option<BytesCodec>, CodecError> {
        Ok(Some(match name {
            "blosc" => {
                let cname = match configuration.get("cname") {
                    // The default of numcodecs.
                    None => "lz4",
                    Some(value) => value.as_str().unwrap_or_default(),
                };
                let compressor = match cname {
                    "blosclz" => Compressor::Blosclz,
                    "lz4" | "lz4hc" => Compressor::Lz4,
                    "snappy" => Compressor::Snappy,
                    "zlib" => Compressor::Zlib,
                    "zstd" => Compressor::Zstd,
                    _ => {
                        return Err(format!(
                            "blosc: the compressor '{cname}' is not supported; supported are: {SUPPORTED}"
                        ).into());
                    }
                };
                BytesCodec::Blosc {
                    compressor,
                    high_compression: cname == "lz4hc",
                    shuffle: blosc_shuffle(configuration.get("shuffle"), element)?,
                }
            }
            "zstd" => BytesCodec::Zstd,
            "gzip" => BytesCodec::Gzip,
            "zlib" => BytesCodec::Zlib,
            "lz4" => BytesCodec::Lz4,
            "crc32c" => BytesCodec::Crc32c {
                at_start: match configuration.get("location").map(Value::as_str) {
                    None | Some(Some("end")) => false,
                    Some(Some("start")) => true,
                    Some(_) => {
                        return Err("crc32c: 'location' must be \"start\" or \"end\"".into());
                    }
                },
            },
            _ => return Ok(None),
        }))
    }

    /// Decodes into `dst`, which must be the decoded length.
    pub(super) fn exact(
        &self,
        src: &[u8],
        dst: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), CodecError> {
        match self {
            BytesCodec::Blosc { .. } => blosc::decompress(src, dst.len(), dst, scratch),
            BytesCodec::Zstd => zstd::exact(src, dst, &mut scratch.zstd),
            BytesCodec::Gzip => deflate::gzip_exact(src, dst),
            BytesCodec::Zlib => scratch.zlib_exact(src, dst),
            BytesCodec::Lz4 => lz4::exact(src, dst),
            BytesCodec::Crc32c { at_start } => {
                let bytes = checksum::strip(src, *at_start)?;
                if bytes.len() != dst.len() {
                    return Err(format!("{} bytes, expected {}", bytes.len(), dst.len()).into());
                }
                dst.copy_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// Decodes bytes whose decoded length is not in the metadata; at most `limit` bytes.
    pub(super) fn growing(
        &self,
        src: &[u8],
        limit: usize,
        scratch: &mut Scratch,
    ) -> Result<Vec<u8>, CodecError> {
        match self {
            BytesCodec::Blosc { .. } => {
                let len = BloscHeader::parse(src)?.nbytes();
                if len > limit || len > src.len().saturating_mul(MAX_RATIO) {
                    return Err(format!(
                        "blosc: the header says {len} bytes, more than {} encoded bytes can hold or more than {limit}",
                        src.len()
                    ).into());
                }
                let mut out = vec![0; len];
                blosc::decompress(src, len, &mut out, scratch)?;
                Ok(out)
            }
            BytesCodec::Zstd => zstd::growing(src, limit, &mut scratch.zstd),
            BytesCodec::Gzip => deflate::gzip_growing(src, limit),
            BytesCodec::Zlib => deflate::zlib_growing(src, limit),
            BytesCodec::Lz4 => lz4::growing(src, limit),
            BytesCodec::Crc32c { at_start } => Ok(checksum::strip(src, *at_start)?.to_vec()),
        }
    }

    /// A short description, e.g. `blosc(zstd, bitshuffle)`.
    pub fn summary(&self) -> String {
        match self {
            BytesCodec::Blosc {
                compressor,
                high_compression,
                shuffle,
            } => {
                let hc = if *high_compression { "hc" } else { "" };
                format!("blosc({}{hc}, {})", compressor.name(), shuffle.name())
            }
            BytesCodec::Zstd => "zstd".to_string(),
            BytesCodec::Gzip => "gzip".to_string(),
            BytesCodec::Zlib => "zlib".to_string(),
            BytesCodec::Lz4 => "lz4".to_string(),
            BytesCodec::Crc32c { .. } => "crc32c".to_string(),
        }
    }
}

/// v3 writes a name, v2 a number: 0, 1, 2, or -1 for bit shuffle of one-byte elements and byte shuffle of others.
fn blosc_shuffle(value: Option<&Value>, element: &ElementType) -> Result<Shuffle, CodecError> {
    let wrong = |value: &Value| {
        format!(
            "blosc: 'shuffle' is {value}, expected -1, 0, 1, 2 or \"noshuffle\", \"shuffle\", \"bitshuffle\""
        )
    };
    let Some(value) = value else {
        return Ok(Shuffle::Byte);
    };
    match (value.as_i64(), value.as_str()) {
        (Some(0), _) | (_, Some("noshuffle")) => Ok(Shuffle::None),
        (Some(1), _) | (_, Some("shuffle")) => Ok(Shuffle::Byte),
        (Some(2), _) | (_, Some("bitshuffle")) => Ok(Shuffle::Bit),
        (Some(-1), _) if element.size() == Some(1) => Ok(Shuffle::Bit),
        (Some(-1), _) => Ok(Shuffle::Byte),
        _ => Err(wrong(value).into()),
    }
}
