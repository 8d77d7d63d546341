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
use super::{ForeignChain, foreign};
use crate::store::{ArrayMeta, CodecSpec, ElementType, FillValue, MAX_CHUNK_BYTES, ZarrFormat};

/// Levels of shards within shards that are supported.
const MAX_DEPTH: usize = 4;

/// What a chain encodes, other than the values.
#[derive(Clone, Copy)]
pub(super) struct Layout<'a> {
    pub(super) element: ElementType,
    pub(super) fill: &'a FillValue,
    pub(super) shape: &'a [usize],
    /// Of the metadata that have the codecs.
    pub(super) format: ZarrFormat,
    /// Shards around this chain.
    pub(super) depth: usize,
}

impl Layout<'_> {
    /// The elements of a chunk, which is not larger than is supported.
    pub(super) fn elements(&self) -> Result<usize, CodecError> {
        let (shape, element) = (self.shape, self.element);
        // Text of variable length takes at least four bytes.
        let size = element.size().unwrap_or(4);
        let elements = shape.iter().try_fold(1usize, |n, len| n.checked_mul(*len));
        elements
            .filter(|n| {
                n.checked_mul(size)
                    .is_some_and(|len| len as u64 <= MAX_CHUNK_BYTES)
            })
            .ok_or_else(|| {
                format!(
                    "a chunk of shape {shape:?} of {element} is larger than {MAX_CHUNK_BYTES} bytes"
                )
                .into()
            })
    }
}

impl CodecChain {
    /// Parses the codecs of an array. The error names the codec that is not supported, and what is.
    pub fn try_new(array: &ArrayMeta) -> Result<CodecChain, CodecError> {
        let shape = array
            .chunks
            .iter()
            .map(|len| usize::try_from(*len))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| format!("chunks of shape {:?} are too large", array.chunks))?;
        let layout = Layout {
            element: array.element,
            fill: &array.fill_value,
            shape: &shape,
            format: array.format,
            depth: 0,
        };
        Self::parse(&layout, &array.codecs)
    }

    /// Parses a list of codecs. One that the fast path does not know makes the chain one of `foreign`.
    pub(super) fn parse(
        layout: &Layout<'_>,
        codecs: &[CodecSpec],
    ) -> Result<CodecChain, CodecError> {
        Self::parse_known(layout, codecs).or_else(|error| {
            match codecs.iter().any(|codec| foreign::is_foreign(&codec.name)) {
                true => ForeignChain::parse(layout, codecs),
                false => Err(error),
            }
        })
    }

    fn parse_known(layout: &Layout<'_>, codecs: &[CodecSpec]) -> Result<CodecChain, CodecError> {
        let Layout { element, shape, .. } = *layout;
        let elements = layout.elements()?;
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
                "vlen-utf8" if element == ElementType::String => {
                    Some(Serializer::Vlen("vlen-utf8"))
                }
                "vlen-bytes" if element == ElementType::String => {
                    Some(Serializer::Vlen("vlen-bytes"))
                }
                "sharding_indexed" => {
                    let shape = transpose.encoded_shape(shape);
                    let layout = Layout {
                        shape: &shape,
                        ..*layout
                    };
                    let sharding = Sharding::parse(configuration, &layout)?;
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
            return Err(no_serializer());
        };
        let fill = Fill::new(&element, layout.fill)?;
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
        layout: &Layout<'_>,
    ) -> Result<Sharding, CodecError> {
        let shape = layout.shape;
        if layout.depth >= MAX_DEPTH {
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
        let inner = Layout {
            shape: &inner_shape,
            depth: layout.depth + 1,
            ..*layout
        };
        let inner = CodecChain::parse(&inner, &codecs)
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

/// The error of a codec that nothing here decodes.
pub(super) fn unsupported(name: &str, place: &str) -> CodecError {
    format!(
        "the codec '{name}' is not supported {place}; supported are: transpose; bytes, vlen-utf8 and vlen-bytes (strings), \
         sharding_indexed; {}; on the host {}",
        bytes_codec::SUPPORTED,
        foreign::SUPPORTED
    )
    .into()
}

/// The error of a list of codecs without one from arrays to bytes.
pub(super) fn no_serializer() -> CodecError {
    "no codec turns elements into bytes: 'bytes', 'vlen-utf8' or 'sharding_indexed'".into()
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
