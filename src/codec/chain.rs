//! An array's codec chain as data, and decoding its chunks.
//!
//! Built once per array from its metadata; whatever cannot be decoded is refused here, by name, before any chunk is
//! read. A chain is: transposes, one serializer, bytes → bytes codecs. Decoding runs it backwards. The sizes of elements
//! and chunk come from the metadata, and everything that the encoded bytes claim is compared with them.

use std::borrow::Cow;

use arrow::buffer::MutableBuffer;

use super::bytes_codec::{self, BytesCodec};
use super::scratch::GrowBuffer;
use super::sharding::Sharding;
use super::transpose::Transpose;
use super::{ChunkData, Scratch, StringChunk, checksum, endian, fixed_text, vlen_utf8};
use crate::store::{ArrayMeta, CodecSpec, ElementType, Endianness, FillValue, MAX_CHUNK_BYTES};

/// How elements become bytes.
#[derive(Debug, Clone)]
pub enum Serializer {
    /// One after the other.
    Bytes(Endianness),
    /// Variable-length strings.
    VlenUtf8,
    /// A grid of smaller chunks.
    Sharding(Box<Sharding>),
}

/// A parsed and checked codec chain, with what is needed to decode chunks: their shape, element type and fill value.
#[derive(Debug, Clone)]
pub struct CodecChain {
    element: ElementType,
    shape: Vec<usize>,
    elements: usize,
    transpose: Transpose,
    serializer: Serializer,
    /// In encoding order.
    compressors: Vec<BytesCodec>,
    /// One native-endian element; empty where it is all zeros, or text of variable length.
    fill: Vec<u8>,
    fill_text: String,
}

