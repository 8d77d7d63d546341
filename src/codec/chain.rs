//! An array's codec chain as data: transposes, one serializer, bytes → bytes codecs.
//!
//! `parse` builds it once per array; `decode` and `sharding` run it backwards.

use std::sync::Arc;

use super::CodecError;
use super::ForeignChain;
use super::bytes_codec::BytesCodec;
use super::endian;
use super::fill::Fill;
use super::shard_index::IndexLayout;
use super::transpose::Transpose;
use crate::store::{ElementType, Endianness};

/// How elements become bytes.
#[derive(Debug, Clone)]
pub enum Serializer {
    /// One after the other.
    Bytes(Endianness),
    /// Variable-length strings.
    Vlen(&'static str),
    /// A grid of smaller chunks.
    Sharding(Box<Sharding>),
    /// All codecs of a chain with one that is left to the host, and so no others.
    Foreign(Arc<ForeignChain>),
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

/// The `sharding_indexed` codec with its configuration, for shards of one shape.
#[derive(Debug, Clone)]
pub struct Sharding {
    pub(super) shape: Vec<usize>,
    pub(super) inner_shape: Vec<usize>,
    pub(super) grid: Vec<usize>,
    pub(super) n_inner: usize,
    pub(super) inner: CodecChain,
    pub(super) index: IndexLayout,
}

impl CodecChain {
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
    pub fn fixed_len(&self) -> Result<usize, CodecError> {
        let len = self
            .element
            .size()
            .and_then(|size| self.elements.checked_mul(size));
        len.ok_or_else(|| format!("elements of type {} have no fixed size", self.element).into())
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
            Serializer::Vlen(name) => parts.push((*name).to_string()),
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
            Serializer::Foreign(foreign) => return foreign.summary().to_owned(),
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

#[cfg(test)]
#[path = "chain_tests.rs"]
mod tests;
