//! The fill value of an array, in the form in which absent chunks are filled.

use super::CodecError;
use super::{StringChunk, endian};
use crate::store::{ElementType, Endianness, FillValue};

/// A fill value of fixed size, or text.
#[derive(Debug, Clone)]
pub(super) struct Fill {
    /// One native-endian element; empty where it is all zeros, or text of variable length.
    element: Vec<u8>,
    text: String,
}

impl Fill {
    /// The fill value of metadata for elements of this type.
    pub(super) fn new(element: &ElementType, value: &FillValue) -> Result<Fill, CodecError> {
        let (element, text) = parse(element, value)?;
        Ok(Fill { element, text })
    }

    /// Whether elements of fixed size are all zeros.
    pub(super) fn is_zero(&self) -> bool {
        self.element.is_empty()
    }

    /// Fills `dst`, a whole number of elements.
    pub(super) fn fill(&self, dst: &mut [u8]) {
        if self.is_zero() {
            dst.fill(0);
            return;
        }
        for element in dst.chunks_exact_mut(self.element.len()) {
            element.copy_from_slice(&self.element);
        }
    }

    /// `n` times the fill value, as text of variable length.
    pub(super) fn strings(&self, n: usize) -> Result<StringChunk, CodecError> {
        StringChunk::repeated(&self.text, n)
    }
}

/// The fill value as one native-endian element (empty for zeros) and as text.
fn parse(element: &ElementType, value: &FillValue) -> Result<(Vec<u8>, String), CodecError> {
    let Some(size) = element.size() else {
        return match value {
            FillValue::Null => Ok((Vec::new(), String::new())),
            FillValue::Text(text) => Ok((Vec::new(), text.clone())),
            FillValue::Bytes(bytes) => match String::from_utf8(bytes.clone()) {
                Ok(text) => Ok((Vec::new(), text)),
                Err(_) => Err("the fill value is not valid UTF-8".into()),
            },
        };
    };
    let mut bytes = match value {
        FillValue::Null => Vec::new(),
        FillValue::Bytes(bytes) => bytes.clone(),
        FillValue::Text(text) if matches!(element, ElementType::Unicode(_)) => text
            .chars()
            .flat_map(|c| u32::from(c).to_le_bytes())
            .collect(),
        FillValue::Text(text) => text.clone().into_bytes(),
    };
    let is_text = matches!(element, ElementType::Unicode(_) | ElementType::Bytes(_));
    if is_text && bytes.len() < size {
        bytes.resize(size, 0);
    }
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok((Vec::new(), String::new()));
    }
    if bytes.len() != size {
        return Err(format!(
            "a fill value of {} bytes for elements of type {element}",
            bytes.len()
        )
        .into());
    }
    endian::to_native(Endianness::Little, element, &mut bytes);
    Ok((bytes, String::new()))
}
