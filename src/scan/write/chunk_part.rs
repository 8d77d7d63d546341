//! [`ChunkPart`]: the rows of one chunk of a new array, in batches or spilled, and how they become the chunk.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::buffer::Buffer;
use datafusion::common::{Result, exec_err};

use super::array_error::of;
use super::batch_column::RowSpan;
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
    /// How large encoded chunks were at most, in 1/[`WHOLE`] of their elements.
    largest: AtomicUsize,
}

/// The size of a chunk that is as large as its elements.
const WHOLE: usize = 1 << 10;

impl WrittenArray {
    /// The array with its encoder.
    ///
    /// # Errors
    /// If it cannot be encoded.
    pub fn try_new(array: NewArray) -> Result<Self> {
        let encoder = ChunkEncoder::try_new(&array).map_err(|reason| of(&array, reason))?;
        Ok(Self {
            array,
            encoder,
            largest: AtomicUsize::new(0),
        })
    }

    /// The bytes that a chunk of so many is expected to take when it is encoded: twice as many as the others took, or as many as it has.
    fn expected(&self, decoded: usize) -> usize {
        let largest = match self.largest.load(Ordering::Relaxed) {
            0 => WHOLE,
            largest => (2 * largest).min(WHOLE),
        };
        (decoded / WHOLE + 1).saturating_mul(largest)
    }

    /// Notes that a chunk of `decoded` bytes has `encoded` bytes.
    fn note(&self, decoded: usize, encoded: usize) {
        let size = encoded / (decoded / WHOLE + 1) + 1;
        self.largest.fetch_max(size.min(WHOLE), Ordering::Relaxed);
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

/// Rows of one chunk.
#[derive(Debug)]
pub enum Rows {
    /// In batches, whose rows may be longer than the chunk's.
    InBatches(Vec<RowSpan>),
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
    /// Its elements of a row of the array, without padding.
    pub columns: Range<usize>,
    /// How many rows there are.
    pub rows: usize,
    /// Bytes of its elements in batches.
    pub gathered: usize,
    /// The rows.
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
            (None, Rows::InBatches(_)) => self.gathered.saturating_add(4 * elements),
        }
    }

    /// Bytes that making and encoding the chunk takes, beside its elements in batches.
    pub fn needed_bytes(&self) -> usize {
        let decoded = self.decoded_bytes();
        match self.of.size() {
            Some(_) => decoded.saturating_add(self.of.expected(decoded)),
            // Offsets are made wider, and text is put together before it is compressed.
            None => decoded.saturating_mul(4),
        }
    }

    fn is_whole(&self) -> bool {
        self.rows == self.of.chunk_rows() && self.columns.len() == self.of.padded_width()
    }

    /// The encoded chunk; `None` if it is left out, because all its elements are the fill value. `assembled` is called when the rows are not
    /// needed any more.
    ///
    /// # Errors
    /// If a value has no place in the array, the chunk cannot be encoded, or the temporary file cannot be read.
    pub fn encode(self, assembled: impl FnOnce()) -> Result<Option<Vec<u8>>> {
        let (of_array, decoded) = (Arc::clone(&self.of), self.decoded_bytes());
        let chunk = self.chunk()?;
        assembled();
        let encoded = of_array.encoder.encode(&chunk);
        let encoded = encoded.map_err(|reason| of(&of_array.array, reason))?;
        Ok(encoded.map(|mut bytes| {
            of_array.note(decoded, bytes.len());
            bytes.shrink_to_fit();
            bytes
        }))
    }

    /// The full chunk, padded with zeros or empty text.
    fn chunk(self) -> Result<ChunkData> {
        match self.of.size() {
            Some(size) => self.numbers(size).map(ChunkData::Fixed),
            None => self.text().map(ChunkData::Strings),
        }
    }

