//! Decoding a chunk: a codec chain run backwards.
//!
//! The sizes of elements and chunk come from the metadata, and all sizes in the encoded bytes are compared with them. Where
//! the metadata has no size (text of variable length, bytes compressed twice), the output grows while it is decoded, up to
//! the largest chunk.

use std::borrow::Cow;

use arrow::buffer::MutableBuffer;

use super::CodecError;
use super::bytes_codec::{self, BytesCodec};
use super::chain::{CodecChain, Serializer};
use super::scratch::GrowBuffer;
use super::{ChunkData, Scratch, StringChunk, checksum, endian, fixed_text, vlen_utf8};
use crate::store::{ElementType, MAX_CHUNK_BYTES};

impl CodecChain {
    /// Decodes one whole chunk, `encoded` being all bytes of its object, to elements in row-major order of the full chunk
    /// shape. The error has what was expected and what was found.
    pub fn decode(&self, encoded: &[u8], scratch: &mut Scratch) -> Result<ChunkData, CodecError> {
        self.check_plausible(encoded)?;
        self.finish(
            self.elements,
            |dst, strings, scratch| match strings {
                Some(strings) => {
                    *strings = self.strings(encoded, scratch)?;
                    Ok(())
                }
                None => self.fixed_into(encoded, dst, scratch),
            },
            scratch,
        )
    }

    /// Like [`decode`](Self::decode), of fixed-size elements (fixed-width text as native-endian elements, too), into a
    /// buffer of exactly [`fixed_len`](Self::fixed_len) bytes.
    pub fn decode_into(
        &self,
        encoded: &[u8],
        dst: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), CodecError> {
        let len = self.fixed_len()?;
        if dst.len() != len {
            return Err(format!("a chunk of {len} bytes into a buffer of {}", dst.len()).into());
        }
        self.fixed_into(encoded, dst, scratch)
    }

    /// Like [`decode_into`](Self::decode_into), into the start of `buffer`, which is grown if it is too small. Bytes behind the
    /// elements are undefined.
    pub fn decode_reusing<'a>(
        &self,
        encoded: &[u8],
        buffer: &'a mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<&'a [u8], CodecError> {
        self.check_plausible(encoded)?;
        let len = self.fixed_len()?;
        if buffer.len() < len {
            // A new allocation, because growing would copy bytes that are not needed.
            *buffer = vec![0; len];
        }
        let dst = buffer.get_mut(..len).unwrap_or_default();
        self.fixed_into(encoded, dst, scratch)?;
        Ok(dst)
    }

    /// The chunk of an absent object.
    pub fn fill_chunk(&self) -> Result<ChunkData, CodecError> {
        self.finish(
            self.elements,
            |dst, strings, _| {
                match strings {
                    Some(strings) => *strings = self.fill.strings(self.elements)?,
                    // The buffer is new and zeroed.
                    None if self.fill.is_zero() => {}
                    None => self.fill.fill(dst),
                }
                Ok(())
            },
            &mut Scratch::default(),
        )
    }

    /// Makes `n` elements of this chain's type: `write` fills a buffer or strings; fixed-width text is then converted to
    /// strings.
    pub(super) fn finish(
        &self,
        n: usize,
        write: impl FnOnce(&mut [u8], Option<&mut StringChunk>, &mut Scratch) -> Result<(), CodecError>,
        scratch: &mut Scratch,
    ) -> Result<ChunkData, CodecError> {
        let Some(size) = self.element.size() else {
            let mut strings = StringChunk::default();
            write(&mut [], Some(&mut strings), scratch)?;
            return Ok(ChunkData::Strings(strings));
        };
        let len = n
            .checked_mul(size)
            .ok_or_else(|| format!("{n} elements of {size} bytes"))?;
        let mut buffer = MutableBuffer::from_len_zeroed(len);
        write(buffer.as_slice_mut(), None, scratch)?;
        match self.element {
            ElementType::Unicode(width) => {
                fixed_text::unicode(buffer.as_slice(), width, n).map(ChunkData::Strings)
            }
            ElementType::Bytes(width) => {
                fixed_text::bytes(buffer.as_slice(), width, n).map(ChunkData::Strings)
            }
            _ => Ok(ChunkData::Fixed(buffer.into())),
        }
    }

    /// Rejects a chunk that is much too small for its elements, before memory is allocated for them.
    pub(crate) fn check_plausible(&self, encoded: &[u8]) -> Result<(), CodecError> {
        if self.is_sharded() {
            return Ok(());
        }
        if let Serializer::Foreign(foreign) = &self.serializer {
            return foreign.check_plausible(encoded.len());
        }
        let Ok(len) = self.fixed_len() else {
            return Ok(());
        };
        let most = self
            .compressors
            .iter()
            .fold(encoded.len(), |most, codec| match codec {
                BytesCodec::Crc32c { .. } => most,
                _ => most.saturating_mul(bytes_codec::MAX_RATIO),
            });
        if most < len {
            return Err(format!(
                "{} encoded bytes cannot hold {len} decoded bytes",
                encoded.len()
            )
            .into());
        }
        Ok(())
    }

