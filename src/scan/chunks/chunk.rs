//! [`Chunk`]: one chunk of an array, encoded, decoded, or as counts; and its index in the array.

use arrow::buffer::Buffer;
use bytes::Bytes;

use crate::codec::{ChunkData, CodecChain, CodecError, Scratch};
use crate::counts::ComputedCounts;
use crate::store::ArrayMeta;

/// A chunk of an array, in the state in which it is passed to its consumer.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(
    not(feature = "gpu"),
    allow(dead_code, reason = "only a GPU decodes before the consumer does")
)]
pub enum Chunk {
    /// Not stored: all its elements are the fill value.
    Absent,
    /// The encoded bytes.
    Encoded(Bytes),
    /// All its elements, native-endian, padding included.
    Decoded(Buffer),
    /// The results of a GPU, as far as they were requested.
    Computed {
        /// Counts of genotypes and their bit-planes, for [`Counter::add_computed`](crate::counts::Counter::add_computed).
        counts: Option<ComputedCounts>,
        /// The elements of the selected samples, native-endian: `rows × samples × copies`.
        selected: Option<Buffer>,
    },
    /// Genotypes whose calls the host filters, since a GPU did not.
    Unfiltered(Unfiltered),
}

/// The encoded bytes of genotypes and of the fields that filter their calls; `None` for absent chunks.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(
    not(feature = "gpu"),
    allow(dead_code, reason = "only a GPU leaves filters to the host")
)]
pub struct Unfiltered {
    /// The genotypes.
    pub genotypes: Option<Bytes>,
    /// Each field.
    pub fields: Vec<Option<Bytes>>,
}

impl Chunk {
    /// A chunk as the store returned it.
    pub fn stored(encoded: Option<Bytes>) -> Self {
        encoded.map_or(Self::Absent, Self::Encoded)
    }

    /// All its elements.
    ///
    /// # Errors
    /// The reason why it cannot be decoded.
    pub fn decode(
        &self,
        chain: &CodecChain,
        scratch: &mut Scratch,
    ) -> Result<ChunkData, CodecError> {
        match self {
            Self::Absent => chain.fill_chunk(),
            Self::Encoded(bytes) => chain.decode(bytes, scratch),
            Self::Decoded(buffer) => Ok(ChunkData::Fixed(buffer.clone())),
            Self::Computed { .. } => Err("its elements are wanted, but it was only counted".into()),
            Self::Unfiltered(_) => Err("its calls have not been filtered".into()),
        }
    }

    /// Number of encoded bytes, if it is encoded.
    pub fn encoded_len(&self) -> Option<usize> {
        match self {
            Self::Encoded(bytes) => Some(bytes.len()),
            _ => None,
        }
    }
}

/// One of the chunks that make up a variant chunk.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Its index along the axes after variants.
    pub trailing: Vec<u64>,
    /// The chunk.
    pub chunk: Chunk,
}

/// The chunk indices along the axes after variants, in row-major order.
pub fn trailing_chunks(array: &ArrayMeta) -> Vec<Vec<u64>> {
    let grid = array.grid_shape();
    let mut all = vec![vec![]];
    for &n in grid.iter().skip(1) {
        all = all
            .into_iter()
            .flat_map(|at| (0..n).map(move |i| [at.as_slice(), &[i]].concat()))
            .collect();
    }
    all
}

/// The full index of a chunk.
pub fn chunk_index(variant_chunk: u64, trailing: &[u64]) -> Vec<u64> {
    [&[variant_chunk], trailing].concat()
}

/// The index of the first chunk of a variant chunk.
pub fn first_index(variant_chunk: u64, array: &ArrayMeta) -> Vec<u64> {
    let mut index = vec![0; array.rank()];
    index[0] = variant_chunk;
    index
}
