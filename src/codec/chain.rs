//! An array's codec chain as data.
//!
//! Built once per array from its metadata; whatever cannot be decoded is refused here, by name, before any chunk is
//! read. A chain is: transposes, one serializer, bytes → bytes codecs. `decode` runs it backwards.

use super::bytes_codec::{self, BytesCodec};
use super::endian;
use super::fill::Fill;
use super::sharding::Sharding;
use super::transpose::Transpose;
use crate::store::{ArrayMeta, CodecSpec, ElementType, Endianness, FillValue, MAX_CHUNK_BYTES};

/// How elements become bytes.
#[derive(Debug, Clone)]
pub enum Serializer {
    /// One after the other.
    Bytes(Endianness),
    /// Variable-length strings.
    VlenUtf8,
    /// A grid of smaller chunks.
    Sharding(Box<Sharding>),
}

/// A parsed and checked codec chain, with what is needed to decode chunks: their shape, element type and fill value.
#[derive(Debug, Clone)]
pub struct CodecChain {
    pub(super) element: ElementType,
    pub(super) shape: Vec<usize>,
    pub(super) elements: usize,
    pub(super) transpose: Transpose,
    pub(super) serializer: Serializer,
    /// In encoding order.
    pub(super) compressors: Vec<BytesCodec>,
    pub(super) fill: Fill,
}

impl CodecChain {
    /// Parses the codecs of an array. The error names the codec that is not supported, and what is.
    pub fn try_new(array: &ArrayMeta) -> Result<CodecChain, String> {
        let shape = array
            .chunks
            .iter()
            .map(|len| usize::try_from(*len))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| format!("chunks of shape {:?} are too large", array.chunks))?;
        Self::parse(array.element, &array.fill_value, &shape, &array.codecs, 0)
    }

    pub(super) fn parse(
        element: ElementType,
        fill_value: &FillValue,
        shape: &[usize],
        codecs: &[CodecSpec],
        depth: usize,
    ) -> Result<CodecChain, String> {
        // Text of variable length takes at least four bytes.
        let size = element.size().unwrap_or(4);
        let elements = shape.iter().try_fold(1usize, |n, len| n.checked_mul(*len));
        let elements = elements
            .filter(|n| {
                n.checked_mul(size)
                    .is_some_and(|len| len as u64 <= MAX_CHUNK_BYTES)
            })
            .ok_or_else(|| {
                format!(
                    "a chunk of shape {shape:?} of {element} is larger than {MAX_CHUNK_BYTES} bytes"
                )
            })?;

        let mut transpose = Transpose::identity(shape.len());
        let mut serializer = None;
        let mut compressors = Vec::new();
        for codec in codecs {
            let name = codec.name.strip_prefix("numcodecs.").unwrap_or(&codec.name);
            let configuration = &codec.configuration;
            if serializer.is_some() {
                match BytesCodec::parse(name, configuration, &element)? {
                    Some(codec) => compressors.push(codec),
                    None => return Err(unsupported(&codec.name, "after the array's bytes")),
                }
                continue;
            }
            serializer = match name {
                "transpose" => {
                    transpose.then(configuration)?;
                    None
                }
                "bytes" if element != ElementType::String => {
                    Some(Serializer::Bytes(endian::parse(configuration, &element)?))
                }
                "vlen-utf8" if element == ElementType::String => Some(Serializer::VlenUtf8),
                "sharding_indexed" => {
                    let shape = transpose.encoded_shape(shape);
                    let sharding =
                        Sharding::parse(configuration, element, fill_value, &shape, depth)?;
                    Some(Serializer::Sharding(Box::new(sharding)))
                }
                _ => {
                    return Err(unsupported(
                        &codec.name,
                        &format!("on elements of type {element}"),
                    ));
                }
            };
        }
        let Some(serializer) = serializer else {
            return Err(
                "no codec turns elements into bytes: 'bytes', 'vlen-utf8' or 'sharding_indexed'"
                    .to_string(),
            );
        };
        let fill = Fill::new(&element, fill_value)?;
        Ok(CodecChain {
            element,
            shape: shape.to_vec(),
            elements,
            transpose,
            serializer,
            compressors,
            fill,
        })
    }

    /// Type of an element.
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// Shape of a chunk.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Elements of a chunk.
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// The transposes before everything else, as one.
    pub fn transpose(&self) -> &Transpose {
        &self.transpose
    }

    /// How elements become bytes.
    pub fn serializer(&self) -> &Serializer {
        &self.serializer
    }

    /// The bytes → bytes codecs, in encoding order.
    pub fn compressors(&self) -> &[BytesCodec] {
        &self.compressors
    }

    /// Bytes of a decoded chunk of fixed-size elements.
    pub fn fixed_len(&self) -> Result<usize, String> {
        let len = self
            .element
            .size()
            .and_then(|size| self.elements.checked_mul(size));
        len.ok_or_else(|| format!("elements of type {} have no fixed size", self.element))
    }

    /// Whether a chunk is a shard.
    pub fn is_sharded(&self) -> bool {
        matches!(self.serializer, Serializer::Sharding(_))
    }

    /// The sharding codec, where inner chunks can be read on their own: nothing transposes the shard or encodes it
    /// further.
    pub fn sharding(&self) -> Option<&Sharding> {
        match &self.serializer {
            Serializer::Sharding(sharding)
                if self.compressors.is_empty() && self.transpose.is_identity() =>
            {
                Some(sharding)
            }
            _ => None,
        }
    }

    /// `Some` if a chunk is one Blosc container of one-byte numbers in row-major order, so that bit-planes can be counted
    /// in its blocks.
    pub fn as_plain_blosc(&self) -> Option<()> {
        let numbers = self.element.size() == Some(1) && !self.is_text();
        match (&self.serializer, self.compressors.as_slice()) {
            (Serializer::Bytes(_), [BytesCodec::Blosc { .. }])
                if numbers && self.transpose.is_identity() =>
            {
                Some(())
            }
            _ => None,
        }
    }

    /// A short description: `blosc(zstd, bitshuffle)`, `vlen-utf8, zstd`, `sharding(100x10: gzip)`, `uncompressed`.
    pub fn summary(&self) -> String {
        let mut parts = Vec::new();
        if !self.transpose.is_identity() {
            parts.push("transpose".to_string());
        }
        match &self.serializer {
            Serializer::Bytes(endianness) if *endianness != endian::NATIVE => {
                parts.push(format!("{endianness}-endian"));
            }
            Serializer::Bytes(_) => {}
            Serializer::VlenUtf8 => parts.push("vlen-utf8".to_string()),
            Serializer::Sharding(sharding) => {
                let shape: Vec<String> = sharding
                    .inner_shape()
                    .iter()
                    .map(usize::to_string)
                    .collect();
                parts.push(format!(
                    "sharding({}: {})",
                    shape.join("x"),
                    sharding.inner().summary()
                ));
            }
        }
        parts.extend(self.compressors.iter().map(BytesCodec::summary));
        if self.compressors.is_empty() && !self.is_sharded() {
            parts.push("uncompressed".to_string());
        }
        parts.join(", ")
    }

    fn is_text(&self) -> bool {
        matches!(
            self.element,
            ElementType::Bytes(_) | ElementType::Unicode(_) | ElementType::String
        )
    }
}

fn unsupported(name: &str, place: &str) -> String {
    format!(
        "the codec '{name}' is not supported {place}; supported are: transpose; bytes, vlen-utf8 (strings), \
         sharding_indexed; {}",
        bytes_codec::SUPPORTED
    )
}

#[cfg(test)]
#[path = "chain_tests.rs"]
mod tests;
