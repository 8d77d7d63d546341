//! The elements of a decoded chunk: fixed-size elements in one buffer, or strings.
//!
//! Both are in row-major order over the full chunk shape, edge chunks with their padding.

use arrow::buffer::Buffer;

use super::CodecError;

/// The elements of one decoded chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChunkData {
    /// Native-endian elements of fixed size, one after the other; the buffer is aligned to 64 bytes.
    Fixed(Buffer),
    /// Strings, of variable-length and of fixed-width types alike.
    Strings(StringChunk),
}

/// Strings, one after the other in one buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StringChunk {
    /// Where each string starts in `data`, and the end of the last: one more than there are strings, never decreasing.
    pub offsets: Vec<u32>,
    /// The strings' bytes. Valid UTF-8, and every offset is a character boundary, when decoded by this module.
    pub data: Vec<u8>,
}

impl Default for StringChunk {
    fn default() -> Self {
        StringChunk {
            offsets: vec![0],
            data: Vec::new(),
        }
    }
}

impl ChunkData {
    /// Bytes held, for accounting.
    pub fn byte_len(&self) -> usize {
        match self {
            ChunkData::Fixed(buffer) => buffer.len(),
            ChunkData::Strings(strings) => strings.data.len() + 4 * strings.offsets.len(),
        }
    }
}

impl StringChunk {
    /// Number of strings.
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Whether there are no strings.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// String `i`; empty past the end.
    pub fn get(&self, i: usize) -> &str {
        let bytes = match self.offsets.get(i..).unwrap_or_default() {
            [start, end, ..] => self.data.get(*start as usize..*end as usize),
            _ => None,
        };
        std::str::from_utf8(bytes.unwrap_or_default()).unwrap_or_default()
    }

    /// Bytes held by the strings `range`, for accounting.
    pub fn bytes_of(&self, range: std::ops::Range<usize>) -> usize {
        let at = |i: usize| {
            self.offsets
                .get(i)
                .map_or(self.data.len(), |&at| at as usize)
        };
        let text = at(range.end).saturating_sub(at(range.start));
        text + size_of::<u32>() * range.len()
    }

    /// All strings, in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|i| self.get(i))
    }

    /// Appends one string.
    ///
    /// # Errors
    /// If the strings have more than 4 GiB.
    pub fn push(&mut self, text: &str) -> Result<(), CodecError> {
        self.data.extend_from_slice(text.as_bytes());
        self.end_string()
    }

    /// Appends one character to the string that [`end_string`](Self::end_string) will end.
    pub(super) fn push_char(&mut self, c: char) {
        let mut bytes = [0; 4];
        self.data
            .extend_from_slice(c.encode_utf8(&mut bytes).as_bytes());
    }

    /// Ends the string that was being appended.
    pub(super) fn end_string(&mut self) -> Result<(), CodecError> {
        let end = u32::try_from(self.data.len())
            .map_err(|_| "the strings of one chunk have more than 4 GiB".to_string())?;
        self.offsets.push(end);
        Ok(())
    }

    /// Appends strings `start..start + n` of `other`.
    pub(super) fn extend(
        &mut self,
        other: &StringChunk,
        start: usize,
        n: usize,
    ) -> Result<(), CodecError> {
        let short = || format!("a chunk of {} strings, expected {}", other.len(), start + n);
        let offsets = other.offsets.get(start..=start + n).ok_or_else(short)?;
        let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else {
            return Ok(());
        };
        let bytes = other
            .data
            .get(*first as usize..*last as usize)
            .ok_or_else(short)?;
        let base = self.data.len();
        self.data.extend_from_slice(bytes);
        if u32::try_from(self.data.len()).is_err() {
            return Err("the strings of one chunk have more than 4 GiB".into());
        }
        // The sum is at most the new length, which was just checked.
        self.offsets.extend(
            offsets
                .iter()
                .skip(1)
                .map(|o| (base + (o - first) as usize) as u32),
        );
        Ok(())
    }

    /// `n` times the same string.
    pub(super) fn repeated(text: &str, n: usize) -> Result<StringChunk, CodecError> {
        let total = text
            .len()
            .checked_mul(n)
            .filter(|total| u32::try_from(*total).is_ok());
        if total.is_none() {
            return Err(format!(
                "{n} fill values of {} bytes are more than 4 GiB",
                text.len()
            )
            .into());
        }
        Ok(StringChunk {
            offsets: (0..=n).map(|i| (i * text.len()) as u32).collect(),
            data: text.repeat(n).into_bytes(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings() {
        let mut chunk = StringChunk::default();
        assert!(chunk.is_empty());
        for text in ["", "A", "βγ"] {
            chunk.push(text).unwrap();
        }
        assert_eq!(chunk.iter().collect::<Vec<_>>(), ["", "A", "βγ"]);
        assert_eq!(chunk.get(3), "");
        let mut other = StringChunk::repeated(".", 2).unwrap();
        other.extend(&chunk, 1, 2).unwrap();
        other.extend(&chunk, 0, 0).unwrap();
        assert_eq!(other.iter().collect::<Vec<_>>(), [".", ".", "A", "βγ"]);
        assert!(other.clone().extend(&chunk, 2, 2).is_err());
        assert_eq!(StringChunk::repeated("", 5).unwrap().len(), 5);
        assert!(StringChunk::repeated("xx", 1 << 31).is_err());
    }
}