    /// Decodes fixed-size elements into `dst`, which must be `fixed_len` bytes.
    pub(super) fn fixed_into(
        &self,
        encoded: &[u8],
        dst: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), CodecError> {
        if self.transpose.is_identity() {
            return self.serialized_into(encoded, dst, scratch);
        }
        let size = self.element.size().unwrap_or(0);
        // Taken out of `scratch`, which the serializer needs.
        let mut buffer: GrowBuffer = std::mem::take(&mut scratch.elements);
        let elements = buffer.slice(dst.len());
        let result = self
            .serialized_into(encoded, elements, scratch)
            .and_then(|()| self.transpose.decode(&self.shape, size, elements, dst));
        scratch.elements = buffer;
        result
    }

    /// Decodes elements in the order in which they were serialized.
    fn serialized_into(
        &self,
        encoded: &[u8],
        dst: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), CodecError> {
        match &self.serializer {
            Serializer::Bytes(endianness) => {
                self.decompress_into(encoded, dst, scratch)?;
                endian::to_native(*endianness, &self.element, dst);
                Ok(())
            }
            Serializer::Sharding(sharding) => {
                let shard = self.decompress(encoded, scratch)?;
                sharding.fixed_into(&shard, dst, scratch)
            }
            Serializer::Foreign(foreign) => foreign.decode_into(encoded, dst, scratch),
            Serializer::Vlen(name) => Err(format!("{name}: elements have no fixed size").into()),
        }
    }

    /// Decodes strings of variable length.
    pub(super) fn strings(
        &self,
        encoded: &[u8],
        scratch: &mut Scratch,
    ) -> Result<StringChunk, CodecError> {
        let bytes = self.decompress(encoded, scratch)?;
        let strings = match &self.serializer {
            Serializer::Vlen(_) => vlen_utf8::decode(&bytes, self.elements)?,
            Serializer::Sharding(sharding) => sharding.strings(&bytes, scratch)?,
            Serializer::Foreign(foreign) => foreign.strings(&bytes, scratch)?,
            Serializer::Bytes(_) => return Err("bytes: elements have no fixed size".into()),
        };
        if self.transpose.is_identity() {
            return Ok(strings);
        }
        // Transposes the strings' indices, then orders the strings by them.
        let numbers: Vec<u8> = (0..strings.len() as u32)
            .flat_map(u32::to_ne_bytes)
            .collect();
        let mut order = vec![0; numbers.len()];
        self.transpose
            .decode(&self.shape, 4, &numbers, &mut order)?;
        let mut out = StringChunk::default();
        for number in order.as_chunks::<4>().0 {
            out.push(strings.get(u32::from_ne_bytes(*number) as usize))?;
        }
        Ok(out)
    }

    /// Runs the bytes → bytes codecs backwards, to exactly `dst.len()` bytes.
    fn decompress_into(
        &self,
        encoded: &[u8],
        dst: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), CodecError> {
        let Some((first, rest)) = self.compressors.split_first() else {
            return copy_exact(encoded, dst);
        };
        let bytes = decompress_with(rest, encoded, scratch, |before| {
            // Only checksums come between these bytes and the elements, so their length is known.
            let known = before.iter().all(is_checksum) && is_checksum(first);
            known.then(|| dst.len() + (before.len() + 1) * checksum::LEN)
        })?;
        first.exact(&bytes, dst, scratch)
    }

    /// Runs the bytes → bytes codecs backwards, to a length that the metadata does not have.
    fn decompress<'a>(
        &self,
        encoded: &'a [u8],
        scratch: &mut Scratch,
    ) -> Result<Cow<'a, [u8]>, CodecError> {
        decompress_with(&self.compressors, encoded, scratch, |_| None)
    }
}

/// Runs `codecs` backwards. `known(before)` is the decoded length of the codec after `before`, where it is known.
fn decompress_with<'a>(
    codecs: &[BytesCodec],
    encoded: &'a [u8],
    scratch: &mut Scratch,
    known: impl Fn(&[BytesCodec]) -> Option<usize>,
) -> Result<Cow<'a, [u8]>, CodecError> {
    let limit = usize::try_from(MAX_CHUNK_BYTES).unwrap_or(usize::MAX);
    let mut bytes = Cow::Borrowed(encoded);
    let mut rest = codecs;
    while let Some((codec, before)) = rest.split_last() {
        bytes = match (codec, bytes) {
            (BytesCodec::Crc32c { at_start }, Cow::Borrowed(bytes)) => {
                Cow::Borrowed(checksum::strip(bytes, *at_start)?)
            }
            (codec, bytes) => Cow::Owned(match known(before) {
                Some(len) => {
                    let mut out = vec![0; len];
                    codec.exact(&bytes, &mut out, scratch)?;
                    out
                }
                None => codec.growing(&bytes, limit, scratch)?,
            }),
        };
        rest = before;
    }
    Ok(bytes)
}

fn is_checksum(codec: &BytesCodec) -> bool {
    matches!(codec, BytesCodec::Crc32c { .. })
}

fn copy_exact(src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
    if src.len() != dst.len() {
        return Err(format!("{} bytes, expected {}", src.len(), dst.len()).into());
    }
    dst.copy_from_slice(src);
    Ok(())
}
