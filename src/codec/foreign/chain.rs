//! [`ForeignChain`]: the steps of a chain as data, and decoding through them.

use std::borrow::Cow;

use super::super::{CodecError, Scratch, StringChunk};
use super::bytes_step::BytesStep;
use super::filter::Filter;
use super::limits::Length;
use super::packing::Packing;
use crate::store::ElementType;

/// A parsed and checked chain with codecs that the fast path does not know, for chunks of one number of elements.
#[derive(Debug, Clone)]
pub struct ForeignChain {
    element: ElementType,
    elements: usize,
    /// In encoding order, as the other steps.
    filters: Vec<Filter>,
    packing: Packing,
    steps: Vec<BytesStep>,
    /// The length before each step, and after the last.
    lengths: Vec<Length>,
    summary: String,
}

impl ForeignChain {
    pub(super) fn new(
        element: ElementType,
        elements: usize,
        filters: Vec<Filter>,
        packing: Packing,
        steps: Vec<BytesStep>,
        names: &[&str],
    ) -> ForeignChain {
        let packed = filters.last().map_or(element, |filter| filter.encoded);
        let mut length = packing.encoded(packed, elements);
        let mut lengths = vec![length];
        for step in &steps {
            length = step.encoded(length);
            lengths.push(length);
        }
        let parts = names.iter().map(|name| (*name).to_owned());
        let parts = parts.chain(packing.summary());
        let parts = parts.chain(steps.iter().map(BytesStep::summary));
        ForeignChain {
            element,
            elements,
            summary: parts.collect::<Vec<_>>().join(", "),
            filters,
            packing,
            steps,
            lengths,
        }
    }

    /// A short description, such as `delta, zstd`.
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// Rejects a chunk that is much too small for its elements, before memory is allocated for them.
    pub(in super::super) fn check_plausible(&self, encoded: usize) -> Result<(), CodecError> {
        let Some(Length::Exact(len)) = self.lengths.first() else {
            return Ok(());
        };
        let ratios = self.steps.iter().map(BytesStep::max_ratio);
        if ratios.fold(encoded, usize::saturating_mul) < *len {
            return Err(format!("{encoded} encoded bytes cannot hold {len} decoded bytes").into());
        }
        Ok(())
    }

    /// Decodes exactly the elements of fixed size that fill `dst`, native-endian and in row-major order.
    pub(in super::super) fn decode_into(
        &self,
        encoded: &[u8],
        dst: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), CodecError> {
        // Also where the chunk is in a shard.
        self.check_plausible(encoded.len())?;
        let bytes = self.unpacked(encoded, scratch)?;
        let Some(last) = self.filters.last() else {
            return self.packing.decode_into(self.element, &bytes, dst, scratch);
        };
        let size = last.encoded.size().unwrap_or(0);
        let len = size
            .checked_mul(self.elements)
            .ok_or_else(|| format!("{} elements of {size} bytes", self.elements))?;
        let mut elements = vec![0; len];
        self.packing
            .decode_into(last.encoded, &bytes, &mut elements, scratch)?;
        drop(bytes);
        for filter in self.filters.iter().rev() {
            elements = filter.decode(elements, self.elements)?;
        }
        if elements.len() != dst.len() {
            return Err(format!(
                "{}: {} decoded bytes, expected {}",
                self.summary,
                elements.len(),
                dst.len()
            )
            .into());
        }
        dst.copy_from_slice(&elements);
        Ok(())
    }

    /// Decodes strings of variable length.
    pub(in super::super) fn strings(
        &self,
        encoded: &[u8],
        scratch: &mut Scratch,
    ) -> Result<StringChunk, CodecError> {
        let bytes = self.unpacked(encoded, scratch)?;
        let strings = self.packing.strings(&bytes, scratch)?;
        match strings.len() == self.elements {
            true => Ok(strings),
            false => Err(format!("{} strings, expected {}", strings.len(), self.elements).into()),
        }
    }

    /// Runs the bytes → bytes steps backwards.
    fn unpacked<'a>(
        &self,
        encoded: &'a [u8],
        scratch: &mut Scratch,
    ) -> Result<Cow<'a, [u8]>, CodecError> {
        let mut bytes = Cow::Borrowed(encoded);
        for (step, length) in self.steps.iter().zip(&self.lengths).rev() {
            bytes = step.decode(bytes, *length, scratch)?;
        }
        Ok(bytes)
    }
}
