//! [`ChunkMasker`]: filters the calls of one chunk on the host, for chunks that a GPU left to it.

use arrow::buffer::Buffer;
use bytes::Bytes;

use crate::codec::{ChunkData, CodecChain, CodecError, Scratch};
use crate::counts::{CallMask, CallValues, CountError};
use crate::error::VczError;
use crate::scan::chunks::chunk::Unfiltered;
use crate::scan::chunks::field_filters::{FieldFilters, index_of_field};
use crate::scan::dataset::Dataset;

/// Filters chunks; keeps its buffers.
#[derive(Debug, Default)]
pub struct ChunkMasker {
    mask: CallMask,
    masked: Vec<u64>,
    scratch: Scratch,
}

impl ChunkMasker {
    /// All codes of a chunk of the genotypes, column `column`, in which calls that do not pass are missing. `index` is that of the
    /// chunk; fields have the same chunks of variants and samples.
    ///
    /// # Errors
    /// If a chunk cannot be decoded, or the values of a field have no such test.
    pub fn mask(
        &mut self,
        dataset: &Dataset,
        column: usize,
        filters: &FieldFilters,
        chunk: &Unfiltered,
        index: &[u64],
    ) -> Result<&[u8], VczError> {
        let array = &dataset.columns()[column].array;
        let failed = |reason: String| dataset.chunk_error(array, index, reason);
        let size = |axis: usize| array.chunks.get(axis).map_or(1, |n| *n as usize);
        let codes = decode(
            dataset.chain(column)?,
            chunk.genotypes.as_ref(),
            &mut self.scratch,
        )
        .map_err(|error| failed(error.into()))?;
        let calls = size(0).saturating_mul(size(1));
        self.mask
            .reset(calls)
            .map_err(|error| failed(error.into()))?;
        let mut decoded = Vec::with_capacity(filters.fields.len());
        for (column, encoded) in filters.fields.iter().zip(&chunk.fields) {
            let values = decode(dataset.chain(*column)?, encoded.as_ref(), &mut self.scratch);
            let array = &dataset.columns()[*column].array;
            decoded.push(values.map_err(|error| {
                dataset.chunk_error(array, &index_of_field(array, index), String::from(error))
            })?);
        }
        for filter in &filters.filters {
            let field = filters
                .fields
                .get(filter.field)
                .zip(decoded.get(filter.field));
            let Some((column, values)) = field else {
                return Err(failed("a field of its filters was not read".to_string()));
            };
            let spec = &dataset.columns()[*column];
            if filter.at >= spec.values_per_call().unwrap_or(1) {
                // Other stores of the table have more values per call; in this one the value is NULL.
                self.mask.retain(|_| false);
                continue;
            }
            let values = CallValues {
                bytes: values,
                element: spec.array.element,
                per_call: spec.array.chunks.iter().skip(2).product::<u64>() as usize,
                at: filter.at,
                coded: true,
            };
            self.mask
                .retain_values(values, &filter.test)
                .map_err(|error: CountError| {
                    let index = index_of_field(&spec.array, index);
                    dataset.chunk_error(&spec.array, &index, String::from(error))
                })?;
        }
        self.mask
            .apply(&codes, array.element, size(2), &mut self.masked)
            .map_err(|error| failed(error.into()))?;
        let masked: &[u8] = bytemuck::cast_slice(&self.masked);
        Ok(masked.get(..codes.len()).unwrap_or(masked))
    }
}

/// The elements of a chunk.
fn decode(
    chain: &CodecChain,
    encoded: Option<&Bytes>,
    scratch: &mut Scratch,
) -> Result<Buffer, CodecError> {
    let data = match encoded {
        Some(bytes) => chain.decode(bytes, scratch)?,
        None => chain.fill_chunk()?,
    };
    match data {
        ChunkData::Fixed(buffer) => Ok(buffer),
        ChunkData::Strings(_) => Err("strings are filtered by the host alone".into()),
    }
}
