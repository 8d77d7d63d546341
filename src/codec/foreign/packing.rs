//! Array → bytes steps.

use super::super::chain::CodecChain;
use super::super::{CodecError, Scratch, StringChunk};
use super::limits::Length;
use super::zarrs_codec::ZarrsPacking;
use super::{packbits, pcodec};
use crate::store::ElementType;

/// Bytes that an encoding may add to a shard, whatever its size; what `Store` allows for objects.
const SHARD_OVERHEAD: usize = 64 << 20;

/// How the elements become bytes.
#[derive(Debug, Clone)]
pub(super) enum Packing {
    /// By a chain without bytes → bytes codecs, which may have transposes and shards.
    Chain(Box<CodecChain>),
    PackBits,
    Pcodec,
    Zarrs(ZarrsPacking),
}

impl Packing {
    /// The length of `n` encoded elements.
    pub(super) fn encoded(&self, element: ElementType, n: usize) -> Length {
        let size = element.size().and_then(|size| size.checked_mul(n));
        match (self, size) {
            (Packing::PackBits, _) => Length::Exact(packbits::encoded_len(n)),
            (Packing::Zarrs(codec), _) => codec.encoded(),
            (Packing::Pcodec, Some(size)) => Length::Exact(size).compressed(),
            (Packing::Chain(chain), Some(size)) if !chain.is_sharded() => Length::Exact(size),
            (Packing::Chain(_), Some(size)) => {
                Length::AtMost(size.saturating_mul(4).saturating_add(SHARD_OVERHEAD))
            }
            (Packing::Chain(_) | Packing::Pcodec, None) => Length::of_any_chunk(),
        }
    }

    /// Decodes elements of fixed size, exactly those that fill `dst`.
    pub(super) fn decode_into(
        &self,
        element: ElementType,
        src: &[u8],
        dst: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), CodecError> {
        match self {
            Packing::Chain(chain) => chain.fixed_into(src, dst, scratch),
            Packing::PackBits => packbits::decode(src, dst),
            Packing::Pcodec => pcodec::decode(element, src, dst),
            Packing::Zarrs(codec) => codec.decode(src, dst),
        }
    }

    /// Decodes strings of variable length.
    pub(super) fn strings(
        &self,
        src: &[u8],
        scratch: &mut Scratch,
    ) -> Result<StringChunk, CodecError> {
        match self {
            Packing::Chain(chain) => chain.strings(src, scratch),
            _ => Err("text of variable length is encoded by 'vlen-utf8' only".into()),
        }
    }

    /// A short description; none of elements one after the other.
    pub(super) fn summary(&self) -> Option<String> {
        match self {
            Packing::Chain(chain) => {
                // What follows may compress.
                let text = chain.summary();
                let text = text.strip_suffix("uncompressed").unwrap_or(&text);
                let text = text.strip_suffix(", ").unwrap_or(text);
                (!text.is_empty()).then(|| text.to_owned())
            }
            Packing::PackBits => Some("packbits".to_owned()),
            Packing::Pcodec => Some("pcodec".to_owned()),
            Packing::Zarrs(codec) => Some(codec.name.to_owned()),
        }
    }
}