impl CodecChain {
    /// Parses the codecs of an array. The error names the codec that is not supported, and what is.
    pub fn try_new(array: &ArrayMeta) -> Result<CodecChain, String> {
        let shape = array
            .chunks
            .iter()
            .map(|len| usize::try_from(*len))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| format!("chunks of shape {:?} are too large", array.chunks))?;
        Self::parse(array.element, &array.fill_value, &shape, &array.codecs, 0)
    }

    pub(super) fn parse(
        element: ElementType,
        fill_value: &FillValue,
        shape: &[usize],
        codecs: &[CodecSpec],
        depth: usize,
    ) -> Result<CodecChain, String> {
        // Text of variable length takes at least four bytes.
        let size = element.size().unwrap_or(4);
        let elements = shape.iter().try_fold(1usize, |n, len| n.checked_mul(*len));
        let elements = elements
            .filter(|n| {
                n.checked_mul(size)
                    .is_some_and(|len| len as u64 <= MAX_CHUNK_BYTES)
            })
            .ok_or_else(|| {
                format!(
                    "a chunk of shape {shape:?} of {element} is larger than {MAX_CHUNK_BYTES} bytes"
                )
            })?;

        let mut transpose = Transpose::identity(shape.len());
        let mut serializer = None;
        let mut compressors = Vec::new();
        for codec in codecs {
            let name = codec.name.strip_prefix("numcodecs.").unwrap_or(&codec.name);
            let configuration = &codec.configuration;
            if serializer.is_some() {
                match BytesCodec::parse(name, configuration, &element)? {
                    Some(codec) => compressors.push(codec),
                    None => return Err(unsupported(&codec.name, "after the array's bytes")),
                }
                continue;
            }
            serializer = match name {
                "transpose" => {
                    transpose.then(configuration)?;
                    None
                }
                "bytes" if element != ElementType::String => {
                    Some(Serializer::Bytes(endian::parse(configuration, &element)?))
                }
                "vlen-utf8" if element == ElementType::String => Some(Serializer::VlenUtf8),
                "sharding_indexed" => {
                    let shape = transpose.encoded_shape(shape);
                    let sharding =
                        Sharding::parse(configuration, element, fill_value, &shape, depth)?;
                    Some(Serializer::Sharding(Box::new(sharding)))
                }
                _ => {
                    return Err(unsupported(
                        &codec.name,
                        &format!("on elements of type {element}"),
                    ));
                }
            };
        }
        let Some(serializer) = serializer else {
            return Err(
                "no codec turns elements into bytes: 'bytes', 'vlen-utf8' or 'sharding_indexed'"
                    .to_string(),
            );
        };
        let (fill, fill_text) = fill(&element, fill_value)?;
        Ok(CodecChain {
            element,
            shape: shape.to_vec(),
            elements,
            transpose,
            serializer,
            compressors,
            fill,
            fill_text,
        })
    }

    /// Type of an element.
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// Shape of a chunk.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Elements of a chunk.
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// The transposes before everything else, as one.
    pub fn transpose(&self) -> &Transpose {
        &self.transpose
    }

    /// How elements become bytes.
    pub fn serializer(&self) -> &Serializer {
        &self.serializer
    }

    /// The bytes → bytes codecs, in encoding order.
    pub fn compressors(&self) -> &[BytesCodec] {
        &self.compressors
    }

    /// Bytes of a decoded chunk of fixed-size elements.
    pub fn fixed_len(&self) -> Result<usize, String> {
        let len = self
            .element
            .size()
            .and_then(|size| self.elements.checked_mul(size));
        len.ok_or_else(|| format!("elements of type {} have no fixed size", self.element))
    }

    /// Whether a chunk is a shard.
    pub fn is_sharded(&self) -> bool {
        matches!(self.serializer, Serializer::Sharding(_))
    }

    /// The sharding codec, where inner chunks can be read on their own: nothing transposes the shard or encodes it
    /// further.
    pub fn sharding(&self) -> Option<&Sharding> {
        match &self.serializer {
            Serializer::Sharding(sharding)
                if self.compressors.is_empty() && self.transpose.is_identity() =>
            {
                Some(sharding)
            }
            _ => None,
        }
    }

    /// `Some` if a chunk is one Blosc container of one-byte numbers in row-major order, so that bit-planes can be counted
    /// in its blocks.
    pub fn as_plain_blosc(&self) -> Option<()> {
        let numbers = self.element.size() == Some(1) && !self.is_text();
        match (&self.serializer, self.compressors.as_slice()) {
            (Serializer::Bytes(_), [BytesCodec::Blosc { .. }])
                if numbers && self.transpose.is_identity() =>
            {
                Some(())
            }
            _ => None,
        }
    }

    /// A short description: `blosc(zstd, bitshuffle)`, `vlen-utf8, zstd`, `sharding(100x10: gzip)`, `uncompressed`.
    pub fn summary(&self) -> String {
        let mut parts = Vec::new();
        if !self.transpose.is_identity() {
            parts.push("transpose".to_string());
        }
        match &self.serializer {
            Serializer::Bytes(endianness) if *endianness != endian::NATIVE => {
                parts.push(format!("{endianness}-endian"));
            }
            Serializer::Bytes(_) => {}
            Serializer::VlenUtf8 => parts.push("vlen-utf8".to_string()),
            Serializer::Sharding(sharding) => {
                let shape: Vec<String> = sharding
                    .inner_shape()
                    .iter()
                    .map(usize::to_string)
                    .collect();
                parts.push(format!(
                    "sharding({}: {})",
                    shape.join("x"),
                    sharding.inner().summary()
                ));
            }
        }
        parts.extend(self.compressors.iter().map(BytesCodec::summary));
        if self.compressors.is_empty() && !self.is_sharded() {
            parts.push("uncompressed".to_string());
        }
        parts.join(", ")
    }

    /// Decodes one whole chunk, `encoded` being all bytes of its object, to elements in row-major order of the full chunk
    /// shape. The error says what was expected and found.
    pub fn decode(&self, encoded: &[u8], scratch: &mut Scratch) -> Result<ChunkData, String> {
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
    ) -> Result<(), String> {
        let len = self.fixed_len()?;
        if dst.len() != len {
            return Err(format!("a chunk of {len} bytes into {}", dst.len()));
        }
        self.fixed_into(encoded, dst, scratch)
    }

    /// The chunk of an absent object.
    pub fn fill_chunk(&self) -> Result<ChunkData, String> {
        self.finish(
            self.elements,
            |dst, strings, _| {
                match strings {
                    Some(strings) => *strings = self.fill_strings()?,
                    // The buffer is fresh, so zeros are there already.
                    None if self.fill.is_empty() => {}
                    None => self.fill_into(dst),
                }
                Ok(())
            },
            &mut Scratch::default(),
        )
    }

    /// Makes `n` elements of this chain's type: lets `write` fill a buffer or strings, and turns fixed-width text into
    /// strings. The buffer may hold old bytes where it is scratch, so `write` must fill it.
    pub(super) fn finish(
        &self,
        n: usize,
        write: impl FnOnce(&mut [u8], Option<&mut StringChunk>, &mut Scratch) -> Result<(), String>,
        scratch: &mut Scratch,
    ) -> Result<ChunkData, String> {
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

    /// Refuses a chunk that is much too small for its elements before memory is taken for them.
    fn check_plausible(&self, encoded: &[u8]) -> Result<(), String> {
        if self.is_sharded() {
            return Ok(());
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
                "{} encoded bytes cannot hold {len} decoded ones",
                encoded.len()
            ));
        }
        Ok(())
    }

    /// Decodes fixed-size elements into `dst`, which must be `fixed_len` bytes.
    pub(super) fn fixed_into(
        &self,
        encoded: &[u8],
        dst: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), String> {
        if self.transpose.is_identity() {
            return self.serialized_into(encoded, dst, scratch);
        }
        let size = self.element.size().unwrap_or(0);
        // Taken out, so that the decompression contexts can be used while it is written.
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
    ) -> Result<(), String> {
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
            Serializer::VlenUtf8 => Err("vlen-utf8: elements have no fixed size".to_string()),
        }
    }

    /// Decodes strings of variable length.
    pub(super) fn strings(
        &self,
        encoded: &[u8],
        scratch: &mut Scratch,
    ) -> Result<StringChunk, String> {
        let bytes = self.decompress(encoded, scratch)?;
        let strings = match &self.serializer {
            Serializer::VlenUtf8 => vlen_utf8::decode(&bytes, self.elements)?,
            Serializer::Sharding(sharding) => sharding.strings(&bytes, scratch)?,
            Serializer::Bytes(_) => return Err("bytes: elements have no fixed size".to_string()),
        };
        if self.transpose.is_identity() {
            return Ok(strings);
        }
        // Transpose the strings' numbers, then follow them.
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
    ) -> Result<(), String> {
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

    /// Runs the bytes → bytes codecs backwards, to a length that the metadata do not tell.
    fn decompress<'a>(
        &self,
        encoded: &'a [u8],
        scratch: &mut Scratch,
    ) -> Result<Cow<'a, [u8]>, String> {
        decompress_with(&self.compressors, encoded, scratch, |_| None)
    }

    /// Fills `dst`, a whole number of elements, with the fill value.
    pub(super) fn fill_into(&self, dst: &mut [u8]) {
        if self.fill.is_empty() {
            dst.fill(0);
            return;
        }
        for element in dst.chunks_exact_mut(self.fill.len()) {
            element.copy_from_slice(&self.fill);
        }
    }

    /// A chunk of fill values, of strings.
    pub(super) fn fill_strings(&self) -> Result<StringChunk, String> {
        StringChunk::repeated(&self.fill_text, self.elements)
    }

    fn is_text(&self) -> bool {
        matches!(
            self.element,
            ElementType::Bytes(_) | ElementType::Unicode(_) | ElementType::String
        )
    }
}

