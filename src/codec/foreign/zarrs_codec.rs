//! Codecs that zarrs decodes: `shuffle` and `adler32` (bytes → bytes), and the `packbits` of Zarr v3 (array → bytes).
//!
//! Only codecs whose output has a length that the metadata or the input's length give, so that nothing in the bytes decides how
//! much memory is taken. The chain of zarrs itself is not used, nor are its codecs that decompress.

use std::borrow::Cow;
use std::num::NonZeroU64;
use std::sync::Arc;

use serde_json::{Map, Value};
use zarrs::array::codec::api::{
    ArrayToBytesCodecTraits, BytesToBytesCodecTraits, Codec, CodecOptions,
};
use zarrs::array::{BytesRepresentation, DataType, FillValue};
use zarrs::metadata::v3::MetadataV3;

use super::super::CodecError;
use super::guard::guarded;
use super::limits::Length;
use crate::store::ElementType;

/// A bytes → bytes codec of zarrs.
#[derive(Debug, Clone)]
pub(super) struct ZarrsBytes {
    pub(super) name: &'static str,
    codec: Arc<dyn BytesToBytesCodecTraits>,
}

impl ZarrsBytes {
    /// The codec called `name`, of elements of `width` bytes; `None` if it is not one of these.
    pub(super) fn parse(
        name: &str,
        configuration: &Map<String, Value>,
        width: usize,
    ) -> Result<Option<ZarrsBytes>, CodecError> {
        let mut configuration = configuration.clone();
        let name = match name {
            "adler32" => "adler32",
            "shuffle" => {
                // numcodecs' default is 4; zarr-python writes the element's size where none was given.
                let size = configuration
                    .entry("elementsize")
                    .or_insert_with(|| Value::from(4));
                if size.is_null() {
                    *size = Value::from(width);
                }
                if size.as_u64().is_none_or(|size| size == 0 || size > 1 << 20) {
                    return Err(format!(
                        "shuffle: 'elementsize' is {size}; expected a size of elements in bytes"
                    )
                    .into());
                }
                "shuffle"
            }
            _ => return Ok(None),
        };
        match create(&format!("numcodecs.{name}"), configuration)? {
            Codec::BytesToBytes(codec) => Ok(Some(ZarrsBytes { name, codec })),
            Codec::ArrayToArray(_) | Codec::ArrayToBytes(_) => Err(unfit(name)),
        }
    }

    /// The length of the bytes that it encodes to `encoded`.
    pub(super) fn encoded(&self, decoded: Length) -> Length {
        match self.name {
            "shuffle" => decoded,
            _ => decoded.plus(super::super::checksum::LEN),
        }
    }

    /// Decodes to as many bytes as there are, less a checksum.
    pub(super) fn decode<'a>(&self, src: &'a [u8]) -> Result<Cow<'a, [u8]>, CodecError> {
        guarded(self.name, || {
            let length = BytesRepresentation::BoundedSize(src.len() as u64);
            self.codec
                .decode(Cow::Borrowed(src), &length, &options())
                .map_err(|e| format!("{}: {e}", self.name).into())
        })
    }
}

/// An array → bytes codec of zarrs, for chunks of one number of elements.
#[derive(Debug, Clone)]
pub(super) struct ZarrsPacking {
    pub(super) name: &'static str,
    codec: Arc<dyn ArrayToBytesCodecTraits>,
    elements: NonZeroU64,
    data_type: DataType,
    fill: FillValue,
    encoded: Length,
}

impl ZarrsPacking {
    /// Zarr v3's `packbits` of `n` elements.
    pub(super) fn packbits(
        configuration: &Map<String, Value>,
        element: ElementType,
        n: usize,
    ) -> Result<ZarrsPacking, CodecError> {
        let size = match element {
            number if !number.is_text() => number.size(),
            _ => None,
        };
        let (Some(size), Some(elements)) = (size, NonZeroU64::new(n as u64)) else {
            return Err(format!("packbits: elements of type {element} are not supported").into());
        };
        let bits = match element {
            ElementType::Bool => 1,
            _ => 8 * size as u64,
        };
        for key in ["first_bit", "last_bit"] {
            let bit = configuration.get(key).unwrap_or(&Value::Null);
            if !bit.is_null() && bit.as_u64().is_none_or(|bit| bit >= bits) {
                return Err(
                    format!("packbits: '{key}' is {bit}; expected one of {bits} bits").into(),
                );
            }
        }
        let name = "packbits";
        let Codec::ArrayToBytes(codec) = create(name, configuration.clone())? else {
            return Err(unfit(name));
        };
        let data_type = DataType::from_metadata(&MetadataV3::new(element.to_string()))
            .map_err(|e| format!("packbits: {e}"))?;
        let fill = FillValue::new(vec![0; size]);
        let representation = guarded(name, || {
            let representation = codec.encoded_representation(&[elements], &data_type, &fill);
            representation.map_err(|e| format!("{name}: {e}").into())
        });
        let encoded = match representation? {
            BytesRepresentation::FixedSize(len) => {
                Length::Exact(usize::try_from(len).unwrap_or(usize::MAX))
            }
            _ => return Err("packbits: the length of encoded bytes is not known".into()),
        };
        Ok(ZarrsPacking {
            name,
            codec,
            elements,
            data_type,
            fill,
            encoded,
        })
    }

    /// The length of encoded bytes.
    pub(super) fn encoded(&self) -> Length {
        self.encoded
    }

    /// Decodes exactly the elements that fill `dst`.
    pub(super) fn decode(&self, src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
        guarded(self.name, || {
            let decoded = self.codec.decode(
                Cow::Borrowed(src),
                &[self.elements],
                &self.data_type,
                &self.fill,
                &options(),
            );
            let decoded = decoded
                .map_err(|e| e.to_string())
                .and_then(|bytes| bytes.into_fixed().map_err(|e| e.to_string()))
                .map_err(|e| format!("{}: {e}", self.name))?;
            if decoded.len() != dst.len() {
                return Err(format!(
                    "{}: {} decoded bytes, expected {}",
                    self.name,
                    decoded.len(),
                    dst.len()
                )
                .into());
            }
            dst.copy_from_slice(&decoded);
            Ok(())
        })
    }
}

fn create(name: &str, configuration: Map<String, Value>) -> Result<Codec, CodecError> {
    let metadata = MetadataV3::new_with_configuration(name, configuration);
    guarded(name, || {
        Codec::from_metadata(&metadata).map_err(|e| format!("{name}: {e}").into())
    })
}

/// One thread, because a chunk is decoded on one of ours; checksums are verified.
fn options() -> CodecOptions {
    CodecOptions::default()
        .with_concurrent_target(1)
        .with_validate_checksums(true)
}

fn unfit(name: &str) -> CodecError {
    format!("{name}: the codec of zarrs is of another kind").into()
}
