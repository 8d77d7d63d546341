//! Bytes → bytes steps: codecs of the fast path, and those that it does not know.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::super::bytes_codec::{self, BytesCodec};
use super::super::checksum::LEN;
use super::super::{CodecError, Scratch, checksum};
use super::bz2;
use super::checksums::Checksum;
use super::limits::Length;
use super::lzma::Lzma;
use super::names::plain;
use super::zarrs_codec::ZarrsBytes;
use crate::store::{CodecSpec, ElementType};

/// One bytes → bytes codec.
#[derive(Debug, Clone)]
pub(super) enum BytesStep {
    Fast(BytesCodec),
    Bz2,
    Lzma(Lzma),
    Checksum(Checksum),
    Zarrs(ZarrsBytes),
}

impl BytesStep {
    /// The codec of an array whose elements are of type `element`; `None` if there is no such codec.
    pub(super) fn parse(
        codec: &CodecSpec,
        element: ElementType,
    ) -> Result<Option<BytesStep>, CodecError> {
        let (name, configuration) = (plain(&codec.name), &codec.configuration);
        if let Some(fast) = BytesCodec::parse(name, configuration, &element)? {
            return Ok(Some(BytesStep::Fast(fast)));
        }
        Ok(Some(match name {
            "bz2" => BytesStep::Bz2,
            "lzma" => BytesStep::Lzma(Lzma::parse(configuration)?),
            "fletcher32" => BytesStep::Checksum(Checksum::Fletcher32),
            "crc32" => BytesStep::Checksum(Checksum::Crc32 {
                at_start: at_start(configuration)?,
            }),
            _ => {
                let width = element.size().unwrap_or(1);
                let zarrs = ZarrsBytes::parse(name, configuration, width)?;
                return Ok(zarrs.map(BytesStep::Zarrs));
            }
        }))
    }

    /// The length after encoding bytes of a length.
    pub(super) fn encoded(&self, decoded: Length) -> Length {
        match self {
            BytesStep::Fast(BytesCodec::Crc32c { .. }) | BytesStep::Checksum(_) => {
                decoded.plus(LEN)
            }
            BytesStep::Fast(_) | BytesStep::Bz2 | BytesStep::Lzma(_) => decoded.compressed(),
            BytesStep::Zarrs(codec) => codec.encoded(decoded),
        }
    }

    /// Largest ratio of decoded to encoded bytes.
    pub(super) fn max_ratio(&self) -> usize {
        match self {
            BytesStep::Fast(BytesCodec::Crc32c { .. })
            | BytesStep::Checksum(_)
            | BytesStep::Zarrs(_) => 1,
            // LZMA's is some 8,000: a repeated match of 273 bytes takes a quarter of a bit.
            BytesStep::Fast(_) | BytesStep::Lzma(_) => bytes_codec::MAX_RATIO,
            BytesStep::Bz2 => bz2::MAX_RATIO,
        }
    }

    /// Decodes to a length that `decoded` admits.
    pub(super) fn decode<'a>(
        &self,
        src: Cow<'a, [u8]>,
        decoded: Length,
        scratch: &mut Scratch,
    ) -> Result<Cow<'a, [u8]>, CodecError> {
        let limit = decoded.most();
        let bytes = match self {
            BytesStep::Fast(BytesCodec::Crc32c { at_start }) => {
                stripped(src, |bytes| checksum::strip(bytes, *at_start))?
            }
            BytesStep::Checksum(checksum) => stripped(src, |bytes| checksum.strip(bytes))?,
            BytesStep::Fast(codec) => Cow::Owned(codec.growing(&src, limit, scratch)?),
            BytesStep::Bz2 => Cow::Owned(bz2::growing(&src, limit)?),
            BytesStep::Lzma(lzma) => Cow::Owned(lzma.growing(&src, limit)?),
            BytesStep::Zarrs(codec) => Cow::Owned(codec.decode(&src)?.into_owned()),
        };
        match decoded.admits(bytes.len()) {
            true => Ok(bytes),
            false => Err(format!(
                "{}: {} decoded bytes, expected {}",
                self.summary(),
                bytes.len(),
                decoded.expected()
            )
            .into()),
        }
    }

    /// A short description.
    pub(super) fn summary(&self) -> String {
        match self {
            BytesStep::Fast(codec) => codec.summary(),
            BytesStep::Bz2 => "bz2".to_owned(),
            BytesStep::Lzma(_) => "lzma".to_owned(),
            BytesStep::Checksum(checksum) => checksum.name().to_owned(),
            BytesStep::Zarrs(codec) => codec.name.to_owned(),
        }
    }
}

/// Bytes without their checksum, which is verified.
fn stripped(
    src: Cow<'_, [u8]>,
    strip: impl Fn(&[u8]) -> Result<&[u8], CodecError>,
) -> Result<Cow<'_, [u8]>, CodecError> {
    match src {
        Cow::Borrowed(bytes) => strip(bytes).map(Cow::Borrowed),
        Cow::Owned(bytes) => strip(&bytes).map(|bytes| Cow::Owned(bytes.to_vec())),
    }
}

/// numcodecs' checksums come first unless `location` says otherwise.
fn at_start(configuration: &Map<String, Value>) -> Result<bool, CodecError> {
    match configuration.get("location").map(Value::as_str) {
        None | Some(Some("start")) => Ok(true),
        Some(Some("end")) => Ok(false),
        Some(_) => Err("crc32: 'location' must be \"start\" or \"end\"".into()),
    }
}