    fn numbers(self, size: usize) -> Result<Buffer> {
        let array = &self.of.array;
        let (from, to) = (self.columns.len() * size, self.of.padded_width() * size);
        let length = self.of.chunk_rows() * to;
        let spans = match &self.elements {
            Rows::InBatches(spans) => spans,
            Rows::Spilled(spilled) => {
                let mut out = vec![0; length];
                let mut row = 0;
                spilled.pieces(|piece| {
                    put_rows(piece, from, &mut out[row * to..], to);
                    row += piece.len() / from.max(1);
                })?;
                return Ok(Buffer::from_vec(out));
            }
        };
        if let [span] = &spans[..]
            && self.is_whole()
            && self.columns.len() == array.row_elements()
        {
            // The batch has the chunk as it is.
            let elements = span.column.elements()?;
            if let ChunkData::Fixed(buffer) = &*elements
                && buffer.len() >= span.from * to + length
            {
                return Ok(buffer.slice_with_length(span.from * to, length));
            }
        }
        if self.is_whole() {
            let mut out = Vec::with_capacity(length);
            append(array, spans, &self.columns, &mut out)?;
            return Ok(Buffer::from_vec(out));
        }
        let mut out = vec![0; length];
        let mut rows = Vec::new();
        let mut row = 0;
        for span in spans {
            rows.clear();
            append(array, std::slice::from_ref(span), &self.columns, &mut rows)?;
            put_rows(&rows, from, &mut out[row * to..], to);
            row += span.rows;
        }
        Ok(Buffer::from_vec(out))
    }

    fn text(self) -> Result<StringChunk> {
        let array = &self.of.array;
        let strings = match &self.elements {
            Rows::InBatches(spans) => append_text(array, spans, &self.columns)?,
            Rows::Spilled(spilled) => spilled.strings(array)?,
        };
        if self.is_whole() {
            return Ok(strings);
        }
        let width = self.columns.len();
        let mut out = StringChunk::default();
        for row in 0..self.of.chunk_rows() {
            for at in 0..self.of.padded_width() {
                let is_there = row < self.rows && at < width;
                let text = match is_there {
                    true => strings.get(row * width + at),
                    false => "",
                };
                out.push(text).map_err(|reason| of(array, reason))?;
            }
        }
        Ok(out)
    }
}

/// Appends the elements `columns` of each row.
///
/// # Errors
/// If a value has no place in the array.
pub fn append(
    array: &NewArray,
    spans: &[RowSpan],
    columns: &Range<usize>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let size = array.element.size().unwrap_or(1);
    let per_row = array.row_elements() * size;
    for span in spans {
        let elements = span.column.elements()?;
        let ChunkData::Fixed(buffer) = &*elements else {
            return exec_err!("array '{}': values of another type", array.name);
        };
        let Some(rows) = buffer.get(span.from * per_row..(span.from + span.rows) * per_row) else {
            return exec_err!(
                "array '{}': a batch has fewer values than rows × {} values",
                array.name,
                array.row_elements()
            );
        };
        if columns.len() * size == per_row {
            out.extend_from_slice(rows);
            continue;
        }
        for row in rows.chunks_exact(per_row.max(1)) {
            out.extend_from_slice(&row[columns.start * size..columns.end * size]);
        }
    }
    Ok(())
}

/// The text in `columns` of each row.
///
/// # Errors
/// If a value has no place in the array, or there is more than 4 GiB of it.
pub fn append_text(
    array: &NewArray,
    spans: &[RowSpan],
    columns: &Range<usize>,
) -> Result<StringChunk> {
    let per_row = array.row_elements();
    let mut out = StringChunk::default();
    for span in spans {
        let elements = span.column.elements()?;
        let ChunkData::Strings(strings) = &*elements else {
            return exec_err!("array '{}': values of another type", array.name);
        };
        for row in span.from..span.from + span.rows {
            for at in row * per_row + columns.start..row * per_row + columns.end {
                out.push(strings.get(at))
                    .map_err(|reason| of(array, reason))?;
            }
        }
    }
    Ok(out)
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