/// Runs `codecs` backwards. `known(before)` is the decoded length of the codec that `before` precedes, where it is known.
fn decompress_with<'a>(
    codecs: &[BytesCodec],
    encoded: &'a [u8],
    scratch: &mut Scratch,
    known: impl Fn(&[BytesCodec]) -> Option<usize>,
) -> Result<Cow<'a, [u8]>, String> {
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

fn copy_exact(src: &[u8], dst: &mut [u8]) -> Result<(), String> {
    if src.len() != dst.len() {
        return Err(format!("{} bytes, expected {}", src.len(), dst.len()));
    }
    dst.copy_from_slice(src);
    Ok(())
}

/// The fill value as one native-endian element (empty for zeros) and as text.
fn fill(element: &ElementType, value: &FillValue) -> Result<(Vec<u8>, String), String> {
    let Some(size) = element.size() else {
        return match value {
            FillValue::Null => Ok((Vec::new(), String::new())),
            FillValue::Text(text) => Ok((Vec::new(), text.clone())),
            FillValue::Bytes(bytes) => match String::from_utf8(bytes.clone()) {
                Ok(text) => Ok((Vec::new(), text)),
                Err(_) => Err("the fill value is not valid UTF-8".to_string()),
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
        ));
    }
    endian::to_native(Endianness::Little, element, &mut bytes);
    Ok((bytes, String::new()))
}

fn unsupported(name: &str, place: &str) -> String {
    format!(
        "the codec '{name}' is not supported {place}; supported are: transpose; bytes, vlen-utf8 (strings), \
         sharding_indexed; {}",
        bytes_codec::SUPPORTED
    )
}

#[cfg(test)]
#[path = "chain_tests.rs"]
mod tests;
