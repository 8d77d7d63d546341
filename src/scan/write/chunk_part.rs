//! [`ChunkPart`]: the rows of one chunk of a new array, gathered in memory or spilled, and how they become the chunk.

use std::sync::Arc;

use arrow::buffer::Buffer;
use datafusion::common::Result;

use super::array_error::of;
use super::spilled_part::SpilledPart;
use crate::codec::{ChunkData, ChunkEncoder, StringChunk};
use crate::store::write::NewArray;

/// An array that is written, with its encoder.
#[derive(Debug)]
pub struct WrittenArray {
    /// The array.
    pub array: NewArray,
    /// Encodes its chunks.
    pub encoder: ChunkEncoder,
}

impl WrittenArray {
    /// The array with its encoder.
    ///
    /// # Errors
    /// If it cannot be encoded.
    pub fn try_new(array: NewArray) -> Result<Self> {
        let encoder = ChunkEncoder::try_new(&array).map_err(|reason| of(&array, reason))?;
        Ok(Self { array, encoder })
    }

    /// Bytes of an element, if that is one number.
    pub fn size(&self) -> Option<usize> {
        self.array.element.size()
    }

    /// Elements of a row of a full chunk.
    fn padded_width(&self) -> usize {
        self.array
            .chunks
            .iter()
            .skip(1)
            .map(|&n| n as usize)
            .product()
    }

    /// Rows of a full chunk.
    fn chunk_rows(&self) -> usize {
        self.array.chunks.first().map_or(1, |&n| n as usize)
    }
}

/// Elements of some rows of a chunk, without padding.
#[derive(Debug)]
pub enum Rows {
    /// Numbers.
    Fixed(Vec<u8>),
    /// Text.
    Strings(StringChunk),
    /// In a temporary file.
    Spilled(SpilledPart),
}

/// The rows of one chunk.
#[derive(Debug)]
pub struct ChunkPart {
    /// The array.
    pub of: Arc<WrittenArray>,
    /// The chunk's index in the array's grid.
    pub index: Vec<u64>,
    /// Elements of a row, without padding.
    pub width: usize,
    /// How many rows there are.
    pub rows: usize,
    /// Their elements.
    pub elements: Rows,
}

impl ChunkPart {
    /// The array's name.
    pub fn name(&self) -> &str {
        &self.of.array.name
    }

    /// The shape of the array's chunks.
    pub fn shape(&self) -> &[u64] {
        &self.of.array.chunks
    }

    /// The key of the chunk in the store.
    pub fn key(&self) -> String {
        self.of.array.chunk_key(&self.index)
    }

    /// Bytes of the chunk's elements, with padding.
    pub fn decoded_bytes(&self) -> usize {
        let elements = self.of.chunk_rows().saturating_mul(self.of.padded_width());
        match (self.of.size(), &self.elements) {
            (Some(size), _) => elements.saturating_mul(size),
            (None, Rows::Spilled(spilled)) => spilled.bytes().saturating_add(4 * elements),
            (None, Rows::Strings(strings)) => strings.data.len() + 4 * elements,
            (None, Rows::Fixed(_)) => 0,
        }
    }

    /// Bytes of its elements in memory, as they were gathered.
    pub fn gathered_bytes(&self) -> usize {
        match &self.elements {
            Rows::Fixed(bytes) => bytes.len(),
            Rows::Strings(strings) => strings.data.len() + 4 * strings.len(),
            Rows::Spilled(_) => 0,
        }
    }

    /// Bytes that making and encoding the chunk takes at most, beside its gathered elements.
    pub fn needed_bytes(&self) -> usize {
        let decoded = self.decoded_bytes();
        match &self.elements {
            // Offsets are made wider, and text is put together before it is compressed.
            Rows::Strings(_) => decoded.saturating_mul(4),
            Rows::Spilled(_) if self.of.size().is_none() => decoded.saturating_mul(4),
            Rows::Fixed(_) if self.is_whole() => decoded,
            Rows::Fixed(_) | Rows::Spilled(_) => decoded.saturating_mul(2),
        }
    }

    fn is_whole(&self) -> bool {
        self.rows == self.of.chunk_rows() && self.width == self.of.padded_width()
    }

    /// The encoded chunk; `None` if it is left out, because all its elements are the fill value.
    ///
    /// # Errors
    /// If it cannot be encoded, or the temporary file cannot be read.
    pub fn encode(self) -> Result<Option<Vec<u8>>> {
        let of_array = Arc::clone(&self.of);
        let chunk = self.chunk()?;
        let encoded = of_array.encoder.encode(&chunk);
        let encoded = encoded.map_err(|reason| of(&of_array.array, reason))?;
        Ok(encoded.map(|mut bytes| {
            bytes.shrink_to_fit();
            bytes
        }))
    }

    /// The full chunk, padded with zeros or empty text.
    fn chunk(self) -> Result<ChunkData> {
        let (is_whole, padded, chunk_rows) = (
            self.is_whole(),
            self.of.padded_width(),
            self.of.chunk_rows(),
        );
        let Some(size) = self.of.size() else {
            let strings = match self.elements {
                Rows::Strings(strings) => strings,
                Rows::Spilled(spilled) => spilled.strings(&self.of.array)?,
                Rows::Fixed(_) => StringChunk::default(),
            };
            if is_whole {
                return Ok(ChunkData::Strings(strings));
            }
            let mut out = StringChunk::default();
            for row in 0..chunk_rows {
                for at in 0..padded {
                    let is_there = row < self.rows && at < self.width;
                    let text = match is_there {
                        true => strings.get(row * self.width + at),
                        false => "",
                    };
                    out.push(text)
                        .map_err(|reason| of(&self.of.array, reason))?;
                }
            }
            return Ok(ChunkData::Strings(out));
        };
        let (from, to) = (self.width * size, padded * size);
        let bytes = match self.elements {
            Rows::Fixed(bytes) if is_whole => bytes,
            Rows::Fixed(bytes) => {
                let mut out = vec![0; chunk_rows * to];
                put_rows(&bytes, from, &mut out, to);
                out
            }
            Rows::Spilled(spilled) => {
                let mut out = vec![0; chunk_rows * to];
                let mut row = 0;
                spilled.pieces(|piece| {
                    put_rows(piece, from, &mut out[row * to..], to);
                    row += piece.len() / from.max(1);
                })?;
                out
            }
            Rows::Strings(_) => vec![0; chunk_rows * to],
        };
        Ok(ChunkData::Fixed(Buffer::from_vec(bytes)))
    }
}

/// Copies rows of `from` bytes to rows of `to` bytes.
fn put_rows(rows: &[u8], from: usize, out: &mut [u8], to: usize) {
    if from == to {
        out[..rows.len()].copy_from_slice(rows);
        return;
    }
    for (row, out) in rows
        .chunks_exact(from.max(1))
        .zip(out.chunks_exact_mut(to.max(1)))
    {
        out[..from].copy_from_slice(row);
    }
}
