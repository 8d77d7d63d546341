//! [`ChunkPart`]: the rows of one chunk of a new array, in batches or spilled, and how they become the chunk.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::buffer::Buffer;
use datafusion::common::{Result, exec_err};
use parking_lot::Mutex;

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
    /// A chunk whose bytes are all this one, encoded: such as masks without a masked call.
    uniform: Mutex<Option<(u8, Vec<u8>)>>,
}

/// The most bytes of an encoded chunk that is kept.
const MAX_KEPT: usize = 64 << 10;

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
            uniform: Mutex::new(None),
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

    /// Records that a chunk of `decoded` bytes has `encoded` bytes.
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
        let uniform = self.uniform()?;
        if let (Some(byte), Some((kept, encoded))) = (uniform, &*of_array.uniform.lock())
            && byte == *kept
        {
            return Ok(Some(encoded.clone()));
        }
        let chunk = self.chunk()?;
        assembled();
        let encoded = of_array.encoder.encode(&chunk);
        let encoded = encoded.map_err(|reason| of(&of_array.array, reason))?;
        Ok(encoded.map(|mut bytes| {
            of_array.note(decoded, bytes.len());
            bytes.shrink_to_fit();
            if let Some(byte) = uniform
                && bytes.len() <= MAX_KEPT
            {
                *of_array.uniform.lock() = Some((byte, bytes.clone()));
            }
            bytes
        }))
    }

    /// The byte that all bytes of the chunk are, if it has numbers in batches whose rows are the chunk's.
    fn uniform(&self) -> Result<Option<u8>> {
        let (array, Rows::InBatches(spans)) = (&self.of.array, &self.elements) else {
            return Ok(None);
        };
        let (Some(size), true) = (self.of.size(), self.columns.len() == array.row_elements())
        else {
            return Ok(None);
        };
        let per_row = self.columns.len() * size;
        let mut all = None;
        for span in spans {
            let elements = span.column.elements()?;
            let ChunkData::Fixed(buffer) = &*elements else {
                return Ok(None);
            };
            let Some(bytes) = buffer.get(span.from * per_row..(span.from + span.rows) * per_row)
            else {
                return Ok(None);
            };
            let Some(&first) = bytes.first() else {
                continue;
            };
            // Each byte is the one before it.
            let is_one = bytes[1..] == bytes[..bytes.len() - 1];
            if !is_one || *all.get_or_insert(first) != first {
                return Ok(None);
            }
        }
        // Padding is zeros.
        Ok(all.filter(|&byte| byte == 0 || self.is_whole()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::write::batch_column::BatchColumn;
    use crate::store::{ElementType, ZarrFormat};

    /// Chunks of 4 × 3 bytes.
    fn array() -> Arc<WrittenArray> {
        let array = NewArray {
            name: "call_x".to_string(),
            format: ZarrFormat::V2,
            element: ElementType::Int8,
            row_shape: vec![3],
            chunks: vec![4, 3],
            dimensions: vec![],
            attributes: Default::default(),
            compression: Default::default(),
        };
        Arc::new(WrittenArray::try_new(array).unwrap())
    }

    fn encoded(of: &Arc<WrittenArray>, batches: &[&[u8]]) -> Vec<u8> {
        let spans = batches.iter().map(|bytes| RowSpan {
            column: Arc::new(BatchColumn::of_elements(ChunkData::Fixed(
                Buffer::from_slice_ref(bytes),
            ))),
            from: 0,
            rows: bytes.len() / 3,
        });
        let spans: Vec<RowSpan> = spans.collect();
        let part = ChunkPart {
            of: Arc::clone(of),
            index: vec![0, 0],
            columns: 0..3,
            rows: spans.iter().map(|span| span.rows).sum(),
            gathered: 12,
            elements: Rows::InBatches(spans),
        };
        part.encode(|| ()).unwrap().unwrap()
    }

    #[test]
    fn chunks_of_one_byte_are_encoded_once_and_no_others_are_taken_for_them() {
        let of = array();
        let expected = |elements: [u8; 12]| {
            let chunk = ChunkData::Fixed(Buffer::from_slice_ref(elements));
            of.encoder.encode(&chunk).unwrap().unwrap()
        };
        let padded = [1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0];
        let mixed = [1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2];
        for _ in 0..2 {
            assert_eq!(encoded(&of, &[&[1; 6], &[1; 6]]), expected([1; 12]));
            assert!(of.uniform.lock().as_ref().is_some_and(|kept| kept.0 == 1));
            // Rows that are padded, and batches of different bytes.
            assert_eq!(encoded(&of, &[&[1; 6]]), expected(padded));
            assert_eq!(encoded(&of, &[&[1; 9], &[2; 3]]), expected(mixed));
            assert_eq!(encoded(&of, &[&[2; 12]]), expected([2; 12]));
            assert_eq!(encoded(&of, &[&[0; 3]]), expected([0; 12]));
        }
    }
}
