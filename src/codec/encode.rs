//! [`ChunkEncoder`]: the chunks of a new array, encoded by the crate zarrs as the array's metadata say.

use std::num::NonZeroU64;
use std::sync::Arc;

use zarrs::array::{Array, ArrayBytes, ArrayBytesOffsets, ArrayMetadata, CodecChain};
use zarrs::array::{ArrayToBytesCodecTraits, CodecOptions};
use zarrs::metadata::v2::ArrayMetadataV2;
use zarrs::metadata::v3::ArrayMetadataV3;

use super::CodecError;
use super::chunk_data::ChunkData;
use crate::store::write::NewArray;
use crate::store::{ElementType, ZarrFormat};

/// Encodes full chunks of one array.
#[derive(Debug)]
pub struct ChunkEncoder {
    /// Without storage: it has the types and the fill value of the array.
    array: Array<()>,
    codecs: Arc<CodecChain>,
    shape: Vec<NonZeroU64>,
    leaves_out_fill: bool,
    options: CodecOptions,
}

impl ChunkEncoder {
    /// An encoder for the chunks of `array`.
    ///
    /// # Errors
    /// The reason, if zarrs does not take the metadata.
    pub fn try_new(array: &NewArray) -> Result<Self, CodecError> {
        let wrong = |error: String| CodecError::from(format!("its metadata: {error}"));
        let mut encoded = array.clone();
        if matches!(array.element, ElementType::Time(_)) {
            // zarrs does not know the times of v2; their bytes are those of the numbers.
            encoded.element = ElementType::Int64;
        }
        let document = encoded.metadata(0);
        let metadata = match array.format {
            ZarrFormat::V2 => serde_json::from_value::<ArrayMetadataV2>(document)
                .map(ArrayMetadata::V2)
                .map_err(|error| wrong(error.to_string()))?,
            ZarrFormat::V3 => serde_json::from_value::<ArrayMetadataV3>(document)
                .map(ArrayMetadata::V3)
                .map_err(|error| wrong(error.to_string()))?,
        };
        let shape: Option<Vec<NonZeroU64>> = array
            .chunks
            .iter()
            .map(|&length| NonZeroU64::new(length))
            .collect();
        let shape = shape.ok_or_else(|| wrong("a chunk has no elements".to_string()))?;
        let leaves_out_fill = array.leaves_out_fill();
        let array = Array::new_with_metadata(Arc::new(()), "/array", metadata)
            .map_err(|error| wrong(error.to_string()))?;
        Ok(Self {
            codecs: array.codecs(),
            array,
            shape,
            leaves_out_fill,
            // Chunks are encoded in parallel, so each is by one thread.
            options: CodecOptions::default().with_concurrent_target(1),
        })
    }

    /// The bytes of a chunk with these elements, row-major over the chunk's shape; `None` if all are the fill value, zero or empty text, and
    /// the array leaves out such chunks.
    ///
    /// # Errors
    /// The reason, if the elements are not as many as a chunk has, or a codec cannot encode them.
    pub fn encode(&self, elements: &ChunkData) -> Result<Option<Vec<u8>>, CodecError> {
        let is_fill = || match elements {
            ChunkData::Fixed(buffer) => buffer.iter().all(|&byte| byte == 0),
            ChunkData::Strings(strings) => strings.data.is_empty(),
        };
        if self.leaves_out_fill && is_fill() {
            return Ok(None);
        }
        let bytes = match elements {
            ChunkData::Fixed(buffer) => ArrayBytes::new_flen(buffer.as_slice()),
            ChunkData::Strings(strings) => {
                let offsets: Vec<usize> = strings.offsets.iter().map(|&at| at as usize).collect();
                let offsets = ArrayBytesOffsets::new(offsets).map_err(|e| e.to_string())?;
                ArrayBytes::new_vlen(strings.data.as_slice(), offsets).map_err(|e| e.to_string())?
            }
        };
        let encoded = self.codecs.encode(
            bytes,
            &self.shape,
            self.array.data_type(),
            self.array.fill_value(),
            &self.options,
        );
        match encoded {
            Ok(encoded) => Ok(Some(encoded.into_owned())),
            Err(error) => Err(error.to_string().into()),
        }
    }
}
