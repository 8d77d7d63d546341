//! Codec chains from an array's metadata.
//!
//! A chain that cannot be decoded is an error here, before any chunk is read. The error names the codec that is not supported.

use serde_json::{Map, Value};

use super::CodecError;
use super::bytes_codec::{self, BytesCodec};
use super::chain::{CodecChain, Serializer, Sharding};
use super::endian;
use super::fill::Fill;
use super::shard_index::IndexLayout;
use super::transpose::Transpose;
use crate::store::{ArrayMeta, CodecSpec, ElementType, FillValue, MAX_CHUNK_BYTES};

/// Levels of shards within shards that are supported.
const MAX_DEPTH: usize = 4;

impl CodecChain {
    /// Parses the codecs of an array. The error names the codec that is not supported, and what is.
    pub fn try_new(array: &ArrayMeta) -> Result<CodecChain, CodecError> {
        let shape = array
            .chunks
            .iter()
            .map(|len| usize::try_from(*len))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| format!("chunks of shape {:?} are too large", array.chunks))?;
        Self::parse(array.element, &array.fill_value, &shape, &array.codecs, 0)
    }

    fn parse(
        element: ElementType,
        fill_value: &FillValue,
        shape: &[usize],
        codecs: &[CodecSpec],
        depth: usize,
    ) -> Result<CodecChain, CodecError> {
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
                    .into(),
            );
        };
        let fill = Fill::new(&element, fill_value)?;
        Ok(CodecChain {
            element,
            shape: shape.to_vec(),
            elements,
            transpose,
            serializer,
            compressors,
            fill,
        })
    }
}

impl Sharding {
    fn parse(
        configuration: &Map<String, Value>,
        element: ElementType,
        fill: &FillValue,
        shape: &[usize],
        depth: usize,
    ) -> Result<Sharding, CodecError> {
        if depth >= MAX_DEPTH {
            return Err(
                format!("sharding_indexed: shards are nested more than {MAX_DEPTH} deep").into(),
            );
        }
        let inner_shape: Vec<usize> = configuration
            .get("chunk_shape")
            .and_then(Value::as_array)
            .and_then(|lens| {
                lens.iter()
                    .map(|len| len.as_u64().and_then(|len| usize::try_from(len).ok()))
                    .collect()
            })
            .ok_or("sharding_indexed: 'chunk_shape' must be a list of lengths")?;
        let fits = inner_shape.len() == shape.len()
            && shape
                .iter()
                .zip(&inner_shape)
                .all(|(len, inner)| *inner > 0 && len % inner == 0);
        if !fits {
            return Err(format!(
                "sharding_indexed: inner chunks of shape {inner_shape:?} do not divide shards of shape {shape:?}"
            ).into());
        }
        let grid: Vec<usize> = shape
            .iter()
            .zip(&inner_shape)
            .map(|(len, inner)| len / inner)
            .collect();
        let n_inner = grid
            .iter()
            .try_fold(1usize, |n, len| n.checked_mul(*len))
            .ok_or("sharding_indexed: too many inner chunks")?;
        let codecs = configuration
            .get("codecs")
            .and_then(Value::as_array)
            .ok_or("sharding_indexed: 'codecs' must be a list")?
            .iter()
            .map(codec_spec)
            .collect::<Result<Vec<_>, _>>()?;
        let inner = CodecChain::parse(element, fill, &inner_shape, &codecs, depth + 1)
            .map_err(|e| format!("sharding_indexed: inner codecs: {e}"))?;
        Ok(Sharding {
            index: IndexLayout::parse(configuration, n_inner)?,
            shape: shape.to_vec(),
            inner_shape,
            grid,
            n_inner,
            inner,
        })
    }
}

fn unsupported(name: &str, place: &str) -> CodecError {
    format!(
        "the codec '{name}' is not supported {place}; supported are: transpose; bytes, vlen-utf8 (strings), \
         sharding_indexed; {}",
        bytes_codec::SUPPORTED
    )
    .into()
}

fn codec_spec(codec: &Value) -> Result<CodecSpec, CodecError> {
    let name = codec.get("name").and_then(Value::as_str).or(codec.as_str());
    let Some(name) = name else {
        return Err(format!("sharding_indexed: the codec {codec} has no name").into());
    };
    let configuration = codec
        .get("configuration")
        .and_then(Value::as_object)
        .cloned();
    Ok(CodecSpec {
        name: name.to_string(),
        configuration: configuration.unwrap_or_default(),
    })
}
